// One output after the other, straight from global memory: any strides, any size, and padding that adds nothing even
// where a tap is infinite. The same order of operations as the tiled forms, so the same bits.
#pragma once
#include "upfirdn2d/window.cuh"

// Position: i32 where the host has found that every coordinate fits, as for tiles. FINITE: every tap may be finite;
// where one is known not to be, the filter is no outer product either.
template <typename T, typename Position, bool FINITE>
__device__ __forceinline__ void filter_one(const UpFirDn2dParameters &p, const Taps<Compute<T>> &taps, i64 batch, i64 channel,
                                           Position x, Position y) {
    using C = Compute<T>;
    // The first sample at or after the output's position and the tap that meets it.
    const auto first = [](Position output, i32 down, i64 pad, i32 up, i32 &tap) {
        const Position position = output * down - Position(pad);
        const Position sample = divide_up(position, up);
        tap = i32(sample * up - position);
        return i64(sample);
    };
    i32 tap_x, tap_y;
    const i64 column = first(x, p.down_x, p.pad_x, p.up_x, tap_x);
    i64 row = first(y, p.down_y, p.pad_y, p.up_y, tap_y);
    const bool separable = FINITE && taps.header->separable;
    const T *input = pointer<const T>(p.input) + batch * p.input_strides[0] + channel * p.input_strides[1];
    C sum = C(0);
#pragma unroll 1
    for (; tap_y < p.taps_y; tap_y += p.up_y, row++) {
        if (u64(row) >= u64(p.input_height)) continue;
        const C *weights = separable ? taps.x : taps.full + i64(tap_y) * p.taps_x;
        const T *samples = input + row * p.input_strides[2];
        C across = separable ? C(0) : sum;
        i64 sample = column;
#pragma unroll 1
        for (i32 tap = tap_x; tap < p.taps_x; tap += p.up_x, sample++) {
            if (u64(sample) < u64(p.input_width)) {
                across = fma(widen(samples[sample * p.input_strides[3]]), weights[tap], across);
            }
        }
        sum = separable ? fma(across, taps.y[tap_y], sum) : across;
    }
    const i64 offset = batch * p.output_strides[0] + channel * p.output_strides[1] + y * p.output_strides[2] +
                       x * p.output_strides[3];
    pointer<T>(p.output)[offset] = narrow<T>(sum);
}

// The outputs of a tile and `depth` planes from `plane` on.
template <typename T>
__device__ __forceinline__ void filter_exactly(const UpFirDn2dParameters &p, const Taps<Compute<T>> &taps, const Tile &tile,
                                               i32 plane, i32 depth) {
    const i32 width = 1 << p.tile_width_log2, area = width << p.tile_height_log2;
#pragma unroll 1
    for (i32 index = threadIdx.x; index < area * depth; index += THREADS) {
        const i32 line = index >> p.tile_width_log2, z = line >> p.tile_height_log2;
        const i32 x = tile.x + (index & (width - 1)), y = tile.y + line - (z << p.tile_height_log2);
        if (x < p.output_width && y < p.output_height) {
            const u32 batch = u32(plane + z) / u32(p.channels);
            filter_one<T, i32, false>(p, taps, batch, u32(plane + z) - batch * u32(p.channels), x, y);
        }
    }
}

// One thread an output.
template <typename T, typename Index> __device__ __forceinline__ void strided(const UpFirDn2dParameters &p) {
    const Index index = Index(blockIdx.x) * Index(THREADS) + Index(threadIdx.x);
    const Index width = Index(p.output_width), height = Index(p.output_height), channels = Index(p.channels);
    if (index >= width * height * Index(p.planes)) return;
    Index channel = 0, rest = index;
    if (p.channels_fastest) {
        rest = index / channels;
        channel = index - rest * channels;
    }
    const Index lines = rest / width, x = rest - lines * width;
    Index planes = lines / height;
    const Index y = lines - planes * height;
    if (!p.channels_fastest) {
        const Index batches = planes / channels;
        channel = planes - batches * channels;
        planes = batches;
    }
    const Taps<Compute<T>> taps(pointer<const TapsHeader>(p.prepared), p.taps_x, p.taps_y);
    filter_one<T, i64, true>(p, taps, planes, channel, x, y);
}
