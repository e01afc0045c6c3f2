//! Numbers that are known but for an error, and what arithmetic makes of them.

use firelu::DType;

use crate::rounding::{largest, spacing, unit};

/// How many units of the last place a sine, an exponential or a product of a few numbers may be off.
pub const UNITS: f64 = 16.0;

/// A number that is known but for an error; where that is infinite, it may be anything.
#[derive(Clone, Copy, Debug)]
pub struct Uncertain {
    /// What mathematics has it to be.
    pub value: f64,
    /// How far it may be from there.
    pub error: f64,
}

impl Uncertain {
    /// A number that nothing is known of, unless it is known well.
    pub fn or_anything(self) -> Self {
        if self.error.is_finite() { self } else { Uncertain { value: 0.0, error: f64::INFINITY } }
    }
}

/// The error of a few roundings of numbers of this size.
pub fn small(magnitude: f64, compute: DType) -> f64 {
    UNITS * unit(compute) * magnitude.min(f64::MAX) + 64.0 * spacing(compute, 0.0)
}

/// A number, unless it may be too large for its type.
pub fn checked(value: f64, error: f64, compute: DType) -> Uncertain {
    let lost = value.is_finite() && value.abs() + error >= largest(compute) / 2.0;
    Uncertain { value, error: if lost { f64::INFINITY } else { error } }
}

/// The product of two uncertain numbers, rounded.
pub fn product(first: Uncertain, second: Uncertain, compute: DType) -> Uncertain {
    if first.value.is_nan() || second.value.is_nan() {
        return Uncertain { value: f64::NAN, error: first.error + second.error };
    }
    let value = first.value * second.value;
    let error = first.value.abs() * second.error + second.value.abs() * first.error + first.error * second.error;
    let far = first.value.abs().max(second.value.abs()) >= largest(compute) / 2.0;
    let of_underflow = 64.0 * spacing(compute, 0.0) * (1.0 + first.value.abs() + second.value.abs());
    let error = error + small(value.abs(), compute) + of_underflow;
    // An infinity that finite numbers give is no known value: within its error the product may have stayed below.
    let of_finite = first.value.is_finite() && second.value.is_finite();
    if of_finite && (far || value.is_infinite()) {
        Uncertain { value: 0.0, error: f64::INFINITY }
    } else {
        checked(value, error, compute)
    }
}
