// The two skeletons of element-wise kernels: contiguous by sixteen-byte vectors, and any strides.
#pragma once
#include "layout.cuh"
#include "vector.cuh"

// Each block takes THREADS * VECTORS vectors; all loads of a thread are issued before its first store. The last block
// also does the elements that fill no vector. Input and output may be the same memory, never overlap otherwise.
template <typename T, int INPUTS, typename Function>
__device__ __forceinline__ void map_vectors(const MapParameters &p, Function function) {
    using C = Compute<T>;
    constexpr int LANES = Pack<T>::LANES;
    constexpr i32 TILE = THREADS * VECTORS;
    const i64 vectors = p.count / LANES;
    const i64 first = i64(blockIdx.x) * TILE;
    const i32 limit = i32(vectors - first < TILE ? vectors - first : TILE);
    T *output = pointer<T>(p.output) + first * LANES;
    const T *inputs[INPUTS];
#pragma unroll
    for (int k = 0; k < INPUTS; k++) inputs[k] = pointer<const T>(p.inputs[k]) + first * LANES;

    Pack<T> packs[INPUTS][VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const i32 position = v * THREADS + i32(threadIdx.x);
        if (position < limit) {
#pragma unroll
            for (int k = 0; k < INPUTS; k++) packs[k][v] = load_pack(inputs[k] + position * LANES);
        }
    }
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const i32 position = v * THREADS + i32(threadIdx.x);
        if (position < limit) {
            Pack<T> result;
#pragma unroll
            for (int i = 0; i < LANES; i++) {
                C values[INPUTS];
#pragma unroll
                for (int k = 0; k < INPUTS; k++) values[k] = packs[k][v].get(i);
                result.set(i, function(values));
            }
            store_pack(output + position * LANES, result);
        }
    }
    const i64 tail = vectors * LANES + threadIdx.x;
    if (blockIdx.x == gridDim.x - 1 && tail < p.count) {
        C values[INPUTS];
#pragma unroll
        for (int k = 0; k < INPUTS; k++) values[k] = widen(pointer<const T>(p.inputs[k])[tail]);
        pointer<T>(p.output)[tail] = narrow<T>(function(values));
    }
}

// All loads of a thread are issued before its first store.
template <typename T, typename Index, int INPUTS, typename Function>
__device__ __forceinline__ void map_strided(const StridedMapParameters &p, Function function) {
    using C = Compute<T>;
    T values[ELEMENTS][INPUTS];
    const auto load = [&](int e, Index, const i64 (&offsets)[INPUTS + 1]) {
#pragma unroll
        for (int k = 0; k < INPUTS; k++) values[e][k] = pointer<const T>(p.inputs[k])[offsets[k + 1]];
    };
    const auto store = [&](int e, Index, const i64 (&offsets)[INPUTS + 1]) {
        C operands[INPUTS];
#pragma unroll
        for (int k = 0; k < INPUTS; k++) operands[k] = widen(values[e][k]);
        pointer<T>(p.output)[offsets[0]] = narrow<T>(function(operands));
    };
    for_each_element<INPUTS + 1, Index>(p.layout, load, store);
}
