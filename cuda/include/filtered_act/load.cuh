// Rows of a stream, from global to shared memory.
#pragma once
#include "border.cuh"
#include "filtered_act/words.cuh"
#include "parameters/filtered_act.cuh"
#include "upfirdn2d/window.cuh"

// As `divide`, for every divisor: none is needed for one.
__device__ __forceinline__ i32 quotient_of(i32 value, u32 magic) { return magic ? divide(value, magic) : value; }

// Elements before an address that share its sector.
template <typename T> __device__ __forceinline__ i32 ahead_of(const T *address) {
    return i32(u64(address) / sizeof(T)) & i32(32 / sizeof(T) - 1);
}

// One plane of a stream, and the first column of a tile's window.
template <typename T> struct Source {
    const T *plane;
    i32 first;
    bool adjacent;
};

// `rows` rows from `row` on, each `window_width` columns, to rows `pitch` apart: zeros, or samples by the border's rule, where
// there are none; samples have `bias` added. A warp loads a piece of a row that begins at a whole sector, two halves at a time,
// and TOGETHER words of each lane, half as many where one holds a pair or a float64, are under way before the first is stored. What is not whole comes one by one.
template <typename T>
__device__ __forceinline__ void load_rows(const StreamParameters &p, const Source<T> &source, i32 row, i32 rows,
                                          Compute<T> *target, i32 pitch, Compute<T> bias) {
    constexpr i32 WIDE = sizeof(T) == 2 ? 2 : 1;
    constexpr i32 LOADS = sizeof(T) == 4 ? TOGETHER : TOGETHER / 2;
    using C = Compute<T>;
    using Word = typename WordOf<WIDE * sizeof(T)>::type;
    using One = typename WordOf<sizeof(T)>::type;
    const i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, units = rows * p.pieces;
    const i32 border = p.filter.border;
    // Where a unit's first element is, and in which row of memory; none where the row is padding.
    const auto locate = [&](i32 unit, i32 &line, i32 &column) {
        line = quotient_of(unit, p.piece_magic);
        i32 y = row + line;
        const bool inside = is_inside(y, p.height);
        if (!inside && border != CONSTANT) y = border_source(border, y, p.height);
        const T *start = source.plane + i64(y) * p.strides[2];
        column = ((unit - line * p.pieces) * 32 + lane) * WIDE;
        if (source.adjacent) column -= ahead_of(start + source.first);
        return inside || border != CONSTANT ? start : nullptr;
    };
#pragma unroll 1
    for (i32 first = warp; first < units; first += LOADS * (THREADS / 32)) {
        Word words[LOADS];
        One ones[LOADS][WIDE];
        u32 whole = 0, present = 0;
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const i32 unit = first + i * (THREADS / 32);
            clear(words[i]);
#pragma unroll
            for (int l = 0; l < WIDE; l++) clear(ones[i][l]);
            if (unit < units) {
                i32 line, column;
                const T *start = locate(unit, line, column);
                const i32 x = source.first + column;
                if (start) {
                    if (source.adjacent && column >= 0 && column + WIDE <= p.window_width && x >= 0 && x + WIDE <= p.width) {
                        words[i] = *reinterpret_cast<const Word *>(start + x);
                        whole |= 1u << i;
                    } else {
#pragma unroll
                        for (int l = 0; l < WIDE; l++) {
                            i32 at = x + l;
                            const bool inside = is_inside(at, p.width);
                            if (is_inside(column + l, p.window_width) && (inside || border != CONSTANT)) {
                                if (!inside) at = border_source(border, at, p.width);
                                ones[i][l] = *reinterpret_cast<const One *>(start + at * p.strides[3]);
                                present |= 1u << (WIDE * i + l);
                            }
                        }
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const i32 unit = first + i * (THREADS / 32);
            if (unit < units) {
                i32 line, column;
                locate(unit, line, column);
                C *to = target + line * pitch + column;
                const bool is_whole = whole >> i & 1;
#pragma unroll
                for (int l = 0; l < WIDE; l++) {
                    C value = first_of<T>(ones[i][l]);
                    if (is_whole) {
                        if constexpr (WIDE == 2) value = l ? second_of<T>(words[i]) : first_of<T>(words[i]);
                        else value = first_of<T>(words[i]);
                    }
                    if (is_whole || (present >> (WIDE * i + l) & 1)) value += bias;
                    if (is_inside(column + l, p.window_width)) to[l] = value;
                }
            }
        }
    }
}
