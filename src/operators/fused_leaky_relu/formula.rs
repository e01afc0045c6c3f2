//! The arithmetic of one element, written once for every kernel of the CPU.

use crate::core::dtype::Compute;
use crate::devices::cpu::simd::{Formula, Lane};
use crate::operators::leaky_relu::formula::leaky;

/// Bias, leaky ReLU and scale. Each step is rounded by itself: no multiply-add is fused, so that every
/// processor gives the same bits.
#[derive(Clone, Copy)]
pub struct Fused<C> {
    /// The slope where the sign is not positive.
    pub alpha: C,
    /// What the result is multiplied by.
    pub scale: C,
}

impl<C: Compute> Fused<C> {
    #[inline(always)]
    fn activate<L: Lane<C>>(&self, sign: L, value: L) -> L {
        leaky(sign, value, self.alpha).mul(value.splat(self.scale))
    }
}

/// `y` of `x` and `b`.
impl<C: Compute> Formula<C, 2> for Fused<C> {
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [x, bias]: [L; 2]) -> L {
        let sum = x.add(bias);
        self.activate(sum, sum)
    }
}

/// `dx` of a number with the sign of `x + b`, of `dy` and of an added bias.
impl<C: Compute> Formula<C, 3> for Fused<C> {
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [sign, gradient, bias]: [L; 3]) -> L {
        self.activate(sign, gradient.add(bias))
    }
}

/// `dx` where `dy` is omitted: of the sign and the added bias alone.
pub struct OfBias<C>(pub Fused<C>);

impl<C: Compute> Formula<C, 2> for OfBias<C> {
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [sign, bias]: [L; 2]) -> L {
        self.0.activate(sign, bias)
    }
}
