// What stands between the two filters: an activation of BiasAct, or snake.
#pragma once
#include "activation.cuh"
#include "parameters/filtered_act.cuh"
#include "wave.cuh"

template <typename C> struct Between {
    const FilteredActParameters &p;
    Wave<C> wave = {};
    // Sums of the derivatives by snake's numbers.
    C by_frequency = C(0), by_divisor = C(0);

    __device__ __forceinline__ Between(const FilteredActParameters &p, i64 channel) : p(p) {
        if (p.activation == SNAKE) wave = wave_of<C>(p.wave, channel);
    }

    __device__ __forceinline__ ActivationParameters formula() const {
        ActivationParameters of;
        of.alpha = p.alpha, of.gain = p.gain, of.clamp = p.clamp, of.activation = p.activation;
        of.order = 1, of.factor_length = 0, of.before_length = 0;
        return of;
    }

    __device__ __forceinline__ C value(C t) const {
        if (p.activation == SNAKE) return fused(angle_of(t * wave.frequency).sine_squared, wave.inverse, t);
        return forward(formula(), t);
    }

    // The stream times the derivative at t; `adds`: to the sums too.
    __device__ __forceinline__ C slope(C stream, C t, bool adds) {
        if (p.activation != SNAKE) return backward(formula(), stream, t);
        const Angle<C> angle = angle_of(t * wave.frequency);
        if (adds) {
            by_frequency += stream * t * (angle.sine_of_double * wave.inverse);
            by_divisor += stream * (angle.sine_squared * (C(0.0) - wave.inverse * wave.inverse));
        }
        return stream * slope_of(wave, angle.sine_of_double);
    }
};
