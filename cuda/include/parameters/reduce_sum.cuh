// What the host hands to the kernels of ReduceSum. `src/operators/reduce_sum/cuda.rs` mirrors it.
#pragma once
#include "parameters.cuh"

// Sum over some axes. `kept` has operands output and input, `reduced` operand 1 alone: input.
enum : i32 {
    COLUMN_CHUNK = 512, // elements of each of 32 outputs that one block adds
};

struct ReduceSumParameters {
    u64 output;
    u64 input;
    u64 partials;           // by block [outputs, chunks], by columns [chunks, outputs]
    i64 chunks;
    double scale;           // not by block
    Layout kept;
    Layout reduced;
};
static_assert(sizeof(ReduceSumParameters) == 840, "mirrored by the host");
