//! Operators that work element by element; each rounding is made where the documentation has it.

use firelu::DType;

use super::reduce::{Sums, elements_of};
use super::{Expected, broadcast, computed, index_of, place_in};
use crate::arguments::{Arguments, axis_of};
use crate::rounding::round_to;
use crate::signatures::{Array, Refused, Request};

type Outputs = Result<Vec<Expected>, Refused>;

/// The output of an input's type and shape.
fn exact(like: &Array, value: impl Fn(usize) -> f64) -> Expected {
    let values = (0..like.elements()).map(|i| round_to(like.dtype, value(i))).collect();
    Expected { shape: like.shape.clone(), dtype: like.dtype, values, bounds: Vec::new() }
}

fn leaky(dtype: DType, sign: f64, value: f64, alpha: f64) -> f64 {
    if sign > 0.0 { value } else { computed(dtype, alpha * value) }
}

pub fn leaky_relu(request: &Request) -> Outputs {
    let mut args = Arguments::new(request);
    let alpha = args.float("alpha", 0.01)?;
    args.finish()?;
    let x = request.input(0).ok_or(Refused)?;
    let alpha = computed(x.dtype, alpha);
    Ok(vec![exact(x, |i| leaky(x.dtype, x.values[i], x.values[i], alpha))])
}

pub fn leaky_relu_gradient(request: &Request) -> Outputs {
    let mut args = Arguments::new(request);
    let alpha = args.float("alpha", 0.01)?;
    args.finish()?;
    let (y, dy) = (request.input(0).ok_or(Refused)?, request.input(1).ok_or(Refused)?);
    if y.shape != dy.shape {
        return Err(Refused);
    }
    let alpha = computed(y.dtype, alpha);
    Ok(vec![exact(y, |i| leaky(y.dtype, y.values[i], dy.values[i], alpha))])
}

struct Fused {
    alpha: f64,
    scale: f64,
    axis: i64,
}

impl Fused {
    fn read(request: &Request) -> Result<Self, Refused> {
        let mut args = Arguments::new(request);
        let alpha = args.float("alpha", 0.2)?;
        let scale = args.float("scale", std::f64::consts::SQRT_2)?;
        let axis = args.int("axis", 1, i64::MIN..=i64::MAX)?;
        args.finish()?;
        Ok(Fused { alpha, scale, axis })
    }

    /// Refuses a bias that is not one number for each channel.
    fn check_bias(&self, of: &Array, bias: Option<&Array>) -> Result<(), Refused> {
        let Some(bias) = bias else { return Ok(()) };
        let axis = axis_of(self.axis, of.shape.len()).ok_or(Refused)?;
        if bias.shape == [of.shape[axis]] { Ok(()) } else { Err(Refused) }
    }

    /// The channel of an element.
    fn channel(&self, of: &Array, place: usize) -> usize {
        let axis = axis_of(self.axis, of.shape.len()).expect("checked");
        let inner: usize = of.shape[axis + 1..].iter().product();
        place / inner % of.shape[axis]
    }

    fn activate(&self, dtype: DType, sign: f64, value: f64) -> f64 {
        let (alpha, scale) = (computed(dtype, self.alpha), computed(dtype, self.scale));
        computed(dtype, leaky(dtype, sign, value, alpha) * scale)
    }
}

pub fn fused_leaky_relu(request: &Request) -> Outputs {
    let fused = Fused::read(request)?;
    let (x, bias) = (request.input(0).ok_or(Refused)?, request.input(1));
    fused.check_bias(x, bias)?;
    Ok(vec![exact(x, |i| {
        let sum = match bias {
            Some(bias) => computed(x.dtype, x.values[i] + bias.values[fused.channel(x, i)]),
            None => x.values[i],
        };
        fused.activate(x.dtype, sum, sum)
    })])
}

pub fn fused_leaky_relu_gradient(request: &Request) -> Outputs {
    let fused = Fused::read(request)?;
    let (y, dy, bias, like) = (request.input(0).ok_or(Refused)?, request.input(1), request.input(2), request.input(3));
    if dy.is_some_and(|dy| dy.shape != y.shape) || (dy.is_none() && bias.is_none()) {
        return Err(Refused);
    }
    fused.check_bias(y, bias)?;
    fused.check_bias(y, like)?;
    let value = |i: usize| {
        let of_bias = bias.map(|bias| bias.values[fused.channel(y, i)]);
        let given = match (dy.map(|dy| dy.values[i]), of_bias) {
            (Some(dy), Some(bias)) => computed(y.dtype, dy + bias),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => unreachable!("refused above"),
        };
        fused.activate(y.dtype, y.values[i], given)
    };
    let mut outputs = vec![exact(y, value)];
    if let Some(axis) = axis_of(fused.axis, y.shape.len()) {
        let dtype = like.or(bias).unwrap_or(y).dtype;
        let channels = y.shape[axis];
        let mut sums = Sums::new(channels, y.dtype);
        for i in 0..y.elements() {
            sums.add(fused.channel(y, i), value(i));
        }
        outputs.push(sums.into_expected(&[channels], dtype, 1.0, elements_of(&y.shape) / channels.max(1)));
    }
    Ok(outputs)
}

pub fn sum(request: &Request) -> Outputs {
    Arguments::new(request).finish()?;
    let first = request.input(0).ok_or(Refused)?;
    let inputs: Vec<&Array> = request.inputs.iter().flatten().collect();
    if inputs.iter().any(|input| input.shape != first.shape) {
        return Err(Refused);
    }
    Ok(vec![exact(first, |i| {
        inputs[1..].iter().fold(first.values[i], |sum, input| computed(first.dtype, sum + input.values[i]))
    })])
}

pub fn binary(request: &Request, operation: impl Fn(f64, f64) -> f64) -> Outputs {
    Arguments::new(request).finish()?;
    let (a, b) = (request.input(0).ok_or(Refused)?, request.input(1).ok_or(Refused)?);
    let shape = broadcast(&a.shape, &b.shape)?;
    let like = Array::new(&shape, a.dtype);
    let mut index = vec![0; shape.len()];
    let mut values = Vec::with_capacity(like.elements());
    for place in 0..like.elements() {
        index_of(&shape, place, &mut index);
        let (first, second) = (a.values[place_in(&a.shape, &index)], b.values[place_in(&b.shape, &index)]);
        values.push(round_to(a.dtype, computed(a.dtype, operation(first, second))));
    }
    Ok(vec![Expected { shape, dtype: a.dtype, values, bounds: Vec::new() }])
}
