//! A strip of output columns: which input columns it needs, how they are laid out so that every tap
//! reads one after the other, and the horizontal sums over them.
//!
//! With `p` outputs per period and `step` inputs per period, input columns are split into `step` rows
//! (every `step`-th column each) and outputs computed in `p` phases, so that no phase skips a column
//! and no work is done on inserted zeros or dropped samples. A column is `pixel` elements wide: one in
//! planar tensors, all channels in channels-last ones.

use smallvec::SmallVec;
use std::ops::Range;

use super::registers::{Access, Register};
use super::rows::{Ahead, Rows, Stores};
use super::sums::Sums;
use crate::core::dtype::{Compute, Element};
use crate::operators::upfirdn2d::params::Axis;

/// Elements that every row of scratch memory has to spare, for registers that reach past its end.
pub const SLACK: usize = 32;

/// The horizontal geometry of one strip.
#[derive(Default)]
pub struct Strip {
    /// The output columns.
    pub columns: Range<usize>,
    /// The first input column that a tap reads; may lie outside the input.
    first: i64,
    /// The input columns that taps read and the input has.
    pub inside: Range<i64>,
    /// Elements of a column.
    pub(super) pixel: usize,
    /// Into how many rows input columns are split.
    pub(super) step: usize,
    /// The length of each of these rows.
    pitch: usize,
    /// In how many phases outputs are computed.
    pub(super) phases: usize,
    /// Where each phase ends in the two lists below.
    pub(super) bounds: SmallVec<[usize; 8]>,
    /// Where each term starts in a prepared row.
    pub(super) offsets: SmallVec<[usize; 16]>,
    /// Which tap along x it has.
    pub(super) taps: SmallVec<[usize; 16]>,
}

/// The terms of every phase for certain prepared rows.
pub struct Terms<C> {
    sources: SmallVec<[*const C; 32]>,
    taps: SmallVec<[C; 32]>,
    bounds: SmallVec<[usize; 8]>,
    /// Whether a phase has no terms at all.
    gaps: bool,
}

impl<C> Terms<C> {
    /// What each term is multiplied by, phase by phase.
    pub fn taps(&self) -> &[C] {
        &self.taps
    }
}

impl<C> Default for Terms<C> {
    fn default() -> Self {
        Terms { sources: SmallVec::new(), taps: SmallVec::new(), bounds: SmallVec::new(), gaps: false }
    }
}

impl Strip {
    /// The strip of these output columns.
    #[inline]
    pub fn new(axis: &Axis, columns: Range<usize>, pixel: usize) -> Self {
        let (period, step) = axis.period();
        let phases = (period as usize).min(columns.len());
        let first = axis.support(columns.start as i64).start;
        // Starts never fall from one output to the next.
        let last = axis.support(columns.end as i64 - 1).start + axis.most_taps();
        let (length, step) = ((last - first) as usize, step as usize);
        // With one output in each phase nothing recurs.
        let step = if columns.len() <= phases { 1 } else { step };
        let pitch = if step == 1 { length } else { length.div_ceil(step) } * pixel;
        let inside = first.max(0)..last.min(axis.input).max(first.max(0));
        let mut strip = Strip { first, inside, pixel, step, pitch, phases, ..Strip::default() };
        for phase in 0..phases {
            let support = axis.support((columns.start + phase) as i64);
            for m in 0..support.count {
                let column = (support.start + m - first) as usize;
                let split = if step == 1 { column * pixel } else { column % step * pitch + column / step * pixel };
                strip.offsets.push(split);
                strip.taps.push((support.tap + m * axis.up) as usize);
            }
            strip.bounds.push(strip.offsets.len());
        }
        strip.columns = columns;
        strip
    }

    /// The elements of a prepared row, with room to spare.
    pub fn prepared_length(&self) -> usize {
        (self.step * self.pitch + SLACK).next_multiple_of(16)
    }

    /// The elements of an output row, with room to spare.
    pub fn output_length(&self) -> usize {
        (self.columns.len() * self.pixel + SLACK).next_multiple_of(16)
    }

    /// The elements of the input row inside the strip.
    pub fn inside_length(&self) -> usize {
        (self.inside.end - self.inside.start) as usize * self.pixel
    }

    /// Whether a prepared row is the input row as it stands, so that it can be written in one go.
    pub fn is_plain(&self) -> bool {
        self.step == 1
    }

    /// Where in a plain prepared row the first column inside stands.
    pub fn inside_offset(&self) -> usize {
        (self.inside.start - self.first) as usize * self.pixel
    }

    /// Where in a prepared row the first two elements inside stand, if every second one follows them.
    pub fn places(&self) -> Option<[usize; 2]> {
        let column = (self.inside.start - self.first) as usize;
        match (self.step, self.pixel) {
            (1, _) => Some([self.inside_offset(), self.inside_offset() + 1]),
            (2, 1) => Some([column, column + 1].map(|column| column % 2 * self.pitch + column / 2)),
            _ => None,
        }
    }

    /// Where the first window starts, counted from the first column inside.
    pub fn start(&self) -> isize {
        (self.first - self.inside.start) as isize
    }

    /// Writes the terms of every phase over several prepared rows, whose taps along x stand from a
    /// given place on.
    pub fn fill_terms<C: Compute>(&self, terms: &mut Terms<C>, rows: &[(*const C, usize)], taps: &[C]) {
        terms.sources.clear();
        terms.taps.clear();
        terms.bounds.clear();
        terms.gaps = false;
        let mut start = 0;
        for &end in &self.bounds {
            for &(row, first_tap) in rows {
                for term in start..end {
                    terms.sources.push(row.wrapping_add(self.offsets[term]));
                    terms.taps.push(taps[first_tap + self.taps[term]]);
                }
            }
            terms.gaps |= start == end || rows.is_empty();
            terms.bounds.push(terms.sources.len());
            start = end;
        }
    }

    /// Splits the columns inside, of which `source` points to the first, into prepared rows.
    ///
    /// # Safety
    /// The register's level was detected, the columns inside are readable, each prepared row
    /// holds `prepared_length` elements.
    #[inline(always)]
    pub unsafe fn split<S, R>(&self, source: *const S, prepared: *mut R::Number, rows: Rows, stores: Stores)
    where
        S: Element<Compute = R::Number>,
        R: Sums<S, <R as Register>::Number> + Sums<<R as Register>::Number, <R as Register>::Number>,
    {
        // SAFETY: the caller's promise; each column goes to the place that `new` gave it.
        unsafe {
            if self.step == 1 {
                let (one, target) = ([R::Number::from_f64(1.0)], prepared.add(self.inside_offset()));
                return <R as Sums<S, R::Number>>::write(&[source], &one, target, self.inside_length(), rows, stores);
            }
            let ahead = if let Stores::CachedAhead(ahead) = stores { Some(ahead) } else { None };
            let (mut source, mut prepared) = (source, prepared);
            for _ in 0..rows.count {
                self.split_row::<S, R>(source, prepared, ahead);
                source = source.wrapping_byte_offset(rows.source);
                prepared = prepared.wrapping_byte_offset(rows.target);
            }
        }
    }

    #[inline(always)]
    unsafe fn split_row<S, R>(&self, source: *const S, prepared: *mut R::Number, ahead: Option<Ahead>)
    where
        S: Element<Compute = R::Number>,
        R: Sums<S, <R as Register>::Number> + Sums<<R as Register>::Number, <R as Register>::Number>,
    {
        // SAFETY: the caller's promise; each column goes to the place that `new` gave it.
        unsafe {
            let start = (self.inside.start - self.first) as usize;
            let end = (self.inside.end - self.first) as usize;
            let place = |column: usize| prepared.add(column % self.step * self.pitch + column / self.step * self.pixel);
            if self.pixel > 1 {
                let one = [R::Number::from_f64(1.0)];
                let step = (self.step * self.pixel * size_of::<S>()) as isize;
                let width = (self.pixel * size_of::<R::Number>()) as isize;
                for column in start..end.min(start + self.step) {
                    let from = source.add((column - start) * self.pixel);
                    let rows = Rows { count: (end - column).div_ceil(self.step), source: step, target: width };
                    <R as Sums<S, R::Number>>::write(&[from], &one, place(column), self.pixel, rows, Stores::Cached);
                }
                return;
            }
            let mut column = start;
            // Never registers inside a closure: it would be compiled without the level's instructions.
            let scalar = |column: usize| place(column).write(source.add(column - start).read_unaligned().to_compute());
            if self.step <= 4 {
                while column < end && !column.is_multiple_of(self.step) {
                    scalar(column);
                    column += 1;
                }
                let whole = self.step * R::LANES;
                while column + self.step <= end && end - start >= whole + self.step {
                    // The last registers overlap those before them rather than reach over the end.
                    let at = column.min((end - whole) / self.step * self.step);
                    if let Some(ahead) = ahead {
                        let (from, bytes) = ((at - start) * size_of::<S>(), whole * size_of::<S>());
                        ahead.ask::<R>(source.cast(), (from as isize, bytes), 1);
                    }
                    let (from, to) = (source.add(at - start), prepared.add(at / self.step));
                    match self.step {
                        2 => self.split_registers::<S, R, 2>(from, to),
                        3 => self.split_registers::<S, R, 3>(from, to),
                        _ => self.split_registers::<S, R, 4>(from, to),
                    }
                    column = at + whole;
                }
            }
            while column < end {
                scalar(column);
                column += 1;
            }
        }
    }

    #[inline(always)]
    unsafe fn split_registers<S, R, const P: usize>(&self, source: *const S, target: *mut R::Number)
    where
        S: Element<Compute = R::Number>,
        R: Access<S> + Access<<R as Register>::Number>,
    {
        // SAFETY: the promise of `split`: `P` registers are readable, and each split row has room for one.
        unsafe {
            let mut mixed = [<R as Access<S>>::load(source); P];
            for (p, register) in mixed.iter_mut().enumerate().skip(1) {
                *register = <R as Access<S>>::load(source.add(p * R::LANES));
            }
            for (p, register) in R::deinterleave::<P>(mixed).into_iter().enumerate() {
                <R as Access<<R as Register>::Number>>::store(register, target.add(p * self.pitch));
            }
        }
    }

    /// Writes the strip's outputs of some rows.
    ///
    /// # Safety
    /// The register's level was detected, the terms' rows are prepared, the strip's columns are
    /// writable at the target, `spare` holds `output_length` elements.
    #[inline(always)]
    pub unsafe fn write<D, R>(
        &self,
        terms: &Terms<R::Number>,
        target: *mut D,
        spare: *mut R::Number,
        rows: Rows,
        stores: Stores,
    ) where
        D: Element<Compute = R::Number>,
        R: Sums<<R as Register>::Number, D> + Sums<<R as Register>::Number, <R as Register>::Number>,
    {
        let Terms { sources, taps, bounds, gaps } = terms;
        let all = (&sources[..], &taps[..], &bounds[..]);
        let width = self.columns.len();
        // SAFETY: the caller's promise; prepared rows have the slack that reading past the end needs.
        unsafe {
            match self.phases {
                1 => <R as Sums<R::Number, D>>::write(sources, taps, target, width * self.pixel, rows, stores),
                2 if self.pixel == 1 && !gaps => {
                    <R as Sums<R::Number, D>>::write_phases::<2>(all, target, width, rows, stores)
                }
                3 if self.pixel == 1 && !gaps => {
                    <R as Sums<R::Number, D>>::write_phases::<3>(all, target, width, rows, stores)
                }
                4 if self.pixel == 1 && !gaps => {
                    <R as Sums<R::Number, D>>::write_phases::<4>(all, target, width, rows, stores)
                }
                _ => {
                    for row in 0..rows.count as isize {
                        let target = target.wrapping_byte_offset(row * rows.target);
                        self.write_apart::<D, R>(terms, row * rows.source, target, spare);
                    }
                }
            }
        }
    }

    /// Any number of phases, from rows so many bytes on: pixels one by one, or single elements by way
    /// of spare memory.
    #[inline(always)]
    unsafe fn write_apart<D, R>(&self, terms: &Terms<R::Number>, moved: isize, target: *mut D, spare: *mut R::Number)
    where
        D: Element<Compute = R::Number>,
        R: Sums<<R as Register>::Number, D> + Sums<<R as Register>::Number, <R as Register>::Number>,
    {
        let mut start = 0;
        for (phase, &end) in terms.bounds.iter().enumerate() {
            let taps = &terms.taps[start..end];
            let count = (self.columns.len() - phase).div_ceil(self.phases);
            // SAFETY: the promise of `write`.
            unsafe {
                let moved = terms.sources[start..end].iter().map(|source| source.wrapping_byte_offset(moved));
                let sources: SmallVec<[*const R::Number; 32]> = moved.collect();
                if self.pixel == 1 {
                    let stores = Stores::Cached;
                    <R as Sums<R::Number, R::Number>>::write(&sources, taps, spare, count, Rows::ONE, stores);
                    for q in 0..count {
                        let value = D::from_compute(spare.add(q).read());
                        target.add(q * self.phases + phase).write_unaligned(value);
                    }
                } else {
                    // Pixels are rows of their own, each a period after the last.
                    let width = (self.pixel * size_of::<R::Number>()) as isize;
                    let step = (self.phases * self.pixel * size_of::<D>()) as isize;
                    let rows = Rows { count, source: width, target: step };
                    let first = target.add(phase * self.pixel);
                    <R as Sums<R::Number, D>>::write(&sources, taps, first, self.pixel, rows, Stores::Cached);
                }
            }
            start = end;
        }
    }
}
