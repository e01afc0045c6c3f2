// Channels side by side in memory: a tile is a rectangle of pixels by some vectors of channels, kept as it is stored.
#pragma once
#include "upfirdn2d/exact.cuh"
#include "vector.cuh"

// Up to four threads a pixel, one sixteen-byte vector of channels each; the tile's plane counts groups of channels.
template <typename T> __device__ __forceinline__ void channels_last(const UpFirDn2dParameters &p) {
    using C = Compute<T>;
    constexpr i32 LANES = Pack<T>::LANES;
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
    const i32 pixels = p.window_width * p.window_height;
    // Not unrolled: sixteen bytes a thread keep memory busy, and the compiler got the end of the unrolled loop wrong.
#pragma unroll 1
    for (i32 pixel = thread >> log2; pixel < pixels; pixel += THREADS >> log2) {
        const i32 row = divide(pixel, p.width_magic), column = pixel - row * p.window_width;
        const i32 x = axis_x.start + column, y = axis_y.start + row;
        uint4 value = make_uint4(0, 0, 0, 0);
        if (present && u32(x) < u32(p.input_width) && u32(y) < u32(p.input_height)) {
            value = *reinterpret_cast<const uint4 *>(input + (y * i32(p.input_strides[2]) + x * i32(p.input_strides[3])));
        }
        window[(pixel << log2) + part] = value;
    }
    __syncthreads();
    if (!present) return;

    const i32 separable = taps.header->separable;
    T *output = pointer<T>(p.output) + batch * p.output_strides[0] + channel;
    for (i32 pixel = thread >> log2; pixel < width << p.tile_height_log2; pixel += THREADS >> log2) {
        const i32 x = pixel & (width - 1), y = pixel >> p.tile_width_log2;
        if (tile.x + x >= p.output_width || tile.y + y >= p.output_height) continue;
        const i32 ahead_x = x * p.down_x - axis_x.phase, ahead_y = y * p.down_y - axis_y.phase;
        const i32 column = i32(u32(ahead_x + p.up_x - 1) / u32(p.up_x)), tap_x = column * p.up_x - ahead_x;
        i32 row = i32(u32(ahead_y + p.up_y - 1) / u32(p.up_y)), tap_y = row * p.up_y - ahead_y;
        C sums[LANES];
#pragma unroll
        for (int i = 0; i < LANES; i++) sums[i] = C(0);
        for (; tap_y < p.taps_y; tap_y += p.up_y, row++) {
            const C *weights = separable ? taps.x : taps.full + tap_y * p.taps_x;
            const uint4 *samples = window + ((row * p.window_width + column) << log2) + part;
            C across[LANES];
#pragma unroll
            for (int i = 0; i < LANES; i++) across[i] = separable ? C(0) : sums[i];
            for (i32 tap = tap_x; tap < p.taps_x; tap += p.up_x, samples += parts) {
                const Pack<T> pack = load_pack(reinterpret_cast<const T *>(samples));
                const C weight = weights[tap];
#pragma unroll
                for (int i = 0; i < LANES; i++) across[i] = fma(pack.get(i), weight, across[i]);
            }
            const C weight = separable ? taps.y[tap_y] : C(0);
#pragma unroll
            for (int i = 0; i < LANES; i++) sums[i] = separable ? fma(across[i], weight, sums[i]) : across[i];
        }
        Pack<T> result;
#pragma unroll
        for (int i = 0; i < LANES; i++) result.set(i, sums[i]);
        store_pack(output + ((tile.y + y) * i32(p.output_strides[2]) + (tile.x + x) * i32(p.output_strides[3])), result);
    }
}
