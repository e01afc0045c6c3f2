//! The kernels of a CUDA device.

use crate::core::error::Result;
use crate::core::operator::Call;
use crate::core::tensor::Parts;
use crate::devices::cuda::context::context_of;
use crate::devices::cuda::launch::Launch;
use crate::devices::cuda::layout::merge;
use crate::devices::cuda::map::{self, address, are_aligned, blocks, broadcast, moved, steps, strided_blocks};
use crate::devices::cuda::memory::Memory;
use crate::devices::cuda::modules::Module;
use crate::devices::cuda::parameters::{Layout, parameters, suffix};

/// The kernels.
pub static MODULE: Module = Module { name: "arithmetic", text: include_str!("../../../cuda/ptx/arithmetic.ptx") };

/// Operands of one contiguous launch of Sum.
const SUM_INPUTS: usize = 8;

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
    StridedSumParameters, 432 {
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

/// A + B.
pub fn add(call: &Call<'_>) -> Result<()> {
    binary(call, "add")
}

/// A - B.
pub fn sub(call: &Call<'_>) -> Result<()> {
    binary(call, "sub")
}

/// A * B.
pub fn mul(call: &Call<'_>) -> Result<()> {
    binary(call, "mul")
}

fn binary(call: &Call<'_>, name: &str) -> Result<()> {
    let Some(output) = call.outputs[0].as_deref() else { return Ok(()) };
    let [first, second] = [0, 1].map(|k| broadcast(call.input(k), output.shape()));
    map::launch(context_of(output.device)?, (&MODULE, name), output, [&first, &second], [0.0; 2], call.stream)
}

/// The sum of any number of inputs, in order, in the compute type, rounded once.
pub fn sum(call: &Call<'_>) -> Result<()> {
    let Some(output) = call.outputs[0].as_deref() else { return Ok(()) };
    let context = context_of(output.device)?;
    let inputs: Vec<&Parts> = call.inputs.iter().flatten().map(|input| &**input).collect();
    let fits = |input: &&Parts| {
        merge(output.shape(), [steps(output), steps(input)]).is_contiguous() && are_aligned(&[address(input)])
    };
    let contiguous = inputs.iter().all(fits) && are_aligned(&[address(output)]);
    let (count, dtype) = (output.shape().elements() as i64, output.dtype());
    let per_launch = if contiguous { SUM_INPUTS } else { 1 };
    let launches = inputs.len().div_ceil(per_launch);
    // Between launches the sum is kept in the compute type, so that it is rounded once.
    let accumulator = match launches {
        0 | 1 => None,
        _ => Some(Memory::new(context, count as usize * dtype.compute().size(), call.stream)?),
    };
    let accumulator = accumulator.as_ref().map_or(0, Memory::address);
    for (index, group) in inputs.chunks(per_launch).enumerate() {
        let accumulator_in = if index == 0 { 0 } else { accumulator };
        let accumulator_out = if index + 1 == launches { 0 } else { accumulator };
        if contiguous {
            let mut addresses = [0; SUM_INPUTS];
            for (place, input) in addresses.iter_mut().zip(group) {
                *place = address(input);
            }
            // One for each vector, and one for each element that fills none.
            let lanes = 16 / dtype.size() as i64;
            let threads = count / lanes + count % lanes;
            let kernel = format!("sum_{}", suffix(dtype));
            let launch = Launch { module: &MODULE, kernel: &kernel, blocks: blocks(threads), shared_bytes: 0 };
            let parameters = SumParameters {
                output: address(output),
                accumulator_in,
                accumulator_out,
                inputs: addresses,
                input_count: group.len() as i64,
                count,
            };
            // SAFETY: the schema checked that all have one shape; they are contiguous alike and aligned, and the
            // accumulator has `count` elements of the compute type.
            unsafe { context.launch(&launch, &parameters, call.stream) }?;
            continue;
        }
        let merged = merge(output.shape(), [steps(output), steps(group[0])]);
        // Every input is walked in the order of the output's memory, so an accumulator's index means the same element
        // in every launch.
        let kernel = format!("sum_strided_{}_{}", suffix(dtype), merged.index_width());
        let mut done = 0;
        for (layout, offsets) in merged.pieces() {
            let at = |base: u64| if base == 0 { 0 } else { base + done * dtype.compute().size() as u64 };
            let launch =
                Launch { module: &MODULE, kernel: &kernel, blocks: strided_blocks(layout.count), shared_bytes: 0 };
            let parameters = StridedSumParameters {
                output: moved(address(output), offsets[0], output),
                accumulator_in: at(accumulator_in),
                accumulator_out: at(accumulator_out),
                input: moved(address(group[0]), offsets[1], group[0]),
                layout,
            };
            // SAFETY: as above, with the operands' own strides.
            unsafe { context.launch(&launch, &parameters, call.stream) }?;
            done += layout.count as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::devices::cuda::parameters::assert_constants;

    #[test]
    fn the_constants_are_those_of_the_header() {
        let header = include_str!("../../../cuda/include/parameters/arithmetic.cuh");
        assert_constants(header, &[("SUM_INPUTS", super::SUM_INPUTS as u64)]);
    }
}
