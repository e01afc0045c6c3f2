//! The activations themselves: each value and each derivative of one number.

use super::series::Order;
use crate::functions::{exp_of_negative, expm1, expm1_times, logistic, logistics, softplus, swish, tanh, tanh_slope};
use crate::simd::Lane;
use firelu_core::dtype::Compute;

/// A function with all its derivatives.
pub trait Curve<C: Compute>: Copy + Sync {
    /// Whether it takes longer than reading and writing do.
    const COMPUTES_MUCH: bool = true;
    /// f(t).
    fn value<L: Lane<C>>(self, t: L) -> L;
    /// f'(t).
    fn slope<L: Lane<C>>(self, t: L) -> L;
    /// The derivative of an order above the first.
    fn derivative<L: Lane<C>>(self, t: L, order: &Order<C>) -> L;
}

#[derive(Clone, Copy)]
pub struct Linear;
#[derive(Clone, Copy)]
pub struct Relu;
#[derive(Clone, Copy)]
pub struct LeakyRelu<C>(pub C);
#[derive(Clone, Copy)]
pub struct Tanh;
#[derive(Clone, Copy)]
pub struct Sigmoid;
#[derive(Clone, Copy)]
pub struct Elu;
#[derive(Clone, Copy)]
pub struct Selu;
#[derive(Clone, Copy)]
pub struct Softplus;
#[derive(Clone, Copy)]
pub struct Swish;

/// Runs the body with `$curve` standing for an activation: the one place where a name becomes a type.
macro_rules! with_curve {
    ($activation:expr, $alpha:expr, $curve:ident => $body:expr) => {
        match $activation {
            $crate::activations::Activation::Linear => {
                let $curve = $crate::activations::curves::Linear;
                $body
            }
            $crate::activations::Activation::Relu => {
                let $curve = $crate::activations::curves::Relu;
                $body
            }
            $crate::activations::Activation::LeakyRelu => {
                let $curve = $crate::activations::curves::LeakyRelu($alpha);
                $body
            }
            $crate::activations::Activation::Tanh => {
                let $curve = $crate::activations::curves::Tanh;
                $body
            }
            $crate::activations::Activation::Sigmoid => {
                let $curve = $crate::activations::curves::Sigmoid;
                $body
            }
            $crate::activations::Activation::Elu => {
                let $curve = $crate::activations::curves::Elu;
                $body
            }
            $crate::activations::Activation::Selu => {
                let $curve = $crate::activations::curves::Selu;
                $body
            }
            $crate::activations::Activation::Softplus => {
                let $curve = $crate::activations::curves::Softplus;
                $body
            }
            $crate::activations::Activation::Swish => {
                let $curve = $crate::activations::curves::Swish;
                $body
            }
        }
    };
}
pub(crate) use with_curve;

#[inline(always)]
fn number<C: Compute, L: Lane<C>>(like: L, value: f64) -> L {
    like.splat(C::from_f64(value))
}

/// `negative` where t is below zero, else `otherwise`: zeros of either sign and NaN are not.
#[inline(always)]
fn where_negative<C: Compute, L: Lane<C>>(t: L, negative: L, otherwise: L) -> L {
    number(t, 0.0).where_greater(t, negative, otherwise)
}

impl<C: Compute> Curve<C> for Linear {
    const COMPUTES_MUCH: bool = false;
    #[inline(always)]
    fn value<L: Lane<C>>(self, t: L) -> L {
        t
    }
    #[inline(always)]
    fn slope<L: Lane<C>>(self, t: L) -> L {
        number(t, 1.0)
    }
    #[inline(always)]
    fn derivative<L: Lane<C>>(self, t: L, _: &Order<C>) -> L {
        number(t, 0.0)
    }
}

impl<C: Compute> Curve<C> for Relu {
    const COMPUTES_MUCH: bool = false;
    #[inline(always)]
    fn value<L: Lane<C>>(self, t: L) -> L {
        t.at_least(number(t, 0.0))
    }
    #[inline(always)]
    fn slope<L: Lane<C>>(self, t: L) -> L {
        t.where_positive(number(t, 1.0), number(t, 0.0))
    }
    #[inline(always)]
    fn derivative<L: Lane<C>>(self, t: L, _: &Order<C>) -> L {
        number(t, 0.0)
    }
}

impl<C: Compute> Curve<C> for LeakyRelu<C> {
    const COMPUTES_MUCH: bool = false;
    #[inline(always)]
    fn value<L: Lane<C>>(self, t: L) -> L {
        t.where_positive(t, t.mul(t.splat(self.0)))
    }
    #[inline(always)]
    fn slope<L: Lane<C>>(self, t: L) -> L {
        t.where_positive(number(t, 1.0), t.splat(self.0))
    }
    #[inline(always)]
    fn derivative<L: Lane<C>>(self, t: L, _: &Order<C>) -> L {
        number(t, 0.0)
    }
}

impl<C: Compute> Curve<C> for Tanh {
    #[inline(always)]
    fn value<L: Lane<C>>(self, t: L) -> L {
        tanh(t)
    }
    #[inline(always)]
    fn slope<L: Lane<C>>(self, t: L) -> L {
        tanh_slope(t)
    }
    #[inline(always)]
    fn derivative<L: Lane<C>>(self, t: L, order: &Order<C>) -> L {
        tanh_slope(t).mul(order.factor.at(tanh(t)))
    }
}

/// The logistic function and its derivative, with which higher ones begin.
#[inline(always)]
fn logistic_with_slope<C: Compute, L: Lane<C>>(t: L) -> (L, L) {
    let logistics = logistics(t);
    (t.where_positive(logistics.greater, logistics.lesser()), logistics.lesser_times(logistics.greater))
}

impl<C: Compute> Curve<C> for Sigmoid {
    #[inline(always)]
    fn value<L: Lane<C>>(self, t: L) -> L {
        logistic(t)
    }
    #[inline(always)]
    fn slope<L: Lane<C>>(self, t: L) -> L {
        logistic_with_slope(t).1
    }
    #[inline(always)]
    fn derivative<L: Lane<C>>(self, t: L, order: &Order<C>) -> L {
        let (value, slope) = logistic_with_slope(t);
        slope.mul(order.factor.at(value))
    }
}

impl<C: Compute> Curve<C> for Elu {
    #[inline(always)]
    fn value<L: Lane<C>>(self, t: L) -> L {
        where_negative(t, expm1(t), t)
    }
    #[inline(always)]
    fn slope<L: Lane<C>>(self, t: L) -> L {
        where_negative(t, exp_of_negative(t), number(t, 1.0))
    }
    #[inline(always)]
    fn derivative<L: Lane<C>>(self, t: L, _: &Order<C>) -> L {
        where_negative(t, exp_of_negative(t), number(t, 0.0))
    }
}

/// Selu's factor λ, and λ times its a.
const SELU: f64 = 1.0507009873554805;
const SELU_NEGATIVE: f64 = 1.0507009873554805 * 1.6732632423543773;

impl<C: Compute> Curve<C> for Selu {
    #[inline(always)]
    fn value<L: Lane<C>>(self, t: L) -> L {
        where_negative(t, expm1_times(t, SELU_NEGATIVE), t.mul(number(t, SELU)))
    }
    #[inline(always)]
    fn slope<L: Lane<C>>(self, t: L) -> L {
        where_negative(t, exp_of_negative(t).mul(number(t, SELU_NEGATIVE)), number(t, SELU))
    }
    #[inline(always)]
    fn derivative<L: Lane<C>>(self, t: L, _: &Order<C>) -> L {
        where_negative(t, exp_of_negative(t).mul(number(t, SELU_NEGATIVE)), number(t, 0.0))
    }
}

impl<C: Compute> Curve<C> for Softplus {
    #[inline(always)]
    fn value<L: Lane<C>>(self, t: L) -> L {
        softplus(t)
    }
    #[inline(always)]
    fn slope<L: Lane<C>>(self, t: L) -> L {
        logistic(t)
    }
    #[inline(always)]
    fn derivative<L: Lane<C>>(self, t: L, order: &Order<C>) -> L {
        let (value, slope) = logistic_with_slope(t);
        slope.mul(order.factor.at(value))
    }
}

/// Beyond this t the logistic function and all its derivatives are zero or one: an infinite t becomes a finite one.
#[inline(always)]
fn bounded<C: Compute, L: Lane<C>>(t: L) -> L {
    t.at_most(number(t, 1000.0)).at_least(number(t, -1000.0))
}

impl<C: Compute> Curve<C> for Swish {
    #[inline(always)]
    fn value<L: Lane<C>>(self, t: L) -> L {
        swish(t)
    }
    #[inline(always)]
    fn slope<L: Lane<C>>(self, t: L) -> L {
        let logistics = logistics(t);
        let (greater, t) = (logistics.greater, bounded(t));
        // Where the logistic function is small, it is multiplied in last.
        let negative = logistics.lesser_times(t.mul_add(greater, number(t, 1.0)));
        t.where_positive(t.mul_add(logistics.lesser_times(greater), greater), negative)
    }
    #[inline(always)]
    fn derivative<L: Lane<C>>(self, t: L, order: &Order<C>) -> L {
        let (value, slope) = logistic_with_slope(t);
        let n = number(t, order.n as f64);
        slope.mul(bounded(t).mul_add(order.factor.at(value), n.mul(order.before.at(value))))
    }
}
