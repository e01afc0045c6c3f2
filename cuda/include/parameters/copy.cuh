// What the host hands to the kernels that copy. `src/devices/cuda/copy.rs` mirrors it.
#pragma once
#include "parameters.cuh"

// Operands of the layout: output, input.
struct CopyParameters {
    u64 output;
    u64 input;
    Layout layout;
};
static_assert(sizeof(CopyParameters) == 416, "mirrored by the host");
