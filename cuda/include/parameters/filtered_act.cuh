// What the host hands to the kernels of FilteredAct and its gradient. `src/operators/filtered_act/cuda/parameters.rs`
// mirrors it.
#pragma once
#include "parameters/bias_act.cuh"
#include "parameters/snake.cuh"

enum : i32 {
    MOST_TAPS = 1024,   // of a filter that blocks prepare for themselves
    SNAKE = 9,          // the activation after those of BiasAct
    ROWS_TOGETHER = 4,  // that a thread computes at once
    TOGETHER = 16,      // loads of a thread that are under way at once
    BORDER_TOGETHER = 2,  // and of samples outside a signal
};

// One filter in the direction in which this launch uses it.
struct FilterParameters {
    u64 taps;               // [taps_y, taps_x] as the caller gave them
    i64 tap_stride_y;
    i64 tap_stride_x;
    double gain;
    i32 tap_type;
    i32 flip;               // 1: the last tap meets the first sample
    i32 taps_x;
    i32 taps_y;
    i32 factor_x;           // zeros are inserted on a way up, samples dropped on the way down
    i32 factor_y;
    i32 pad_x;              // before the first column; negative crops
    i32 pad_y;
    i32 border;             // what lies outside what it reads
    i32 place;              // of its taps in shared memory, in numbers
};
static_assert(sizeof(FilterParameters) == 72, "mirrored by the host");

// A tensor that goes up to the middle grid.
struct StreamParameters {
    u64 input;
    i64 strides[4];         // batch, channel, y, x
    i32 width;
    i32 height;
    FilterParameters filter;
    i32 window_width;       // its columns that a tile needs
    i32 pieces;             // of a row of the window, one a warp
    u32 piece_magic;        // 2^32 / pieces + 1, division by multiplication; zero for one
    i32 rows;               // where its rows stand in shared memory, in numbers
};
static_assert(sizeof(StreamParameters) == 136, "mirrored by the host");

// Both grids, the streams that go up, and the way down.
struct FilteredActParameters {
    u64 output;
    i64 output_strides[4];
    i64 channels;           // the faster of the two leading dimensions
    i64 channel_strides[2]; // of the number of the channel, along both
    i64 first_channel;
    u64 bias;               // zero where there is none
    i64 bias_type;
    u64 partials;           // [sums, blocks]; zero where no sums are wanted
    double alpha;
    double gain;
    double clamp;           // infinite where there is none
    i64 activation;
    WaveParameters wave;
    StreamParameters streams[2];
    FilterParameters down;
    i32 output_width;
    i32 output_height;
    i32 middle_width;
    i32 middle_height;
    i32 tiles_x;
    i32 tiles_y;
    i32 tile_width;         // outputs of a block
    i32 tile_height;
    i32 chunk;              // rows of outputs that are computed before more is loaded
    i32 columns;            // of the middle grid that a tile needs
    u32 columns_magic;
    u32 down_magic;         // 2^32 / down.factor_x + 1
    i32 phase_pitch;        // a row of the middle grid is kept as its phases along x, so far apart
    i32 pitch;              // between rows of the middle grid, in numbers
    i32 middle;             // where rows of the middle grid stand in shared memory, in numbers
    i32 sums;               // where sums along y stand
    i32 pieces;             // of a row of outputs, one a warp
    u32 piece_magic;
    i32 blocks;             // of the launch, between the sums of one kind and those of the next
    i32 reserved;
};
static_assert(sizeof(FilteredActParameters) == 592, "mirrored by the host");

// From the sums of blocks to the gradients of the numbers of each channel, one block a channel.
struct FilteredActFinishParameters {
    u64 bias_gradient;      // zero where it is not wanted
    u64 alpha_gradient;
    u64 beta_gradient;
    i64 bias_type;
    u64 partials;           // [sums, blocks]
    i64 count;              // of one channel: the m-th at (m / inner) * outer_stride + m % inner + channel * stride
    i64 inner;
    i64 outer_stride;
    i64 stride;
    i64 blocks;
    WaveParameters wave;    // its types are the gradients' too
};
static_assert(sizeof(FilteredActFinishParameters) == 120, "mirrored by the host");
