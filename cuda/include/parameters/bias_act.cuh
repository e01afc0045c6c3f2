// What the host hands to the kernels of BiasAct and its gradient. `src/operators/bias_act/cuda.rs` mirrors it.
#pragma once
#include "parameters.cuh"

enum : i32 {
    MOST_COEFFICIENTS = 26,  // of the polynomials of a derivative
};

// An activation with its numbers.
struct ActivationParameters {
    double alpha;
    double gain;
    double clamp;            // infinite where there is none
    double factor[MOST_COEFFICIENTS];  // what the first derivative of the underlying function is multiplied by
    double before[MOST_COEFFICIENTS];  // the same for the order before
    i64 factor_length;
    i64 before_length;
    i64 order;
    i64 activation;
};
static_assert(sizeof(ActivationParameters) == 472, "mirrored by the host");

// Operands of the layout: output, input, gradient, bias.
struct BiasActParameters {
    u64 output;
    u64 input;
    u64 gradient;            // dY; backward alone
    u64 bias;
    i64 bias_type;
    ActivationParameters activation;
    Layout layout;
};
static_assert(sizeof(BiasActParameters) == 912, "mirrored by the host");

// Bias gradient of any strides; the layout leaves out the channel axis and has operands input and gradient.
struct BiasActReduceParameters {
    u64 input;
    u64 gradient;
    u64 bias;
    u64 partials;            // [channels, chunks]
    i64 bias_type;
    i64 chunks;
    i64 input_stride;        // along the channel axis
    i64 gradient_stride;
    ActivationParameters activation;
    Layout layout;
};
static_assert(sizeof(BiasActReduceParameters) == 936, "mirrored by the host");
