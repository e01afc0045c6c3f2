// BiasAct: y = clip(gain * f(x + b), -clamp, clamp). BiasActGradient: dx = dy * gain * the n-th derivative of f at x + b
// inside the clamp, else 0, and its sums for each channel.
#include "functions.cuh"
#include "layout.cuh"
#include "parameters/bias_act.cuh"
#include "reduce.cuh"

enum Activation : i32 { LINEAR, RELU, LRELU, TANH, SIGMOID, ELU, SELU, SOFTPLUS, SWISH };

template <typename C> __device__ __forceinline__ C selu_positive() { return C(1.0507009873554805); }
template <typename C> __device__ __forceinline__ C selu_negative() { return C(1.0507009873554805 * 1.6732632423543773); }
template <typename C> __device__ __forceinline__ C bounded(C t) { return at_least(at_most(t, C(1000.0)), C(-1000.0)); }

// The logistic function and its derivative.
template <typename C> struct WithSlope {
    C value, slope;
};
template <typename C> __device__ __forceinline__ WithSlope<C> logistic_with_slope(C t) {
    const Logistics<C> l = logistics(t);
    return {t > C(0.0) ? l.greater : l.lesser(), l.lesser_times(l.greater)};
}

template <typename C> __device__ __forceinline__ C value_at(i32 activation, C alpha, C t) {
    switch (activation) {
    case LINEAR: return t;
    case RELU: return at_least(t, C(0.0));
    case LRELU: return t > C(0.0) ? t : t * alpha;
    case TANH: return hyperbolic_tangent(t);
    case SIGMOID: return logistic(t);
    case ELU: return C(0.0) > t ? exponential_less_one(t) : t;
    case SELU:
        return C(0.0) > t ? exponential_less_one_times(t, selu_negative<C>()) : t * selu_positive<C>();
    case SOFTPLUS: return softplus(t);
    default: return swish(t);
    }
}

template <typename C>
__device__ __forceinline__ C series_at(const double (&coefficients)[MOST_COEFFICIENTS], i64 length, C x) {
    C sum = C(0.0);
    // Unrolled, since parameters are not indexed at run time.
#pragma unroll
    for (int place = MOST_COEFFICIENTS - 1; place >= 0; place--) {
        if (place < length) sum = fused(sum, x, C(coefficients[place]));
    }
    return sum;
}

template <typename C> __device__ __forceinline__ C derivative_at(const ActivationParameters &p, C t) {
    const bool first = p.order == 1;
    switch (i32(p.activation)) {
    case LINEAR: return first ? C(1.0) : C(0.0);
    case RELU: return first && t > C(0.0) ? C(1.0) : C(0.0);
    case LRELU: return first ? (t > C(0.0) ? C(1.0) : C(p.alpha)) : C(0.0);
    case TANH: {
        const C slope = hyperbolic_tangent_slope(t);
        return first ? slope : slope * series_at(p.factor, p.factor_length, hyperbolic_tangent(t));
    }
    case ELU: return C(0.0) > t ? exponential_of_negative(t) : first ? C(1.0) : C(0.0);
    case SELU: return C(0.0) > t ? exponential_of_negative(t) * selu_negative<C>() : first ? selu_positive<C>() : C(0.0);
    default: break;
    }
    if (p.activation == SWISH && first) {
        const Logistics<C> l = logistics(t);
        const C limited = bounded(t);
        // Where the logistic function is small, it is multiplied in last.
        const C negative = l.lesser_times(fused(limited, l.greater, C(1.0)));
        return limited > C(0.0) ? fused(limited, l.lesser_times(l.greater), l.greater) : negative;
    }
    if (p.activation == SOFTPLUS && first) return logistic(t);
    const WithSlope<C> l = logistic_with_slope(t);
    if (p.activation == SIGMOID && first) return l.slope;
    const C factor = series_at(p.factor, p.factor_length, l.value);
    if (p.activation != SWISH) return l.slope * factor;
    const C before = series_at(p.before, p.before_length, l.value);
    return l.slope * fused(bounded(t), factor, C(double(p.order)) * before);
}

template <typename C> __device__ __forceinline__ C forward(const ActivationParameters &p, C t) {
    const C value = value_at(i32(p.activation), C(p.alpha), t) * C(p.gain);
    const C clamp = C(p.clamp);
    return at_least(at_most(value, clamp), C(0.0) - clamp);
}

template <typename C> __device__ __forceinline__ C backward(const ActivationParameters &p, C dy, C t) {
    const C product = dy * (derivative_at(p, t) * C(p.gain));
    const C clamp = C(p.clamp);
    if (!(clamp < C(__longlong_as_double(0x7ff0000000000000LL)))) return product;
    return magnitude(value_at(i32(p.activation), C(p.alpha), t) * C(p.gain)) > clamp ? C(0.0) : product;
}

template <typename C> __device__ __forceinline__ C with_bias(C x, u64 bias, i64 type, i64 index) {
    return bias ? x + load_as<C>(bias, i32(type), index) : x;
}

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
