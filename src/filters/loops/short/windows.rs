//! Registers that are shifted into each other: input rows as they are, or summed along y.
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use super::rows_together::RowsTogether;
use crate::loops::register::{Access, Register};
use firelu_core::dtype::Element;

/// What `K` rows of outputs are computed from, some registers at a time.
pub trait Windows<R: Register, const P: usize, const K: usize> {
    /// Those registers.
    type Registers: Copy;
    /// Columns that each step takes, in registers.
    const STEP: usize;
    /// How many steps at once keep the processor busy.
    const AT_ONCE: usize;
    /// How many input rows further the next `K` rows start.
    const NEW_ROWS: usize;
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

    /// The registers that start a column before `current`, which follow `previous`.
    fn one_before(&self, previous: &Self::Registers, current: &Self::Registers) -> Self::Registers;

    /// One register of outputs for each row and phase, in the target's order.
    fn outputs(&self, current: &Self::Registers, next: &Self::Registers) -> [[R; P]; K];

    /// The outputs of `B` steps, of which the first ends at a column; `current` goes on to the last.
    ///
    /// # Safety
    /// All columns of those steps are inside.
    unsafe fn steps<const B: usize>(&self, current: &mut Self::Registers, column: usize) -> [[[R; P]; B]; K];

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

impl<R, S, const P: usize, const STEP: usize, const N: usize, const SECOND: usize, const K: usize> Windows<R, P, K>
    for Separable<R, S, P, STEP, N, SECOND>
where
    R: Register,
    S: RowsTogether<R, K>,
{
    type Registers = [[R; STEP]; K];
    type Masks = [S::Mask; STEP];
    const STEP: usize = STEP;
    const AT_ONCE: usize = 1;
    const NEW_ROWS: usize = S::NEW_ROWS;

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
    unsafe fn at_edge(&self, column: isize, masks: [S::Mask; STEP]) -> [[R; STEP]; K] {
        let mut rows = [[self.taps[0][0]; STEP]; K];
        for s in 0..STEP {
            // SAFETY: the caller's promise; only columns inside are read.
            let sums = unsafe { self.sum.within(column + (s * R::LANES) as isize, masks[s]) };
            for k in 0..K {
                rows[k][s] = sums[k];
            }
        }
        if STEP > 1 {
            for k in 0..K {
                rows[k] = R::deinterleave::<STEP>(rows[k]);
            }
        }
        rows
    }

    #[inline(always)]
    fn one_before(&self, previous: &[[R; STEP]; K], current: &[[R; STEP]; K]) -> [[R; STEP]; K] {
        let mut rows = *current;
        for k in 0..K {
            rows[k][0] = previous[k][STEP - 1].shift(current[k][STEP - 1], R::LANES - 1);
            for s in 1..STEP {
                rows[k][s] = current[k][s - 1];
            }
        }
        rows
    }

    #[inline(always)]
    fn outputs(&self, current: &[[R; STEP]; K], next: &[[R; STEP]; K]) -> [[R; P]; K] {
        let mut rows = [[self.taps[0][0]; P]; K];
        for k in 0..K {
            [rows[k]] = self.sums_along_x(&current[k], &[next[k]]);
        }
        rows
    }

    #[inline(always)]
    unsafe fn steps<const B: usize>(&self, current: &mut [[R; STEP]; K], column: usize) -> [[[R; P]; B]; K] {
        let mut next = [[current[0]; B]; K];
        // SAFETY: the caller's promise.
        unsafe {
            if STEP == 1 {
                let sums = self.sum.block::<B>(column);
                for k in 0..K {
                    for b in 0..B {
                        next[k][b][0] = sums[k][b];
                    }
                }
            } else if STEP * B == 4 {
                let sums = self.sum.block::<4>(column);
                for k in 0..K {
                    for b in 0..B {
                        for s in 0..STEP {
                            next[k][b][s] = sums[k][b * STEP + s];
                        }
                        next[k][b] = R::deinterleave::<STEP>(next[k][b]);
                    }
                }
            } else {
                for b in 0..B {
                    let sums = self.sum.block::<STEP>(column + b * STEP * R::LANES);
                    for k in 0..K {
                        next[k][b] = R::deinterleave::<STEP>(sums[k]);
                    }
                }
            }
        }
        let mut rows = [[[self.taps[0][0]; P]; B]; K];
        for k in 0..K {
            rows[k] = self.sums_along_x(&current[k], &next[k]);
            current[k] = next[k][B - 1];
        }
        rows
    }

    #[inline(always)]
    fn advance(&mut self, bytes: isize) {
        self.sum.advance(bytes);
    }
}

/// `M` rows as they are, with `N` taps each, for `M + 1 - N` rows of outputs.
#[derive(Clone, Copy)]
pub struct Direct<'a, T, R, const M: usize, const N: usize> {
    /// The first row.
    pub first: *const T,
    /// Bytes from row to row.
    pub pitch: isize,
    /// The taps of each of `N` rows. They are too many for most registers.
    pub taps: &'a [[R; N]; N],
}

impl<T, R, const M: usize, const N: usize> Direct<'_, T, R, M, N> {
    /// A row from a column on.
    #[inline(always)]
    fn row(&self, row: usize, column: isize) -> *const T {
        self.first.wrapping_byte_offset(self.pitch.wrapping_mul(row as isize)).wrapping_offset(column)
    }
}

impl<T, R, const M: usize, const N: usize, const K: usize> Windows<R, 1, K> for Direct<'_, T, R, M, N>
where
    T: Element<Compute = R::Number>,
    R: Access<T>,
{
    type Registers = [R; M];
    type Masks = R::Mask;
    const STEP: usize = 1;
    // One output is a long chain of sums, each waiting for the one before: eight are summed in turn.
    const AT_ONCE: usize = 8 / K;
    const NEW_ROWS: usize = K;
    const LOOKS_BACK: bool = true;

    #[inline(always)]
    unsafe fn masks(column: isize, inside: isize) -> R::Mask {
        let (from, to) = places_inside(column, inside, R::LANES);
        // SAFETY: the caller's promise.
        unsafe { R::mask(from, to) }
    }

    #[inline(always)]
    unsafe fn at_edge(&self, column: isize, masks: R::Mask) -> [R; M] {
        let mut rows = [self.taps[0][0]; M];
        for m in 0..M {
            // SAFETY: the caller's promise; only columns inside are read.
            rows[m] = unsafe { R::load_masked(self.row(m, column), masks) };
        }
        rows
    }

    #[inline(always)]
    fn one_before(&self, previous: &[R; M], current: &[R; M]) -> [R; M] {
        let mut rows = *current;
        for m in 0..M {
            rows[m] = previous[m].shift(current[m], R::LANES - 1);
        }
        rows
    }

    #[inline(always)]
    fn outputs(&self, current: &[R; M], next: &[R; M]) -> [[R; 1]; K] {
        let mut rows = [[self.taps[0][0]; 1]; K];
        for k in 0..K {
            let mut value = current[k].mul(self.taps[0][0]);
            for m in 0..N {
                for n in usize::from(m == 0)..N {
                    value = current[k + m].shift(next[k + m], n).multiply_add(self.taps[m][n], value);
                }
            }
            rows[k] = [value];
        }
        rows
    }

    #[inline(always)]
    unsafe fn steps<const B: usize>(&self, current: &mut [R; M], column: usize) -> [[[R; 1]; B]; K] {
        const { assert!(M + 1 == K + N) };
        let mut values = [[[self.taps[0][0]; 1]; B]; K];
        // SAFETY: the caller's promise; the windows start a register before the column.
        unsafe {
            for m in 0..M {
                let window = self.row(m, (column - R::LANES) as isize);
                for n in 0..N {
                    for b in 0..B {
                        let numbers = R::load(window.add(n + b * R::LANES));
                        for k in 0..K {
                            if k <= m && m < k + N {
                                values[k][b][0] = match (m - k, n) {
                                    (0, 0) => numbers.mul(self.taps[0][0]),
                                    (m, n) => numbers.multiply_add(self.taps[m][n], values[k][b][0]),
                                }
                                .in_turn();
                            }
                        }
                    }
                }
                current[m] = R::load(window.add(B * R::LANES));
            }
        }
        values
    }

    #[inline(always)]
    fn advance(&mut self, bytes: isize) {
        self.first = self.first.wrapping_byte_offset(bytes);
    }
}
