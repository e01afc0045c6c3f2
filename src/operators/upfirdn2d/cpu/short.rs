//! Kernels of a few taps: input rows are loaded, or summed, into registers, which are then shifted into
//! each other to be summed along x, so that no row is written in between. Sums are those of the other
//! paths, in the same order.
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use super::registers::Access;
use super::rows::{Ahead, LINE, Rows};
use super::stacks::{Several, Single};
use super::strip::Strip;
use super::sums::{Few, Many};
use super::windows::{Direct, Separable, taps_along_x};
use super::writer::Writer;
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
    /// Half as many outputs, four taps.
    Down4,
}

impl Form {
    /// Whether rows along this axis have a form, whatever the strip.
    pub fn exists(axis: &Axis) -> bool {
        matches!((axis.up, axis.down, axis.taps), (1, 1, 3 | 4) | (2, 1, 4) | (1, 2, 4))
    }

    /// How many terms along y the rows at the border are filled up to with zeros, if to any.
    pub fn terms(self) -> usize {
        match self {
            Form::Up4(_) => 2,
            Form::Plain3 => 3,
            Form::Plain4 | Form::Down4 => 4,
        }
    }

    /// The form of a strip's rows; strips that are too narrow to have phases have none.
    pub fn of(strip: &Strip) -> Option<Form> {
        let counts = strip.bounds.first().copied().unwrap_or(0);
        let alike = strip.bounds.iter().enumerate().all(|(phase, &end)| end == counts * (phase + 1));
        // With two outputs only, the second's window may start anywhere.
        let second = strip.offsets.get(counts).map(|&offset| offset / strip.pixel);
        match (strip.phases, strip.step, counts) {
            _ if !alike => None,
            (1, 1, 3) => Some(Form::Plain3),
            (1, 1, 4) => Some(Form::Plain4),
            (2, 1, 2) => second.filter(|&columns| columns <= 1).map(|columns| Form::Up4(columns == 1)),
            (1, 2, 4) => Some(Form::Down4),
            _ => None,
        }
    }
}

/// The most sources that rows with as many terms along y as along x have: four in each of two phases.
const MOST_SOURCES: usize = 8;

/// The taps of some rows.
#[derive(Clone, Copy)]
pub enum RowTaps<'a, C> {
    /// One for each input row, and those along x, phase by phase.
    Separable(&'a [C], &'a [C]),
    /// All, input row by input row.
    Direct(&'a [C]),
}

/// Some output rows with the same taps.
#[derive(Clone, Copy)]
pub struct ShortRows<'a, T: Element> {
    /// What the loop is compiled for.
    pub form: Form,
    /// Where the first window starts, counted from the first column inside.
    pub start: isize,
    /// How many elements are inside.
    pub inside: usize,
    /// Elements of a column.
    pub pixel: usize,
    /// The first column inside of each input row; at least one. Where rows take turns in two phases, those of the
    /// second follow those of the first.
    pub sources: &'a [*const T],
    /// In how many phases rows take turns: one or two.
    pub phases: usize,
    /// What they are multiplied by.
    pub taps: RowTaps<'a, T::Compute>,
    /// The first output.
    pub target: *mut T,
    /// Output columns of a row.
    pub count: usize,
    /// How many rows and how far apart.
    pub rows: Rows,
    /// How many planes of such rows and how far apart.
    pub planes: Rows,
    /// The source that is a row of zeros in every plane.
    pub zeros: *const T,
    /// Rows that will be read soon.
    pub ahead: Option<Ahead>,
    /// Whether whole lines go past the caches.
    pub streaming: bool,
}

impl<'a, T: Element> ShortRows<'a, T> {
    /// Bytes from one source to the next, which is alike for all where none is a row of zeros.
    #[inline(always)]
    fn pitch(&self) -> isize {
        (self.sources[1] as isize).wrapping_sub(self.sources[0] as isize)
    }

    /// How many of the rows can be written `at_once` above each other: streamed lines must begin alike in all of them.
    fn in_stacks(&self, at_once: usize) -> usize {
        let alike = !self.streaming || (self.rows.target as usize).is_multiple_of(LINE);
        if alike { self.rows.count - self.rows.count % at_once } else { 0 }
    }

    /// How often `at_once` rows are written, a multiple of their phases where that is more than one, how far apart those
    /// are, and in how many phases they take turns.
    #[inline(always)]
    pub fn turns(&self, at_once: usize) -> (Rows, usize) {
        let Rows { count, source, target } = self.rows;
        let turns = Rows {
            count: count / at_once,
            source: source.wrapping_mul(at_once.div_ceil(self.phases) as isize),
            target: target.wrapping_mul(at_once as isize),
        };
        (turns, if at_once == 1 { self.phases } else { 1 })
    }

    /// The last source of the first `at_once` rows.
    #[inline(always)]
    pub fn last(&self, at_once: usize) -> *const u8 {
        let periods = at_once.div_ceil(self.phases) as isize - 1;
        self.sources[self.sources.len() - 1].cast::<u8>().wrapping_offset(self.rows.source.wrapping_mul(periods))
    }

    /// The first rows.
    #[inline(always)]
    fn before(&self, count: usize) -> Self {
        ShortRows { rows: Rows { count, ..self.rows }, ..*self }
    }

    /// The rows after whole periods of them, with their sources in `sources`.
    #[inline(always)]
    fn after(&self, count: usize, sources: &'a mut [*const T; MOST_SOURCES]) -> Self {
        let moved = self.rows.source.wrapping_mul((count / self.phases) as isize);
        for (source, &from) in sources.iter_mut().zip(self.sources) {
            *source = from.wrapping_byte_offset(moved);
        }
        ShortRows {
            sources: &sources[..self.sources.len()],
            target: self.target.wrapping_byte_offset(self.rows.target.wrapping_mul(count as isize)),
            rows: Rows { count: self.rows.count - count, ..self.rows },
            ..*self
        }
    }
}

/// A register that can write such rows: each loop is a function of its own, so that none takes long to compile.
pub trait Short<T: Element<Compute = Self::Number>>: Access<T> {
    /// As [`direct`].
    ///
    /// # Safety
    /// As there.
    unsafe fn write_direct(_rows: &ShortRows<'_, T>, _taps: &[Self::Number]) -> bool {
        false
    }

    /// As [`separable`].
    ///
    /// # Safety
    /// As there.
    unsafe fn write_separable<const P: usize, const STEP: usize, const N: usize, const SECOND: usize>(
        _rows: &ShortRows<'_, T>,
        _taps: [&[Self::Number]; 2],
    ) -> bool {
        false
    }

    /// As [`pixels::write`](super::pixels::write).
    ///
    /// # Safety
    /// As there.
    unsafe fn write_pixels<const P: usize, const STEP: usize, const N: usize, const SECOND: usize>(
        _rows: &ShortRows<'_, T>,
        _taps: [&[Self::Number]; 2],
    ) -> bool {
        false
    }
}

/// Writes the rows; false, with nothing done, where that is not compiled for this register.
///
/// # Safety
/// The register's level was detected, the columns inside are readable in every source row, and `count` outputs
/// writable in every target row.
pub unsafe fn write<T, R>(rows: &ShortRows<'_, T>) -> bool
where
    T: Element<Compute = R::Number>,
    R: Short<T>,
{
    // SAFETY: the caller's promise, handed on.
    unsafe {
        match (rows.form, rows.taps) {
            (Form::Plain4, RowTaps::Direct(taps)) if !is_widened_first::<T, R>(rows.form) => {
                R::write_direct(rows, taps)
            }
            (_, RowTaps::Direct(_)) => false,
            (Form::Plain3, RowTaps::Separable(y, x)) => of_form::<T, R, 1, 1, 3, 0>(rows, [y, x]),
            (Form::Plain4, RowTaps::Separable(y, x)) => of_form::<T, R, 1, 1, 4, 0>(rows, [y, x]),
            (Form::Up4(false), RowTaps::Separable(y, x)) => of_form::<T, R, 2, 1, 2, 0>(rows, [y, x]),
            (Form::Up4(true), RowTaps::Separable(y, x)) => of_form::<T, R, 2, 1, 2, 1>(rows, [y, x]),
            (Form::Down4, RowTaps::Separable(y, x)) => of_form::<T, R, 1, 2, 4, 0>(rows, [y, x]),
        }
    }
}

/// Half-precision numbers that fill so little of a line are better widened once, where each is read often.
fn is_widened_first<T: Element<Compute = R::Number>, R: Access<T>>(form: Form) -> bool {
    R::LANES * size_of::<T>() < LINE / 2 && form != Form::Down4
}

/// Rows of planes or of pixels.
///
/// # Safety
/// As [`write`].
unsafe fn of_form<T, R, const P: usize, const STEP: usize, const N: usize, const SECOND: usize>(
    rows: &ShortRows<'_, T>,
    taps: [&[R::Number]; 2],
) -> bool
where
    T: Element<Compute = R::Number>,
    R: Short<T>,
{
    // SAFETY: the caller's promise, handed on.
    unsafe {
        match rows.pixel {
            1 if is_widened_first::<T, R>(rows.form) => false,
            1 => R::write_separable::<P, STEP, N, SECOND>(rows, taps),
            _ => R::write_pixels::<P, STEP, N, SECOND>(rows, taps),
        }
    }
}

/// Kernels of four by four taps that have no factors. False, with nothing done, for others and for pixels.
///
/// # Safety
/// As [`write`].
#[inline(always)]
pub unsafe fn direct<T, R>(rows: &ShortRows<'_, T>, taps: &[R::Number]) -> bool
where
    T: Element<Compute = R::Number>,
    R: Access<T>,
{
    if (rows.pixel, rows.sources.len(), taps.len()) != (1, 4, 16) {
        return false;
    }
    // SAFETY: the promise of `write`.
    unsafe {
        let mut registers = [[R::splat(taps[0]); 4]; 4];
        for (register, &tap) in registers.as_flattened_mut().iter_mut().zip(taps) {
            *register = R::splat(tap);
        }
        let (taps, pitch) = (&registers, rows.pitch());
        // With fewer registers taps would be loaded for every product.
        let stacked = if R::MANY && rows.rows.source == pitch { rows.in_stacks(4) } else { 0 };
        if stacked > 0 {
            let windows = Direct::<T, R, 7, 4> { first: rows.sources[0], pitch, taps };
            Writer::<T, 4>::new(&rows.before(stacked)).all([windows; 2]);
        }
        let mut sources = [rows.sources[0]; MOST_SOURCES];
        let rows = rows.after(stacked, &mut sources);
        let windows = Direct::<T, R, 4, 4> { first: rows.sources[0], pitch, taps };
        Writer::<T, 1>::new(&rows).all([windows; 2]);
    }
    true
}

/// `P` phases of `N` terms over `STEP` inputs a period; the second phase starts `SECOND` inputs later. False, with
/// nothing done, where a window reaches past the next register.
///
/// # Safety
/// As [`write`].
#[inline(always)]
pub unsafe fn separable<T, R, const P: usize, const STEP: usize, const N: usize, const SECOND: usize>(
    rows: &ShortRows<'_, T>,
    [along_y, along_x]: [&[R::Number]; 2],
) -> bool
where
    T: Element<Compute = R::Number>,
    R: Access<T>,
{
    if (SECOND + N - 1) / STEP > R::LANES {
        return false;
    }
    // SAFETY: the promise of `write`.
    unsafe {
        let taps = taps_along_x::<R, P, N>(along_x);
        // As many terms along y as along x is the usual case; others are rows at the border, too.
        if rows.sources.len() == N * rows.phases {
            let stacked = match P {
                2 => upsampled::<T, R, P, STEP, N, SECOND>(rows, along_y, taps),
                _ => stacked::<T, R, P, STEP, N, SECOND, 1, STEP, 0>(rows, along_y, taps),
            };
            if stacked == rows.rows.count {
                return true;
            }
            let mut sources = [rows.sources[0]; MOST_SOURCES];
            let rows = rows.after(stacked, &mut sources);
            let second = N * (rows.phases - 1);
            let first = Few::<T, R, N>::new(rows.sources, along_y).staying_at(rows.zeros);
            let second = Few::<T, R, N>::new(&rows.sources[second..], &along_y[second..]).staying_at(rows.zeros);
            let second = Separable::<R, _, P, STEP, N, SECOND> { sum: Single::<_, STEP>(second), taps };
            Writer::<T, 1>::new(&rows).all([Separable { sum: Single(first), taps }, second]);
        } else {
            let sum = Single::<_, STEP>(Many::<T, R> { sources: rows.sources, taps: along_y, moved: 0 });
            Writer::<T, 1>::new(rows).all([Separable::<R, _, P, STEP, N, SECOND> { sum, taps }; 2]);
        }
    }
    true
}

/// As [`stacked`], for the rows of both phases where outputs are twice as many.
#[inline(always)]
unsafe fn upsampled<T, R, const P: usize, const STEP: usize, const N: usize, const SECOND: usize>(
    rows: &ShortRows<'_, T>,
    along_y: &[R::Number],
    taps: [[R; N]; P],
) -> usize
where
    T: Element<Compute = R::Number>,
    R: Access<T>,
{
    // SAFETY: the promise of `write`.
    unsafe {
        match rows.sources.get(N).map(|&second| second == rows.sources[0]) {
            Some(true) => stacked::<T, R, P, STEP, N, SECOND, 2, 1, 0>(rows, along_y, taps),
            Some(false) => stacked::<T, R, P, STEP, N, SECOND, 2, 1, 1>(rows, along_y, taps),
            None => 0,
        }
    }
}

/// Writes as many rows as come two above each other, and says how many: rows that recur every `PERIOD` rows, `INPUTS`
/// input rows further, the second of two `LATER` input rows after the first.
#[inline(always)]
unsafe fn stacked<
    T,
    R,
    const P: usize,
    const STEP: usize,
    const N: usize,
    const SECOND: usize,
    const PERIOD: usize,
    const INPUTS: usize,
    const LATER: usize,
>(
    rows: &ShortRows<'_, T>,
    along_y: &[R::Number],
    taps: [[R; N]; P],
) -> usize
where
    T: Element<Compute = R::Number>,
    R: Access<T>,
{
    let (first, count) = (rows.sources[0], rows.in_stacks(2));
    let pitch = rows.pitch();
    let recur = rows.phases == PERIOD && rows.rows.source == pitch.wrapping_mul(INPUTS as isize);
    // Where a row of zeros is among the sources, there is but one row.
    if !recur || rows.rows.count < 2 || count == 0 {
        return 0;
    }
    // SAFETY: the promise of `write`; the sources of rows inside are as far apart as rows are.
    unsafe {
        let sum = Several::<T, R, N, PERIOD, INPUTS, LATER>::new(first, pitch, along_y);
        Writer::<T, 2>::new(&rows.before(count)).all([Separable::<R, _, P, STEP, N, SECOND> { sum, taps }; 2]);
    }
    count
}
