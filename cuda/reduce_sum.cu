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
    __shared__ double sums[THREADS / 32];
    const Index first = thread_index<Index>() / 32 - Index(threadIdx.x / 32), index = first + Index(threadIdx.x / 32);
    const Index lane = Index(threadIdx.x % 32), last = Index(p.kept.count) - 1;
    i64 base[2];
    // A warp without an output adds nothing.
    locate(p.kept, index < last ? index : last, base);
    double sum = summands<T, Index>(p, base[1]).sum(lane, 32, index <= last ? Index(p.reduced.count) : Index(0));
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (lane == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    // Stored side by side, by one warp. The output is row-major.
    if (threadIdx.x < THREADS / 32 && first + lane <= last) {
        pointer<T>(p.output)[first + lane] = narrow<T>(Compute<T>(sums[lane] * p.scale));
    }
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

// One block for 32 neighbouring outputs and COLUMN_CHUNK elements of each: where outputs, not summands, lie side by side.
template <typename T, typename Index> __device__ __forceinline__ void reduce_by_columns(const ReduceSumParameters &p) {
    __shared__ double sums[THREADS / 32][32];
    const Index group = Index(i64(blockIdx.x) / p.chunks), chunk = Index(i64(blockIdx.x) - i64(group) * p.chunks);
    const i32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Index output = group * 32 + Index(lane);
    const bool present = output < Index(p.kept.count);
    i64 base[2];
    locate(p.kept, present ? output : Index(0), base);
    const Index first = chunk * Index(COLUMN_CHUNK), left = Index(p.reduced.count) - first;
    const Index end = first + (left < Index(COLUMN_CHUNK) ? left : Index(COLUMN_CHUNK));
    sums[warp][lane] = summands<T, Index>(p, base[1]).sum(first + Index(warp), THREADS / 32, present ? end : first);
    __syncthreads();
    if (warp > 0 || !present) return;
    double total = 0.0;
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++) total += sums[w][lane];
    pointer<double>(p.partials)[i64(chunk) * p.kept.count + output] = total;
}

// And its last step: `stride` outputs, `count` chunks of each.
__device__ __forceinline__ void finish_columns(const FinishParameters &p) {
    __shared__ double sums[THREADS / 32][32];
    const i32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const i64 output = i64(blockIdx.x) * 32 + lane;
    double sum = 0.0;
    if (output < p.stride) {
#pragma unroll 1
        for (i64 m = warp; m < p.count; m += THREADS / 32) sum += pointer<const double>(p.partials)[m * p.stride + output];
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || output >= p.stride) return;
    double total = 0.0;
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++) total += sums[w][lane];
    store_as(p.output, i32(p.output_type), output, total * p.factor);
}

#define VECTOR(suffix, T)                                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS) scale_##suffix(MapParameters p) {                            \
        map_vectors<T, 1>(p, Scale<Compute<T>>{Compute<T>(p.scalars[0])});                                             \
    }
#define STRIDED(suffix, T, width, Index)                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS) scale_strided_##suffix##_##width(StridedMapParameters p) {   \
        map_strided<T, Index, 1>(p, Scale<Compute<T>>{Compute<T>(p.scalars[0])});                                      \
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
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        reduce_sum_by_columns_##suffix##_##width(ReduceSumParameters p) {                                              \
        reduce_by_columns<T, Index>(p);                                                                                \
    }

FOR_EACH_TYPE(VECTOR)
FOR_EACH_TYPE_AND_INDEX(STRIDED)

extern "C" __global__ void __launch_bounds__(THREADS) reduce_sum_finish(FinishParameters p) { finish_sum(p); }
extern "C" __global__ void __launch_bounds__(THREADS) reduce_sum_finish_columns(FinishParameters p) { finish_columns(p); }
