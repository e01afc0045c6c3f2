// Functions of one number, step by step as `src/devices/cpu/functions` has them, with the same numbers: the bits agree.
// The compiler fuses nothing by itself; what is rounded once says so.
#pragma once
#include "types.cuh"

__device__ __forceinline__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
template <typename C> __device__ __forceinline__ C at_most(C x, C limit) { return x > limit ? limit : x; }
template <typename C> __device__ __forceinline__ C at_least(C x, C limit) { return x < limit ? limit : x; }
__device__ __forceinline__ float magnitude(float x) { return __uint_as_float(__float_as_uint(x) & 0x7fffffffu); }
__device__ __forceinline__ double magnitude(double x) {
    return __longlong_as_double(__double_as_longlong(x) & 0x7fffffffffffffffLL);
}
__device__ __forceinline__ float with_sign_of(float x, float sign) {
    return __uint_as_float((__float_as_uint(x) & 0x7fffffffu) | (__float_as_uint(sign) & 0x80000000u));
}
__device__ __forceinline__ double with_sign_of(double x, double sign) {
    const u64 mask = 0x8000000000000000ULL;
    return __longlong_as_double(i64((u64(__double_as_longlong(x)) & ~mask) | (u64(__double_as_longlong(sign)) & mask)));
}

// What is added to a number to round it to a whole one, whose bits are then the lowest of the sum.
template <typename C> __device__ __forceinline__ C shifter() { return sizeof(C) == 4 ? C(12582912.0) : C(6755399441055744.0); }

__device__ __forceinline__ float power(float n) {
    return __uint_as_float((__float_as_uint(n + shifter<float>()) << 23) + 0x3f800000u);
}
__device__ __forceinline__ double power(double n) {
    return __longlong_as_double(
        i64((u64(__double_as_longlong(n + shifter<double>())) << 52) + 0x3ff0000000000000ULL));
}

template <typename C> __device__ __forceinline__ C horner(C, double last) { return C(last); }
template <typename C, typename... Rest> __device__ __forceinline__ C horner(C x, double first, Rest... rest) {
    return fused(horner(x, rest...), x, C(first));
}

// (e^r - 1 - r) / r².
__device__ __forceinline__ float exp_series(float r) {
    return horner(r, 0.5, 0.1666666716337204, 0.04166635125875473, 0.00833327230066061, 0.0013941311044618487,
                  0.00019914597214665264);
}
__device__ __forceinline__ double exp_series(double r) {
    return horner(r, 0.5, 0.16666666666666677, 0.0416666666666667, 0.008333333333321341, 0.0013888888888866334,
                  0.000198412698869455, 2.4801587361561615e-05, 2.755724330728849e-06, 2.755724189526622e-07,
                  2.5109375844076164e-08, 2.0924711595698815e-09);
}
// (atanh(s) / s - 1) / s², of s².
__device__ __forceinline__ float atanh_series(float square) {
    return horner(square, 0.3333320617675781, 0.2001088708639145, 0.1399877667427063, 0.14016835391521454);
}
__device__ __forceinline__ double atanh_series(double square) {
    return horner(square, 0.3333333333333316, 0.20000000000076873, 0.1428571427410927, 0.11111111975103515,
                  0.09090872266842104, 0.07693274115143921, 0.06650556959515515, 0.06052530338158536,
                  0.04172138318583678, 0.08505657691024297);
}

// x = n ln 2 + r, and e^r - 1 with its rounding error.
template <typename C> struct Reduced {
    C n, expm1, low;
};
template <typename C> __device__ __forceinline__ Reduced<C> reduced(C x) {
    const C n = fused(x, C(1.4426950408889634), shifter<C>()) - shifter<C>();
    const C upper = sizeof(C) == 4 ? C(0.693145751953125) : C(0.6931471805601177);
    const C lower = sizeof(C) == 4 ? C(1.428606765330187e-06) : C(-1.7239444525614835e-13);
    const C r = fused(n, -lower, fused(n, -upper, x));
    const C rest = r * r * exp_series(r);
    const C expm1 = r + rest;
    return {n, expm1, r - expm1 + rest};
}
template <typename C> __device__ __forceinline__ C lowest() { return sizeof(C) == 4 ? C(-120.0) : C(-760.0); }

// A power of two in two factors, of which the first is a normal number.
template <typename C> struct Powers {
    C first, second;
};
template <typename C> __device__ __forceinline__ Powers<C> powers(C n) {
    const C limit = sizeof(C) == 4 ? C(100.0) : C(1000.0);
    const C first = at_most(at_least(n, -limit), limit);
    return {power(first), power(n - first)};
}

template <typename C> __device__ __forceinline__ C exponential(C x) {
    x = at_most(at_least(x, lowest<C>()), sizeof(C) == 4 ? C(89.5) : C(710.5));
    const Reduced<C> r = reduced(x);
    const Powers<C> p = powers(r.n);
    return (r.expm1 + r.low + C(1.0)) * p.first * p.second;
}

// A number and what its rounding lost.
template <typename C> struct WithLow {
    C value, low;
};

// e^x - 1 where x is not positive.
template <typename C> __device__ __forceinline__ WithLow<C> exponential_less_one(C x) {
    const Reduced<C> r = reduced(at_least(x, C(-80.0)));
    const C two_to_n = power(r.n);
    const C whole = two_to_n - C(1.0), part = r.expm1 * two_to_n;
    const C sum = whole + part;
    const C whole_low = two_to_n - (whole + C(1.0));
    return {sum, fused(r.low, two_to_n, whole - sum + part + whole_low)};
}

// A quotient with what the division lost; `constant + slope * divisor` is about one over the divisor.
template <typename C>
__device__ __forceinline__ WithLow<C> quotient(WithLow<C> numerator, WithLow<C> divisor, C constant, C slope) {
    const C value = numerator.value / divisor.value;
    const C negative = C(0.0) - value;
    const C remainder =
        fused(negative, divisor.low, fused(negative, divisor.value, numerator.value)) + numerator.low;
    return {value, remainder * fused(divisor.value, slope, constant)};
}

// 1 / (1 + e^|t|), a number times a power of two.
template <typename C> struct Logistic {
    C unscaled;
    Powers<C> scale;
    __device__ __forceinline__ C value() const { return unscaled * scale.first * scale.second; }
    __device__ __forceinline__ C times(C factor) const { return unscaled * factor * scale.first * scale.second; }
};
template <typename C> __device__ __forceinline__ Logistic<C> logistic(C t) {
    const Reduced<C> r = reduced(at_least(C(0.0) - magnitude(t), lowest<C>()));
    const Powers<C> scale = powers(r.n);
    const C numerator = C(1.0) + r.expm1;
    const C low = r.expm1 - (numerator - C(1.0)) + r.low;
    const C small = numerator * scale.first;
    const C divisor = C(1.0) + small;
    const C divisor_low = small - (divisor - C(1.0));
    const WithLow<C> result = quotient<C>({numerator, low}, {divisor, divisor_low}, C(1.457), C(-0.5));
    return {result.value + result.low, scale};
}

// ln(1 + e^-|t|).
template <typename C> __device__ __forceinline__ C log1p_exp(C t) {
    const Reduced<C> r = reduced(at_least(C(0.0) - magnitude(t), lowest<C>()));
    const Powers<C> scale = powers(r.n);
    const C numerator = C(1.0) + r.expm1;
    const C low = r.expm1 - (numerator - C(1.0)) + r.low;
    const C small = numerator * scale.first;
    const C divisor = C(2.0) + small;
    const C divisor_low = small - (divisor - C(2.0));
    const WithLow<C> s = quotient<C>({numerator, low}, {divisor, divisor_low}, C(0.8266), C(-1.0 / 6.0));
    const C scaled = s.value * scale.first;
    const C square = scaled * scaled;
    const C series = square * atanh_series(square);
    const C half = s.value + fused(s.value, series, s.low);
    return (half + half) * scale.first * scale.second;
}

template <typename C> __device__ __forceinline__ C hyperbolic_tangent(C t) {
    const WithLow<C> e = exponential_less_one(C(-2.0) * magnitude(t));
    const C divisor = C(2.0) + e.value;
    const C divisor_low = e.value - (divisor - C(2.0)) + e.low;
    const WithLow<C> result =
        quotient<C>({C(0.0) - e.value, C(0.0) - e.low}, {divisor, divisor_low}, C(1.457), C(-0.5));
    return with_sign_of(result.value + result.low, t);
}

// 4 e / (1 + e)² of e = e^(-2 |t|).
template <typename C> __device__ __forceinline__ C hyperbolic_tangent_slope(C t) {
    const Logistic<C> l = logistic(t + t);
    return l.times(C(4.0) * (C(1.0) - l.value()));
}
