// From a linear index to the operands' offsets, in 32-bit arithmetic where every offset fits.
#pragma once
#include "parameters.cuh"

// Which of the pieces of size `sizes[d]` an index is in. The host has found the multiplier; 64 bits are divided as they are.
template <typename Index> __device__ __forceinline__ Index divide(const Layout &layout, int d, Index index) {
    if constexpr (sizeof(Index) == 4) {
        return Index((u64(u32(index)) * layout.magics[d]) >> layout.shifts[d]);
    } else {
        return index / Index(layout.sizes[d]);
    }
}

// Of every step-th index from `first` on. The loop is unrolled so that the parameter struct is never indexed at run time,
// which would copy it to local memory.
template <typename Index, int COUNT, int OPERANDS>
__device__ __forceinline__ void locate_each(const Layout &layout, Index first, Index step, i64 (&offsets)[COUNT][OPERANDS]) {
    Index rest[COUNT], local[COUNT][OPERANDS] = {};
#pragma unroll
    for (int e = 0; e < COUNT; e++) rest[e] = first + Index(e) * step;
#pragma unroll
    for (int d = MAX_RANK - 1; d >= 0; d--) {
        // Without dimensions the index is 0, and so are the strides.
        if (d == 0 || d < i32(layout.rank)) {
#pragma unroll
            for (int e = 0; e < COUNT; e++) {
                const Index quotient = d == 0 ? Index(0) : divide(layout, d, rest[e]);
                const Index position = rest[e] - quotient * Index(layout.sizes[d]);
#pragma unroll
                for (int k = 0; k < OPERANDS; k++) local[e][k] += position * Index(layout.strides[k][d]);
                rest[e] = quotient;
            }
        }
    }
#pragma unroll
    for (int e = 0; e < COUNT; e++) {
#pragma unroll
        for (int k = 0; k < OPERANDS; k++) offsets[e][k] = i64(local[e][k]);
    }
}

template <typename Index, int OPERANDS>
__device__ __forceinline__ void locate(const Layout &layout, Index index, i64 (&offsets)[OPERANDS]) {
    i64 one[1][OPERANDS];
    locate_each(layout, index, Index(0), one);
#pragma unroll
    for (int k = 0; k < OPERANDS; k++) offsets[k] = one[0][k];
}

// Blocks are counted in 32 bits and threads within a block too; only their product needs 64.
template <typename Index> __device__ __forceinline__ Index thread_index() {
    return Index(blockIdx.x) * Index(THREADS) + Index(threadIdx.x);
}

// The elements of a thread, THREADS apart: `load(e, index, offsets)` of each, then `store(e, index, offsets)` of each. Those
// that are counted in 64 bits, which takes long divisions, come one after the other.
template <int OPERANDS, typename Index, typename Load, typename Store>
__device__ __forceinline__ void for_each_element(const Layout &layout, const Load &load, const Store &store) {
    constexpr int TOGETHER = sizeof(Index) == 4 ? ELEMENTS : 1;
    const Index start = Index(blockIdx.x) * Index(THREADS * ELEMENTS) + Index(threadIdx.x), count = Index(layout.count);
#pragma unroll 1
    for (i32 round = 0; round < ELEMENTS / TOGETHER; round++) {
        const Index first = start + Index(round * TOGETHER * THREADS);
        i64 offsets[TOGETHER][OPERANDS];
        locate_each(layout, first, Index(THREADS), offsets);
#pragma unroll
        for (int e = 0; e < TOGETHER; e++) {
            const Index index = first + Index(e * THREADS);
            if (index < count) load(e, index, offsets[e]);
        }
#pragma unroll
        for (int e = 0; e < TOGETHER; e++) {
            const Index index = first + Index(e * THREADS);
            if (index < count) store(e, index, offsets[e]);
        }
    }
}

// One entry point per storage type and index width: DEFINE(suffix, type, width, index).
#define FOR_EACH_TYPE_AND_INDEX(DEFINE)                                                                                \
    DEFINE(f16, float16, 32, i32) DEFINE(bf16, bfloat16, 32, i32) DEFINE(f32, float, 32, i32)                          \
    DEFINE(f64, double, 32, i32) DEFINE(f16, float16, 64, i64) DEFINE(bf16, bfloat16, 64, i64)                         \
    DEFINE(f32, float, 64, i64) DEFINE(f64, double, 64, i64)
