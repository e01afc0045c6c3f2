//! The kernels of a CUDA device.

use super::{BiasActArgs, BiasActGradientArgs, existing_axis};
use crate::core::device::Stream;
use crate::core::error::Result;
use crate::core::operator::Call;
use crate::core::tensor::Parts;
use crate::devices::cpu::activations::{Order, Settings};
use crate::devices::cuda::context::{Context, context_of};
use crate::devices::cuda::copy::copy;
use crate::devices::cuda::dense::{dense, dense_target};
use crate::devices::cuda::launch::Launch;
use crate::devices::cuda::layout::merge;
use crate::devices::cuda::map::{address, blocks, moved, steps};
use crate::devices::cuda::memory::Memory;
use crate::devices::cuda::modules::Module;
use crate::devices::cuda::parameters::{CHUNK, FinishParameters, Layout, parameters, suffix, type_code};

/// The kernels.
pub static MODULE: Module = Module { name: "bias_act", text: include_str!("../../../cuda/ptx/bias_act.ptx") };

/// Coefficients of the polynomials of a derivative.
const MOST_COEFFICIENTS: usize = 26;

parameters!(
    /// An activation with its numbers.
    ActivationParameters, 472 {
        /// The slope of lrelu.
        alpha: f64,
        /// The factor.
        gain: f64,
        /// Infinite where there is none.
        clamp: f64,
        /// What the first derivative of the underlying function is multiplied by.
        factor: [f64; MOST_COEFFICIENTS],
        /// The same for the order before.
        before: [f64; MOST_COEFFICIENTS],
        /// How many coefficients the factor has.
        factor_length: i64,
        /// How many coefficients the one before has.
        before_length: i64,
        /// The order of the derivative.
        order: i64,
        /// Which activation.
        activation: i64,
    }
);
parameters!(
    /// Operands of the layout: output, input, gradient, bias.
    BiasActParameters, 912 {
        /// Address of the result.
        output: u64,
        /// X.
        input: u64,
        /// dY; backward alone.
        gradient: u64,
        /// B.
        bias: u64,
        /// The bias's type.
        bias_type: i64,
        /// The formula.
        activation: ActivationParameters,
        /// Where elements are.
        layout: Layout,
    }
);
parameters!(
    /// Bias gradient of any strides; the layout leaves out the channel axis and has operands input and gradient.
    BiasActReduceParameters, 936 {
        /// X.
        input: u64,
        /// dY.
        gradient: u64,
        /// B.
        bias: u64,
        /// `[channels, chunks]`.
        partials: u64,
        /// The bias's type.
        bias_type: i64,
        /// Chunks of one channel.
        chunks: i64,
        /// Elements between channels of X.
        input_stride: i64,
        /// Elements between channels of dY.
        gradient_stride: i64,
        /// The formula.
        activation: ActivationParameters,
        /// The other axes.
        layout: Layout,
    }
);

fn formula(settings: &Settings, order: usize) -> ActivationParameters {
    let Settings { activation, alpha, gain, clamp } = *settings;
    let series = Order::<f64>::new(activation, order);
    let padded = |coefficients: &[f64]| {
        let mut array = [0.0; MOST_COEFFICIENTS];
        array[..coefficients.len()].copy_from_slice(coefficients);
        (array, coefficients.len() as i64)
    };
    let ((factor, factor_length), (before, before_length)) =
        (padded(series.factor.coefficients()), padded(series.before.coefficients()));
    let (clamp, order, activation) = (clamp.unwrap_or(f64::INFINITY), order as i64, activation as i64);
    ActivationParameters { alpha, gain, clamp, factor, before, factor_length, before_length, order, activation }
}

/// Y of X and, unless omitted, B.
pub fn forward(call: &Call<'_>) -> Result<()> {
    let Some(y) = call.outputs[0].as_deref() else { return Ok(()) };
    let args = BiasActArgs::from_args(call.args);
    let context = context_of(y.device)?;
    let bias =
        call.inputs.get(1).and_then(Option::as_deref).map(|bias| dense(context, bias, call.stream)).transpose()?;
    let job = Job {
        context,
        stream: call.stream,
        axis: existing_axis(args.axis, y.shape().len()),
        activation: formula(&args.settings(), 1),
        input: call.input(0),
        gradient: None,
        bias: bias.as_ref().map(|bias| bias.parts()),
    };
    job.elementwise("bias_act", y)
}

/// dX and dB of X, dY and, unless omitted, B.
pub fn gradient(call: &Call<'_>) -> Result<()> {
    let [dx, db] = [0, 1].map(|k| call.outputs.get(k).and_then(Option::as_deref));
    let Some(context) = dx.or(db).map(|output| context_of(output.device)).transpose()? else { return Ok(()) };
    let args = BiasActGradientArgs::from_args(call.args);
    let bias =
        call.inputs.get(2).and_then(Option::as_deref).map(|bias| dense(context, bias, call.stream)).transpose()?;
    let job = Job {
        context,
        stream: call.stream,
        axis: existing_axis(args.axis, call.input(0).shape().len()),
        activation: formula(&args.forward().settings(), args.order as usize),
        input: call.input(0),
        gradient: Some(call.input(1)),
        bias: bias.as_ref().map(|bias| bias.parts()),
    };
    // dB first: dX may be written over dY.
    if let Some(db) = db {
        job.reduce(db)?;
    }
    dx.map_or(Ok(()), |dx| job.elementwise("bias_act_gradient", dx))
}

/// One call: the operands that both directions have.
struct Job<'a> {
    context: &'static Context,
    stream: Stream,
    /// The channels' axis; none where the tensor has no such axis, and then there is no bias.
    axis: Option<usize>,
    activation: ActivationParameters,
    input: &'a Parts,
    gradient: Option<&'a Parts>,
    bias: Option<&'a Parts>,
}

impl Job<'_> {
    fn bias_type(&self) -> i64 {
        self.bias.map_or(0, |bias| i64::from(type_code(bias.dtype())))
    }

    fn elementwise(&self, name: &str, output: &Parts) -> Result<()> {
        let mut along_channels = vec![0isize; output.shape().len()];
        if let (Some(bias), Some(axis)) = (self.bias, self.axis) {
            along_channels[axis] = bias.strides.first().map_or(0, |&stride| stride);
        }
        let size = self.bias.map_or(1, |bias| bias.dtype().size());
        let gradient = self.gradient.unwrap_or(self.input);
        let operands = [steps(output), steps(self.input), steps(gradient), (along_channels.as_slice(), size)];
        let merged = merge(output.shape(), operands);
        let kernel = format!("{name}_{}_{}", suffix(output.dtype()), merged.index_width());
        for (layout, offsets) in merged.pieces() {
            let launch = Launch { module: &MODULE, kernel: &kernel, blocks: blocks(layout.count), shared_bytes: 0 };
            let parameters = BiasActParameters {
                output: moved(address(output), offsets[0], output),
                input: moved(address(self.input), offsets[1], self.input),
                gradient: self.gradient.map_or(0, |gradient| moved(address(gradient), offsets[2], gradient)),
                bias: self.bias.map_or(0, |bias| moved(address(bias), offsets[3], bias)),
                bias_type: self.bias_type(),
                activation: self.activation,
                layout,
            };
            // SAFETY: the schema checked that output, input and gradient have one shape and that the bias has one element
            // a channel; the layout's strides are the operands' own.
            unsafe { self.context.launch(&launch, &parameters, self.stream) }?;
        }
        Ok(())
    }

    /// dB, from the inputs.
    fn reduce(&self, db: &Parts) -> Result<()> {
        let target = dense_target(self.context, db, self.stream)?;
        let result = target.as_ref().map_or(db, |target| target.parts());
        let gradient = self.gradient.expect("the gradient has dY");
        let axis = self.axis.expect("dB is there where the axis is");
        let axes: Vec<usize> = (0..self.input.shape().len()).filter(|&d| d != axis).collect();
        let pick = |strides: &[isize]| axes.iter().map(|&d| strides[d]).collect::<Vec<isize>>();
        let shape: Vec<usize> = axes.iter().map(|&d| self.input.shape()[d]).collect();
        let (input_steps, gradient_steps, size) =
            (pick(&self.input.strides), pick(&gradient.strides), self.input.dtype().size());
        let merged = merge(&shape, [(input_steps.as_slice(), size), (gradient_steps.as_slice(), size)]);
        let pieces = merged.pieces();
        if pieces.len() > 1 {
            // More dimensions than a kernel takes: row-major copies merge further.
            let (input, gradient) =
                (dense(self.context, self.input, self.stream)?, dense(self.context, gradient, self.stream)?);
            return Job { input: input.parts(), gradient: Some(gradient.parts()), ..*self }.reduce(db);
        }
        let (channels, chunks) = (self.input.shape()[axis] as i64, (merged.count() as u64).div_ceil(CHUNK) as i64);
        let partials =
            Memory::new(self.context, channels.saturating_mul(chunks) as usize * size_of::<f64>(), self.stream)?;
        let stride = |parts: &Parts| parts.strides[axis] as i64 / size as i64;
        if let Some((layout, _)) = pieces.first() {
            let kernel = format!("bias_act_reduce_{}_{}", suffix(self.input.dtype()), merged.index_width());
            let count = channels as u64 * chunks as u64;
            let launch = Launch { module: &MODULE, kernel: &kernel, blocks: count, shared_bytes: 0 };
            let parameters = BiasActReduceParameters {
                input: address(self.input),
                gradient: address(gradient),
                bias: self.bias.map_or(0, address),
                partials: partials.address(),
                bias_type: self.bias_type(),
                chunks,
                input_stride: stride(self.input),
                gradient_stride: stride(gradient),
                activation: self.activation,
                layout: *layout,
            };
            // SAFETY: as above; there is one partial sum a block.
            unsafe { self.context.launch(&launch, &parameters, self.stream) }?;
        }
        let finish = FinishParameters {
            output: address(result),
            partials: partials.address(),
            count: chunks,
            inner: chunks.max(1),
            outer_stride: 0,
            stride: chunks,
            factor: 1.0,
            output_type: i64::from(type_code(result.dtype())),
        };
        let launch = Launch { module: &MODULE, kernel: "bias_act_finish", blocks: channels as u64, shared_bytes: 0 };
        // SAFETY: the result is row-major, with one element a channel; the sums were just launched on the same stream.
        unsafe { self.context.launch(&launch, &finish, self.stream) }?;
        target.map_or(Ok(()), |target| copy(self.context, db, target.parts(), self.stream))
    }
}

#[cfg(test)]
mod tests {
    use crate::devices::cuda::parameters::assert_constants;

    #[test]
    fn the_constants_are_those_of_the_header() {
        let header = include_str!("../../../cuda/include/parameters/bias_act.cuh");
        assert_constants(header, &[("MOST_COEFFICIENTS", super::MOST_COEFFICIENTS as u64)]);
        assert_eq!(super::MOST_COEFFICIENTS, crate::devices::cpu::activations::MOST_ORDER + 2);
    }
}
