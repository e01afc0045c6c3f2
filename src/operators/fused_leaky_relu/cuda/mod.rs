//! The kernels of a CUDA device: which form, how many blocks, and the two steps of the bias gradient.

mod parameters;

use super::{FusedLeakyReluArgs, existing_axis};
use crate::core::device::Stream;
use crate::core::dtype::DType;
use crate::core::error::Result;
use crate::core::operator::Call;
use crate::core::tensor::Parts;
use crate::devices::cuda::context::{Context, context_of};
use crate::devices::cuda::copy::copy;
use crate::devices::cuda::dense::{dense, dense_target};
use crate::devices::cuda::launch::{Launch, MAX_BLOCKS};
use crate::devices::cuda::layout::{Merged, merge};
use crate::devices::cuda::map::{address, are_aligned, blocks, moved, steps, strided_blocks};
use crate::devices::cuda::memory::Memory;
use crate::devices::cuda::modules::Module;
use crate::devices::cuda::parameters::{CHUNK, FinishParameters, THREADS, VECTORS, suffix, type_code};
use parameters::{BiasReduceParameters, FusedParameters, MAX_COLUMNS, StridedFusedParameters};

/// The kernels.
pub static MODULE: Module =
    Module { name: "fused_leaky_relu", text: include_str!("../../../../cuda/ptx/fused_leaky_relu.ptx") };
/// Planes of fewer vectors share blocks: below, more than half of a block would idle.
const MIN_PLANE_VECTORS: i64 = 128;
/// Channels last: rows that each thread goes down, so that biases are read and sums written once for many elements.
const ROWS_PER_THREAD: u64 = 16;
/// The same where that would give too few blocks.
const FEWER_ROWS_PER_THREAD: u64 = 4;
/// Fewer blocks than this leave a GPU idle.
const ENOUGH_BLOCKS: u64 = 128;

/// Y of X and, unless omitted, B.
pub fn forward(call: &Call<'_>) -> Result<()> {
    let Some(y) = &call.outputs[0] else { return Ok(()) };
    let context = context_of(y.device)?;
    let bias = call.inputs.get(1).and_then(Option::as_deref).map(|b| dense(context, b, call.stream)).transpose()?;
    let job = Job::new(call, context, call.input(0), None, bias.as_ref().map(|bias| bias.parts()));
    job.elementwise("fused_leaky_relu", y)
}

/// dX and dB of Y and dY, B' or both.
pub fn gradient(call: &Call<'_>) -> Result<()> {
    let [dx, db] = [0, 1].map(|k| call.outputs.get(k).and_then(Option::as_deref));
    let Some(context) = dx.or(db).map(|output| context_of(output.device)).transpose()? else { return Ok(()) };
    let [dy, bias] = [1, 2].map(|k| call.inputs.get(k).and_then(Option::as_deref));
    let bias = bias.map(|bias| dense(context, bias, call.stream)).transpose()?;
    let job = Job::new(call, context, call.input(0), dy, bias.as_ref().map(|bias| bias.parts()));
    match (dx, db) {
        (Some(dx), Some(db)) => job.both(dx, db),
        (Some(dx), None) => job.elementwise("fused_leaky_relu_gradient", dx),
        (None, Some(db)) => job.reduce(db),
        (None, None) => Ok(()),
    }
}

/// One call: the operands that both directions have.
struct Job<'a> {
    context: &'static Context,
    stream: Stream,
    alpha: f64,
    scale: f64,
    /// The channels' axis; none where the tensor has no such axis, and then there is no bias.
    axis: Option<usize>,
    input: &'a Parts,
    gradient: Option<&'a Parts>,
    bias: Option<&'a Parts>,
}

/// Contiguous memory seen as `[outer, channels, inner]`.
struct Grouping {
    count: i64,
    channels: i64,
    inner: i64,
    lanes: i64,
}

impl Grouping {
    fn outer(&self) -> i64 {
        if self.count == 0 { 0 } else { self.count / (self.channels * self.inner) }
    }

    fn blocks_per_plane(&self) -> i64 {
        ((self.inner / self.lanes) as u64).div_ceil(u64::from(THREADS) * VECTORS) as i64
    }

    /// Whether planes are whole vectors and long enough to have blocks of their own.
    fn has_planes(&self) -> bool {
        self.inner % self.lanes == 0
            && self.inner / self.lanes >= MIN_PLANE_VECTORS
            && self.plane_blocks() <= MAX_BLOCKS as i64
            && self.blocks_per_plane() <= i64::from(i32::MAX)
    }

    fn plane_blocks(&self) -> i64 {
        (self.outer() * self.channels).saturating_mul(self.blocks_per_plane())
    }

    /// Whether channels are innermost and whole vectors.
    fn has_columns(&self) -> bool {
        self.inner == 1 && self.channels % self.lanes == 0 && self.channels / self.lanes <= i64::from(i32::MAX)
    }

    /// Threads side by side along the channels, each with one vector of them.
    fn columns(&self) -> u64 {
        ((self.channels / self.lanes) as u64).next_power_of_two().min(MAX_COLUMNS)
    }

    fn rows_per_block(&self, rows_per_thread: u64) -> u64 {
        u64::from(THREADS) / self.columns() * rows_per_thread
    }

    fn row_blocks(&self, rows_per_thread: u64) -> u64 {
        (self.outer() as u64).div_ceil(self.rows_per_block(rows_per_thread))
    }

    fn column_blocks(&self, rows_per_thread: u64) -> u64 {
        let groups = ((self.channels / self.lanes) as u64).div_ceil(self.columns());
        self.row_blocks(rows_per_thread).saturating_mul(groups)
    }

    fn in_columns(&self, parameters: FusedParameters, rows_per_thread: u64) -> FusedParameters {
        let (columns, rows_per_block) = (self.columns() as i32, self.rows_per_block(rows_per_thread) as i32);
        FusedParameters { columns, rows_per_block, ..parameters }
    }

    /// From one vector of a thread to its next: a multiple of the period of the biases, or everything.
    fn step(&self) -> i64 {
        let vectors = self.count / self.lanes;
        let period = self.channels * self.inner;
        let (mut a, mut b) = (period.max(1), self.lanes);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        let unit = period.max(1) / a;
        let step = (vectors as u64).div_ceil(VECTORS).div_ceil(unit as u64) as i64 * unit;
        step.min(vectors)
    }
}

impl<'a> Job<'a> {
    fn new(
        call: &Call<'_>,
        context: &'static Context,
        input: &'a Parts,
        gradient: Option<&'a Parts>,
        bias: Option<&'a Parts>,
    ) -> Self {
        let FusedLeakyReluArgs { alpha, scale, axis } = FusedLeakyReluArgs::from_args(call.args);
        let axis = existing_axis(axis, input.shape().len());
        Job { context, stream: call.stream, alpha, scale, axis, input, gradient, bias }
    }

    fn dtype(&self) -> DType {
        self.input.dtype()
    }

    fn channels(&self) -> i64 {
        self.axis.map_or(1, |axis| self.input.shape()[axis] as i64)
    }

    /// The memory as channels see it, where all operands are contiguous alike and aligned for vectors.
    fn grouping(&self, output: &Parts, merged: &Merged<3>) -> Option<Grouping> {
        let addresses = [address(output), address(self.input), self.gradient.map_or(0, address)];
        if !merged.is_contiguous() || !are_aligned(&addresses) {
            return None;
        }
        let (count, channels, size) = (merged.count(), self.channels(), self.dtype().size());
        let inner = match self.axis {
            Some(axis) if channels > 1 => output.strides[axis] as i64 / size as i64,
            _ => count,
        };
        Some(Grouping { count, channels: channels.max(1), inner: inner.max(1), lanes: 16 / size as i64 })
    }

    fn merged(&self, output: &Parts) -> Merged<3> {
        merge(output.shape(), [steps(output), steps(self.input), steps(self.gradient.unwrap_or(self.input))])
    }

    fn parameters(&self, output: &Parts, grouping: &Grouping) -> FusedParameters {
        FusedParameters {
            output: address(output),
            input: address(self.input),
            gradient: self.gradient.map_or(0, address),
            bias: self.bias.map_or(0, address),
            alpha: self.alpha,
            scale: self.scale,
            count: grouping.count,
            inner: grouping.inner,
            channels: grouping.channels,
            step: grouping.step(),
            bias_type: self.bias.map_or(0, |bias| type_code(bias.dtype())),
            blocks_per_plane: grouping.blocks_per_plane().min(i64::from(i32::MAX)) as i32,
            ..Default::default()
        }
    }

    fn launch_grouped(&self, kernel: &str, blocks: u64, parameters: &FusedParameters) -> Result<()> {
        let launch = Launch { module: &MODULE, kernel, blocks, shared_bytes: 0 };
        // SAFETY: the schema checked that output, input and gradient have one shape and that the bias has one element a
        // channel; `grouping` found them contiguous and aligned; partial sums have a place for every block.
        unsafe { self.context.launch(&launch, parameters, self.stream) }
    }

    /// The output alone.
    fn elementwise(&self, name: &str, output: &Parts) -> Result<()> {
        let (merged, suffix) = (self.merged(output), suffix(self.dtype()));
        let Some(grouping) = self.grouping(output, &merged) else { return self.strided(name, output) };
        let parameters = self.parameters(output, &grouping);
        if grouping.has_planes() {
            let kernel = format!("{name}_planes_{suffix}");
            return self.launch_grouped(&kernel, grouping.plane_blocks() as u64, &parameters);
        }
        if grouping.has_columns() {
            let enough = |rows: &u64| grouping.column_blocks(*rows) >= ENOUGH_BLOCKS;
            if let Some(rows) = [ROWS_PER_THREAD, FEWER_ROWS_PER_THREAD].into_iter().find(enough) {
                let parameters = grouping.in_columns(parameters, rows);
                let blocks = grouping.column_blocks(rows);
                return self.launch_grouped(&format!("{name}_columns_{suffix}"), blocks, &parameters);
            }
        }
        let threads = parameters.step + grouping.count % grouping.lanes;
        self.launch_grouped(&format!("{name}_flat_{suffix}"), blocks(threads), &parameters)
    }

    fn strided(&self, name: &str, output: &Parts) -> Result<()> {
        let rank = output.shape().len();
        let mut along_channels = vec![0isize; rank];
        if let (Some(bias), Some(axis)) = (self.bias, self.axis) {
            along_channels[axis] = bias.strides.first().map_or(0, |&stride| stride);
        }
        let size = self.bias.map_or(1, |bias| bias.dtype().size());
        let gradient = self.gradient.unwrap_or(self.input);
        let operands = [steps(output), steps(self.input), steps(gradient), (along_channels.as_slice(), size)];
        let merged = merge(output.shape(), operands);
        let kernel = format!("{name}_strided_{}_{}", suffix(self.dtype()), merged.index_width());
        for (layout, offsets) in merged.pieces() {
            let launch =
                Launch { module: &MODULE, kernel: &kernel, blocks: strided_blocks(layout.count), shared_bytes: 0 };
            let parameters = StridedFusedParameters {
                output: moved(address(output), offsets[0], output),
                input: moved(address(self.input), offsets[1], self.input),
                gradient: self.gradient.map_or(0, |gradient| moved(address(gradient), offsets[2], gradient)),
                bias: self.bias.map_or(0, |bias| moved(address(bias), offsets[3], bias)),
                alpha: self.alpha,
                scale: self.scale,
                bias_type: self.bias.map_or(0, |bias| i64::from(type_code(bias.dtype()))),
                layout,
            };
            // SAFETY: the schema checked the shapes, the layout's strides are the operands' own, and the bias is
            // broadcast along every axis but its own by strides of 0.
            unsafe { self.context.launch(&launch, &parameters, self.stream) }?;
        }
        Ok(())
    }

    /// dX and dB: in one pass over memory where blocks can keep to one channel or go down columns.
    fn both(&self, dx: &Parts, db: &Parts) -> Result<()> {
        const NAME: &str = "fused_leaky_relu_gradient";
        let suffix = suffix(self.dtype());
        match self.grouping(dx, &self.merged(dx)) {
            Some(grouping) if grouping.has_planes() => {
                let blocks = grouping.plane_blocks();
                let partials = self.partials(blocks)?;
                let parameters = FusedParameters { partials: partials.address(), ..self.parameters(dx, &grouping) };
                self.launch_grouped(&format!("{NAME}_planes_{suffix}"), blocks as u64, &parameters)?;
                let inner = grouping.blocks_per_plane();
                self.finish(
                    db,
                    FinishParameters {
                        partials: partials.address(),
                        count: grouping.outer() * inner,
                        inner,
                        outer_stride: grouping.channels * inner,
                        stride: inner,
                        ..Default::default()
                    },
                )
            }
            Some(grouping) if grouping.has_columns() => {
                let row_blocks = grouping.row_blocks(ROWS_PER_THREAD) as i64;
                let partials = self.partials(row_blocks * grouping.channels)?;
                let parameters = FusedParameters { partials: partials.address(), ..self.parameters(dx, &grouping) };
                let parameters = grouping.in_columns(parameters, ROWS_PER_THREAD);
                let blocks = grouping.column_blocks(ROWS_PER_THREAD);
                self.launch_grouped(&format!("{NAME}_columns_{suffix}"), blocks, &parameters)?;
                self.finish(
                    db,
                    FinishParameters {
                        partials: partials.address(),
                        count: row_blocks,
                        inner: 1,
                        outer_stride: grouping.channels,
                        stride: 1,
                        ..Default::default()
                    },
                )
            }
            _ => {
                // dB first: dX may be written over dY.
                self.reduce(db)?;
                self.elementwise(NAME, dx)
            }
        }
    }

    /// dB alone, from the inputs.
    fn reduce(&self, db: &Parts) -> Result<()> {
        let mut axes: Vec<usize> = (0..self.input.shape().len()).collect();
        if let Some(axis) = self.axis {
            axes.remove(axis);
        }
        let gradient = self.gradient.unwrap_or(self.input);
        let pick = |strides: &[isize]| axes.iter().map(|&d| strides[d]).collect::<Vec<isize>>();
        let shape: Vec<usize> = axes.iter().map(|&d| self.input.shape()[d]).collect();
        let (input_steps, gradient_steps, size) =
            (pick(&self.input.strides), pick(&gradient.strides), self.dtype().size());
        let merged = merge(&shape, [(input_steps.as_slice(), size), (gradient_steps.as_slice(), size)]);
        let pieces = merged.pieces();
        if pieces.len() > 1 {
            let (input, gradient) = (
                dense(self.context, self.input, self.stream)?,
                self.gradient.map(|gradient| dense(self.context, gradient, self.stream)).transpose()?,
            );
            let gradient = gradient.as_ref().map(|gradient| gradient.parts());
            return Job { input: input.parts(), gradient, ..*self }.reduce(db);
        }
        let count = merged.count();
        let (channels, chunks) = (self.channels(), (count as u64).div_ceil(CHUNK) as i64);
        let partials = self.partials(channels.saturating_mul(chunks))?;
        let stride = |parts: &Parts| self.axis.map_or(0, |axis| parts.strides[axis] as i64 / size as i64);
        if let Some((layout, _)) = pieces.first() {
            let kernel = format!("fused_leaky_relu_bias_reduce_{}_{}", suffix(self.dtype()), merged.index_width());
            let blocks = channels as u64 * chunks as u64;
            let parameters = BiasReduceParameters {
                input: address(self.input),
                gradient: self.gradient.map_or(0, address),
                bias: self.bias.map_or(0, address),
                partials: partials.address(),
                alpha: self.alpha,
                scale: self.scale,
                bias_type: self.bias.map_or(0, |bias| i64::from(type_code(bias.dtype()))),
                channels,
                chunks,
                input_stride: stride(self.input),
                gradient_stride: stride(gradient),
                layout: *layout,
            };
            let launch = Launch { module: &MODULE, kernel: &kernel, blocks, shared_bytes: 0 };
            // SAFETY: the layout and the channel strides are the operands' own, whose views promise their memory; the
            // bias is dense with one element a channel; there is one partial sum a block.
            unsafe { self.context.launch(&launch, &parameters, self.stream) }?;
        }
        self.finish(
            db,
            FinishParameters {
                partials: partials.address(),
                count: chunks,
                inner: chunks.max(1),
                outer_stride: 0,
                stride: chunks,
                ..Default::default()
            },
        )
    }

    fn partials(&self, count: i64) -> Result<Memory> {
        Memory::new(self.context, (count as usize).saturating_mul(size_of::<f64>()), self.stream)
    }

    fn finish(&self, db: &Parts, parameters: FinishParameters) -> Result<()> {
        let output = dense_target(self.context, db, self.stream)?;
        let parameters = FinishParameters {
            output: address(output.as_ref().map_or(db, |output| output.parts())),
            output_type: i64::from(type_code(db.dtype())),
            factor: 1.0,
            ..parameters
        };
        let blocks = self.channels() as u64;
        let launch = Launch { module: &MODULE, kernel: "fused_leaky_relu_bias_finish", blocks, shared_bytes: 0 };
        // SAFETY: dB has one element a channel by the schema, contiguous here; the partial sums were just launched on
        // the same stream, with the layout that `parameters` describes.
        unsafe { self.context.launch(&launch, &parameters, self.stream) }?;
        match output {
            Some(output) => copy(self.context, db, output.parts(), self.stream),
            None => Ok(()),
        }
    }
}
