// What the host hands to the kernels of UpFirDn2d and its gradients.
// `src/operators/upfirdn2d/cuda/parameters.rs` mirrors it.
#pragma once
#include "parameters.cuh"

// Converts filter taps to the compute type, in the order in which they meet the samples, with the gain;
// finds out whether they are an outer product.
struct TapsParameters {
    u64 taps;               // [taps_y, taps_x] as the caller gave them
    u64 prepared;           // header and taps as `taps.cuh` has them
    i64 stride_y;
    i64 stride_x;
    double gain;
    i32 type;
    i32 taps_x;
    i32 taps_y;
    i32 flip;               // 1: the last tap meets the first sample
};
static_assert(sizeof(TapsParameters) == 56, "mirrored by the host");

enum : i32 {
    FEW_TAPS = 32,  // so many a warp prepares by itself, one a lane
};

struct UpFirDn2dParameters {
    u64 output;
    u64 input;
    u64 prepared;           // 0: every block prepares the taps for itself
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
    u64 taps;               // as the caller gave them, where nothing is prepared
    i64 tap_stride_y;
    i64 tap_stride_x;
    double gain;
    i32 tap_type;
    i32 flip;
    i32 vectors;            // tiled: 1 where rows are whole vectors of sixteen bytes
    i32 reserved;
};
static_assert(sizeof(UpFirDn2dParameters) == 280, "mirrored by the host");

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

// One axis of some outputs at the border.
struct RimAxis {
    i64 input;
    i64 output;
    i64 pad;                // before the first sample; negative crops
    i64 first;              // of the outputs
    i64 count;
    i64 low;                // folded: the positions from here on, inside and outside the output, that have terms
    i64 high;               // and their end
    i32 up;
    i32 down;
    i32 taps;
    i32 reserved;
};
static_assert(sizeof(RimAxis) == 72, "mirrored by the host");

struct RimParameters {
    u64 output;             // kernel gradient: dY, which is read
    u64 input;
    u64 prepared;           // kernel gradient: the partial sums
    i64 planes;
    i64 channels;
    i64 input_strides[4];   // batch, channel, y, x
    i64 output_strides[4];
    RimAxis x;
    RimAxis y;
    i64 blocks;             // kernel gradient: of this launch, a tap
    i64 stride;             // kernel gradient: partials of one tap, over all launches
    i32 border;
    i32 flip;               // kernel gradient: 1 where the last tap meets the first sample
};
static_assert(sizeof(RimParameters) == 272, "mirrored by the host");
