// The usual factors with four taps: every thread computes a small rectangle of outputs in registers from the window.
#pragma once
#include "upfirdn2d/exact.cuh"
#include "vector.cuh"

template <typename T, int UP, int DOWN> struct Tiled {
    using C = Compute<T>;
    static_assert((UP == 1 || UP == 2) && (DOWN == 1 || UP == 1), "the factors this arithmetic is written for");
    enum : i32 {
        TAPS = 4,
        PER_PHASE = TAPS / UP,                           // taps that meet samples rather than inserted zeros
        WIDTH = 16 / sizeof(C),                          // outputs of a thread: one vector wide
        HEIGHT = DOWN == 2 ? 2 : 4,                      // a window of twice the size must fit too
        WIDTH_LOG2 = WIDTH == 4 ? 2 : 1,
        HEIGHT_LOG2 = HEIGHT == 4 ? 2 : 1,
        OUTPUTS_X = WIDTH / UP,                          // outputs of one phase
        OUTPUTS_Y = HEIGHT / UP,
        STEP_X = WIDTH * DOWN / UP,                      // input columns from one thread to the next
        STEP_Y = HEIGHT * DOWN / UP,
        UNIT = STEP_X * sizeof(C) % 16 == 0 ? 16 / sizeof(C) : (STEP_X * sizeof(C) % 8 == 0 ? 8 / sizeof(C) : 1),
        NEEDED = (OUTPUTS_X - 1) * DOWN + PER_PHASE + (UP - 1), // the odd phase may begin one column later
        COLUMNS = (NEEDED + UNIT - 1) / UNIT * UNIT,
        ROWS = (OUTPUTS_Y - 1) * DOWN + PER_PHASE,
        BATCH = UP == 2 ? 2 : 6, // vectors of a thread under way before the first is stored
    };

    // Samples of an upsampled row that the outputs of phase `q` use: for UP == 2 the odd outputs begin one column
    // later, unless the window begins at an odd position.
    static constexpr __device__ __forceinline__ i32 shift(i32 q, i32 phase) { return UP == 2 && q == 1 ? 1 - phase : 0; }
    static constexpr __device__ __forceinline__ i32 first_tap(i32 q, i32 phase) {
        return UP == 1 ? 0 : (q == 0 ? phase : 1 - phase);
    }

    static __device__ __forceinline__ C sample(const C (&row)[COLUMNS], i32 q, i32 phase, int column) {
        if constexpr (UP == 1) {
            return row[column];
        } else {
            return q == 1 && phase == 0 ? row[column + 1] : row[column];
        }
    }

    // Every row of samples is filtered along x once, for all rows of outputs that it is part of.
    template <int PHASE_X, int PHASE_Y>
    static __device__ __forceinline__ void separable(const Taps<C> &taps, const C *window, i32 pitch,
                                                     C (&sums)[HEIGHT][WIDTH]) {
        C weights_x[UP][PER_PHASE], weights_y[UP][PER_PHASE];
#pragma unroll
        for (int q = 0; q < UP; q++) {
#pragma unroll
            for (int t = 0; t < PER_PHASE; t++) {
                weights_x[q][t] = taps.x[first_tap(q, PHASE_X) + t * UP];
                weights_y[q][t] = taps.y[first_tap(q, PHASE_Y) + t * UP];
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS + shift(UP - 1, PHASE_Y); r++) {
            C row[COLUMNS], across[WIDTH];
            read_row<C, COLUMNS, UNIT>(window + r * pitch, row);
#pragma unroll
            for (int x = 0; x < WIDTH; x++) {
                across[x] = C(0);
#pragma unroll
                for (int t = 0; t < PER_PHASE; t++) {
                    across[x] = fma(sample(row, x % UP, PHASE_X, x / UP * DOWN + t), weights_x[x % UP][t], across[x]);
                }
            }
#pragma unroll
            for (int y = 0; y < HEIGHT; y++) {
                const int t = r - shift(y % UP, PHASE_Y) - y / UP * DOWN;
                if (t >= 0 && t < PER_PHASE) {
#pragma unroll
                    for (int x = 0; x < WIDTH; x++) sums[y][x] = fma(across[x], weights_y[y % UP][t], sums[y][x]);
                }
            }
        }
    }

    static __device__ __forceinline__ void separable(const Taps<C> &taps, const C *window, i32 pitch, i32 phase_x,
                                                     i32 phase_y, C (&sums)[HEIGHT][WIDTH]) {
        if constexpr (UP == 1) {
            separable<0, 0>(taps, window, pitch, sums);
        } else if (phase_x == phase_y) {
            if (phase_x) separable<1, 1>(taps, window, pitch, sums);
            else separable<0, 0>(taps, window, pitch, sums);
        } else {
            if (phase_x) separable<1, 0>(taps, window, pitch, sums);
            else separable<0, 1>(taps, window, pitch, sums);
        }
    }

    static __device__ __forceinline__ void direct(const Taps<C> &taps, const C *window, i32 pitch, i32 phase_x,
                                                  i32 phase_y, C (&sums)[HEIGHT][WIDTH]) {
#pragma unroll
        for (int qy = 0; qy < UP; qy++) {
            C weights[PER_PHASE][UP][PER_PHASE];
#pragma unroll
            for (int t = 0; t < PER_PHASE; t++) {
#pragma unroll
                for (int k = 0; k < TAPS; k++) {
                    const i32 y = first_tap(qy, phase_y) + t * UP, x = first_tap(k / PER_PHASE, phase_x) + k % PER_PHASE * UP;
                    weights[t][k / PER_PHASE][k % PER_PHASE] = taps.full[y * TAPS + x];
                }
            }
            const C *rows = window + shift(qy, phase_y) * pitch;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                C row[COLUMNS];
                read_row<C, COLUMNS, UNIT>(rows + r * pitch, row);
#pragma unroll
                for (int m = 0; m < OUTPUTS_Y; m++) {
                    const int t = r - m * DOWN;
                    if (t >= 0 && t < PER_PHASE) {
#pragma unroll
                        for (int x = 0; x < WIDTH; x++) {
#pragma unroll
                            for (int s = 0; s < PER_PHASE; s++) {
                                C &sum = sums[m * UP + qy][x];
                                sum = fma(sample(row, x % UP, phase_x, x / UP * DOWN + s), weights[t][x % UP][s], sum);
                            }
                        }
                    }
                }
            }
        }
    }

    static __device__ __forceinline__ void store_vector(T *output, const C (&values)[WIDTH]) {
        if constexpr (sizeof(T) == 2) {
            const u32 low = u32(narrow<T>(values[0]).bits) | u32(narrow<T>(values[1]).bits) << 16;
            const u32 high = u32(narrow<T>(values[2]).bits) | u32(narrow<T>(values[3]).bits) << 16;
            *reinterpret_cast<uint2 *>(output) = make_uint2(low, high);
        } else if constexpr (sizeof(T) == 4) {
            *reinterpret_cast<float4 *>(output) = make_float4(values[0], values[1], values[2], values[3]);
        } else {
            *reinterpret_cast<double2 *>(output) = make_double2(values[0], values[1]);
        }
    }

    // Rows that do not begin at whole vectors are put together in shared memory, so that stores stay consecutive.
    static __device__ __forceinline__ void store_staged(const UpFirDn2dParameters &p, C *staging, const Tile &tile,
                                                        i32 planes, bool busy, i32 own, const C (&sums)[HEIGHT][WIDTH]) {
        __syncthreads();
        const i32 width = 1 << p.tile_width_log2, plane = width << p.tile_height_log2;
        if (busy) {
#pragma unroll
            for (int j = 0; j < HEIGHT; j++) {
#pragma unroll
                for (int x = 0; x < WIDTH; x++) staging[own + j * width + x] = sums[j][x];
            }
        }
        __syncthreads();
#pragma unroll 1
        for (i32 index = threadIdx.x; index < plane * planes; index += THREADS) {
            const i32 line = index >> p.tile_width_log2, x = tile.x + (index & (width - 1));
            const i32 z = line >> p.tile_height_log2, y = tile.y + line - (z << p.tile_height_log2);
            if (x < p.output_width && y < p.output_height) {
                const i64 offset = plane_offset(tile.plane + z, p.channels, p.output_strides);
                (pointer<T>(p.output) + offset)[y * i32(p.output_strides[2]) + x] = narrow<T>(staging[index]);
            }
        }
    }

    static __device__ __forceinline__ void run(const UpFirDn2dParameters &p) {
        extern __shared__ double2 dynamic[];
        i64 *origins = reinterpret_cast<i64 *>(dynamic);
        TapsHeader *staged = reinterpret_cast<TapsHeader *>(origins + THREADS);
        C *window = Taps<C>::after(staged, TAPS, TAPS);
        const i32 across = p.tile_width_log2 - WIDTH_LOG2, down = p.tile_height_log2 - HEIGHT_LOG2; // threads, log2
        const i32 thread = threadIdx.x, depth = p.planes_per_block;
        const i32 thread_x = thread & ((1 << across) - 1), thread_y = (thread >> across) & ((1 << down) - 1);
        const i32 thread_z = thread >> (across + down);
        const Tile tile(p.tiles_x, p.tiles_y, p.tile_width_log2, p.tile_height_log2, depth);
        const Taps<C> taps(staged, TAPS, TAPS);
        FewTaps<C> few(p, TAPS, TAPS);
        few.load();
        // Of every thread's plane, whether there is one or not.
        origins[thread] = plane_offset(tile.plane + thread, p.channels, p.input_strides);
        const i32 left = i32(p.planes) - tile.plane, planes = left < depth ? left : depth;
        __syncthreads();
        const Axis x(tile.x, UP, DOWN, i32(p.pad_x)), y(tile.y, UP, DOWN, i32(p.pad_y));
        if (p.vectors) {
            load_vectors<T, BATCH>(p, origins, window, planes, x.start, y.start);
        } else {
            load_window<T, true, 3, 4>(p, origins, window, planes, x.start, y.start);
        }
        few.prepare(staged);
        __syncthreads();
        if (!taps.header->finite) return filter_exactly<T>(p, taps, tile, tile.plane, planes);

        const bool busy = thread_z < planes;
        const i32 plane = tile.plane + thread_z;
        C sums[HEIGHT][WIDTH];
#pragma unroll
        for (int j = 0; j < HEIGHT; j++) {
#pragma unroll
            for (int i = 0; i < WIDTH; i++) sums[j][i] = C(0);
        }
        if (busy) {
            const C *own = window + thread_z * p.plane_pitch + thread_y * STEP_Y * p.pitch + thread_x * STEP_X;
            if (taps.header->separable) {
                separable(taps, own, p.pitch, x.phase, y.phase, sums);
            } else {
                direct(taps, own, p.pitch, x.phase, y.phase, sums);
            }
        }
        if (!p.aligned_output) {
            const i32 line = (thread_z << p.tile_height_log2) + thread_y * HEIGHT;
            return store_staged(p, window, tile, planes, busy, (line << p.tile_width_log2) + thread_x * WIDTH, sums);
        }
        const i32 column = tile.x + thread_x * WIDTH, first = tile.y + thread_y * HEIGHT;
        if (!busy || column >= p.output_width) return;
        T *output = pointer<T>(p.output) + plane_offset(plane, p.channels, p.output_strides) + column;
#pragma unroll
        for (int j = 0; j < HEIGHT; j++) {
            if (first + j < p.output_height) store_vector(output + (first + j) * i32(p.output_strides[2]), sums[j]);
        }
    }
};
