// The part of the input that a tile of outputs needs, in shared memory, zero where it is padding.
#pragma once
#include "upfirdn2d/taps.cuh"
#include "vector.cuh"

// Rounded up, whatever the sign of the dividend; the divisor is positive.
template <typename Integer> __device__ __forceinline__ Integer divide_up(Integer value, i32 divisor) {
    const Integer quotient = value / divisor;
    return quotient + (value - quotient * divisor > 0);
}

// Outputs begin at `first`; input `start` is the first that any of them uses, by tap `phase` of output `first`.
struct Axis {
    i32 start, phase;
    __device__ __forceinline__ Axis(i32 first, i32 up, i32 down, i32 pad) {
        const i32 position = first * down - pad;
        start = divide_up(position, up);
        phase = start * up - position;
    }
};

// Exact for the small numbers of a tile: value * divisor < 2^32.
__device__ __forceinline__ i32 divide(i32 value, u32 magic) { return i32(__umulhi(u32(value), magic)); }

struct Tile {
    i32 x, y;    // first output
    i32 plane;   // first plane
    __device__ __forceinline__ Tile(i32 tiles_x, i32 tiles_y, i32 width_log2, i32 height_log2, i32 depth) {
        u32 rest = blockIdx.x / u32(tiles_x);
        x = i32(blockIdx.x - rest * u32(tiles_x)) << width_log2;
        const u32 group = rest / u32(tiles_y);
        y = i32(rest - group * u32(tiles_y)) << height_log2;
        plane = i32(group) * depth;
    }
};

// The host keeps planes below 2^31 and every offset within a plane too.
__device__ __forceinline__ i64 plane_offset(i32 plane, i64 channels, const i64 (&strides)[4]) {
    const u32 batch = u32(plane) / u32(channels);
    return i64(batch) * strides[0] + i64(u32(plane) - batch * u32(channels)) * strides[1];
}

// A row that is not there has no place in the window.
enum : i32 { NOWHERE = -0x40000000 };

// Neighbouring threads read neighbouring columns of one row; ROWS rows by CHUNKS pieces of a row are under way before the
// first is stored. ADJACENT: columns lie side by side in memory. WARPS: one warp a row, beginning at a whole sector of memory;
// otherwise a row has fewer threads, and is one piece.
template <typename T, bool ADJACENT, bool WARPS, int ROWS, int CHUNKS, typename C>
__device__ __forceinline__ void load_rows(const UpFirDn2dParameters &p, const i64 *origins, C *window, i32 planes,
                                          i32 start_x, i32 start_y) {
    static_assert(WARPS || CHUNKS == 1, "few threads have one piece of a row");
    const i32 thread = threadIdx.x, width = p.window_width, lines = p.window_height * planes;
    const i32 row_threads_log2 = WARPS ? 5 : p.row_threads_log2, step = 1 << row_threads_log2;
    const i32 rows = THREADS >> row_threads_log2;
    const i64 stride_x = ADJACENT ? 1 : p.input_strides[3];
    // Columns before the window that share its first sector: the loads begin there, and skip them.
    const i32 ahead = ADJACENT && WARPS ? start_x & (i32(32 / sizeof(T)) - 1) : 0;
    // The columns from `low` on are inside the input, `known` of them.
    const i32 low = max(-start_x, 0), known = max(min(i32(p.input_width) - start_x, width) - low, 0);
    const i32 first = (thread & (step - 1)) - ahead;
#pragma unroll 1
    for (i32 line = thread >> row_threads_log2; line < lines; line += ROWS * rows) {
#pragma unroll 1
        for (i32 column = first; column < width; column += CHUNKS * step) {
            const T *input = pointer<const T>(p.input) + (start_x + column) * stride_x;
            T values[ROWS][CHUNKS];
            i32 targets[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                // Past the last row nothing is loaded and nothing stored.
                const i32 own = min(line + r * rows, lines - 1), z = divide(own, p.height_magic);
                const i32 row = own - z * p.window_height, y = start_y + row;
                const u32 columns = line + r * rows < lines && u32(y) < u32(p.input_height) ? known : 0;
                const T *source = input + origins[z] + y * i32(p.input_strides[2]);
                targets[r] = line + r * rows < lines ? z * p.plane_pitch + row * p.pitch + column : NOWHERE;
#pragma unroll
                for (int k = 0; k < CHUNKS; k++) {
                    values[r][k] = T{};
                    if (u32(column + k * step - low) < columns) values[r][k] = source[k * step * stride_x];
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                if (targets[r] == NOWHERE) continue;
#pragma unroll
                for (int k = 0; k < CHUNKS; k++) {
                    if (u32(column + k * step) < u32(width)) window[targets[r] + k * step] = widen(values[r][k]);
                }
            }
        }
    }
}

// The same by the threads that the host has planned for a row.
template <typename T, bool ADJACENT, int ROWS, int CHUNKS, typename C>
__device__ __forceinline__ void load_window(const UpFirDn2dParameters &p, const i64 *origins, C *window, i32 planes,
                                            i32 start_x, i32 start_y) {
    if (p.row_threads_log2 == 5) {
        load_rows<T, ADJACENT, true, ROWS, CHUNKS>(p, origins, window, planes, start_x, start_y);
    } else {
        load_rows<T, ADJACENT, false, ROWS, 1>(p, origins, window, planes, start_x, start_y);
    }
}

// Sixteen bytes of a row whose columns are `shift` further on in the window than in memory: the end of a thread's own vector
// and the beginning of its neighbour's, which the lane after it holds. Every lane of a warp takes part.
template <typename T> __device__ __forceinline__ Pack<T> shifted(const uint4 &own, i32 shift) {
    constexpr u32 ALL = 0xffffffffu;
    const u32 words[7] = {own.x, own.y, own.z, own.w, __shfl_down_sync(ALL, own.x, 1), __shfl_down_sync(ALL, own.y, 1),
                          sizeof(T) == 4 ? __shfl_down_sync(ALL, own.z, 1) : 0};
    Pack<T> result;
    u32 moved[6];
    if constexpr (sizeof(T) == 2) {
#pragma unroll
        for (int i = 0; i < 5; i++) moved[i] = shift & 2 ? words[i + 1] : words[i];
#pragma unroll
        for (int i = 0; i < 4; i++) result.words[i] = __funnelshift_r(moved[i], moved[i + 1], (shift & 1) * 16);
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < 6; i++) moved[i] = shift & 1 ? words[i + 1] : words[i];
#pragma unroll
        for (int i = 0; i < 4; i++) result.words[i] = shift & 2 ? moved[i + 2] : moved[i];
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) result.words[i] = shift ? words[i + 2] : words[i];
    }
    return result;
}

__device__ __forceinline__ void store_shared(float *target, float a, float b, float c, float d) {
    *reinterpret_cast<float4 *>(target) = make_float4(a, b, c, d);
}
__device__ __forceinline__ void store_shared(double *target, double a, double b) {
    *reinterpret_cast<double2 *>(target) = make_double2(a, b);
}

// Rows that are whole vectors of sixteen bytes in memory, BATCH of them a thread under way before the first is stored. The
// vectors of all rows are numbered as one; a warp has 31 of them, and its last lane one more, for its neighbour alone.
template <typename T, int BATCH, typename C>
__device__ __forceinline__ void load_vectors(const UpFirDn2dParameters &p, const i64 *origins, C *window, i32 planes,
                                             i32 start_x, i32 start_y) {
    enum : i32 {
        LANES = 16 / sizeof(T),   // columns of a vector in memory
        STORED = 16 / sizeof(C),  // and in the window
        OF_WARP = 31,
        STEP = THREADS / 32 * OF_WARP,
    };
    const i32 lane = threadIdx.x % 32, width = p.window_width;
    // Where the window begins within its first vector: whole vectors of the window, which are left out, and single columns.
    const i32 from = start_x & -LANES, shift = start_x & (STORED - 1), late = start_x & (LANES - STORED);
    const i32 limit = max(min(i32(p.input_width), start_x + width), 0);
    const i32 vectors = (width + 2 * LANES - STORED - 1) / LANES + 1, total = vectors * p.window_height * planes;
    const T *input = pointer<const T>(p.input);
#pragma unroll 1
    for (i32 first = i32(threadIdx.x) / 32 * OF_WARP; first < total; first += BATCH * STEP) {
        uint4 values[BATCH];
        i32 targets[BATCH], columns[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            columns[k] = width;
            if (first + k * STEP >= total) continue; // the whole warp
            const i32 index = first + k * STEP + lane, own = min(index, total - 1);
            const i32 line = divide(own, p.width_magic), column = (own - line * vectors) * LANES;
            const i32 z = divide(line, p.height_magic), row = line - z * p.window_height;
            const i32 x = from + column, y = start_y + row;
            values[k] = make_uint4(0, 0, 0, 0);
            if (u32(x) < u32(limit) && u32(y) < u32(p.input_height)) {
                values[k] = *reinterpret_cast<const uint4 *>(input + origins[z] + y * i32(p.input_strides[2]) + x);
            }
            // What is past the end, or for the neighbour alone, stays past every row.
            if (lane < OF_WARP && index < total) columns[k] = column - late;
            targets[k] = z * p.plane_pitch + row * p.pitch + column - late;
        }
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            if (first + k * STEP >= total) continue;
            const Pack<T> pack = shifted<T>(values[k], shift);
            C *target = window + targets[k];
            if constexpr (sizeof(T) == 8) {
                if (u32(columns[k]) < u32(width)) store_shared(target, pack.get(0), pack.get(1));
            } else {
#pragma unroll
                for (int i = 0; i < LANES; i += 4) {
                    if (u32(columns[k] + i) < u32(width)) {
                        store_shared(target + i, pack.get(i), pack.get(i + 1), pack.get(i + 2), pack.get(i + 3));
                    }
                }
            }
        }
    }
}
