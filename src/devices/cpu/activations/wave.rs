//! Snake: `t + sin²(p t) / B` with `B = q + 1e-9`, the numbers p and q of one channel.

use crate::elementwise::{apply_to_row, apply_to_rows};
use crate::features::Level;
use crate::functions::{angle, exp};
use crate::simd::{Formula, Fused, Lane};
use crate::sources::SimdElement;
use firelu_core::dtype::Compute;

/// What is added to a divisor, so that it is not zero.
const NOT_ZERO: f64 = 1e-9;

/// Snake with a channel's numbers, and the order of a derivative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wave<C> {
    /// p.
    pub frequency: C,
    /// `1 / B`.
    pub inverse: C,
    /// The order of the derivative by t, from one on.
    order: usize,
    /// What the sine or cosine of `2 p t` is multiplied by in that derivative.
    factor: C,
}

impl<C: Compute> Wave<C> {
    /// Snake of a channel; without a beta it is alpha. Their exponentials count where `logscale`.
    pub fn new(alpha: C, beta: Option<C>, logscale: bool, order: usize) -> Self {
        let read = |number: C| if logscale { exp(Fused(number)).0 } else { number };
        let frequency = read(alpha);
        let inverse = C::from_f64(1.0) / (beta.map_or(frequency, read) + C::from_f64(NOT_ZERO));
        let double = frequency + frequency;
        let mut factor = frequency * inverse;
        for _ in 1..order {
            factor = factor * double;
        }
        // The derivative of the cosine is the negative sine, and so on.
        let factor = if order % 4 == 3 || order % 4 == 0 { C::default() - factor } else { factor };
        Wave { frequency, inverse, order, factor }
    }

    /// The derivative by t.
    #[inline(always)]
    fn derivative<L: Lane<C>>(&self, t: L) -> L {
        let (angle, factor) = (angle(t.mul(t.splat(self.frequency))), t.splat(self.factor));
        match self.order {
            1 => angle.sine_of_double().mul_add(factor, t.splat(C::from_f64(1.0))),
            order if order % 2 == 1 => angle.sine_of_double().mul(factor),
            _ => angle.cosine_of_double().mul(factor),
        }
    }
}

impl<C: SimdElement<Compute = C> + Compute> Wave<C> {
    /// Makes `t + sin²(p t) / B` of each `t`.
    pub fn apply(&self, level: Level, row: &mut [C]) {
        apply_to_row(level, self, row);
    }

    /// Multiplies each number of a stream by the derivative at `t`.
    pub fn multiply(&self, level: Level, stream: &mut [C], t: &[C]) {
        apply_to_rows(level, self, stream, t);
    }
}

impl<C: Compute> Formula<C, 1> for Wave<C> {
    const COMPUTES_MUCH: bool = true;
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [t]: [L; 1]) -> L {
        angle(t.mul(t.splat(self.frequency))).sine_squared().mul_add(t.splat(self.inverse), t)
    }
}

/// Of the stream and t.
impl<C: Compute> Formula<C, 2> for Wave<C> {
    const COMPUTES_MUCH: bool = true;
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [stream, t]: [L; 2]) -> L {
        stream.mul(self.derivative(t))
    }
}
