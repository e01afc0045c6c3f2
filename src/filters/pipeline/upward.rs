//! A way up: rows of a tensor become rows of the middle grid, phase by phase.

use smallvec::SmallVec;
use std::ops::Range;

use super::extent::Columns;
use super::rows::{AS_IT_IS, Plane, Ring, Room, one};
use super::steps::ROWS_AT_ONCE;
use super::{Direction, Kernel};
use crate::axis::{Axis, Support};
use crate::border::Border;
use crate::levels::FilterElement;
use crate::loops::Loops;
use crate::loops::memory_access::{Rows, Stores};
use crate::loops::split::Columns as SplitColumns;
use crate::loops::two_rows::PairedRows;
use firelu_core::dtype::{Compute, Element};
use firelu_cpu::features::Level;

/// How many rows ahead of their use input rows are prefetched; where sums run down the columns, many are read in turn.
const ROWS_AHEAD: i64 = 2;
const RUNNING_ROWS_AHEAD: i64 = 12;

/// How the phases of a row are written: two at a time where they share most of what they are summed from.
#[allow(clippy::large_enum_variant, reason = "a few of them at a time")]
enum Step<C: Element> {
    Pair(PairedRows<C>),
    One(SmallVec<[*const C; 16]>, SmallVec<[C; 16]>),
}

/// What a phase is summed from along x.
pub struct Phase {
    /// Where each term stands in a prepared row.
    pub offsets: SmallVec<[usize; 16]>,
    /// Which tap it has.
    pub taps: SmallVec<[usize; 16]>,
}

/// A way up for one tile.
pub struct Up<'a, T: FilterElement>
where
    T::Compute: FilterElement,
{
    pub direction: &'a Direction<T::Compute>,
    /// The planes that stand side by side, each with its bias.
    planes: SmallVec<[(Plane, Option<T::Compute>); 8]>,
    /// From one of them to the next in a prepared row.
    segment: usize,
    /// The first input column of the strip that rows are prepared for, how much further on the tile's is, and how many.
    first: i64,
    on: i64,
    inputs: usize,
    /// Into how many rows input columns are split, and from one to the next.
    split: (usize, usize),
    pub phases: Vec<Phase>,
    /// What is done along x, and for which phase first, where the kernel is separable.
    steps: Vec<(usize, Step<T::Compute>)>,
    /// What rows are summed from along y, one after the other until it repeats, counted from row zero.
    supports: Vec<Support>,
    /// For each of these rows, the sum of it and of the next together; none where they are better apart.
    pairs: Vec<Option<PairedRows<T::Compute>>>,
    ring: Ring<T::Compute>,
    /// Ones, of which each has a bias as its factor.
    ones: *const T,
    /// The row as it is read; then split.
    whole: *mut T::Compute,
    prepared: *mut T::Compute,
    /// From one prepared row to the next, where there are several.
    length: usize,
    /// Whether what lies outside is zeros, and they are there for every row.
    has_zeros: bool,
    zeros: *const T::Compute,
    /// How many rows ahead of their use input rows are prefetched.
    rows_ahead: i64,
    /// The middle grid's columns.
    per_phase: usize,
    pitch: usize,
    input: &'static Loops<T>,
    loops: &'static Loops<T::Compute>,
}

impl<'a, T: FilterElement> Up<'a, T>
where
    T::Compute: FilterElement,
{
    pub fn new(
        direction: &'a Direction<T::Compute>,
        columns: &Columns,
        index: usize,
        (room, zeros): (&mut Room<T::Compute>, *const T::Compute),
        level: Level,
    ) -> Self {
        let x = &direction.geometry.x;
        let inputs = columns.inputs[index];
        let (split, length, pitch) = columns.prepared(direction, index);
        let phases: Vec<Phase> = (0..columns.phases)
            .map(|phase| {
                let support = x.support(columns.range.start + phase as i64);
                let place = |k: i64| {
                    let column = (support.start + k - inputs.0) as usize;
                    column % split * pitch + column / split
                };
                Phase {
                    offsets: (0..support.count).map(place).collect(),
                    taps: (0..support.count).map(|k| (support.tap + k * x.up) as usize).collect(),
                }
            })
            .collect();
        let y = &direction.geometry.y;
        let loops = <T::Compute as FilterElement>::loops(level);
        let at_once = if columns.running { ROWS_AT_ONCE } else { 1 };
        let (prepared, whole) = (room.take(at_once * length), room.take(columns.widest));
        let ones: *mut T = room.take(columns.widest).cast();
        let one_row = matches!(direction.kernel, Kernel::Separable(..)) || columns.running;
        let has_zeros = direction.fill == Border::Constant && one_row;
        // SAFETY: the room was just taken, and no element is larger than its compute number.
        unsafe {
            for column in 0..columns.inputs[index].1 {
                ones.add(column).write(T::from_compute(T::Compute::from_f64(1.0)));
            }
            if has_zeros {
                prepared.write_bytes(0, at_once * length);
                whole.write_bytes(0, columns.widest);
            }
        }
        let steps = match &direction.kernel {
            Kernel::Separable(along_x, _) => steps(&phases, along_x, prepared, columns, (split, loops)),
            Kernel::Full(_) => Vec::new(),
        };
        let pairs = (0..y.up).map(|row| match &direction.kernel {
            Kernel::Separable(_, along_y) if !direction.passes_rows() => pair_along_y(y, row, along_y, columns, loops),
            _ => None,
        });
        let pairs = pairs.collect();
        Up {
            direction,
            planes: SmallVec::new(),
            segment: columns.segment,
            first: inputs.0,
            on: 0,
            inputs: inputs.1,
            split: (split, pitch),
            phases,
            steps,
            supports: (0..y.up).map(|row| y.support(row)).collect(),
            pairs,
            ring: Ring::new(room, columns.rings[index], columns.ring_row(direction, index)),
            ones,
            whole,
            prepared,
            length,
            has_zeros,
            zeros,
            rows_ahead: if columns.running { RUNNING_ROWS_AHEAD } else { ROWS_AHEAD },
            per_phase: columns.per_phase,
            pitch: columns.pitch,
            input: T::loops(level),
            loops,
        }
    }

    /// Begins with other planes, each with its bias, so many columns of the middle grid further on.
    pub fn begin(&mut self, planes: impl Iterator<Item = (Plane, Option<T::Compute>)>, on: i64) {
        self.on = on / self.direction.geometry.x.up;
        self.planes.clear();
        self.planes.extend(planes);
        self.ring.clear();
    }

    /// The place of a row among those until the taps repeat, and how many inputs it is on from there.
    #[inline]
    fn place(&self, row: i64) -> (usize, i64) {
        match self.direction.geometry.y.up {
            1 => (0, row),
            2 => ((row & 1) as usize, row >> 1),
            up => (row.rem_euclid(up) as usize, row.div_euclid(up)),
        }
    }

    /// Whether rows `row` and the one after are better computed together.
    #[inline]
    pub fn takes_pairs(&self, row: i64) -> bool {
        self.pairs[self.place(row).0].is_some()
    }

    /// Writes rows `row` and the one after, which [`takes_pairs`](Self::takes_pairs) has allowed.
    ///
    /// # Safety
    /// The promise of `run_tiles`; the targets hold rows of the middle grid.
    pub unsafe fn write_pair(&mut self, row: i64, targets: [*mut T::Compute; 2]) {
        let (place, on) = self.place(row);
        let (Some(shift), Some(write)) = (self.pairs[place].as_ref().map(|pairs| pairs.shift), self.loops.input_pairs)
        else {
            return;
        };
        let start = self.supports[place].start + on;
        let mut sources: SmallVec<[*const T::Compute; 32]> = SmallVec::new();
        // SAFETY: the caller's promise; the ring holds as many rows as two sums need, and so many zeros are there.
        unsafe {
            for input in start..start + self.supports[place].count + shift as i64 {
                sources.push(self.horizontal(input));
            }
            if let Some(pairs) = &mut self.pairs[place] {
                pairs.sources.copy_from_slice(&sources);
                pairs.second = (targets[1] as isize) - (targets[0] as isize);
                write(pairs, targets[0], self.phases.len() * self.pitch);
            }
        }
    }

    /// Writes a row of the middle grid, which may lie outside it.
    ///
    /// # Safety
    /// As `write_pair`.
    pub unsafe fn write(&mut self, row: i64, target: *mut T::Compute) {
        let (place, on) = self.place(row);
        let support = Support { start: self.supports[place].start + on, ..self.supports[place] };
        // SAFETY: the caller's promise.
        unsafe {
            match &self.direction.kernel {
                _ if self.direction.passes_rows() => self.write_horizontal(row, target),
                Kernel::Separable(_, along_y) => self.sum_along_y(support, along_y, target),
                Kernel::Full(taps) => self.sum_both(support, taps, target),
            }
        }
    }

    unsafe fn sum_along_y(&mut self, support: Support, along_y: &[T::Compute], target: *mut T::Compute) {
        let y = self.direction.geometry.y;
        let mut sources: SmallVec<[*const T::Compute; 16]> = SmallVec::new();
        let mut taps: SmallVec<[T::Compute; 16]> = SmallVec::new();
        for k in 0..support.count {
            // SAFETY: the promise of `write`.
            sources.push(unsafe { self.horizontal(support.start + k) });
            taps.push(along_y[(support.tap + k * y.up) as usize]);
        }
        let count = self.phases.len() * self.pitch;
        // SAFETY: the promise of `write`; a row of zeros is as long as a row of the middle grid.
        unsafe { (self.loops.between_out.sum)(&sources, &taps, target, count, Rows::ONE, Stores::Cached) };
    }

    unsafe fn sum_both(&mut self, support: Support, all: &[T::Compute], target: *mut T::Compute) {
        let (x, y) = (self.direction.geometry.x, self.direction.geometry.y);
        let rows: SmallVec<[*const T::Compute; 16]> =
            // SAFETY: the promise of `write`.
            (0..support.count).map(|k| unsafe { self.horizontal(support.start + k) }).collect();
        let mut sources: SmallVec<[*const T::Compute; 64]> = SmallVec::new();
        let mut taps: SmallVec<[T::Compute; 64]> = SmallVec::new();
        for (number, phase) in self.phases.iter().enumerate() {
            sources.clear();
            taps.clear();
            for (k, row) in rows.iter().enumerate() {
                let first = (support.tap + k as i64 * y.up) * x.taps;
                sources.extend(phase.offsets.iter().map(|&offset| row.wrapping_add(offset)));
                taps.extend(phase.taps.iter().map(|&tap| all[first as usize + tap]));
            }
            let target = target.wrapping_add(number * self.pitch);
            // SAFETY: the promise of `write`; a row of zeros is as long as a prepared row.
            unsafe { (self.loops.between_out.sum)(&sources, &taps, target, self.per_phase, Rows::ONE, Stores::Cached) };
        }
    }

    /// An input row, which may lie outside: its phases where the kernel is separable, else prepared.
    unsafe fn horizontal(&mut self, row: i64) -> *const T::Compute {
        if self.ring.holds(row) {
            return self.ring.place(row);
        }
        let place = self.ring.place(row);
        // SAFETY: the promise of `write`.
        let place = unsafe { self.read_row(row, place) };
        if place != self.zeros {
            self.ring.hold(row);
        }
        place
    }

    /// Reads an input row into this place, and gives it; a row of zeros where there is none.
    ///
    /// # Safety
    /// The promise of `run_tiles`; the place holds a row of the ring.
    pub unsafe fn read_row(&mut self, row: i64, place: *mut T::Compute) -> *const T::Compute {
        let height = self.direction.geometry.y.input as usize;
        let Some(source) = self.direction.fill.source(row as isize, height) else { return self.zeros };
        // SAFETY: the caller's promise.
        unsafe {
            match self.direction.kernel {
                Kernel::Separable(..) => self.write_horizontal(source as i64, place),
                Kernel::Full(_) => self.prepare(source as i64, place),
            }
        }
        place
    }

    /// Reads some input rows, so far apart from this place on, and adds where they are; a row of zeros where there is none.
    ///
    /// # Safety
    /// The promise of `run_tiles`; there is room for so many rows, which sums run down.
    pub unsafe fn read_rows(
        &mut self,
        rows: Range<i64>,
        (place, pitch): (*mut T::Compute, usize),
        at_hand: &mut Vec<*const T::Compute>,
    ) {
        let height = self.direction.geometry.y.input;
        let mut row = rows.start;
        while row < rows.end {
            let target = place.wrapping_add((row - rows.start) as usize * pitch);
            let inside = self.direction.fill == Border::Constant && (0..height).contains(&row);
            let count = match self.direction.kernel {
                Kernel::Separable(..) if inside => (rows.end.min(height) - row).min(ROWS_AT_ONCE as i64),
                _ => 1,
            };
            // SAFETY: the caller's promise.
            unsafe {
                if count > 1 {
                    self.write_phases(row, count as usize, target, pitch);
                    at_hand.extend((0..count as usize).map(|at| target.wrapping_add(at * pitch).cast_const()));
                } else {
                    at_hand.push(self.read_row(row, target));
                }
            }
            row += count;
        }
    }

    /// The phases of an input row.
    unsafe fn write_horizontal(&mut self, row: i64, target: *mut T::Compute) {
        // SAFETY: the promise of `write`.
        unsafe { self.write_phases(row, 1, target, 0) };
    }

    /// The phases of some input rows inside, so far apart.
    unsafe fn write_phases(&mut self, row: i64, count: usize, target: *mut T::Compute, pitch: usize) {
        for at in 0..count {
            let prepared = self.prepared.wrapping_add(at * self.length);
            // SAFETY: the promise of `write`.
            unsafe { self.prepare(row + at as i64, prepared) };
        }
        let bytes = |elements: usize| (elements * size_of::<T::Compute>()) as isize;
        let rows = Rows { count, source: bytes(self.length), target: bytes(pitch) };
        for (phase, step) in &mut self.steps {
            let place = target.wrapping_add(*phase * self.pitch);
            // SAFETY: as above; a prepared row has the columns of every phase.
            unsafe {
                match (step, self.loops.input_pairs) {
                    (Step::Pair(pairs), Some(write)) => {
                        pairs.rows = rows;
                        write(pairs, place, self.per_phase);
                    }
                    (Step::Pair(_), None) => debug_assert!(false, "pairs are made where there is a loop for them"),
                    (Step::One(sources, taps), _) => {
                        (self.loops.between_out.sum)(sources, taps, place, self.per_phase, rows, Stores::Cached);
                    }
                }
            }
        }
    }

    /// Prepares an input row of every plane.
    unsafe fn prepare(&mut self, row: i64, target: *mut T::Compute) {
        for which in 0..self.planes.len() {
            let (plane, bias) = self.planes[which];
            // SAFETY: the promise of `write`; a prepared row has room for all planes.
            unsafe { self.prepare_one(&plane, bias, row, target.wrapping_add(which * self.segment)) };
        }
    }

    /// Reads an input row that is inside, adds the bias, fills what lies outside, and splits columns where phases skip some.
    unsafe fn prepare_one(&self, plane: &Plane, bias: Option<T::Compute>, row: i64, target: *mut T::Compute) {
        let (first, columns) = (self.first + self.on, self.inputs);
        let length = self.direction.geometry.x.input;
        let inside = first.clamp(0, length)..(first + columns as i64).clamp(0, length);
        let whole = if self.split.0 == 1 { target } else { self.whole };
        let count = (inside.end - inside.start).max(0) as usize;
        let place = whole.wrapping_add((inside.start - first).max(0) as usize);
        // SAFETY: the promise of `write`: the columns inside are readable, and all rows hold the strip's columns.
        unsafe {
            if count > 0 && plane.column == size_of::<T>() as isize {
                let source = plane.at(row, inside.start).cast::<T>().cast_const();
                let (sources, taps) = ([source, self.ones], [one::<T::Compute>()[0], bias.unwrap_or_default()]);
                // One times a number, plus a bias times one, is rounded once.
                let terms = if bias.is_some() { 2 } else { 1 };
                (self.input.input.sum)(&sources[..terms], &taps[..terms], place, count, AS_IT_IS.0, AS_IT_IS.1);
                // Soon the rows below are read for the first time, or the columns that follow.
                let soon = match self.direction.geometry.y.input {
                    1 => plane.at(row, inside.start + count as i64),
                    _ => plane.at(row + self.rows_ahead, inside.start),
                };
                (self.input.prefetch_lines)(soon, count * size_of::<T>());
            } else {
                for column in 0..count {
                    let value = element::<T>(plane, row, inside.start + column as i64);
                    *place.add(column) = bias.map_or(value, |bias| value + bias);
                }
            }
            let left = (inside.start - first).clamp(0, columns as i64) as usize;
            let right = if count > 0 { left + count } else { 0 };
            if self.direction.fill != Border::Constant {
                for column in (0..left).chain(right.max(left)..columns) {
                    let source = self.direction.fill.source((first + column as i64) as isize, length as usize);
                    *whole.add(column) = source.map_or(T::Compute::default(), |source| {
                        let value = element::<T>(plane, row, source as i64);
                        bias.map_or(value, |bias| value + bias)
                    });
                }
            } else if !self.has_zeros {
                whole.write_bytes(0, left);
                whole.add(right).write_bytes(0, columns - right);
            }
            if self.split.0 > 1 {
                let columns = SplitColumns { step: self.split.0, pitch: self.split.1, start: 0, end: columns };
                (self.loops.input.split)(&columns, whole, target, Rows::ONE, None);
            }
        }
    }
}

/// An element inside a plane.
unsafe fn element<T: FilterElement>(plane: &Plane, row: i64, column: i64) -> T::Compute {
    // SAFETY: the caller names an element of the plane; it may be unaligned.
    unsafe { plane.at(row, column).cast::<T>().read_unaligned() }.to_compute()
}

/// What is done along x on a prepared row.
fn steps<C: Compute>(
    phases: &[Phase],
    along_x: &[C],
    prepared: *const C,
    columns: &Columns,
    (split, loops): (usize, &Loops<C>),
) -> Vec<(usize, Step<C>)> {
    let taps_of = |phase: &Phase| phase.taps.iter().map(|&tap| along_x[tap]).collect::<SmallVec<[C; 16]>>();
    let pair = |first: &Phase, second: &Phase| {
        let (&start, &later, terms) = (first.offsets.first()?, second.offsets.first()?, first.offsets.len());
        let shift =
            later.checked_sub(start).filter(|&shift| shift < 2 && split == 1 && terms == second.offsets.len())?;
        let mut pairs = PairedRows::<C> { shift, ..Default::default() };
        pairs.sources.extend((start..later + terms).map(|offset| prepared.wrapping_add(offset)));
        pairs.taps.extend(taps_of(first).into_iter().chain(taps_of(second)));
        pairs.second = (columns.pitch * size_of::<C>()) as isize;
        pairs.choose(columns.per_phase, loops.lanes).filter(|_| loops.input_pairs.is_some())?;
        Some(pairs)
    };
    let (mut steps, mut phase) = (Vec::new(), 0);
    while phase < phases.len() {
        let of = &phases[phase];
        match phases.get(phase + 1).and_then(|next| pair(of, next)) {
            Some(pairs) => {
                steps.push((phase, Step::Pair(pairs)));
                phase += 2;
            }
            None => {
                let sources = of.offsets.iter().map(|&offset| prepared.wrapping_add(offset)).collect();
                steps.push((phase, Step::One(sources, taps_of(of))));
                phase += 1;
            }
        }
    }
    steps
}

/// The sums of a row and the one after along y, whose sources are still to be said.
fn pair_along_y<C: Compute>(
    y: &Axis,
    row: i64,
    along_y: &[C],
    columns: &Columns,
    loops: &Loops<C>,
) -> Option<PairedRows<C>> {
    let (first, second) = (y.support(row), y.support(row + 1));
    let shift = usize::try_from(second.start - first.start).ok().filter(|&shift| shift < 2)?;
    if first.count != second.count || first.count == 0 {
        return None;
    }
    let mut pairs = PairedRows::<C> { shift, ..Default::default() };
    for support in [first, second] {
        pairs.taps.extend((0..support.count).map(|k| along_y[(support.tap + k * y.up) as usize]));
    }
    pairs.sources.resize(first.count as usize + shift, std::ptr::null());
    pairs.choose(columns.row(), loops.lanes).filter(|_| loops.input_pairs.is_some())?;
    Some(pairs)
}
