// Kernel gradient: for every tap the sum over all outputs of gradient times the sample that the tap meets.
#pragma once
#include "reduce.cuh"
#include "upfirdn2d/window.cuh"

// One block a tile: gradient and samples in shared memory, one warp a tap. A lane adds the products of one row in the
// compute type and the rows in float64.
template <typename T> __device__ __forceinline__ void kernel_gradient_tiled(const KernelGradientParameters &p) {
    using C = Compute<T>;
    extern __shared__ double2 dynamic[];
    const i32 thread = threadIdx.x, width = 1 << p.tile_width_log2, height = 1 << p.tile_height_log2;
    C *gradient = reinterpret_cast<C *>(dynamic), *window = gradient + (width << p.tile_height_log2);
    const Tile tile(p.tiles_x, p.tiles_y, p.tile_width_log2, p.tile_height_log2, 1);
    const Axis axis_x(tile.x, p.up_x, p.down_x, i32(p.pad_x)), axis_y(tile.y, p.up_y, p.down_y, i32(p.pad_y));
    const T *gradients = pointer<const T>(p.gradient) + plane_offset(tile.plane, p.channels, p.gradient_strides);
    const T *inputs = pointer<const T>(p.input) + plane_offset(tile.plane, p.channels, p.input_strides);
    for (i32 k = thread; k < width << p.tile_height_log2; k += THREADS) {
        const i32 x = tile.x + (k & (width - 1)), y = tile.y + (k >> p.tile_width_log2);
        const bool inside = x < p.output_width && y < p.output_height;
        gradient[k] = inside ? widen(gradients[y * i32(p.gradient_strides[2]) + x * i32(p.gradient_strides[3])]) : C(0);
    }
    for (i32 k = thread; k < p.window_width * p.window_height; k += THREADS) {
        const i32 row = k / p.window_width, x = axis_x.start + (k - row * p.window_width), y = axis_y.start + row;
        const bool inside = u32(x) < u32(p.input_width) && u32(y) < u32(p.input_height);
        window[k] = inside ? widen(inputs[y * i32(p.input_strides[2]) + x * i32(p.input_strides[3])]) : C(0);
    }
    __syncthreads();

    const i32 lane = thread % 32;
    for (i32 tap = thread / 32; tap < p.taps_x * p.taps_y; tap += THREADS / 32) {
        const i32 tap_y = tap / p.taps_x, tap_x = tap - tap_y * p.taps_x;
        double sum = 0.0;
        for (i32 y = 0; y < height; y++) {
            const i32 position_y = y * p.down_y + tap_y - axis_y.phase;
            const i32 row = position_y / p.up_y;
            // What lies outside the input adds nothing, whatever the gradient there. A position before the first sample
            // is less than one step before it, so no multiple of the step.
            if (row * p.up_y != position_y || tile.y + y >= p.output_height) continue;
            if (u32(axis_y.start + row) >= u32(p.input_height)) continue;
            C products = C(0);
#pragma unroll 1
            for (i32 x = lane; x < width; x += 32) {
                const i32 position_x = x * p.down_x + tap_x - axis_x.phase;
                const i32 column = position_x / p.up_x;
                const bool meets = column * p.up_x == position_x && tile.x + x < p.output_width;
                if (meets && u32(axis_x.start + column) < u32(p.input_width)) {
                    products = fma(gradient[(y << p.tile_width_log2) + x], window[row * p.window_width + column], products);
                }
            }
            sum += double(products);
        }
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffu, sum, distance);
        if (lane == 0) {
            const i32 place = p.flip ? p.taps_x * p.taps_y - 1 - tap : tap;
            pointer<double>(p.partials)[place * p.stride + blockIdx.x] = sum;
        }
    }
}

__device__ __forceinline__ i64 wide_plane_offset(i64 plane, i64 channels, const i64 (&strides)[4]) {
    const i64 batch = plane / channels;
    return batch * strides[0] + (plane - batch * channels) * strides[1];
}

// One block a tap and chunk of outputs, straight from global memory: for kernels whose window fits no tile.
template <typename T> __device__ __forceinline__ void kernel_gradient_strided(const KernelGradientParameters &p) {
    const i64 tap = i64(blockIdx.x) / p.blocks, chunk = i64(blockIdx.x) - tap * p.blocks;
    const i64 tap_y = tap / p.taps_x, tap_x = tap - tap_y * p.taps_x;
    double sum = 0.0;
#pragma unroll 1
    for (i32 start = 0; start < CHUNK; start += THREADS) {
        const i64 index = chunk * CHUNK + start + threadIdx.x, lines = index / p.output_width, plane = lines / p.output_height;
        if (plane >= p.planes) break;
        const i64 x = index - lines * p.output_width, y = lines - plane * p.output_height;
        const i64 position_x = x * p.down_x + tap_x - p.pad_x, position_y = y * p.down_y + tap_y - p.pad_y;
        const i64 column = position_x / p.up_x, row = position_y / p.up_y;
        if (position_x < 0 || position_y < 0 || column * p.up_x != position_x || row * p.up_y != position_y) continue;
        if (column >= p.input_width || row >= p.input_height) continue;
        const T gradient = pointer<const T>(p.gradient)[wide_plane_offset(plane, p.channels, p.gradient_strides) +
                                                        y * p.gradient_strides[2] + x * p.gradient_strides[3]];
        const T sample = pointer<const T>(p.input)[wide_plane_offset(plane, p.channels, p.input_strides) +
                                                   row * p.input_strides[2] + column * p.input_strides[3]];
        sum += double(widen(gradient)) * double(widen(sample));
    }
    const double total = block_sum(sum);
    if (threadIdx.x == 0) {
        const i64 place = p.flip ? i64(p.taps_x) * p.taps_y - 1 - tap : tap;
        pointer<double>(p.partials)[place * p.stride + chunk] = total;
    }
}
