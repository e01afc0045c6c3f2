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

// One or two neighbours as they are stored, in one load; all bits zero is zero in every type.
template <int BYTES> struct WordOf;
template <> struct WordOf<2> { using type = u16; };
template <> struct WordOf<4> { using type = u32; };
template <> struct WordOf<8> { using type = uint2; };
template <> struct WordOf<16> { using type = uint4; };
__device__ __forceinline__ void clear(u16 &word) { word = 0; }
__device__ __forceinline__ void clear(u32 &word) { word = 0; }
__device__ __forceinline__ void clear(uint2 &word) { word = make_uint2(0, 0); }
__device__ __forceinline__ void clear(uint4 &word) { word = make_uint4(0, 0, 0, 0); }
struct Halves {
    u16 first, second;
};
__device__ __forceinline__ Halves halves_of(u32 word) {
    Halves halves;
    asm("mov.b32 {%0, %1}, %2;" : "=h"(halves.first), "=h"(halves.second) : "r"(word));
    return halves;
}
template <typename T> __device__ __forceinline__ Compute<T> first_of(u16 word) { return widen(T{word}); }
template <typename T> __device__ __forceinline__ Compute<T> first_of(u32 word) {
    if constexpr (sizeof(T) == 2) {
        return widen(T{halves_of(word).first});
    } else {
        return __uint_as_float(word);
    }
}
template <typename T> __device__ __forceinline__ Compute<T> first_of(uint2 word) {
    if constexpr (sizeof(T) == 4) return __uint_as_float(word.x);
    else return __hiloint2double(word.y, word.x);
}
template <typename T> __device__ __forceinline__ Compute<T> first_of(uint4 word) { return __hiloint2double(word.y, word.x); }
template <typename T> __device__ __forceinline__ Compute<T> second_of(u32 word) {
    return widen(T{halves_of(word).second});
}
template <typename T> __device__ __forceinline__ Compute<T> second_of(uint2 word) { return __uint_as_float(word.y); }
template <typename T> __device__ __forceinline__ Compute<T> second_of(uint4 word) { return __hiloint2double(word.w, word.z); }
__device__ __forceinline__ void store_pair(float *target, float first, float second) {
    *reinterpret_cast<float2 *>(target) = make_float2(first, second);
}
__device__ __forceinline__ void store_pair(double *target, double first, double second) {
    *reinterpret_cast<double2 *>(target) = make_double2(first, second);
}

// A row that is not there has no place in the window.
enum : i32 { NOWHERE = -0x40000000 };

// Puts each value of a batch to its place in the window, given the column that it is for.
template <int ROWS, int CHUNKS, typename Word, typename C, typename Put>
__device__ __forceinline__ void store_batch(const Word (&values)[ROWS][CHUNKS], C *window, const i32 (&targets)[ROWS],
                                            i32 column, i32 step, const Put &put) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (targets[r] != NOWHERE) {
#pragma unroll
            for (int k = 0; k < CHUNKS; k++) put(window + targets[r] + k * step, column + k * step, values[r][k]);
        }
    }
}

// Neighbouring threads read neighbouring columns of one row, each WIDE of them; ROWS rows by CHUNKS pieces of a row are
// under way before the first is stored. ADJACENT: columns lie side by side in memory. WARPS: one warp a row, beginning at a
// whole sector of memory; otherwise a row has fewer threads, and is one piece. Pairs: the host has found that rows begin and
// end with whole pairs.
template <typename T, bool ADJACENT, int WIDE, bool WARPS, int ROWS, int CHUNKS, typename C>
__device__ __forceinline__ void load_rows(const UpFirDn2dParameters &p, const i64 *origins, C *window, i32 planes,
                                          i32 start_x, i32 start_y) {
    static_assert(WIDE == 1 || (WIDE == 2 && ADJACENT), "one column or two side by side");
    static_assert(WARPS || CHUNKS == 1, "few threads have one piece of a row");
    using Word = typename WordOf<WIDE * sizeof(T)>::type;
    const i32 thread = threadIdx.x, width = p.window_width, lines = p.window_height * planes;
    const i32 row_threads_log2 = WARPS ? 5 : p.row_threads_log2, row_threads = 1 << row_threads_log2;
    const i32 rows = THREADS >> row_threads_log2, step = WIDE << row_threads_log2;
    const i64 stride_x = ADJACENT ? 1 : p.input_strides[3];
    // Columns before the window that share its first sector, or its first pair: the loads begin there, and skip them.
    const i32 ahead = ADJACENT ? start_x & (WARPS ? i32(32 / sizeof(T)) - 1 : WIDE - 1) : 0;
    // The columns from `low` on are inside the input, `known` of them.
    const i32 low = max(-start_x, 1 - WIDE), known = max(min(i32(p.input_width) - start_x, width) - low, 0);
    const i32 first = (thread & (row_threads - 1)) * WIDE - ahead;
#pragma unroll 1
    for (i32 line = thread >> row_threads_log2; line < lines; line += ROWS * rows) {
#pragma unroll 1
        for (i32 column = first; column < width; column += CHUNKS * step) {
            const T *input = pointer<const T>(p.input) + (start_x + column) * stride_x;
            Word values[ROWS][CHUNKS];
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
                    clear(values[r][k]);
                    if (u32(column + k * step - low) < columns) {
                        values[r][k] = *reinterpret_cast<const Word *>(source + k * step * stride_x);
                    }
                }
            }
            if constexpr (WIDE == 1) {
                store_batch(values, window, targets, column, step, [&](C *target, i32 at, Word value) {
                    if (u32(at) < u32(width)) *target = first_of<T>(value);
                });
            } else if (ahead % 2 == 0) {
                // A pair that ends past the window ends between two rows.
                store_batch(values, window, targets, column, step, [&](C *target, i32 at, Word value) {
                    if (u32(at) < u32(width)) store_pair(target, first_of<T>(value), second_of<T>(value));
                });
            } else {
                store_batch(values, window, targets, column, step, [&](C *target, i32 at, Word value) {
                    if (u32(at) < u32(width)) target[0] = first_of<T>(value);
                    if (u32(at + 1) < u32(width)) target[1] = second_of<T>(value);
                });
            }
        }
    }
}

// The same by the threads that the host has planned for a row. LONG: pieces of a row where it has more than CHUNKS.
template <typename T, bool ADJACENT, int WIDE, int ROWS, int CHUNKS, int LONG = CHUNKS, typename C>
__device__ __forceinline__ void load_window(const UpFirDn2dParameters &p, const i64 *origins, C *window, i32 planes,
                                            i32 start_x, i32 start_y) {
    if (LONG > CHUNKS && p.window_width > CHUNKS * WIDE * 32) {
        load_rows<T, ADJACENT, WIDE, true, ROWS, LONG>(p, origins, window, planes, start_x, start_y);
    } else if (p.row_threads_log2 == 5) {
        load_rows<T, ADJACENT, WIDE, true, ROWS, CHUNKS>(p, origins, window, planes, start_x, start_y);
    } else {
        load_rows<T, ADJACENT, WIDE, false, ROWS, 1>(p, origins, window, planes, start_x, start_y);
    }
}
