// Sums in one fixed order, so that a result never varies from run to run.
#pragma once
#include "parameters.cuh"

// Every thread calls this; thread 0 gets the sum. Lanes are added pairwise, then the warps in order.
__device__ __forceinline__ double block_sum(double value) {
    __shared__ double warps[THREADS / 32];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(0xffffffffu, value, distance);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    double total = 0.0;
    if (threadIdx.x == 0) {
#pragma unroll
        for (int w = 0; w < THREADS / 32; w++) total += warps[w];
    }
    return total;
}

// One block an output.
__device__ __forceinline__ void finish_sum(const FinishParameters &p) {
    const double *partials = pointer<const double>(p.partials) + i64(blockIdx.x) * p.stride;
    double sum = 0.0;
    for (i64 m = threadIdx.x; m < p.count; m += THREADS) {
        const i64 outer = m / p.inner;
        sum += partials[outer * p.outer_stride + (m - outer * p.inner)];
    }
    const double total = block_sum(sum);
    if (threadIdx.x == 0) store_as(p.output, i32(p.output_type), blockIdx.x, total * p.factor);
}
