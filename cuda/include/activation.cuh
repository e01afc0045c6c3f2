// The activations of BiasAct and their derivatives at one number: t is the argument with its bias.
#pragma once
#include "functions.cuh"
#include "parameters/bias_act.cuh"

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
