//! The host's side of `cuda/include/parameters/filtered_act.cuh`.

use crate::devices::cuda::parameters::parameters;
use crate::operators::snake::cuda::WaveParameters;

/// Taps of a filter that blocks prepare for themselves, at most.
pub const MOST_TAPS: usize = 1024;
/// The activation after those of `BiasAct`.
pub const SNAKE: i64 = 9;
/// Words of a thread that are under way at once; half as many where a word is a pair of halves or a float64.
pub const TOGETHER: i64 = 16;
/// And samples outside a signal.
pub const BORDER_TOGETHER: i64 = 2;

parameters!(
    /// One filter in the direction in which a launch uses it.
    FilterParameters, 72 {
        /// `[taps_y, taps_x]`.
        taps: u64,
        /// Elements between rows.
        tap_stride_y: i64,
        /// Elements between columns.
        tap_stride_x: i64,
        /// The factor.
        gain: f64,
        /// The taps' type.
        tap_type: i32,
        /// 1: the last tap meets the first sample.
        flip: i32,
        /// Columns.
        taps_x: i32,
        /// Rows.
        taps_y: i32,
        /// By how much more or fewer samples there are along x.
        factor_x: i32,
        /// And along y.
        factor_y: i32,
        /// Samples before the first column.
        pad_x: i32,
        /// And before the first row.
        pad_y: i32,
        /// What lies outside what it reads.
        border: i32,
        /// Of its taps in shared memory.
        place: i32,
    }
);
parameters!(
    /// A tensor that goes up to the middle grid.
    StreamParameters, 136 {
        /// Its address.
        input: u64,
        /// Batch, channel, y, x.
        strides: [i64; 4],
        /// Columns.
        width: i32,
        /// Rows.
        height: i32,
        /// The way up.
        filter: FilterParameters,
        /// Its columns that a tile needs.
        window_width: i32,
        /// Of a row of the window, one a warp.
        pieces: i32,
        /// For division by them.
        piece_magic: u32,
        /// Where its rows stand in shared memory.
        rows: i32,
    }
);
parameters!(
    /// Both grids, the streams that go up, and the way down.
    FilteredActParameters, 592 {
        /// Address of the result.
        output: u64,
        /// Batch, channel, y, x.
        output_strides: [i64; 4],
        /// The faster of the two leading dimensions.
        channels: i64,
        /// Of the number of the channel, along both.
        channel_strides: [i64; 2],
        /// The number of the first.
        first_channel: i64,
        /// B.
        bias: u64,
        /// The bias's type.
        bias_type: i64,
        /// `[sums, blocks]`; zero where no sums are wanted.
        partials: u64,
        /// The slope of lrelu.
        alpha: f64,
        /// The factor.
        gain: f64,
        /// Infinite where there is none.
        clamp: f64,
        /// Which activation.
        activation: i64,
        /// Snake's numbers.
        wave: WaveParameters,
        /// What goes up: X, and dY in the gradient.
        streams: [StreamParameters; 2],
        /// The way down.
        down: FilterParameters,
        /// Columns of the result.
        output_width: i32,
        /// Its rows.
        output_height: i32,
        /// Columns of the middle grid.
        middle_width: i32,
        /// Its rows.
        middle_height: i32,
        /// Tiles side by side.
        tiles_x: i32,
        /// And above each other.
        tiles_y: i32,
        /// Outputs of a tile.
        tile_width: i32,
        /// Its rows.
        tile_height: i32,
        /// Rows of outputs that are computed before more is loaded.
        chunk: i32,
        /// Columns of the middle grid that a tile needs.
        columns: i32,
        /// For division by them.
        columns_magic: u32,
        /// For division by the factor of the way down.
        down_magic: u32,
        /// Numbers from one phase of a row to the next.
        phase_pitch: i32,
        /// And from row to row.
        pitch: i32,
        /// Where rows of the middle grid stand in shared memory.
        middle: i32,
        /// Where sums along y stand.
        sums: i32,
        /// Of a row of outputs, one a warp.
        pieces: i32,
        /// For division by them.
        piece_magic: u32,
        /// Of the launch.
        blocks: i32,
        /// Nothing.
        reserved: i32,
    }
);
parameters!(
    /// From the sums of blocks to the gradients of the numbers of each channel.
    FilteredActFinishParameters, 120 {
        /// dB; zero where it is not wanted.
        bias_gradient: u64,
        /// dAlpha; zero where it is not wanted.
        alpha_gradient: u64,
        /// dBeta; zero where it is not wanted.
        beta_gradient: u64,
        /// The bias's type.
        bias_type: i64,
        /// `[sums, blocks]`.
        partials: u64,
        /// Sums of one channel.
        count: i64,
        /// Sums that lie together.
        inner: i64,
        /// From one group of them to the next.
        outer_stride: i64,
        /// From one channel's to the next one's.
        stride: i64,
        /// From one kind of sums to the next.
        blocks: i64,
        /// Snake's numbers, of the gradients' types.
        wave: WaveParameters,
    }
);
