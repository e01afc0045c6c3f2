// ReduceSum over any axes, and BroadcastLike: a scaled copy with strides of 0.
#include "map.cuh"
#include "parameters/reduce_sum.cuh"
#include "reduce.cuh"

template <typename C> struct Scale {
    C factor;
    __device__ C operator()(const C (&values)[1]) const { return values[0] * factor; }
};

// One thread an output: for short sums and for very many outputs.
template <typename T, typename Index> __device__ __forceinline__ void reduce_by_thread(const ReduceSumParameters &p) {
    const Index index = thread_index<Index>();
    if (index >= Index(p.kept.count)) return;
    i64 base[2];
    locate(p.kept, index, base);
    const T *input = pointer<const T>(p.input) + base[1];
    double sum = 0.0;
    for (Index m = 0; m < Index(p.reduced.count); m++) {
        i64 offsets[2];
        locate(p.reduced, m, offsets);
        sum += double(widen(input[offsets[1]]));
    }
    pointer<T>(p.output)[base[0]] = narrow<T>(Compute<T>(sum * p.scale));
}

// One block an output and chunk.
template <typename T, typename Index> __device__ __forceinline__ void reduce_by_block(const ReduceSumParameters &p) {
    const Index output = Index(i64(blockIdx.x) / p.chunks);
    const Index chunk = Index(i64(blockIdx.x) - i64(output) * p.chunks);
    i64 base[2];
    locate(p.kept, output, base);
    const T *input = pointer<const T>(p.input) + base[1];
    double sum = 0.0;
#pragma unroll 1
    for (i32 start = 0; start < CHUNK; start += THREADS) {
        const Index m = chunk * Index(CHUNK) + start + i32(threadIdx.x);
        if (m < Index(p.reduced.count)) {
            i64 offsets[2];
            locate(p.reduced, m, offsets);
            sum += double(widen(input[offsets[1]]));
        }
    }
    const double total = block_sum(sum);
    if (threadIdx.x == 0) pointer<double>(p.partials)[blockIdx.x] = total;
}

#define VECTOR(suffix, T)                                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS) scale_##suffix(MapParameters p) {                            \
        map_vectors<T, 1>(p, Scale<Compute<T>>{Compute<T>(p.scalar)});                                                 \
    }
#define STRIDED(suffix, T, width, Index)                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS) scale_strided_##suffix##_##width(StridedMapParameters p) {   \
        map_strided<T, Index, 1>(p, Scale<Compute<T>>{Compute<T>(p.scalar)});                                          \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        reduce_sum_by_thread_##suffix##_##width(ReduceSumParameters p) {                                               \
        reduce_by_thread<T, Index>(p);                                                                                 \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        reduce_sum_by_block_##suffix##_##width(ReduceSumParameters p) {                                                \
        reduce_by_block<T, Index>(p);                                                                                  \
    }

FOR_EACH_TYPE(VECTOR)
FOR_EACH_TYPE_AND_INDEX(STRIDED)

extern "C" __global__ void __launch_bounds__(THREADS) reduce_sum_finish(FinishParameters p) { finish_sum(p); }
