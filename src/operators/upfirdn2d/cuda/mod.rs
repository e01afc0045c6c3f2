//! The kernels of a CUDA device. Value and input gradient are one operation with two sets of parameters.

mod plan;

use super::UpFirDn2dArgs;
use crate::core::device::Stream;
use crate::core::error::{Error, Result};
use crate::core::operator::Call;
use crate::core::shape::Shape;
use crate::core::tensor::Parts;
use crate::devices::cuda::context::{Context, context_of};
use crate::devices::cuda::launch::Launch;
use crate::devices::cuda::layout::{Planes, merge};
use crate::devices::cuda::map::{self, address, dense_target, moved};
use crate::devices::cuda::memory::Memory;
use crate::devices::cuda::parameters::{
    FinishParameters, KernelGradientParameters, TapsParameters, UpFirDn2dParameters, suffix, type_code,
};

const MODULE: &str = "upfirdn2d";
/// The header before prepared taps.
const TAPS_HEADER: usize = 16;

/// Y of X and K.
pub fn forward(call: &Call<'_>) -> Result<()> {
    let Some(y) = call.outputs[0].as_deref() else { return Ok(()) };
    filter(y, call.input(0), call.input(1), &Filter::forward(call), call.stream)
}

/// dX of dY, K and the shape of X.
pub fn gradient(call: &Call<'_>) -> Result<()> {
    let Some(dx) = call.outputs[0].as_deref() else { return Ok(()) };
    let kernel = call.input(1);
    filter(dx, call.input(0), kernel, &Filter::forward(call).transposed(kernel.shape()), call.stream)
}

/// Factors and padding, `[x, y]`.
#[derive(Debug, Clone, Copy)]
struct Filter {
    up: [i32; 2],
    down: [i32; 2],
    pad: [i64; 2],
    flip: bool,
    gain: f64,
}

impl Filter {
    fn forward(call: &Call<'_>) -> Self {
        let args = UpFirDn2dArgs::from_args(call.args);
        Filter {
            // The schema keeps factors below 2^31.
            up: [args.up.0 as i32, args.up.1 as i32],
            down: [args.down.0 as i32, args.down.1 as i32],
            pad: [args.pad_x.0, args.pad_y.0],
            // A convolution lets the last tap meet the first sample.
            flip: !args.flip_kernel,
            gain: args.gain,
        }
    }

    /// The operation that gives the input's gradient.
    fn transposed(self, kernel: &[usize]) -> Self {
        let pad = [kernel[1] as i64 - self.pad[0] - 1, kernel[0] as i64 - self.pad[1] - 1];
        Filter { up: self.down, down: self.up, pad, flip: !self.flip, gain: self.gain }
    }
}

/// Batches and channels of two tensors that differ in their last two dimensions alone: at most two dimensions after
/// merging, and the offsets of as many pieces as further dimensions make.
fn pieces(first: &Parts, second: &Parts) -> Vec<(Planes<2>, [i64; 2])> {
    let lead = first.shape().len() - 2;
    let size = first.dtype().size();
    let merged = merge(&first.shape()[..lead], [(&first.strides[..lead], size), (&second.strides[..lead], size)]);
    merged.planes()
}

fn filter(output: &Parts, input: &Parts, kernel: &Parts, filter: &Filter, stream: Stream) -> Result<()> {
    if output.shape().contains(&0) {
        return Ok(());
    }
    let context = context_of(output.device)?;
    let taps = prepare_taps(context, kernel, filter, output, stream)?;
    let (rank, size) = (output.shape().len(), output.dtype().size() as i64);
    let element = |parts: &Parts, d: usize| parts.strides[d] as i64 / size;
    for (plane, offsets) in pieces(output, input) {
        let strides = |parts: &Parts, k: usize| {
            [plane.strides[k][0], plane.strides[k][1], element(parts, rank - 2), element(parts, rank - 1)]
        };
        let problem = UpFirDn2dParameters {
            output: moved(address(output), offsets[0], output),
            input: moved(address(input), offsets[1], input),
            prepared: taps.address(),
            planes: plane.batches * plane.channels,
            channels: plane.channels,
            input_strides: strides(input, 1),
            output_strides: strides(output, 0),
            input_width: input.shape()[rank - 1] as i64,
            input_height: input.shape()[rank - 2] as i64,
            output_width: output.shape()[rank - 1] as i64,
            output_height: output.shape()[rank - 2] as i64,
            pad_x: filter.pad[0],
            pad_y: filter.pad[1],
            up_x: filter.up[0],
            up_y: filter.up[1],
            down_x: filter.down[0],
            down_y: filter.down[1],
            taps_x: kernel.shape()[1] as i32,
            taps_y: kernel.shape()[0] as i32,
            ..Default::default()
        };
        let (form, parameters) = plan::filter(output.dtype(), problem);
        let launch =
            Launch { module: MODULE, kernel: &form.kernel, blocks: form.blocks, shared_bytes: form.shared_bytes };
        // SAFETY: strides and sizes are those of the two views, which promise their memory; the schema checked that
        // leading dimensions agree; the prepared taps were launched on the same stream and live until it comes past.
        unsafe { context.launch(&launch, &parameters, stream) }?;
    }
    Ok(())
}

/// Taps in the compute type of `output`, with the gain, in the order in which they meet samples.
fn prepare_taps(
    context: &'static Context,
    kernel: &Parts,
    filter: &Filter,
    output: &Parts,
    stream: Stream,
) -> Result<Memory> {
    let compute = output.dtype().compute();
    let (taps_y, taps_x) = (kernel.shape()[0], kernel.shape()[1]);
    check_taps(kernel.shape())?;
    let memory = Memory::new(context, TAPS_HEADER + (taps_x + taps_y + taps_x * taps_y) * compute.size(), stream)?;
    let size = kernel.dtype().size() as i64;
    let parameters = TapsParameters {
        taps: address(kernel),
        prepared: memory.address(),
        stride_y: kernel.strides[0] as i64 / size,
        stride_x: kernel.strides[1] as i64 / size,
        gain: filter.gain,
        dtype: type_code(kernel.dtype()),
        taps_x: taps_x as i32,
        taps_y: taps_y as i32,
        flip: i32::from(filter.flip),
    };
    let name = format!("upfirdn2d_taps_{}", suffix(compute));
    let launch = Launch { module: MODULE, kernel: &name, blocks: 1, shared_bytes: 0 };
    // SAFETY: the taps are the kernel's view; the memory just allocated holds the header and all three forms.
    unsafe { context.launch(&launch, &parameters, stream) }?;
    Ok(memory)
}

/// Refuses a kernel of more taps than 32 bits count.
fn check_taps(shape: &Shape) -> Result<()> {
    match shape.elements() < 1 << 30 {
        true => Ok(()),
        false => Err(Error::shape("UpFirDn2d", "K", shape, "fewer than 2^30 taps on a CUDA device")),
    }
}

/// dK of X, dY and the shape of K.
pub fn kernel_gradient(call: &Call<'_>) -> Result<()> {
    let Some(dk) = call.outputs[0].as_deref() else { return Ok(()) };
    let context = context_of(dk.device)?;
    let (input, gradient, filter) = (call.input(0), call.input(1), Filter::forward(call));
    let (rank, size) = (input.shape().len(), input.dtype().size() as i64);
    let element = |parts: &Parts, d: usize| parts.strides[d] as i64 / size;
    let taps = dk.shape().elements();
    check_taps(dk.shape())?;
    let parts = if gradient.shape().contains(&0) { Vec::new() } else { pieces(gradient, input) };
    let problems: Vec<_> = parts
        .iter()
        .map(|(plane, offsets)| {
            let strides = |parts: &Parts, k: usize| {
                [plane.strides[k][0], plane.strides[k][1], element(parts, rank - 2), element(parts, rank - 1)]
            };
            let parameters = KernelGradientParameters {
                input: moved(address(input), offsets[1], input),
                gradient: moved(address(gradient), offsets[0], gradient),
                planes: plane.batches * plane.channels,
                channels: plane.channels,
                input_strides: strides(input, 1),
                gradient_strides: strides(gradient, 0),
                input_width: input.shape()[rank - 1] as i64,
                input_height: input.shape()[rank - 2] as i64,
                output_width: gradient.shape()[rank - 1] as i64,
                output_height: gradient.shape()[rank - 2] as i64,
                pad_x: filter.pad[0],
                pad_y: filter.pad[1],
                up_x: filter.up[0],
                up_y: filter.up[1],
                down_x: filter.down[0],
                down_y: filter.down[1],
                taps_x: dk.shape()[1] as i32,
                taps_y: dk.shape()[0] as i32,
                flip: i32::from(filter.flip),
                ..Default::default()
            };
            plan::kernel_gradient(input.dtype(), parameters)
        })
        .collect();
    let total: i64 = problems.iter().map(|(_, parameters)| parameters.blocks).sum();
    let partials =
        Memory::new(context, taps.saturating_mul(total as usize).saturating_mul(size_of::<f64>()), call.stream)?;
    let mut done = 0;
    for (form, mut parameters) in problems {
        // Every tap's sums lie together; this piece's begin after those of the pieces before.
        parameters.partials = partials.address() + done * size_of::<f64>() as u64;
        parameters.stride = total;
        done += parameters.blocks as u64;
        let launch =
            Launch { module: MODULE, kernel: &form.kernel, blocks: form.blocks, shared_bytes: form.shared_bytes };
        // SAFETY: strides and sizes are those of the views; `partials` has a place for every tap and block.
        unsafe { context.launch(&launch, &parameters, call.stream) }?;
    }
    let target = dense_target(context, dk, call.stream)?;
    let parameters = FinishParameters {
        output: address(target.as_ref().map_or(dk, |target| target.parts())),
        partials: partials.address(),
        count: total,
        inner: total.max(1),
        outer_stride: 0,
        stride: total,
        factor: filter.gain,
        output_type: i64::from(type_code(dk.dtype())),
    };
    let launch = Launch { module: MODULE, kernel: "upfirdn2d_kernel_finish", blocks: taps as u64, shared_bytes: 0 };
    // SAFETY: dK has one element a tap, contiguous here; the sums were just launched on the same stream.
    unsafe { context.launch(&launch, &parameters, call.stream) }?;
    match target {
        Some(target) => map::copy(context, dk, target.parts(), call.stream),
        None => Ok(()),
    }
}
