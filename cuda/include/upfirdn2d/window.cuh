// The part of the input that a tile of outputs needs, in shared memory, zero where it is padding.
#pragma once
#include "upfirdn2d/taps.cuh"

// Outputs begin at `first`; input `start` is the first that any of them uses, by tap `phase` of output `first`.
struct Axis {
    i32 start, phase;
    __device__ __forceinline__ Axis(i32 first, i32 up, i32 down, i32 pad) {
        const i32 position = first * down - pad;
        start = position >= 0 ? (position + up - 1) / up : -(-position / up);
        phase = start * up - position;
    }
};

// Exact for the small numbers of a tile: value * divisor < 2^32.
__device__ __forceinline__ i32 divide(i32 value, u32 magic) { return magic ? i32(__umulhi(u32(value), magic)) : value; }

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

// Neighbouring threads read neighbouring columns of one row, beginning at a whole sector of memory; four loads are under
// way before the first is stored. ADJACENT: columns lie side by side in memory. `origins` is shared memory for the
// offsets of the planes, THREADS of them.
template <typename T, bool ADJACENT, typename C>
__device__ __forceinline__ void load_window(const UpFirDn2dParameters &p, i64 *origins, C *window, const Tile &tile,
                                            i32 depth, i32 start_x, i32 start_y) {
    const i32 thread = threadIdx.x;
    const i32 planes = i32(p.planes) - tile.plane < depth ? i32(p.planes) - tile.plane : depth;
    if (thread < planes) origins[thread] = plane_offset(tile.plane + thread, p.channels, p.input_strides);
    __syncthreads();
    const i32 lines = p.window_height * planes, row_threads = 1 << p.row_threads_log2;
    const i32 stride_y = i32(p.input_strides[2]), stride_x = ADJACENT ? 1 : i32(p.input_strides[3]);
    // Columns before the window that share its first sector: the loads begin there, and skip them.
    const i32 ahead = ADJACENT ? start_x & i32(32 / sizeof(T) - 1) : 0;
    for (i32 line = thread >> p.row_threads_log2; line < lines; line += THREADS >> p.row_threads_log2) {
        const i32 z = divide(line, p.height_magic), row = line - z * p.window_height, y = start_y + row;
        C *target = window + z * p.plane_pitch + row * p.pitch;
        const T *source = pointer<const T>(p.input) + origins[z];
        const bool inside = u32(y) < u32(p.input_height);
        for (i32 first = (thread & (row_threads - 1)) - ahead; first < p.window_width; first += 4 * row_threads) {
            C values[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const i32 column = first + k * row_threads, x = start_x + column;
                const bool known = inside && column >= 0 && column < p.window_width && u32(x) < u32(p.input_width);
                values[k] = known ? widen(source[y * stride_y + x * stride_x]) : C(0);
            }
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const i32 column = first + k * row_threads;
                if (column >= 0 && column < p.window_width) target[column] = values[k];
            }
        }
    }
}
