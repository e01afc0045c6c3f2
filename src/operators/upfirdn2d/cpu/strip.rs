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
use super::sums::{Rows, Stores, Sums};
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
    pixel: usize,
    /// Into how many rows input columns are split.
    step: usize,
    /// The length of each of these rows.
    pitch: usize,
    /// In how many phases outputs are computed.
    phases: usize,
    /// Where each phase ends in the two lists below.
    bounds: SmallVec<[usize; 8]>,
    /// Where each term starts in a prepared row.
    offsets: SmallVec<[usize; 16]>,
    /// Which tap along x it has.
    taps: SmallVec<[usize; 16]>,
}

/// The terms of every phase for certain prepared rows.
pub struct Terms<C> {
    sources: SmallVec<[*const C; 32]>,
    taps: SmallVec<[C; 32]>,
    bounds: SmallVec<[usize; 8]>,
    /// Whether a phase has no terms at all.
    gaps: bool,
}

impl<C> Default for Terms<C> {
    fn default() -> Self {
        Terms { sources: SmallVec::new(), taps: SmallVec::new(), bounds: SmallVec::new(), gaps: false }
    }
}

impl Strip {
    /// The strip of these output columns.
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
            let (mut source, mut prepared) = (source, prepared);
            for _ in 0..rows.count {
                self.split_row::<S, R>(source, prepared);
                source = source.wrapping_byte_offset(rows.source);
                prepared = prepared.wrapping_byte_offset(rows.target);
            }
        }
    }

    #[inline(always)]
    unsafe fn split_row<S, R>(&self, source: *const S, prepared: *mut R::Number)
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
                while column < end && column % self.step != 0 {
                    scalar(column);
                    column += 1;
                }
                let base = |column: usize| (source.add(column - start), prepared.add(column / self.step));
                let registers = (end - column) / (self.step * R::LANES);
                for _ in 0..registers {
                    let (from, to) = base(column);
                    match self.step {
                        2 => self.split_registers::<S, R, 2>(from, to),
                        3 => self.split_registers::<S, R, 3>(from, to),
                        _ => self.split_registers::<S, R, 4>(from, to),
                    }
                    column += self.step * R::LANES;
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
        let width = self.columns.len();
        // SAFETY: the caller's promise; prepared rows have the slack that reading past the end needs.
        unsafe {
            match self.phases {
                1 => <R as Sums<R::Number, D>>::write(sources, taps, target, width * self.pixel, rows, stores),
                2 if self.pixel == 1 && !gaps => {
                    <R as Sums<R::Number, D>>::write_phases::<2>(sources, taps, bounds, target, width, rows)
                }
                3 if self.pixel == 1 && !gaps => {
                    <R as Sums<R::Number, D>>::write_phases::<3>(sources, taps, bounds, target, width, rows)
                }
                4 if self.pixel == 1 && !gaps => {
                    <R as Sums<R::Number, D>>::write_phases::<4>(sources, taps, bounds, target, width, rows)
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

/// For the kernel's gradient: outputs as factors.
impl Strip {
    /// The most products that one row adds to a place of a register of so many lanes.
    pub fn most_products(&self, lanes: usize) -> usize {
        (self.columns.len().div_ceil(self.phases) * self.pixel).div_ceil(lanes)
    }

    /// Splits a row of outputs into its phases, one after the other, as `add_products` reads them.
    ///
    /// # Safety
    /// The register's level was detected, the strip's columns are readable, `target` holds `output_length`.
    #[inline(always)]
    pub unsafe fn split_outputs<S, R>(&self, source: *const S, target: *mut R::Number, stores: Stores)
    where
        S: Element<Compute = R::Number>,
        R: Sums<S, <R as Register>::Number> + Sums<<R as Register>::Number, <R as Register>::Number>,
    {
        let (width, pixel) = (self.columns.len(), self.pixel);
        let one = [R::Number::from_f64(1.0)];
        // SAFETY: the caller's promise; phase starts and counts follow from the width.
        unsafe {
            if self.phases == 1 {
                return <R as Sums<S, R::Number>>::write(&[source], &one, target, width * pixel, Rows::ONE, stores);
            }
            let mut from_registers = 0;
            if pixel == 1 {
                from_registers = match self.phases {
                    2 => self.split_output_registers::<S, R, 2>(source, target),
                    3 => self.split_output_registers::<S, R, 3>(source, target),
                    4 => self.split_output_registers::<S, R, 4>(source, target),
                    _ => 0,
                };
            }
            let mut start = 0;
            for phase in 0..self.phases {
                let count = (width - phase).div_ceil(self.phases);
                if pixel == 1 {
                    for q in from_registers..count {
                        let value = source.add(q * self.phases + phase).read_unaligned();
                        target.add(start + q).write(value.to_compute());
                    }
                } else {
                    let step = (self.phases * pixel * size_of::<S>()) as isize;
                    let rows = Rows { count, source: step, target: (pixel * size_of::<R::Number>()) as isize };
                    let (from, to) = (source.add(phase * pixel), target.add(start * pixel));
                    <R as Sums<S, R::Number>>::write(&[from], &one, to, pixel, rows, Stores::Cached);
                }
                start += count;
            }
        }
    }

    /// Splits as many whole registers as there are; returns how many columns of each phase that was.
    #[inline(always)]
    unsafe fn split_output_registers<S, R, const P: usize>(&self, source: *const S, target: *mut R::Number) -> usize
    where
        S: Element<Compute = R::Number>,
        R: Access<S> + Access<<R as Register>::Number>,
    {
        let width = self.columns.len();
        let mut q = 0;
        // SAFETY: the promise of `split_outputs`; every phase has at least `width / P` columns.
        unsafe {
            while (q + R::LANES) * P <= width {
                let mut mixed = [<R as Access<S>>::load(source.add(q * P)); P];
                for (p, register) in mixed.iter_mut().enumerate().skip(1) {
                    *register = <R as Access<S>>::load(source.add(q * P + p * R::LANES));
                }
                let (split, mut start) = (R::deinterleave::<P>(mixed), 0);
                for (p, register) in split.into_iter().enumerate() {
                    <R as Access<<R as Register>::Number>>::store(register, target.add(start + q));
                    start += (width - p).div_ceil(P);
                }
                q += R::LANES;
            }
        }
        q
    }

    /// Adds the products of split outputs with prepared rows to the places of their taps: a row's along
    /// x stand from its own place on, `PLACES` numbers each.
    ///
    /// # Safety
    /// The register's level was detected, all rows are as this strip makes them, the places hold all
    /// taps along x.
    #[inline(always)]
    pub unsafe fn add_products<R, const PLACES: usize>(
        &self,
        outputs: *const R::Number,
        rows: &[(*const R::Number, *mut R::Number)],
    ) where
        R: Access<<R as Register>::Number>,
    {
        let (mut start, mut first) = (0, 0);
        let mut factors: SmallVec<[(*const R::Number, *mut R::Number); 64]> = SmallVec::new();
        for (phase, &end) in self.bounds.iter().enumerate() {
            let count = (self.columns.len() - phase).div_ceil(self.phases) * self.pixel;
            factors.clear();
            for &(row, places) in rows {
                for term in first..end {
                    factors.push((row.wrapping_add(self.offsets[term]), places.wrapping_add(self.taps[term] * PLACES)));
                }
            }
            // SAFETY: the caller's promise.
            unsafe {
                let outputs = outputs.add(start);
                let (eights, rest) = factors.as_chunks::<8>();
                for factors in eights {
                    multiply::<R, 8>(outputs, factors, count);
                }
                let (fours, rest) = rest.as_chunks::<4>();
                for factors in fours {
                    multiply::<R, 4>(outputs, factors, count);
                }
                for factor in rest.as_chunks::<1>().0 {
                    multiply::<R, 1>(outputs, factor, count);
                }
            }
            start += count;
            first = end;
        }
    }
}

/// Adds the products of `count` outputs with each row to that row's register of sums.
///
/// # Safety
/// As [`Strip::add_products`].
#[inline(always)]
unsafe fn multiply<R, const N: usize>(
    outputs: *const R::Number,
    factors: &[(*const R::Number, *mut R::Number); N],
    count: usize,
) where
    R: Access<<R as Register>::Number>,
{
    // SAFETY: the caller's promise; a last part of a register is read as such.
    unsafe {
        let mut sums = [R::load(factors[0].1); N];
        for (sum, factor) in sums.iter_mut().zip(factors).skip(1) {
            *sum = R::load(factor.1);
        }
        let mut q = 0;
        while q + R::LANES <= count {
            let output = R::load(outputs.add(q));
            for (sum, factor) in sums.iter_mut().zip(factors) {
                *sum = R::load(factor.0.add(q)).multiply_add(output, *sum);
            }
            q += R::LANES;
        }
        if q < count {
            let output = R::load_part(outputs.add(q), count - q);
            for (sum, factor) in sums.iter_mut().zip(factors) {
                *sum = R::load_part(factor.0.add(q), count - q).multiply_add(output, *sum);
            }
        }
        for (sum, factor) in sums.into_iter().zip(factors) {
            sum.store(factor.1);
        }
    }
}
