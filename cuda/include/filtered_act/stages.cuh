// The steps between a window of inputs and a tile of outputs, all in shared memory. Columns of the middle grid stand by their
// phase of the way down: column c at (c mod down) * phase_pitch + c / down, so that neighbouring threads always read
// neighbouring numbers. Every sum is over the taps in their order, the first product unrounded by a sum, as on the CPU.
#pragma once
#include "filtered_act/load.cuh"
#include "filtered_act/taps.cuh"
#include "filtered_act/between.cuh"

// What a sum begins with: a product added to it keeps its sign. A sum of nothing is zero.
template <typename C> __device__ __forceinline__ C before_sum(bool has_terms) { return has_terms ? C(-0.0) : C(0.0); }

// Which input the middle sample at a position begins with; `tap` becomes the tap that it meets.
__device__ __forceinline__ i32 first_input(i32 position, i32 pad, i32 up, i32 &tap) {
    const i32 base = position - pad, start = divide_up(base, up);
    tap = start * up - base;
    return start;
}
// And the first input after those of the middle sample at a position.
__device__ __forceinline__ i32 end_input(i32 position, i32 pad, i32 up, i32 taps) { return divide_up(position - pad + taps, up); }

// The columns and rows of the middle grid that a chunk computes; those outside the grid are filled in later.
struct MiddlePart {
    i32 column;               // of the grid, at place 0
    i32 row;                  // of the grid, in row 0 of the buffer
    i32 low, high;            // columns inside, counted from `column`
    i32 fresh, rows;          // rows of the buffer that are computed
    __device__ __forceinline__ i32 place(const FilteredActParameters &p, i32 c) const {
        const i32 quotient = quotient_of(c, p.down_magic);
        return (c - quotient * p.down.factor_x) * p.phase_pitch + quotient;
    }
};

// Rows of a window become as many rows of the middle grid's columns.
template <typename C>
__device__ __forceinline__ void filter_along_x(const FilteredActParameters &p, const StreamParameters &s, const C *taps,
                                               const MiddlePart &part, i32 first, const C *window, C *target, i32 rows) {
    const i32 groups = (rows + ROWS_TOGETHER - 1) / ROWS_TOGETHER, up = s.filter.factor_x;
#pragma unroll 1
    for (i32 k = threadIdx.x; k < groups * p.columns; k += THREADS) {
        const i32 group = quotient_of(k, p.columns_magic), c = k - group * p.columns;
        if (c < part.low || c >= part.high) continue;
        i32 tap;
        const i32 column = first_input(part.column + c, s.filter.pad_x, up, tap) - first;
        const C *samples[ROWS_TOGETHER];
        C sums[ROWS_TOGETHER];
#pragma unroll
        for (int i = 0; i < ROWS_TOGETHER; i++) {
            samples[i] = window + min(group * ROWS_TOGETHER + i, rows - 1) * s.window_width + column;
            sums[i] = before_sum<C>(tap < s.filter.taps_x);
        }
#pragma unroll 1
        for (i32 n = 0; tap < s.filter.taps_x; tap += up, n++) {
            const C weight = taps[tap];
#pragma unroll
            for (int i = 0; i < ROWS_TOGETHER; i++) sums[i] = fused(samples[i][n], weight, sums[i]);
        }
        C *to = target + group * ROWS_TOGETHER * p.pitch + part.place(p, c);
#pragma unroll
        for (int i = 0; i < ROWS_TOGETHER; i++) {
            if (group * ROWS_TOGETHER + i < rows) to[i * p.pitch] = sums[i];
        }
    }
}

// Rows of one stream in shared memory: filtered along x already where the taps are separable, else as they were loaded.
template <typename C> struct StreamRows {
    const C *rows;
    i32 row;     // the input that row 0 holds
    i32 column;  // the input column that a loaded row begins with
};

// ROWS_TOGETHER samples of the middle grid in one column, as many rows apart as the filter inserts, of which `count` are
// wanted: all of them meet the same taps.
template <typename C>
__device__ __forceinline__ void filter_along_y(const FilteredActParameters &p, const FilterParameters &f, const C *taps,
                                               const StreamRows<C> &from, i32 row, i32 place, i32 count,
                                               C (&sums)[ROWS_TOGETHER]) {
    i32 tap;
    const C *start = from.rows + (first_input(row, f.pad_y, f.factor_y, tap) - from.row) * p.pitch + place;
    i32 offsets[ROWS_TOGETHER];
#pragma unroll
    for (int i = 0; i < ROWS_TOGETHER; i++) {
        offsets[i] = min(i, count - 1) * p.pitch;
        sums[i] = before_sum<C>(tap < f.taps_y);
    }
#pragma unroll 1
    for (; tap < f.taps_y; tap += f.factor_y, start += p.pitch) {
        const C weight = taps[tap];
#pragma unroll
        for (int i = 0; i < ROWS_TOGETHER; i++) sums[i] = fused(start[offsets[i]], weight, sums[i]);
    }
}

// One sample of the middle grid, whatever the taps.
template <typename C>
__device__ __forceinline__ C filter_one(const FilteredActParameters &p, const FilterParameters &f, const FilterTaps<C> &taps,
                                        const StreamRows<C> &from, i32 row, i32 column, i32 place) {
    i32 tap_x, tap_y;
    const i32 first = first_input(column, f.pad_x, f.factor_x, tap_x) - from.column;
    const C *samples = from.rows + (first_input(row, f.pad_y, f.factor_y, tap_y) - from.row) * p.pitch;
    samples += taps.separable ? place : first;
    C sum = before_sum<C>(tap_y < f.taps_y && (taps.separable || tap_x < f.taps_x));
#pragma unroll 1
    for (; tap_y < f.taps_y; tap_y += f.factor_y, samples += p.pitch) {
        if (taps.separable) {
            sum = fused(*samples, taps.y[tap_y], sum);
        } else {
            const C *weights = taps.full + tap_y * f.taps_x;
            i32 n = 0;
#pragma unroll 1
            for (i32 tap = tap_x; tap < f.taps_x; tap += f.factor_x) sum = fused(samples[n++], weights[tap], sum);
        }
    }
    return sum;
}

template <typename C> __device__ __forceinline__ C picked(const C (&values)[ROWS_TOGETHER], i32 which) {
    static_assert(ROWS_TOGETHER == 4, "chosen, not indexed: an array would be local memory");
    return which == 0 ? values[0] : which == 1 ? values[1] : which == 2 ? values[2] : values[3];
}

// Sums over the samples that a tile counts.
struct Owned {
    i32 left, right, top, bottom;
};

// All streams go up, and the activation, or its slope times the stream, is what the rows of the middle grid hold.
template <typename C, int STREAMS, typename Between>
__device__ __forceinline__ void fill_middle(const FilteredActParameters &p, const FilterTaps<C> (&taps)[STREAMS],
                                            const StreamRows<C> (&rows)[STREAMS], const MiddlePart &part, C *middle,
                                            Between &between, const Owned &owned) {
    const i32 step = p.streams[0].filter.factor_y;
    bool alike = taps[0].separable;
    if constexpr (STREAMS == 2) alike = alike && taps[1].separable && p.streams[1].filter.factor_y == step;
    const i32 together = alike ? ROWS_TOGETHER : 1, apart = alike ? step : 1;
    // Rows inside the grid, counted from the buffer's first.
    const i32 top = max(part.fresh, -part.row), bottom = min(part.rows, p.middle_height - part.row);
    const i32 period = apart * together, groups = bottom > top ? (bottom - top + period - 1) / period * apart : 0;
#pragma unroll 1
    for (i32 k = threadIdx.x; k < groups * p.columns; k += THREADS) {
        const i32 group = quotient_of(k, p.columns_magic), c = k - group * p.columns;
        const i32 turn = alike ? i32(u32(group) / u32(apart)) : group;
        const i32 row = top + turn * period + (group - turn * apart);
        if (c < part.low || c >= part.high || row >= bottom) continue;
        const i32 count = min((bottom - row + apart - 1) / apart, together);
        const i32 place = part.place(p, c);
        C sums[STREAMS][ROWS_TOGETHER];
#pragma unroll
        for (int s = 0; s < STREAMS; s++) {
            const FilterParameters &f = p.streams[s].filter;
            if (alike) {
                filter_along_y(p, f, taps[s].y, rows[s], part.row + row, place, count, sums[s]);
            } else {
                sums[s][0] = filter_one(p, f, taps[s], rows[s], part.row + row, part.column + c, place);
#pragma unroll
                for (int i = 1; i < ROWS_TOGETHER; i++) sums[s][i] = C(0);
            }
        }
        const bool counts = is_inside(part.column + c - owned.left, owned.right - owned.left);
#pragma unroll 1
        for (i32 i = 0; i < count; i++) {
            const i32 at = row + i * apart;
            if constexpr (STREAMS == 1) {
                middle[at * p.pitch + place] = between.value(picked(sums[0], i));
            } else {
                const bool adds = counts && is_inside(part.row + at - owned.top, owned.bottom - owned.top);
                middle[at * p.pitch + place] = between.slope(picked(sums[1], i), picked(sums[0], i), adds);
            }
        }
    }
}

// Whether some of a chunk's samples lie outside the middle grid.
__device__ __forceinline__ bool reaches_out(const FilteredActParameters &p, const MiddlePart &part) {
    return part.low > 0 || part.high < p.columns || part.row + part.fresh < 0 || part.row + part.rows > p.middle_height;
}

// Samples outside the middle grid: zeros, or copies by the rule, whose sources the host has found to be in the same chunk.
template <typename C>
__device__ __forceinline__ void fill_outside(const FilteredActParameters &p, const MiddlePart &part, C *middle) {
#pragma unroll 1
    for (i32 k = threadIdx.x; k < (part.rows - part.fresh) * p.columns; k += THREADS) {
        const i32 line = quotient_of(k, p.columns_magic), c = k - line * p.columns, row = part.fresh + line;
        const i32 x = part.column + c, y = part.row + row;
        if (is_inside(x, p.middle_width) && is_inside(y, p.middle_height)) continue;
        C value = C(0);
        if (p.down.border != CONSTANT) {
            const i32 from_x = border_source(p.down.border, x, p.middle_width) - part.column;
            const i32 from_y = border_source(p.down.border, y, p.middle_height) - part.row;
            value = middle[from_y * p.pitch + part.place(p, from_x)];
        }
        middle[row * p.pitch + part.place(p, c)] = value;
    }
}

// Rows of the middle grid become rows of sums along y, of the same columns.
template <typename C>
__device__ __forceinline__ void sum_along_y(const FilteredActParameters &p, const C *taps, const MiddlePart &part,
                                            const C *middle, C *sums_along_y, i32 outputs) {
    const i32 groups = (outputs + ROWS_TOGETHER - 1) / ROWS_TOGETHER;
#pragma unroll 1
    for (i32 k = threadIdx.x; k < groups * p.columns; k += THREADS) {
        const i32 group = quotient_of(k, p.columns_magic), place = part.place(p, k - group * p.columns);
        const i32 first = group * ROWS_TOGETHER, down = p.down.factor_y * p.pitch;
        const C *start = middle + first * down + place;
        i32 offsets[ROWS_TOGETHER];
        C sums[ROWS_TOGETHER];
#pragma unroll
        for (int i = 0; i < ROWS_TOGETHER; i++) {
            offsets[i] = min(i, outputs - 1 - first) * down;
            sums[i] = before_sum<C>(true);
        }
#pragma unroll 1
        for (i32 tap = 0; tap < p.down.taps_y; tap++, start += p.pitch) {
            const C weight = taps[tap];
#pragma unroll
            for (int i = 0; i < ROWS_TOGETHER; i++) sums[i] = fused(start[offsets[i]], weight, sums[i]);
        }
#pragma unroll
        for (int i = 0; i < ROWS_TOGETHER; i++) {
            if (first + i < outputs) sums_along_y[(first + i) * p.pitch + place] = sums[i];
        }
    }
}

// Sums along x, or over both directions at once, are the outputs. `lines`: rows to be summed, `line_step` apart for
// consecutive outputs, `terms` of them for each. Gives the sum of what was written.
template <typename T>
__device__ __forceinline__ double store_outputs(const FilteredActParameters &p, const Compute<T> *taps, i32 terms,
                                                const Compute<T> *lines, i32 line_step, T *plane, i32 column, i32 row,
                                                i32 outputs, bool adds) {
    using C = Compute<T>;
    const i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const i32 groups = (outputs + ROWS_TOGETHER - 1) / ROWS_TOGETHER;
    const i32 width = min(p.tile_width, p.output_width - column);
    const bool adjacent = p.output_strides[3] == 1;
    double total = 0.0;
#pragma unroll 1
    for (i32 unit = warp; unit < groups * p.pieces; unit += THREADS / 32) {
        const i32 group = quotient_of(unit, p.piece_magic), first = group * ROWS_TOGETHER;
        const i32 c = (unit - group * p.pieces) * 32 + lane;
        const C *starts[ROWS_TOGETHER];
        i32 columns[ROWS_TOGETHER];
        C sums[ROWS_TOGETHER];
#pragma unroll
        for (int i = 0; i < ROWS_TOGETHER; i++) {
            const i32 line = min(first + i, outputs - 1);
            // Every row begins at a whole sector of its own.
            const T *start = plane + i64(row + line) * p.output_strides[2] + column;
            columns[i] = adjacent ? c - ahead_of(start) : c;
            const bool exists = first + i < outputs && is_inside(columns[i], width);
            starts[i] = lines + line * line_step + (exists ? columns[i] : 0);
            if (!exists) columns[i] = -1;
            sums[i] = before_sum<C>(true);
        }
        const C *weights = taps;
#pragma unroll 1
        for (i32 term = 0; term < terms; term++) {
            i32 offset = term * p.pitch, phase = 0;
#pragma unroll 1
            for (i32 tap = 0; tap < p.down.taps_x; tap++) {
                const C weight = *weights++;
#pragma unroll
                for (int i = 0; i < ROWS_TOGETHER; i++) sums[i] = fused(starts[i][offset], weight, sums[i]);
                offset += p.phase_pitch;
                if (++phase == p.down.factor_x) phase = 0, offset += 1 - p.down.factor_x * p.phase_pitch;
            }
        }
#pragma unroll
        for (int i = 0; i < ROWS_TOGETHER; i++) {
            if (columns[i] >= 0) {
                const T result = narrow<T>(sums[i]);
                plane[i64(row + first + i) * p.output_strides[2] + i64(column + columns[i]) * p.output_strides[3]] = result;
                if (adds) total += double(widen(result));
            }
        }
    }
    return total;
}

// The rows of a buffer from `from` on, `count` of them, become its first; `place` says where each of the columns stands.
template <typename C, typename Place>
__device__ __forceinline__ void keep_rows(C *rows, i32 from, i32 count, i32 pitch, i32 columns, const Place &place) {
    if (from == 0) return;
#pragma unroll 1
    for (i32 c = threadIdx.x; c < columns; c += THREADS) {
        C *line = rows + place(c);
#pragma unroll 1
        for (i32 row = 0; row < count; row++) line[row * pitch] = line[(from + row) * pitch];
    }
}
