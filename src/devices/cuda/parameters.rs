//! The host's side of `cuda/include/parameters.cuh`: the same structs, field by field, with the same sizes asserted.
//! Addresses are `u64`, 0 where an operand is omitted; strides count elements.

use crate::core::dtype::DType;

/// Threads of every block.
pub const THREADS: u32 = 256;
/// Sixteen-byte vectors that one thread handles.
pub const VECTORS: u64 = 2;
/// Dimensions left after merging.
pub const MAX_RANK: usize = 8;
/// Elements that one block of a strided reduction adds.
pub const CHUNK: u64 = 8192;
/// Operands of one contiguous Sum launch.
pub const SUM_INPUTS: usize = 8;
/// Channels-last FusedLeakyRelu: vectors of channels side by side in a block.
pub const MAX_COLUMNS: u64 = 8;

/// The number by which kernels know an element type.
pub const fn type_code(dtype: DType) -> i32 {
    match dtype {
        DType::Float16 => 0,
        DType::BFloat16 => 1,
        DType::Float32 => 2,
        DType::Float64 => 3,
    }
}

/// The end of a kernel's name that says its element type.
pub const fn suffix(dtype: DType) -> &'static str {
    match dtype {
        DType::Float16 => "f16",
        DType::BFloat16 => "bf16",
        DType::Float32 => "f32",
        DType::Float64 => "f64",
    }
}

/// A struct that a kernel takes by value.
///
/// # Safety
/// The struct must be `repr(C)`, without padding, and mirror one of `parameters.cuh`.
pub unsafe trait Parameters: Copy {}

macro_rules! parameters {
    ($(#[$doc:meta])* $name:ident, $bytes:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, Default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }
        const _: () = assert!(size_of::<$name>() == $bytes && size_of::<$name>() == 0 $(+ size_of::<$type>())*);
        // SAFETY: `repr(C)`; the assertion above compares the size with the sum of the fields', so there is no
        // padding, and with the size that `parameters.cuh` asserts.
        unsafe impl Parameters for $name {}
    };
}

parameters!(
    /// Contiguous: `output[i] = f(inputs[0][i], inputs[1][i])`.
    MapParameters, 40 {
        /// Address of the result.
        output: u64,
        /// Addresses of the operands.
        inputs: [u64; 2],
        /// Elements.
        count: i64,
        /// The slope.
        alpha: f64,
    }
);
parameters!(
    /// Sizes and strides of up to four operands over one index space, slowest dimension first.
    Layout, 336 {
        /// Elements.
        count: i64,
        /// Dimensions in use.
        rank: i64,
        /// Their lengths.
        sizes: [i64; MAX_RANK],
        /// Elements between neighbours, by operand.
        strides: [[i64; MAX_RANK]; 4],
    }
);
parameters!(
    /// Any strides: operand 0 of the layout is the output, 1 and 2 are the inputs.
    StridedMapParameters, 368 {
        /// Address of the result.
        output: u64,
        /// Addresses of the operands.
        inputs: [u64; 2],
        /// The slope.
        alpha: f64,
        /// Where elements are.
        layout: Layout,
    }
);
parameters!(
    /// Contiguous sum in order; accumulators of the compute type carry a sum over several launches.
    SumParameters, 104 {
        /// Address of the result, where there is no `accumulator_out`.
        output: u64,
        /// The sum so far.
        accumulator_in: u64,
        /// Where the sum so far goes.
        accumulator_out: u64,
        /// Addresses of the operands.
        inputs: [u64; SUM_INPUTS],
        /// How many there are.
        input_count: i64,
        /// Elements.
        count: i64,
    }
);
parameters!(
    /// One more operand of any strides onto a sum.
    StridedSumParameters, 368 {
        /// Address of the result, where there is no `accumulator_out`.
        output: u64,
        /// The sum so far, contiguous.
        accumulator_in: u64,
        /// Where the sum so far goes.
        accumulator_out: u64,
        /// Address of the operand.
        input: u64,
        /// Output and input.
        layout: Layout,
    }
);
parameters!(
    /// Contiguous `[outer, channels, inner]` with one bias a channel.
    FusedParameters, 104 {
        /// Address of the result.
        output: u64,
        /// X forward, Y backward.
        input: u64,
        /// dY; backward alone.
        gradient: u64,
        /// B or B'.
        bias: u64,
        /// Float64 sums of the result, one a block and channel; 0 where they are not wanted.
        partials: u64,
        /// The slope.
        alpha: f64,
        /// The factor.
        scale: f64,
        /// Elements.
        count: i64,
        /// Elements of one channel that lie together.
        inner: i64,
        /// Channels.
        channels: i64,
        /// Flat: from one vector of a thread to its next.
        step: i64,
        /// The bias's type.
        bias_type: i32,
        /// Planes: blocks that share a plane.
        blocks_per_plane: i32,
        /// Columns: threads side by side.
        columns: i32,
        /// Columns: rows that a block goes down.
        rows_per_block: i32,
    }
);
parameters!(
    /// Operands of the layout: output, input, gradient, bias.
    StridedFusedParameters, 392 {
        /// Address of the result.
        output: u64,
        /// X forward, Y backward.
        input: u64,
        /// dY; backward alone.
        gradient: u64,
        /// B or B'.
        bias: u64,
        /// The slope.
        alpha: f64,
        /// The factor.
        scale: f64,
        /// The bias's type.
        bias_type: i64,
        /// Where elements are.
        layout: Layout,
    }
);
parameters!(
    /// Bias gradient of any strides; the layout leaves out the channel axis and has operands input and gradient.
    BiasReduceParameters, 424 {
        /// Y.
        input: u64,
        /// dY.
        gradient: u64,
        /// B'.
        bias: u64,
        /// `[channels, chunks]`.
        partials: u64,
        /// The slope.
        alpha: f64,
        /// The factor.
        scale: f64,
        /// The bias's type.
        bias_type: i64,
        /// Channels.
        channels: i64,
        /// Chunks of one channel.
        chunks: i64,
        /// Elements between channels of Y.
        input_stride: i64,
        /// Elements between channels of dY.
        gradient_stride: i64,
        /// The other axes.
        layout: Layout,
    }
);
parameters!(
    /// `output[k] = factor * sum over m of partials[(m / inner) * outer_stride + m % inner + k * stride]`.
    FinishParameters, 64 {
        /// Address of the result.
        output: u64,
        /// Float64 sums.
        partials: u64,
        /// Sums of one result.
        count: i64,
        /// Sums that lie together.
        inner: i64,
        /// From one group of them to the next.
        outer_stride: i64,
        /// From one result's to the next one's.
        stride: i64,
        /// The factor.
        factor: f64,
        /// The result's type.
        output_type: i64,
    }
);
parameters!(
    /// Sum over some axes. `kept` has operands output and input, `reduced` operand 1 alone: input.
    ReduceSumParameters, 712 {
        /// Address of the result.
        output: u64,
        /// Address of the operand.
        input: u64,
        /// `[outputs, chunks]`; by block alone.
        partials: u64,
        /// Chunks of one output.
        chunks: i64,
        /// By thread alone: the factor.
        scale: f64,
        /// Axes that stay.
        kept: Layout,
        /// Axes that are added.
        reduced: Layout,
    }
);
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
    UpFirDn2dParameters, 232 {
        /// Address of the result.
        output: u64,
        /// Address of the operand.
        input: u64,
        /// Prepared taps.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_those_of_the_header() {
        let header = include_str!("../../../cuda/include/parameters.cuh");
        for (name, value) in [
            ("THREADS", u64::from(THREADS)),
            ("VECTORS", VECTORS),
            ("MAX_RANK", MAX_RANK as u64),
            ("CHUNK", CHUNK),
            ("SUM_INPUTS", SUM_INPUTS as u64),
            ("MAX_COLUMNS", MAX_COLUMNS),
        ] {
            assert!(header.contains(&format!(" {name} = {value},")), "{name}");
        }
    }
}
