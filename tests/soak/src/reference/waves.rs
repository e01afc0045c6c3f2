//! Snake, `t + sin²(p t) / B` with `B = q + 1e-9`, and its derivatives, each with the error that its steps may leave.

use firelu::DType;

use super::uncertain::{UNITS, Uncertain, checked, product, small};
use super::{Bound, Expected, computed, exact};
use crate::rounding::{largest, spacing, unit};
use crate::signatures::Array;

/// The numbers of one channel.
pub struct Wave {
    frequency: f64,
    divisor: f64,
    /// How far the divisor may be off, of itself.
    relative: f64,
}

/// A sum of uncertain numbers, and of their magnitudes.
#[derive(Clone, Copy, Default)]
pub struct Total {
    sum: exact::Total,
    error: f64,
    size: f64,
}

impl Total {
    pub fn add(&mut self, part: Uncertain) {
        self.sum.add(part.value, 1.0);
        self.error += part.error;
        self.size += part.value.abs();
    }
}

/// What sines of an uncertain angle are.
struct Angle {
    square: f64,
    double: f64,
    /// How far either may be off.
    error: f64,
}

impl Wave {
    pub fn new(alpha: f64, beta: Option<f64>, logscale: bool, compute: DType) -> Self {
        let read = |number: f64| if logscale { computed(compute, number.exp()) } else { number };
        let frequency = read(alpha);
        let q = beta.map_or(frequency, read);
        let divisor = q + 1e-9;
        let relative = UNITS * unit(compute) * (q.abs() + 1e-9) / divisor.abs();
        Wave { frequency, divisor, relative }
    }

    /// Whether nothing is known: of the argument, or since a number on the way may pass the largest one, or the smallest.
    fn is_extreme(&self, u: Uncertain, compute: DType) -> bool {
        let limit = largest(compute).sqrt();
        let ordinary =
            |number: f64| !number.is_finite() || number == 0.0 || (1.0 / limit..limit).contains(&number.abs());
        let angle = self.frequency * u.value;
        let passes = angle.is_finite() && angle.abs() >= largest(compute) / 2.0;
        passes || !u.error.is_finite() || !ordinary(self.frequency) || !ordinary(self.divisor) || self.divisor == 0.0
    }

    /// Whether the factor of a sine, t times the frequency over a divisor, passes the largest number before the sine and
    /// the stream are multiplied in.
    pub fn passes_the_largest(&self, t: f64, compute: DType) -> bool {
        let factor = 2.0 * self.frequency.abs().max(1.0);
        t.is_finite() && (factor * t / self.divisor).abs() >= largest(compute) / 2.0
    }

    fn angle(&self, u: Uncertain, compute: DType) -> Angle {
        let angle = self.frequency * u.value;
        let off = self.frequency.abs() * u.error + UNITS * unit(compute) * (angle.abs() + 1.0);
        Angle { square: angle.sin().powi(2), double: (2.0 * angle).sin(), error: 2.0 * off.min(1.0) }
    }

    pub fn value(&self, u: Uncertain, compute: DType) -> Uncertain {
        if self.is_extreme(u, compute) {
            return Uncertain { value: 0.0, error: f64::INFINITY };
        }
        let angle = self.angle(u, compute);
        let value = u.value + angle.square / self.divisor;
        let of_wave = (angle.error + angle.square * self.relative) / self.divisor.abs();
        checked(value, u.error + of_wave + small(value.abs() + u.value.abs(), compute), compute)
    }

    /// A stream times the derivative by t.
    pub fn times_derivative(&self, stream: Uncertain, u: Uncertain, compute: DType) -> Uncertain {
        if self.is_extreme(u, compute) {
            return Uncertain { value: 0.0, error: f64::INFINITY };
        }
        let (angle, factor) = (self.angle(u, compute), self.frequency / self.divisor);
        let slope = 1.0 + angle.double * factor;
        let off = (angle.error + angle.double.abs() * self.relative) * factor.abs()
            + UNITS * unit(compute) * (1.0 + (angle.double * factor).abs());
        product(stream, Uncertain { value: slope, error: off }, compute)
    }

    /// What a sample adds to the sums by p and by q, with its part of the errors of a row's sum.
    pub fn by_numbers(&self, stream: Uncertain, u: Uncertain, (compute, length): (DType, usize)) -> [Uncertain; 2] {
        if self.is_extreme(u, compute) {
            return [Uncertain { value: 0.0, error: f64::INFINITY }; 2];
        }
        let (angle, b) = (self.angle(u, compute), self.divisor);
        let by_frequency = Uncertain {
            value: u.value * angle.double / b,
            error: (u.error + u.value.abs() * (angle.error + self.relative)) / b.abs(),
        };
        let by_divisor = Uncertain {
            value: -angle.square / (b * b),
            error: (angle.error + angle.square * 2.0 * self.relative) / (b * b),
        };
        // The stream is multiplied by t before the sine is.
        let on_the_way = stream.value * u.value;
        let passes = on_the_way.is_finite() && on_the_way.abs() >= largest(compute) / 2.0
            || on_the_way.is_infinite() && stream.value.is_finite() && u.value.is_finite();
        // Below the normal numbers that product keeps few bits, and what it loses is divided by b.
        let of_subnormals = spacing(compute, 0.0) * (angle.double / b).abs();
        let unknown = Uncertain { value: 0.0, error: f64::INFINITY };
        let by_frequency = if passes { unknown } else { by_frequency };
        [by_frequency, by_divisor].map(|of| {
            if !of.error.is_finite() {
                return unknown;
            }
            let part = product(stream, of, compute);
            let of_sum = (length as f64 / 8.0 + UNITS) * unit(compute) * part.value.abs();
            Uncertain { value: part.value, error: part.error + of_sum + of_subnormals }
        })
    }

    /// The gradients of alpha or beta from the sums by p and q; both of these where p stands in both places.
    pub fn gradients(
        numbers: &Array,
        totals: &[[Total; 2]],
        (which, both): (usize, bool),
        (logscale, compute): (bool, DType),
    ) -> Expected {
        let (mut values, mut bounds) = (Vec::new(), Vec::new());
        for (number, total) in numbers.values.iter().zip(totals) {
            let chain = if logscale { number.exp() } else { 1.0 };
            let other = if both { total[1] } else { Total::default() };
            let value = (total[which].sum.value() + other.sum.value()) * chain;
            let error = (total[which].error + other.error) * chain
                + UNITS * unit(numbers.dtype.compute()) * value.abs()
                + spacing(numbers.dtype, 0.0);
            // Numbers on the way are added up in the type computed in.
            let size = total[which].size.max(other.size);
            let known = error.is_finite() && size < largest(compute) / 2.0;
            values.push(if known { value } else { 0.0 });
            bounds.push(Bound {
                error: if known { error } else { f64::INFINITY },
                overflow: !known || value.abs() >= largest(numbers.dtype.compute()) / 2.0,
                nan: !known,
            });
        }
        Expected { shape: numbers.shape.clone(), dtype: numbers.dtype, values, bounds }
    }
}
