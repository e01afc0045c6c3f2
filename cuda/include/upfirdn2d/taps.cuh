// Filter taps as the kernels read them, and the test for an outer product.
#pragma once
#include "parameters.cuh"

// In device memory: this header, then C x[taps_x], C y[taps_y], C full[taps_y][taps_x]. Tap 0 meets the first sample.
struct alignas(16) TapsHeader {
    i32 separable;
    i32 reserved[3];
};

template <typename C> struct Taps {
    const TapsHeader *header;
    const C *x, *y, *full;
    __device__ __forceinline__ Taps(u64 prepared, i32 taps_x, i32 taps_y)
        : header(pointer<const TapsHeader>(prepared)), x(reinterpret_cast<const C *>(header + 1)), y(x + taps_x),
          full(y + taps_y) {}
};

__device__ __forceinline__ bool is_larger(double a, i32 at_a, double b, i32 at_b) {
    return a > b || (a == b && at_a < at_b);
}

// One block. Factors are taken through the largest tap in float64; the kernel counts as an outer product only if every
// tap agrees with the factors' product to four units of its own rounding, so that no small tap is lost.
template <typename C> __device__ __forceinline__ void prepare_taps(const TapsParameters &p) {
    __shared__ double magnitudes[THREADS];
    __shared__ i32 positions[THREADS];
    __shared__ i32 disagreements[THREADS];
    const Taps<C> taps(p.prepared, p.taps_x, p.taps_y);
    const i32 count = p.taps_x * p.taps_y, thread = threadIdx.x;
    // As given by the caller, in the order in which taps meet samples.
    const auto tap = [&](i32 y, i32 x) {
        const i64 row = p.flip ? p.taps_y - 1 - y : y, column = p.flip ? p.taps_x - 1 - x : x;
        return load_as<C>(p.taps, p.type, row * p.stride_y + column * p.stride_x);
    };

    double largest = -1.0;
    i32 at = 0;
    for (i32 k = thread; k < count; k += THREADS) {
        const C value = tap(k / p.taps_x, k % p.taps_x);
        const_cast<C *>(taps.full)[k] = value * C(p.gain);
        const double magnitude = fabs(double(value));
        if (is_larger(magnitude, k, largest, at)) largest = magnitude, at = k;
    }
    magnitudes[thread] = largest;
    positions[thread] = at;
    __syncthreads();
    for (i32 half = THREADS / 2; half > 0; half /= 2) {
        if (thread < half &&
            is_larger(magnitudes[thread + half], positions[thread + half], magnitudes[thread], positions[thread])) {
            magnitudes[thread] = magnitudes[thread + half];
            positions[thread] = positions[thread + half];
        }
        __syncthreads();
    }
    const i32 pivot = positions[0], pivot_y = pivot / p.taps_x, pivot_x = pivot % p.taps_x;
    const double centre = double(tap(pivot_y, pivot_x));
    const double tolerance = sizeof(C) == 4 ? 4.0 * 0x1p-24 : 4.0 * 0x1p-53;
    i32 disagreement = 0;
    for (i32 k = thread; k < count; k += THREADS) {
        const i32 y = k / p.taps_x, x = k % p.taps_x;
        const C factor_y = tap(y, pivot_x), factor_x = C(double(tap(pivot_y, x)) / centre);
        const double value = double(tap(y, x)), product = double(factor_y) * double(factor_x);
        if (!(fabs(product - value) <= tolerance * fabs(value))) disagreement = 1;
        if (y == pivot_y) const_cast<C *>(taps.x)[x] = factor_x;
        if (x == pivot_x) const_cast<C *>(taps.y)[y] = factor_y * C(p.gain);
    }
    disagreements[thread] = disagreement;
    __syncthreads();
    if (thread == 0) {
        i32 any = 0;
        for (i32 k = 0; k < THREADS; k++) any |= disagreements[k];
        const_cast<TapsHeader *>(taps.header)->separable = !any;
    }
}
