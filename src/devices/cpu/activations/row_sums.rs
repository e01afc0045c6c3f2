//! Sums over rows: what the gradients of a wave's numbers are made of.

use super::Wave;
use crate::features::Level;
use crate::functions::angle;
use crate::lanes::{MOST_LANES, Run, tree};
use crate::simd::{Formula, Lane};
use crate::sources::{Last, SimdElement};
use firelu_core::dtype::Compute;

/// `stream · t · sin(2 p t) / B`.
struct ByFrequency<C>(Wave<C>);
/// `-stream · sin²(p t) / B²`.
struct ByDivisor<C>(Wave<C>);

impl<C: Compute> Formula<C, 2> for ByFrequency<C> {
    const COMPUTES_MUCH: bool = true;
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [stream, t]: [L; 2]) -> L {
        let sine = angle(t.mul(t.splat(self.0.frequency))).sine_of_double();
        stream.mul(t).mul(sine.mul(t.splat(self.0.inverse)))
    }
}

impl<C: Compute> Formula<C, 2> for ByDivisor<C> {
    const COMPUTES_MUCH: bool = true;
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [stream, t]: [L; 2]) -> L {
        let square = angle(t.mul(t.splat(self.0.frequency))).sine_squared();
        let factor = t.splat(C::default() - self.0.inverse * self.0.inverse);
        stream.mul(square.mul(factor))
    }
}

impl<C: SimdElement<Compute = C> + Compute> Wave<C> {
    /// The sums over a row of the derivatives by p and by q, times a stream.
    pub fn sums(&self, level: Level, stream: &[C], t: &[C]) -> [f64; 2] {
        [sum(level, &ByFrequency(*self), stream, t), sum(level, &ByDivisor(*self), stream, t)]
    }
}

fn sum<C: SimdElement<Compute = C> + Compute>(
    level: Level,
    formula: &impl Formula<C, 2>,
    first: &[C],
    second: &[C],
) -> f64 {
    let mut lanes = [C::default(); MOST_LANES];
    let pointers = [first.as_ptr(), second[..first.len()].as_ptr()];
    let run = Run { pointers, last: Last::Dense, target: std::ptr::null_mut(), streaming: false };
    // SAFETY: both rows have so many numbers, and there is no target.
    unsafe { run.add_to_lanes(level, formula, &mut lanes, 0, first.len()) };
    tree(|lane| lanes[lane])
}
