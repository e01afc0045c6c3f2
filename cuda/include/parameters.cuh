// What the host hands to each kernel. `src/devices/cuda/parameters.rs` mirrors these structs field by field;
// the static asserts here and the const asserts there state the same sizes.
// Addresses are u64, 0 where an operand is omitted; strides count elements.
#pragma once
#include "types.cuh"

// Enumerators, since constants of namespace scope would become global variables of the module.
enum : i32 {
    THREADS = 256,    // threads of every block
    VECTORS = 2,      // sixteen-byte vectors that one thread handles
    MAX_RANK = 8,     // dimensions left after the host has merged what can be merged
    CHUNK = 8192,     // elements that one block of a strided reduction adds
    SUM_INPUTS = 8,   // operands of one contiguous Sum launch
    MAX_COLUMNS = 8,  // channels-last FusedLeakyRelu: vectors of channels side by side in a block
};

// Contiguous: output[i] = f(inputs[0][i], inputs[1][i]).
struct MapParameters {
    u64 output;
    u64 inputs[2];
    i64 count;
    double alpha;
};
static_assert(sizeof(MapParameters) == 40, "mirrored by the host");

// Sizes and strides of up to four operands over one index space, slowest dimension first.
struct Layout {
    i64 count;
    i64 rank;
    i64 sizes[MAX_RANK];
    i64 strides[4][MAX_RANK];
};
static_assert(sizeof(Layout) == 336, "mirrored by the host");

// Any strides, 0 where an operand is broadcast. Operand 0 is the output, operands 1 and 2 the inputs.
struct StridedMapParameters {
    u64 output;
    u64 inputs[2];
    double alpha;
    Layout layout;
};
static_assert(sizeof(StridedMapParameters) == 368, "mirrored by the host");

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
static_assert(sizeof(StridedSumParameters) == 368, "mirrored by the host");

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
static_assert(sizeof(StridedFusedParameters) == 392, "mirrored by the host");

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
static_assert(sizeof(BiasReduceParameters) == 424, "mirrored by the host");

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

// Sum over some axes. `kept` has operands output and input, `reduced` operand 1 alone: input.
struct ReduceSumParameters {
    u64 output;
    u64 input;
    u64 partials;           // [outputs, chunks]; by block alone
    i64 chunks;
    double scale;           // by thread alone
    Layout kept;
    Layout reduced;
};
static_assert(sizeof(ReduceSumParameters) == 712, "mirrored by the host");

// Converts filter taps to the compute type, in the order in which they meet the samples, with the gain;
// finds out whether they are an outer product.
struct TapsParameters {
    u64 taps;               // [taps_y, taps_x] as the caller gave them
    u64 prepared;           // PreparedTaps, see upfirdn2d.cuh
    i64 stride_y;
    i64 stride_x;
    double gain;
    i32 type;
    i32 taps_x;
    i32 taps_y;
    i32 flip;               // 1: the last tap meets the first sample
};
static_assert(sizeof(TapsParameters) == 56, "mirrored by the host");

struct UpFirDn2dParameters {
    u64 output;
    u64 input;
    u64 prepared;
    i64 planes;             // batch * channels
    i64 channels;
    i64 input_strides[4];   // batch, channel, y, x
    i64 output_strides[4];
    i64 input_width;
    i64 input_height;
    i64 output_width;
    i64 output_height;
    i64 pad_x;              // before the first column; negative crops
    i64 pad_y;
    i32 up_x;
    i32 up_y;
    i32 down_x;
    i32 down_y;
    i32 taps_x;
    i32 taps_y;
    i32 tiles_x;
    i32 tiles_y;
    i32 tile_width_log2;    // outputs of one block
    i32 tile_height_log2;
    i32 window_width;       // inputs that a tile needs
    i32 window_height;
    i32 pitch;              // elements between the window's rows in shared memory
    i32 plane_pitch;        // and between its planes
    u32 width_magic;        // 2^32 / window_width + 1: division by multiplication
    u32 height_magic;
    i32 aligned_output;     // 1: every run of a thread's outputs can be stored as one vector
    i32 channels_fastest;   // strided: the order in which threads walk the output
    i32 planes_per_block;   // tiled
    i32 row_threads_log2;   // neighbouring threads that load one row of the window; channels last: one pixel of it
};
static_assert(sizeof(UpFirDn2dParameters) == 232, "mirrored by the host");

// Kernel gradient: partials[tap, block] in float64, taps in the order in which they meet the samples.
struct KernelGradientParameters {
    u64 input;
    u64 gradient;
    u64 partials;
    i64 planes;
    i64 channels;
    i64 input_strides[4];
    i64 gradient_strides[4];
    i64 input_width;
    i64 input_height;
    i64 output_width;
    i64 output_height;
    i64 pad_x;
    i64 pad_y;
    i64 blocks;             // of this launch, a tap
    i64 stride;             // partials of one tap, over all launches
    i32 up_x;
    i32 up_y;
    i32 down_x;
    i32 down_y;
    i32 taps_x;
    i32 taps_y;
    i32 flip;
    i32 tiles_x;
    i32 tiles_y;
    i32 tile_width_log2;
    i32 tile_height_log2;
    i32 window_width;
    i32 window_height;
    i32 reserved;
};
static_assert(sizeof(KernelGradientParameters) == 224, "mirrored by the host");
