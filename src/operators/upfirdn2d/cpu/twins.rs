//! Two sums whose sources overlap: neighbouring output rows, or the two phases of an upsampled row. Each source
//! is loaded once for both, so that long kernels wait for their arithmetic and not for their loads. Terms are
//! added in the order of [`sums`](super::sums).
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use smallvec::SmallVec;

use super::phases::Phases;
use super::registers::Access;
use super::rows::{Ahead, Rows};
use crate::core::dtype::Element;
use crate::operators::upfirdn2d::params::Axis;

/// How much later the second sum's sources may start.
const MOST_SHIFT: usize = 2;

/// Sums of `N` terms, the second of which starts `SHIFT` sources later, with `P` sets of taps: one for each sum, or
/// one for both.
#[derive(Clone, Copy)]
pub struct Twins<S, R, const N: usize, const SHIFT: usize, const P: usize> {
    sources: [*const S; N],
    /// Those of the second sum alone.
    more: [*const S; MOST_SHIFT],
    taps: [[R; N]; P],
}

impl<S, R, const N: usize, const SHIFT: usize, const P: usize> Twins<S, R, N, SHIFT, P>
where
    S: Element<Compute = R::Number>,
    R: Access<S>,
{
    /// `N + SHIFT` sources and `N` taps for each of `P` sums.
    ///
    /// # Safety
    /// The register's level was detected.
    #[inline(always)]
    pub unsafe fn new(sources: &[*const S], taps: &[R::Number]) -> Self {
        // SAFETY: the caller's promise that the level was detected.
        unsafe {
            let first = [R::splat(taps[0]); N];
            let mut twins = Twins { sources: [sources[0]; N], more: [sources[0]; MOST_SHIFT], taps: [first; P] };
            twins.sources.copy_from_slice(&sources[..N]);
            twins.more[..SHIFT].copy_from_slice(&sources[N..N + SHIFT]);
            for p in 0..P {
                for k in 0..N {
                    twins.taps[p][k] = R::splat(taps[p * N + k]);
                }
            }
            twins
        }
    }
}

impl<S, R, const N: usize, const SHIFT: usize, const P: usize> Phases<R, 2> for Twins<S, R, N, SHIFT, P>
where
    S: Element<Compute = R::Number>,
    R: Access<S>,
{
    #[inline(always)]
    unsafe fn blocks<const B: usize>(&self, q: usize) -> [[R; B]; 2] {
        let mut sums = [[self.taps[0][0]; B]; 2];
        for b in 0..B {
            for k in 0..N + SHIFT {
                let source = if k < N { self.sources[k] } else { self.more[k - N] };
                // SAFETY: the caller's promise.
                let value = unsafe { R::load(source.add(q + b * R::LANES)) };
                if k < N {
                    let tap = self.taps[0][k];
                    sums[0][b] = if k == 0 { value.mul(tap) } else { value.multiply_add(tap, sums[0][b]) };
                }
                if k >= SHIFT {
                    let tap = self.taps[P - 1][k - SHIFT];
                    sums[1][b] = if k == SHIFT { value.mul(tap) } else { value.multiply_add(tap, sums[1][b]) };
                }
            }
        }
        sums
    }

    #[inline(always)]
    fn advance(&mut self, bytes: isize) {
        for k in 0..N {
            self.sources[k] = self.sources[k].wrapping_byte_offset(bytes);
        }
        for k in 0..SHIFT {
            self.more[k] = self.more[k].wrapping_byte_offset(bytes);
        }
    }
}

/// Whether neighbouring sums along this axis are compiled as twins.
pub fn exist(axis: &Axis) -> bool {
    matches!((axis.up, axis.down, axis.taps), (2, 1, 12) | (1, 2, 12))
}

/// Pairs of rows with the same taps.
pub struct PairedRows<S: Element> {
    /// The sources of the first pair.
    pub sources: SmallVec<[*const S; 16]>,
    /// How many bytes they have moved on.
    pub moved: isize,
    /// The taps of the first row and, unless they are the same, of the second.
    pub taps: SmallVec<[S::Compute; 16]>,
    /// How many sources later the second row's start.
    pub shift: usize,
    /// Where in a target row the first two sums go. The others follow them: one by one if these are neighbours, else
    /// every second one.
    pub places: [usize; 2],
    /// Bytes from the first row's target to the second's.
    pub second: isize,
    /// How many pairs and how far apart.
    pub rows: Rows,
    /// Rows that will be read soon, and how many of them for each pair.
    pub ahead: Option<(Ahead, usize)>,
}

impl<S: Element> Default for PairedRows<S> {
    fn default() -> Self {
        PairedRows {
            sources: SmallVec::new(),
            moved: 0,
            taps: SmallVec::new(),
            shift: 0,
            places: [0, 1],
            second: 0,
            rows: Rows::ONE,
            ahead: None,
        }
    }
}

/// Writes `count` sums to each of the target's rows; false, with nothing done, where that is not compiled.
///
/// # Safety
/// The register's level was detected; `count` elements are readable at every source and writable in the target, which
/// overlaps no source.
#[inline(always)]
pub unsafe fn write<S, D, R>(rows: &PairedRows<S>, target: *mut D, count: usize) -> bool
where
    S: Element<Compute = R::Number>,
    D: Element<Compute = R::Number>,
    R: Access<S> + Access<D>,
{
    if !R::STREAMS {
        return false;
    }
    // Numbers that are widened when they are loaded; others of so few terms are summed without rows in between.
    let narrow = size_of::<S>() < size_of::<R::Number>();
    // SAFETY: the caller's promise, handed on.
    unsafe {
        match (rows.sources.len().wrapping_sub(rows.shift), rows.shift, rows.taps.len()) {
            (6, 0, 12) => pairs::<S, D, R, 6, 0, 2>(rows, target, count),
            (6, 1, 12) => pairs::<S, D, R, 6, 1, 2>(rows, target, count),
            (12, 2, 12) => pairs::<S, D, R, 12, 2, 1>(rows, target, count),
            (4, 1, 4) if narrow => pairs::<S, D, R, 4, 1, 1>(rows, target, count),
            _ => false,
        }
    }
}

#[inline(always)]
unsafe fn pairs<S, D, R, const N: usize, const SHIFT: usize, const P: usize>(
    rows: &PairedRows<S>,
    target: *mut D,
    count: usize,
) -> bool
where
    S: Element<Compute = R::Number>,
    D: Element<Compute = R::Number>,
    R: Access<S> + Access<D>,
{
    let [place, next] = rows.places;
    let split = next != place + 1;
    let step = 2 * R::LANES;
    if count < step || (split && !count.is_multiple_of(2)) {
        return false;
    }
    // SAFETY: the promise of `write`; every access is to places below `count`.
    unsafe {
        let mut twins = Twins::<S, R, N, SHIFT, P>::new(&rows.sources, &rows.taps);
        twins.advance(rows.moved);
        let mut target = target;
        let mut last = rows.sources[rows.sources.len() - 1].cast::<u8>().wrapping_offset(rows.moved);
        for _ in 0..rows.rows.count {
            let targets = [target, target.wrapping_byte_offset(rows.second)];
            let mut q = 0;
            while q < count {
                // The last registers overlap those before rather than reach over the end.
                q = q.min(count - step);
                if let Some((ahead, rows)) = rows.ahead {
                    ahead.ask::<R>(last.wrapping_add(q * size_of::<S>()), rows);
                }
                if split {
                    let blocks = [twins.blocks::<1>(q), twins.blocks::<1>(q + R::LANES)];
                    for row in 0..2 {
                        let [even, odd] = R::deinterleave::<2>([blocks[0][row][0], blocks[1][row][0]]);
                        even.store(targets[row].wrapping_add(place + q / 2));
                        odd.store(targets[row].wrapping_add(next + q / 2));
                    }
                } else {
                    for q in [q, q + R::LANES] {
                        let [[one], [other]] = twins.blocks::<1>(q);
                        one.store(targets[0].wrapping_add(place + q));
                        other.store(targets[1].wrapping_add(place + q));
                    }
                }
                q += step;
            }
            twins.advance(rows.rows.source);
            target = target.wrapping_byte_offset(rows.rows.target);
            last = last.wrapping_offset(rows.rows.source);
        }
    }
    true
}
