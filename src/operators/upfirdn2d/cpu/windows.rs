//! Registers that are shifted into each other: input rows as they are, or summed along y.
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use super::registers::{Access, Register};
use super::sums::Sum;
use crate::core::dtype::Element;

/// What outputs are computed from, some registers at a time.
pub trait Windows<R: Register, const P: usize> {
    /// Those registers.
    type Registers: Copy;
    /// Columns that each step takes, in registers.
    const STEP: usize;
    /// How many steps at once keep the processor busy.
    const AT_ONCE: usize;
    /// Whether steps read the columns of `current` again, which must be inside then.
    const LOOKS_BACK: bool = false;

    /// Which of their places are inside.
    type Masks: Copy;

    /// The places of the registers from a column on that are among the first `inside` columns.
    ///
    /// # Safety
    /// The register's level was detected.
    unsafe fn masks(column: isize, inside: isize) -> Self::Masks;

    /// The registers from a column on, zero outside the masks of that column.
    ///
    /// # Safety
    /// The columns inside are readable.
    unsafe fn at_edge(&self, column: isize, masks: Self::Masks) -> Self::Registers;

    /// One register of outputs for each phase, in the target's order.
    fn outputs(&self, current: &Self::Registers, next: &Self::Registers) -> [R; P];

    /// The outputs of `B` steps, of which the first ends at a column; `current` goes on to the last.
    ///
    /// # Safety
    /// All columns of those steps are inside.
    unsafe fn steps<const B: usize>(&self, current: &mut Self::Registers, column: usize) -> [[R; P]; B];

    /// Goes on to rows so many bytes further.
    fn advance(&mut self, bytes: isize);
}

/// The places of a register at `column` that are inside.
#[inline(always)]
fn places_inside(column: isize, inside: isize, lanes: usize) -> (usize, usize) {
    let lanes = lanes as isize;
    let to = (inside - column).clamp(0, lanes);
    ((-column).clamp(0, to) as usize, to as usize)
}

/// Whether the outputs of `P` phases are summed in pairs, in the target's order from the start.
const fn in_pairs<R: Register>(phases: usize, terms: usize) -> bool {
    phases == 2 && terms <= R::PAIRS
}

/// The taps of `P` phases of `N` terms, in each register the same or in pairs.
///
/// # Safety
/// The register's level was detected.
#[inline(always)]
pub unsafe fn taps_along_x<R: Register, const P: usize, const N: usize>(along_x: &[R::Number]) -> [[R; N]; P] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut taps = [[R::splat(along_x[0]); N]; P];
        for n in 0..N {
            let mut phases = [taps[0][0]; P];
            for p in 0..P {
                phases[p] = R::splat(along_x[p * N + n]);
            }
            if in_pairs::<R>(P, N) {
                phases = R::interleave::<P>(phases);
            }
            for p in 0..P {
                taps[p][n] = phases[p];
            }
        }
        taps
    }
}

/// Rows summed along y.
#[derive(Clone, Copy)]
pub struct Separable<R, S, const P: usize, const STEP: usize, const N: usize, const SECOND: usize> {
    /// The sum along y.
    pub sum: S,
    /// Taps along x of each phase.
    pub taps: [[R; N]; P],
}

impl<R: Register, S, const P: usize, const STEP: usize, const N: usize, const SECOND: usize>
    Separable<R, S, P, STEP, N, SECOND>
{
    /// The outputs of `B` steps, of which the first starts at `current`, in the target's order. The steps take turns:
    /// each sum waits for its last product, and the others are computed meanwhile.
    #[inline(always)]
    fn sums_along_x<const B: usize>(&self, current: &[R; STEP], next: &[[R; STEP]; B]) -> [[R; P]; B] {
        let mut values = [[current[0]; P]; B];
        for n in 0..N {
            for b in 0..B {
                let from = if b == 0 { current } else { &next[b - 1] };
                if in_pairs::<R>(P, N) {
                    let windows = from[0].pairs(next[b][0], n, SECOND);
                    for p in 0..P {
                        values[b][p] = match n {
                            0 => windows[p].mul(self.taps[0][0]),
                            _ => windows[p].multiply_add(self.taps[0][n], values[b][p]),
                        };
                    }
                    continue;
                }
                for p in 0..P {
                    let column = p * SECOND + n;
                    let (stream, shift) = (column % STEP, column / STEP);
                    let window = from[stream].shift(next[b][stream], shift);
                    values[b][p] = match n {
                        0 => window.mul(self.taps[p][0]),
                        _ => window.multiply_add(self.taps[p][n], values[b][p]),
                    };
                }
            }
        }
        if P > 1 && !in_pairs::<R>(P, N) {
            for b in 0..B {
                values[b] = R::interleave::<P>(values[b]);
            }
        }
        values
    }
}

impl<R: Register, S: Sum<R>, const P: usize, const STEP: usize, const N: usize, const SECOND: usize> Windows<R, P>
    for Separable<R, S, P, STEP, N, SECOND>
{
    type Registers = [R; STEP];
    type Masks = [S::Mask; STEP];
    const STEP: usize = STEP;
    const AT_ONCE: usize = 1;

    #[inline(always)]
    unsafe fn masks(column: isize, inside: isize) -> [S::Mask; STEP] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut masks = [S::mask(0, 0); STEP];
            for s in 0..STEP {
                let (from, to) = places_inside(column + (s * R::LANES) as isize, inside, R::LANES);
                masks[s] = S::mask(from, to);
            }
            masks
        }
    }

    #[inline(always)]
    unsafe fn at_edge(&self, column: isize, masks: [S::Mask; STEP]) -> [R; STEP] {
        // SAFETY: the caller's promise; only columns inside are read.
        unsafe {
            let mut sums = [R::splat(R::Number::default()); STEP];
            for s in 0..STEP {
                sums[s] = self.sum.within(column + (s * R::LANES) as isize, masks[s]);
            }
            if STEP == 1 { sums } else { R::deinterleave::<STEP>(sums) }
        }
    }

    #[inline(always)]
    fn outputs(&self, current: &[R; STEP], next: &[R; STEP]) -> [R; P] {
        let [values] = self.sums_along_x(current, &[*next]);
        values
    }

    #[inline(always)]
    unsafe fn steps<const B: usize>(&self, current: &mut [R; STEP], column: usize) -> [[R; P]; B] {
        let mut next = [*current; B];
        // SAFETY: the caller's promise.
        unsafe {
            if STEP == 1 {
                let sums = self.sum.block::<B>(column);
                for b in 0..B {
                    next[b][0] = sums[b];
                }
            } else if STEP * B == 4 {
                let sums = self.sum.block::<4>(column);
                for b in 0..B {
                    for s in 0..STEP {
                        next[b][s] = sums[b * STEP + s];
                    }
                    next[b] = R::deinterleave::<STEP>(next[b]);
                }
            } else {
                for b in 0..B {
                    next[b] = R::deinterleave::<STEP>(self.sum.block::<STEP>(column + b * STEP * R::LANES));
                }
            }
        }
        let values = self.sums_along_x(current, &next);
        *current = next[B - 1];
        values
    }

    #[inline(always)]
    fn advance(&mut self, bytes: isize) {
        self.sum.advance(bytes);
    }
}

/// `M` rows as they are, with `N` taps each.
#[derive(Clone, Copy)]
pub struct Direct<'a, T, R, const M: usize, const N: usize> {
    /// The rows.
    pub sources: [*const T; M],
    /// Their taps. They are too many for registers.
    pub taps: &'a [[R; N]; M],
}

impl<T, R, const M: usize, const N: usize> Windows<R, 1> for Direct<'_, T, R, M, N>
where
    T: Element<Compute = R::Number>,
    R: Access<T>,
{
    type Registers = [R; M];
    type Masks = R::Mask;
    const STEP: usize = 1;
    // One output is a long chain of sums, each waiting for the one before.
    const AT_ONCE: usize = 8;
    const LOOKS_BACK: bool = true;

    #[inline(always)]
    unsafe fn masks(column: isize, inside: isize) -> R::Mask {
        let (from, to) = places_inside(column, inside, R::LANES);
        // SAFETY: the caller's promise.
        unsafe { R::mask(from, to) }
    }

    #[inline(always)]
    unsafe fn at_edge(&self, column: isize, masks: R::Mask) -> [R; M] {
        // SAFETY: the caller's promise; only columns inside are read.
        unsafe {
            let mut rows = [R::splat(R::Number::default()); M];
            for m in 0..M {
                rows[m] = R::load_masked(self.sources[m].wrapping_offset(column), masks);
            }
            rows
        }
    }

    #[inline(always)]
    fn outputs(&self, current: &[R; M], next: &[R; M]) -> [R; 1] {
        let mut value = current[0].mul(self.taps[0][0]);
        for m in 0..M {
            for n in usize::from(m == 0)..N {
                value = current[m].shift(next[m], n).multiply_add(self.taps[m][n], value);
            }
        }
        [value]
    }

    #[inline(always)]
    unsafe fn steps<const B: usize>(&self, current: &mut [R; M], column: usize) -> [[R; 1]; B] {
        let mut values = [[self.taps[0][0]; 1]; B];
        // SAFETY: the caller's promise; the windows start a register before the column.
        unsafe {
            for m in 0..M {
                let window = self.sources[m].add(column - R::LANES);
                for n in 0..N {
                    for b in 0..B {
                        let numbers = R::load(window.add(n + b * R::LANES));
                        values[b][0] = match (m, n) {
                            (0, 0) => numbers.mul(self.taps[0][0]),
                            _ => numbers.multiply_add(self.taps[m][n], values[b][0]),
                        }
                        .in_turn();
                    }
                }
                current[m] = R::load(window.add(B * R::LANES));
            }
        }
        values
    }

    #[inline(always)]
    fn advance(&mut self, bytes: isize) {
        for m in 0..M {
            self.sources[m] = self.sources[m].wrapping_byte_offset(bytes);
        }
    }
}
