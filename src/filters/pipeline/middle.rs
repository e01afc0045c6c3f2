//! The rows of the middle grid: every way up, the loop between, and what lies outside.

use smallvec::SmallVec;
use std::ops::Range;

use super::edges::{Outside, outside};
use super::extent::{Columns, reach};
use super::rows::{Planes, Ring, Room};
use super::upward::Up;
use super::{Between, Direction, Moved};
use crate::border::Border;
use crate::levels::FilterElement;
use crate::plan::strip::SLACK;

/// The rows of the middle grid, computed when they are asked for.
pub struct Middle<'a, T: FilterElement>
where
    T::Compute: FilterElement,
{
    ups: Vec<Up<'a, T>>,
    columns: &'a Columns,
    between: &'a dyn Between<T::Compute>,
    channel: usize,
    ring: Ring<T::Compute>,
    /// What lies above and below the middle grid.
    fill: Border,
    /// For each way up, rows outside that are added to others.
    folds: Vec<Vec<Outside>>,
    /// Whose rows become the result: the first stream's, or the argument's where there are none.
    result: usize,
    /// For each of the other ways up, its two rows.
    others: Vec<[*mut T::Compute; 2]>,
    /// A row to be added to another.
    spare: *mut T::Compute,
    zeros: *const T::Compute,
    /// The columns and rows that count in the sums, and which rows have been counted.
    owned: [Range<i64>; 2],
    counted: Vec<bool>,
    /// The sums.
    pub sums: Vec<f64>,
}

impl<'a, T: FilterElement> Middle<'a, T>
where
    T::Compute: FilterElement,
{
    pub fn new(
        ups: Vec<Up<'a, T>>,
        columns: &'a Columns,
        between: &'a dyn Between<T::Compute>,
        down: &Direction<T::Compute>,
        (room, zeros): (&mut Room<T::Compute>, *const T::Compute),
    ) -> Self {
        let row = columns.row();
        let folds = ups.iter().map(|up| match up.direction.fold {
            Border::Constant => Vec::new(),
            rule => outside(rule, reach(&up.direction.geometry.y.transposed()), columns.height),
        });
        Middle {
            folds: folds.collect(),
            columns,
            between,
            channel: 0,
            ring: Ring::new(room, columns.rings[ups.len()], row),
            fill: down.fill,
            result: usize::from(ups.len() > 1),
            others: (1..ups.len())
                .map(|_| {
                    // Both rows in one piece.
                    let first = room.take(2 * row + SLACK);
                    [first, first.wrapping_add(row)]
                })
                .collect(),
            spare: room.take(row + SLACK),
            zeros,
            owned: [0..0, 0..0],
            counted: Vec::new(),
            sums: vec![0.0; between.sums()],
            ups,
        }
    }

    /// Begins with another tile: its planes, the bias of each channel, and what counts in the sums.
    pub fn begin(
        &mut self,
        (planes, of_tile): (&Planes, Range<usize>),
        bias: Option<&[T::Compute]>,
        [columns, rows]: [Range<i64>; 2],
        on: Moved,
    ) {
        for (index, up) in self.ups.iter_mut().enumerate() {
            let bias = bias.filter(|_| index == 0);
            let of_tile = of_tile.clone();
            up.begin(
                of_tile.map(|plane| (planes.input(index, plane), bias.map(|bias| bias[planes.channel(plane)]))),
                on.middle,
            );
        }
        self.ring.clear();
        self.channel = planes.channel(of_tile.start);
        if !self.sums.is_empty() {
            self.sums.fill(0.0);
            self.counted.clear();
            self.counted.resize((rows.end - rows.start).max(0) as usize, false);
        }
        self.owned = [columns.start - on.middle..columns.end - on.middle, rows];
    }

    /// Row `row`, which may lie outside. As many rows as a sum along y needs are held at once.
    ///
    /// # Safety
    /// The promise of `run_tiles`.
    #[inline]
    pub unsafe fn row(&mut self, row: i64) -> *const T::Compute {
        if self.ring.holds(row) {
            return self.ring.place(row);
        }
        // SAFETY: the caller's promise.
        unsafe { self.compute_row(row) }
    }

    unsafe fn compute_row(&mut self, row: i64) -> *const T::Compute {
        let height = self.columns.height;
        let Some(source) = self.fill.source(row as isize, height as usize) else { return self.zeros };
        // Two rows share most of what they are summed from.
        let inside = row >= 0 && row + 1 < height && !self.ring.holds(row + 1);
        let both = inside && !self.is_folded(row) && !self.is_folded(row + 1);
        // SAFETY: the promise of `row`.
        unsafe {
            if both && self.ups.iter().all(|up| up.takes_pairs(row)) {
                self.compute([row, row + 1]);
            } else {
                self.compute_one(row, source as i64);
            }
        }
        self.ring.place(row)
    }

    fn is_folded(&self, row: i64) -> bool {
        self.folds.iter().any(|folds| folds.iter().any(|&(_, stands_for)| stands_for == Some(row)))
    }

    unsafe fn compute(&mut self, rows: [i64; 2]) {
        let places = rows.map(|row| self.ring.place(row));
        for index in 0..self.ups.len() {
            let targets = if index == self.result { places } else { self.others[index.saturating_sub(1)] };
            // SAFETY: the promise of `run_tiles`.
            unsafe { self.ups[index].write_pair(rows[0], targets) };
            for target in targets {
                self.fold_columns(index, target);
            }
        }
        self.ring.hold(rows[0]);
        self.ring.hold(rows[1]);
        let length = self.columns.row();
        if self.sums.is_empty() && places[1] == places[0].wrapping_add(length) {
            // One call for both.
            self.apply(places[0], 0, 2 * length);
            for place in places {
                self.fill_columns(place);
            }
            return;
        }
        for which in 0..2 {
            self.pass(rows[which], places[which], which);
        }
    }

    unsafe fn compute_one(&mut self, row: i64, source: i64) {
        let place = self.ring.place(row);
        for index in 0..self.ups.len() {
            let target = if index == self.result { place } else { self.others[index.saturating_sub(1)][0] };
            // SAFETY: the promise of `run_tiles`.
            unsafe { self.ups[index].write(source, target) };
            for fold in 0..self.folds[index].len() {
                let (outside, stands_for) = self.folds[index][fold];
                if stands_for != Some(source) {
                    continue;
                }
                // SAFETY: as above; the spare row is as long.
                unsafe {
                    self.ups[index].write(outside, self.spare);
                    for at in 0..self.columns.row() {
                        *target.add(at) = *target.add(at) + *self.spare.add(at);
                    }
                }
            }
            self.fold_columns(index, target);
        }
        self.pass(row, place, 0);
        self.ring.hold(row);
    }

    /// Adds columns outside to those that they stand for.
    fn fold_columns(&self, index: usize, row: *mut T::Compute) {
        for &(outside, stands_for) in &self.columns.folds[index] {
            let Some(inside) = stands_for else { continue };
            if self.columns.range.contains(&outside) && self.columns.range.contains(&inside) {
                let (from, to) = (self.columns.place(outside), self.columns.place(inside));
                // SAFETY: both places are in the row.
                unsafe { *row.add(to) = *row.add(to) + *row.add(from) };
            }
        }
    }

    /// Calls the loop between for so many numbers from a row on, none of which counts in the sums.
    fn apply(&self, place: *mut T::Compute, which: usize, length: usize) {
        // SAFETY: so many numbers were written from each row on, and no two rows overlap.
        unsafe {
            let others: SmallVec<[&[T::Compute]; 4]> =
                self.others.iter().map(|rows| std::slice::from_raw_parts(rows[which], length)).collect();
            self.between.apply(self.channel, std::slice::from_raw_parts_mut(place, length), &others);
        }
    }

    /// Calls the loop between, and fills the columns outside.
    fn pass(&mut self, row: i64, place: *mut T::Compute, which: usize) {
        let Columns { phases, pitch, per_phase, .. } = *self.columns;
        let counts = self.count(row);
        if !counts {
            self.apply(place, which, self.columns.row());
            return self.fill_columns(place);
        }
        let mut others: SmallVec<[&[T::Compute]; 4]> = SmallVec::new();
        for phase in 0..phases {
            let slice = |row: *mut T::Compute, range: Range<usize>| {
                // SAFETY: the range is inside the phase, which was written; no two rows overlap.
                unsafe { std::slice::from_raw_parts_mut(row.add(phase * pitch + range.start), range.len()) }
            };
            let owned = self.owned_places(phase);
            let parts = [(0..owned.start, false), (owned.clone(), true), (owned.end..per_phase, false)];
            for (range, counted) in parts.into_iter().filter(|(range, _)| !range.is_empty()) {
                others.clear();
                others.extend(self.others.iter().map(|rows| &*slice(rows[which], range.clone())));
                let row = slice(place, range.clone());
                if counted {
                    self.between.apply_and_sum(self.channel, row, &others, &mut self.sums);
                } else {
                    self.between.apply(self.channel, row, &others);
                }
            }
        }
        self.fill_columns(place);
    }

    /// Fills the columns outside the middle grid that the way down reads.
    fn fill_columns(&self, place: *mut T::Compute) {
        for &(outside, stands_for) in &self.columns.stands {
            for plane in 0..self.columns.joined {
                let place = place.wrapping_add(plane * self.columns.segment);
                let value = match stands_for {
                    // SAFETY: the range of columns holds both.
                    Some(inside) => unsafe { *place.add(self.columns.place(inside)) },
                    None => T::Compute::default(),
                };
                // SAFETY: as above.
                unsafe { *place.add(self.columns.place(outside)) = value };
            }
        }
    }

    /// Whether a row counts in the sums, for the first time.
    fn count(&mut self, row: i64) -> bool {
        if self.counted.is_empty() || !self.owned[1].contains(&row) {
            return false;
        }
        !std::mem::replace(&mut self.counted[(row - self.owned[1].start) as usize], true)
    }

    /// The places of a phase that count in the sums.
    fn owned_places(&self, phase: usize) -> Range<usize> {
        let Columns { ref range, phases, per_phase, .. } = *self.columns;
        // The first place whose column is not before the given one.
        let place = |column: i64| {
            let distance = column - range.start - phase as i64;
            (distance + phases as i64 - 1).div_euclid(phases as i64).clamp(0, per_phase as i64) as usize
        };
        let (start, end) = (place(self.owned[0].start), place(self.owned[0].end));
        start..end.max(start)
    }
}
