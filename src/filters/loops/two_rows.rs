//! Two sums whose sources overlap: neighbouring output rows, or the two phases of an upsampled row. Each source
//! is loaded once for both, so that long kernels wait for their arithmetic and not for their loads. Terms are
//! added in the order of [`sum`](super::sum).
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use smallvec::SmallVec;

use super::memory_access::{Prefetch, Rows};
use super::register::Access;
use super::sum::Phases;
use firelu_core::dtype::Element;

/// How much later the second sum's sources may start.
const MOST_SHIFT: usize = 2;

/// Sums of `N` terms, the second of which starts `SHIFT` sources later, with `P` sets of taps: one for each sum, or
/// one for both.
#[derive(Clone, Copy)]
pub struct TwoSums<S, R, const N: usize, const SHIFT: usize, const P: usize> {
    sources: [*const S; N],
    /// Those of the second sum alone.
    more: [*const S; MOST_SHIFT],
    taps: [[R; N]; P],
}

impl<S, R, const N: usize, const SHIFT: usize, const P: usize> TwoSums<S, R, N, SHIFT, P>
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
            let mut both = TwoSums { sources: [sources[0]; N], more: [sources[0]; MOST_SHIFT], taps: [first; P] };
            both.sources.copy_from_slice(&sources[..N]);
            both.more[..SHIFT].copy_from_slice(&sources[N..N + SHIFT]);
            for p in 0..P {
                for k in 0..N {
                    both.taps[p][k] = R::splat(taps[p * N + k]);
                }
            }
            both
        }
    }
}

impl<S, R, const N: usize, const SHIFT: usize, const P: usize> Phases<R, 2> for TwoSums<S, R, N, SHIFT, P>
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

/// Two sums of one row, of which each term starts a number after the one before: of each block a register is loaded, and
/// what follows it, and the terms are shifts of these. Nearly every load of a shifted row would cross a line.
#[derive(Clone, Copy)]
struct ShiftedSums<S, R, const N: usize, const SHIFT: usize> {
    source: *const S,
    taps: [[R; N]; 2],
}

impl<S, R, const N: usize, const SHIFT: usize> ShiftedSums<S, R, N, SHIFT>
where
    S: Element<Compute = R::Number>,
    R: Access<S>,
{
    /// None where the `N + SHIFT` sources are not such terms.
    ///
    /// # Safety
    /// The register's level was detected; there are so many sources, and `N` taps for each of two sums.
    #[inline(always)]
    unsafe fn new(sources: &[*const S], taps: &[R::Number]) -> Option<Self> {
        if !follow_each_other(sources) {
            return None;
        }
        // SAFETY: the caller's promise.
        unsafe {
            let mut both = ShiftedSums { source: sources[0], taps: [[R::splat(taps[0]); N]; 2] };
            for p in 0..2 {
                for k in 0..N {
                    both.taps[p][k] = R::splat(taps[p * N + k]);
                }
            }
            Some(both)
        }
    }
}

/// Whether each source starts a number after the one before.
fn follow_each_other<S>(sources: &[*const S]) -> bool {
    sources.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1))
}

impl<S, R, const N: usize, const SHIFT: usize> Phases<R, 2> for ShiftedSums<S, R, N, SHIFT>
where
    S: Element<Compute = R::Number>,
    R: Access<S>,
{
    #[inline(always)]
    unsafe fn blocks<const B: usize>(&self, q: usize) -> [[R; B]; 2] {
        let mut sums = [[self.taps[0][0]; B]; 2];
        for b in 0..B {
            // SAFETY: the caller's promise; of the second register no more is read than the last term has.
            let (value, next) = unsafe {
                let source = self.source.add(q + b * R::LANES);
                (R::load(source), R::load_masked(source.wrapping_add(R::LANES), R::mask(0, N + SHIFT - 1)))
            };
            for k in 0..N + SHIFT {
                let value = value.shift(next, k);
                if k < N {
                    let tap = self.taps[0][k];
                    sums[0][b] = if k == 0 { value.mul(tap) } else { value.multiply_add(tap, sums[0][b]) };
                }
                if k >= SHIFT {
                    let tap = self.taps[1][k - SHIFT];
                    sums[1][b] = if k == SHIFT { value.mul(tap) } else { value.multiply_add(tap, sums[1][b]) };
                }
            }
        }
        sums
    }

    #[inline(always)]
    fn advance(&mut self, bytes: isize) {
        self.source = self.source.wrapping_byte_offset(bytes);
    }
}

/// The same for any number of terms, at least one. The second sum starts before the first ends.
#[derive(Clone, Copy)]
struct LongTwoSums<'a, S: Element> {
    sources: &'a [*const S],
    moved: isize,
    /// Those of each sum.
    taps: [&'a [S::Compute]; 2],
    shift: usize,
}

impl<'a, S: Element> LongTwoSums<'a, S> {
    /// These rows; none where the sums do not overlap.
    fn new(rows: &'a PairedRows<S>) -> Option<Self> {
        let terms = rows.sources.len().checked_sub(rows.shift).filter(|&terms| rows.shift < terms)?;
        let second = rows.taps.len().checked_sub(terms).filter(|&second| second == 0 || second == terms)?;
        let taps = [&rows.taps[..terms], &rows.taps[second..]];
        Some(LongTwoSums { sources: &rows.sources, moved: 0, taps, shift: rows.shift })
    }

    /// Where source `k` is read from `q` on; there are so many.
    #[inline(always)]
    unsafe fn source(&self, k: usize, q: usize) -> *const S {
        // SAFETY: the caller's promise.
        unsafe { self.sources.get_unchecked(k).wrapping_byte_offset(self.moved).wrapping_add(q) }
    }

    /// The first term of a sum.
    #[inline(always)]
    unsafe fn start<R: Access<S>, const B: usize>(&self, sum: usize, q: usize) -> [R; B]
    where
        S: Element<Compute = R::Number>,
    {
        // SAFETY: the caller's promise; a sum has a term.
        unsafe {
            let (source, tap) = (self.source(sum * self.shift, q), R::splat(*self.taps[sum].get_unchecked(0)));
            let mut values = [tap; B];
            for b in 0..B {
                values[b] = R::load(source.add(b * R::LANES)).mul(tap);
            }
            values
        }
    }

    /// Adds term `k` of a sum, which has as many.
    #[inline(always)]
    unsafe fn add<R: Access<S>, const B: usize>(&self, values: &mut [R; B], sum: usize, k: usize, q: usize)
    where
        S: Element<Compute = R::Number>,
    {
        // SAFETY: the caller's promise.
        unsafe {
            let (source, tap) = (self.source(sum * self.shift + k, q), R::splat(*self.taps[sum].get_unchecked(k)));
            for b in 0..B {
                values[b] = R::load(source.add(b * R::LANES)).multiply_add(tap, values[b]);
            }
        }
    }
}

impl<S, R> Phases<R, 2> for LongTwoSums<'_, S>
where
    S: Element<Compute = R::Number>,
    R: Access<S>,
{
    #[inline(always)]
    unsafe fn blocks<const B: usize>(&self, q: usize) -> [[R; B]; 2] {
        let (terms, shift) = (self.taps[0].len(), self.shift);
        // SAFETY: the caller's promise; there are `terms` taps in each list, and `terms + shift` sources.
        unsafe {
            let [mut first, mut second] = [self.start::<R, B>(0, q), self.start::<R, B>(1, q)];
            for k in 1..=shift {
                self.add(&mut first, 0, k, q);
            }
            for k in shift + 1..terms {
                let source = self.source(k, q);
                let taps = [R::splat(*self.taps[0].get_unchecked(k)), R::splat(*self.taps[1].get_unchecked(k - shift))];
                for b in 0..B {
                    let value = R::load(source.add(b * R::LANES));
                    first[b] = value.multiply_add(taps[0], first[b]);
                    second[b] = value.multiply_add(taps[1], second[b]);
                }
            }
            for k in terms..terms + shift {
                self.add(&mut second, 1, k - shift, q);
            }
            [first, second]
        }
    }

    #[inline(always)]
    fn advance(&mut self, bytes: isize) {
        self.moved += bytes;
    }
}

/// Sums of fewer terms, if their number is not known to the compiler, are no faster in pairs.
const LONG: usize = 5;

/// Pairs of rows with the same taps.
pub struct PairedRows<S: Element> {
    /// The sources of the first pair.
    pub sources: SmallVec<[*const S; 32]>,
    /// How many bytes they have moved on.
    pub moved: isize,
    /// The taps of the first row and, unless they are the same, of the second.
    pub taps: SmallVec<[S::Compute; 32]>,
    /// How many sources later the second row's start.
    pub shift: usize,
    /// Where in a target row the first two sums go. The others follow them: one by one if these are neighbours, else
    /// every second one.
    pub places: [usize; 2],
    /// Bytes from the first row's target to the second's.
    pub second: isize,
    /// How many pairs and how far apart.
    pub rows: Rows,
    /// Which rows to prefetch, as many at a time as each pair is the first to read.
    pub prefetch: Option<Prefetch>,
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
            prefetch: None,
        }
    }
}

/// One compiled loop over pairs of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairLoop {
    /// Twelve terms, the second row's two sources later, whose even and odd columns part.
    Twelve,
    /// Six terms with taps of their own; whether the second row's start a source later.
    Six(bool),
    /// Four terms of numbers that are widened when they are loaded.
    Four,
    /// Any number of terms.
    Any,
}

impl<S: Element> PairedRows<S> {
    /// The loop for `count` sums a row on registers of so many lanes; none where rows are better summed one by one.
    pub fn choose(&self, count: usize, lanes: usize) -> Option<PairLoop> {
        let terms = self.sources.len().checked_sub(self.shift)?;
        let split = self.places[1] != self.places[0] + 1;
        // Others of so few terms are summed without rows in between.
        let widened = size_of::<S>() < size_of::<S::Compute>();
        match (terms, self.shift, self.taps.len(), split) {
            _ if count < 2 * lanes => None,
            (12, 2, 12, true) => count.is_multiple_of(2).then_some(PairLoop::Twelve),
            (_, _, _, true) => None,
            (6, shift @ (0 | 1), 12, _) => Some(PairLoop::Six(shift == 1)),
            (4, 1, 4, _) if widened => Some(PairLoop::Four),
            (LONG.., ..) => LongTwoSums::new(self).map(|_| PairLoop::Any),
            _ => None,
        }
    }
}

/// Writes `count` sums to each of the target's rows.
///
/// # Safety
/// What holds for every [loop](super), and [`PairedRows::choose`] has named a loop.
#[inline(always)]
pub unsafe fn write<S, D, R>(rows: &PairedRows<S>, target: *mut D, count: usize)
where
    S: Element<Compute = R::Number>,
    D: Element<Compute = R::Number>,
    R: Access<S> + Access<D>,
{
    let (sources, taps) = (&rows.sources[..], &rows.taps[..]);
    // SAFETY: the caller's promise, handed on.
    unsafe {
        match rows.choose(count, R::LANES) {
            Some(PairLoop::Twelve) => {
                write_split::<D, R>(TwoSums::<S, R, 12, 2, 1>::new(sources, taps), rows, target, count);
            }
            Some(PairLoop::Six(false)) => {
                if R::MANY
                    && let Some(both) = ShiftedSums::<S, R, 6, 0>::new(sources, taps)
                {
                    return write_rows::<D, R, 1>(both, rows, target, count);
                }
                write_rows::<D, R, 1>(TwoSums::<S, R, 6, 0, 2>::new(sources, taps), rows, target, count);
            }
            Some(PairLoop::Six(true)) => {
                if R::MANY
                    && let Some(both) = ShiftedSums::<S, R, 6, 1>::new(sources, taps)
                {
                    return write_rows::<D, R, 1>(both, rows, target, count);
                }
                write_rows::<D, R, 1>(TwoSums::<S, R, 6, 1, 2>::new(sources, taps), rows, target, count);
            }
            Some(PairLoop::Four) => {
                write_rows::<D, R, 1>(TwoSums::<S, R, 4, 1, 1>::new(sources, taps), rows, target, count);
            }
            // Registers enough for all taps: no tap is loaded again.
            Some(PairLoop::Any) if R::MANY && (sources.len(), rows.shift, taps.len()) == (14, 2, 12) => {
                write_rows::<D, R, 1>(TwoSums::<S, R, 12, 2, 1>::new(sources, taps), rows, target, count);
            }
            Some(PairLoop::Any) => {
                if let Some(both) = LongTwoSums::new(rows) {
                    write_rows::<D, R, 4>(both, rows, target, count);
                }
            }
            None => debug_assert!(false, "no loop writes such pairs"),
        }
    }
}

/// Rows whose even and odd columns part, an even number of them in all.
#[inline(always)]
unsafe fn write_split<D, R>(mut both: impl Phases<R, 2>, rows: &PairedRows<impl Element>, target: *mut D, count: usize)
where
    D: Element<Compute = R::Number>,
    R: Access<D>,
{
    let [even_place, odd_place] = rows.places;
    let mut pair = Pair::new(rows, target);
    both.advance(rows.moved);
    for _ in 0..rows.rows.count {
        let mut q = 0;
        // SAFETY: the caller's promise; every access is to places below `count`.
        unsafe {
            while q < count {
                // The last registers overlap those before rather than reach over the end.
                q = q.min(count - 2 * R::LANES);
                pair.prefetch::<R>(rows, q, 2);
                let blocks = [both.blocks::<1>(q), both.blocks::<1>(q + R::LANES)];
                for row in 0..2 {
                    let [even, odd] = R::deinterleave::<2>([blocks[0][row][0], blocks[1][row][0]]);
                    even.store(pair.targets[row].wrapping_add(even_place + q / 2));
                    odd.store(pair.targets[row].wrapping_add(odd_place + q / 2));
                }
                q += 2 * R::LANES;
            }
        }
        both.advance(rows.rows.source);
        pair.advance(rows);
    }
}

/// Rows as they are, `B` registers at a time.
#[inline(always)]
unsafe fn write_rows<D, R, const B: usize>(
    mut both: impl Phases<R, 2>,
    rows: &PairedRows<impl Element>,
    target: *mut D,
    count: usize,
) where
    D: Element<Compute = R::Number>,
    R: Access<D>,
{
    // Whole lines are prefetched.
    let turns = if B == 1 { 2 } else { 1 };
    let mut pair = Pair::new(rows, target.wrapping_add(rows.places[0]));
    both.advance(rows.moved);
    for _ in 0..rows.rows.count {
        let mut q = 0;
        // SAFETY: the caller's promise; every access is to places below `count`.
        unsafe {
            while q + turns * B * R::LANES <= count {
                pair.prefetch::<R>(rows, q, turns * B);
                for _ in 0..turns {
                    pair.store(both.blocks::<B>(q), q);
                    q += B * R::LANES;
                }
            }
            while B > 2 && q + 2 * R::LANES <= count {
                pair.store(both.blocks::<2>(q), q);
                q += 2 * R::LANES;
            }
            while q < count {
                // The last register overlaps the one before rather than reach over the end.
                q = q.min(count - R::LANES);
                pair.store(both.blocks::<1>(q), q);
                q += R::LANES;
            }
        }
        both.advance(rows.rows.source);
        pair.advance(rows);
    }
}

/// The pair of rows at hand.
struct Pair<D> {
    targets: [*mut D; 2],
    /// The last source, and the bytes of its elements.
    last: *const u8,
    size: usize,
}

impl<D: Element> Pair<D> {
    #[inline(always)]
    fn new<S: Element>(rows: &PairedRows<S>, target: *mut D) -> Self {
        let last = rows.sources[rows.sources.len() - 1].cast::<u8>().wrapping_offset(rows.moved);
        Pair { targets: [target, target.wrapping_byte_offset(rows.second)], last, size: size_of::<S>() }
    }

    /// Prefetches what will be read soon at the places of some registers from `q` on.
    #[inline(always)]
    fn prefetch<R: Access<D>>(&self, rows: &PairedRows<impl Element>, q: usize, registers: usize)
    where
        D: Element<Compute = R::Number>,
    {
        if let Some(prefetch) = rows.prefetch {
            let bytes = ((q * self.size) as isize, registers * R::LANES * self.size);
            prefetch.lines::<R>(self.last, bytes, prefetch.count);
        }
    }

    /// Stores registers from `q` on in both rows.
    #[inline(always)]
    unsafe fn store<R: Access<D>, const B: usize>(&self, sums: [[R; B]; 2], q: usize)
    where
        D: Element<Compute = R::Number>,
    {
        for row in 0..2 {
            for b in 0..B {
                // SAFETY: the caller's promise that there is room.
                unsafe { sums[row][b].store(self.targets[row].wrapping_add(q + b * R::LANES)) };
            }
        }
    }

    #[inline(always)]
    fn advance(&mut self, rows: &PairedRows<impl Element>) {
        for target in &mut self.targets {
            *target = target.wrapping_byte_offset(rows.rows.target);
        }
        self.last = self.last.wrapping_offset(rows.rows.source);
    }
}
