//! The host's side of `cuda/include/parameters/upfirdn2d.cuh`.

use crate::devices::cuda::parameters::parameters;

/// So many taps every block prepares for itself.
pub const FEW_TAPS: usize = 32;

parameters!(
    /// Filter taps as the caller gave them, to be prepared.
    TapsParameters, 56 {
        /// `[taps_y, taps_x]`.
        taps: u64,
        /// Where the prepared taps go.
        prepared: u64,
        /// Elements between rows.
        stride_y: i64,
        /// Elements between columns.
        stride_x: i64,
        /// The factor.
        gain: f64,
        /// The taps' type.
        dtype: i32,
        /// Columns.
        taps_x: i32,
        /// Rows.
        taps_y: i32,
        /// 1: the last tap meets the first sample.
        flip: i32,
    }
);
parameters!(
    /// Zeros inserted, padded or cropped, filtered, every down-th sample kept.
    UpFirDn2dParameters, 280 {
        /// Address of the result.
        output: u64,
        /// Address of the operand.
        input: u64,
        /// Prepared taps; 0: every block prepares them for itself.
        prepared: u64,
        /// Batch times channels.
        planes: i64,
        /// Channels.
        channels: i64,
        /// Batch, channel, y, x.
        input_strides: [i64; 4],
        /// Batch, channel, y, x.
        output_strides: [i64; 4],
        /// Columns of the operand.
        input_width: i64,
        /// Rows of the operand.
        input_height: i64,
        /// Columns of the result.
        output_width: i64,
        /// Rows of the result.
        output_height: i64,
        /// Before the first column; negative crops.
        pad_x: i64,
        /// Before the first row.
        pad_y: i64,
        /// Upsampling along x.
        up_x: i32,
        /// Upsampling along y.
        up_y: i32,
        /// Downsampling along x.
        down_x: i32,
        /// Downsampling along y.
        down_y: i32,
        /// Columns of the filter.
        taps_x: i32,
        /// Rows of the filter.
        taps_y: i32,
        /// Tiles side by side.
        tiles_x: i32,
        /// Tiles above one another.
        tiles_y: i32,
        /// Outputs of a tile.
        tile_width_log2: i32,
        /// Outputs of a tile.
        tile_height_log2: i32,
        /// Inputs that a tile needs.
        window_width: i32,
        /// Inputs that a tile needs.
        window_height: i32,
        /// Elements between the window's rows in shared memory.
        pitch: i32,
        /// And between its planes.
        plane_pitch: i32,
        /// For division by the window's width.
        width_magic: u32,
        /// For division by the window's height.
        height_magic: u32,
        /// 1: every run of a thread's outputs can be stored as one vector.
        aligned_output: i32,
        /// Strided: the order in which threads walk the output.
        channels_fastest: i32,
        /// Tiled: planes of a block.
        planes_per_block: i32,
        /// Neighbouring threads that load one row of the window; channels last: one pixel of it.
        row_threads_log2: i32,
        /// Taps as the caller gave them, where nothing is prepared.
        taps: u64,
        /// Elements between their rows.
        tap_stride_y: i64,
        /// Elements between their columns.
        tap_stride_x: i64,
        /// The factor.
        gain: f64,
        /// Their type.
        tap_type: i32,
        /// 1: the last tap meets the first sample.
        flip: i32,
        /// Tiled: 1 where rows are whole vectors of sixteen bytes.
        vectors: i32,
        /// Fills the struct to whole words.
        reserved: i32,
    }
);
parameters!(
    /// Kernel gradient: `partials[tap, block]` in float64.
    KernelGradientParameters, 224 {
        /// X.
        input: u64,
        /// dY.
        gradient: u64,
        /// Where the sums go.
        partials: u64,
        /// Batch times channels.
        planes: i64,
        /// Channels.
        channels: i64,
        /// Batch, channel, y, x.
        input_strides: [i64; 4],
        /// Batch, channel, y, x.
        gradient_strides: [i64; 4],
        /// Columns of X.
        input_width: i64,
        /// Rows of X.
        input_height: i64,
        /// Columns of dY.
        output_width: i64,
        /// Rows of dY.
        output_height: i64,
        /// Before the first column.
        pad_x: i64,
        /// Before the first row.
        pad_y: i64,
        /// Of this launch, a tap.
        blocks: i64,
        /// Partials of one tap, over all launches.
        stride: i64,
        /// Upsampling along x.
        up_x: i32,
        /// Upsampling along y.
        up_y: i32,
        /// Downsampling along x.
        down_x: i32,
        /// Downsampling along y.
        down_y: i32,
        /// Columns of the filter.
        taps_x: i32,
        /// Rows of the filter.
        taps_y: i32,
        /// 1: the last tap meets the first sample.
        flip: i32,
        /// Tiles side by side.
        tiles_x: i32,
        /// Tiles above one another.
        tiles_y: i32,
        /// Outputs of a tile.
        tile_width_log2: i32,
        /// Outputs of a tile.
        tile_height_log2: i32,
        /// Inputs that a tile needs.
        window_width: i32,
        /// Inputs that a tile needs.
        window_height: i32,
        /// Fills the struct to whole words.
        reserved: i32,
    }
);
parameters!(
    /// One axis of some outputs at the border.
    RimAxis, 72 {
        /// The length of the operand.
        input: i64,
        /// The length of the result.
        output: i64,
        /// Before the first sample.
        pad: i64,
        /// The first of the outputs.
        first: i64,
        /// How many.
        count: i64,
        /// Folded: the first position inside or outside the result that has terms.
        low: i64,
        /// And the end of those that have.
        high: i64,
        /// Upsampling.
        up: i32,
        /// Downsampling.
        down: i32,
        /// Taps.
        taps: i32,
        /// Fills the struct to whole words.
        reserved: i32,
    }
);
parameters!(
    /// Outputs at the border of a filter whose padding is not zeros.
    RimParameters, 272 {
        /// Address of the result; kernel gradient: of dY.
        output: u64,
        /// Address of the operand.
        input: u64,
        /// Prepared taps; kernel gradient: where the sums go.
        prepared: u64,
        /// Batch times channels.
        planes: i64,
        /// Channels.
        channels: i64,
        /// Batch, channel, y, x.
        input_strides: [i64; 4],
        /// Batch, channel, y, x.
        output_strides: [i64; 4],
        /// Along a row.
        x: RimAxis,
        /// Along a column.
        y: RimAxis,
        /// Kernel gradient: of this launch, a tap.
        blocks: i64,
        /// Kernel gradient: partials of one tap, over all launches.
        stride: i64,
        /// The rule, by its place among all.
        border: i32,
        /// Kernel gradient: 1 where the last tap meets the first sample.
        flip: i32,
    }
);

#[cfg(test)]
mod tests {
    use crate::devices::cuda::parameters::assert_constants;

    #[test]
    fn the_constants_are_those_of_the_header() {
        let header = include_str!("../../../../cuda/include/parameters/upfirdn2d.cuh");
        assert_constants(header, &[("FEW_TAPS", super::FEW_TAPS as u64)]);
    }
}
