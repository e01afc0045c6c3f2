// Every factor, tap count and layout whose window fits shared memory.
#pragma once
#include "upfirdn2d/exact.cuh"

// Shared memory: the plane's offset; header and taps; the window; then for outer products the window filtered along x.
template <typename T> __device__ __forceinline__ void general(const UpFirDn2dParameters &p) {
    using C = Compute<T>;
    extern __shared__ double2 dynamic[];
    i64 *origins = reinterpret_cast<i64 *>(dynamic);
    TapsHeader *staged = reinterpret_cast<TapsHeader *>(origins + 2);
    C *window = Taps<C>::after(staged, p.taps_x, p.taps_y), *across = window + p.pitch * p.window_height;
    const i32 thread = threadIdx.x, width = 1 << p.tile_width_log2;
    const Tile tile(p.tiles_x, p.tiles_y, p.tile_width_log2, p.tile_height_log2, 1);
    const Axis axis_x(tile.x, p.up_x, p.down_x, i32(p.pad_x)), axis_y(tile.y, p.up_y, p.down_y, i32(p.pad_y));
    const Taps<C> taps(staged, p.taps_x, p.taps_y);
    stage_taps<C>(p, staged);
    if (thread == 0) *origins = plane_offset(tile.plane, p.channels, p.input_strides);
    __syncthreads();
    const i32 separable = taps.header->separable;
    if (!taps.header->finite) return filter_exactly<T>(p, taps, tile, tile.plane, 1);
    if (p.input_strides[3] == 1) {
        load_window<T, true, 1, 2, 4>(p, origins, window, 1, axis_x.start, axis_y.start);
    } else {
        load_window<T, false, 1, 2, 4>(p, origins, window, 1, axis_x.start, axis_y.start);
    }
    __syncthreads();

    // The first sample that output `position` of the tile uses; `tap` becomes the tap that meets it.
    const auto first = [](i32 position, i32 up, i32 down, i32 phase, i32 &tap) {
        const i32 ahead = position * down - phase, sample = i32(u32(ahead + up - 1) / u32(up));
        tap = sample * up - ahead;
        return sample;
    };
    if (separable) {
        for (i32 k = thread; k < p.window_height << p.tile_width_log2; k += THREADS) {
            const i32 row = k >> p.tile_width_log2, x = k & (width - 1);
            i32 tap;
            const C *samples = window + row * p.pitch + first(x, p.up_x, p.down_x, axis_x.phase, tap);
            C sum = C(0);
            for (; tap < p.taps_x; tap += p.up_x) sum = fma(*samples++, taps.x[tap], sum);
            across[k] = sum;
        }
        __syncthreads();
    }
    T *output = pointer<T>(p.output) + plane_offset(tile.plane, p.channels, p.output_strides);
    for (i32 k = thread; k < width << p.tile_height_log2; k += THREADS) {
        const i32 x = k & (width - 1), y = k >> p.tile_width_log2;
        if (tile.x + x >= p.output_width || tile.y + y >= p.output_height) continue;
        i32 tap_x, tap_y;
        const i32 column = first(x, p.up_x, p.down_x, axis_x.phase, tap_x);
        i32 row = first(y, p.up_y, p.down_y, axis_y.phase, tap_y);
        C sum = C(0);
        for (; tap_y < p.taps_y; tap_y += p.up_y, row++) {
            if (separable) {
                sum = fma(across[(row << p.tile_width_log2) + x], taps.y[tap_y], sum);
            } else {
                const C *samples = window + row * p.pitch + column;
                for (i32 tap = tap_x; tap < p.taps_x; tap += p.up_x) {
                    sum = fma(*samples++, taps.full[tap_y * p.taps_x + tap], sum);
                }
            }
        }
        const i32 offset = (tile.y + y) * i32(p.output_strides[2]) + (tile.x + x) * i32(p.output_strides[3]);
        output[offset] = narrow<T>(sum);
    }
}
