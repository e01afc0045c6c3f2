//! The arithmetic of one element, written once for every kernel of the CPU.

use crate::core::dtype::Compute;
use crate::devices::cpu::simd::{Formula, Lane};

/// `value` where `sign > 0`, else `alpha · value`: forward with both the same, backward with both apart.
pub struct Leaky<C> {
    /// The slope on the negative side and at zero.
    pub alpha: C,
}

/// The predicate and the two branches.
#[inline(always)]
pub fn leaky<C: Compute, L: Lane<C>>(sign: L, value: L, alpha: C) -> L {
    sign.where_positive(value, value.splat(alpha).mul(value))
}

impl<C: Compute> Formula<C, 1> for Leaky<C> {
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [x]: [L; 1]) -> L {
        leaky(x, x, self.alpha)
    }
}

impl<C: Compute> Formula<C, 2> for Leaky<C> {
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [sign, gradient]: [L; 2]) -> L {
        leaky(sign, gradient, self.alpha)
    }
}
