//! Tiles by way of rows in memory, which stay in the first-level cache: along y first, along x first, or both at once.

use smallvec::SmallVec;
use std::ops::Range;

use super::horizontal;
use super::worker::{Tile, Worker};
use crate::loops::memory_access::{Rows, Stores};
use crate::loops::two_rows::PairedRows;
use crate::plan::row_groups::{group_of_pairs, groups, rows_inside};
use firelu_core::dtype::Element;

/// Elements of the rows that are held at once where each source is loaded for two rows, which costs so little that less
/// is held: the outputs pass through the first-level cache, too.
const PAIRS_AT_ONCE_ELEMENTS: usize = 1280;

impl<T: Element> Worker<T> {
    /// For some output rows at a time: the input rows are summed into one for each, which is then summed along x.
    ///
    /// # Safety
    /// As [`Worker::run`].
    pub(super) unsafe fn vertical_first(&mut self, tile: &Tile<T>) {
        let (first, end) = (tile.at.rows.start as i64, tile.at.rows.end as i64);
        if self.plan.geometry.y.inputs_of(first..end).is_empty() {
            // Sums of nothing, whatever the sign of the taps.
            let (count, width) = (tile.at.rows.len(), self.strip.columns.len() * self.plan.pixel);
            let rows = Rows { count, source: 0, target: tile.at.target_row };
            // SAFETY: the promise of `run`.
            return unsafe { (self.loops.output.sum)(&[], &[], tile.target, width, rows, Stores::Cached) };
        }
        let (prepared, inside) = (self.strip.prepared_length(), self.strip.inside_length());
        let pitch = (prepared * size_of::<T::Compute>()) as isize;
        let unsplit = (inside * size_of::<T::Compute>()) as isize;
        let (mut pairs, paired) = self.paired_rows(tile, pitch);
        let sum_pairs = self.loops.input_pairs.filter(|_| pairs.choose(inside, self.loops.lanes).is_some());
        let pairs_at_once = ((PAIRS_AT_ONCE_ELEMENTS / prepared) & !1).max(2).min(self.at_once);
        let rows_end = tile.at.rows.end;
        let mut first = tile.at.rows.start;
        while first < rows_end {
            let (in_pairs, rows) = match first {
                _ if first < paired.start => (false, first..paired.start.min(first + self.at_once)),
                _ if first < paired.end => (true, first..paired.end.min(first + pairs_at_once)),
                _ => (false, first..rows_end.min(first + self.at_once)),
            };
            let count = rows.len();
            debug_assert!(count <= self.at_once && (!in_pairs || count.is_multiple_of(2)));
            // SAFETY: the promise of `run`; there is room for so many rows.
            unsafe {
                pairs.rows.count = count / 2;
                let sum_pairs = sum_pairs.filter(|_| in_pairs);
                if let Some(sum_pairs) = sum_pairs {
                    sum_pairs(&pairs, self.prepared, inside);
                }
                pairs.moved += pairs.rows.source * (count / 2) as isize * isize::from(in_pairs);
                if sum_pairs.is_none() && self.strip.is_plain() {
                    let sums = self.prepared.add(self.strip.inside_offset());
                    self.sum_along_y(tile, rows, sums, pitch);
                } else if sum_pairs.is_none() {
                    self.sum_along_y(tile, rows, self.rows, unsplit);
                    let split = Rows { count, source: unsplit, target: pitch };
                    let (loops, stores) = (&self.loops.between_in, Stores::Cached);
                    horizontal::split(&self.strip, loops, self.rows, self.prepared, split, stores);
                }
                let write = Rows { count, source: pitch, target: tile.at.target_row };
                self.sum_along_x(self.target(tile, first), write, self.writing());
            }
            first += count;
        }
    }

    /// Sums prepared rows along x into output rows.
    unsafe fn sum_along_x(&self, target: *mut T, rows: Rows, stores: Stores) {
        let loops = (&self.loops.output, &self.loops.between_out);
        // SAFETY: the promise of `run`.
        unsafe { horizontal::write(&self.strip, loops, &self.terms, (target, self.spare), rows, stores) };
    }

    /// Prepares input rows and sums them along x into rows that stay in the first-level cache.
    unsafe fn sum_inputs_along_x(&self, tile: &Tile<T>, input: i64, target: *mut T::Compute, count: usize) {
        let prepared = (self.strip.prepared_length() * size_of::<T::Compute>()) as isize;
        let pitch = (self.strip.output_length() * size_of::<T::Compute>()) as isize;
        let split = Rows { count, source: tile.at.source_row, target: prepared };
        let write = Rows { count, source: prepared, target: pitch };
        let (source, reading) = (self.source(tile, input), self.reading(tile, 1));
        let between = &self.loops.between_out;
        // SAFETY: the promise of `run`; there is room for so many rows.
        unsafe {
            horizontal::split(&self.strip, &self.loops.input, source, self.prepared, split, reading);
            let target = (target, self.spare);
            horizontal::write(&self.strip, (between, between), &self.terms, target, write, Stores::Cached);
        }
    }

    /// What a tile's output rows are summed from along y where two at a time can be, and which these are.
    fn paired_rows(&self, tile: &Tile<T>, pitch: isize) -> (PairedRows<T>, Range<usize>) {
        let (y, mut rows) = (&self.plan.geometry.y, PairedRows::default());
        let none = tile.at.rows.start..tile.at.rows.start;
        let Some((_, along_y)) = &self.taps.separable else { return (rows, none) };
        let (Some(group), Some(places)) = (group_of_pairs(y, &tile.at.rows), self.strip.places()) else {
            return (rows, none);
        };
        let (first, second) = (group.support, y.support(group.first as i64 + 1));
        if first.count != second.count {
            return (rows, none);
        }
        for input in first.start..second.start + second.count {
            rows.sources.push(self.source(tile, input));
        }
        for support in &[first, second][..if first.tap == second.tap { 1 } else { 2 }] {
            rows.taps.extend((0..support.count).map(|k| along_y[(support.tap + k * y.up) as usize]));
        }
        rows.shift = (second.start - first.start) as usize;
        rows.second = pitch;
        rows.places = places;
        rows.rows = Rows { count: group.count, source: group.inputs as isize * tile.at.source_row, target: 2 * pitch };
        rows.prefetch = self.plan.prefetch.then(|| self.prefetch(tile, group.inputs));
        (rows, group.first..group.first + 2 * group.count)
    }

    /// A row for each of these output rows, the first at `sums`, each so many bytes after the last.
    unsafe fn sum_along_y(&self, tile: &Tile<T>, rows: Range<usize>, sums: *mut T::Compute, pitch: isize) {
        let Some((_, along_y)) = &self.taps.separable else { return };
        let (y, length) = (&self.plan.geometry.y, self.strip.inside_length());
        let mut sources: SmallVec<[*const T; 16]> = SmallVec::new();
        let mut taps: SmallVec<[T::Compute; 16]> = SmallVec::new();
        let reading = self.reading(tile, y.down);
        for group in groups(y, &rows) {
            let (inputs, mut tap) = rows_inside(y, group.support);
            sources.clear();
            taps.clear();
            for input in inputs {
                sources.push(self.source(tile, input));
                taps.push(along_y[tap]);
                tap += y.up as usize;
            }
            let sum = sums.wrapping_byte_offset((group.first - rows.start) as isize * pitch);
            let source = group.inputs as isize * tile.at.source_row;
            let rows = Rows { count: group.count, source, target: group.outputs as isize * pitch };
            // SAFETY: the promise of `run`, and the caller's that there is room for the rows.
            unsafe { (self.loops.input.sum)(&sources, &taps, sum, length, rows, reading) };
        }
    }

    /// As `horizontal_first`, each sum over many rows.
    ///
    /// # Safety
    /// As [`Worker::run`].
    pub(super) unsafe fn whole_horizontal_first(&mut self, tile: &Tile<T>) {
        let Some((_, along_y)) = &self.taps.separable else { return };
        let y = &self.plan.geometry.y;
        let (length, width) = (self.strip.output_length(), self.strip.columns.len() * self.plan.pixel);
        let pitch = (length * size_of::<T::Compute>()) as isize;
        let mut sources: SmallVec<[*const T::Compute; 16]> = SmallVec::new();
        let mut taps: SmallVec<[T::Compute; 16]> = SmallVec::new();
        // The input rows that are summed along x, the first of them at the start of the memory.
        let mut summed = 0..0;
        let at_once = ((self.at_once as i64 * y.up / y.down) as usize).max(1);
        for first in tile.at.rows.clone().step_by(at_once) {
            let rows = first..(first + at_once).min(tile.at.rows.end);
            let Range { start: top, end: bottom } = y.inputs_of(first as i64..rows.end as i64);
            // SAFETY: the promise of `run`; there is room for as many rows as these outputs need.
            unsafe {
                let kept = top.min(summed.end)..summed.end;
                let from = self.rows.add((kept.start - summed.start) as usize * length);
                self.rows.copy_from(from, (kept.end - kept.start) as usize * length);
                let start = if kept.is_empty() { top } else { kept.start };
                summed = start..bottom.max(start);
                let new = summed.start.max(kept.end)..summed.end;
                let count = (new.end - new.start).max(0) as usize;
                let target = self.rows.add((new.start - summed.start) as usize * length);
                self.sum_inputs_along_x(tile, new.start, target, count);
            }
            for group in groups(y, &rows) {
                let (inputs, mut tap) = rows_inside(y, group.support);
                sources.clear();
                taps.clear();
                for input in inputs {
                    sources.push(self.rows.wrapping_add((input - summed.start) as usize * length));
                    taps.push(along_y[tap]);
                    tap += y.up as usize;
                }
                let (source, target) = (group.inputs as isize * pitch, group.outputs as isize * tile.at.target_row);
                let (rows, place) = (Rows { count: group.count, source, target }, self.target(tile, group.first));
                // SAFETY: as above.
                unsafe { (self.loops.output.sum)(&sources, &taps, place, width, rows, self.writing()) };
            }
        }
    }

    /// Input rows are summed along x into a ring, whose rows are summed into output rows.
    ///
    /// # Safety
    /// As [`Worker::run`].
    pub(super) unsafe fn horizontal_first(&mut self, tile: &Tile<T>) {
        let Some((_, along_y)) = &self.taps.separable else { return };
        let writing = self.writing();
        let (length, width) = (self.strip.output_length(), self.strip.columns.len() * self.plan.pixel);
        let mut sources: SmallVec<[*const T::Compute; 16]> = SmallVec::new();
        let mut taps: SmallVec<[T::Compute; 16]> = SmallVec::new();
        let mut next = 0;
        let y = &self.plan.geometry.y;
        for (row, support) in tile.at.rows.clone().zip(y.supports(tile.at.rows.start as i64)) {
            let (inputs, mut tap) = rows_inside(y, support);
            next = inputs.start.max(next);
            sources.clear();
            taps.clear();
            // SAFETY: the promise of `run`; a ring holds as many rows as one output needs.
            unsafe {
                while next < inputs.end {
                    let summed = self.rows.add((next as usize & (self.ring - 1)) * length);
                    self.sum_inputs_along_x(tile, next, summed, 1);
                    next += 1;
                }
                for input in inputs {
                    sources.push(self.rows.add((input as usize & (self.ring - 1)) * length));
                    taps.push(along_y[tap]);
                    tap += y.up as usize;
                }
                (self.loops.output.sum)(&sources, &taps, self.target(tile, row), width, Rows::ONE, writing);
            }
        }
    }

    /// Input rows are prepared into a ring, and each output is one sum over rows and columns.
    ///
    /// # Safety
    /// As [`Worker::run`].
    pub(super) unsafe fn direct(&mut self, tile: &Tile<T>) {
        let (reading, writing) = (self.reading(tile, 1), self.writing());
        let (length, taps_x) = (self.strip.prepared_length(), self.plan.geometry.x.taps as usize);
        let mut rows: SmallVec<[(*const T::Compute, usize); 16]> = SmallVec::new();
        // SAFETY: the promise of `run`.
        let written = unsafe { self.direct_in_registers(tile) };
        let mut next = 0;
        let y = &self.plan.geometry.y;
        for (row, support) in tile.at.rows.clone().zip(y.supports(tile.at.rows.start as i64)) {
            if written.contains(&row) {
                continue;
            }
            let (inputs, mut tap) = rows_inside(y, support);
            next = inputs.start.max(next);
            rows.clear();
            // SAFETY: the promise of `run`; a ring holds as many rows as one output needs.
            unsafe {
                while next < inputs.end {
                    let prepared = self.prepared.add((next as usize & (self.ring - 1)) * length);
                    let source = self.source(tile, next);
                    horizontal::split(&self.strip, &self.loops.input, source, prepared, Rows::ONE, reading);
                    next += 1;
                }
                for input in inputs {
                    let prepared = self.prepared.add((input as usize & (self.ring - 1)) * length);
                    rows.push((prepared as *const T::Compute, tap * taps_x));
                    tap += y.up as usize;
                }
                self.strip.fill_terms(&mut self.terms, &rows, &self.taps.full);
                self.sum_along_x(self.target(tile, row), Rows::ONE, writing);
            }
        }
    }
}
