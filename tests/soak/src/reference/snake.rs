//! Snake, its gradient and its derivatives of no and of the first order; those of higher order have tests of their own.

use firelu::DType;

use super::uncertain::{UNITS, Uncertain, product};
use super::waves::{Total, Wave};
use super::{Bound, Expected};
use crate::arguments::{Arguments, axis_of};
use crate::rounding::{largest, unit};
use crate::signatures::{Array, Refused, Request};

type Outputs = Result<Vec<Expected>, Refused>;

/// A call, read and checked.
struct Call<'a> {
    x: &'a Array,
    numbers: [Option<&'a Array>; 2],
    axis: usize,
    logscale: bool,
    waves: Vec<Wave>,
    compute: DType,
}

impl<'a> Call<'a> {
    fn read(request: &'a Request, args: &mut Arguments<'_>, numbers: usize) -> Result<Self, Refused> {
        let (logscale, axis) = (args.bool("logscale")?, args.int("axis", 1, i64::MIN..=i64::MAX)?);
        let x = request.input(0).ok_or(Refused)?;
        let axis = axis_of(axis, x.shape.len()).ok_or(Refused)?;
        let numbers = [numbers, numbers + 1].map(|place| request.input(place));
        if numbers.iter().flatten().any(|given| given.shape != [x.shape[axis]]) {
            return Err(Refused);
        }
        let (alpha, compute) = (numbers[0].ok_or(Refused)?, x.dtype.compute());
        let wave = |channel: usize| {
            let beta = numbers[1].map(|beta| beta.values[channel]);
            Wave::new(alpha.values[channel], beta, logscale, compute)
        };
        Ok(Call { x, numbers, axis, logscale, waves: (0..x.shape[axis]).map(wave).collect(), compute })
    }

    fn channel(&self, place: usize) -> usize {
        place / self.x.shape[self.axis + 1..].iter().product::<usize>() % self.x.shape[self.axis]
    }

    /// What each element of X becomes.
    fn map(&self, of: impl Fn(usize, &Wave, Uncertain) -> Uncertain) -> Expected {
        let (mut values, mut bounds) = (Vec::new(), Vec::new());
        for (place, &value) in self.x.values.iter().enumerate() {
            let found = of(place, &self.waves[self.channel(place)], Uncertain { value, error: 0.0 });
            let known = found.error.is_finite();
            values.push(if known { found.value } else { 0.0 });
            let overflow = !known || found.value.abs() >= largest(self.compute) / 2.0;
            bounds.push(Bound { error: if known { found.error } else { f64::INFINITY }, overflow, nan: !known });
        }
        Expected { shape: self.x.shape.clone(), dtype: self.x.dtype, values, bounds }
    }

    /// What a number's derivative is multiplied by.
    fn chain(&self, which: usize, channel: usize) -> Uncertain {
        let number = self.numbers[which].map_or(0.0, |numbers| numbers.values[channel]);
        let value = if self.logscale { number.exp() } else { 1.0 };
        Uncertain { value, error: if self.logscale { UNITS * unit(self.compute) * value } else { 0.0 } }
    }
}

fn stream(request: &Request) -> Result<&Array, Refused> {
    let (x, dy) = (request.input(0).ok_or(Refused)?, request.input(1).ok_or(Refused)?);
    if x.shape == dy.shape { Ok(dy) } else { Err(Refused) }
}

/// The output of Snake.
pub fn forward(request: &Request) -> Outputs {
    let mut args = Arguments::new(request);
    let call = Call::read(request, &mut args, 1)?;
    args.finish()?;
    Ok(vec![call.map(|_, wave, t| wave.value(t, call.compute))])
}

/// The gradients with respect to X and the numbers.
pub fn gradient(request: &Request) -> Outputs {
    let mut args = Arguments::new(request);
    let call = Call::read(request, &mut args, 2)?;
    args.finish()?;
    let dy = stream(request)?;
    let of = |place: usize| Uncertain { value: dy.values[place], error: 0.0 };
    let dx = call.map(|place, wave, t| wave.times_derivative(of(place), t, call.compute));
    let mut totals = vec![[Total::default(); 2]; call.waves.len()];
    // As many as are added up in the type computed in.
    let length = (call.x.elements() / call.waves.len().max(1)).min(8192);
    for (place, &value) in call.x.values.iter().enumerate() {
        let channel = call.channel(place);
        let t = Uncertain { value, error: 0.0 };
        let parts = call.waves[channel].by_numbers(of(place), t, (call.compute, length));
        for (total, part) in totals[channel].iter_mut().zip(parts) {
            total.add(part);
        }
    }
    let none = Expected { shape: vec![0], dtype: call.x.dtype, values: Vec::new(), bounds: Vec::new() };
    let mut outputs = vec![dx, none.clone(), none];
    for (which, numbers) in call.numbers.into_iter().enumerate() {
        let both = which == 0 && call.numbers[1].is_none();
        if let Some(numbers) = numbers {
            outputs[1 + which] = Wave::gradients(numbers, &totals, (which, both), (call.logscale, call.compute));
        }
    }
    Ok(outputs)
}

/// A stream times snake, or one of its first derivatives.
pub fn derivative(request: &Request) -> Outputs {
    let mut args = Arguments::new(request);
    let call = Call::read(request, &mut args, 2)?;
    let mut order = |name: &str, default: i64| args.int(name, default, 0..=8);
    let orders = [order("order_x", 1)?, order("order_alpha", 0)?, order("order_beta", 0)?];
    args.finish()?;
    let dy = stream(request)?;
    if orders[2] > 0 && call.numbers[1].is_none() {
        return Err(Refused);
    }
    let of = |place: usize| Uncertain { value: dy.values[place], error: 0.0 };
    let compute = call.compute;
    Ok(vec![call.map(|place, wave, t| match orders {
        [0, 0, 0] => product(of(place), wave.value(t, compute), compute),
        [1, 0, 0] => wave.times_derivative(of(place), t, compute),
        [0, _, _] if orders[1] + orders[2] == 1 && !wave.passes_the_largest(t.value, compute) => {
            let by = wave.by_numbers(of(place), t, (compute, 1));
            let channel = call.channel(place);
            let part = |which: usize, chain: usize| product(by[which], call.chain(chain, channel), compute);
            match (orders[2], call.numbers[1]) {
                (1, _) => part(1, 1),
                (_, Some(_)) => part(0, 0),
                (_, None) => {
                    let (first, second) = (part(0, 0), part(1, 0));
                    let size = first.value.abs() + second.value.abs();
                    let error = first.error + second.error + UNITS * unit(compute) * size;
                    Uncertain { value: first.value + second.value, error }
                }
            }
        }
        _ => Uncertain { value: 0.0, error: f64::INFINITY },
    })])
}
