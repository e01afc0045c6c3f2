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

/// The polynomial with these coefficients, the constant one first, of a number and its square. Pairs of terms do not wait
/// for each other: that halves the longest chain.
#[inline(always)]
fn polynomial<C: Compute, L: Lane<C>>(x: L, square: L, coefficients: &[f64]) -> L {
    let last = (coefficients.len() - 1) / 2;
    let mut sum = pair(x, coefficients, last);
    for index in (0..last).rev() {
        sum = sum.mul_add(square, pair(x, coefficients, index));
    }
    sum
}

/// Two neighbouring terms of a polynomial, or the one that is left.
#[inline(always)]
fn pair<C: Compute, L: Lane<C>>(x: L, coefficients: &[f64], index: usize) -> L {
    let constant = number(x, coefficients[2 * index]);
    match coefficients.get(2 * index + 1) {
        Some(&linear) => number(x, linear).mul_add(x, constant),
        None => constant,
    }
}

/// One over a positive number, off by a part of 1.3e-4 in float32 and of 3e-12 in float64: the square of that is what a
/// quotient keeps once its remainder was divided too. A division takes as long as a dozen multiplications.
#[inline(always)]
fn near_inverse<C: Compute, L: Lane<C>>(divisor: L) -> L {
    let about = cubed(divisor, divisor.about_inverse());
    if C::DTYPE == DType::Float32 { about } else { cubed(divisor, about) }
}

/// One over a positive number, from what is off by a part of e: the result is off by e³.
#[inline(always)]
fn cubed<C: Compute, L: Lane<C>>(divisor: L, about: L) -> L {
    let error = negative(about).mul_add(divisor, number(divisor, 1.0));
    about.mul_add(error.mul_add(error, error), about)
}

/// One over a positive number, within one unit of the last place.
#[inline(always)]
fn inverse<C: Compute, L: Lane<C>>(divisor: L) -> L {
    let near = near_inverse(divisor);
    near.mul_add(negative(near).mul_add(divisor, number(divisor, 1.0)), near)
}

/// As [`near_inverse`] of a number from 1 to 2, off by a part of 5.2e-5 in float32 and of 3e-9 in float64.
#[inline(always)]
fn near_inverse_up_to_two<C: Compute, L: Lane<C>>(divisor: L) -> L {
    // The parabola that is off by 1/99 at most; what is added to one makes the error after a step the same to both sides.
    let slope = number(divisor, 32.0 / 99.0).mul_add(divisor, number(divisor, -144.0 / 99.0));
    let about = slope.mul_add(divisor, number(divisor, 210.0 / 99.0));
    let near = about.mul_add(negative(about).mul_add(divisor, number(divisor, 1.00005)), about);
    if C::DTYPE == DType::Float32 {
        return near;
    }
    near.mul_add(negative(near).mul_add(divisor, number(divisor, 1.0)), near)
}

/// The number with its sign turned; a factor of [`Lane::mul_add`] costs nothing.
#[inline(always)]
fn negative<C: Compute, L: Lane<C>>(x: L) -> L {
    number(x, -0.0).sub(x)
}
