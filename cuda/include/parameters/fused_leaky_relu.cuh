// What the host hands to the kernels of FusedLeakyRelu and its gradient.
// `src/operators/fused_leaky_relu/cuda/parameters.rs` mirrors it.
#pragma once
#include "parameters.cuh"

enum : i32 {
    MAX_COLUMNS = 8,  // channels last: vectors of channels side by side in a block
};

// Contiguous [outer, channels, inner] with one bias a channel.
struct FusedParameters {
    u64 output;
    u64 input;              // X forward, Y backward
    u64 gradient;           // dY; backward alone
    u64 bias;               // B or B'
    u64 partials;           // float64 sums of dX, one a block and channel; 0 where no bias gradient is asked for
    double alpha;
    double scale;
    i64 count;
    i64 inner;
    i64 channels;
    i64 step;               // flat: from one vector of a thread to its next; a multiple of channels * inner unless one vector is all
    i32 bias_type;
    i32 blocks_per_plane;   // planes
    i32 columns;            // columns: threads side by side along the channels, a power of two up to MAX_COLUMNS
    i32 rows_per_block;     // columns
};
static_assert(sizeof(FusedParameters) == 104, "mirrored by the host");

// Operands of the layout: output, input, gradient, bias.
struct StridedFusedParameters {
    u64 output;
    u64 input;
    u64 gradient;
    u64 bias;
    double alpha;
    double scale;
    i64 bias_type;
    Layout layout;
};
static_assert(sizeof(StridedFusedParameters) == 456, "mirrored by the host");

// Bias gradient of any strides; the layout leaves out the channel axis and has operands input and gradient.
struct BiasReduceParameters {
    u64 input;
    u64 gradient;
    u64 bias;
    u64 partials;           // [channels, chunks]
    double alpha;
    double scale;
    i64 bias_type;
    i64 channels;
    i64 chunks;
    i64 input_stride;       // along the channel axis
    i64 gradient_stride;
    Layout layout;
};
static_assert(sizeof(BiasReduceParameters) == 488, "mirrored by the host");
