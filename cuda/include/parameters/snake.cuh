// What the host hands to the kernels of Snake and its derivatives. `src/operators/snake/cuda.rs` mirrors it.
#pragma once
#include "parameters.cuh"

enum : i32 {
    SNAKE_COEFFICIENTS = 9, // of the polynomials of a derivative
    TABLE = 20,             // numbers of a channel: its frequency, the factor of sin², those of the sine and the cosine
};

// The numbers of each channel, one after the other.
struct WaveParameters {
    u64 alpha;
    u64 beta;                // zero where it is alpha
    i64 alpha_type;
    i64 beta_type;
    i64 logscale;
};
static_assert(sizeof(WaveParameters) == 40, "mirrored by the host");

// Operands of the layout: output, input, gradient, and the number of the channel.
struct SnakeParameters {
    u64 output;
    u64 input;
    u64 gradient;            // dY; backward alone
    u64 table;               // [channels, TABLE] float64; derivatives of any order alone
    i64 first_channel;
    i64 coefficients;        // of each polynomial
    double constant;         // what stays of t itself
    double slope;
    WaveParameters wave;
    Layout layout;
};
static_assert(sizeof(SnakeParameters) == 504, "mirrored by the host");

// Sums of derivatives by p and by q; the layout leaves out the channel axis and has operands input and gradient.
struct SnakeReduceParameters {
    u64 input;
    u64 gradient;
    u64 partials;            // [channels, chunks, 2]
    i64 chunks;
    i64 input_stride;        // along the channel axis
    i64 gradient_stride;
    WaveParameters wave;
    Layout layout;
};
static_assert(sizeof(SnakeReduceParameters) == 488, "mirrored by the host");

struct SnakeFinishParameters {
    u64 alpha_gradient;      // zero where it is not wanted
    u64 beta_gradient;
    u64 partials;
    i64 chunks;
    WaveParameters wave;     // its types are the gradients' too
};
static_assert(sizeof(SnakeFinishParameters) == 72, "mirrored by the host");

struct SnakeTableParameters {
    u64 table;
    i64 order_x;
    i64 order_alpha;
    i64 order_beta;
    WaveParameters wave;
};
static_assert(sizeof(SnakeTableParameters) == 72, "mirrored by the host");
