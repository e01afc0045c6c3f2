//! Separable kernels of three or four taps on planes: input rows are summed along y into registers, which are shifted
//! into each other to be summed along x.

#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use super::rows::{MOST_SOURCES, ShortRows};
use super::rows_together::{OneRow, SharedRows};
use super::windows::{Separable, taps_along_x};
use super::writer::Writer;
use crate::loops::register::Access;
use crate::loops::sum::{Few, Many};
use firelu_core::dtype::Element;

/// `P` phases of `N` terms over `STEP` inputs a period; the second phase starts `SECOND` inputs later.
///
/// # Safety
/// What holds for every [loop](crate::loops).
#[inline(always)]
pub unsafe fn write<T, R, const P: usize, const STEP: usize, const N: usize, const SECOND: usize>(
    rows: &ShortRows<'_, T>,
    [along_y, along_x]: [&[R::Number]; 2],
) where
    T: Element<Compute = R::Number>,
    R: Access<T>,
{
    // A window never reaches past the next register.
    const { assert!((SECOND + N - 1) / STEP <= R::LANES) };
    // SAFETY: the caller's promise.
    unsafe {
        let taps = taps_along_x::<R, P, N>(along_x);
        // As many terms along y as along x is the usual case; others are rows at the border, too.
        if rows.sources.len() == N * rows.phases {
            let done = match P {
                2 => phases_together::<T, R, P, STEP, N, SECOND>(rows, along_y, taps),
                _ => rows_together::<T, R, P, STEP, N, SECOND, 1, STEP, 0>(rows, along_y, taps),
            };
            if done == rows.rows.count {
                return;
            }
            let mut sources = [rows.sources[0]; MOST_SOURCES];
            let rows = rows.after(done, &mut sources);
            let second = N * (rows.phases - 1);
            let first = Few::<T, R, N>::new(rows.sources, along_y).staying_at(rows.zeros);
            let second = Few::<T, R, N>::new(&rows.sources[second..], &along_y[second..]).staying_at(rows.zeros);
            let second = Separable::<R, _, P, STEP, N, SECOND> { sum: OneRow::<_, STEP>(second), taps };
            Writer::<T, 1>::new(&rows).all([Separable { sum: OneRow(first), taps }, second]);
        } else {
            let sum = OneRow::<_, STEP>(Many::<T, R> { sources: rows.sources, taps: along_y, moved: 0 });
            Writer::<T, 1>::new(rows).all([Separable::<R, _, P, STEP, N, SECOND> { sum, taps }; 2]);
        }
    }
}

/// As [`rows_together`], for the rows of both phases where outputs are twice as many.
#[inline(always)]
unsafe fn phases_together<T, R, const P: usize, const STEP: usize, const N: usize, const SECOND: usize>(
    rows: &ShortRows<'_, T>,
    along_y: &[R::Number],
    taps: [[R; N]; P],
) -> usize
where
    T: Element<Compute = R::Number>,
    R: Access<T>,
{
    // SAFETY: the caller's promise.
    unsafe {
        match rows.sources.get(N).map(|&second| second == rows.sources[0]) {
            Some(true) => rows_together::<T, R, P, STEP, N, SECOND, 2, 1, 0>(rows, along_y, taps),
            Some(false) => rows_together::<T, R, P, STEP, N, SECOND, 2, 1, 1>(rows, along_y, taps),
            None => 0,
        }
    }
}

/// Writes as many rows as come two above each other, and says how many: rows that recur every `PERIOD` rows, `INPUTS`
/// input rows further, the second of two `LATER` input rows after the first.
#[inline(always)]
unsafe fn rows_together<
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
    let (first, count) = (rows.sources[0], rows.together(2));
    let pitch = rows.pitch();
    let recur = rows.phases == PERIOD && rows.rows.source == pitch.wrapping_mul(INPUTS as isize);
    // Where a row of zeros is among the sources, there is but one row.
    if !recur || rows.rows.count < 2 || count == 0 {
        return 0;
    }
    // SAFETY: the caller's promise; the sources of rows inside are as far apart as rows are.
    unsafe {
        let sum = SharedRows::<T, R, N, PERIOD, INPUTS, LATER>::new(first, pitch, along_y);
        Writer::<T, 2>::new(&rows.before(count)).all([Separable::<R, _, P, STEP, N, SECOND> { sum, taps }; 2]);
    }
    count
}
