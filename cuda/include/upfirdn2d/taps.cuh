// Filter taps as the kernels read them, and the test for an outer product.
#pragma once
#include "parameters/upfirdn2d.cuh"

// In device memory: this header, then C x[taps_x], C y[taps_y], C full[taps_y][taps_x]. Tap 0 meets the first sample.
struct alignas(16) TapsHeader {
    i32 separable;
    i32 finite; // 0: a tap is infinite or no number, so padding must be left out of the sums, not multiplied
    i32 reserved[2]; // 0, since the header is copied with the taps
};

template <typename C> struct Taps {
    const TapsHeader *header;
    const C *x, *y, *full;
    __device__ __forceinline__ Taps(const TapsHeader *prepared, i32 taps_x, i32 taps_y)
        : header(prepared), x(reinterpret_cast<const C *>(header + 1)), y(x + taps_x), full(y + taps_y) {}

    // Copies header and taps to shared memory, once a block; a barrier must follow.
    static __device__ __forceinline__ void stage(u64 prepared, TapsHeader *staged, i32 taps_x, i32 taps_y) {
#pragma unroll 1
        for (i32 k = threadIdx.x; k < words(taps_x, taps_y); k += THREADS) stage_word(prepared, staged, k);
    }
    // One word of them, where there are fewer than threads.
    static __device__ __forceinline__ void stage_word(u64 prepared, TapsHeader *staged, i32 k) {
        reinterpret_cast<u32 *>(staged)[k] = pointer<const u32>(prepared)[k];
    }
    static constexpr __device__ __forceinline__ i32 words(i32 taps_x, i32 taps_y) {
        return i32(sizeof(TapsHeader) / 4) + count(taps_x, taps_y) * i32(sizeof(C) / 4);
    }
    // What follows the staged taps, on a multiple of sixteen bytes.
    static __device__ __forceinline__ C *after(TapsHeader *staged, i32 taps_x, i32 taps_y) {
        return reinterpret_cast<C *>(staged + 1 + (count(taps_x, taps_y) * i32(sizeof(C)) + 15) / 16);
    }
    static constexpr __device__ __forceinline__ i32 count(i32 taps_x, i32 taps_y) { return taps_x + taps_y + taps_x * taps_y; }
};

__device__ __forceinline__ bool is_larger(double a, i32 at_a, double b, i32 at_b) {
    return a > b || (a == b && at_a < at_b);
}

// One block, once a call: its loops are kept short rather than fast. Factors are taken by the row and the column of the
// largest tap, in float64; the kernel counts as an outer product only if every tap agrees with the factors' product to
// four units of its own rounding, so that no small tap is lost, and if no factor is subnormal. The CPU factors alike, to
// the same bits.
template <typename C> __device__ __forceinline__ void prepare_taps(const TapsParameters &p) {
    __shared__ double magnitudes[THREADS];
    __shared__ i32 positions[THREADS];
    __shared__ i32 faults[THREADS];
    const Taps<C> taps(pointer<const TapsHeader>(p.prepared), p.taps_x, p.taps_y);
    C *full = const_cast<C *>(taps.full), *factors_x = const_cast<C *>(taps.x), *factors_y = const_cast<C *>(taps.y);
    const i32 count = p.taps_x * p.taps_y, thread = threadIdx.x;
    // As the caller gave them, until all have been compared.
    const auto tap = [&](i32 y, i32 x) { return double(full[y * p.taps_x + x]); };

    enum : i32 { NOT_FINITE = 1, NOT_SEPARABLE = 2 };
    i32 fault = 0, at = 0;
    double largest = 0.0;
#pragma unroll 1
    for (i32 k = thread; k < count; k += THREADS) {
        // In the order in which taps meet samples.
        const i32 place = p.flip ? count - 1 - k : k, row = place / p.taps_x;
        const C value = load_as<C>(p.taps, p.type, row * p.stride_y + (place - row * p.taps_x) * p.stride_x);
        const double magnitude = fabs(double(value));
        full[k] = value;
        if (!(magnitude <= 1.7976931348623157e308)) fault = NOT_FINITE;
        if (magnitude > largest) largest = magnitude, at = k;
    }
    magnitudes[thread] = largest;
    positions[thread] = at;
    __syncthreads();
#pragma unroll 1
    for (i32 half = THREADS / 2; half > 0; half /= 2) {
        if (thread < half &&
            is_larger(magnitudes[thread + half], positions[thread + half], magnitudes[thread], positions[thread])) {
            magnitudes[thread] = magnitudes[thread + half];
            positions[thread] = positions[thread + half];
        }
        __syncthreads();
    }
    const i32 pivot = positions[0], pivot_y = pivot / p.taps_x, pivot_x = pivot % p.taps_x;
    const double centre = tap(pivot_y, pivot_x);
    const double tolerance = sizeof(C) == 4 ? 0x1p-22 : 0x1p-51;
    const double smallest = sizeof(C) == 4 ? 0x1p-126 : 2.2250738585072014e-308;
    // Whether a factor keeps all its digits in the compute type.
    const auto keeps = [&](double value, C rounded) {
        return value == 0.0 || (fabs(double(rounded)) >= smallest && fabs(double(rounded)) <= 1.7976931348623157e308);
    };
    if (centre == 0.0) fault |= NOT_SEPARABLE;
#pragma unroll 1
    for (i32 k = thread; k < count; k += THREADS) {
        const i32 y = k / p.taps_x, x = k % p.taps_x;
        const double value = tap(y, x), scale = tap(y, pivot_x), factor = tap(pivot_y, x) / centre;
        if (!(fabs(scale * factor - value) <= tolerance * fabs(value))) fault |= NOT_SEPARABLE;
        if (y == pivot_y) {
            factors_x[x] = C(factor);
            if (!keeps(factor, C(factor))) fault |= NOT_SEPARABLE;
        }
        if (x == pivot_x) {
            factors_y[y] = C(scale * p.gain);
            if (!keeps(scale * p.gain, C(scale * p.gain))) fault |= NOT_SEPARABLE;
        }
    }
    faults[thread] = fault;
    __syncthreads();
#pragma unroll 1
    for (i32 k = thread; k < count; k += THREADS) full[k] = C(double(full[k]) * p.gain);
    if (thread == 0) {
        i32 any = 0;
#pragma unroll 1
        for (i32 k = 0; k < THREADS; k++) any |= faults[k];
        *const_cast<TapsHeader *>(taps.header) = TapsHeader{!any, !(any & NOT_FINITE), {0, 0}};
    }
}
