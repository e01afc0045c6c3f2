//! Kernels of a few taps: input rows are loaded, or summed, into registers, which are then shifted into
//! each other to be summed along x, so that no row is written in between. Sums are those of the other
//! paths, in the same order.
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use super::registers::Access;
use super::rows::{Ahead, LINE, Rows};
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
        let second = strip.offsets.get(counts).filter(|&&offset| offset <= 1).map(|&offset| offset == 1);
        match (strip.pixel, strip.phases, strip.step, counts) {
            _ if !alike => None,
            (1, 1, 1, 3) => Some(Form::Plain3),
            (1, 1, 1, 4) => Some(Form::Plain4),
            (1, 2, 1, 2) => second.map(Form::Up4),
            (1, 1, 2, 4) => Some(Form::Down4),
            _ => None,
        }
    }
}

/// The taps of some rows.
#[derive(Clone, Copy)]
pub enum RowTaps<'a, C> {
    /// One for each input row, and those along x, phase by phase.
    Separable(&'a [C], &'a [C]),
    /// All, input row by input row.
    Direct(&'a [C]),
}

/// Some output rows with the same taps.
pub struct ShortRows<'a, T: Element> {
    /// What the loop is compiled for.
    pub form: Form,
    /// Where the first window starts, counted from the first column inside.
    pub start: isize,
    /// How many columns are inside.
    pub inside: usize,
    /// The first column inside of each input row; at least one. Where rows take turns in two phases, those of the
    /// second follow those of the first.
    pub sources: &'a [*const T],
    /// In how many phases rows take turns: one or two.
    pub phases: usize,
    /// What they are multiplied by.
    pub taps: RowTaps<'a, T::Compute>,
    /// The first output.
    pub target: *mut T,
    /// Outputs of a row.
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

/// A register that can write such rows.
pub trait Short<T: Element<Compute = Self::Number>>: Access<T> {
    /// Writes the rows; false, with nothing done, where that is not compiled for this register.
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
    // Half-precision numbers that fill so little of a line are better widened once, where each is read often.
    if R::LANES * size_of::<T>() < LINE / 2 && rows.form != Form::Down4 {
        return false;
    }
    // SAFETY: the caller's promise, handed on.
    unsafe {
        match (rows.form, rows.taps) {
            (Form::Plain4, RowTaps::Direct(taps)) if rows.sources.len() == 4 && taps.len() == 16 => {
                let sources = [rows.sources[0], rows.sources[1], rows.sources[2], rows.sources[3]];
                let mut registers = [[R::splat(taps[0]); 4]; 4];
                for (register, &tap) in registers.as_flattened_mut().iter_mut().zip(taps) {
                    *register = R::splat(tap);
                }
                Writer::new(rows).all([Direct::<T, R, 4, 4> { sources, taps: &registers }; 2]);
                true
            }
            (_, RowTaps::Direct(_)) => false,
            (Form::Plain3, RowTaps::Separable(y, x)) => separable::<T, R, 1, 1, 3, 0>(rows, y, x),
            (Form::Plain4, RowTaps::Separable(y, x)) => separable::<T, R, 1, 1, 4, 0>(rows, y, x),
            (Form::Up4(false), RowTaps::Separable(y, x)) => separable::<T, R, 2, 1, 2, 0>(rows, y, x),
            (Form::Up4(true), RowTaps::Separable(y, x)) => separable::<T, R, 2, 1, 2, 1>(rows, y, x),
            (Form::Down4, RowTaps::Separable(y, x)) => separable::<T, R, 1, 2, 4, 0>(rows, y, x),
        }
    }
}

/// `P` phases of `N` terms over `STEP` inputs a period; the second phase starts `SECOND` inputs later. False, with
/// nothing done, where a window reaches past the next register.
#[inline(always)]
unsafe fn separable<T, R, const P: usize, const STEP: usize, const N: usize, const SECOND: usize>(
    rows: &ShortRows<'_, T>,
    along_y: &[R::Number],
    along_x: &[R::Number],
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
            let second = N * (rows.phases - 1);
            let first = Few::<T, R, N>::new(rows.sources, along_y).staying_at(rows.zeros);
            let second = Few::<T, R, N>::new(&rows.sources[second..], &along_y[second..]).staying_at(rows.zeros);
            let second = Separable::<R, _, P, STEP, N, SECOND> { sum: second, taps };
            Writer::new(rows).all([Separable { sum: first, taps }, second]);
        } else {
            let sum = Many::<T, R> { sources: rows.sources, taps: along_y, moved: 0 };
            Writer::new(rows).all([Separable::<R, _, P, STEP, N, SECOND> { sum, taps }; 2]);
        }
    }
    true
}
