//! The kernels of a CUDA device: one launch where a tile fits into shared memory, else the operators that it is made of.
//! `route` decides, and nobody else; `firelu ops FilteredAct --explain` prints its decision.

mod parameters;
mod parts;
mod plan;

use super::params::{FilteredActArgs, Function};
use super::{ALPHA, B, BETA, DY};
use crate::core::error::Result;
use crate::core::operator::Call;
use crate::core::tensor::{Parts, TensorType};
use crate::devices::cuda::context::{Context, context_of};
use crate::devices::cuda::copy::copy;
use crate::devices::cuda::dense::{Dense, dense, dense_target};
use crate::devices::cuda::launch::Launch;
use crate::devices::cuda::layout::{Planes, merge};
use crate::devices::cuda::map::{address, moved};
use crate::devices::cuda::memory::Memory;
use crate::devices::cuda::modules::Module;
use crate::devices::cuda::parameters::{suffix, type_code};
use crate::operators::snake::cuda::WaveParameters;
use firelu_filters::axis::Geometry;
use firelu_filters::border::Border;
use parameters::{FilterParameters, FilteredActFinishParameters, FilteredActParameters, SNAKE};
use plan::{Plan, Problem, Refusal};

/// The kernels.
pub static MODULE: Module =
    Module { name: "filtered_act", text: include_str!("../../../../cuda/ptx/filtered_act.ptx") };

/// Sums of a gradient: dX's, and those of the derivatives by snake's numbers.
const SUMS: usize = 3;

fn given<'a>(call: &'a Call<'_>, place: usize) -> Option<&'a Parts> {
    call.inputs.get(place).and_then(Option::as_deref)
}

/// Batches and channels, and where the tensors and the number of the channel begin.
type Pieces = Vec<(Planes<4>, [i64; 4])>;

/// What a call is, and the tiles that serve it.
struct Route {
    problem: Problem,
    plan: std::result::Result<Plan, Refusal>,
    pieces: Pieces,
}

/// How a call is computed. `dy`: for the gradient.
fn route(call: &Call<'_>, output: &Parts, dy: Option<&Parts>, with_sums: bool) -> Result<Route> {
    let args = FilteredActArgs::from_args(call.args);
    let x = call.input(0);
    let [up, down] = args.geometries("FilteredAct", x.shape(), [call.input(1).shape(), call.input(2).shape()])?;
    let rank = x.shape().len();
    let mut along_channels = vec![0isize; rank - 2];
    let numbers = [B, ALPHA, BETA].into_iter().filter(|&place| given(call, place).is_some()).count();
    let axis = args.channel_axis(rank).filter(|_| numbers > 0);
    if let Some(axis) = axis {
        along_channels[axis] = 1;
    }
    let lead = |parts: &'_ Parts| parts.strides[..rank - 2].to_vec();
    let second = dy.unwrap_or(x);
    let (of_output, of_x, of_second) = (lead(output), lead(x), lead(second));
    let size = x.dtype().size();
    let shapes = [(&of_output[..], size), (&of_x[..], size), (&of_second[..], size), (&along_channels[..], 1)];
    let pieces = merge(&x.shape()[..rank - 2], shapes).planes();
    let planes = pieces.first().map_or(0, |(planes, _)| planes.batches * planes.channels);
    let dtype = x.dtype();
    let problem = match dy {
        None => {
            Problem { ups: vec![up], down, first_border: args.border, border: args.down_border, planes, numbers, dtype }
        }
        Some(_) => {
            let (ups, down) = (vec![up, down.transposed()], up.transposed());
            Problem { ups, down, first_border: Border::Constant, border: Border::Constant, planes, numbers, dtype }
        }
    };
    let bends = |geometry: &Geometry, border: Border| border != Border::Constant && geometry.reaches_out();
    let channels = axis.map_or(1, |axis| x.shape()[axis] as i64);
    // Sums of a channel are found where planes are counted by batches and channels.
    let countable =
        pieces.len() == 1 && (channels == 1 || pieces[0].0.strides[3] == [0, 1] && pieces[0].0.channels == channels);
    let narrow = |parts: &Parts| {
        let reach = |d: usize| (parts.strides[d].unsigned_abs() / size).saturating_mul(parts.shape()[d]);
        reach(rank - 1).saturating_add(reach(rank - 2)) < 1 << 30
    };
    let plan = if dy.is_some() && (bends(&up, args.border) || bends(&down, args.down_border)) {
        Err(Refusal::Adjoint)
    } else if ![output, x, second].into_iter().all(narrow) || with_sums && !countable {
        Err(Refusal::Wide)
    } else {
        Plan::new(&problem)
    };
    Ok(Route { problem, plan, pieces })
}

/// Says how a device would compute Y.
pub fn explain(call: &Call<'_>) -> Result<String> {
    let y = call.outputs[0].as_deref().expect("the output that is explained");
    Ok(match route(call, y, None, false)?.plan {
        Ok(plan) => format!("on a CUDA device one launch: {plan}"),
        Err(refusal) => format!("on a CUDA device by parts, UpFirDn2d, activation, UpFirDn2d: {refusal}"),
    })
}

/// Y of X, the filters and the numbers of each channel.
pub fn forward(call: &Call<'_>) -> Result<()> {
    let Some(y) = call.outputs[0].as_deref().filter(|y| !y.shape().contains(&0)) else { return Ok(()) };
    let route = route(call, y, None, false)?;
    match &route.plan {
        Ok(plan) => Job::new(call)?.launch(&route, plan, y, None, 0),
        Err(_) => parts::forward(call, y),
    }
}

/// dX, dB, dAlpha and dBeta of X and dY.
pub fn gradient(call: &Call<'_>) -> Result<()> {
    let output = |place: usize, input: usize| {
        call.outputs.get(place).and_then(Option::as_deref).filter(|_| place == 0 || given(call, input).is_some())
    };
    let (x, dy) = (call.input(0), call.input(DY));
    let sums = [output(1, B), output(2, ALPHA), output(3, BETA)];
    let with_sums = sums.iter().any(Option::is_some);
    if output(0, 0).is_none() && !with_sums {
        return Ok(());
    }
    let context = context_of(x.device)?;
    // Without a place of its own dX is computed all the same: the sums come with it.
    let kind = TensorType::new(x.shape().clone(), x.dtype());
    let spare = output(0, 0).is_none().then(|| Memory::new(context, kind.bytes(), call.stream)).transpose()?;
    let strides = x.shape().row_major_strides(x.dtype());
    let spared =
        spare.as_ref().map(|memory| Parts { pointer: memory.address() as *mut u8, kind, strides, device: x.device });
    let Some(dx) = output(0, 0).or(spared.as_ref()) else { unreachable!("one of them is there") };
    let route = route(call, dx, Some(dy), with_sums)?;
    let plan = match &route.plan {
        Ok(plan) if !x.shape().contains(&0) => plan,
        _ => return parts::gradient(call, dx, sums),
    };
    let job = Job::new(call)?;
    let blocks = plan.blocks() as usize;
    let partials =
        with_sums.then(|| Memory::new(context, SUMS * blocks * size_of::<f64>(), call.stream)).transpose()?;
    job.launch(&route, plan, dx, Some(dy), partials.as_ref().map_or(0, Memory::address))?;
    let Some(partials) = partials else { return Ok(()) };
    job.finish(&route, blocks, &partials, sums)
}

/// One call: the operands that both directions have.
struct Job<'a> {
    call: &'a Call<'a>,
    args: FilteredActArgs,
    context: &'static Context,
    /// B, SnakeAlpha and SnakeBeta, one number after the other in memory.
    numbers: [Option<Dense>; 3],
}

impl<'a> Job<'a> {
    fn new(call: &'a Call<'_>) -> Result<Self> {
        let context = context_of(call.input(0).device)?;
        let read = |place: usize| given(call, place).map(|numbers| dense(context, numbers, call.stream)).transpose();
        let numbers = [read(B)?, read(ALPHA)?, read(BETA)?];
        Ok(Job { call, args: FilteredActArgs::from_args(call.args), context, numbers })
    }

    /// The address and the type of a number of each channel.
    fn number(&self, which: usize) -> (u64, i64) {
        let parts = self.numbers[which].as_ref().map(Dense::parts);
        parts.map_or((0, 0), |parts| (address(parts), i64::from(type_code(parts.dtype()))))
    }

    fn wave(&self) -> WaveParameters {
        let ((alpha, alpha_type), (beta, beta_type)) = (self.number(1), self.number(2));
        WaveParameters { alpha, beta, alpha_type, beta_type, logscale: i64::from(self.args.logscale) }
    }

    /// The taps of a filter; reversed for the adjoint.
    fn filter(&self, place: usize, adjoint: bool) -> FilterParameters {
        let kernel: &Parts = self.call.input(place);
        let of = if place == 1 { self.args.up_filter() } else { self.args.down_filter() };
        let size = kernel.dtype().size() as i64;
        FilterParameters {
            taps: address(kernel),
            tap_stride_y: kernel.strides[0] as i64 / size,
            tap_stride_x: kernel.strides[1] as i64 / size,
            gain: of.gain,
            tap_type: type_code(kernel.dtype()),
            // A convolution lets the last tap meet the first sample.
            flip: i32::from(of.flip_kernel == adjoint),
            border: if adjoint { 0 } else { of.border as i32 },
            ..Default::default()
        }
    }

    fn launch(&self, route: &Route, plan: &Plan, output: &Parts, dy: Option<&Parts>, partials: u64) -> Result<()> {
        let x: &Parts = self.call.input(0);
        let (rank, size) = (x.shape().len(), x.dtype().size() as i64);
        let strides = |planes: &Planes<4>, which: usize, parts: &Parts| {
            let element = |d: usize| parts.strides[d] as i64 / size;
            [planes.strides[which][0], planes.strides[which][1], element(rank - 2), element(rank - 1)]
        };
        let (bias, bias_type) = self.number(0);
        let (activation, gain) = match self.args.act {
            Function::Of(act) => (act as i64, self.args.gain.unwrap_or(act.default_gain())),
            Function::Snake => (SNAKE, 1.0),
        };
        let name = if dy.is_some() { "filtered_act_gradient" } else { "filtered_act" };
        let kernel = format!("{name}_{}", suffix(x.dtype()));
        for (planes, offsets) in &route.pieces {
            let mut p = FilteredActParameters {
                output: moved(address(output), offsets[0], output),
                output_strides: strides(planes, 0, output),
                channels: planes.channels,
                channel_strides: planes.strides[3],
                first_channel: offsets[3],
                bias,
                bias_type,
                partials,
                alpha: self.args.alpha,
                gain,
                clamp: self.args.clamp.unwrap_or(f64::INFINITY),
                activation,
                wave: self.wave(),
                ..Default::default()
            };
            p.streams[0].input = moved(address(x), offsets[1], x);
            p.streams[0].strides = strides(planes, 1, x);
            p.streams[0].filter = self.filter(1, false);
            p.down = self.filter(if dy.is_some() { 1 } else { 2 }, dy.is_some());
            if let Some(dy) = dy {
                p.streams[1].input = moved(address(dy), offsets[2], dy);
                p.streams[1].strides = strides(planes, 2, dy);
                p.streams[1].filter = self.filter(2, true);
            }
            plan.fill(&route.problem, &mut p);
            let (blocks, shared_bytes) = (plan.blocks() as u64, plan.shared_bytes() as u32);
            let launch = Launch { module: &MODULE, kernel: &kernel, blocks, shared_bytes };
            // SAFETY: strides are those of the views, which promise their memory, and sizes those that the schema checked
            // their shapes by; leading dimensions agree; there is a number for each channel, and a place for each partial sum.
            unsafe { self.context.launch(&launch, &p, self.call.stream) }?;
        }
        Ok(())
    }

    /// From the sums of blocks to the gradients of the numbers of each channel.
    fn finish(&self, route: &Route, blocks: usize, partials: &Memory, outputs: [Option<&Parts>; SUMS]) -> Result<()> {
        let Some((planes, _)) = route.pieces.first() else { return Ok(()) };
        let mut targets = [None, None, None];
        for (target, output) in targets.iter_mut().zip(outputs) {
            *target = output.map(|output| dense_target(self.context, output, self.call.stream)).transpose()?.flatten();
        }
        let place = |which: usize| {
            let output = outputs[which]?;
            Some(address(targets[which].as_ref().map_or(output, Dense::parts)))
        };
        let channels = outputs.iter().flatten().next().map_or(1, |output| output.shape()[0]);
        let tiles = (blocks as i64) / (planes.batches * planes.channels).max(1);
        // All blocks belong to a single channel; else those of a plane lie together, and a channel's planes a batch apart.
        let inner = if channels == 1 { blocks as i64 } else { tiles };
        let p = FilteredActFinishParameters {
            bias_gradient: place(0).unwrap_or(0),
            alpha_gradient: place(1).unwrap_or(0),
            beta_gradient: place(2).unwrap_or(0),
            bias_type: self.number(0).1,
            partials: partials.address(),
            count: if channels == 1 { blocks as i64 } else { planes.batches * tiles },
            inner: inner.max(1),
            outer_stride: planes.channels * tiles,
            stride: tiles,
            blocks: blocks as i64,
            wave: self.wave(),
        };
        let kernel = "filtered_act_finish";
        let launch = Launch { module: &MODULE, kernel, blocks: channels as u64, shared_bytes: 0 };
        // SAFETY: the results are row-major, with one element a channel of the numbers' types; the sums were just launched
        // on the same stream.
        unsafe { self.context.launch(&launch, &p, self.call.stream) }?;
        for (target, output) in targets.iter().zip(outputs) {
            if let (Some(target), Some(output)) = (target, output) {
                copy(self.context, output, target.parts(), self.call.stream)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::parameters::{BORDER_TOGETHER, MOST_TAPS, SNAKE, TOGETHER};
    use crate::devices::cuda::parameters::assert_constants;

    #[test]
    fn the_constants_are_those_of_the_header() {
        let header = include_str!("../../../../cuda/include/parameters/filtered_act.cuh");
        let ours = [
            ("MOST_TAPS", MOST_TAPS as u64),
            ("SNAKE", SNAKE as u64),
            ("TOGETHER", TOGETHER as u64),
            ("BORDER_TOGETHER", BORDER_TOGETHER as u64),
        ];
        assert_constants(header, &ours);
    }
}
