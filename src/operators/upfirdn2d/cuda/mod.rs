//! The kernels of a CUDA device. Value and input gradient are one operation with two sets of parameters.

mod parameters;
mod plan;
mod rim;

use super::UpFirDn2dArgs;
use crate::core::device::Stream;
use crate::core::error::{Error, Result};
use crate::core::operator::Call;
use crate::core::shape::Shape;
use crate::core::tensor::Parts;
use crate::devices::cuda::context::{Context, context_of};
use crate::devices::cuda::copy::copy;
use crate::devices::cuda::dense::dense_target;
use crate::devices::cuda::launch::Launch;
use crate::devices::cuda::layout::{Planes, merge};
use crate::devices::cuda::map::{address, moved};
use crate::devices::cuda::memory::Memory;
use crate::devices::cuda::modules::Module;
use crate::devices::cuda::parameters::{FinishParameters, suffix, type_code};
use firelu_filters::axis::Geometry;
use firelu_filters::border::Border;
use parameters::{FEW_TAPS, KernelGradientParameters, RimParameters, TapsParameters, UpFirDn2dParameters};
use plan::Form;

/// The kernels.
pub static MODULE: Module = Module { name: "upfirdn2d", text: include_str!("../../../../cuda/ptx/upfirdn2d.ptx") };
/// The header before prepared taps.
const TAPS_HEADER: usize = 16;

/// Y of X and K.
pub fn forward(call: &Call<'_>) -> Result<()> {
    let Some(y) = call.outputs[0].as_deref() else { return Ok(()) };
    let (x, kernel) = (call.input(0), call.input(1));
    filter(y, x, kernel, &Filter::new(call, x.shape(), kernel.shape())?, call.stream)
}

/// dX of dY, K and the shape of X.
pub fn gradient(call: &Call<'_>) -> Result<()> {
    let Some(dx) = call.outputs[0].as_deref() else { return Ok(()) };
    let kernel = call.input(1);
    filter(dx, call.input(0), kernel, &Filter::new(call, dx.shape(), kernel.shape())?.transposed(), call.stream)
}

/// Where samples meet taps, and the taps.
struct Filter {
    geometry: Geometry,
    /// Whether the last tap meets the first sample.
    flip: bool,
    gain: f64,
    border: Border,
    /// Whether what lies outside the output is added to the samples that it stands for.
    adjoint: bool,
}

impl Filter {
    /// The forward operation on an X and a K of these shapes.
    fn new(call: &Call<'_>, x: &Shape, kernel: &Shape) -> Result<Self> {
        let args = UpFirDn2dArgs::from_args(call.args);
        let geometry = args.geometry("UpFirDn2d", x, kernel)?;
        // A convolution lets the last tap meet the first sample.
        Ok(Filter { geometry, flip: !args.flip_kernel, gain: args.gain, border: args.border, adjoint: false })
    }

    /// The operation that gives the input's gradient.
    fn transposed(self) -> Self {
        Filter { geometry: self.geometry.transposed(), flip: !self.flip, adjoint: !self.adjoint, ..self }
    }
}

impl Form {
    /// Whether its blocks, which stage taps in shared memory, can prepare a few of them.
    fn prepares_taps(&self) -> bool {
        self.shared_bytes > 0
    }

    fn launch(&self) -> Launch<'_> {
        Launch { module: &MODULE, kernel: &self.kernel, blocks: self.blocks, shared_bytes: self.shared_bytes }
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
    check_taps(kernel.shape())?;
    // Only where blocks do not prepare the taps themselves; once a call.
    let mut prepared: Option<Memory> = None;
    let mut prepare = || -> Result<u64> {
        if prepared.is_none() {
            prepared = Some(prepare_taps(context, kernel, filter, output, stream)?);
        }
        Ok(prepared.as_ref().map_or(0, Memory::address))
    };
    let tap_size = kernel.dtype().size() as i64;
    let (rank, size) = (output.shape().len(), output.dtype().size() as i64);
    let element = |parts: &Parts, d: usize| parts.strides[d] as i64 / size;
    for (plane, offsets) in pieces(output, input) {
        let strides = |parts: &Parts, k: usize| {
            [plane.strides[k][0], plane.strides[k][1], element(parts, rank - 2), element(parts, rank - 1)]
        };
        let (planes, channels) = (plane.batches * plane.channels, plane.channels);
        let (input_strides, output_strides) = (strides(input, 1), strides(output, 0));
        let (to, from) = (moved(address(output), offsets[0], output), moved(address(input), offsets[1], input));
        for part in rim::parts(filter) {
            if !part.inner {
                let problem = RimParameters {
                    output: to,
                    input: from,
                    prepared: prepare()?,
                    planes,
                    channels,
                    input_strides,
                    output_strides,
                    ..rim::problem(filter, &part)
                };
                let form = rim::form(output.dtype(), filter.adjoint, &problem);
                let launch = form.launch();
                // SAFETY: as below; the part's outputs are some of the output's.
                unsafe { context.launch(&launch, &problem, stream) }?;
                continue;
            }
            let Geometry { x, y } = rim::geometry_of(&filter.geometry, &part);
            let problem = UpFirDn2dParameters {
                output: moved(to, part.rows.start * output_strides[2] + part.columns.start * output_strides[3], output),
                input: from,
                taps: address(kernel),
                tap_stride_y: kernel.strides[0] as i64 / tap_size,
                tap_stride_x: kernel.strides[1] as i64 / tap_size,
                gain: filter.gain,
                tap_type: type_code(kernel.dtype()),
                flip: i32::from(filter.flip),
                planes,
                channels,
                input_strides,
                output_strides,
                input_width: x.input,
                input_height: y.input,
                output_width: x.output,
                output_height: y.output,
                pad_x: x.pad,
                pad_y: y.pad,
                // The schema keeps factors below 2^31, `check_taps` the number of taps.
                up_x: x.up as i32,
                up_y: y.up as i32,
                down_x: x.down as i32,
                down_y: y.down as i32,
                taps_x: x.taps as i32,
                taps_y: y.taps as i32,
                ..Default::default()
            };
            let (form, mut parameters) = plan::filter(output.dtype(), problem);
            if kernel.shape().elements() > FEW_TAPS || !form.prepares_taps() {
                parameters.prepared = prepare()?;
            }
            let launch = form.launch();
            // SAFETY: strides are those of the views, which promise their memory, and sizes those that the schema checked
            // their shapes by; leading dimensions agree; taps that are prepared were launched on the same stream and live
            // until it comes past.
            unsafe { context.launch(&launch, &parameters, stream) }?;
        }
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
    let launch = Launch { module: &MODULE, kernel: &name, blocks: 1, shared_bytes: 0 };
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

/// What a launch of the kernel gradient takes.
enum Products {
    Inside(KernelGradientParameters),
    Rim(RimParameters),
}

/// dK of X, dY and the shape of K.
pub fn kernel_gradient(call: &Call<'_>) -> Result<()> {
    let Some(dk) = call.outputs[0].as_deref() else { return Ok(()) };
    let context = context_of(dk.device)?;
    let (input, gradient) = (call.input(0), call.input(1));
    let filter = Filter::new(call, input.shape(), dk.shape())?;
    let (rank, size) = (input.shape().len(), input.dtype().size() as i64);
    let element = |parts: &Parts, d: usize| parts.strides[d] as i64 / size;
    let taps = dk.shape().elements();
    check_taps(dk.shape())?;
    let parts = if gradient.shape().contains(&0) { Vec::new() } else { pieces(gradient, input) };
    let cut = rim::parts(&filter);
    let mut problems = Vec::new();
    let mut total = 0;
    for (plane, offsets) in &parts {
        let strides = |parts: &Parts, k: usize| {
            [plane.strides[k][0], plane.strides[k][1], element(parts, rank - 2), element(parts, rank - 1)]
        };
        let (planes, channels) = (plane.batches * plane.channels, plane.channels);
        let (input_strides, gradient_strides) = (strides(input, 1), strides(gradient, 0));
        let from = moved(address(input), offsets[1], input);
        let met = moved(address(gradient), offsets[0], gradient);
        for part in &cut {
            if !part.inner {
                let problem = RimParameters {
                    output: met,
                    input: from,
                    planes,
                    channels,
                    input_strides,
                    output_strides: gradient_strides,
                    ..rim::problem(&filter, part)
                };
                let (form, parameters) = rim::kernel_gradient(input.dtype(), problem);
                total += parameters.blocks;
                problems.push((form, Products::Rim(parameters)));
                continue;
            }
            let Geometry { x, y } = rim::geometry_of(&filter.geometry, part);
            let at = part.rows.start * gradient_strides[2] + part.columns.start * gradient_strides[3];
            let problem = KernelGradientParameters {
                input: from,
                gradient: moved(met, at, gradient),
                planes,
                channels,
                input_strides,
                gradient_strides,
                input_width: x.input,
                input_height: y.input,
                output_width: x.output,
                output_height: y.output,
                pad_x: x.pad,
                pad_y: y.pad,
                // As for the filter.
                up_x: x.up as i32,
                up_y: y.up as i32,
                down_x: x.down as i32,
                down_y: y.down as i32,
                taps_x: x.taps as i32,
                taps_y: y.taps as i32,
                flip: i32::from(filter.flip),
                ..Default::default()
            };
            let (form, parameters) = plan::kernel_gradient(input.dtype(), problem);
            total += parameters.blocks;
            problems.push((form, Products::Inside(parameters)));
        }
    }
    let partials =
        Memory::new(context, taps.saturating_mul(total as usize).saturating_mul(size_of::<f64>()), call.stream)?;
    // Every tap's sums lie together; a launch's begin after those of the launches before.
    let mut sums = partials.address();
    for (form, problem) in problems {
        let launch = form.launch();
        // SAFETY: strides are those of the views and sizes those that the schema checked them by; `partials` has a place for every tap and block.
        sums += size_of::<f64>() as u64
            * unsafe {
                match problem {
                    Products::Inside(mut parameters) => {
                        (parameters.partials, parameters.stride) = (sums, total);
                        context.launch(&launch, &parameters, call.stream)?;
                        parameters.blocks as u64
                    }
                    Products::Rim(mut parameters) => {
                        (parameters.prepared, parameters.stride) = (sums, total);
                        context.launch(&launch, &parameters, call.stream)?;
                        parameters.blocks as u64
                    }
                }
            };
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
    let launch = Launch { module: &MODULE, kernel: "upfirdn2d_kernel_finish", blocks: taps as u64, shared_bytes: 0 };
    // SAFETY: dK has one element a tap, contiguous here; the sums were just launched on the same stream.
    unsafe { context.launch(&launch, &parameters, call.stream) }?;
    match target {
        Some(target) => copy(context, dk, target.parts(), call.stream),
        None => Ok(()),
    }
}
