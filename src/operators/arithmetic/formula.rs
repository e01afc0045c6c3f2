//! The arithmetic of one element, written once for every kernel of the CPU.

use crate::core::dtype::Compute;
use crate::devices::cpu::simd::{Formula, Lane};

/// The sum of all operands, from the first to the last.
pub struct Sum;

impl<C: Compute, const N: usize> Formula<C, N> for Sum {
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, operands: [L; N]) -> L {
        let mut sum = operands[0];
        for operand in &operands[1..] {
            sum = sum.add(*operand);
        }
        sum
    }
}

/// The first operand less the second, or the second less the first.
pub struct Difference<const REVERSED: bool>;

impl<C: Compute, const REVERSED: bool> Formula<C, 2> for Difference<REVERSED> {
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [first, second]: [L; 2]) -> L {
        if REVERSED { second.sub(first) } else { first.sub(second) }
    }
}

/// The product of two operands.
pub struct Product;

impl<C: Compute> Formula<C, 2> for Product {
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [first, second]: [L; 2]) -> L {
        first.mul(second)
    }
}

/// An operand times a number.
pub struct Scaled<C>(pub C);

impl<C: Compute> Formula<C, 1> for Scaled<C> {
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [operand]: [L; 1]) -> L {
        operand.mul(operand.splat(self.0))
    }
}
