//! A tile: some rows of one strip of one plane, in one of three orders of summation.

use smallvec::SmallVec;
use std::ops::Range;

use super::factor::Taps;
use super::plan::{Order, Plan};
use super::scratch::Scratch;
use super::strip::{Strip, Terms};
use super::sums::{Filter, Stores, Sums};
use crate::core::dtype::{Compute, Element};
use crate::core::error::Result;
use crate::operators::upfirdn2d::params::{Axis, Support};

/// The rows of a plane that a tile reads and writes.
pub struct Tile<T> {
    /// Input row zero, column zero; only elements inside the strip and the input are touched.
    pub source: *const T,
    /// Bytes from input row to input row.
    pub source_row: isize,
    /// The first output row of the tile, first column of the strip.
    pub target: *mut T,
    /// Bytes from output row to output row.
    pub target_row: isize,
    /// The output rows.
    pub rows: Range<usize>,
}

/// The input rows inside the input that an output row is summed from, and the first one's tap.
#[inline(always)]
fn rows_inside(axis: &Axis, Support { start, tap, count }: Support) -> (Range<i64>, usize) {
    let first = start.max(0);
    (first..(start + count).min(axis.input), (tap + (first - start) * axis.up) as usize)
}

/// What a task keeps from tile to tile: a strip, its memory, and terms that do not change.
pub struct Worker<'a, C> {
    plan: &'a Plan,
    taps: &'a Taps<C>,
    strip: Strip,
    terms: Terms<C>,
    /// One prepared row, or a ring of them.
    prepared: *mut C,
    /// The input row before it is split, or a ring of rows summed along x.
    rows: *mut C,
    /// Outputs of one phase, where there are many phases.
    spare: *mut C,
    /// How many rows a ring holds: at least as many as one output needs.
    ring: usize,
    /// Input and output elements brought together, where theirs are not.
    pub gathered: *mut C,
}

impl<'a, C: Compute> Worker<'a, C> {
    /// A worker on the strip that starts at output column `first`.
    pub fn new(plan: &'a Plan, taps: &'a Taps<C>, first: usize, scratch: &mut Scratch) -> Result<Self> {
        let geometry = &plan.geometry;
        let last = (first + plan.strip).min(geometry.x.output as usize);
        let strip = Strip::new(&geometry.x, first..last, plan.pixel);
        // A power of two, so that finding a row's place takes no division.
        let ring = (geometry.y.most_taps().min(geometry.y.input).max(1) as usize).next_power_of_two();
        let (prepared, rows) = match plan.order {
            Order::VerticalFirst if strip.is_plain() => (strip.prepared_length(), 0),
            Order::VerticalFirst => (strip.prepared_length(), strip.inside_length()),
            Order::HorizontalFirst => (strip.prepared_length(), ring * strip.output_length()),
            Order::Direct => (ring * strip.prepared_length(), 0),
        };
        let lengths = [prepared, rows, strip.output_length(), plan.gathered];
        let [prepared_memory, rows, spare, gathered]: [*mut C; 4] = scratch.numbers(lengths)?;
        // SAFETY: the scratch memory just given holds that many; what no input fills stays zero.
        unsafe { prepared_memory.write_bytes(0, prepared) };
        let mut terms = Terms::default();
        if let (Some((along_x, _)), true) = (&taps.separable, plan.order != Order::Direct) {
            strip.fill_terms(&mut terms, &[(prepared_memory as *const C, 0)], along_x);
        }
        Ok(Worker { plan, taps, strip, terms, prepared: prepared_memory, rows, spare, ring, gathered })
    }

    /// The output columns of the strip.
    pub fn columns(&self) -> Range<usize> {
        self.strip.columns.clone()
    }

    /// The input columns inside the input that the strip needs.
    pub fn inside(&self) -> Range<i64> {
        self.strip.inside.clone()
    }

    /// Computes a tile.
    ///
    /// # Safety
    /// The register's level was detected; the input rows that `tile.rows` need are readable in the
    /// columns `inside`, the tile's outputs are writable and overlap no input.
    #[inline(always)]
    pub unsafe fn run<T, R>(&mut self, tile: &Tile<T>)
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
        // SAFETY: the caller's promise.
        unsafe {
            match self.plan.order {
                Order::VerticalFirst => self.vertical_first::<T, R>(tile),
                Order::HorizontalFirst => self.horizontal_first::<T, R>(tile),
                Order::Direct => self.direct::<T, R>(tile),
            }
        }
        if self.plan.streaming {
            R::fence();
        }
    }

    /// The first column inside, in an input row.
    #[inline(always)]
    fn source<T>(&self, tile: &Tile<T>, row: i64) -> *const T {
        let start = tile.source.wrapping_byte_offset(row as isize * tile.source_row);
        start.wrapping_add(self.strip.inside.start as usize * self.plan.pixel)
    }

    #[inline(always)]
    fn target<T>(&self, tile: &Tile<T>, row: usize) -> *mut T {
        tile.target.wrapping_byte_offset((row - tile.rows.start) as isize * tile.target_row)
    }

    /// How rows that stay in the caches are written while the input is read.
    #[inline(always)]
    fn reading<T>(&self, tile: &Tile<T>) -> Stores {
        if self.plan.streaming { Stores::CachedAhead(tile.source_row) } else { Stores::Cached }
    }

    #[inline(always)]
    fn writing(&self) -> Stores {
        if self.plan.streaming { Stores::Streamed } else { Stores::Cached }
    }

    /// For each output row: the input rows are summed into one, which is then summed along x.
    #[inline(always)]
    unsafe fn vertical_first<T, R>(&mut self, tile: &Tile<T>)
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
        let Some((_, along_y)) = &self.taps.separable else { return };
        let (reading, writing) = (self.reading(tile), self.writing());
        let length = self.strip.inside_length();
        let mut sources: SmallVec<[*const T; 16]> = SmallVec::new();
        let mut taps: SmallVec<[C; 16]> = SmallVec::new();
        let y = &self.plan.geometry.y;
        for (row, support) in tile.rows.clone().zip(y.supports(tile.rows.start as i64)) {
            let (inputs, mut tap) = rows_inside(y, support);
            sources.clear();
            taps.clear();
            for input in inputs {
                sources.push(self.source(tile, input));
                taps.push(along_y[tap]);
                tap += y.up as usize;
            }
            // SAFETY: the promise of `run`; the scratch rows are as long as the strip says.
            unsafe {
                if self.strip.is_plain() {
                    let sum = self.prepared.add(self.strip.inside_offset());
                    <R as Sums<T, C>>::write(&sources, &taps, sum, length, reading);
                } else {
                    <R as Sums<T, C>>::write(&sources, &taps, self.rows, length, reading);
                    self.strip.split::<C, R>(self.rows, self.prepared, Stores::Cached);
                }
                self.strip.write::<T, R>(&self.terms, self.target(tile, row), self.spare, writing);
            }
        }
    }

    /// Input rows are summed along x into a ring, whose rows are summed into output rows.
    #[inline(always)]
    unsafe fn horizontal_first<T, R>(&mut self, tile: &Tile<T>)
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
        let Some((_, along_y)) = &self.taps.separable else { return };
        let (reading, writing) = (self.reading(tile), self.writing());
        let (length, width) = (self.strip.output_length(), self.strip.columns.len() * self.plan.pixel);
        let mut sources: SmallVec<[*const C; 16]> = SmallVec::new();
        let mut taps: SmallVec<[C; 16]> = SmallVec::new();
        let mut next = 0;
        let y = &self.plan.geometry.y;
        for (row, support) in tile.rows.clone().zip(y.supports(tile.rows.start as i64)) {
            let (inputs, mut tap) = rows_inside(y, support);
            next = inputs.start.max(next);
            sources.clear();
            taps.clear();
            // SAFETY: the promise of `run`; a ring holds as many rows as one output needs.
            unsafe {
                while next < inputs.end {
                    self.strip.split::<T, R>(self.source(tile, next), self.prepared, reading);
                    let summed = self.rows.add((next as usize & (self.ring - 1)) * length);
                    self.strip.write::<C, R>(&self.terms, summed, self.spare, Stores::Cached);
                    next += 1;
                }
                for input in inputs {
                    sources.push(self.rows.add((input as usize & (self.ring - 1)) * length));
                    taps.push(along_y[tap]);
                    tap += y.up as usize;
                }
                <R as Sums<C, T>>::write(&sources, &taps, self.target(tile, row), width, writing);
            }
        }
    }

    /// Input rows are prepared into a ring, and each output is one sum over rows and columns.
    #[inline(always)]
    unsafe fn direct<T, R>(&mut self, tile: &Tile<T>)
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
        let (reading, writing) = (self.reading(tile), self.writing());
        let (length, taps_x) = (self.strip.prepared_length(), self.plan.geometry.x.taps as usize);
        let mut rows: SmallVec<[(*const C, usize); 16]> = SmallVec::new();
        let mut next = 0;
        let y = &self.plan.geometry.y;
        for (row, support) in tile.rows.clone().zip(y.supports(tile.rows.start as i64)) {
            let (inputs, mut tap) = rows_inside(y, support);
            next = inputs.start.max(next);
            rows.clear();
            // SAFETY: the promise of `run`; a ring holds as many rows as one output needs.
            unsafe {
                while next < inputs.end {
                    let prepared = self.prepared.add((next as usize & (self.ring - 1)) * length);
                    self.strip.split::<T, R>(self.source(tile, next), prepared, reading);
                    next += 1;
                }
                for input in inputs {
                    let prepared = self.prepared.add((input as usize & (self.ring - 1)) * length);
                    rows.push((prepared as *const C, tap * taps_x));
                    tap += y.up as usize;
                }
                self.strip.fill_terms(&mut self.terms, &rows, &self.taps.full);
                self.strip.write::<T, R>(&self.terms, self.target(tile, row), self.spare, writing);
            }
        }
    }
}
