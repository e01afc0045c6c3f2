//! The way through both filters where every sum along y has as many steps as the loops of [`running`](crate::loops::running)
//! take: some rows at a time, and of these a few columns at a time.
//!
//! Input row → its phases along x → for a few columns: sums along y as they end, the loop between, sums along y as they
//! end → sum along x → output row. Of the middle grid there are some rows of a few columns, in the first-level cache; a
//! row is loaded once to be added to every sum under way. Where the second filter is not separable, it reads shifts of
//! middle rows, which are then whole.

use smallvec::SmallVec;
use std::ops::Range;

use super::downward::Down;
use super::extent::Columns;
use super::rows::{Plane, Planes, Room};
use super::steps::{LATER, most_rows};
use super::upward::Up;
use super::{Between, Direction, Kernel};
use crate::levels::FilterElement;
use crate::loops::running::{RunningSums, STEPS};
use crate::loops::{Loops, RunningLoop};
use crate::plan::strip::SLACK;
use firelu_cpu::features::Level;

/// Columns that pass through both sums along y at once where only the second filter is separable.
const PANEL: usize = 64;

/// What a part of the columns is summed from along y.
struct Part<C> {
    /// Columns of a row of the middle grid.
    columns: Range<usize>,
    /// Where the sources of a step stand in an input row.
    offsets: SmallVec<[usize; 16]>,
    /// The taps of one or two rows that end together: for as many as end with a step, one after the other.
    taps: Vec<Vec<C>>,
}

/// A way up.
struct WayUp<'a, T: FilterElement>
where
    T::Compute: FilterElement,
{
    up: Up<'a, T>,
    parts: Vec<Part<T::Compute>>,
    /// How many rows of the middle grid end with each input row, and how many of them in one call.
    factor: usize,
    together: usize,
    /// The first row of the middle grid whose sum starts with input row zero.
    first: i64,
    /// Input rows, the most of them, and from one to the next.
    inputs: *mut T::Compute,
    most_inputs: usize,
    pitch: usize,
    /// Sums under way.
    under_way: *mut T::Compute,
    /// Rows of the middle grid: those of a panel after those of the panel before.
    middle: *mut T::Compute,
    most_rows: usize,
    /// The next input row, and how many rows of the middle grid are there already.
    next: i64,
    left: usize,
    /// The input rows at hand; the sources of each part; targets.
    at_hand: Vec<*const T::Compute>,
    sources: Vec<Vec<*const T::Compute>>,
}

impl<'a, T: FilterElement> WayUp<'a, T>
where
    T::Compute: FilterElement,
{
    fn new(
        up: Up<'a, T>,
        down: &Direction<T::Compute>,
        index: usize,
        columns: &Columns,
        room: &mut Room<T::Compute>,
    ) -> Self {
        let (direction, y) = (up.direction, up.direction.geometry.y);
        let factor = y.up as usize;
        let together = if factor.is_multiple_of(2) { 2 } else { 1 };
        // Rows whose sums start with the same input row follow each other.
        let start = |row: i64| y.support(row).start;
        let begins = (0..y.up).find(|&row| start(row) != start(row - 1)).unwrap_or(0);
        let first = begins - start(begins) * y.up;
        // Of the sum that ends `n` steps later, this input row has term `LATER - n`.
        let along_y = |n: usize, row: usize| y.support(first + row as i64).tap + (LATER - n) as i64 * y.up;
        let taps = |value: &dyn Fn(i64, usize) -> T::Compute, sources: usize| -> Vec<Vec<T::Compute>> {
            let calls = (0..factor).step_by(together).map(|row| {
                let mut taps = Vec::new();
                for source in 0..sources {
                    for n in 0..STEPS {
                        taps.extend((row..row + together).map(|row| value(along_y(n, row), source)));
                    }
                }
                taps
            });
            calls.collect()
        };
        let parts: Vec<Part<T::Compute>> = match &direction.kernel {
            Kernel::Separable(_, along) => {
                let taps = taps(&|tap, _| along[tap as usize], 1);
                vec![Part { columns: 0..columns.row(), offsets: [0].into_iter().collect(), taps }]
            }
            Kernel::Full(all) => {
                let phases = up.phases.iter().enumerate().map(|(number, phase)| Part {
                    columns: number * columns.pitch..number * columns.pitch + columns.per_phase,
                    offsets: phase.offsets.clone(),
                    taps: taps(
                        &|tap, source| all[tap as usize * direction.geometry.x.taps as usize + phase.taps[source]],
                        phase.offsets.len(),
                    ),
                });
                phases.collect()
            }
        };
        let (most_rows, most_inputs) = most_rows(direction, down, columns.at_once);
        let pitch = (columns.ring_row(direction, index) + SLACK).next_multiple_of(16);
        let inputs = room.take(most_inputs * pitch);
        // SAFETY: the room was just taken. What lies outside stays zero.
        unsafe { inputs.write_bytes(0, most_inputs * pitch) };
        WayUp {
            sources: parts.iter().map(|_| Vec::new()).collect(),
            parts,
            factor,
            together,
            first,
            inputs,
            most_inputs,
            pitch,
            under_way: room.take(LATER * factor * columns.row() + SLACK),
            middle: room.take(most_rows * columns.row() + SLACK),
            most_rows,
            next: 0,
            left: 0,
            at_hand: Vec::new(),
            up,
        }
    }

    /// Begins with row `row` of the middle grid.
    fn begin(&mut self, row: i64, columns: &Columns) {
        self.next = (row - self.first).div_euclid(self.factor as i64);
        self.left = 0;
        // SAFETY: so much room was taken. These sums start too late, and are not wanted; but they are numbers.
        unsafe { self.under_way.write_bytes(0, LATER * self.factor * columns.row()) };
    }

    /// Reads the input rows that these rows of the middle grid need and that were not read.
    ///
    /// # Safety
    /// The promise of `run_tiles`.
    unsafe fn read(&mut self, rows: &Range<i64>) {
        let end = (rows.end - 1 - self.first).div_euclid(self.factor as i64) + STEPS as i64;
        let start = self.next;
        self.at_hand.clear();
        debug_assert!(end - start <= self.most_inputs as i64);
        // SAFETY: the promise of `run_tiles`; as many rows were counted.
        unsafe { self.up.read_rows(start..end, (self.inputs, self.pitch), &mut self.at_hand) };
        self.next = end;
        for (part, sources) in self.parts.iter().zip(&mut self.sources) {
            sources.clear();
            for row in &self.at_hand {
                sources.extend(part.offsets.iter().map(|&offset| row.wrapping_add(offset)));
            }
        }
    }

    /// Writes the rows of the middle grid that end with the input rows at hand, but for the first `skip`, in some columns.
    ///
    /// # Safety
    /// The promise of `run_tiles`.
    unsafe fn write(&self, panel: &Range<usize>, skip: usize, loops: &[RunningLoop<T::Compute>; 2], row: usize) {
        let width = panel.len();
        let middle = self.panel(panel);
        let mut targets: SmallVec<[*mut T::Compute; 64]> = SmallVec::new();
        for (part, sources) in self.parts.iter().zip(&self.sources) {
            let from = part.columns.start.max(panel.start);
            let to = part.columns.end.min(panel.end);
            if from >= to {
                continue;
            }
            for (call, taps) in part.taps.iter().enumerate() {
                targets.clear();
                for step in 0..self.at_hand.len() {
                    for which in 0..self.together {
                        let ends = step * self.factor + call * self.together + which;
                        targets.push(match ends.checked_sub(skip) {
                            Some(place) => middle.wrapping_add((self.left + place) * width + from - panel.start),
                            None => std::ptr::null_mut(),
                        });
                    }
                }
                let sums = RunningSums {
                    sources,
                    start: from - part.columns.start,
                    taps,
                    targets: &targets,
                    under_way: self.under_way.wrapping_add(call * self.together * LATER * row + from),
                    pitch: row,
                };
                // SAFETY: the promise of `run_tiles`; all rows hold these columns, and sums under way have rows of
                // their own.
                unsafe { loops[self.together - 1](&sums, to - from) };
            }
        }
    }

    /// Where the rows of a panel start.
    fn panel(&self, panel: &Range<usize>) -> *mut T::Compute {
        self.middle.wrapping_add(panel.start * self.most_rows)
    }
}

/// Both ways for one strip.
pub struct Running<'a, T: FilterElement>
where
    T::Compute: FilterElement,
{
    ways: Vec<WayUp<'a, T>>,
    /// Whose rows become the result: the first stream's, or the argument's where there are none.
    result: usize,
    lower: Down<'a, T>,
    down: &'a Direction<T::Compute>,
    columns: &'a Columns,
    between: &'a dyn Between<T::Compute>,
    panels: Vec<Range<usize>>,
    /// For each panel, its columns that lie outside the middle grid.
    outside: Vec<Vec<usize>>,
    channel: usize,
    /// What each phase of an output row is summed from, and its taps: see [`Part`].
    offsets: Vec<Vec<usize>>,
    taps: Vec<T::Compute>,
    under_way: *mut T::Compute,
    /// Sums along y, or both, and from one to the next.
    sums: *mut T::Compute,
    pitch: usize,
    /// Output rows on their way.
    lines: *mut T::Compute,
    loops: &'static Loops<T::Compute>,
}

impl<'a, T: FilterElement> Running<'a, T>
where
    T::Compute: FilterElement,
{
    pub fn new(
        ups: Vec<Up<'a, T>>,
        (lower, down): (Down<'a, T>, &'a Direction<T::Compute>),
        columns: &'a Columns,
        between: &'a dyn Between<T::Compute>,
        (room, level): (&mut Room<T::Compute>, Level),
    ) -> Self {
        let row = columns.row();
        let y = &down.geometry.y;
        let (offsets, taps): (Vec<Vec<usize>>, Vec<T::Compute>) = match &down.kernel {
            Kernel::Separable(_, along) => {
                let tap = |row: i64, n: usize| along[(LATER - n) * y.down as usize + row as usize];
                let taps = (0..y.down).flat_map(|row| (0..STEPS).map(move |n| (row, n))).map(|(row, n)| tap(row, n));
                (vec![vec![0]], taps.collect())
            }
            Kernel::Full(all) => {
                let across = down.geometry.x.taps as usize;
                let mut taps = Vec::new();
                for row in 0..y.down as usize {
                    for column in 0..across {
                        let tap = |n: usize| all[((LATER - n) * y.down as usize + row) * across + column];
                        taps.extend((0..STEPS).map(tap));
                    }
                }
                (lower.offsets().map(<[usize]>::to_vec).collect(), taps)
            }
        };
        let separable = ups.iter().all(|up| matches!(up.direction.kernel, Kernel::Separable(..)));
        let panels: Vec<Range<usize>> = match &down.kernel {
            Kernel::Separable(..) if !separable => {
                (0..row).step_by(PANEL).map(|start| start..(start + PANEL).min(row)).collect()
            }
            _ => std::iter::once(0..row).collect(),
        };
        let places = columns.stands.iter().flat_map(|&(column, _)| {
            (0..columns.joined).map(move |plane| plane * columns.segment + columns.place(column))
        });
        let places: Vec<usize> = places.collect();
        let within = |panel: &Range<usize>| -> Vec<usize> {
            places.iter().filter(|&place| panel.contains(place)).map(|place| place - panel.start).collect()
        };
        let outside = panels.iter().map(within).collect();
        let ways = ups.into_iter().enumerate().map(|(index, up)| WayUp::new(up, down, index, columns, room));
        let ways: Vec<_> = ways.collect();
        let pitch = (row + SLACK).next_multiple_of(16);
        Running {
            result: usize::from(ways.len() > 1),
            ways,
            lower,
            down,
            columns,
            between,
            panels,
            outside,
            channel: 0,
            offsets,
            taps,
            under_way: room.take(LATER * row + SLACK),
            sums: room.take(columns.at_once * pitch),
            pitch,
            lines: room.take(columns.at_once * columns.widest.next_multiple_of(16)),
            loops: <T::Compute as FilterElement>::loops(level),
        }
    }

    /// Writes these output rows of some planes.
    ///
    /// # Safety
    /// The promise of `run_tiles`.
    pub unsafe fn write_rows(
        &mut self,
        (planes, of_tile): (&Planes, Range<usize>),
        bias: Option<&[T::Compute]>,
        rows: Range<usize>,
    ) {
        let y = &self.down.geometry.y;
        let start = y.support(rows.start as i64).start;
        self.channel = planes.channel(of_tile.start);
        for (index, way) in self.ways.iter_mut().enumerate() {
            let bias = bias.filter(|_| index == 0);
            let of_tile = of_tile.clone();
            let of_tile =
                of_tile.map(|plane| (planes.input(index, plane), bias.map(|bias| bias[planes.channel(plane)])));
            way.up.begin(of_tile, 0);
            way.begin(start, self.columns);
        }
        // SAFETY: so much room was taken. These sums start too late, and are not wanted; but they are numbers.
        unsafe { self.under_way.write_bytes(0, LATER * self.columns.row()) };
        let outputs = of_tile.map(|plane| planes.output(plane));
        self.lower.begin(outputs);
        let (all, at_once) = (rows.len() + LATER, self.columns.at_once);
        let mut step = 0;
        while step < all {
            let steps = step..(step + at_once).min(all);
            let middle = start + step as i64 * y.down..start + steps.end as i64 * y.down;
            // SAFETY: the caller's promise.
            unsafe { self.write_steps(&steps, &middle, rows.start) };
            step = steps.end;
        }
    }

    /// Some steps of the way down, for which these rows of the middle grid are needed.
    unsafe fn write_steps(&mut self, steps: &Range<usize>, middle: &Range<i64>, first_row: usize) {
        let Some(loops) = &self.loops.running else { return };
        let (row, is_first) = (self.columns.row(), steps.start == 0);
        let mut skips: SmallVec<[usize; 4]> = SmallVec::new();
        for way in &mut self.ways {
            // Sums that end before the first that is wanted: those that start too late, and then those above.
            let above = (middle.start - way.first).rem_euclid(way.factor as i64) as usize;
            skips.push(if is_first { LATER * way.factor + above } else { 0 });
            // SAFETY: the caller's promise.
            unsafe { way.read(middle) };
        }
        for step in steps.clone().filter(|&step| step >= LATER) {
            // Soon it is written.
            self.lower.prefetch((first_row + step - LATER) as i64);
        }
        for which in 0..self.panels.len() {
            let panel = self.panels[which].clone();
            // SAFETY: the caller's promise.
            unsafe {
                for (way, &skip) in self.ways.iter().zip(&skips) {
                    way.write(&panel, skip, loops, row);
                }
                self.pass(which, middle);
                self.sum(&panel, steps, middle.end - middle.start, loops[0]);
                self.keep_rest(&panel, middle, &skips);
            }
        }
        let rows = (middle.end - middle.start) as usize;
        for (way, skip) in self.ways.iter_mut().zip(skips) {
            way.left = way.left + way.at_hand.len() * way.factor - skip - rows;
        }
        let first = steps.start.max(LATER);
        if first < steps.end {
            let sums = self.sums.wrapping_add((first - steps.start) * self.pitch);
            let outputs = (first_row + first - LATER) as i64..(first_row + steps.end - LATER) as i64;
            // SAFETY: the caller's promise.
            unsafe {
                match self.down.kernel {
                    Kernel::Separable(..) => self.lower.finish_sums(
                        outputs,
                        (sums, self.pitch),
                        (self.lines, self.columns.widest.next_multiple_of(16)),
                    ),
                    Kernel::Full(_) => {
                        for (at, output) in outputs.enumerate() {
                            let sums = sums.wrapping_add(at * self.pitch);
                            self.lower.finish_phases(output, sums, self.columns.per_phase);
                        }
                    }
                }
            }
        }
    }

    /// Calls the loop between for these rows of a panel, and clears what lies outside.
    unsafe fn pass(&self, which: usize, rows: &Range<i64>) {
        let panel = &self.panels[which];
        let (width, count) = (panel.len(), (rows.end - rows.start) as usize);
        let result = self.ways[self.result].panel(panel);
        // SAFETY: so many numbers were written from there on, and no two of them overlap.
        unsafe {
            let others: SmallVec<[&[T::Compute]; 4]> = self
                .ways
                .iter()
                .enumerate()
                .filter(|&(index, _)| index != self.result)
                .map(|(_, way)| std::slice::from_raw_parts(way.panel(panel).cast_const(), width * count))
                .collect();
            self.between.apply(self.channel, std::slice::from_raw_parts_mut(result, width * count), &others);
        }
        for (place, row) in rows.clone().enumerate() {
            let line = result.wrapping_add(place * width);
            // SAFETY: as above.
            unsafe {
                if row < 0 || row >= self.columns.height {
                    line.write_bytes(0, width);
                } else {
                    for &column in &self.outside[which] {
                        line.add(column).write(T::Compute::default());
                    }
                }
            }
        }
    }

    /// The sums along y of a panel that end with these steps; of whole rows both sums.
    unsafe fn sum(&self, panel: &Range<usize>, steps: &Range<usize>, rows: i64, write: RunningLoop<T::Compute>) {
        let (width, result) = (panel.len(), self.ways[self.result].panel(panel));
        let separable = matches!(self.down.kernel, Kernel::Separable(..));
        let mut sources: SmallVec<[*const T::Compute; 64]> = SmallVec::new();
        let mut targets: SmallVec<[*mut T::Compute; 32]> = SmallVec::new();
        for (phase, offsets) in self.offsets.iter().enumerate() {
            sources.clear();
            targets.clear();
            for row in 0..rows as usize {
                let line = result.wrapping_add(row * width).cast_const();
                sources.extend(offsets.iter().map(|&offset| line.wrapping_add(offset)));
            }
            let (from, count) = match separable {
                true => (panel.start, width),
                false => (phase * self.columns.per_phase, self.lower.count_of_phase()),
            };
            for step in steps.clone() {
                targets.push(match step {
                    step if step < LATER => std::ptr::null_mut(),
                    step => self.sums.wrapping_add((step - steps.start) * self.pitch + from),
                });
            }
            let sums = RunningSums {
                sources: &sources,
                start: 0,
                taps: &self.taps,
                targets: &targets,
                under_way: self.under_way.wrapping_add(from),
                pitch: self.columns.row(),
            };
            // SAFETY: the promise of `run_tiles`; all rows hold these columns, with slack for the last registers.
            unsafe { write(&sums, count) };
        }
    }

    /// Moves rows of the middle grid that are not yet needed to where the next begin.
    unsafe fn keep_rest(&self, panel: &Range<usize>, rows: &Range<i64>, skips: &[usize]) {
        let (width, count) = (panel.len(), (rows.end - rows.start) as usize);
        for (way, skip) in self.ways.iter().zip(skips) {
            let rest = way.left + way.at_hand.len() * way.factor - skip - count;
            let start = way.panel(panel);
            // SAFETY: so many rows were written.
            unsafe { start.copy_from(start.add(count * width), rest * width) };
        }
    }
}

/// The planes of a tile, for the way down.
impl<T: FilterElement> Down<'_, T>
where
    T::Compute: FilterElement,
{
    /// Begins with other planes.
    fn begin(&mut self, planes: impl Iterator<Item = Plane>) {
        self.planes.clear();
        self.planes.extend(planes);
    }
}
