//! Activations: formulas with all their derivatives, over rows and over whole tensors.
//!
//! `y = clip(gain · f(t), -clamp, clamp)`. The derivative of any order n, times a stream of numbers, is
//! `gain · f⁽ⁿ⁾(t) · stream` where `|gain · f(t)| ≤ clamp`, else zero.

mod channels;
mod curves;
mod partial;
mod series;
mod tensors;
mod wave;

pub use channels::{gradient_of_waves, map_channels};
pub use partial::{Orders, Partial};
pub use series::{MOST_ORDER, Order};
pub use tensors::{Settings, apply, gradient};
pub use wave::Wave;

use crate::elementwise::{apply_to_row, apply_to_rows};
use crate::features::Level;
use crate::simd::{Formula, Lane, Scaling};
use crate::sources::SimdElement;
use curves::{Curve, with_curve};
use firelu_core::args::{ArgValue, Choices};
use firelu_core::arguments::Argument;
use firelu_core::dtype::Compute;

/// The activations by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Activation {
    /// t.
    #[default]
    Linear,
    /// The greater of t and 0.
    Relu,
    /// t where it is positive, else alpha · t.
    LeakyRelu,
    /// The hyperbolic tangent.
    Tanh,
    /// `1 / (1 + e^-t)`.
    Sigmoid,
    /// t where it is not negative, else `e^t - 1`.
    Elu,
    /// As elu, scaled on both sides so that layers normalise themselves.
    Selu,
    /// `ln(1 + e^t)`.
    Softplus,
    /// `t / (1 + e^-t)`.
    Swish,
}

impl Activation {
    /// Every activation, in the order of the documentation.
    pub const ALL: [Activation; 9] = {
        use Activation::{Elu, LeakyRelu, Linear, Relu, Selu, Sigmoid, Softplus, Swish, Tanh};
        [Linear, Relu, LeakyRelu, Tanh, Sigmoid, Elu, Selu, Softplus, Swish]
    };

    /// The name that users type.
    pub fn name(self) -> &'static str {
        Activation::CHOICES[self as usize][0]
    }

    /// The slope of lrelu where nobody says another.
    pub const ALPHA: f64 = 0.2;

    /// The gain where nobody says another.
    pub const fn default_gain(self) -> f64 {
        match self {
            Activation::Relu | Activation::LeakyRelu | Activation::Swish => std::f64::consts::SQRT_2,
            _ => 1.0,
        }
    }

    /// Whether derivatives from the second on are zero.
    pub const fn is_piecewise_linear(self) -> bool {
        matches!(self, Activation::Linear | Activation::Relu | Activation::LeakyRelu)
    }
}

impl Argument for Activation {
    const CHOICES: Choices =
        &[&["linear"], &["relu"], &["lrelu"], &["tanh"], &["sigmoid"], &["elu"], &["selu"], &["softplus"], &["swish"]];
    fn to_value(&self) -> ArgValue {
        ArgValue::String(self.name().into())
    }
    fn of_value(value: &ArgValue) -> Self {
        Activation::ALL
            .into_iter()
            .find(|activation| matches!(value, ArgValue::String(name) if name == activation.name()))
            .unwrap_or_else(|| unreachable!("the schema has checked the activation, not {value}"))
    }
}

/// An activation with its numbers, for rows of a compute type.
pub struct Pointwise<C> {
    activation: Activation,
    alpha: C,
    gain: C,
    clamp: Option<C>,
    order: Order<C>,
}

impl<C: Compute> Pointwise<C> {
    /// An activation, and the order of the derivative that [`Pointwise::multiply`] takes.
    pub fn new(activation: Activation, alpha: f64, gain: f64, clamp: Option<f64>, order: usize) -> Self {
        let number = C::from_f64;
        let order = Order::new(activation, order);
        Pointwise { activation, alpha: number(alpha), gain: number(gain), clamp: clamp.map(number), order }
    }
}

impl<C: SimdElement<Compute = C> + Compute> Pointwise<C> {
    /// Makes `clip(gain · f(t))` of each `t`.
    pub fn apply(&self, level: Level, row: &mut [C]) {
        with_curve!(self.activation, self.alpha, curve => apply_to_row(level, &self.value_of(curve), row))
    }

    /// Multiplies each number of a stream by the derivative at `t`, where that is inside the clamp, else by zero.
    pub fn multiply(&self, level: Level, stream: &mut [C], t: &[C]) {
        with_curve!(self.activation, self.alpha, curve => apply_to_rows(level, &self.derivative_of(curve), stream, t))
    }
}

impl<C: Compute> Pointwise<C> {
    fn value_of<K>(&self, curve: K) -> Value<C, K> {
        let clamp = self.clamp.unwrap_or(C::from_f64(f64::INFINITY));
        Value { curve, scaling: Scaling { gain: self.gain, clamp } }
    }

    fn derivative_of<K>(&self, curve: K) -> Derivative<'_, C, K> {
        Derivative { curve, gain: self.gain, clamp: self.clamp, order: &self.order }
    }
}

/// `clip(gain · f(t))`.
struct Value<C, K> {
    curve: K,
    scaling: Scaling<C>,
}

impl<C: Compute, K: Curve<C>> Value<C, K> {
    #[inline(always)]
    fn at<L: Lane<C>>(&self, t: L) -> L {
        let value = self.curve.value(t);
        if K::COMPUTES_MUCH { value } else { self.scaling.apply([value]) }
    }

    /// What a curve that computes much leaves to a loop of its own.
    fn left(&self) -> Option<Scaling<C>> {
        let Scaling { gain, clamp } = self.scaling;
        let is_nothing = gain == C::from_f64(1.0) && clamp == C::from_f64(f64::INFINITY);
        (K::COMPUTES_MUCH && !is_nothing).then_some(self.scaling)
    }
}

impl<C: Compute, K: Curve<C>> Formula<C, 1> for Value<C, K> {
    const COMPUTES_MUCH: bool = K::COMPUTES_MUCH;
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [t]: [L; 1]) -> L {
        self.at(t)
    }
    fn scaling(&self) -> Option<Scaling<C>> {
        self.left()
    }
}

/// Of x and its bias.
impl<C: Compute, K: Curve<C>> Formula<C, 2> for Value<C, K> {
    const COMPUTES_MUCH: bool = K::COMPUTES_MUCH;
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [x, bias]: [L; 2]) -> L {
        self.at(x.add(bias))
    }
    fn scaling(&self) -> Option<Scaling<C>> {
        self.left()
    }
}

/// `gain · f⁽ⁿ⁾(t) · stream` inside the clamp.
struct Derivative<'a, C, K> {
    curve: K,
    gain: C,
    clamp: Option<C>,
    order: &'a Order<C>,
}

impl<C: Compute, K: Curve<C>> Derivative<'_, C, K> {
    #[inline(always)]
    fn at<L: Lane<C>>(&self, stream: L, t: L) -> L {
        let derivative = match self.order.n {
            1 => self.curve.slope(t),
            _ => self.curve.derivative(t, self.order),
        };
        let gain = t.splat(self.gain);
        let product = stream.mul(derivative.mul(gain));
        match self.clamp {
            None => product,
            Some(clamp) => {
                let size = self.curve.value(t).mul(gain).abs();
                size.where_greater(t.splat(clamp), t.splat(C::default()), product)
            }
        }
    }
}

/// Of the stream and t.
impl<C: Compute, K: Curve<C>> Formula<C, 2> for Derivative<'_, C, K> {
    const COMPUTES_MUCH: bool = K::COMPUTES_MUCH;
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [stream, t]: [L; 2]) -> L {
        self.at(stream, t)
    }
}

/// Of x, the stream and the bias of x.
impl<C: Compute, K: Curve<C>> Formula<C, 3> for Derivative<'_, C, K> {
    const COMPUTES_MUCH: bool = K::COMPUTES_MUCH;
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [x, stream, bias]: [L; 3]) -> L {
        self.at(stream, x.add(bias))
    }
}

#[cfg(test)]
mod tests;
