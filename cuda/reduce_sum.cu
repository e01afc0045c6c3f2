// ReduceSum over any axes, and BroadcastLike: a scaled copy with strides of 0.
#include "map.cuh"
#include "parameters/reduce_sum.cuh"
#include "reduce.cuh"

template <typename C> struct Scale {
    C factor;
    __device__ C operator()(const C (&values)[1]) const { return values[0] * factor; }
};

// What an output is the sum of. Eight elements are loaded before the first is used, and added pairwise in the compute type;
// their sums are added in float64, which few GPUs are quick at. Where elements are counted in 64 bits, two.
template <typename T, typename Index> struct Summands {
    enum : i32 { UNDER_WAY = sizeof(Index) == 4 ? 8 : 2 };
    const T *input;
    const Layout &layout;

    // Of every step-th element from `first` to before `end`.
    __device__ __forceinline__ double sum(Index first, Index step, Index end) const {
        double total = 0.0;
#pragma unroll 1
        for (; first < end; first += step * UNDER_WAY) {
            i64 offsets[UNDER_WAY][2];
            locate_each(layout, first, step, offsets);
            T values[UNDER_WAY];
#pragma unroll
            for (int k = 0; k < UNDER_WAY; k++) {
                values[k] = T{};
                if (first + Index(k) * step < end) values[k] = input[offsets[k][1]];
            }
            Compute<T> sums[UNDER_WAY];
#pragma unroll
            for (int k = 0; k < UNDER_WAY; k++) sums[k] = widen(values[k]);
#pragma unroll
            for (int half = UNDER_WAY / 2; half > 0; half /= 2) {
#pragma unroll
                for (int k = 0; k < half; k++) sums[k] += sums[k + half];
            }
            total += double(sums[0]);
        }
        return total;
    }
};

template <typename T, typename Index>
__device__ __forceinline__ Summands<T, Index> summands(const ReduceSumParameters &p, i64 offset) {
    return Summands<T, Index>{pointer<const T>(p.input) + offset, p.reduced};
}

// One thread an output: for short sums and for very many outputs.
template <typename T, typename Index> __device__ __forceinline__ void reduce_by_thread(const ReduceSumParameters &p) {
    const Index index = thread_index<Index>();
    if (index >= Index(p.kept.count)) return;
    i64 base[2];
    locate(p.kept, index, base);
    const double sum = summands<T, Index>(p, base[1]).sum(0, 1, Index(p.reduced.count));
    pointer<T>(p.output)[base[0]] = narrow<T>(Compute<T>(sum * p.scale));
}

// One warp an output: the same where what is added lies side by side.
template <typename T, typename Index> __device__ __forceinline__ void reduce_by_warp(const ReduceSumParameters &p) {
    const Index index = thread_index<Index>() / 32;
    if (index >= Index(p.kept.count)) return;
    i64 base[2];
    locate(p.kept, index, base);
    const Index lane = Index(threadIdx.x % 32);
    double sum = summands<T, Index>(p, base[1]).sum(lane, 32, Index(p.reduced.count));
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (lane == 0) pointer<T>(p.output)[base[0]] = narrow<T>(Compute<T>(sum * p.scale));
}

// One block an output and chunk.
template <typename T, typename Index> __device__ __forceinline__ void reduce_by_block(const ReduceSumParameters &p) {
    const Index output = Index(i64(blockIdx.x) / p.chunks);
    const Index chunk = Index(i64(blockIdx.x) - i64(output) * p.chunks);
    i64 base[2];
    locate(p.kept, output, base);
    const Index first = chunk * Index(CHUNK), left = Index(p.reduced.count) - first;
    const Index end = first + (left < Index(CHUNK) ? left : Index(CHUNK));
    const double total = block_sum(summands<T, Index>(p, base[1]).sum(first + Index(threadIdx.x), THREADS, end));
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
        reduce_sum_by_warp_##suffix##_##width(ReduceSumParameters p) {                                                 \
        reduce_by_warp<T, Index>(p);                                                                                   \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        reduce_sum_by_block_##suffix##_##width(ReduceSumParameters p) {                                                \
        reduce_by_block<T, Index>(p);                                                                                  \
    }

FOR_EACH_TYPE(VECTOR)
FOR_EACH_TYPE_AND_INDEX(STRIDED)

extern "C" __global__ void __launch_bounds__(THREADS) reduce_sum_finish(FinishParameters p) { finish_sum(p); }
