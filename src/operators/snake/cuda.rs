//! The kernels of a CUDA device.

use super::{BACKWARD, FORWARD, SnakeArgs, SnakeDerivativeArgs};
use crate::core::device::Stream;
use crate::core::dtype::DType;
use crate::core::error::Result;
use crate::core::operator::Call;
use crate::core::tensor::Parts;
use crate::devices::cuda::context::{Context, context_of};
use crate::devices::cuda::copy::copy;
use crate::devices::cuda::dense::{Dense, dense, dense_target};
use crate::devices::cuda::launch::Launch;
use crate::devices::cuda::layout::merge;
use crate::devices::cuda::map::{address, blocks, moved, steps};
use crate::devices::cuda::memory::Memory;
use crate::devices::cuda::modules::Module;
use crate::devices::cuda::parameters::{CHUNK, Layout, parameters, suffix, type_code};
use crate::operators::fused_leaky_relu::existing_axis;

/// The kernels.
pub static MODULE: Module = Module { name: "snake", text: include_str!("../../../cuda/ptx/snake.ptx") };

/// Numbers of a channel in the table of a derivative.
const TABLE: usize = 20;

parameters!(
    /// The numbers of each channel, one after the other.
    WaveParameters, 40 {
        /// Frequencies.
        alpha: u64,
        /// Divisors; zero where they are the frequencies.
        beta: u64,
        /// Their types.
        alpha_type: i64,
        /// The divisors' type.
        beta_type: i64,
        /// Whether exponentials count.
        logscale: i64,
    }
);
parameters!(
    /// Operands of the layout: output, input, gradient, and the number of the channel.
    SnakeParameters, 504 {
        /// Address of the result.
        output: u64,
        /// X.
        input: u64,
        /// dY; backward alone.
        gradient: u64,
        /// `[channels, TABLE]`; derivatives of any order alone.
        table: u64,
        /// The channel at which the layout begins.
        first_channel: i64,
        /// Coefficients of each polynomial.
        coefficients: i64,
        /// What stays of t itself.
        constant: f64,
        /// Times t.
        slope: f64,
        /// The numbers.
        wave: WaveParameters,
        /// Where elements are.
        layout: Layout,
    }
);
parameters!(
    /// Sums of derivatives by p and by q; the layout leaves out the channel axis and has operands input and gradient.
    SnakeReduceParameters, 488 {
        /// X.
        input: u64,
        /// dY.
        gradient: u64,
        /// `[channels, chunks, 2]`.
        partials: u64,
        /// Chunks of one channel.
        chunks: i64,
        /// Elements between channels of X.
        input_stride: i64,
        /// Elements between channels of dY.
        gradient_stride: i64,
        /// The numbers.
        wave: WaveParameters,
        /// The other axes.
        layout: Layout,
    }
);
parameters!(
    /// From sums to the gradients of the numbers.
    SnakeFinishParameters, 72 {
        /// dAlpha; zero where it is not wanted.
        alpha_gradient: u64,
        /// dBeta; zero where it is not wanted.
        beta_gradient: u64,
        /// `[channels, chunks, 2]`.
        partials: u64,
        /// Chunks of one channel.
        chunks: i64,
        /// The numbers, of the gradients' types.
        wave: WaveParameters,
    }
);
parameters!(
    /// What a derivative is made of.
    SnakeTableParameters, 72 {
        /// `[channels, TABLE]`.
        table: u64,
        /// How often by X.
        order_x: i64,
        /// How often by Alpha.
        order_alpha: i64,
        /// How often by Beta.
        order_beta: i64,
        /// The numbers.
        wave: WaveParameters,
    }
);

/// Y of X and the numbers.
pub fn forward(call: &Call<'_>) -> Result<()> {
    let Some(y) = call.outputs[0].as_deref() else { return Ok(()) };
    let SnakeArgs { logscale, axis } = SnakeArgs::from_args(call.args);
    let numbers = numbers_of(call, FORWARD)?;
    Job::new(call, &numbers, None, (logscale, axis))?.elementwise("snake", y, None)
}

/// dX, dAlpha and dBeta of X, dY and the numbers.
pub fn gradient(call: &Call<'_>) -> Result<()> {
    let SnakeArgs { logscale, axis } = SnakeArgs::from_args(call.args);
    let numbers = numbers_of(call, BACKWARD)?;
    let job = Job::new(call, &numbers, Some(call.input(1)), (logscale, axis))?;
    let output = |place: usize| call.outputs.get(place).and_then(Option::as_deref);
    let dbeta = output(2).filter(|_| job.numbers[1].is_some());
    // The sums first: dX may be written over dY.
    if output(1).is_some() || dbeta.is_some() {
        job.reduce([output(1), dbeta])?;
    }
    output(0).map_or(Ok(()), |dx| job.elementwise("snake_gradient", dx, None))
}

/// Z of X, dY and the numbers.
pub fn derivative(call: &Call<'_>) -> Result<()> {
    let Some(z) = call.outputs[0].as_deref() else { return Ok(()) };
    let args = SnakeDerivativeArgs::from_args(call.args);
    let numbers = numbers_of(call, BACKWARD)?;
    let job = Job::new(call, &numbers, Some(call.input(1)), (args.logscale, args.axis))?;
    let channels = job.input.shape()[job.axis] as u64;
    let table = Memory::new(job.context, channels as usize * TABLE * size_of::<f64>(), job.stream)?;
    let parameters = SnakeTableParameters {
        table: table.address(),
        order_x: args.order_x,
        order_alpha: args.order_alpha,
        order_beta: args.order_beta,
        wave: job.wave(),
    };
    let kernel = if z.dtype() == DType::Float64 { "snake_table_f64" } else { "snake_table_f32" };
    let launch = Launch { module: &MODULE, kernel, blocks: channels, shared_bytes: 0 };
    // SAFETY: there is room for a table of each channel, and as many numbers.
    unsafe { job.context.launch(&launch, &parameters, job.stream) }?;
    job.elementwise("snake_derivative", z, Some((&table, args)))
}

/// One call: the operands that all three have.
struct Job<'a> {
    context: &'static Context,
    stream: Stream,
    axis: usize,
    logscale: bool,
    input: &'a Parts,
    gradient: Option<&'a Parts>,
    numbers: &'a [Option<Dense>; 2],
}

/// The numbers of each channel, alpha's and beta's, one after the other in memory.
fn numbers_of(call: &Call<'_>, place: usize) -> Result<[Option<Dense>; 2]> {
    let context = context_of(call.input(0).device)?;
    let read = |place: usize| {
        let given = call.inputs.get(place).and_then(Option::as_deref);
        given.map(|numbers| dense(context, numbers, call.stream)).transpose()
    };
    Ok([read(place)?, read(place + 1)?])
}

impl<'a> Job<'a> {
    fn new(
        call: &'a Call<'_>,
        numbers: &'a [Option<Dense>; 2],
        gradient: Option<&'a Parts>,
        (logscale, axis): (bool, i64),
    ) -> Result<Self> {
        let input = call.input(0);
        let axis = existing_axis(axis, input.shape().len()).expect("inference has found the axis");
        let context = context_of(input.device)?;
        Ok(Job { context, stream: call.stream, axis, logscale, input, gradient, numbers })
    }

    fn wave(&self) -> WaveParameters {
        let [alpha, beta] = self.numbers.each_ref().map(|numbers| numbers.as_ref().map(|numbers| numbers.parts()));
        let code = |parts: Option<&Parts>| parts.map_or(0, |parts| i64::from(type_code(parts.dtype())));
        WaveParameters {
            alpha: alpha.map_or(0, address),
            beta: beta.map_or(0, address),
            alpha_type: code(alpha),
            beta_type: code(beta),
            logscale: i64::from(self.logscale),
        }
    }

    fn elementwise(&self, name: &str, output: &Parts, of: Option<(&Memory, SnakeDerivativeArgs)>) -> Result<()> {
        // The channel's number is an operand that changes along the axis alone.
        let mut along_channels = vec![0isize; output.shape().len()];
        along_channels[self.axis] = 1;
        let gradient = self.gradient.unwrap_or(self.input);
        let operands = [steps(output), steps(self.input), steps(gradient), (along_channels.as_slice(), 1)];
        let merged = merge(output.shape(), operands);
        let kernel = format!("{name}_{}_{}", suffix(output.dtype()), merged.index_width());
        let [constant, slope] = match of.map(|(_, args)| [args.order_x, args.order_alpha, args.order_beta]) {
            Some([0, 0, 0]) => [0.0, 1.0],
            Some([1, 0, 0]) => [1.0, 0.0],
            _ => [0.0, 0.0],
        };
        for (layout, offsets) in merged.pieces() {
            let launch = Launch { module: &MODULE, kernel: &kernel, blocks: blocks(layout.count), shared_bytes: 0 };
            let parameters = SnakeParameters {
                output: moved(address(output), offsets[0], output),
                input: moved(address(self.input), offsets[1], self.input),
                gradient: self.gradient.map_or(0, |gradient| moved(address(gradient), offsets[2], gradient)),
                table: of.map_or(0, |(table, _)| table.address()),
                first_channel: offsets[3],
                coefficients: of.map_or(0, |(_, args)| args.order_alpha + 1),
                constant,
                slope,
                wave: self.wave(),
                layout,
            };
            // SAFETY: the schema checked that output, input and gradient have one shape and that there are numbers for
            // each channel, and so has the table; the layout's strides are the operands' own.
            unsafe { self.context.launch(&launch, &parameters, self.stream) }?;
        }
        Ok(())
    }

    /// dAlpha and dBeta, where they are wanted.
    fn reduce(&self, outputs: [Option<&Parts>; 2]) -> Result<()> {
        let dy = self.gradient.expect("the gradient has dY");
        let axes: Vec<usize> = (0..self.input.shape().len()).filter(|&d| d != self.axis).collect();
        let shape: Vec<usize> = axes.iter().map(|&d| self.input.shape()[d]).collect();
        let size = self.input.dtype().size();
        let [of_input, of_dy] =
            [self.input, dy].map(|parts| axes.iter().map(|&d| parts.strides[d]).collect::<Vec<isize>>());
        let merged = merge(&shape, [(of_input.as_slice(), size), (of_dy.as_slice(), size)]);
        let pieces = merged.pieces();
        if pieces.len() > 1 {
            // More dimensions than a kernel takes: row-major copies merge further.
            let [input, dy] = [dense(self.context, self.input, self.stream)?, dense(self.context, dy, self.stream)?];
            return Job { input: input.parts(), gradient: Some(dy.parts()), ..*self }.reduce(outputs);
        }
        let channels = self.input.shape()[self.axis] as u64;
        let chunks = (merged.count() as u64).div_ceil(CHUNK);
        let bytes = (channels.saturating_mul(chunks) as usize).saturating_mul(2 * size_of::<f64>());
        let partials = Memory::new(self.context, bytes, self.stream)?;
        if let Some((layout, _)) = pieces.first() {
            let kernel = format!("snake_reduce_{}_{}", suffix(self.input.dtype()), merged.index_width());
            let launch = Launch { module: &MODULE, kernel: &kernel, blocks: channels * chunks, shared_bytes: 0 };
            let stride = |parts: &Parts| parts.strides[self.axis] as i64 / size as i64;
            let parameters = SnakeReduceParameters {
                input: address(self.input),
                gradient: address(dy),
                partials: partials.address(),
                chunks: chunks as i64,
                input_stride: stride(self.input),
                gradient_stride: stride(dy),
                wave: self.wave(),
                layout: *layout,
            };
            // SAFETY: as above; there are two partial sums a block.
            unsafe { self.context.launch(&launch, &parameters, self.stream) }?;
        }
        let mut targets = [None, None];
        for (target, output) in targets.iter_mut().zip(outputs) {
            *target = output.map(|output| dense_target(self.context, output, self.stream)).transpose()?.flatten();
        }
        let place = |which: usize| {
            let output = outputs[which]?;
            Some(address(targets[which].as_ref().map_or(output, |target| target.parts())))
        };
        let parameters = SnakeFinishParameters {
            alpha_gradient: place(0).unwrap_or(0),
            beta_gradient: place(1).unwrap_or(0),
            partials: partials.address(),
            chunks: chunks as i64,
            wave: self.wave(),
        };
        let launch = Launch { module: &MODULE, kernel: "snake_finish", blocks: channels, shared_bytes: 0 };
        // SAFETY: the results are row-major, with one element a channel of the numbers' types; the sums were just launched
        // on the same stream.
        unsafe { self.context.launch(&launch, &parameters, self.stream) }?;
        for (target, output) in targets.iter().zip(outputs) {
            if let (Some(target), Some(output)) = (target, output) {
                copy(self.context, output, target.parts(), self.stream)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::devices::cpu::activations::Orders;
    use crate::devices::cuda::parameters::assert_constants;

    #[test]
    fn the_constants_are_those_of_the_header() {
        let header = include_str!("../../../cuda/include/parameters/snake.cuh");
        let most = Orders::MOST as u64 + 1;
        assert_constants(header, &[("SNAKE_COEFFICIENTS", most), ("TABLE", super::TABLE as u64)]);
        assert_eq!(super::TABLE as u64, 2 + 2 * most);
    }
}
