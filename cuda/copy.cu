// Elements from one layout to another, bit by bit: what the device itself needs, whatever operators there are.
#include "layout.cuh"
#include "parameters/copy.cuh"

template <typename T, typename Index> __device__ __forceinline__ void copy(const CopyParameters &p) {
    T values[ELEMENTS];
    const auto load = [&](int e, Index, const i64 (&offsets)[2]) { values[e] = pointer<const T>(p.input)[offsets[1]]; };
    const auto store = [&](int e, Index, const i64 (&offsets)[2]) { pointer<T>(p.output)[offsets[0]] = values[e]; };
    for_each_element<2, Index>(p.layout, load, store);
}

#define STRIDED(suffix, T, width, Index)                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS) copy_##suffix##_##width(CopyParameters p) {                  \
        copy<T, Index>(p);                                                                                             \
    }

FOR_EACH_TYPE_AND_INDEX(STRIDED)
