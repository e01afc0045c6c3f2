// BiasAct: y = clip(gain * f(x + b), -clamp, clamp). BiasActGradient: dx = dy * gain * the n-th derivative of f at x + b
// inside the clamp, else 0, and its sums for each channel.
#include "activation.cuh"
#include "layout.cuh"
#include "reduce.cuh"

template <typename T, typename Index, bool GRADIENT> __device__ __forceinline__ void map(const BiasActParameters &p) {
    using C = Compute<T>;
    const Index index = thread_index<Index>();
    if (index >= Index(p.layout.count)) return;
    i64 offsets[4];
    locate(p.layout, index, offsets);
    const C t = with_bias(C(widen(pointer<const T>(p.input)[offsets[1]])), p.bias, p.bias_type, offsets[3]);
    C result;
    if constexpr (GRADIENT) {
        result = backward(p.activation, C(widen(pointer<const T>(p.gradient)[offsets[2]])), t);
    } else {
        result = forward(p.activation, t);
    }
    pointer<T>(p.output)[offsets[0]] = narrow<T>(result);
}

// One block a channel and chunk.
template <typename T, typename Index> __device__ __forceinline__ void reduce(const BiasActReduceParameters &p) {
    using C = Compute<T>;
    const u32 channel = blockIdx.x / u32(p.chunks);
    const u32 chunk = blockIdx.x - channel * u32(p.chunks);
    const T *input = pointer<const T>(p.input) + i64(channel) * p.input_stride;
    const T *gradient = pointer<const T>(p.gradient) + i64(channel) * p.gradient_stride;
    C sum = C(0);
#pragma unroll 1
    for (i32 start = 0; start < CHUNK; start += THREADS) {
        const Index m = Index(chunk) * Index(CHUNK) + start + i32(threadIdx.x);
        if (m < Index(p.layout.count)) {
            i64 offsets[2];
            locate(p.layout, m, offsets);
            const C t = with_bias(C(widen(input[offsets[0]])), p.bias, p.bias_type, i64(channel));
            sum += backward(p.activation, C(widen(gradient[offsets[1]])), t);
        }
    }
    const double total = block_sum(double(sum));
    if (threadIdx.x == 0) pointer<double>(p.partials)[blockIdx.x] = total;
}

#define STRIDED(suffix, T, width, Index)                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS) bias_act_##suffix##_##width(BiasActParameters p) {           \
        map<T, Index, false>(p);                                                                                       \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) bias_act_gradient_##suffix##_##width(BiasActParameters p) {  \
        map<T, Index, true>(p);                                                                                        \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        bias_act_reduce_##suffix##_##width(BiasActReduceParameters p) {                                                \
        reduce<T, Index>(p);                                                                                           \
    }

FOR_EACH_TYPE_AND_INDEX(STRIDED)

extern "C" __global__ void __launch_bounds__(THREADS) bias_act_finish(FinishParameters p) { finish_sum(p); }
