//! FilteredAct and its gradient, one step after the other: the sums of a filter, an activation, the sums of another.
//! Every step adds its own error to what the steps before have left.

use std::f64::consts::SQRT_2;

use firelu::DType;

use super::activations::Curve;
use super::reduce::Sums;
use super::uncertain::Uncertain;
use super::upfirdn2d::{Plan, Way};
use super::waves::{Total, Wave};
use super::{Bound, Expected, computed};
use crate::arguments::{Arguments, axis_of};
use crate::rounding::{largest, spacing};
use crate::signatures::{Array, Refused, Request};

type Outputs = Result<Vec<Expected>, Refused>;

const NAMES: [&str; 10] = ["lrelu", "linear", "relu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish", "snake"];
/// Rows of the middle grid are kept as so many phases at most.
const MOST_PHASES: i64 = 4096;

/// The places of the inputs behind X and the kernels.
const BIAS: usize = 3;
const ALPHA: usize = 4;
const BETA: usize = 5;
const DY: usize = 6;

/// Numbers on a grid, in the type computed in.
struct Grid {
    shape: Vec<usize>,
    dtype: DType,
    samples: Vec<Uncertain>,
}

impl Grid {
    fn exact(array: &Array) -> Self {
        let exact = |&value: &f64| Uncertain { value, error: 0.0 };
        Grid {
            shape: array.shape.clone(),
            dtype: array.dtype.compute(),
            samples: array.values.iter().map(exact).collect(),
        }
    }

    /// What a filter's sums are once they are rounded to their type.
    fn rounded(sums: Expected) -> Self {
        let one = |(&value, bound): (&f64, &Bound)| {
            let error = bound.error + 0.5 * spacing(sums.dtype, (value.abs() + bound.error).min(largest(sums.dtype)));
            let lost = bound.overflow || bound.nan || (value.is_finite() && value.abs() + error >= largest(sums.dtype));
            Uncertain { value, error: if lost { f64::INFINITY } else { error } }.or_anything()
        };
        let samples = sums.values.iter().zip(&sums.bounds).map(one).collect();
        Grid { shape: sums.shape, dtype: sums.dtype, samples }
    }

    fn array(&self, of: impl Fn(&Uncertain) -> f64) -> Array {
        Array { shape: self.shape.clone(), dtype: self.dtype, values: self.samples.iter().map(of).collect() }
    }

    /// The sums of a filter, with what the samples' errors make of them.
    fn filter(&self, plan: &Plan, way: Way, k: &Array, shape: &[usize], dtype: DType) -> Expected {
        let result = || Array::new(shape, dtype);
        let mut sums = plan.filter(way, &self.array(|sample| sample.value), k, result());
        let finite = |error: f64| if error.is_finite() { error } else { 0.0 };
        let magnitudes = Array { values: k.values.iter().map(|tap| tap.abs()).collect(), ..k.clone() };
        let errors = plan.filter(way, &self.array(|sample| finite(sample.error)), &magnitudes, result());
        let ones = Array { values: vec![1.0; k.values.len()], ..k.clone() };
        let unknown = plan.without_gain().filter(
            way,
            &self.array(|sample| f64::from(!sample.error.is_finite())),
            &ones,
            result(),
        );
        // Sums are over all taps, with zeros where nothing is: one that is not finite may reach every output.
        let reaches_all = plan.has_infinite_taps(self.dtype, k);
        for (place, (value, bound)) in sums.values.iter_mut().zip(&mut sums.bounds).enumerate() {
            bound.error += errors.values[place].abs();
            // Samples within their errors may add up to more than the largest number, of either sign.
            let passes = errors.bounds[place].overflow;
            if reaches_all || passes || unknown.values[place] > 0.0 || !bound.error.is_finite() {
                *value = 0.0;
                *bound = Bound { error: f64::INFINITY, overflow: true, nan: true };
            }
        }
        sums
    }
}

/// The shape of the output, for a call whose gradient is asked for.
pub fn output_shape(request: &Request) -> Result<Vec<usize>, Refused> {
    Ok(Call::read(request)?.output)
}

/// What stands between the filters.
enum Function {
    Curve(Curve),
    /// One for each channel.
    Waves(Vec<Wave>),
}

impl Function {
    fn value(&self, channel: usize, u: Uncertain, dtype: DType) -> Uncertain {
        match self {
            Function::Curve(curve) => curve.uncertain_value(u, dtype),
            Function::Waves(waves) => waves[channel].value(u, dtype),
        }
    }

    /// A stream times the derivative.
    fn times_derivative(&self, channel: usize, stream: Uncertain, u: Uncertain, dtype: DType) -> Uncertain {
        match self {
            Function::Curve(curve) => curve.uncertain_slope(stream, u, dtype),
            Function::Waves(waves) => waves[channel].times_derivative(stream, u, dtype),
        }
    }
}

/// A call, read and checked.
struct Call<'a> {
    x: &'a Array,
    kernels: [&'a Array; 2],
    up: Plan,
    down: Plan,
    function: Function,
    /// The axis of the channels, where anything has one number for each of them.
    axis: Option<usize>,
    middle: Vec<usize>,
    output: Vec<usize>,
    logscale: bool,
}

impl<'a> Call<'a> {
    fn read(request: &'a Request) -> Result<Self, Refused> {
        let mut args = Arguments::new(request);
        let act = NAMES[args.choice("act", &NAMES.each_ref().map(std::slice::from_ref))?];
        let (alpha, gain) = (args.float("alpha", 0.2)?, args.optional_float("gain", f64::MIN)?);
        let default = if matches!(act, "relu" | "lrelu" | "swish") { SQRT_2 } else { 1.0 };
        let clamp = args.optional_float("clamp", 0.0)?;
        let (flip, up_gain) = (args.bool("flip_kernel")?, args.float("up_gain", 1.0)?);
        let up = Plan::read_side(&mut args, (Some("up"), None), ("pad", "border"), (flip, up_gain))?;
        let down = Plan::read_side(&mut args, (None, Some("down")), ("down_pad", "down_border"), (flip, 1.0))?;
        let (logscale, axis) = (args.bool("logscale")?, args.int("axis", 1, i64::MIN..=i64::MAX)?);
        args.finish()?;
        let given = |place: usize| request.input(place).ok_or(Refused);
        let (x, kernels) = (given(0)?, [given(1)?, given(2)?]);
        let middle = up.output(&x.shape, &kernels[0].shape)?;
        let output = down.output(&middle, &kernels[1].shape)?;
        if Plan::phases(&up, &down) > MOST_PHASES {
            return Err(Refused);
        }
        let axis = axis_of(axis, x.shape.len()).filter(|axis| axis + 2 < x.shape.len());
        for input in [BIAS, ALPHA, BETA].into_iter().filter_map(|place| request.input(place)) {
            if input.shape != [x.shape[axis.ok_or(Refused)?]] {
                return Err(Refused);
            }
        }
        let function = match (act, request.input(ALPHA), request.input(BETA)) {
            ("snake", Some(alpha), beta) => {
                let wave = |place: usize| {
                    Wave::new(alpha.values[place], beta.map(|beta| beta.values[place]), logscale, x.dtype.compute())
                };
                Function::Waves((0..alpha.elements()).map(wave).collect())
            }
            ("snake", None, _) | (_, Some(_), _) | (_, _, Some(_)) => return Err(Refused),
            _ => Function::Curve(Curve { act, alpha, gain: gain.unwrap_or(default), clamp }),
        };
        Ok(Call { x, kernels, up, down, function, axis, middle, output, logscale })
    }

    /// The channel of an element of a grid, which has X's leading dimensions.
    fn channel(&self, shape: &[usize], place: usize) -> usize {
        self.axis.map_or(0, |axis| place / shape[axis + 1..].iter().product::<usize>() % shape[axis])
    }

    /// The argument of the activation.
    fn argument(&self, bias: Option<&Array>) -> Grid {
        let mut x = self.x.clone();
        if let Some(bias) = bias {
            for (place, value) in x.values.iter_mut().enumerate() {
                *value = computed(x.dtype, *value + bias.values[self.channel(&x.shape, place)]);
            }
        }
        let compute = self.x.dtype.compute();
        Grid::rounded(Grid::exact(&x).filter(&self.up, Way::Forward, self.kernels[0], &self.middle, compute))
    }
}

/// The output of FilteredAct.
pub fn forward(request: &Request) -> Outputs {
    let call = Call::read(request)?;
    let mut grid = call.argument(request.input(BIAS));
    for (place, sample) in grid.samples.iter_mut().enumerate() {
        *sample = call.function.value(call.channel(&grid.shape, place), *sample, grid.dtype).or_anything();
    }
    Ok(vec![grid.filter(&call.down, Way::Forward, call.kernels[1], &call.output, call.x.dtype)])
}

/// The gradients with respect to X, B and the numbers of a snake.
pub fn gradient(request: &Request) -> Outputs {
    let call = Call::read(request)?;
    let dy = request.input(DY).ok_or(Refused)?;
    if dy.shape != call.output {
        return Err(Refused);
    }
    let (x, compute) = (call.x, call.x.dtype.compute());
    let argument = call.argument(request.input(BIAS));
    let back = Grid::exact(dy).filter(&call.down, Way::Back, call.kernels[1], &call.middle, compute);
    let stream = Grid::rounded(back);
    let mut middle = Grid { shape: call.middle.clone(), dtype: compute, samples: Vec::new() };
    for (place, (&stream, &u)) in stream.samples.iter().zip(&argument.samples).enumerate() {
        let channel = call.channel(&middle.shape, place);
        middle.samples.push(call.function.times_derivative(channel, stream, u, compute).or_anything());
    }
    let dx = middle.filter(&call.up, Way::Back, call.kernels[0], &x.shape, x.dtype);
    let none = || Expected { shape: vec![0], dtype: x.dtype, values: Vec::new(), bounds: Vec::new() };
    let db = request.input(BIAS).map_or_else(none, |bias| call.sum_of_channels(&dx, bias));
    let mut outputs = vec![dx, db, none(), none()];
    if let Function::Waves(waves) = &call.function {
        let mut totals = vec![[Total::default(); 2]; waves.len()];
        for (place, (&stream, &u)) in stream.samples.iter().zip(&argument.samples).enumerate() {
            let channel = call.channel(&argument.shape, place);
            let length = argument.shape[argument.shape.len() - 1];
            let parts = waves[channel].by_numbers(stream, u, (compute, length));
            for (total, part) in totals[channel].iter_mut().zip(parts) {
                total.add(part);
            }
        }
        for (which, place) in [ALPHA, BETA].into_iter().enumerate() {
            let Some(numbers) = request.input(place) else { continue };
            let both = which == 0 && request.input(BETA).is_none();
            outputs[2 + which] = Wave::gradients(numbers, &totals, (which, both), (call.logscale, compute));
        }
    }
    Ok(outputs)
}

impl Call<'_> {
    /// dB: what dX is once it is written, summed over all but the channels.
    fn sum_of_channels(&self, dx: &Expected, bias: &Array) -> Expected {
        let (channels, written) = (bias.elements(), Grid::rounded(dx.clone()));
        let (mut sums, mut slack) = (Sums::new(channels, dx.dtype), vec![0.0; channels]);
        for (place, sample) in written.samples.iter().enumerate() {
            let channel = self.channel(&written.shape, place);
            sums.add(channel, sample.value);
            slack[channel] += sample.error;
        }
        let terms = written.samples.len() / channels.max(1);
        let mut expected = sums.into_expected(&[channels], bias.dtype, 1.0, terms);
        for ((value, bound), slack) in expected.values.iter_mut().zip(&mut expected.bounds).zip(slack) {
            bound.error += slack;
            if !bound.error.is_finite() {
                *value = 0.0;
                *bound = Bound { error: f64::INFINITY, overflow: true, nan: true };
            }
        }
        expected
    }
}
