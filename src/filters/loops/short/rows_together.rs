//! Output rows above each other share most of the input rows that they are summed from: each of those is loaded once
//! for all of them. Terms are added in the order of [`sum`](crate::loops::sum).
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use crate::loops::register::{Access, Register};
use crate::loops::sum::Sum;
use firelu_core::dtype::Element;

/// Sums along y for `K` output rows at once.
pub trait RowsTogether<R: Register, const K: usize> {
    /// How many input rows further the next `K` output rows start.
    const NEW_ROWS: usize;
    /// Which places of a register are summed.
    type Mask: Copy;

    /// `B` registers of each row from column `q` on.
    ///
    /// # Safety
    /// Every input row is readable there.
    unsafe fn block<const B: usize>(&self, q: usize) -> [[R; B]; K];

    /// The places `from .. to`.
    ///
    /// # Safety
    /// The register's level was detected.
    unsafe fn mask(from: usize, to: usize) -> Self::Mask;

    /// The sums at the places of a mask in a register that starts at `q`; the others are zero.
    ///
    /// # Safety
    /// Every input row is readable at those places.
    unsafe fn within(&self, q: isize, mask: Self::Mask) -> [R; K];

    /// Moves every input row on by so many bytes.
    fn advance(&mut self, bytes: isize);
}

/// A single row; `NEW_ROWS` input rows further is the next.
#[derive(Clone, Copy)]
pub struct OneRow<S, const NEW_ROWS: usize>(pub S);

impl<R: Register, S: Sum<R>, const NEW_ROWS: usize> RowsTogether<R, 1> for OneRow<S, NEW_ROWS> {
    const NEW_ROWS: usize = NEW_ROWS;
    type Mask = S::Mask;

    #[inline(always)]
    unsafe fn block<const B: usize>(&self, q: usize) -> [[R; B]; 1] {
        // SAFETY: the caller's promise.
        [unsafe { self.0.block::<B>(q) }]
    }

    #[inline(always)]
    unsafe fn mask(from: usize, to: usize) -> S::Mask {
        // SAFETY: the caller's promise.
        unsafe { S::mask(from, to) }
    }

    #[inline(always)]
    unsafe fn within(&self, q: isize, mask: S::Mask) -> [R; 1] {
        // SAFETY: the caller's promise.
        [unsafe { self.0.within(q, mask) }]
    }

    #[inline(always)]
    fn advance(&mut self, bytes: isize) {
        self.0.advance(bytes);
    }
}

/// `K` rows of `N` terms each. Rows recur every `PERIOD` rows, `INPUTS` input rows further; the second of two starts
/// `LATER` input rows after the first.
#[derive(Clone, Copy)]
pub struct SharedRows<S, R, const N: usize, const PERIOD: usize, const INPUTS: usize, const LATER: usize> {
    /// The first input row.
    first: *const S,
    /// Bytes from input row to input row.
    pitch: isize,
    taps: [[R; N]; PERIOD],
}

impl<S, R, const N: usize, const PERIOD: usize, const INPUTS: usize, const LATER: usize>
    SharedRows<S, R, N, PERIOD, INPUTS, LATER>
where
    S: Element<Compute = R::Number>,
    R: Access<S>,
{
    /// The rows from the one whose first input row is `first` on; taps of each row of a period.
    ///
    /// # Safety
    /// The register's level was detected.
    #[inline(always)]
    pub unsafe fn new(first: *const S, pitch: isize, taps: &[R::Number]) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let mut shared = SharedRows { first, pitch, taps: [[R::splat(taps[0]); N]; PERIOD] };
            for row in 0..PERIOD {
                for k in 0..N {
                    shared.taps[row][k] = R::splat(taps[row * N + k]);
                }
            }
            shared
        }
    }

    /// Which input row an output row starts with.
    const fn start(row: usize) -> usize {
        row / PERIOD * INPUTS + row % PERIOD * LATER
    }

    /// An input row from a column on.
    #[inline(always)]
    fn row(&self, row: usize, q: isize) -> *const S {
        self.first.wrapping_byte_offset(self.pitch.wrapping_mul(row as isize)).wrapping_offset(q)
    }

    /// Adds what input row `input` is to each of the sums.
    #[inline(always)]
    fn add<const K: usize>(&self, sums: &mut [R; K], input: usize, value: R) {
        for row in 0..K {
            let start = Self::start(row);
            if input == start {
                sums[row] = value.mul(self.taps[row % PERIOD][0]);
            } else if start < input && input < start + N {
                sums[row] = value.multiply_add(self.taps[row % PERIOD][input - start], sums[row]);
            }
        }
    }
}

impl<S, R, const K: usize, const N: usize, const PERIOD: usize, const INPUTS: usize, const LATER: usize>
    RowsTogether<R, K> for SharedRows<S, R, N, PERIOD, INPUTS, LATER>
where
    S: Element<Compute = R::Number>,
    R: Access<S>,
{
    const NEW_ROWS: usize = K / PERIOD * INPUTS;
    type Mask = R::Mask;

    #[inline(always)]
    unsafe fn block<const B: usize>(&self, q: usize) -> [[R; B]; K] {
        let mut sums = [[self.taps[0][0]; B]; K];
        for b in 0..B {
            let mut column = [self.taps[0][0]; K];
            for input in 0..Self::start(K - 1) + N {
                // SAFETY: the caller's promise.
                let value = unsafe { R::load(self.row(input, (q + b * R::LANES) as isize)) };
                self.add(&mut column, input, value);
            }
            for row in 0..K {
                sums[row][b] = column[row];
            }
        }
        sums
    }

    #[inline(always)]
    unsafe fn mask(from: usize, to: usize) -> R::Mask {
        // SAFETY: the caller's promise.
        unsafe { R::mask(from, to) }
    }

    #[inline(always)]
    unsafe fn within(&self, q: isize, mask: R::Mask) -> [R; K] {
        let mut sums = [self.taps[0][0]; K];
        for input in 0..Self::start(K - 1) + N {
            // SAFETY: the caller's promise.
            let value = unsafe { R::load_masked(self.row(input, q), mask) };
            self.add(&mut sums, input, value);
        }
        sums
    }

    #[inline(always)]
    fn advance(&mut self, bytes: isize) {
        self.first = self.first.wrapping_byte_offset(bytes);
    }
}
