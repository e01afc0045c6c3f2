//! The host's side of `cuda/include/parameters/fused_leaky_relu.cuh`.

use crate::devices::cuda::parameters::{Layout, parameters};

/// Channels last: vectors of channels side by side in a block.
pub const MAX_COLUMNS: u64 = 8;

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
    StridedFusedParameters, 456 {
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
    BiasReduceParameters, 488 {
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

#[cfg(test)]
mod tests {
    use crate::devices::cuda::parameters::assert_constants;

    #[test]
    fn the_constants_are_those_of_the_header() {
        let header = include_str!("../../../../cuda/include/parameters/fused_leaky_relu.cuh");
        assert_constants(header, &[("MAX_COLUMNS", super::MAX_COLUMNS)]);
    }
}
