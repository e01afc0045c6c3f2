// What the host hands to kernels of several modules; what those of one module take stands in `parameters/<module>.cuh`.
// `src/devices/cuda/parameters.rs` mirrors these structs field by field; the static asserts here and the const asserts
// there state the same sizes. Addresses are u64, 0 where an operand is omitted; strides count elements.
#pragma once
#include "types.cuh"

// Enumerators, since constants of namespace scope would become global variables of the module.
enum : i32 {
    THREADS = 256,  // threads of every block
    VECTORS = 2,    // sixteen-byte vectors that one thread handles
    MAX_RANK = 8,   // dimensions left after the host has merged what can be merged
    CHUNK = 8192,   // elements that one block of a strided reduction adds
    ELEMENTS = 4,   // that one thread of a strided map handles, THREADS apart
};

// Contiguous: output[i] = f(inputs[0][i], inputs[1][i]).
struct MapParameters {
    u64 output;
    u64 inputs[2];
    i64 count;
    double scalars[2];      // what the kernel's formula takes them for, such as a slope or two limits
};
static_assert(sizeof(MapParameters) == 48, "mirrored by the host");

// Sizes and strides of up to four operands over one index space, slowest dimension first.
struct Layout {
    i64 count;
    i64 rank;
    i64 sizes[MAX_RANK];
    i64 strides[4][MAX_RANK];
    u32 magics[MAX_RANK];   // for division by the sizes where indices have 32 bits: (index * magic) >> shift
    u32 shifts[MAX_RANK];
};
static_assert(sizeof(Layout) == 400, "mirrored by the host");

// Any strides, 0 where an operand is broadcast. Operand 0 is the output, operands 1 and 2 the inputs.
struct StridedMapParameters {
    u64 output;
    u64 inputs[2];
    double scalars[2];
    Layout layout;
};
static_assert(sizeof(StridedMapParameters) == 440, "mirrored by the host");

// output[k] = factor * sum over m of partials[(m / inner) * outer_stride + m % inner + k * stride].
struct FinishParameters {
    u64 output;
    u64 partials;
    i64 count;
    i64 inner;
    i64 outer_stride;
    i64 stride;
    double factor;
    i64 output_type;
};
static_assert(sizeof(FinishParameters) == 64, "mirrored by the host");
