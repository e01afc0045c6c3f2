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

// What a lane loads at once: an element, or two halves.
template <typename T> struct Lane {
    static constexpr i32 WIDE = sizeof(T) == 2 ? 2 : 1;
    using Word = typename WordOf<WIDE * sizeof(T)>::type;
};

// `rows` rows from `row` on, each `window_width` columns, to rows `pitch` apart; samples have `bias` added, and where there are
// none are zeros, or nothing is written where `fill_border` follows. A warp loads a piece of a row that begins at a whole
// sector, two halves at a time, and TOGETHER words of each lane, half as many where one holds a pair or a float64, are under
// way before the first is stored. What is no whole pair comes one by one.
template <typename T>
__device__ __forceinline__ void load_rows(const StreamParameters &p, const Source<T> &source, i32 row, i32 rows,
                                          Compute<T> *target, i32 pitch, Compute<T> bias, bool zeros) {
    using C = Compute<T>;
    using Word = typename Lane<T>::Word;
    constexpr i32 WIDE = Lane<T>::WIDE, LOADS = sizeof(T) == 4 ? TOGETHER : TOGETHER / 2, IN_SECTOR = 32 / sizeof(T);
    const i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, units = rows * p.pieces;
    // Offsets within a plane fit 31 bits; those of places outside it wrap, and are not used.
    const u32 stride_y = u32(p.strides[2]), stride_x = u32(p.strides[3]);
    const u32 begin = u32(u64(source.plane) / sizeof(T)) + u32(source.first);
    // The line of a unit, and the column of this lane's first element.
    const auto locate = [&](i32 unit, i32 &line, i32 &column) {
        line = quotient_of(unit, p.piece_magic);
        column = ((unit - line * p.pieces) * 32 + lane) * WIDE;
        if (source.adjacent) column -= i32((begin + u32(row + line) * stride_y) & u32(IN_SECTOR - 1));
    };
#pragma unroll 1
    for (i32 first = warp; first < units; first += LOADS * (THREADS / 32)) {
        Word words[LOADS];
        u16 seconds[LOADS];
        u32 whole = 0, present = 0;
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const i32 unit = first + i * (THREADS / 32);
            clear(words[i]);
            seconds[i] = 0;
            i32 line, column;
            locate(unit, line, column);
            const i32 x = source.first + column, y = row + line;
            const T *at = source.plane + i32(u32(y) * stride_y + u32(x) * stride_x);
            const bool inside = unit < units && is_inside(y, p.height);
            const bool has_first = inside && is_inside(column, p.window_width) && is_inside(x, p.width);
            if constexpr (WIDE == 1) {
                if (has_first) words[i] = *reinterpret_cast<const Word *>(at);
                present |= u32(has_first) << i;
            } else {
                const bool has_second = inside && is_inside(column + 1, p.window_width) && is_inside(x + 1, p.width);
                if (has_first && has_second && source.adjacent) {
                    words[i] = *reinterpret_cast<const Word *>(at);
                    whole |= 1u << i;
                } else {
                    if (has_first) words[i] = *reinterpret_cast<const u16 *>(at);
                    if (has_second) seconds[i] = *reinterpret_cast<const u16 *>(at + i32(stride_x));
                }
                present |= (u32(has_first) | u32(has_second) << 1) << (2 * i);
            }
        }
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const i32 unit = first + i * (THREADS / 32);
            i32 line, column;
            locate(unit, line, column);
            C *to = target + line * pitch + column;
#pragma unroll
            for (int l = 0; l < WIDE; l++) {
                const bool is_present = present >> (WIDE * i + l) & 1;
                C value = first_of<T>(words[i]);
                if constexpr (WIDE == 2) {
                    if (l) value = whole >> i & 1 ? second_of<T>(words[i]) : first_of<T>(seconds[i]);
                }
                if (is_present) value += bias;
                if (unit < units && is_inside(column + l, p.window_width) && (is_present || zeros)) to[l] = value;
            }
        }
    }
}

// Of the same rows, what lies outside the signal and is not zero: samples by the border's rule, BORDER_TOGETHER of a thread
// under way at once.
template <typename T>
__device__ __forceinline__ void fill_border(const StreamParameters &p, const Source<T> &source, i32 row, i32 rows,
                                            Compute<T> *target, i32 pitch, Compute<T> bias) {
    const i32 width = p.window_width;
    // Columns left and right of the signal's, lines above and below.
    const i32 left = min(max(-source.first, 0), width), right = min(max(source.first + width - p.width, 0), width - left);
    const i32 above = min(max(-row, 0), rows), below = min(max(row + rows - p.height, 0), rows - above);
    const i32 beside = left + right, between = rows - above - below;
    const i32 in_lines = (above + below) * width, count = in_lines + between * beside;
#pragma unroll 1
    for (i32 first = threadIdx.x; first < count; first += BORDER_TOGETHER * THREADS) {
        T samples[BORDER_TOGETHER];
        i32 places[BORDER_TOGETHER];
#pragma unroll
        for (int i = 0; i < BORDER_TOGETHER; i++) {
            const i32 k = first + i * THREADS;
            places[i] = -1;
            if (k < count) {
                const bool in_line = k < in_lines;
                const i32 among = in_line ? k : k - in_lines, length = in_line ? width : beside;
                i32 line = among / length, column = among - line * length;
                if (in_line ? line >= above : true) line += in_line ? between : above;
                if (!in_line && column >= left) column += width - beside;
                const i32 y = border_source(p.filter.border, row + line, p.height);
                const i32 x = border_source(p.filter.border, source.first + column, p.width);
                samples[i] = source.plane[y * i32(p.strides[2]) + x * i32(p.strides[3])];
                places[i] = line * pitch + column;
            }
        }
#pragma unroll
        for (int i = 0; i < BORDER_TOGETHER; i++) {
            if (places[i] >= 0) target[places[i]] = widen(samples[i]) + bias;
        }
    }
}
