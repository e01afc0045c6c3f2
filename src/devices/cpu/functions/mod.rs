//! Functions of one number, written once over [`Lane`](crate::simd::Lane) for float32 and float64: what activations are
//! made of. Errors in units of the last place stand in `docs/reliability.md`; the device's header
//! `cuda/include/functions.cuh` has the same steps and the same numbers.
//!
//! Rounding errors are kept where one and a half units of the last place need it, and nowhere else: a sum that is divided
//! by stays in parts that have none, and the remainder of the division corrects it. Powers of two are multiplied in last,
//! so that subnormal results are rounded once too.

mod exponential;
mod sine;

pub use exponential::{
    Logistics, exp, exp_of_negative, expm1, expm1_times, logistic, logistics, softplus, swish, tanh, tanh_slope,
};
pub use sine::{Angle, angle};

use crate::simd::Lane;
use firelu_core::dtype::{Compute, DType};

/// The numbers for float32 or those for float64.
#[inline(always)]
fn of<C: Compute, N>(float32: N, float64: N) -> N {
    if C::DTYPE == DType::Float32 { float32 } else { float64 }
}

/// A number in every place.
#[inline(always)]
fn number<C: Compute, L: Lane<C>>(like: L, value: f64) -> L {
    like.splat(C::from_f64(value))
}

/// The polynomial with these coefficients, the constant one first.
#[inline(always)]
fn polynomial<C: Compute, L: Lane<C>>(x: L, coefficients: &[f64]) -> L {
    let (&last, others) = coefficients.split_last().expect("there are coefficients");
    let mut sum = number(x, last);
    for &coefficient in others.iter().rev() {
        sum = sum.mul_add(x, number(x, coefficient));
    }
    sum
}

/// The number with its sign turned; a factor of [`Lane::mul_add`] costs nothing.
#[inline(always)]
fn negative<C: Compute, L: Lane<C>>(x: L) -> L {
    number(x, -0.0).sub(x)
}
