// The part of the input that a tile of outputs needs, in shared memory, zero where it is padding.
#pragma once
#include "upfirdn2d/taps.cuh"

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

// Neighbouring threads read neighbouring columns of one row. ADJACENT: columns lie side by side in memory. WARPS: one
// warp a row, beginning at a whole sector of memory; otherwise a row has a thread for each column. LONG: rows may have
// more columns than three warps, so four loads are under way before the first is stored.
template <typename T, bool ADJACENT, bool WARPS, bool LONG, typename C>
__device__ __forceinline__ void load_rows(const UpFirDn2dParameters &p, const i64 *origins, C *window, i32 planes,
                                          i32 start_x, i32 start_y) {
    const i32 thread = threadIdx.x, width = p.window_width, lines = p.window_height * planes;
    const i32 row_threads_log2 = WARPS ? 5 : p.row_threads_log2, row_threads = 1 << row_threads_log2;
    const i64 stride_x = ADJACENT ? 1 : p.input_strides[3];
    // Columns before the window that share its first sector: the loads begin there, and skip them.
    const i32 ahead = ADJACENT && WARPS ? start_x & i32(32 / sizeof(T) - 1) : 0;
    // The columns from `low` on are inside the input, `known` of them.
    const i32 low = min(max(-start_x, 0), width), known = min(max(i32(p.input_width) - start_x, low), width) - low;
#pragma unroll 1
    for (i32 line = thread >> row_threads_log2; line < lines; line += THREADS >> row_threads_log2) {
        const i32 z = divide(line, p.height_magic), row = line - z * p.window_height, y = start_y + row;
        const u32 columns = u32(y) < u32(p.input_height) ? known : 0;
        i32 column = (thread & (row_threads - 1)) - ahead;
        C *target = window + z * p.plane_pitch + row * p.pitch + column;
        const T *source =
            pointer<const T>(p.input) + origins[z] + y * i32(p.input_strides[2]) + (start_x + column) * stride_x;
        if constexpr (WARPS && LONG) {
#pragma unroll 1
            for (; column + 3 * row_threads < width; column += 4 * row_threads) {
                C values[4];
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    const bool inside = u32(column + k * row_threads - low) < columns;
                    values[k] = inside ? widen(source[k * row_threads * stride_x]) : C(0);
                }
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    if (!ADJACENT || k > 0 || column >= 0) target[k * row_threads] = values[k];
                }
                source += 4 * row_threads * stride_x;
                target += 4 * row_threads;
            }
        }
        const auto value = [&]() { return u32(column - low) < columns ? widen(*source) : C(0); };
        if constexpr (WARPS) {
#pragma unroll 1
            for (; column < width; column += row_threads) {
                if (!ADJACENT || column >= 0) *target = value();
                source += row_threads * stride_x;
                target += row_threads;
            }
        } else if (column < width) {
            *target = value();
        }
    }
}

template <typename T, bool ADJACENT, bool LONG, typename C>
__device__ __forceinline__ void load_window(const UpFirDn2dParameters &p, const i64 *origins, C *window, i32 planes,
                                            i32 start_x, i32 start_y) {
    if (p.row_threads_log2 == 5) {
        load_rows<T, ADJACENT, true, LONG>(p, origins, window, planes, start_x, start_y);
    } else {
        load_rows<T, ADJACENT, false, LONG>(p, origins, window, planes, start_x, start_y);
    }
}
