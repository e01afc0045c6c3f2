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

    // Copies prepared header and taps to shared memory, once a block; a barrier must follow.
    static __device__ __forceinline__ void stage(u64 prepared, TapsHeader *staged, i32 taps_x, i32 taps_y) {
#pragma unroll 1
        for (i32 k = threadIdx.x; k < words(taps_x, taps_y); k += THREADS) {
            reinterpret_cast<u32 *>(staged)[k] = pointer<const u32>(prepared)[k];
        }
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

// How taps are factored, by one block for all or by a warp of every block: by the row and the column of the largest tap, in
// float64; the kernel counts as an outer product only if every tap agrees with the factors' product to four units of its own
// rounding, so that no small tap is lost, and if no factor is subnormal. The CPU factors alike, to the same bits.
template <typename C> struct Factors {
    // Whether a factor keeps all its digits in the compute type.
    static __device__ __forceinline__ bool keeps(double value, C rounded) {
        const double smallest = sizeof(C) == 4 ? 0x1p-126 : 2.2250738585072014e-308;
        return value == 0.0 || (fabs(double(rounded)) >= smallest && is_finite(double(rounded)));
    }
    static __device__ __forceinline__ bool is_finite(double value) { return fabs(value) <= 1.7976931348623157e308; }
    static __device__ __forceinline__ bool is_product(double scale, double factor, double value) {
        const double tolerance = sizeof(C) == 4 ? 0x1p-22 : 0x1p-51;
        return fabs(scale * factor - value) <= tolerance * fabs(value);
    }
};

// A tap as it is stored, to be converted when it has come.
struct StoredTap {
    u16 half;
    float single;
    double full;
    __device__ __forceinline__ void load(u64 taps, i32 type, i64 offset) {
        switch (type) {
        case FLOAT16:
        case BFLOAT16: half = pointer<const u16>(taps)[offset]; break;
        case FLOAT32: single = pointer<const float>(taps)[offset]; break;
        default: full = pointer<const double>(taps)[offset]; break;
        }
    }
    template <typename C> __device__ __forceinline__ C value(i32 type) const {
        switch (type) {
        case FLOAT16: return C(widen(float16{half}));
        case BFLOAT16: return C(widen(bfloat16{half}));
        case FLOAT32: return C(single);
        default: return C(full);
        }
    }
};

// At most FEW_TAPS, prepared in shared memory by the last warp of a block, which has the fewest rows to load. In two steps,
// so that the taps come while the block loads its window; a barrier must follow.
template <typename C> struct FewTaps {
    StoredTap stored = {};
    const UpFirDn2dParameters &p;
    const i32 taps_x, taps_y;
    __device__ __forceinline__ FewTaps(const UpFirDn2dParameters &p, i32 taps_x, i32 taps_y)
        : p(p), taps_x(taps_x), taps_y(taps_y) {}

    static __device__ __forceinline__ bool is_here() { return threadIdx.x >= THREADS - 32; }

    __device__ __forceinline__ void load() {
        const i32 lane = threadIdx.x % 32, count = taps_x * taps_y;
        if (!is_here() || lane >= count) return;
        const i32 place = p.flip ? count - 1 - lane : lane, row = place / taps_x;
        stored.load(p.taps, p.tap_type, row * p.tap_stride_y + (place - row * taps_x) * p.tap_stride_x);
    }

    __device__ __forceinline__ void prepare(TapsHeader *staged) const {
        if (!is_here()) return;
        constexpr u32 ALL = 0xffffffffu;
        const i32 lane = threadIdx.x % 32, count = taps_x * taps_y, y = lane / taps_x, x = lane - y * taps_x;
        const bool present = lane < count;
        const C tap = present ? stored.value<C>(p.tap_type) : C(0);
        const double value = double(tap);
        C largest = fabs(value) > 0.0 ? C(fabs(value)) : C(0);
        i32 pivot = lane;
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) {
            const C other = __shfl_xor_sync(ALL, largest, distance);
            const i32 at = __shfl_xor_sync(ALL, pivot, distance);
            if (other > largest || (other == largest && at < pivot)) largest = other, pivot = at;
        }
        const i32 pivot_y = pivot / taps_x, pivot_x = pivot - pivot_y * taps_x;
        const double centre = double(__shfl_sync(ALL, tap, pivot));
        const double scale = double(__shfl_sync(ALL, tap, y * taps_x + pivot_x));
        const double factor = double(__shfl_sync(ALL, tap, pivot_y * taps_x + x)) / centre;
        const Taps<C> taps(staged, taps_x, taps_y);
        bool separable = centre != 0.0;
        if (present) {
            separable = separable && Factors<C>::is_product(scale, factor, value);
            if (y == pivot_y) {
                const_cast<C *>(taps.x)[x] = C(factor);
                separable = separable && Factors<C>::keeps(factor, C(factor));
            }
            if (x == pivot_x) {
                const_cast<C *>(taps.y)[y] = C(scale * p.gain);
                separable = separable && Factors<C>::keeps(scale * p.gain, C(scale * p.gain));
            }
            const_cast<C *>(taps.full)[lane] = C(value * p.gain);
        }
        const bool finite = __all_sync(ALL, !present || Factors<C>::is_finite(value));
        const bool product = __all_sync(ALL, !present || separable);
        if (lane == 0) *staged = TapsHeader{finite && product, finite, {0, 0}};
    }
};

// Header and taps in shared memory, wherever they come from; a barrier must follow.
template <typename C> __device__ __forceinline__ void stage_taps(const UpFirDn2dParameters &p, TapsHeader *staged) {
    if (p.prepared) return Taps<C>::stage(p.prepared, staged, p.taps_x, p.taps_y);
    FewTaps<C> few(p, p.taps_x, p.taps_y);
    few.load();
    few.prepare(staged);
}

// One block, once a call, where there are many taps: its loops are kept short rather than fast.
template <typename C> __device__ __forceinline__ void prepare_taps(const TapsParameters &p) {
    __shared__ double magnitudes[THREADS];
    __shared__ i32 positions[THREADS];
    __shared__ i32 faults[THREADS / 32];
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
        if (!Factors<C>::is_finite(magnitude)) fault = NOT_FINITE;
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
    if (centre == 0.0) fault |= NOT_SEPARABLE;
#pragma unroll 1
    for (i32 k = thread; k < count; k += THREADS) {
        const i32 y = k / p.taps_x, x = k % p.taps_x;
        const double value = tap(y, x), scale = tap(y, pivot_x), factor = tap(pivot_y, x) / centre;
        if (!Factors<C>::is_product(scale, factor, value)) fault |= NOT_SEPARABLE;
        if (y == pivot_y) {
            factors_x[x] = C(factor);
            if (!Factors<C>::keeps(factor, C(factor))) fault |= NOT_SEPARABLE;
        }
        if (x == pivot_x) {
            factors_y[y] = C(scale * p.gain);
            if (!Factors<C>::keeps(scale * p.gain, C(scale * p.gain))) fault |= NOT_SEPARABLE;
        }
    }
    const u32 infinite = __ballot_sync(0xffffffffu, fault & NOT_FINITE), unequal = __ballot_sync(0xffffffffu, fault != 0);
    if (thread % 32 == 0) faults[thread / 32] = (infinite ? NOT_FINITE : 0) | (unequal ? NOT_SEPARABLE : 0);
    __syncthreads();
#pragma unroll 1
    for (i32 k = thread; k < count; k += THREADS) full[k] = C(double(full[k]) * p.gain);
    if (thread == 0) {
        i32 any = 0;
#pragma unroll
        for (int warp = 0; warp < THREADS / 32; warp++) any |= faults[warp];
        *const_cast<TapsHeader *>(taps.header) = TapsHeader{!any, !(any & NOT_FINITE), {0, 0}};
    }
}
