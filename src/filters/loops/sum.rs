//! The one hot loop: `target[q] = Σ_k tap_k · source_k[q]`. A vertical filter sums rows, a horizontal
//! one sums shifts of a row, a two-dimensional one both. Terms are added in their order, whatever the
//! place of `q` in a register or a task, so the same sums have the same bits everywhere.
//!
//! No closures here: unlike functions that are always inlined, they would be compiled without the
//! level's instructions.
#![allow(clippy::needless_range_loop)]

use super::memory_access::{LINE, Prefetch, Rows, Stores};
use super::register::{Access, Register};
use firelu_core::dtype::Element;

/// Values of the sum at `q` and after.
pub trait Sum<R: Register> {
    /// `B` registers from `q` on.
    ///
    /// # Safety
    /// Every source is readable there.
    unsafe fn block<const B: usize>(&self, q: usize) -> [R; B];

    /// Which places of a register are summed.
    type Mask: Copy;

    /// The places `from .. to`.
    ///
    /// # Safety
    /// The register's level was detected.
    unsafe fn mask(from: usize, to: usize) -> Self::Mask;

    /// The values at the places of a mask in a register that starts at `q`; the others are zero.
    ///
    /// # Safety
    /// Every source is readable at those places.
    unsafe fn within(&self, q: isize, mask: Self::Mask) -> R;

    /// Moves every source on by so many bytes.
    fn advance(&mut self, bytes: isize);
}

/// The sums of all phases.
pub trait Phases<R: Register, const P: usize> {
    /// `B` registers of each phase from `q` on.
    ///
    /// # Safety
    /// Every source is readable there.
    unsafe fn blocks<const B: usize>(&self, q: usize) -> [[R; B]; P];

    /// Moves every source on by so many bytes.
    fn advance(&mut self, bytes: isize);
}

impl<R: Register, S: Sum<R>, const P: usize> Phases<R, P> for [S; P] {
    #[inline(always)]
    unsafe fn blocks<const B: usize>(&self, q: usize) -> [[R; B]; P] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut blocks = [self[0].block::<B>(q); P];
            for p in 1..P {
                blocks[p] = self[p].block::<B>(q);
            }
            blocks
        }
    }

    #[inline(always)]
    fn advance(&mut self, bytes: isize) {
        for p in 0..P {
            self[p].advance(bytes);
        }
    }
}

/// A number of terms known to the compiler: sources and taps stay in registers.
#[derive(Clone, Copy)]
pub struct Few<S, R, const N: usize> {
    sources: [*const S; N],
    /// All bits set where a source moves on with the rows, none where it is a row of zeros that stays.
    moving: [isize; N],
    taps: [R; N],
}

impl<S, R, const N: usize> Few<S, R, N>
where
    S: Element<Compute = R::Number>,
    R: Access<S>,
{
    /// The first `N` of these sources and taps.
    ///
    /// # Safety
    /// The register's level was detected.
    #[inline(always)]
    pub unsafe fn new(sources: &[*const S], taps: &[R::Number]) -> Self {
        // SAFETY: the caller's promise that the level was detected.
        unsafe {
            let mut few = Few { sources: [sources[0]; N], moving: [-1; N], taps: [R::splat(taps[0]); N] };
            for k in 1..N {
                few.sources[k] = sources[k];
                few.taps[k] = R::splat(taps[k]);
            }
            few
        }
    }

    /// The same, where a source that is `zeros` stays where it is.
    #[inline(always)]
    pub fn staying_at(mut self, zeros: *const S) -> Self {
        for k in 0..N {
            self.moving[k] = -isize::from(self.sources[k] != zeros);
        }
        self
    }
}

impl<S, R, const N: usize> Sum<R> for Few<S, R, N>
where
    S: Element<Compute = R::Number>,
    R: Access<S>,
{
    type Mask = R::Mask;

    #[inline(always)]
    unsafe fn block<const B: usize>(&self, q: usize) -> [R; B] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sums = [self.taps[0]; B];
            for b in 0..B {
                sums[b] = R::load(self.sources[0].add(q + b * R::LANES)).mul(self.taps[0]);
            }
            for k in 1..N {
                for b in 0..B {
                    sums[b] = R::load(self.sources[k].add(q + b * R::LANES)).multiply_add(self.taps[k], sums[b]);
                }
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn mask(from: usize, to: usize) -> R::Mask {
        // SAFETY: the caller's promise.
        unsafe { R::mask(from, to) }
    }

    #[inline(always)]
    unsafe fn within(&self, q: isize, mask: R::Mask) -> R {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sum = R::load_masked(self.sources[0].wrapping_offset(q), mask).mul(self.taps[0]);
            for k in 1..N {
                let value = R::load_masked(self.sources[k].wrapping_offset(q), mask);
                sum = value.multiply_add(self.taps[k], sum);
            }
            sum
        }
    }

    #[inline(always)]
    fn advance(&mut self, bytes: isize) {
        for k in 0..N {
            self.sources[k] = self.sources[k].wrapping_byte_offset(bytes & self.moving[k]);
        }
    }
}

/// Terms that take turns in two rows, of each of which they start one number after the other: of each row a register is
/// loaded, and what follows it, and the terms are shifts of these. Nearly every load of a shifted row would cross a line.
#[derive(Clone, Copy)]
struct Turns<S, R, const N: usize> {
    sources: [*const S; 2],
    taps: [R; N],
}

impl<S, R, const N: usize> Turns<S, R, N>
where
    S: Element<Compute = R::Number>,
    R: Access<S>,
{
    /// None where the `N` sources are not such terms.
    ///
    /// # Safety
    /// The register's level was detected; there is a tap for each source.
    #[inline(always)]
    unsafe fn new(sources: &[*const S], taps: &[R::Number]) -> Option<Self> {
        if sources.len() != N || sources.windows(3).any(|three| three[2] != three[0].wrapping_add(1)) {
            return None;
        }
        // SAFETY: the caller's promise.
        unsafe {
            let mut turns = Turns { sources: [sources[0], sources[1]], taps: [R::splat(taps[0]); N] };
            for k in 1..N {
                turns.taps[k] = R::splat(taps[k]);
            }
            Some(turns)
        }
    }
}

impl<S, R, const N: usize> Sum<R> for Turns<S, R, N>
where
    S: Element<Compute = R::Number>,
    R: Access<S>,
{
    type Mask = R::Mask;

    #[inline(always)]
    unsafe fn block<const B: usize>(&self, q: usize) -> [R; B] {
        let mut sums = [self.taps[0]; B];
        for b in 0..B {
            let mut values = [[self.taps[0]; 2]; 2];
            for which in 0..2 {
                // SAFETY: the caller's promise; of the second register no more is read than the last term has.
                values[which] = unsafe {
                    let source = self.sources[which].add(q + b * R::LANES);
                    [R::load(source), R::load_masked(source.wrapping_add(R::LANES), R::mask(0, N / 2 - 1))]
                };
            }
            for k in 0..N {
                let [value, next] = values[k % 2];
                let value = value.shift(next, k / 2);
                sums[b] = if k == 0 { value.mul(self.taps[0]) } else { value.multiply_add(self.taps[k], sums[b]) };
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
    unsafe fn within(&self, q: isize, mask: R::Mask) -> R {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sum = R::load_masked(self.sources[0].wrapping_offset(q), mask).mul(self.taps[0]);
            for k in 1..N {
                let value = R::load_masked(self.sources[k % 2].wrapping_offset(q).wrapping_add(k / 2), mask);
                sum = value.multiply_add(self.taps[k], sum);
            }
            sum
        }
    }

    #[inline(always)]
    fn advance(&mut self, bytes: isize) {
        for source in &mut self.sources {
            *source = source.wrapping_byte_offset(bytes);
        }
    }
}

/// Any number of terms, at least one.
#[derive(Clone, Copy)]
pub struct Many<'a, S, R: Register> {
    /// Where each term is read.
    pub sources: &'a [*const S],
    /// What each is multiplied by.
    pub taps: &'a [R::Number],
    /// How many bytes the sources have moved on.
    pub moved: isize,
}

impl<S, R> Sum<R> for Many<'_, S, R>
where
    S: Element<Compute = R::Number>,
    R: Access<S>,
{
    type Mask = R::Mask;

    #[inline(always)]
    unsafe fn block<const B: usize>(&self, q: usize) -> [R; B] {
        // SAFETY: the caller's promise; there is a tap for every source.
        unsafe {
            let (source, tap) = (self.sources[0].wrapping_byte_offset(self.moved).add(q), R::splat(self.taps[0]));
            let mut sums = [tap; B];
            for b in 0..B {
                sums[b] = R::load(source.add(b * R::LANES)).mul(tap);
            }
            for k in 1..self.sources.len() {
                let source = self.sources.get_unchecked(k).wrapping_byte_offset(self.moved).add(q);
                let tap = R::splat(*self.taps.get_unchecked(k));
                for b in 0..B {
                    sums[b] = R::load(source.add(b * R::LANES)).multiply_add(tap, sums[b]);
                }
            }
            sums
        }
    }

    #[inline(always)]
    unsafe fn mask(from: usize, to: usize) -> R::Mask {
        // SAFETY: the caller's promise.
        unsafe { R::mask(from, to) }
    }

    #[inline(always)]
    unsafe fn within(&self, q: isize, mask: R::Mask) -> R {
        // SAFETY: the caller's promise.
        unsafe {
            let source = self.sources[0].wrapping_byte_offset(self.moved).wrapping_offset(q);
            let mut sum = R::load_masked(source, mask).mul(R::splat(self.taps[0]));
            for (source, &tap) in self.sources[1..].iter().zip(&self.taps[1..]) {
                let source = source.wrapping_byte_offset(self.moved).wrapping_offset(q);
                sum = R::load_masked(source, mask).multiply_add(R::splat(tap), sum);
            }
            sum
        }
    }

    #[inline(always)]
    fn advance(&mut self, bytes: isize) {
        self.moved += bytes;
    }
}

/// Runs the body with the sum that suits the number of terms.
macro_rules! with_sum {
    ($sources:expr, $taps:expr, $sum:ident, $block:ident => $body:expr) => {
        // The portable registers are too few to keep terms in.
        match if R::NON_TEMPORAL { $sources.len() } else { 0 } {
            1 => with_sum!(@few 1, $sources, $taps, $sum, $block => $body),
            2 => with_sum!(@few 2, $sources, $taps, $sum, $block => $body),
            3 => with_sum!(@few 3, $sources, $taps, $sum, $block => $body),
            4 => with_sum!(@few 4, $sources, $taps, $sum, $block => $body),
            6 => with_sum!(@few 6, $sources, $taps, $sum, $block => $body),
            12 => with_sum!(@few 12, $sources, $taps, $sum, $block => $body),
            _ => {
                const $block: usize = 8;
                let mut $sum = Many::<S, R> { sources: $sources, taps: $taps, moved: 0 };
                $body
            }
        }
    };
    (@few $n:literal, $sources:expr, $taps:expr, $sum:ident, $block:ident => $body:expr) => {{
        const $block: usize = 2;
        let mut $sum = Few::<S, R, $n>::new($sources, $taps);
        $body
    }};
}

/// Writes `count` sums to the target, for each of the rows.
///
/// # Safety
/// What holds for every [loop](super).
#[inline(always)]
pub unsafe fn write<S, D, R>(
    sources: &[*const S],
    taps: &[R::Number],
    target: *mut D,
    count: usize,
    rows: Rows,
    stores: Stores,
) where
    S: Element<Compute = R::Number>,
    D: Element<Compute = R::Number>,
    R: Access<S> + Access<D>,
{
    let mut target = target;
    // SAFETY: the caller's promise, handed on.
    unsafe {
        if sources.is_empty() {
            // Nothing inside the input: a sum of nothing.
            for _ in 0..rows.count {
                for q in 0..count {
                    target.add(q).write_unaligned(D::default());
                }
                target = target.wrapping_byte_offset(rows.target);
            }
            return;
        }
        if R::MANY
            && stores == Stores::Cached
            && let Some(mut sum) = Turns::<S, R, 12>::new(sources, taps)
        {
            for _ in 0..rows.count {
                cached::<D, R, _, 2>(&sum, target, count, None);
                sum.advance(rows.source);
                target = target.wrapping_byte_offset(rows.target);
            }
            return;
        }
        let mut last: *const u8 = sources[sources.len() - 1].cast();
        with_sum!(sources, taps, sum, BLOCK => for _ in 0..rows.count {
            match stores {
                Stores::CachedPrefetchingSources(prefetch) => {
                    cached::<D, R, _, BLOCK>(&sum, target, count, Some((last, prefetch, size_of::<S>())));
                }
                Stores::NonTemporal if R::NON_TEMPORAL => {
                    // The last line is not streamed whole: stores to it would wait for it.
                    R::prefetch(target.wrapping_add(count).cast());
                    streamed::<D, R, BLOCK>(&sum, target, count);
                }
                Stores::CachedPrefetchingTarget => {
                    let soon = Prefetch { first: rows.target, ..Prefetch::NONE };
                    cached::<D, R, _, BLOCK>(&sum, target, count, Some((target.cast(), soon, size_of::<D>())));
                }
                _ => {
                    cached::<D, R, _, BLOCK>(&sum, target, count, None);
                }
            }
            sum.advance(rows.source);
            target = target.wrapping_byte_offset(rows.target);
            last = last.wrapping_offset(rows.source);
        });
    }
}

/// Registers one after the other; the last overlaps the one before rather than reach over the end.
#[inline(always)]
unsafe fn cached<D, R, S, const BLOCK: usize>(
    sum: &S,
    target: *mut D,
    count: usize,
    prefetch: Option<(*const u8, Prefetch, usize)>,
) where
    D: Element<Compute = R::Number>,
    R: Access<D>,
    S: Sum<R>,
{
    let mut q = 0;
    // SAFETY: the caller's promise; every access is to places below `count`.
    unsafe {
        while q + BLOCK * R::LANES <= count {
            if let Some((last, prefetch, size)) = prefetch {
                prefetch.lines::<R>(last, ((q * size) as isize, BLOCK * R::LANES * size), prefetch.count);
            }
            let values = sum.block::<BLOCK>(q);
            for b in 0..BLOCK {
                values[b].store(target.add(q + b * R::LANES));
            }
            q += BLOCK * R::LANES;
        }
        while q + R::LANES <= count {
            let [value] = sum.block::<1>(q);
            value.store(target.add(q));
            q += R::LANES;
        }
        if q < count {
            if count >= R::LANES {
                let [value] = sum.block::<1>(count - R::LANES);
                value.store(target.add(count - R::LANES));
            } else {
                sum.within(q as isize, S::mask(0, count - q)).store_part(target.add(q), count - q);
            }
        }
    }
}

/// Whole lines are streamed, and the parts of lines at both ends stored, so that no line gets both.
#[inline(always)]
unsafe fn streamed<D, R, const BLOCK: usize>(sum: &impl Sum<R>, target: *mut D, count: usize)
where
    D: Element<Compute = R::Number>,
    R: Access<D>,
{
    let per_line = LINE / size_of::<D>();
    let misaligned = target as usize % LINE;
    // An element that straddles a line leaves no whole lines to stream.
    let head =
        if misaligned.is_multiple_of(size_of::<D>()) { (LINE - misaligned) % LINE / size_of::<D>() } else { count };
    let head = head.min(count);
    let end = count - (count - head) % per_line;
    // SAFETY: the caller's promise; loads reach at most one register past the end, stores never.
    unsafe {
        ends::<D, R>(sum, target, 0, head);
        let mut q = head;
        while q + BLOCK * R::LANES <= end {
            // Computed first, so that lines are written back to back.
            let values = sum.block::<BLOCK>(q);
            for b in 0..BLOCK {
                values[b].stream(target.add(q + b * R::LANES));
            }
            q += BLOCK * R::LANES;
        }
        while q < end {
            let [value] = sum.block::<1>(q);
            value.stream(target.add(q));
            q += R::LANES;
        }
        ends::<D, R>(sum, target, end, count);
    }
}

/// Ordinary stores of the places `from .. to`, with loads that may reach one register further.
#[inline(always)]
unsafe fn ends<D, R>(sum: &impl Sum<R>, target: *mut D, from: usize, to: usize)
where
    D: Element<Compute = R::Number>,
    R: Access<D>,
{
    let mut q = from;
    // SAFETY: the caller's promise.
    unsafe {
        while q < to {
            let [value] = sum.block::<1>(q);
            match to - q {
                few if few < R::LANES => value.store_part(target.add(q), few),
                _ => value.store(target.add(q)),
            }
            q += R::LANES;
        }
    }
}
