// Every factor, tap count and layout whose window fits shared memory.
#pragma once
#include "upfirdn2d/exact.cuh"

// The first sample that output `position` of the tile uses; `tap` becomes the tap that meets it.
__device__ __forceinline__ i32 first_sample(i32 position, i32 up, i32 down, i32 phase, i32 &tap) {
    const i32 ahead = position * down - phase, sample = i32(u32(ahead + up - 1) / u32(up));
    tap = sample * up - ahead;
    return sample;
}

// Outputs of a thread that share each tap.
enum : i32 { TOGETHER = 4 };

// Adds what every step-th of some taps meets, from the first on.
template <typename C>
__device__ __forceinline__ void add_samples(const C *(&samples)[TOGETHER], const C *weights, i32 left, i32 step,
                                            C (&sums)[TOGETHER]) {
    constexpr int SIX = 6;
#pragma unroll 1
    for (; left > (SIX - 1) * step; left -= SIX * step) {
#pragma unroll
        for (int t = 0; t < SIX; t++, weights += step) {
            const C weight = *weights;
#pragma unroll
            for (int k = 0; k < TOGETHER; k++) sums[k] = fma(samples[k][t], weight, sums[k]);
        }
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) samples[k] += SIX;
    }
#pragma unroll 1
    for (; left > 0; left -= step, weights += step) {
        const C weight = *weights;
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) sums[k] = fma(*samples[k]++, weight, sums[k]);
    }
}

// The window filtered along x, kept by columns, an odd number of elements apart: the samples that taps meet one after the other
// lie side by side for both axes. A thread has one column of outputs in several rows, which share each tap.
__device__ __forceinline__ i32 column_pitch(const UpFirDn2dParameters &p) { return p.window_height | 1; }

template <typename C>
__device__ __forceinline__ void filter_rows(const UpFirDn2dParameters &p, const Taps<C> &taps, const C *window, C *across,
                                            const Axis &axis) {
    const i32 width = 1 << p.tile_width_log2, lines = (p.window_height + TOGETHER - 1) / TOGETHER;
#pragma unroll 1
    for (i32 k = threadIdx.x; k < lines << p.tile_width_log2; k += THREADS) {
        const i32 x = k & (width - 1), row = (k >> p.tile_width_log2) * TOGETHER;
        i32 tap, sample = first_sample(x, p.up_x, p.down_x, axis.phase, tap);
        // Rows past the last are the last once more.
        const C *samples[TOGETHER];
        C sums[TOGETHER];
#pragma unroll
        for (int r = 0; r < TOGETHER; r++) {
            samples[r] = window + min(row + r, p.window_height - 1) * p.pitch + sample;
            sums[r] = C(0);
        }
        add_samples(samples, taps.x + tap, p.taps_x - tap, p.up_x, sums);
#pragma unroll
        for (int r = 0; r < TOGETHER; r++) {
            if (row + r < p.window_height) across[x * column_pitch(p) + row + r] = sums[r];
        }
    }
}

// And then along y. A thread has one row of outputs in several columns, a quarter of the tile apart.
template <typename T>
__device__ __forceinline__ void filter_columns(const UpFirDn2dParameters &p, const Taps<Compute<T>> &taps,
                                               const Compute<T> *across, const Tile &tile, const Axis &axis) {
    using C = Compute<T>;
    const i32 apart_log2 = p.tile_width_log2 - 2, apart = 1 << apart_log2;
    T *output = pointer<T>(p.output) + plane_offset(tile.plane, p.channels, p.output_strides);
#pragma unroll 1
    for (i32 k = threadIdx.x; k < apart << p.tile_height_log2; k += THREADS) {
        const i32 x = k & (apart - 1), y = k >> apart_log2;
        if (tile.x + x >= p.output_width || tile.y + y >= p.output_height) continue;
        i32 tap;
        const i32 row = first_sample(y, p.up_y, p.down_y, axis.phase, tap);
        const C *samples[TOGETHER];
        C sums[TOGETHER];
#pragma unroll
        for (int c = 0; c < TOGETHER; c++) {
            samples[c] = across + (x + (c << apart_log2)) * column_pitch(p) + row;
            sums[c] = C(0);
        }
        add_samples(samples, taps.y + tap, p.taps_y - tap, p.up_y, sums);
        T *target = output + ((tile.y + y) * i32(p.output_strides[2]) + (tile.x + x) * i32(p.output_strides[3]));
#pragma unroll
        for (int c = 0; c < TOGETHER; c++) {
            const i32 further = c << apart_log2;
            if (tile.x + x + further < p.output_width) target[further * i32(p.output_strides[3])] = narrow<T>(sums[c]);
        }
    }
}

// Taps that are no outer product, all at once.
template <typename T>
__device__ __forceinline__ void filter_directly(const UpFirDn2dParameters &p, const Taps<Compute<T>> &taps,
                                                const Compute<T> *window, const Tile &tile, const Axis &axis_x,
                                                const Axis &axis_y) {
    using C = Compute<T>;
    const i32 width = 1 << p.tile_width_log2;
    T *output = pointer<T>(p.output) + plane_offset(tile.plane, p.channels, p.output_strides);
#pragma unroll 1
    for (i32 k = threadIdx.x; k < width << p.tile_height_log2; k += THREADS) {
        const i32 x = k & (width - 1), y = k >> p.tile_width_log2;
        if (tile.x + x >= p.output_width || tile.y + y >= p.output_height) continue;
        i32 tap_x, tap_y;
        const i32 column = first_sample(x, p.up_x, p.down_x, axis_x.phase, tap_x);
        i32 row = first_sample(y, p.up_y, p.down_y, axis_y.phase, tap_y);
        C sum = C(0);
#pragma unroll 1
        for (; tap_y < p.taps_y; tap_y += p.up_y, row++) {
            const C *samples = window + row * p.pitch + column;
#pragma unroll 2
            for (i32 tap = tap_x; tap < p.taps_x; tap += p.up_x) {
                sum = fma(*samples++, taps.full[tap_y * p.taps_x + tap], sum);
            }
        }
        const i32 offset = (tile.y + y) * i32(p.output_strides[2]) + (tile.x + x) * i32(p.output_strides[3]);
        output[offset] = narrow<T>(sum);
    }
}

// Shared memory: the plane's offset; header and taps; the window; then for outer products the window filtered along x.
template <typename T> __device__ __forceinline__ void general(const UpFirDn2dParameters &p) {
    using C = Compute<T>;
    extern __shared__ double2 dynamic[];
    i64 *origins = reinterpret_cast<i64 *>(dynamic);
    TapsHeader *staged = reinterpret_cast<TapsHeader *>(origins + 2);
    C *window = Taps<C>::after(staged, p.taps_x, p.taps_y), *across = window + p.pitch * p.window_height;
    const i32 thread = threadIdx.x;
    const Tile tile(p.tiles_x, p.tiles_y, p.tile_width_log2, p.tile_height_log2, 1);
    const Axis axis_x(tile.x, p.up_x, p.down_x, i32(p.pad_x)), axis_y(tile.y, p.up_y, p.down_y, i32(p.pad_y));
    const Taps<C> taps(staged, p.taps_x, p.taps_y);
    stage_taps<C>(p, staged);
    if (thread == 0) *origins = plane_offset(tile.plane, p.channels, p.input_strides);
    __syncthreads();
    const i32 separable = taps.header->separable;
    if (!taps.header->finite) return filter_exactly<T>(p, taps, tile, tile.plane, 1);
    if (p.input_strides[3] == 1) {
        load_window<T, true, 2, 4>(p, origins, window, 1, axis_x.start, axis_y.start);
    } else {
        load_window<T, false, 2, 4>(p, origins, window, 1, axis_x.start, axis_y.start);
    }
    __syncthreads();

    if (separable) {
        filter_rows<C>(p, taps, window, across, axis_x);
        __syncthreads();
        filter_columns<T>(p, taps, across, tile, axis_y);
    } else {
        filter_directly<T>(p, taps, window, tile, axis_x, axis_y);
    }
}
