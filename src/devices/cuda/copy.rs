//! Copies from one layout to another on the device.

use crate::core::device::Stream;
use crate::core::error::Result;
use crate::core::tensor::Parts;
use crate::devices::cuda::context::Context;
use crate::devices::cuda::launch::Launch;
use crate::devices::cuda::layout::merge;
use crate::devices::cuda::map::{address, moved, steps, strided_blocks};
use crate::devices::cuda::modules::Module;
use crate::devices::cuda::parameters::{Layout, parameters, suffix};

/// The kernels that the device itself needs.
pub static MODULE: Module = Module { name: "copy", text: include_str!("../../../cuda/ptx/copy.ptx") };

parameters!(
    /// Operands of the layout: output, input.
    CopyParameters, 416 {
        /// Address of the result.
        output: u64,
        /// Address of the operand.
        input: u64,
        /// Where elements are.
        layout: Layout,
    }
);

/// Copies elements from one layout to another on the device.
pub fn copy(context: &'static Context, output: &Parts, input: &Parts, stream: Stream) -> Result<()> {
    let merged = merge(output.shape(), [steps(output), steps(input)]);
    let kernel = format!("copy_{}_{}", suffix(output.dtype()), merged.index_width());
    for (layout, offsets) in merged.pieces() {
        let launch = Launch { module: &MODULE, kernel: &kernel, blocks: strided_blocks(layout.count), shared_bytes: 0 };
        let parameters = CopyParameters {
            output: moved(address(output), offsets[0], output),
            input: moved(address(input), offsets[1], input),
            layout,
        };
        // SAFETY: both views have one shape and promise that every element is memory of this device.
        unsafe { context.launch(&launch, &parameters, stream) }?;
    }
    Ok(())
}
