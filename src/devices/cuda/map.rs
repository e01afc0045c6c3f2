//! Element-wise launches: sixteen-byte vectors where every operand is contiguous and aligned, else any strides.

use crate::core::device::Stream;
use crate::core::error::Result;
use crate::core::shape::Shape;
use crate::core::tensor::{Parts, TensorType};
use crate::devices::cuda::context::Context;
use crate::devices::cuda::launch::Launch;
use crate::devices::cuda::layout::merge;
use crate::devices::cuda::modules::Module;
use crate::devices::cuda::parameters::{ELEMENTS, MapParameters, StridedMapParameters, THREADS, VECTORS, suffix};

/// The address of a tensor's first element.
pub fn address(parts: &Parts) -> u64 {
    parts.pointer as u64
}

/// Byte strides and element size: what merging takes.
pub fn steps(parts: &Parts) -> (&[isize], usize) {
    (&parts.strides, parts.dtype().size())
}

/// Whether vectors may be read or written at all of these addresses; 0 is an omitted operand.
pub fn are_aligned(addresses: &[u64]) -> bool {
    addresses.iter().all(|address| address % 16 == 0)
}

/// `address` moved by a number of elements.
pub fn moved(address: u64, elements: i64, parts: &Parts) -> u64 {
    address.wrapping_add_signed(elements * parts.dtype().size() as i64)
}

/// Blocks that give every element a thread.
pub fn blocks(count: i64) -> u64 {
    (count as u64).div_ceil(u64::from(THREADS))
}

/// Blocks of a kernel whose threads have several elements each.
pub fn strided_blocks(count: i64) -> u64 {
    (count as u64).div_ceil(u64::from(THREADS) * ELEMENTS)
}

/// Launches `name_<type>` or `name_strided_<type>_<width>` with one or two inputs of the output's shape, or broadcast to
/// it by strides of 0. `scalars` are what the kernel's formula takes them for, zero where it reads none.
pub fn launch<const INPUTS: usize>(
    context: &'static Context,
    (module, name): (&Module, &str),
    output: &Parts,
    inputs: [&Parts; INPUTS],
    scalars: [f64; 2],
    stream: Stream,
) -> Result<()> {
    const { assert!(INPUTS == 1 || INPUTS == 2) };
    // An operator of one input is planned as if it had that input twice.
    let second = inputs[INPUTS - 1];
    let addresses = [address(inputs[0]), address(second)];
    let merged = merge(output.shape(), [steps(output), steps(inputs[0]), steps(second)]);
    let dtype = output.dtype();
    if merged.is_contiguous() && are_aligned(&[address(output), addresses[0], addresses[1]]) {
        let count = merged.count();
        let vectors = count as u64 / (16 / dtype.size() as u64);
        let blocks = if count == 0 { 0 } else { vectors.div_ceil(u64::from(THREADS) * VECTORS).max(1) };
        let launch = Launch { module, kernel: &format!("{name}_{}", suffix(dtype)), blocks, shared_bytes: 0 };
        let parameters = MapParameters { output: address(output), inputs: addresses, count, scalars };
        // SAFETY: the schema checked that all operands have one shape, and their views promise that every element is
        // memory of this device; contiguous, they are `count` elements from the first.
        return unsafe { context.launch(&launch, &parameters, stream) };
    }
    let kernel = format!("{name}_strided_{}_{}", suffix(dtype), merged.index_width());
    for (layout, offsets) in merged.pieces() {
        let launch = Launch { module, kernel: &kernel, blocks: strided_blocks(layout.count), shared_bytes: 0 };
        let parameters = StridedMapParameters {
            output: moved(address(output), offsets[0], output),
            inputs: [moved(addresses[0], offsets[1], inputs[0]), moved(addresses[1], offsets[2], second)],
            scalars,
            layout,
        };
        // SAFETY: as above; the layout's strides are the operands' own.
        unsafe { context.launch(&launch, &parameters, stream) }?;
    }
    Ok(())
}

/// A view with the strides of a larger shape, 0 where it is broadcast. Shapes are aligned at their last dimensions.
pub fn broadcast(parts: &Parts, shape: &Shape) -> Parts {
    let ahead = shape.len() - parts.shape().len();
    let stride = |d: usize| match d.checked_sub(ahead) {
        Some(own) if parts.shape()[own] != 1 => parts.strides[own],
        _ => 0,
    };
    Parts {
        pointer: parts.pointer,
        kind: TensorType::new(shape.clone(), parts.dtype()),
        strides: (0..shape.len()).map(stride).collect(),
        device: parts.device,
    }
}
