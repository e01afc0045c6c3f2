// The taps of a launch's filters in shared memory, prepared by every block for itself: no launch before, no memory.
#pragma once
#include "parameters/filtered_act.cuh"
#include "upfirdn2d/taps.cuh"

// As the stages read them: along x and y where they are an outer product, else all.
template <typename C> struct FilterTaps {
    const C *x, *y, *full;
    bool separable;
};

// Flags and the largest tap that each warp has found, of up to three filters.
struct TapsScratch {
    double magnitudes[3][THREADS / 32];
    i32 positions[3][THREADS / 32];
    i32 unequal[3][THREADS / 32];
};

template <typename C> __device__ __forceinline__ FilterTaps<C> taps_of(const FilterParameters &p, C *room, bool separable) {
    const C *x = room + p.place;
    return {x, x + p.taps_x, x + p.taps_x + p.taps_y, separable};
}

// The taps of a filter as they meet the samples, in two steps: those of all filters are under way before the first is used.
// After the second a barrier must follow, but for a thread that reads its own alone.
struct TapsUnderWay {
    StoredTap stored[MOST_TAPS / THREADS] = {};

    __device__ __forceinline__ void load(const FilterParameters &p) {
        const i32 count = p.taps_x * p.taps_y;
#pragma unroll
        for (int i = 0; i < MOST_TAPS / THREADS; i++) {
            const i32 k = i * THREADS + i32(threadIdx.x);
            if (k < count) {
                const i32 place = p.flip ? count - 1 - k : k, row = place / p.taps_x;
                stored[i].load(p.taps, p.tap_type, row * p.tap_stride_y + (place - row * p.taps_x) * p.tap_stride_x);
            }
        }
    }

    template <typename C> __device__ __forceinline__ void store(const FilterParameters &p, C *room) const {
        const i32 count = p.taps_x * p.taps_y;
        C *full = room + p.place + p.taps_x + p.taps_y;
#pragma unroll
        for (int i = 0; i < MOST_TAPS / THREADS; i++) {
            const i32 k = i * THREADS + i32(threadIdx.x);
            if (k < count) full[k] = stored[i].template value<C>(p.tap_type);
        }
    }
};

// Of every warp, the largest tap, each thread its own first; a barrier must follow.
template <typename C>
__device__ __forceinline__ void find_largest(const FilterParameters &p, const C *room, TapsScratch &scratch, int which) {
    const i32 count = p.taps_x * p.taps_y;
    const C *full = room + p.place + p.taps_x + p.taps_y;
    double largest = 0.0;
    i32 at = 0;
#pragma unroll 1
    for (i32 k = threadIdx.x; k < count; k += THREADS) {
        const double size = fabs(double(full[k]));
        if (size > largest) largest = size, at = k;
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        const double other = __shfl_xor_sync(0xffffffffu, largest, distance);
        const i32 place = __shfl_xor_sync(0xffffffffu, at, distance);
        if (is_larger(other, place, largest, at)) largest = other, at = place;
    }
    if (threadIdx.x % 32 == 0) {
        scratch.magnitudes[which][threadIdx.x / 32] = largest;
        scratch.positions[which][threadIdx.x / 32] = at;
    }
}

// Writes the factors by the row and the column of the largest tap, and whether some tap is not their product; a barrier
// must follow. The rule is that of `Factors`; a single row or column stays as it is, and the other factor is one.
template <typename C>
__device__ __forceinline__ void factor(const FilterParameters &p, C *room, TapsScratch &scratch, int which) {
    const i32 count = p.taps_x * p.taps_y;
    C *along_x = room + p.place, *along_y = along_x + p.taps_x, *full = along_y + p.taps_y;
    double largest = scratch.magnitudes[which][0];
    i32 pivot = scratch.positions[which][0];
#pragma unroll
    for (int warp = 1; warp < THREADS / 32; warp++) {
        const double other = scratch.magnitudes[which][warp];
        const i32 place = scratch.positions[which][warp];
        if (is_larger(other, place, largest, pivot)) largest = other, pivot = place;
    }
    const i32 pivot_y = pivot / p.taps_x, pivot_x = pivot - pivot_y * p.taps_x;
    const double centre = double(full[pivot]);
    const bool is_line = p.taps_x == 1 || p.taps_y == 1;
    bool unequal = centre == 0.0 && !is_line;
#pragma unroll 1
    for (i32 k = threadIdx.x; k < count; k += THREADS) {
        const i32 y = k / p.taps_x, x = k - y * p.taps_x;
        const double value = double(full[k]);
        if (is_line) {
            if (p.taps_y == 1) along_x[k] = C(value * p.gain);
            else along_y[k] = C(value * p.gain);
            if (k == 0) (p.taps_y == 1 ? along_y : along_x)[0] = C(1);
        } else {
            const double scale = double(full[y * p.taps_x + pivot_x]);
            const double fraction = double(full[pivot_y * p.taps_x + x]) / centre;
            if (!Factors<C>::is_finite(value) || !Factors<C>::is_product(scale, fraction, value)) unequal = true;
            if (y == pivot_y) {
                along_x[x] = C(fraction);
                if (!Factors<C>::keeps(fraction, C(fraction))) unequal = true;
            }
            if (x == pivot_x) {
                along_y[y] = C(scale * p.gain);
                if (!Factors<C>::keeps(scale * p.gain, C(scale * p.gain))) unequal = true;
            }
        }
    }
    const u32 any = __ballot_sync(0xffffffffu, unequal);
    if (threadIdx.x % 32 == 0) scratch.unequal[which][threadIdx.x / 32] = any != 0;
}

// Multiplies all taps by the gain, where nobody compares them any more; says whether they are an outer product.
template <typename C>
__device__ __forceinline__ bool finish_taps(const FilterParameters &p, C *room, const TapsScratch &scratch, int which) {
    C *full = room + p.place + p.taps_x + p.taps_y;
#pragma unroll 1
    for (i32 k = threadIdx.x; k < p.taps_x * p.taps_y; k += THREADS) full[k] = C(double(full[k]) * p.gain);
    i32 unequal = 0;
#pragma unroll
    for (int warp = 0; warp < THREADS / 32; warp++) unequal |= scratch.unequal[which][warp];
    return !unequal;
}
