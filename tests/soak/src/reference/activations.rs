//! Activations: float64 formulas, and a bound for what float32 and float64 polynomials make of them.

use firelu::DType;

use super::reduce::{Sums, elements_of};
use super::uncertain::{Uncertain, product};
use super::{Bound, Expected, computed};
use crate::arguments::{Arguments, axis_of};
use crate::rounding::{largest, spacing, unit};
use crate::signatures::{Array, Refused, Request};

type Outputs = Result<Vec<Expected>, Refused>;

const NAMES: [&str; 9] = ["linear", "relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish"];
/// How many units of the last place a value or a derivative may be off, of the terms that it is the sum of.
const UNITS: f64 = 16.0;

/// An activation with its numbers.
pub struct Curve {
    pub act: &'static str,
    pub alpha: f64,
    pub gain: f64,
    pub clamp: Option<f64>,
}

struct Call {
    curve: Curve,
    axis: i64,
}

/// A value, and the sum of the magnitudes that it was made of.
#[derive(Clone, Copy)]
struct Term(f64, f64);

impl Call {
    fn read(args: &mut Arguments<'_>) -> Result<Self, Refused> {
        let act = NAMES[args.choice("act", &NAMES.each_ref().map(std::slice::from_ref))?];
        let alpha = args.float("alpha", 0.2)?;
        let with_gain = matches!(act, "relu" | "lrelu" | "swish");
        let default = if with_gain { std::f64::consts::SQRT_2 } else { 1.0 };
        let gain = args.optional_float("gain", f64::MIN)?.unwrap_or(default);
        let clamp = args.optional_float("clamp", 0.0)?;
        let axis = args.int("axis", 1, i64::MIN..=i64::MAX)?;
        Ok(Call { curve: Curve { act, alpha, gain, clamp }, axis })
    }

    /// Each element of X with its bias.
    fn biased(&self, x: &Array, bias: Option<&Array>) -> Result<Vec<f64>, Refused> {
        let Some(bias) = bias else { return Ok(x.values.clone()) };
        let axis = axis_of(self.axis, x.shape.len()).ok_or(Refused)?;
        if bias.shape != [x.shape[axis]] {
            return Err(Refused);
        }
        let sum = |i: usize| computed(x.dtype, x.values[i] + bias.values[channel(x, axis, i)]);
        Ok((0..x.elements()).map(sum).collect())
    }
}

impl Curve {
    /// The activation itself.
    fn before_gain(&self, t: f64) -> f64 {
        match self.act {
            "linear" => t,
            "relu" => {
                if t < 0.0 {
                    0.0
                } else {
                    t
                }
            }
            "lrelu" => {
                if t > 0.0 {
                    t
                } else {
                    self.alpha * t
                }
            }
            "tanh" => t.tanh(),
            "sigmoid" => logistic(t),
            "elu" => {
                if t < 0.0 {
                    t.exp_m1()
                } else {
                    t
                }
            }
            "selu" => {
                if t < 0.0 {
                    SELU * SELU_A * t.exp_m1()
                } else {
                    SELU * t
                }
            }
            "softplus" => t.max(0.0) + (-t.abs()).exp().ln_1p() + 0.0 * if t.is_nan() { t } else { 0.0 },
            _ => {
                if t == f64::NEG_INFINITY {
                    -0.0
                } else if t < -600.0 {
                    // The exponential alone would be among the smallest numbers, and t would multiply what it has lost.
                    t * (t + 40.0).exp() * (-40f64).exp()
                } else {
                    t * logistic(t)
                }
            }
        }
    }

    fn value(&self, t: f64) -> Term {
        let value = self.gain * self.before_gain(t);
        Term(value, value.abs())
    }

    /// The bound of a value; also what the gain makes small may have passed the largest number before.
    fn bound_of(&self, t: f64, magnitude: f64, dtype: DType) -> Bound {
        let of = bound(dtype, magnitude);
        let passes = t.is_finite() && self.before_gain(t).abs() >= largest(dtype.compute()) / 2.0;
        Bound { overflow: of.overflow || passes, ..of }
    }

    fn derivative(&self, order: i64, t: f64) -> Term {
        let (s, slope) = (logistic(t), logistic(t) * logistic(-t));
        let finite = t.clamp(-1000.0, 1000.0);
        let terms: Vec<f64> = match (self.act, order) {
            ("linear", 1) => vec![1.0],
            ("relu", 1) => vec![f64::from(t > 0.0)],
            ("lrelu", 1) => vec![if t > 0.0 { 1.0 } else { self.alpha }],
            ("linear" | "relu" | "lrelu", _) => vec![0.0],
            ("tanh", _) => {
                let (y, slope) = (t.tanh(), 4.0 * logistic(2.0 * t) * logistic(-2.0 * t));
                match order {
                    1 => vec![slope],
                    2 => vec![-2.0 * y * slope],
                    _ => vec![6.0 * y * y * slope, -2.0 * slope],
                }
            }
            ("elu", _) => vec![if t < 0.0 { t.exp() } else { f64::from(order == 1) }],
            ("selu", _) => vec![SELU * if t < 0.0 { SELU_A * t.exp() } else { f64::from(order == 1) }],
            ("softplus", 1) => vec![s],
            ("sigmoid", 1) | ("softplus", 2) => vec![slope],
            ("sigmoid", 2) | ("softplus", _) => vec![slope, -2.0 * s * slope],
            ("sigmoid", _) => vec![slope, -6.0 * s * slope, 6.0 * s * s * slope],
            (_, 1) => vec![s, finite * slope],
            (_, 2) => vec![finite * slope, -2.0 * finite * s * slope, 2.0 * slope],
            _ => vec![
                finite * slope,
                -6.0 * finite * s * slope,
                6.0 * finite * s * s * slope,
                3.0 * slope,
                -6.0 * s * slope,
            ],
        };
        let of_nan =
            if t.is_nan() && !matches!(self.act, "linear" | "relu" | "lrelu" | "elu" | "selu") { t } else { 0.0 };
        let sum: f64 = terms.iter().sum::<f64>() + of_nan;
        Term(self.gain * sum, self.gain.abs() * terms.iter().map(|term| term.abs()).sum::<f64>())
    }
}

/// What is known of an activation where its argument is not known to the last place.
impl Curve {
    /// How much steeper than a line of slope one the activation is at most.
    fn steepest(&self) -> f64 {
        let slope = match self.act {
            "lrelu" => self.alpha.abs().max(1.0),
            "selu" => SELU * SELU_A,
            "swish" => 1.1,
            _ => 1.0,
        };
        slope * self.gain.abs()
    }

    /// How fast the derivative changes at most, but where it jumps.
    fn bend(&self) -> f64 {
        let bend = match self.act {
            "linear" | "relu" | "lrelu" => 0.0,
            "selu" => SELU * SELU_A,
            _ => 1.0,
        };
        bend * self.gain.abs()
    }

    /// How far the derivative jumps at zero.
    fn jump(&self) -> f64 {
        let jump = match self.act {
            "relu" => 1.0,
            "lrelu" => (1.0 - self.alpha).abs(),
            "selu" => SELU * (SELU_A - 1.0),
            _ => 0.0,
        };
        jump * self.gain.abs()
    }

    /// The activation before it is clamped.
    fn uncertain(&self, u: Uncertain, dtype: DType) -> Uncertain {
        let value = self.value(u.value);
        let own = self.bound_of(u.value, value.1, dtype);
        let error = self.steepest() * u.error + own.error;
        Uncertain { value: value.0, error: if own.overflow && value.0.is_finite() { f64::INFINITY } else { error } }
    }

    pub fn uncertain_value(&self, u: Uncertain, dtype: DType) -> Uncertain {
        let of = self.uncertain(u, dtype);
        match self.clamp {
            Some(clamp) if !of.value.is_nan() => Uncertain { value: of.value.clamp(-clamp, clamp), ..of },
            _ => of,
        }
    }

    /// A stream times the derivative.
    pub fn uncertain_slope(&self, stream: Uncertain, u: Uncertain, dtype: DType) -> Uncertain {
        let of = self.derivative(1, u.value);
        let smallest = 64.0 * spacing(dtype, 0.0) * (1.0 + u.value.abs().min(1000.0)) * self.gain.abs().max(1.0);
        let mut error = self.bend() * u.error + bound(dtype, of.1).error + smallest;
        if u.value.abs() <= u.error {
            error += self.jump();
        }
        let slope = Uncertain { value: of.0, error };
        let Some(clamp) = self.clamp else { return product(stream, slope, dtype) };
        let value = self.uncertain(u, dtype);
        if (value.value.abs() - clamp).abs() <= value.error || !value.error.is_finite() {
            // Either side of the clamp may be taken.
            if !stream.value.is_finite() {
                return Uncertain { value: 0.0, error: f64::INFINITY };
            }
            return product(stream, Uncertain { error: error + of.0.abs(), ..slope }, dtype);
        }
        if value.value.abs() > clamp { Uncertain { value: 0.0, error: 0.0 } } else { product(stream, slope, dtype) }
    }
}

const SELU: f64 = 1.0507009873554805;
const SELU_A: f64 = 1.6732632423543773;

fn logistic(t: f64) -> f64 {
    let small = (-t.abs()).exp();
    if t < 0.0 { small / (1.0 + small) } else { 1.0 / (1.0 + small) }
}

fn channel(of: &Array, axis: usize, place: usize) -> usize {
    let inner: usize = of.shape[axis + 1..].iter().product();
    place / inner % of.shape[axis]
}

fn bound(dtype: DType, magnitude: f64) -> Bound {
    let compute = dtype.compute();
    let error = UNITS * unit(compute) * magnitude.min(f64::MAX) + 64.0 * spacing(compute, 0.0);
    Bound { error, overflow: magnitude >= largest(compute) / 2.0, nan: false }
}

pub fn bias_act(request: &Request) -> Outputs {
    let mut args = Arguments::new(request);
    let call = Call::read(&mut args)?;
    args.finish()?;
    let (x, bias) = (request.input(0).ok_or(Refused)?, request.input(1));
    let clip = |value: f64| {
        call.curve.clamp.map_or(value, |clamp| if value.is_nan() { value } else { value.clamp(-clamp, clamp) })
    };
    let arguments = call.biased(x, bias)?;
    let terms: Vec<Term> = arguments.iter().map(|&t| call.curve.value(t)).collect();
    let bounds = arguments.iter().zip(&terms).map(|(&t, term)| call.curve.bound_of(t, clip(term.1), x.dtype)).collect();
    Ok(vec![Expected {
        shape: x.shape.clone(),
        dtype: x.dtype,
        values: terms.iter().map(|term| clip(term.0)).collect(),
        bounds,
    }])
}

pub fn bias_act_gradient(request: &Request) -> Outputs {
    let mut args = Arguments::new(request);
    let call = Call::read(&mut args)?;
    let order = args.int("order", 1, 1..=24)?;
    args.finish()?;
    let (x, dy, bias) = (request.input(0).ok_or(Refused)?, request.input(1).ok_or(Refused)?, request.input(2));
    if dy.shape != x.shape {
        return Err(Refused);
    }
    let (mut values, mut bounds) = (Vec::new(), Vec::new());
    for (i, t) in call.biased(x, bias)?.into_iter().enumerate() {
        let (derivative, of_value) = (call.curve.derivative(order, t), call.curve.value(t));
        let mut value = dy.values[i] * derivative.0;
        let mut allowed = bound(x.dtype, (dy.values[i] * derivative.1).abs());
        allowed.overflow |= derivative.1 >= largest(x.dtype.compute()) / 2.0;
        allowed.error += dy.values[i].abs().min(f64::MAX) * bound(x.dtype, derivative.1).error;
        // Where the exponential is among the smallest numbers, t and the gain multiply what it has lost.
        let factor = (1.0 + t.abs().min(1000.0)) * call.curve.gain.abs().max(1.0) * (1.0 + dy.values[i].abs());
        allowed.error += 64.0 * spacing(x.dtype.compute(), 0.0) * factor.min(f64::MAX);
        if order > 3 {
            // Only the first three have a formula here; the shape and what is refused are compared all the same.
            (value, allowed) = (0.0, Bound { error: f64::INFINITY, overflow: true, nan: true });
        } else if dy.values[i].is_infinite() && derivative.0.abs() <= bound(x.dtype, derivative.1).error {
            // The sign of a derivative near zero decides, or that it is zero.
            (value, allowed) = (0.0, Bound { error: f64::INFINITY, overflow: true, nan: true });
        }
        if let Some(clamp) = call.curve.clamp {
            let near = bound(x.dtype, of_value.1).error;
            if (of_value.0.abs() - clamp).abs() <= near {
                // Either side of the clamp may be taken.
                allowed = Bound { error: allowed.error + value.abs().min(f64::MAX), overflow: true, nan: true };
            } else if of_value.0.abs() > clamp {
                (value, allowed) = (0.0, bound(x.dtype, 0.0));
            }
        }
        values.push(value);
        bounds.push(allowed);
    }
    let mut outputs = Vec::new();
    if let Some(axis) = axis_of(call.axis, x.shape.len()) {
        let (dtype, channels) = (bias.unwrap_or(x).dtype, x.shape[axis]);
        let (mut sums, mut slack) =
            (Sums::new(channels, x.dtype), vec![Bound { error: 0.0, overflow: false, nan: false }; channels]);
        for i in 0..x.elements() {
            let (place, of) = (channel(x, axis, i), bounds[i]);
            sums.add(place, values[i]);
            let total = &mut slack[place];
            total.error += of.error;
            (total.overflow, total.nan) = (total.overflow || of.overflow, total.nan || of.nan);
        }
        let mut expected = sums.into_expected(&[channels], dtype, 1.0, elements_of(&x.shape) / channels.max(1));
        for (bound, slack) in expected.bounds.iter_mut().zip(slack) {
            bound.error += slack.error;
            bound.overflow |= slack.overflow;
            bound.nan |= slack.nan;
        }
        outputs.push(expected);
    }
    outputs.insert(0, Expected { shape: x.shape.clone(), dtype: x.dtype, values, bounds });
    Ok(outputs)
}
