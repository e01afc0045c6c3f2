//! The way down: rows of the middle grid become output rows.

use smallvec::SmallVec;
use std::ops::Range;

use super::edges::{Outside, outside};
use super::extent::{Columns, reach};
use super::middle::Middle;
use super::rows::{AS_IT_IS, Plane, Room, one};
use super::{Direction, Kernel, Moved};
use crate::border::Border;
use crate::levels::FilterElement;
use crate::loops::memory_access::{Rows, Stores};
use crate::loops::two_rows::PairedRows;
use crate::loops::{Loops, Writing};
use crate::plan::strip::SLACK;
use firelu_core::dtype::Element;
use firelu_cpu::features::Level;

/// The way down for one tile.
pub struct Down<'a, T: FilterElement>
where
    T::Compute: FilterElement,
{
    direction: &'a Direction<T::Compute>,
    columns: &'a Columns,
    /// The planes that stand side by side.
    pub planes: SmallVec<[Plane; 8]>,
    /// How many columns further on than the strip that rows are prepared for.
    on: i64,
    /// In how many phases outputs are computed.
    phases: usize,
    /// Where the terms of each phase stand in a row of the middle grid; as many for each.
    offsets: SmallVec<[usize; 32]>,
    /// Those of both sums along y, and their taps.
    lines: [Vec<*const T::Compute>; 2],
    taps: Vec<T::Compute>,
    /// Two output rows along y, whose sources are still to be said; none where they are better apart.
    pairs: Option<PairedRows<T::Compute>>,
    /// Output rows outside that are added to others.
    folds: Vec<Outside>,
    /// Two sums along y, and one to be added.
    sums: [*mut T::Compute; 3],
    /// An output row on its way, and room for one phase of it.
    row: *mut T::Compute,
    phase: *mut T::Compute,
    /// Outputs that do not lie one after the other.
    gathered: *mut T::Compute,
    output: &'static Loops<T>,
    loops: &'static Loops<T::Compute>,
}

impl<'a, T: FilterElement> Down<'a, T>
where
    T::Compute: FilterElement,
{
    pub fn new(
        direction: &'a Direction<T::Compute>,
        columns: &'a Columns,
        room: &mut Room<T::Compute>,
        level: Level,
    ) -> Self {
        let x = &direction.geometry.x;
        let phases = columns.phases / x.down as usize;
        let mut offsets = SmallVec::new();
        for phase in 0..phases as i64 {
            let start = x.support(columns.outputs.start + phase).start;
            offsets.extend((0..x.taps).map(|tap| columns.place(start + tap)));
        }
        let folds = match direction.fold {
            Border::Constant => Vec::new(),
            rule => outside(rule, reach(&direction.geometry.y.transposed()), direction.geometry.y.output),
        };
        let (row, y) = (columns.row(), &direction.geometry.y);
        let loops = <T::Compute as FilterElement>::loops(level);
        let sums = [room.take(row + SLACK), room.take(row + SLACK), room.take(row + SLACK)];
        let (mut taps, mut pairs) = (Vec::new(), None);
        if let Kernel::Separable(along_x, along_y) = &direction.kernel {
            taps = (0..phases).flat_map(|_| along_x.iter().copied()).collect();
            let mut both = PairedRows::<T::Compute> { shift: y.down as usize, ..Default::default() };
            both.taps.extend_from_slice(along_y);
            both.second = sums[1] as isize - sums[0] as isize;
            both.sources.resize((y.taps + y.down) as usize, std::ptr::null());
            if !direction.passes_rows() && loops.input_pairs.is_some() {
                pairs = both.choose(columns.row(), loops.lanes).map(|_| both);
            }
        }
        let lines = [0, 1].map(|which: usize| {
            offsets.iter().map(|&offset: &usize| sums[which].wrapping_add(offset).cast_const()).collect()
        });
        Down {
            direction,
            columns,
            planes: SmallVec::new(),
            on: 0,
            phases,
            offsets,
            folds,
            lines,
            taps,
            pairs,
            sums,
            row: room.take(columns.widest),
            phase: room.take(columns.widest),
            gathered: room.take(columns.widest),
            output: T::loops(level),
            loops,
        }
    }

    /// Where the terms of each phase stand in a row of the middle grid.
    pub fn offsets(&self) -> impl Iterator<Item = &[usize]> {
        self.offsets.chunks_exact(self.direction.geometry.x.taps as usize)
    }

    /// How many outputs of each phase there are of all planes side by side, in whole registers.
    pub fn count_of_phase(&self) -> usize {
        let width = (self.columns.outputs.end - self.columns.outputs.start) as usize;
        let all = (self.planes.len() - 1) * self.columns.segment * self.phases + width;
        all.div_ceil(self.phases).next_multiple_of(self.loops.lanes)
    }

    /// Prefetches the lines of an output row.
    pub fn prefetch(&self, row: i64) {
        let Columns { real, .. } = self.columns;
        for plane in &self.planes {
            if plane.column == size_of::<T>() as isize {
                (self.output.prefetch_lines)(
                    plane.at(row, real.start + self.on),
                    (real.end - real.start) as usize * size_of::<T>(),
                );
            }
        }
    }

    /// Writes output rows of sums along y, which are so far apart; `lines` has room for as many rows on their way.
    ///
    /// # Safety
    /// As [`write_rows`](Self::write_rows); the sums are rows of the middle grid, and no rule adds outputs to others.
    pub unsafe fn finish_sums(
        &self,
        rows: Range<i64>,
        (sums, pitch): (*const T::Compute, usize),
        (lines, length): (*mut T::Compute, usize),
    ) {
        let Columns { real, outputs, joined, segment, .. } = self.columns;
        let (width, count) = ((outputs.end - outputs.start) as usize, (real.end - real.start) as usize);
        let at = |row: usize| {
            let line = sums.wrapping_add(row * pitch);
            self.offsets.iter().map(|&offset| line.wrapping_add(offset)).collect::<SmallVec<[*const T::Compute; 32]>>()
        };
        let dense = |plane: &Plane| plane.column == size_of::<T>() as isize;
        // SAFETY: the caller's promise; the tile's columns are writable, and rows hold the strip's columns.
        unsafe {
            if self.phases > 4 || count < self.phases || !self.planes.iter().all(dense) {
                for (place, row) in rows.enumerate() {
                    self.finish(row, &at(place), &self.taps, None);
                }
                return;
            }
            let bytes = |elements: usize| (elements * size_of::<T::Compute>()) as isize;
            let several = Rows { count: (rows.end - rows.start) as usize, source: bytes(pitch), target: bytes(length) };
            if let ([plane], 1) = (&self.planes[..], *joined) {
                let target = plane.at(rows.start, real.start + self.on).cast::<T>();
                let several = Rows { target: plane.row, ..several };
                return self.sum_along_x(&at(0), &self.taps, (target, width, several), &self.output.output);
            }
            let step = segment * self.phases;
            let all = (self.planes.len() - 1) * step + width;
            self.sum_along_x(&at(0), &self.taps, (lines, all, several), &self.loops.between_out);
            for (which, plane) in self.planes.iter().enumerate() {
                let source = lines.wrapping_add(which * step + (real.start - outputs.start) as usize).cast_const();
                let target = plane.at(rows.start, real.start + self.on).cast::<T>();
                let several = Rows { source: bytes(length), target: plane.row, ..several };
                (self.output.output.sum)(&[source], &one(), target, count, several, Stores::Cached);
            }
        }
    }

    /// Writes an output row whose phases are there, so far apart.
    ///
    /// # Safety
    /// As [`write_rows`](Self::write_rows).
    pub unsafe fn finish_phases(&self, row: i64, sums: *mut T::Compute, pitch: usize) {
        if self.phases == 1 {
            // SAFETY: the caller's promise.
            return unsafe { self.finish(row, &[], &[], Some(sums)) };
        }
        let sources: SmallVec<[*const T::Compute; 16]> =
            (0..self.phases).map(|phase| sums.wrapping_add(phase * pitch).cast_const()).collect();
        let ones: SmallVec<[T::Compute; 16]> = SmallVec::from_elem(one::<T::Compute>()[0], self.phases);
        // SAFETY: the caller's promise.
        unsafe { self.finish(row, &sources, &ones, None) }
    }

    /// Writes these output rows of some planes.
    ///
    /// # Safety
    /// The promise of `run_tiles`.
    pub unsafe fn write_rows(
        &mut self,
        (planes, rows, on): (impl Iterator<Item = Plane>, Range<usize>, Moved),
        middle: &mut Middle<'_, T>,
    ) {
        self.on = on.outputs;
        self.planes.clear();
        self.planes.extend(planes);
        let mut row = rows.start as i64;
        while row < rows.end as i64 {
            // SAFETY: the caller's promise.
            unsafe {
                match &self.direction.kernel {
                    Kernel::Full(taps) => self.write_full(row, taps, middle),
                    Kernel::Separable(..) if self.direction.passes_rows() => {
                        let source = middle.row(row);
                        let sources: SmallVec<[*const T::Compute; 32]> =
                            self.offsets.iter().map(|&offset| source.wrapping_add(offset)).collect();
                        self.finish(row, &sources, &self.taps, None);
                    }
                    Kernel::Separable(_, along_y) => {
                        let both = row + 1 < rows.end as i64 && !self.is_folded(row) && !self.is_folded(row + 1);
                        if both && self.sum_two(row, middle) {
                            self.finish(row, &self.lines[0], &self.taps, None);
                            row += 1;
                            self.finish(row, &self.lines[1], &self.taps, None);
                        } else {
                            self.sum_one(row, along_y, middle);
                            self.finish(row, &self.lines[0], &self.taps, None);
                        }
                    }
                }
            }
            row += 1;
        }
    }

    fn is_folded(&self, row: i64) -> bool {
        self.folds.iter().any(|&(_, stands_for)| stands_for == Some(row))
    }

    /// Two rows summed along y; false, with nothing done, where they are better summed one by one.
    unsafe fn sum_two(&mut self, row: i64, middle: &mut Middle<'_, T>) -> bool {
        let (Some(pairs), Some(write)) = (&mut self.pairs, self.loops.input_pairs) else { return false };
        let start = row * self.direction.geometry.y.down - self.direction.geometry.y.pad;
        // SAFETY: the promise of `write_rows`; the ring holds as many rows as two sums need.
        unsafe {
            for (source, input) in pairs.sources.iter_mut().zip(start..) {
                *source = middle.row(input);
            }
            write(pairs, self.sums[0], self.columns.row());
        }
        true
    }

    /// A row summed along y, and those outside that are added to it.
    unsafe fn sum_one(&self, row: i64, along_y: &[T::Compute], middle: &mut Middle<'_, T>) {
        // SAFETY: the promise of `write_rows`; rows are as long.
        unsafe {
            self.sum_along_y(row, along_y, middle, self.sums[0]);
            for &(outside, stands_for) in &self.folds {
                if stands_for == Some(row) {
                    self.sum_along_y(outside, along_y, middle, self.sums[2]);
                    for at in 0..self.columns.row() {
                        *self.sums[0].add(at) = *self.sums[0].add(at) + *self.sums[2].add(at);
                    }
                }
            }
        }
    }

    unsafe fn sum_along_y(
        &self,
        row: i64,
        along_y: &[T::Compute],
        middle: &mut Middle<'_, T>,
        target: *mut T::Compute,
    ) {
        let y = &self.direction.geometry.y;
        let start = y.support(row).start;
        // SAFETY: the promise of `write_rows`; the ring holds as many rows as a sum needs.
        let sources: SmallVec<[*const T::Compute; 32]> =
            (start..start + y.taps).map(|input| unsafe { middle.row(input) }).collect();
        let count = self.columns.row();
        // SAFETY: as above; a row of zeros is as long.
        unsafe { (self.loops.between_out.sum)(&sources, along_y, target, count, Rows::ONE, Stores::Cached) };
    }

    /// An output row summed over rows and columns at once.
    unsafe fn write_full(&self, row: i64, all: &[T::Compute], middle: &mut Middle<'_, T>) {
        // SAFETY: the promise of `write_rows`.
        unsafe {
            let folded: SmallVec<[i64; 4]> = self
                .folds
                .iter()
                .filter(|&&(_, stands_for)| stands_for == Some(row))
                .map(|&(outside, _)| outside)
                .collect();
            let (sources, taps) = self.full_terms(row, all, middle);
            if folded.is_empty() {
                return self.finish(row, &sources, &taps, None);
            }
            let width = (self.columns.outputs.end - self.columns.outputs.start) as usize;
            self.sum_along_x(&sources, &taps, (self.sums[0], width, Rows::ONE), &self.loops.between_out);
            for outside in folded {
                let (sources, taps) = self.full_terms(outside, all, middle);
                self.sum_along_x(&sources, &taps, (self.row, width, Rows::ONE), &self.loops.between_out);
                for at in 0..width {
                    *self.sums[0].add(at) = *self.sums[0].add(at) + *self.row.add(at);
                }
            }
            self.finish(row, &[], &[], Some(self.sums[0]));
        }
    }

    unsafe fn full_terms(
        &self,
        row: i64,
        all: &[T::Compute],
        middle: &mut Middle<'_, T>,
    ) -> (Vec<*const T::Compute>, Vec<T::Compute>) {
        let (x, y) = (&self.direction.geometry.x, &self.direction.geometry.y);
        let start = y.support(row).start;
        // SAFETY: the promise of `write_rows`; the ring holds as many rows as a sum needs.
        let rows: SmallVec<[*const T::Compute; 32]> =
            (start..start + y.taps).map(|input| unsafe { middle.row(input) }).collect();
        let (mut sources, mut taps) = (Vec::new(), Vec::new());
        for phase in self.offsets.chunks_exact(x.taps as usize) {
            for source in &rows {
                sources.extend(phase.iter().map(|&offset| source.wrapping_add(offset)));
            }
            taps.extend_from_slice(all);
        }
        (sources, taps)
    }

    /// Writes an output row: the sums of these terms, or numbers that are there already.
    unsafe fn finish(
        &self,
        row: i64,
        sources: &[*const T::Compute],
        taps: &[T::Compute],
        ready: Option<*mut T::Compute>,
    ) {
        let Columns { real, outputs, folded, joined, segment, .. } = self.columns;
        let (width, count) = ((outputs.end - outputs.start) as usize, (real.end - real.start) as usize);
        // From plane to plane.
        let step = segment * self.phases;
        let dense = |plane: &Plane| plane.column == size_of::<T>() as isize || count < 2;
        // SAFETY: the promise of `write_rows`; the tile's columns are writable, and rows hold the strip's columns.
        unsafe {
            if let ([plane], None, true) = (&self.planes[..], ready, folded.is_empty() && *joined == 1)
                && dense(plane)
            {
                let target = plane.at(row, real.start + self.on).cast::<T>();
                return self.sum_along_x(sources, taps, (target, width, Rows::ONE), &self.output.output);
            }
            let line = ready.unwrap_or(self.row);
            if ready.is_none() {
                let all = (self.planes.len() - 1) * step + width;
                self.sum_along_x(sources, taps, (line, all, Rows::ONE), &self.loops.between_out);
            }
            for &(outside, stands_for) in folded {
                let Some(inside) = stands_for.filter(|inside| outputs.contains(inside) && outputs.contains(&outside))
                else {
                    continue;
                };
                let [from, to] = [outside, inside].map(|column| (column - outputs.start) as usize);
                *line.add(to) = *line.add(to) + *line.add(from);
            }
            for (which, plane) in self.planes.iter().enumerate() {
                let source = line.wrapping_add(which * step + (real.start - outputs.start) as usize).cast_const();
                let target = plane.at(row, real.start + self.on);
                let place = if dense(plane) { target.cast::<T>() } else { self.gathered.cast() };
                (self.output.output.sum)(&[source], &one(), place, count, AS_IT_IS.0, AS_IT_IS.1);
                if !dense(plane) {
                    for column in 0..count {
                        let to = target.wrapping_offset(column as isize * plane.column).cast::<T>();
                        to.write_unaligned(*place.add(column));
                    }
                }
            }
        }
    }

    /// The sums of all phases, in turn.
    unsafe fn sum_along_x<D: Element<Compute = T::Compute>>(
        &self,
        sources: &[*const T::Compute],
        taps: &[T::Compute],
        (target, width, rows): (*mut D, usize, Rows),
        writing: &Writing<D>,
    ) {
        let terms = sources.len() / self.phases;
        // SAFETY: the promise of `write_rows`; rows of the middle grid have the slack that reading past the end needs.
        unsafe {
            match self.phases {
                1 => (writing.sum)(sources, taps, target, width, rows, Stores::Cached),
                phases @ 2..=4 if width >= phases => {
                    let bounds: SmallVec<[usize; 4]> = (1..=phases).map(|phase| phase * terms).collect();
                    (writing.phases[phases - 2])((sources, taps, &bounds), target, width, rows, Stores::Cached);
                }
                phases => {
                    debug_assert!(rows.count == 1);
                    for phase in 0..phases.min(width) {
                        let (range, count) = (phase * terms..(phase + 1) * terms, (width - phase).div_ceil(phases));
                        let (sources, taps) = (&sources[range.clone()], &taps[range]);
                        (self.loops.between_out.sum)(sources, taps, self.phase, count, Rows::ONE, Stores::Cached);
                        for at in 0..count {
                            target.add(at * phases + phase).write_unaligned(D::from_compute(*self.phase.add(at)));
                        }
                    }
                }
            }
        }
    }
}
