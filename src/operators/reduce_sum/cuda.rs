//! The kernels of a CUDA device.

use super::{BroadcastLikeArgs, ReduceSumArgs, axis_mask, source_dimensions};
use crate::core::error::Result;
use crate::core::operator::Call;
use crate::core::tensor::{Parts, TensorType};
use crate::devices::cuda::context::context_of;
use crate::devices::cuda::copy::copy;
use crate::devices::cuda::dense::{dense, dense_target};
use crate::devices::cuda::launch::{Launch, MAX_BLOCKS};
use crate::devices::cuda::layout::merge;
use crate::devices::cuda::map::{self, address, blocks};
use crate::devices::cuda::memory::Memory;
use crate::devices::cuda::modules::Module;
use crate::devices::cuda::parameters::{CHUNK, FinishParameters, Layout, parameters, suffix, type_code};

/// The kernels.
pub static MODULE: Module = Module { name: "reduce_sum", text: include_str!("../../../cuda/ptx/reduce_sum.ptx") };
/// Sums of fewer elements get a thread each; longer ones a block for each chunk.
const THREAD_ELEMENTS: i64 = 128;
/// Sums of so many neighbours or more get a warp instead of a thread.
const WARP_ELEMENTS: i64 = 32;
/// With so many outputs, sums of at most [`WARP_MOST`] neighbours get a warp instead of a block.
const WARP_OUTPUTS: i64 = 1 << 10;
/// See [`WARP_OUTPUTS`].
const WARP_MOST: i64 = 1 << 10;
/// Elements of each of [`COLUMNS`] neighbouring outputs that one block adds; as in `parameters/reduce_sum.cuh`.
const COLUMN_CHUNK: u64 = 512;
/// Outputs of a block where outputs lie side by side.
const COLUMNS: u64 = 32;
/// So many neighbouring outputs use whole sectors.
const COLUMNS_AT_LEAST: i64 = 8;
/// So many outputs fill a device with one thread each.
const MANY_OUTPUTS: i64 = 1 << 18;

parameters!(
    /// Sum over some axes. `kept` has operands output and input, `reduced` operand 1 alone: input.
    ReduceSumParameters, 840 {
        /// Address of the result.
        output: u64,
        /// Address of the operand.
        input: u64,
        /// By block `[outputs, chunks]`, by columns `[chunks, outputs]`.
        partials: u64,
        /// Chunks of one output.
        chunks: i64,
        /// Not by block: the factor.
        scale: f64,
        /// Axes that stay.
        kept: Layout,
        /// Axes that are added.
        reduced: Layout,
    }
);

/// The sum of X over axes, and then to the shape of Like.
pub fn reduce_sum(call: &Call<'_>) -> Result<()> {
    let Some(output) = call.outputs[0].as_deref() else { return Ok(()) };
    let (x, context) = (call.input(0), context_of(output.device)?);
    let ReduceSumArgs { axes, keepdims: keeps, scale } = ReduceSumArgs::from_args(call.args);
    let to_like = call.inputs.get(1).is_some_and(Option::is_some);
    let rank = x.shape().len();
    let summed = axis_mask(&axes, rank, to_like).expect("inference has checked the axes");
    // The output's dimensions are those that the axes leave, from the last.
    let left: Vec<usize> = (0..rank).filter(|&d| keeps || !summed[d]).collect();
    let ahead = left.len() - output.shape().len();
    let place = |d: usize| left.iter().position(|&l| l == d).and_then(|place| place.checked_sub(ahead));
    let kept_place = |d: usize| place(d).filter(|&o| !summed[d] && output.shape()[o] == x.shape()[d]);
    if (0..rank).all(|d| kept_place(d).is_some()) && output.shape() == x.shape() {
        return map::launch(context, (&MODULE, "scale"), output, [&**x], [scale, 0.0], call.stream);
    }
    // Reductions are computed into a row-major output, so that results are numbered by one index.
    let target = dense_target(context, output, call.stream)?;
    let result = target.as_ref().map_or(output, |target| target.parts());
    launch_reduction(call, result, x, &kept_place, scale)?;
    match &target {
        Some(target) => copy(context, output, target.parts(), call.stream),
        None => Ok(()),
    }
}

fn launch_reduction(
    call: &Call<'_>,
    output: &Parts,
    x: &Parts,
    kept_place: &dyn Fn(usize) -> Option<usize>,
    scale: f64,
) -> Result<()> {
    let (context, size) = (context_of(output.device)?, x.dtype().size());
    let (mut kept_shape, mut kept_steps, mut out_steps) = (vec![], vec![], vec![]);
    let (mut reduced_shape, mut reduced_steps) = (vec![], vec![]);
    for (d, (&length, &stride)) in x.shape().iter().zip(&x.strides).enumerate() {
        match kept_place(d) {
            Some(place) => {
                kept_shape.push(length);
                kept_steps.push(stride);
                out_steps.push(output.strides[place]);
            }
            None => {
                reduced_shape.push(length);
                reduced_steps.push(stride);
            }
        }
    }
    let kept = merge(&kept_shape, [(out_steps.as_slice(), size), (kept_steps.as_slice(), size)]);
    let reduced = merge(&reduced_shape, [(reduced_steps.as_slice(), size), (reduced_steps.as_slice(), size)]);
    let (kept_pieces, reduced_pieces) = (kept.pieces(), reduced.pieces());
    if kept_pieces.len() > 1 || reduced_pieces.len() > 1 {
        // More dimensions than a kernel takes: a row-major copy merges further.
        let copied = dense(context, x, call.stream)?;
        return launch_reduction(call, output, copied.parts(), kept_place, scale);
    }
    let Some((kept_layout, _)) = kept_pieces.first() else { return Ok(()) };
    let outputs = kept.count();
    let length = reduced.count();
    let width = kept.index_width().max(reduced.index_width()).max(if outputs.saturating_mul(length) < 1 << 30 {
        32
    } else {
        64
    });
    // Neighbours are read by the lanes of a warp: summands of one output, or outputs.
    let summed = reduced_pieces.first().map(|(layout, _)| *layout).unwrap_or_default();
    let side_by_side = summed.rank == 1 && summed.strides[1][0] == 1;
    let innermost = (kept_layout.rank as usize).saturating_sub(1);
    let in_columns = !side_by_side
        && kept_layout.rank > 0
        && kept_layout.strides[1][innermost] == 1
        && kept_layout.sizes[innermost] >= COLUMNS_AT_LEAST;
    let chunks = (length as u64).div_ceil(if in_columns { COLUMN_CHUNK } else { CHUNK }) as i64;
    let groups = if in_columns { (outputs as u64).div_ceil(COLUMNS) as i64 } else { outputs };
    let few_neighbours = side_by_side && length <= WARP_MOST && outputs >= WARP_OUTPUTS;
    let by_thread = length <= THREAD_ELEMENTS
        || outputs >= MANY_OUTPUTS
        || few_neighbours
        || groups.saturating_mul(chunks) > MAX_BLOCKS as i64;
    let mut parameters = ReduceSumParameters {
        output: address(output),
        input: address(x),
        chunks,
        scale,
        kept: *kept_layout,
        reduced: summed,
        ..Default::default()
    };
    // At least as many neighbours as lanes, so that what counts elements in 32 bits counts lanes too.
    let by_warp = by_thread && side_by_side && length >= WARP_ELEMENTS && outputs < MAX_BLOCKS as i64;
    let form = match by_thread {
        true if by_warp => "by_warp",
        true => "by_thread",
        false if in_columns => "by_columns",
        false => "by_block",
    };
    let kernel = format!("reduce_sum_{form}_{}_{width}", suffix(x.dtype()));
    if by_thread {
        let threads = if by_warp { outputs * WARP_ELEMENTS } else { outputs };
        let launch = Launch { module: &MODULE, kernel: &kernel, blocks: blocks(threads), shared_bytes: 0 };
        // SAFETY: every offset of the two layouts is one of the views' own, which promise their memory.
        return unsafe { context.launch(&launch, &parameters, call.stream) };
    }
    let count = outputs * chunks;
    let partials = Memory::new(context, count as usize * size_of::<f64>(), call.stream)?;
    parameters.partials = partials.address();
    let launch = Launch { module: &MODULE, kernel: &kernel, blocks: (groups * chunks) as u64, shared_bytes: 0 };
    // SAFETY: as above; there is one partial sum for each output and chunk.
    unsafe { context.launch(&launch, &parameters, call.stream) }?;
    let finish = FinishParameters {
        output: address(output),
        partials: partials.address(),
        count: chunks,
        inner: chunks.max(1),
        outer_stride: 0,
        // By columns: all outputs of a chunk.
        stride: if in_columns { outputs } else { chunks },
        factor: scale,
        output_type: i64::from(type_code(output.dtype())),
    };
    let (kernel, blocks) = match in_columns {
        true => ("reduce_sum_finish_columns", groups as u64),
        false => ("reduce_sum_finish", outputs as u64),
    };
    let launch = Launch { module: &MODULE, kernel, blocks, shared_bytes: 0 };
    // SAFETY: the output is row-major, so that results are numbered as the kept layout numbers them; the sums were just
    // launched on the same stream.
    unsafe { context.launch(&launch, &finish, call.stream) }
}

/// X repeated to the shape of Like.
pub fn broadcast_like(call: &Call<'_>) -> Result<()> {
    let Some(output) = call.outputs[0].as_deref() else { return Ok(()) };
    let x = call.input(0);
    let BroadcastLikeArgs { axes, scale } = BroadcastLikeArgs::from_args(call.args);
    let sources = source_dimensions(x.shape(), output.shape(), &axes);
    let sources = sources.expect("inference has matched the shapes");
    let stride = |d: usize| sources[d].filter(|&s| x.shape()[s] != 1).map_or(0, |s| x.strides[s]);
    let repeated = Parts {
        pointer: x.pointer,
        kind: TensorType::new(output.shape().clone(), x.dtype()),
        strides: (0..output.shape().len()).map(stride).collect(),
        device: x.device,
    };
    map::launch(context_of(output.device)?, (&MODULE, "scale"), output, [&repeated], [scale, 0.0], call.stream)
}
