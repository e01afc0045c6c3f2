// From a linear index to the operands' offsets, in 32-bit arithmetic where every offset fits.
#pragma once
#include "parameters.cuh"

// The loop is unrolled so that the parameter struct is never indexed at run time, which would copy it to local memory.
template <typename Index, int OPERANDS>
__device__ __forceinline__ void locate(const Layout &layout, Index index, i64 (&offsets)[OPERANDS]) {
    Index local[OPERANDS] = {};
#pragma unroll
    for (int d = MAX_RANK - 1; d >= 0; d--) {
        // Without dimensions the index is 0, and so are the strides.
        if (d == 0 || d < i32(layout.rank)) {
            Index size = Index(layout.sizes[d]);
            Index quotient = d == 0 ? Index(0) : index / size;
            Index position = index - quotient * size;
#pragma unroll
            for (int k = 0; k < OPERANDS; k++) local[k] += position * Index(layout.strides[k][d]);
            index = quotient;
        }
    }
#pragma unroll
    for (int k = 0; k < OPERANDS; k++) offsets[k] = i64(local[k]);
}

// Blocks are counted in 32 bits and threads within a block too; only their product needs 64.
template <typename Index> __device__ __forceinline__ Index thread_index() {
    return Index(blockIdx.x) * Index(THREADS) + Index(threadIdx.x);
}

// One entry point per storage type and index width: DEFINE(suffix, type, width, index).
#define FOR_EACH_TYPE_AND_INDEX(DEFINE)                                                                                \
    DEFINE(f16, float16, 32, i32) DEFINE(bf16, bfloat16, 32, i32) DEFINE(f32, float, 32, i32)                          \
    DEFINE(f64, double, 32, i32) DEFINE(f16, float16, 64, i64) DEFINE(bf16, bfloat16, 64, i64)                         \
    DEFINE(f32, float, 64, i64) DEFINE(f64, double, 64, i64)
