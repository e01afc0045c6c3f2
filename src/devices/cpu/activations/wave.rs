//! Snake: `t + sin²(p t) / B` with `B = q + 1e-9`, the numbers p and q of one channel.

use crate::elementwise::{apply_to_row, apply_to_rows};
use crate::features::Level;
use crate::functions::{angle, exp};
use crate::lanes::tree;
use crate::simd::element::MOST_LANES;
use crate::simd::{Formula, Fused, Lane, Several};
use crate::sources::SimdElement;
use crate::staged;
use firelu_core::dtype::Compute;

/// What is added to a divisor, so that it is not zero.
const NOT_ZERO: f64 = 1e-9;

/// Snake with a channel's numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wave<C> {
    /// p.
    pub frequency: C,
    /// `1 / B`.
    pub inverse: C,
}

impl<C: Compute> Wave<C> {
    /// Snake of a channel; without a beta it is alpha. Their exponentials count where `logscale`.
    pub fn new(alpha: C, beta: Option<C>, logscale: bool) -> Self {
        let read = |number: C| if logscale { exp(Fused(number)).0 } else { number };
        let frequency = read(alpha);
        let inverse = C::from_f64(1.0) / (beta.map_or(frequency, read) + C::from_f64(NOT_ZERO));
        Wave { frequency, inverse }
    }

    /// The derivative by t, of the sine of `2 p t`.
    #[inline(always)]
    fn slope<L: Lane<C>>(&self, sine_of_double: L) -> L {
        let factor = sine_of_double.splat(self.frequency * self.inverse);
        sine_of_double.mul_add(factor, sine_of_double.splat(C::from_f64(1.0)))
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

    /// As [`multiply`](Self::multiply); gives the sums over the row of the stream times the derivatives by p and by q.
    pub fn multiply_and_sum(&self, level: Level, stream: &mut [C], t: &[C]) -> [f64; 2] {
        let mut sums = [[C::default(); MOST_LANES]; 2];
        let (numbers, result) = ([stream.as_ptr(), t[..stream.len()].as_ptr()], stream.as_mut_ptr());
        // SAFETY: both rows have as many numbers, each read before it is written.
        unsafe { self.gradient(level, numbers, (result, stream.len(), false), (&mut sums, 0)) };
        sums.map(|lanes| tree(|lane| lanes[lane]))
    }

    /// The gradient of some numbers, from a stream and from t: the stream times the derivative by t is written, past the
    /// caches where it is streamed, and the streams times those by p and q are added to lanes, the first to the lane `first`.
    ///
    /// # Safety
    /// As [`staged::row_and_sums`].
    pub unsafe fn gradient(
        &self,
        level: Level,
        sources: [*const C; 2],
        to: (*mut C, usize, bool),
        lanes: (&mut [[C; MOST_LANES]; 2], usize),
    ) {
        // SAFETY: the caller's promise.
        unsafe { staged::row_and_sums(level, self, sources, to, lanes) }
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
        stream.mul(self.slope(angle(t.mul(t.splat(self.frequency))).sine_of_double()))
    }
}

/// Of the stream and t: the stream times the derivatives by t, by p and by q.
impl<C: Compute> Several<C, 2, 3> for Wave<C> {
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [stream, t]: [L; 2]) -> [L; 3] {
        let angle = angle(t.mul(t.splat(self.frequency)));
        let (sine, inverse) = (angle.sine_of_double(), t.splat(self.inverse));
        let by_frequency = stream.mul(t).mul(sine.mul(inverse));
        let square = t.splat(C::default() - self.inverse * self.inverse);
        [stream.mul(self.slope(sine)), by_frequency, stream.mul(angle.sine_squared().mul(square))]
    }
}
