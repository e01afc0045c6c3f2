// What the host hands to the kernels of Sum. `src/operators/arithmetic/cuda.rs` mirrors it.
#pragma once
#include "parameters.cuh"

enum : i32 {
    SUM_INPUTS = 8,  // operands of one contiguous launch
};

// Contiguous sum in order. Accumulators are of the compute type; they carry a sum over several launches.
struct SumParameters {
    u64 output;
    u64 accumulator_in;
    u64 accumulator_out;
    u64 inputs[SUM_INPUTS];
    i64 input_count;
    i64 count;
};
static_assert(sizeof(SumParameters) == 104, "mirrored by the host");

// One more operand of any strides onto a sum; the accumulators are contiguous.
struct StridedSumParameters {
    u64 output;
    u64 accumulator_in;
    u64 accumulator_out;
    u64 input;
    Layout layout;
};
static_assert(sizeof(StridedSumParameters) == 432, "mirrored by the host");
