// Channels side by side in memory: a tile is a rectangle of pixels by some vectors of channels, kept as it is stored.
#pragma once
#include "upfirdn2d/exact.cuh"
#include "vector.cuh"

// Adds the samples of a row that the taps from `tap` on meet.
template <typename T>
__device__ __forceinline__ void add_row(const UpFirDn2dParameters &p, const uint4 *samples, const Compute<T> *weights, i32 tap,
                                        i32 parts, Compute<T> (&sums)[Pack<T>::LANES]) {
#pragma unroll 2
    for (; tap < p.taps_x; tap += p.up_x, samples += parts) {
        const Pack<T> pack = load_pack(reinterpret_cast<const T *>(samples));
        const Compute<T> weight = weights[tap];
#pragma unroll
        for (int i = 0; i < Pack<T>::LANES; i++) sums[i] = fma(pack.get(i), weight, sums[i]);
    }
}

// Up to four threads a pixel, one sixteen-byte vector of channels each; the tile's plane counts groups of channels.
template <typename T> __device__ __forceinline__ void channels_last(const UpFirDn2dParameters &p) {
    using C = Compute<T>;
    enum : i32 {
        LANES = Pack<T>::LANES,
        UNDER_WAY = 4, // vectors that a thread loads before it stores the first
        HIGH = 4,      // pixels of a thread, one below the other
    };
    const i32 log2 = p.row_threads_log2, parts = 1 << log2;
    extern __shared__ double2 dynamic[];
    TapsHeader *staged = reinterpret_cast<TapsHeader *>(dynamic);
    uint4 *window = reinterpret_cast<uint4 *>(Taps<C>::after(staged, p.taps_x, p.taps_y));
    const i32 thread = threadIdx.x, part = thread & (parts - 1), width = 1 << p.tile_width_log2;
    const Tile tile(p.tiles_x, p.tiles_y, p.tile_width_log2, p.tile_height_log2, 1);
    const Axis axis_x(tile.x, p.up_x, p.down_x, i32(p.pad_x)), axis_y(tile.y, p.up_y, p.down_y, i32(p.pad_y));
    const i32 groups = (i32(p.channels) / LANES + parts - 1) >> log2;
    const i32 batch = tile.plane / groups;
    const i32 start = ((tile.plane - batch * groups) << log2) * LANES, channel = start + part * LANES;
    const bool present = channel < p.channels;
    const Taps<C> taps(staged, p.taps_x, p.taps_y);
    stage_taps<C>(p, staged);
    __syncthreads();
    if (!taps.header->finite) {
        const i32 left = i32(p.channels) - start, depth = left < parts * LANES ? left : parts * LANES;
        return filter_exactly<T>(p, taps, tile, batch * i32(p.channels) + start, depth);
    }
    const T *input = pointer<const T>(p.input) + batch * p.input_strides[0] + channel;
    const i32 pixels = p.window_width * p.window_height, step = THREADS >> log2;
#pragma unroll 1
    for (i32 begin = 0; begin < pixels; begin += UNDER_WAY * step) {
        const i32 first = begin + (thread >> log2);
        uint4 values[UNDER_WAY];
#pragma unroll
        for (int k = 0; k < UNDER_WAY; k++) {
            const i32 pixel = first + k * step, row = divide(pixel, p.width_magic);
            const i32 x = axis_x.start + pixel - row * p.window_width, y = axis_y.start + row;
            values[k] = make_uint4(0, 0, 0, 0);
            if (present && pixel < pixels && u32(x) < u32(p.input_width) && u32(y) < u32(p.input_height)) {
                values[k] =
                    *reinterpret_cast<const uint4 *>(input + (y * i32(p.input_strides[2]) + x * i32(p.input_strides[3])));
            }
        }
#pragma unroll
        for (int k = 0; k < UNDER_WAY; k++) {
            if (first + k * step < pixels) window[((first + k * step) << log2) + part] = values[k];
        }
    }
    __syncthreads();
    if (!present) return;

    const i32 separable = taps.header->separable, height = 1 << p.tile_height_log2;
    T *output = pointer<T>(p.output) + batch * p.output_strides[0] + channel;
    // A thread has a column of pixels: a row of samples is filtered along x once for all of them.
#pragma unroll 1
    for (i32 column = thread >> log2; column < width * height / HIGH; column += step) {
        const i32 x = column & (width - 1), y = (column >> p.tile_width_log2) * HIGH;
        if (tile.x + x >= p.output_width || tile.y + y >= p.output_height) continue;
        const i32 ahead_x = x * p.down_x - axis_x.phase, ahead_y = y * p.down_y - axis_y.phase;
        const i32 left = i32(u32(ahead_x + p.up_x - 1) / u32(p.up_x)), tap_x = left * p.up_x - ahead_x;
        const i32 top = i32(u32(ahead_y + p.up_y - 1) / u32(p.up_y));
        C sums[HIGH][LANES];
#pragma unroll
        for (int j = 0; j < HIGH; j++) {
#pragma unroll
            for (int i = 0; i < LANES; i++) sums[j][i] = C(0);
        }
        // The tap of the first pixel that meets a row; that of the next is `down` less.
        const i32 last = p.taps_y + (HIGH - 1) * p.down_y;
        i32 tap_y = top * p.up_y - ahead_y;
        const uint4 *row = window + ((top * p.window_width + left) << log2) + part;
        if (separable) {
#pragma unroll 1
            for (; tap_y < last; tap_y += p.up_y, row += p.window_width << log2) {
                C across[LANES];
#pragma unroll
                for (int i = 0; i < LANES; i++) across[i] = C(0);
                add_row<T>(p, row, taps.x, tap_x, parts, across);
#pragma unroll
                for (int j = 0; j < HIGH; j++) {
                    const i32 tap = tap_y - j * p.down_y;
                    if (u32(tap) >= u32(p.taps_y)) continue;
                    const C weight = taps.y[tap];
#pragma unroll
                    for (int i = 0; i < LANES; i++) sums[j][i] = fma(across[i], weight, sums[j][i]);
                }
            }
        } else {
#pragma unroll 1
            for (; tap_y < last; tap_y += p.up_y, row += p.window_width << log2) {
#pragma unroll
                for (int j = 0; j < HIGH; j++) {
                    const i32 tap = tap_y - j * p.down_y;
                    if (u32(tap) < u32(p.taps_y)) add_row<T>(p, row, taps.full + tap * p.taps_x, tap_x, parts, sums[j]);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < HIGH; j++) {
            if (tile.y + y + j >= p.output_height) continue;
            Pack<T> result;
#pragma unroll
            for (int i = 0; i < LANES; i++) result.set(i, sums[j][i]);
            const i32 offset = (tile.y + y + j) * i32(p.output_strides[2]) + (tile.x + x) * i32(p.output_strides[3]);
            store_pack(output + offset, result);
        }
    }
}
