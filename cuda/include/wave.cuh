// Snake at one number, with the numbers of a channel.
#pragma once
#include "parameters/snake.cuh"
#include "sine.cuh"

template <typename C> struct Wave {
    C frequency, inverse;
};

template <typename C> __device__ __forceinline__ C number_of(u64 numbers, i64 type, i64 logscale, i64 channel) {
    const C number = load_as<C>(numbers, i32(type), channel);
    return logscale ? exponential(number) : number;
}

template <typename C> __device__ __forceinline__ Wave<C> wave_of(const WaveParameters &p, i64 channel) {
    const C frequency = number_of<C>(p.alpha, p.alpha_type, p.logscale, channel);
    const C divisor = p.beta ? number_of<C>(p.beta, p.beta_type, p.logscale, channel) : frequency;
    return {frequency, C(1.0) / (divisor + C(1e-9))};
}

template <typename C> __device__ __forceinline__ C slope_of(const Wave<C> &wave, C sine_of_double) {
    return fused(sine_of_double, wave.frequency * wave.inverse, C(1.0));
}

// The derivative of a number by what it is the exponential of.
__device__ __forceinline__ double by_logarithm(u64 numbers, i64 type, i64 logscale, i64 channel) {
    return logscale ? exponential(load_as<double>(numbers, i32(type), channel)) : 1.0;
}

// From the sums by p and by q to a channel's gradients of alpha and beta, where they are wanted.
__device__ __forceinline__ void store_wave_gradients(const WaveParameters &p, i64 channel, double by_frequency, double by_divisor,
                                                     u64 alpha_gradient, u64 beta_gradient) {
    // Without divisors of their own p stands in both places.
    const double by_alpha = p.beta ? by_frequency : by_frequency + by_divisor;
    if (alpha_gradient) {
        store_as(alpha_gradient, i32(p.alpha_type), channel, by_alpha * by_logarithm(p.alpha, p.alpha_type, p.logscale, channel));
    }
    if (beta_gradient) {
        store_as(beta_gradient, i32(p.beta_type), channel, by_divisor * by_logarithm(p.beta, p.beta_type, p.logscale, channel));
    }
}
