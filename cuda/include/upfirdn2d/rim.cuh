// Outputs at the border of a filter whose padding is not zeros: one thread an output, straight from global memory, in the
// order of operations of the other forms. Those in the middle, to which nothing outside matters, are left to the latter.
#pragma once
#include "border.cuh"
#include "reduce.cuh"
#include "upfirdn2d/window.cuh"

// All positions that stand for a sample: every `step`-th before `end` from the first on, and so from the second on.
struct Positions {
    i64 first, second, step, end;
    __device__ __forceinline__ Positions(i32 border, const RimAxis &axis, i64 sample) {
        const i64 last = axis.output - 1;
        end = axis.high;
        if (border == EDGE || last == 0) {
            step = 1;
            first = sample == 0 ? axis.low : sample;
            if (sample != last) end = sample + 1;
            second = end;
            return;
        }
        step = border_period(border, axis.output);
        const i64 mirrored = -sample - i64(border == SYMMETRIC);
        first = axis.low + modulo(sample - axis.low, step);
        second = axis.low + modulo(mirrored - axis.low, step);
        if (border == WRAP || second == first) second = end;
    }
};

// What the output at a position is summed from: samples from `start` on, by every up-th tap from `tap` on.
struct Terms {
    i64 start, tap;
    __device__ __forceinline__ Terms(const RimAxis &axis, i64 position) {
        const i64 base = position * axis.down - axis.pad;
        start = divide_up(base, axis.up);
        tap = start * axis.up - base;
    }
    // The next position that has a term.
    __device__ __forceinline__ i64 next(const RimAxis &axis, i64 position, i64 step) const {
        if (tap < axis.taps) return position + step;
        const i64 met = divide_up(start * axis.up - axis.taps + 1 + axis.pad, axis.down), ahead = met - position;
        return position + (ahead <= step ? step : (ahead + step - 1) / step * step);
    }
};

// Calls the body with each sample and tap that an output is summed from. FOLDED: the adjoint, whose outputs are samples of
// the forward input, each the sum over all positions that stand for it; otherwise samples outside the input have values.
template <bool FOLDED, typename Body>
__device__ __forceinline__ void for_each_term(i32 border, const RimAxis &axis, i64 output, const Body &body) {
    if (FOLDED) {
        const Positions positions(border, axis, output);
#pragma unroll 1
        for (i32 family = 0; family < 2; family++) {
#pragma unroll 1
            for (i64 position = family ? positions.second : positions.first; position < positions.end;) {
                const Terms terms(axis, position);
                i64 sample = terms.start;
#pragma unroll 1
                for (i64 tap = terms.tap; tap < axis.taps; tap += axis.up, sample++) {
                    if (u64(sample) < u64(axis.input)) body(sample, tap);
                }
                position = terms.next(axis, position, positions.step);
            }
        }
    } else {
        const Terms terms(axis, output);
        i64 sample = terms.start;
#pragma unroll 1
        for (i64 tap = terms.tap; tap < axis.taps; tap += axis.up, sample++) {
            body(border_source(border, sample, axis.input), tap);
        }
    }
}

template <typename T, bool FOLDED> __device__ __forceinline__ void rim(const RimParameters &p) {
    using C = Compute<T>;
    const i64 index = i64(blockIdx.x) * THREADS + threadIdx.x, lines = index / p.x.count, plane = lines / p.y.count;
    if (plane >= p.planes) return;
    const i64 x = p.x.first + index - lines * p.x.count, y = p.y.first + lines - plane * p.y.count;
    const i64 batch = plane / p.channels, channel = plane - batch * p.channels;
    const Taps<C> taps(pointer<const TapsHeader>(p.prepared), p.x.taps, p.y.taps);
    const bool separable = taps.header->separable;
    const T *input = pointer<const T>(p.input) + batch * p.input_strides[0] + channel * p.input_strides[1];
    C sum = C(0);
    for_each_term<FOLDED>(p.border, p.y, y, [&](i64 row, i64 tap_y) {
        const C *weights = separable ? taps.x : taps.full + tap_y * p.x.taps;
        const T *samples = input + row * p.input_strides[2];
        C across = separable ? C(0) : sum;
        for_each_term<FOLDED>(p.border, p.x, x, [&](i64 column, i64 tap_x) {
            across = fma(widen(samples[column * p.input_strides[3]]), weights[tap_x], across);
        });
        sum = separable ? fma(across, taps.y[tap_y], sum) : across;
    });
    const i64 offset = batch * p.output_strides[0] + channel * p.output_strides[1] + y * p.output_strides[2] +
                       x * p.output_strides[3];
    pointer<T>(p.output)[offset] = narrow<T>(sum);
}

// The kernel gradient of such outputs: one block a tap and chunk of outputs; `prepared` are the partial sums.
template <typename T> __device__ __forceinline__ void kernel_gradient_rim(const RimParameters &p) {
    const i64 tap = i64(blockIdx.x) / p.blocks, chunk = i64(blockIdx.x) - tap * p.blocks;
    const i64 tap_y = tap / p.x.taps, tap_x = tap - tap_y * p.x.taps;
    double sum = 0.0;
#pragma unroll 1
    for (i32 start = 0; start < CHUNK; start += THREADS) {
        const i64 index = chunk * CHUNK + start + threadIdx.x, lines = index / p.x.count, plane = lines / p.y.count;
        if (plane >= p.planes) break;
        const i64 x = p.x.first + index - lines * p.x.count, y = p.y.first + lines - plane * p.y.count;
        const i64 position_x = x * p.x.down + tap_x - p.x.pad, position_y = y * p.y.down + tap_y - p.y.pad;
        const i64 column = position_x / p.x.up, row = position_y / p.y.up;
        if (column * p.x.up != position_x || row * p.y.up != position_y) continue;
        const i64 batch = plane / p.channels, channel = plane - batch * p.channels;
        const T gradient = pointer<const T>(p.output)[batch * p.output_strides[0] + channel * p.output_strides[1] +
                                                      y * p.output_strides[2] + x * p.output_strides[3]];
        const T sample = pointer<const T>(p.input)[batch * p.input_strides[0] + channel * p.input_strides[1] +
                                                   border_source(p.border, row, p.y.input) * p.input_strides[2] +
                                                   border_source(p.border, column, p.x.input) * p.input_strides[3]];
        sum += double(widen(gradient)) * double(widen(sample));
    }
    const double total = block_sum(sum);
    if (threadIdx.x == 0) {
        const i64 place = p.flip ? i64(p.x.taps) * p.y.taps - 1 - tap : tap;
        pointer<double>(p.prepared)[place * p.stride + chunk] = total;
    }
}
