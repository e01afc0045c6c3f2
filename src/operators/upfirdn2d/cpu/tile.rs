//! A tile: some rows of one strip of one plane, in one of three orders of summation.

use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

use super::factor::Taps;
use super::plan::{Order, Plan};
use super::rows::{Ahead, Rows, Stores};
use super::runs::{Runs, ZEROS, rows_inside, run_of_all, run_of_pairs, runs};
use super::scratch::Scratch;
use super::short::{self, Form, RowTaps, ShortRows};
use super::strip::{Strip, Terms};
use super::sums::{Filter, Sums};
use super::twins::PairedRows;
use crate::core::dtype::{Compute, Element};
use crate::core::error::Result;

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

/// Elements of the rows that are held at once, or written with one set of taps before those with the next: they stay
/// in the first-level cache.
const AT_ONCE_ELEMENTS: usize = 4096;

/// The same where each source is loaded for two rows, which costs so little that less is held at once: the outputs
/// pass through that cache, too.
const PAIRS_AT_ONCE_ELEMENTS: usize = 1280;

/// What a task keeps from tile to tile: a strip, its memory, and terms that do not change.
pub struct Worker<C> {
    plan: Plan,
    taps: Arc<Taps<C>>,
    strip: Strip,
    terms: Terms<C>,
    /// Prepared rows, or a ring of them.
    prepared: *mut C,
    /// Rows summed along y before they are split, or a ring of rows summed along x.
    rows: *mut C,
    /// Outputs of one phase, where there are many phases.
    spare: *mut C,
    /// The form of the strip's rows, where they have one.
    form: Option<Form>,
    /// The runs of the last tile.
    runs: Runs<C>,
    /// How many rows a ring holds: at least as many as one output needs.
    ring: usize,
    /// How many output rows are summed along y at once, or input rows along x, if any.
    at_once: usize,
    /// Input and output elements brought together, where theirs are not.
    pub gathered: *mut C,
}

impl<C: Compute> Worker<C> {
    /// A worker on the strip that starts at output column `first`; inlined, since it is large to move. It works
    /// while the scratch memory is left to it.
    #[inline(always)]
    pub fn new(plan: &Plan, taps: &Arc<Taps<C>>, first: usize, scratch: &mut Scratch) -> Result<Self> {
        let geometry = &plan.geometry;
        let last = (first + plan.strip).min(geometry.x.output as usize);
        let strip = Strip::new(&geometry.x, first..last, plan.pixel);
        let y = &geometry.y;
        // A power of two, so that finding a row's place takes no division.
        let ring = (y.most_taps().min(y.input).max(1) as usize).next_power_of_two();
        let (prepared, output) = (strip.prepared_length(), strip.output_length());
        let taps_y = y.most_taps() as usize;
        let (at_once, prepared, rows) = match plan.order {
            Order::VerticalFirst => {
                // An even number where there are as many, so that rows can be taken in pairs.
                let rows = ((AT_ONCE_ELEMENTS / prepared) & !1).max(2).min(plan.band);
                (rows, rows * prepared, if strip.is_plain() { 0 } else { rows * strip.inside_length() })
            }
            // New rows, which stay in the first-level cache with those that were.
            Order::HorizontalFirst => match (AT_ONCE_ELEMENTS / output).saturating_sub(taps_y) {
                0 => (0, prepared, ring * output),
                new => (new, (new + taps_y + 1) * prepared, (new + taps_y + 1) * output),
            },
            Order::Direct => (0, ring * prepared, 0),
        };
        // Rows in registers are summed with a row of zeros at the border.
        let prepared = prepared.max(strip.inside_length());
        let lengths = [prepared, rows, strip.output_length(), plan.gathered];
        let [prepared_memory, rows, spare, gathered]: [*mut C; 4] = scratch.numbers(lengths)?;
        // SAFETY: the scratch memory just given holds that many; what no input fills stays zero.
        unsafe { prepared_memory.write_bytes(0, prepared) };
        let mut terms = Terms::default();
        if let (Some((along_x, _)), true) = (&taps.separable, plan.order != Order::Direct) {
            strip.fill_terms(&mut terms, &[(prepared_memory as *const C, 0)], along_x);
        }
        let form = Form::of(&strip);
        Ok(Worker {
            plan: *plan,
            taps: taps.clone(),
            strip,
            form,
            runs: Runs::default(),
            terms,
            prepared: prepared_memory,
            rows,
            spare,
            ring,
            at_once,
            gathered,
        })
    }

    /// The output columns of the strip.
    pub fn columns(&self) -> Range<usize> {
        self.strip.columns.clone()
    }

    /// The input columns inside the input that the strip needs.
    pub fn inside(&self) -> Range<i64> {
        self.strip.inside.clone()
    }

    /// Computes a tile, and those at the same place of the planes after it.
    ///
    /// # Safety
    /// The register's level was detected; in each plane the input rows that `tile.rows` need are readable
    /// in the columns `inside`, the tile's outputs are writable and overlap no input.
    #[inline(always)]
    pub unsafe fn run<T, R>(&mut self, tile: &Tile<T>, planes: Rows)
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
        // SAFETY: the caller's promise.
        unsafe {
            let done = self.plan.order == Order::VerticalFirst && self.short::<T, R>(tile, planes);
            for plane in 0..if done { 0 } else { planes.count as isize } {
                self.plane::<T, R>(&Tile {
                    source: tile.source.wrapping_byte_offset(plane * planes.source),
                    target: tile.target.wrapping_byte_offset(plane * planes.target),
                    rows: tile.rows.clone(),
                    ..*tile
                });
            }
        }
        if self.plan.streaming {
            R::fence();
        }
    }

    /// A tile of one plane, by way of rows in memory.
    #[inline(always)]
    unsafe fn plane<T, R>(&mut self, tile: &Tile<T>)
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
        // SAFETY: the promise of `run`.
        unsafe {
            match self.plan.order {
                Order::VerticalFirst => self.vertical_first::<T, R>(tile),
                Order::HorizontalFirst if self.at_once > 0 => self.whole_horizontal_first::<T, R>(tile),
                Order::HorizontalFirst => self.horizontal_first::<T, R>(tile),
                Order::Direct => self.direct::<T, R>(tile),
            }
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

    /// What to ask for while so many new rows at a time are read.
    #[inline(always)]
    fn ahead<T>(&self, tile: &Tile<T>, rows: usize) -> Ahead {
        Ahead::rows(tile.source_row, self.strip.inside_length() * size_of::<T>(), rows)
    }

    /// How rows that stay in the caches are written while the input is read, so many new rows at a time.
    #[inline(always)]
    fn reading<T>(&self, tile: &Tile<T>, rows: i64) -> Stores {
        match self.plan.ahead {
            true => Stores::CachedAhead(self.ahead(tile, rows as usize)),
            false => Stores::Cached,
        }
    }

    #[inline(always)]
    fn writing(&self) -> Stores {
        match (self.plan.streaming, self.plan.ahead) {
            (true, _) => Stores::Streamed,
            (false, true) => Stores::CachedSoon,
            (false, false) => Stores::Cached,
        }
    }

    /// Some rows of the strip in a form; with these terms, from this place on.
    #[inline(always)]
    fn short_rows<'s, T: Element<Compute = C>>(
        &self,
        form: Form,
        (sources, taps, phases): (&'s [*const T], RowTaps<'s, C>, usize),
        (target, rows, planes): (*mut T, Rows, Rows),
        ahead: Option<Ahead>,
    ) -> ShortRows<'s, T> {
        ShortRows {
            form,
            start: self.strip.start(),
            inside: self.strip.inside_length(),
            pixel: self.plan.pixel,
            sources,
            phases,
            taps,
            target,
            count: self.strip.columns.len(),
            rows,
            planes,
            zeros: self.prepared as *const T,
            ahead,
            streaming: self.plan.streaming,
        }
    }

    /// Both sums in registers; false, with nothing done, where they do not fit.
    #[inline(always)]
    unsafe fn short<T, R>(&mut self, tile: &Tile<T>, planes: Rows) -> bool
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
        let Some(form) = self.form else { return false };
        let width = self.strip.columns.len();
        let ahead = self.plan.ahead.then(|| self.ahead(tile, self.plan.geometry.y.down as usize));
        // Planes of the same size have the same runs.
        if !self.runs.fit(tile) {
            let y = &self.plan.geometry.y;
            // Rows whose phases take turns pass through the cache once.
            let in_turn = y.up == 1 || y.taps == y.up * form.terms() as i64;
            let at_once = if in_turn { tile.rows.len() } else { (AT_ONCE_ELEMENTS / width).max(1) };
            self.runs.refill(y, &self.taps, tile, at_once, form.terms());
        }
        let first = tile.source.wrapping_add(self.strip.inside.start as usize * self.plan.pixel);
        // Filled by index: extending takes longer than summing a short row does.
        let mut sources: SmallVec<[*const T; 16]> = SmallVec::new();
        sources.resize(self.runs.most_terms(), std::ptr::null());
        for run in &self.runs.list {
            let target = tile.target.wrapping_byte_offset(run.target);
            // SAFETY: the promise of `run`.
            unsafe {
                if run.terms.is_empty() {
                    for plane in 0..planes.count as isize {
                        let target = target.wrapping_byte_offset(plane * planes.target);
                        <R as Sums<C, T>>::write(&[], &[], target, width * self.plan.pixel, run.rows, Stores::Cached);
                    }
                    continue;
                }
                for (source, &at) in sources.iter_mut().zip(&self.runs.offsets[run.terms.clone()]) {
                    *source = if at == ZEROS { self.prepared as *const T } else { first.wrapping_byte_offset(at) };
                }
                let taps = RowTaps::Separable(&self.runs.taps[run.terms.clone()], self.terms.taps());
                let terms = (&sources[..run.terms.len()], taps, run.phases);
                if !short::write::<T, R>(&self.short_rows(form, terms, (target, run.rows, planes), ahead)) {
                    return false;
                }
            }
        }
        true
    }

    /// For some output rows at a time: the input rows are summed into one for each, which is then summed along x.
    #[inline(always)]
    unsafe fn vertical_first<T, R>(&mut self, tile: &Tile<T>)
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
        let (prepared, inside) = (self.strip.prepared_length(), self.strip.inside_length());
        let (pitch, unsplit) = ((prepared * size_of::<C>()) as isize, (inside * size_of::<C>()) as isize);
        let (mut pairs, paired) = self.paired_rows(tile, pitch);
        let pairs_at_once = ((PAIRS_AT_ONCE_ELEMENTS / prepared) & !1).max(2).min(self.at_once);
        let mut first = tile.rows.start;
        while first < tile.rows.end {
            let (in_pairs, rows) = match first {
                _ if first < paired.start => (false, first..paired.start.min(first + self.at_once)),
                _ if first < paired.end => (true, first..paired.end.min(first + pairs_at_once)),
                _ => (false, first..tile.rows.end.min(first + self.at_once)),
            };
            let count = rows.len();
            debug_assert!(count <= self.at_once && (!in_pairs || count.is_multiple_of(2)));
            // SAFETY: the promise of `run`; there is room for so many rows.
            unsafe {
                pairs.rows.count = count / 2;
                let done = in_pairs && <R as Sums<T, C>>::write_pairs(&pairs, self.prepared, inside);
                pairs.moved += pairs.rows.source * (count / 2) as isize * isize::from(in_pairs);
                if !done && self.strip.is_plain() {
                    let sums = self.prepared.add(self.strip.inside_offset());
                    self.sum_along_y::<T, R>(tile, rows, sums, pitch);
                } else if !done {
                    self.sum_along_y::<T, R>(tile, rows, self.rows, unsplit);
                    let split = Rows { count, source: unsplit, target: pitch };
                    self.strip.split::<C, R>(self.rows, self.prepared, split, Stores::Cached);
                }
                let write = Rows { count, source: pitch, target: tile.target_row };
                self.strip.write::<T, R>(&self.terms, self.target(tile, first), self.spare, write, self.writing());
            }
            first += count;
        }
    }

    /// What a tile's output rows are summed from along y where two at a time can be, and which these are.
    #[inline(always)]
    fn paired_rows<T: Element<Compute = C>>(&self, tile: &Tile<T>, pitch: isize) -> (PairedRows<T>, Range<usize>) {
        let (y, mut rows) = (&self.plan.geometry.y, PairedRows::default());
        let none = tile.rows.start..tile.rows.start;
        let Some((_, along_y)) = &self.taps.separable else { return (rows, none) };
        let (Some(run), Some(places)) = (run_of_pairs(y, &tile.rows), self.strip.places()) else {
            return (rows, none);
        };
        let (first, second) = (run.support, y.support(run.first as i64 + 1));
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
        rows.rows = Rows { count: run.count, source: run.inputs as isize * tile.source_row, target: 2 * pitch };
        rows.ahead = self.plan.ahead.then(|| self.ahead(tile, run.inputs));
        (rows, run.first..run.first + 2 * run.count)
    }

    /// A row for each of these output rows, the first at `sums`, each so many bytes after the last.
    #[inline(always)]
    unsafe fn sum_along_y<T, R>(&self, tile: &Tile<T>, rows: Range<usize>, sums: *mut C, pitch: isize)
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
        let Some((_, along_y)) = &self.taps.separable else { return };
        let (y, length) = (&self.plan.geometry.y, self.strip.inside_length());
        let mut sources: SmallVec<[*const T; 16]> = SmallVec::new();
        let mut taps: SmallVec<[C; 16]> = SmallVec::new();
        let reading = self.reading(tile, y.down);
        for run in runs(y, &rows) {
            let (inputs, mut tap) = rows_inside(y, run.support);
            sources.clear();
            taps.clear();
            for input in inputs {
                sources.push(self.source(tile, input));
                taps.push(along_y[tap]);
                tap += y.up as usize;
            }
            let sum = sums.wrapping_byte_offset((run.first - rows.start) as isize * pitch);
            let source = run.inputs as isize * tile.source_row;
            let rows = Rows { count: run.count, source, target: run.outputs as isize * pitch };
            // SAFETY: the promise of `run`, and the caller's that there is room for the rows.
            unsafe { <R as Sums<T, C>>::write(&sources, &taps, sum, length, rows, reading) };
        }
    }

    /// As `horizontal_first`, each sum over many rows.
    #[inline(always)]
    unsafe fn whole_horizontal_first<T, R>(&mut self, tile: &Tile<T>)
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
        let Some((_, along_y)) = &self.taps.separable else { return };
        let y = &self.plan.geometry.y;
        let (length, width) = (self.strip.output_length(), self.strip.columns.len() * self.plan.pixel);
        let prepared = (self.strip.prepared_length() * size_of::<C>()) as isize;
        let pitch = (length * size_of::<C>()) as isize;
        let mut sources: SmallVec<[*const C; 16]> = SmallVec::new();
        let mut taps: SmallVec<[C; 16]> = SmallVec::new();
        // The input rows that are summed along x, the first of them at the start of the memory.
        let mut summed = 0..0;
        let at_once = ((self.at_once as i64 * y.up / y.down) as usize).max(1);
        for first in tile.rows.clone().step_by(at_once) {
            let rows = first..(first + at_once).min(tile.rows.end);
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
                let split = Rows { count, source: tile.source_row, target: prepared };
                self.strip.split::<T, R>(self.source(tile, new.start), self.prepared, split, self.reading(tile, 1));
                let target = self.rows.add((new.start - summed.start) as usize * length);
                let write = Rows { count, source: prepared, target: pitch };
                self.strip.write::<C, R>(&self.terms, target, self.spare, write, Stores::Cached);
            }
            for run in runs(y, &rows) {
                let (inputs, mut tap) = rows_inside(y, run.support);
                sources.clear();
                taps.clear();
                for input in inputs {
                    sources.push(self.rows.wrapping_add((input - summed.start) as usize * length));
                    taps.push(along_y[tap]);
                    tap += y.up as usize;
                }
                let (source, target) = (run.inputs as isize * pitch, run.outputs as isize * tile.target_row);
                let (rows, place) = (Rows { count: run.count, source, target }, self.target(tile, run.first));
                // SAFETY: as above.
                unsafe { <R as Sums<C, T>>::write(&sources, &taps, place, width, rows, self.writing()) };
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
        let (reading, writing) = (self.reading(tile, 1), self.writing());
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
                    self.strip.split::<T, R>(self.source(tile, next), self.prepared, Rows::ONE, reading);
                    let summed = self.rows.add((next as usize & (self.ring - 1)) * length);
                    self.strip.write::<C, R>(&self.terms, summed, self.spare, Rows::ONE, Stores::Cached);
                    next += 1;
                }
                for input in inputs {
                    sources.push(self.rows.add((input as usize & (self.ring - 1)) * length));
                    taps.push(along_y[tap]);
                    tap += y.up as usize;
                }
                <R as Sums<C, T>>::write(&sources, &taps, self.target(tile, row), width, Rows::ONE, writing);
            }
        }
    }

    /// All rows that can be summed in registers: those at the border have fewer terms.
    #[inline(always)]
    unsafe fn direct_in_registers<T, R>(&self, tile: &Tile<T>) -> Range<usize>
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
        let y = &self.plan.geometry.y;
        let (Some(form), Some(run)) = (self.form, run_of_all(y, &tile.rows)) else { return 0..0 };
        let (inputs, _) = rows_inside(y, run.support);
        let sources: SmallVec<[*const T; 16]> = inputs.map(|input| self.source(tile, input)).collect();
        let ahead = self.plan.ahead.then(|| self.ahead(tile, run.inputs));
        let rows = Rows { count: run.count, source: run.inputs as isize * tile.source_row, target: tile.target_row };
        let terms = (&sources[..], RowTaps::Direct(&self.taps.full), 1);
        let short = self.short_rows(form, terms, (self.target(tile, run.first), rows, Rows::ONE), ahead);
        // SAFETY: the promise of `run`.
        if unsafe { short::write::<T, R>(&short) } { run.first..run.first + run.count } else { 0..0 }
    }

    /// Input rows are prepared into a ring, and each output is one sum over rows and columns.
    #[inline(always)]
    unsafe fn direct<T, R>(&mut self, tile: &Tile<T>)
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
        let (reading, writing) = (self.reading(tile, 1), self.writing());
        let (length, taps_x) = (self.strip.prepared_length(), self.plan.geometry.x.taps as usize);
        let mut rows: SmallVec<[(*const C, usize); 16]> = SmallVec::new();
        // SAFETY: the promise of `run`.
        let written = unsafe { self.direct_in_registers::<T, R>(tile) };
        let mut next = 0;
        let y = &self.plan.geometry.y;
        for (row, support) in tile.rows.clone().zip(y.supports(tile.rows.start as i64)) {
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
                    self.strip.split::<T, R>(self.source(tile, next), prepared, Rows::ONE, reading);
                    next += 1;
                }
                for input in inputs {
                    let prepared = self.prepared.add((input as usize & (self.ring - 1)) * length);
                    rows.push((prepared as *const C, tap * taps_x));
                    tap += y.up as usize;
                }
                self.strip.fill_terms(&mut self.terms, &rows, &self.taps.full);
                self.strip.write::<T, R>(&self.terms, self.target(tile, row), self.spare, Rows::ONE, writing);
            }
        }
    }
}
