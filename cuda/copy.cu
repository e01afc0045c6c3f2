// Elements from one layout to another, bit by bit: what the device itself needs, whatever operators there are.
#include "layout.cuh"
#include "parameters/copy.cuh"

template <typename T, typename Index> __device__ __forceinline__ void copy(const CopyParameters &p) {
    const Index index = thread_index<Index>();
    if (index >= Index(p.layout.count)) return;
    i64 offsets[2];
    locate(p.layout, index, offsets);
    pointer<T>(p.output)[offsets[0]] = pointer<const T>(p.input)[offsets[1]];
}

#define STRIDED(suffix, T, width, Index)                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS) copy_##suffix##_##width(CopyParameters p) {                  \
        copy<T, Index>(p);                                                                                             \
    }

FOR_EACH_TYPE_AND_INDEX(STRIDED)
