//! Kernels of a few taps: input rows are summed in registers, which are then shifted into each other to
//! be summed along x, so that no row is written in between. Sums are those of `vertical_first`, in the
//! same order.
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use super::registers::Access;
use super::strip::Strip;
use super::sums::{Ahead, Few, LINE, Many, Rows, Sum};
use crate::core::dtype::Element;
use crate::operators::upfirdn2d::params::Axis;

/// What the loop is compiled for: factors and terms along x.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As many outputs as inputs, three taps.
    Plain3,
    /// As many outputs as inputs, four taps.
    Plain4,
    /// Twice as many outputs, four taps; whether the second output's window starts one input later.
    Up4(bool),
    /// Twice as many outputs, twelve taps.
    Up12(bool),
    /// Half as many outputs, four taps.
    Down4,
    /// Half as many outputs, twelve taps.
    Down12,
}

impl Form {
    /// Whether rows along this axis have a form, whatever the strip.
    pub fn exists(axis: &Axis) -> bool {
        matches!((axis.up, axis.down, axis.taps), (1, 1, 3 | 4) | (2, 1, 4 | 12) | (1, 2, 4 | 12))
    }

    /// The form of a strip's rows; strips that are too narrow to have phases have none.
    pub fn of(strip: &Strip) -> Option<Form> {
        let counts = strip.bounds.first().copied().unwrap_or(0);
        let alike = strip.bounds.iter().enumerate().all(|(phase, &end)| end == counts * (phase + 1));
        let second = strip.offsets.get(counts) == Some(&1);
        match (strip.pixel, strip.phases, strip.step, counts) {
            _ if !alike => None,
            (1, 1, 1, 3) => Some(Form::Plain3),
            (1, 1, 1, 4) => Some(Form::Plain4),
            (1, 2, 1, 2) => Some(Form::Up4(second)),
            (1, 2, 1, 6) => Some(Form::Up12(second)),
            (1, 1, 2, 4) => Some(Form::Down4),
            (1, 1, 2, 12) => Some(Form::Down12),
            _ => None,
        }
    }
}

/// Some output rows with the same taps.
pub struct ShortRows<'a, T: Element> {
    /// What the loop is compiled for.
    pub form: Form,
    /// Where the first window starts, counted from the first column inside.
    pub start: isize,
    /// How many columns are inside.
    pub inside: usize,
    /// The first column inside of each input row, and what it is multiplied by; at least one.
    pub sources: &'a [*const T],
    /// As `sources`.
    pub along_y: &'a [T::Compute],
    /// The taps along x, phase by phase.
    pub along_x: &'a [T::Compute],
    /// The first output.
    pub target: *mut T,
    /// Outputs of a row.
    pub count: usize,
    /// How many rows and how far apart.
    pub rows: Rows,
    /// Rows that will be read soon.
    pub ahead: Option<Ahead>,
    /// Whether whole lines go past the caches.
    pub streaming: bool,
}

/// A register that can write such rows.
pub trait Short<T: Element<Compute = Self::Number>>: Access<T> {
    /// Writes the rows; false, with nothing done, where the register is too narrow for the form.
    ///
    /// # Safety
    /// The register's level was detected, the columns inside are readable in every source row, and
    /// `count` outputs writable in every target row.
    unsafe fn write_short(_rows: &ShortRows<'_, T>) -> bool {
        false
    }
}

/// As [`Short::write_short`].
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn write<T, R>(rows: &ShortRows<'_, T>) -> bool
where
    T: Element<Compute = R::Number>,
    R: Access<T>,
{
    // SAFETY: the caller's promise, handed on.
    unsafe {
        match rows.form {
            Form::Plain3 => write_form::<T, R, 1, 1, 3, 0>(rows),
            Form::Plain4 => write_form::<T, R, 1, 1, 4, 0>(rows),
            Form::Up4(false) => write_form::<T, R, 2, 1, 2, 0>(rows),
            Form::Up4(true) => write_form::<T, R, 2, 1, 2, 1>(rows),
            Form::Down4 => write_form::<T, R, 1, 2, 4, 0>(rows),
            // Windows reach at most one register further.
            _ if R::LANES < 8 => return false,
            Form::Up12(false) => write_form::<T, R, 2, 1, 6, 0>(rows),
            Form::Up12(true) => write_form::<T, R, 2, 1, 6, 1>(rows),
            Form::Down12 => write_form::<T, R, 1, 2, 12, 0>(rows),
        }
    }
    true
}

/// `P` phases of `N` terms over `STEP` inputs a period; the second phase starts `SECOND` inputs later.
#[inline(always)]
unsafe fn write_form<T, R, const P: usize, const STEP: usize, const N: usize, const SECOND: usize>(
    rows: &ShortRows<'_, T>,
) where
    T: Element<Compute = R::Number>,
    R: Access<T>,
{
    // SAFETY: the promise of `write`.
    unsafe {
        let mut taps = [[R::splat(rows.along_x[0]); N]; P];
        for p in 0..P {
            for n in 0..N {
                taps[p][n] = R::splat(rows.along_x[p * N + n]);
            }
        }
        let last = rows.sources[rows.sources.len() - 1].cast::<u8>();
        let across = Across::<T, R, P, STEP, N, SECOND> { taps, rows, last, target: rows.target };
        // As many terms along y as along x is the usual case; others are rows at the border, too.
        if N <= 6 && rows.sources.len() == N {
            across.all(Few::<T, R, N>::new(rows.sources, rows.along_y));
        } else {
            across.all(Many::<T, R> { sources: rows.sources, taps: rows.along_y, moved: 0 });
        }
    }
}

/// A line holds at most four blocks: eight half-precision numbers each.
const MOST_AT_ONCE: usize = 4;

/// What is kept while rows are written.
struct Across<'a, 'b, T: Element, R, const P: usize, const STEP: usize, const N: usize, const SECOND: usize> {
    taps: [[R; N]; P],
    rows: &'a ShortRows<'b, T>,
    /// The last source, from which rows ahead are counted.
    last: *const u8,
    target: *mut T,
}

impl<T, R, const P: usize, const STEP: usize, const N: usize, const SECOND: usize>
    Across<'_, '_, T, R, P, STEP, N, SECOND>
where
    T: Element<Compute = R::Number>,
    R: Access<T>,
{
    /// Blocks that fill a line, which is then written back to back.
    const AT_ONCE: usize = {
        let bytes = P * R::LANES * size_of::<T>();
        if bytes < LINE { LINE / bytes } else { 1 }
    };

    /// The lines of each row that these are summed from.
    const LINES: usize = (Self::AT_ONCE * STEP * R::LANES * size_of::<T>()).div_ceil(LINE);

    #[inline(always)]
    unsafe fn all(mut self, mut sum: impl Sum<R>) {
        let Rows { count, source, target } = self.rows.rows;
        for _ in 0..count {
            // SAFETY: the promise of `write`.
            unsafe {
                match self.rows.ahead {
                    _ if self.rows.count <= P * R::LANES => self.narrow(&sum),
                    Some(ahead) => self.row::<true>(&sum, ahead),
                    None => self.row::<false>(&sum, Ahead::NONE),
                }
            }
            sum.advance(source);
            self.last = self.last.wrapping_offset(source);
            self.target = self.target.wrapping_byte_offset(target);
        }
    }

    /// A row of one block.
    #[inline(always)]
    unsafe fn narrow(&self, sum: &impl Sum<R>) {
        let (count, start) = (self.rows.count, self.rows.start);
        let lines = (self.target as usize | count * size_of::<T>()).is_multiple_of(LINE);
        // SAFETY: the promise of `write`.
        unsafe {
            let (current, next) = (self.edge(sum, start), self.edge(sum, start + (STEP * R::LANES) as isize));
            self.store(self.outputs(&current, &next), 0, count, self.rows.streaming && lines);
        }
    }

    /// Stores the part below `end` of a block that starts at `q`.
    #[inline(always)]
    unsafe fn store(&self, values: [R; P], q: usize, end: usize, stream: bool) {
        for p in 0..P {
            let place = q + p * R::LANES;
            // SAFETY: the promise of `write`; places are below `end`.
            unsafe {
                match end.saturating_sub(place) {
                    0 => {}
                    rest if rest < R::LANES => values[p].store_part(self.target.add(place), rest),
                    _ if stream => values[p].stream(self.target.add(place)),
                    _ => values[p].store(self.target.add(place)),
                }
            }
        }
    }

    /// Lines are streamed whole; what stands before the first is written as a row of its own.
    #[inline(always)]
    unsafe fn row<const AHEAD: bool>(&self, sum: &impl Sum<R>, ahead: Ahead) {
        let (count, size) = (self.rows.count, size_of::<T>());
        let misaligned = self.target as usize % LINE;
        let head = (LINE - misaligned) % LINE / size;
        // SAFETY: the promise of `write`.
        unsafe {
            if self.rows.streaming && misaligned.is_multiple_of(size) && head.is_multiple_of(P) && head < count {
                if head > 0 {
                    self.part::<AHEAD>(sum, ahead, 0, head, 0);
                }
                let lines = (count - head) * size / LINE;
                self.part::<AHEAD>(sum, ahead, head, count, head + lines * LINE / size);
            } else {
                self.part::<AHEAD>(sum, ahead, 0, count, 0);
            }
        }
    }

    /// The outputs `q .. end`, streamed below `streamed`.
    #[inline(always)]
    unsafe fn part<const AHEAD: bool>(
        &self,
        sum: &impl Sum<R>,
        ahead: Ahead,
        mut q: usize,
        end: usize,
        streamed: usize,
    ) {
        let (full, step) = (P * R::LANES, (STEP * R::LANES) as isize);
        let inside = self.rows.inside as isize;
        let mut column = self.rows.start + (q / P * STEP) as isize;
        // SAFETY: the promise of `write`; loads stay inside, stores below `end`.
        unsafe {
            let mut current = self.edge(sum, column);
            column += step;
            while q < end {
                let streams = q < streamed;
                let limit = if streams { streamed } else { end };
                // Blocks that neither reach over an edge nor need another kind of store.
                let reachable = usize::try_from(inside - column).unwrap_or(0) / (STEP * R::LANES);
                let blocks = if column < 0 { 0 } else { reachable.min((limit - q) / full) };
                let mut left = blocks;
                while left >= Self::AT_ONCE {
                    let mut values = [[current[0]; P]; MOST_AT_ONCE];
                    for line in 0..if AHEAD { Self::LINES } else { 0 } {
                        let column = self.last.wrapping_offset(column * size_of::<T>() as isize);
                        ahead.ask::<R>(column.wrapping_add(line * LINE));
                    }
                    for block in 0..Self::AT_ONCE {
                        let next = Self::split(sum.block::<STEP>(column as usize));
                        values[block] = self.outputs(&current, &next);
                        (current, column) = (next, column + step);
                    }
                    for block in 0..Self::AT_ONCE {
                        for p in 0..P {
                            let place = self.target.add(q + p * R::LANES);
                            if streams { values[block][p].stream(place) } else { values[block][p].store(place) }
                        }
                        q += full;
                    }
                    left -= Self::AT_ONCE;
                }
                for _ in 0..left.max(usize::from(blocks == 0)) {
                    let next = self.edge(sum, column);
                    self.store(self.outputs(&current, &next), q, end, q + full <= streamed);
                    (current, q, column) = (next, q + full, column + step);
                }
            }
        }
    }

    /// Rows summed at a column and after, where some of the columns may be outside: zero there.
    #[inline(always)]
    unsafe fn edge(&self, sum: &impl Sum<R>, column: isize) -> [R; STEP] {
        // SAFETY: the promise of `write`; only columns inside are read.
        unsafe {
            let mut sums = [R::splat(R::Number::default()); STEP];
            for s in 0..STEP {
                let column = column + (s * R::LANES) as isize;
                let lanes = R::LANES as isize;
                let (from, to) = ((-column).clamp(0, lanes), (self.rows.inside as isize - column).clamp(0, lanes));
                if from < to {
                    sums[s] = sum.within(column, from as usize, to as usize);
                }
            }
            Self::split(sums)
        }
    }

    #[inline(always)]
    fn split(sums: [R; STEP]) -> [R; STEP] {
        if STEP == 1 { sums } else { R::deinterleave::<STEP>(sums) }
    }

    /// One register of outputs for each phase, in the target's order.
    #[inline(always)]
    fn outputs(&self, current: &[R; STEP], next: &[R; STEP]) -> [R; P] {
        let mut values = [current[0]; P];
        for p in 0..P {
            for n in 0..N {
                let column = p * SECOND + n;
                let (stream, shift) = (column % STEP, column / STEP);
                let window = current[stream].shift(next[stream], shift);
                values[p] = match n {
                    0 => window.mul(self.taps[p][0]),
                    _ => window.multiply_add(self.taps[p][n], values[p]),
                };
            }
        }
        if P == 1 { values } else { R::interleave::<P>(values) }
    }
}
