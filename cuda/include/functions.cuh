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

// 2^n, a normal number, of a whole n moved by the shifter.
__device__ __forceinline__ float power(float moved) {
    return __uint_as_float((__float_as_uint(moved) << 23) + 0x3f800000u);
}
__device__ __forceinline__ double power(double moved) {
    return __longlong_as_double(i64((u64(__double_as_longlong(moved)) << 52) + 0x3ff0000000000000ULL));
}

// A polynomial of x and its square, the constant coefficient first: pairs of terms do not wait for each other.
template <typename C> __device__ __forceinline__ C polynomial(C, C, double constant) { return C(constant); }
template <typename C> __device__ __forceinline__ C polynomial(C x, C, double constant, double linear) {
    return fused(C(linear), x, C(constant));
}
template <typename C, typename... Rest>
__device__ __forceinline__ C polynomial(C x, C square, double constant, double linear, Rest... rest) {
    return fused(polynomial(x, square, rest...), square, fused(C(linear), x, C(constant)));
}

// About one over a positive normal number: off by a part of 0.0506 at most.
__device__ __forceinline__ float about_inverse(float x) { return __uint_as_float(0x7ef31000u - __float_as_uint(x)); }
__device__ __forceinline__ double about_inverse(double x) {
    return __longlong_as_double(i64(0x7fde620000000000ULL - u64(__double_as_longlong(x))));
}
// From what is off by a part of e to what is off by its square, and by its cube.
template <typename C> __device__ __forceinline__ C squared(C divisor, C about, C one) {
    return fused(about, fused(-about, divisor, one), about);
}
template <typename C> __device__ __forceinline__ C cubed(C divisor, C about) {
    const C error = fused(-about, divisor, C(1.0));
    return fused(about, fused(error, error, error), about);
}
// One over a positive number, nearly, and within one unit of the last place.
template <typename C> __device__ __forceinline__ C near_inverse(C divisor) {
    const C about = cubed(divisor, about_inverse(divisor));
    return sizeof(C) == 4 ? about : cubed(divisor, about);
}
template <typename C> __device__ __forceinline__ C inverse_of(C divisor) {
    return squared(divisor, near_inverse(divisor), C(1.0));
}
// One over a number from 1 to 2, nearly.
template <typename C> __device__ __forceinline__ C near_inverse_up_to_two(C divisor) {
    const C about = fused(fused(C(32.0 / 99.0), divisor, C(-144.0 / 99.0)), divisor, C(210.0 / 99.0));
    const C near = squared(divisor, about, C(1.00005));
    return sizeof(C) == 4 ? near : squared(divisor, near, C(1.0));
}

// (e^r - 1 - r) / r².
__device__ __forceinline__ float exp_series(float r, float square) {
    return polynomial(r, square, 0.4999999701976776, 0.1666654497385025, 0.04166743904352188, 0.00836645346134901,
                  0.0013870554976165295);
}
__device__ __forceinline__ double exp_series(double r, double square) {
    return polynomial(r, square, 0.5, 0.16666666666666677, 0.0416666666666667, 0.008333333333321341, 0.0013888888888866334,
                  0.000198412698869455, 2.4801587361561615e-05, 2.755724330728849e-06, 2.755724189526622e-07,
                  2.5109375844076164e-08, 2.0924711595698815e-09);
}
// (ln(1 + e) - e) / e².
__device__ __forceinline__ float log_series(float e) {
    return polynomial(e, e * e, -0.4999993145465851, 0.33330464363098145, -0.24958020448684692, 0.1969212144613266,
                  -0.15344977378845215, 0.10661371052265167, -0.0574604831635952, 0.02008846029639244,
                  -0.003291074186563492);
}
__device__ __forceinline__ double log_series(double e) {
    return polynomial(e, e * e, -0.5, 0.33333333333332466, -0.2499999999987205, 0.1999999999247163, -0.1666666643097834,
                  0.14285709745445543, -0.12499941281507687, 0.11110571142855806, -0.09996324347550137,
                  0.09071835292534261, -0.0825618541627825, 0.07444817019942226, -0.06504010366036855,
                  0.053223522460321214, -0.03912505115233944, 0.024682950191684934, -0.012732150528247672,
                  0.005081090478548994, -0.0014569248473329174, 0.000265295970542531, -2.2938856818471438e-05);
}

// The exponent that powers of two are moved by, where results may be subnormal, and its power.
template <typename C> __device__ __forceinline__ C moved_by() { return sizeof(C) == 4 ? C(48.0) : C(400.0); }
template <typename C> __device__ __forceinline__ C scale() { return power(shifter<C>() + moved_by<C>()); }
template <typename C> __device__ __forceinline__ C back() { return power(shifter<C>() - moved_by<C>()); }

// x = n ln 2 + r; `n` is moved by the shifter.
template <typename C> struct Reduced {
    C n, r;
    __device__ __forceinline__ C expm1() const { return fused(r * r, exp_series(r, r * r), r); }
};
template <typename C> __device__ __forceinline__ Reduced<C> reduced_to(C x, C moved, C shift) {
    const C n = moved - shift;
    const C upper = sizeof(C) == 4 ? C(0.693145751953125) : C(0.6931471805601177);
    const C lower = sizeof(C) == 4 ? C(1.428606765330187e-06) : C(-1.7239444525614835e-13);
    return {moved, fused(n, -lower, fused(n, -upper, x))};
}
// The power of n is moved by so many exponents.
template <typename C> __device__ __forceinline__ Reduced<C> reduced(C x, C by) {
    const C shift = shifter<C>() + by;
    return reduced_to(x, fused(x, C(1.4426950408889634), shift), shift);
}
template <typename C> __device__ __forceinline__ C lowest() { return sizeof(C) == 4 ? C(-120.0) : C(-760.0); }
template <typename C> __device__ __forceinline__ C highest() { return sizeof(C) == 4 ? C(20.0) : C(40.0); }
template <typename C> __device__ __forceinline__ C lowest_less_one() { return sizeof(C) == 4 ? C(-30.0) : C(-60.0); }

template <typename C> __device__ __forceinline__ C exponential(C x) {
    x = at_most(at_least(x, lowest<C>()), sizeof(C) == 4 ? C(89.5) : C(710.5));
    const Reduced<C> r = reduced(x, C(0.0));
    // The power in two factors, of which the first is a normal number.
    const C limit = sizeof(C) == 4 ? C(100.0) : C(1000.0);
    const C first = at_most(at_least(r.n, shifter<C>() - limit), shifter<C>() + limit);
    return (r.expm1() + C(1.0)) * power(first) * power(r.n - first + shifter<C>());
}

// e^x where x is not positive.
template <typename C> __device__ __forceinline__ C exponential_of_negative(C x) {
    const Reduced<C> r = reduced(at_least(x, lowest<C>()), moved_by<C>());
    const C two_to_n = power(r.n);
    return fused(r.expm1(), two_to_n, two_to_n) * back<C>();
}

// e^x - 1 where x is not positive, and that times a factor.
template <typename C> __device__ __forceinline__ C exponential_less_one(C x) {
    const Reduced<C> r = reduced(at_least(x, lowest_less_one<C>()), C(0.0));
    const C two_to_n = power(r.n);
    return fused(r.expm1(), two_to_n, two_to_n - C(1.0));
}
template <typename C> __device__ __forceinline__ C exponential_less_one_times(C x, C factor) {
    const Reduced<C> r = reduced(at_least(x, lowest_less_one<C>()), C(0.0));
    const C two_to_n = power(r.n) * factor;
    const C rest = r.r * r.r * exp_series(r.r, r.r * r.r);
    const C expm1 = r.r + rest;
    const C low = r.r - expm1 + rest;
    return fused(expm1, two_to_n, fused(low, two_to_n, two_to_n - factor));
}

// 1 / (1 + e^-x) times a power of two.
template <typename C> __device__ __forceinline__ C scaled_logistic(C x) {
    const Reduced<C> r = reduced(-x, -moved_by<C>());
    const C two_to_n = power(r.n), one = back<C>();
    const C rest = r.expm1() * two_to_n;
    const C inverse = near_inverse(two_to_n + one + rest);
    const C remainder = fused(-inverse, rest, fused(-inverse, one, fused(-inverse, two_to_n, C(1.0))));
    return fused(remainder, inverse, inverse);
}
template <typename C> __device__ __forceinline__ C logistic(C t) {
    return scaled_logistic(at_most(at_least(t, lowest<C>()), highest<C>())) * back<C>();
}
template <typename C> __device__ __forceinline__ C swish(C t) {
    const C x = at_least(t, lowest<C>());
    const C product = scaled_logistic(x) * x * back<C>();
    return t > highest<C>() ? t : product;
}

// The logistic functions of -|t| and of |t|.
template <typename C> struct Logistics {
    C exponential, inverse, greater;
    __device__ __forceinline__ C lesser() const { return exponential * inverse; }
    __device__ __forceinline__ C lesser_times(C factor) const { return exponential * factor * inverse; }
};
template <typename C> __device__ __forceinline__ Logistics<C> logistics(C t) {
    const Reduced<C> r = reduced(at_least(-magnitude(t), lowest<C>()), moved_by<C>());
    const C two_to_n = power(r.n), one = scale<C>();
    const C exponential = fused(r.expm1(), two_to_n, two_to_n);
    const C inverse = inverse_of(exponential + one);
    return {exponential, inverse, inverse * one};
}

// ln(1 + e^t).
template <typename C> __device__ __forceinline__ C softplus(C t) {
    const Reduced<C> r = reduced(at_least(-magnitude(t), lowest<C>()), moved_by<C>());
    const C two_to_n = power(r.n), expm1 = r.expm1();
    const C number = C(1.0) + expm1;
    const C lost = expm1 - (number - C(1.0));
    const C unmoved = two_to_n * back<C>();
    const C e = number * unmoved;
    const C rest = fused(number * e, log_series(e), lost * fused(e, C(-0.5), C(1.0)));
    const C logarithm = number + rest;
    const C low = number - logarithm + rest;
    return fused(low, unmoved, at_least(t, C(0.0))) + logarithm * two_to_n * back<C>();
}

template <typename C> __device__ __forceinline__ C hyperbolic_tangent(C t) {
    const C size = magnitude(t);
    const C x = at_least(C(-2.0) * size, sizeof(C) == 4 ? C(-18.5) : C(-40.0));
    const C limited = at_most(size, sizeof(C) == 4 ? C(8.1) : C(18.1));
    const C moved = fused(limited, C(-2.0 * 1.4426950408889634), shifter<C>());
    const Reduced<C> r = reduced_to(x, moved, shifter<C>());
    const C two_to_n = power(r.n);
    const C rest = r.expm1() * two_to_n;
    const C less = C(1.0) - two_to_n, more = C(1.0) + two_to_n;
    const C divisor = more + rest;
    const C inverse = near_inverse_up_to_two(divisor);
    const C quotient = (less - rest) * inverse;
    const C remainder = fused(-rest, quotient, fused(-quotient, more, less) - rest);
    return with_sign_of(fused(remainder, inverse, quotient), t);
}

// 4 e / (1 + e)² of e = e^(-2 |t|).
template <typename C> __device__ __forceinline__ C hyperbolic_tangent_slope(C t) {
    const Logistics<C> l = logistics(t + t);
    return l.lesser_times(l.greater * C(4.0));
}
