// sin² of an angle and the sine of twice it, step by step as `src/devices/cpu/functions/sine.rs` has them, with the same
// numbers: the bits agree.
#pragma once
#include "functions.cuh"

template <typename C> struct Angle {
    C sine_squared, sine_of_double;
    __device__ __forceinline__ C cosine_of_double() const { return fused(sine_squared, C(-2.0), C(1.0)); }
};

// (sin²(r) - r²) / r⁴, of r².
__device__ __forceinline__ float square_series(float square, float fourth) {
    return polynomial(square, fourth, -0.333333283662796, 0.04444370046257973, -0.003171108663082123, 0.00013456963642966002);
}
__device__ __forceinline__ double square_series(double square, double fourth) {
    return polynomial(square, fourth, -0.3333333333333333, 0.044444444444444224, -0.0031746031745992433, 0.00014109347439329224,
                  -4.275559673027051e-06, 9.396791326202063e-08, -1.5654452723712954e-09, 1.9875557678436042e-11);
}
// (sin(2r) / 2r - 1) / r², of r²: the constant coefficient, and the others over r².
template <typename C> __device__ __forceinline__ C first_of_double() {
    return sizeof(C) == 4 ? C(-0.6666666865348816) : C(-0.6666666666666666);
}
__device__ __forceinline__ float double_series(float square, float fourth) {
    return polynomial(square, fourth, 0.13333360850811005, -0.012699577957391739, 0.0007072442094795406,
                  -2.610584670037497e-05);
}
__device__ __forceinline__ double double_series(double square, double fourth) {
    return polynomial(square, fourth, 0.13333333333333333, -0.012698412698412574, 0.0007054673721327209,
                  -2.5653358978828403e-05, 6.577784071360672e-07, -1.2529049625172906e-08, 1.8416613079998028e-10,
                  -2.0910224660382343e-12);
}

template <typename C> __device__ __forceinline__ Angle<C> of_reduced(C r, C low, bool is_odd) {
    const C square = r * r, twice = r + r, fourth = square * square;
    const C derivative = fused(square, C(-2.0 / 3.0), C(1.0));
    const C square_low = fused(r, r, -square) * derivative;
    const C known = fused(fourth, square_series(square, fourth), square_low);
    const C rest = fused(twice * derivative, low, fused(low, low, known));
    const C sine_low = fused(square, C(-4.0), C(2.0)) * low;
    const C cube = twice * square;
    const C sine = twice + fused(cube, first_of_double<C>(), fused(cube * square, double_series(square, fourth), sine_low));
    return {is_odd ? C(1.0) - square - rest : square + rest, is_odd ? -sine : sine};
}

// One of some words; zero beyond them. Chosen, not indexed: a table would be local memory.
__device__ __forceinline__ u64 chosen(i32) { return 0; }
template <typename... Rest> __device__ __forceinline__ u64 chosen(i32 index, u64 first, Rest... rest) {
    return (index == 0 ? first : 0) | chosen(index - 1, rest...);
}
// The bits of 2/π behind the point, as many words of them as angles of a type need.
__device__ __forceinline__ u64 word_of_two_over_pi(float, i32 index) {
    return chosen(index, 0xa2f9836e4e441529ULL, 0xfc2757d1f534ddc0ULL, 0xdb6295993c439041ULL, 0xfe5163abdebbc561ULL,
                  0xb7246e3a424dd2e0ULL);
}
__device__ __forceinline__ u64 word_of_two_over_pi(double, i32 index) {
    return chosen(index, 0xa2f9836e4e441529ULL, 0xfc2757d1f534ddc0ULL, 0xdb6295993c439041ULL, 0xfe5163abdebbc561ULL,
                  0xb7246e3a424dd2e0ULL, 0x06492eea09d1921cULL, 0xfe1deb1cb129a73eULL, 0xe88235f52ebb4484ULL,
                  0xe99c7026b45f7e41ULL, 0x3991d639835339f4ULL, 0x9c845f8bbdf9283bULL, 0x1ff897ffde05980fULL,
                  0xef2f118b5a0a6d1fULL, 0x6d367ecf27cb09b7ULL, 0x4f463f669e5fea2dULL, 0x7527bac7ebe5f17bULL,
                  0x3d0739f78a5292eaULL, 0x6bfb5fb11f8d5d08ULL, 0x56033046fc7b6babULL, 0xf0cfbc209af4361dULL);
}
__device__ __forceinline__ u64 joined(u64 upper, u64 lower, i32 shift) {
    return shift == 0 ? upper : upper << shift | lower >> (64 - shift);
}

__device__ __forceinline__ void integer_and_exponent(float z, u64 &integer, i32 &exponent) {
    const u32 bits = __float_as_uint(z) & 0x7fffffffu;
    integer = (bits & 0x7fffffu) | 0x800000u;  // never subnormal: large angles alone come here
    exponent = i32(bits >> 23) - 150;
}
__device__ __forceinline__ void integer_and_exponent(double z, u64 &integer, i32 &exponent) {
    const u64 bits = u64(__double_as_longlong(z)) & 0x7fffffffffffffffULL;
    integer = (bits & 0xfffffffffffffULL) | 0x10000000000000ULL;
    exponent = i32(bits >> 52) - 1075;
}

// A large finite angle, reduced by its exact product with 2/π.
template <typename C> __device__ __forceinline__ Angle<C> large_angle(C z) {
    u64 integer;
    i32 exponent;
    integer_and_exponent(z, integer, exponent);
    // 192 bits from this place on, which may lie before the point; what comes before gives whole numbers.
    const i32 from = exponent - 1;
    const i32 index = from >> 6, shift = from & 63;
    const u64 second_word = word_of_two_over_pi(z, index + 1), third_word = word_of_two_over_pi(z, index + 2);
    const u64 high_bits = joined(word_of_two_over_pi(z, index), second_word, shift);
    const u64 middle_bits = joined(second_word, third_word, shift);
    const u64 low_bits = joined(third_word, word_of_two_over_pi(z, index + 3), shift);
    const u64 lowest = low_bits * integer;
    u64 middle = middle_bits * integer;
    const u64 carried = __umul64hi(low_bits, integer);
    middle += carried;
    u64 upper = high_bits * integer + __umul64hi(middle_bits, integer);
    upper += middle < carried ? 1 : 0;
    // The first bit says whether the quotient is odd, the others are its fraction.
    u64 high = upper << 1 | middle >> 63, low = middle << 1 | lowest >> 63;
    const bool is_beyond = high >> 63 == 1;
    const bool is_odd = (upper >> 63 == 1) != is_beyond;
    if (is_beyond) {
        low = ~low + 1;
        high = ~high + (low == 0 ? 1 : 0);
    }
    const i32 zeros = high != 0 ? __clzll(i64(high)) : 64 + __clzll(i64(low));
    if (zeros >= 64) {
        high = zeros == 128 ? 0 : low << (zeros - 64);
        low = 0;
    } else if (zeros > 0) {
        high = high << zeros | low >> (64 - zeros);
        low = low << zeros;
    }
    const double scale = __longlong_as_double(i64(u64(1023 - 53 - zeros) << 52));
    const double first = double(high >> 11) * scale;
    const u64 next = (high << 42 | low >> 22) & 0x1fffffffffffffULL;
    const double second = double(next) * (scale / 9007199254740992.0);
    const double half_pi = 1.5707963267948966, half_pi_low = 6.123233995736766e-17;
    const double product = first * half_pi;
    const double product_low = fused(first, half_pi, -product) + (first * half_pi_low + second * half_pi);
    const double r = product + product_low;
    const double rest = product_low - (r - product);
    const double sign = is_beyond != (z < C(0.0)) ? -1.0 : 1.0;
    const C rounded = C(sign * r);
    return of_reduced(rounded, C((sign * r - double(rounded)) + sign * rest), is_odd);
}

__device__ __forceinline__ bool is_odd(float moved) { return (__float_as_uint(moved) & 1u) != 0; }
__device__ __forceinline__ bool is_odd(double moved) { return (__double_as_longlong(moved) & 1) != 0; }

template <typename C> __device__ __forceinline__ Angle<C> angle_of(C z) {
    if (magnitude(z) > (sizeof(C) == 4 ? C(131072.0) : C(1073741824.0))) {
        // An infinity less itself is not a number.
        if (z - z != C(0.0)) return {z - z, z - z};
        return large_angle(z);
    }
    const C moved = fused(z, C(0.6366197723675814), shifter<C>());
    const C n = moved - shifter<C>();
    const C first = sizeof(C) == 4 ? C(-1.5707963705062866) : C(-1.5707963267948966);
    const C second = sizeof(C) == 4 ? C(4.371138828673793e-08) : C(-6.123233995736766e-17);
    const C third = sizeof(C) == 4 ? C(1.7151245100058819e-15) : C(1.4973849048591698e-33);
    const C upper = fused(n, first, z);
    const C product = n * second;
    const C product_low = fused(n, second, -product);
    const C r = upper + product;
    const C of_product = r - upper;
    const C lost = upper - (r - of_product) + (product - of_product);
    return of_reduced(r, lost + fused(n, third, product_low), is_odd(moved));
}
