//! Functions of one number, written once over [`Lane`](crate::simd::Lane) for float32 and float64: what activations are
//! made of. Errors in units of the last place stand in `docs/reliability.md`; the device's header
//! `cuda/include/functions.cuh` has the same steps and the same numbers.
//!
//! Each keeps the rounding error of what it divides or adds (`low` beside a number), so that one rounding is left at the
//! end; powers of two are multiplied in last, so that subnormal results are rounded once too.

mod exponential;
mod sine;

pub use exponential::{Logistic, exp, expm1, log1p_exp, logistic, tanh, tanh_slope};
pub use sine::{Angle, angle};

use crate::simd::{Lane, shifter};
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

/// `2^n`, a normal number, for a whole `n`.
#[inline(always)]
fn power<C: Compute, L: Lane<C>>(n: L) -> L {
    n.add(n.splat(shifter::<C>())).power_of_two()
}
