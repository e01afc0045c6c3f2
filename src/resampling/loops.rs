//! The arithmetic: sums of rows, sums of columns, and the turning of a square of numbers on its side.
//!
//! Every function wants the level of its registers to be detected. Sums begin at zero and take their taps in order, one
//! rounding a tap where the level has such an instruction: bits depend on neither tiles, threads nor the memory layout.

use firelu_filters::loops::register::{Access, Register};

use crate::samples::{Holds, MOST_LANES, Sample};

/// How many registers of a row are summed at once: each tap is loaded once for all of them.
pub const TOGETHER: usize = 4;

/// An output row: its first input among the rows that are there, and its taps.
pub struct Line<'a, C> {
    pub offset: usize,
    pub taps: &'a [C],
}

/// Sums rows, from a column on, `TOGETHER` registers of each output row, into a tile of dense rows.
///
/// # Safety
/// The level was detected. Every line's rows can be read at these columns, and the tile has room for all lines.
#[inline(always)]
pub unsafe fn sum_rows<S, R>(lines: &[Line<'_, R::Number>], rows: &[*const S], column: usize, tile: *mut R::Number)
where
    S: Sample<Number = R::Number>,
    R: Holds<S> + Access<<R as Register>::Number>,
{
    for (number, line) in lines.iter().enumerate() {
        let sources = &rows[line.offset..line.offset + line.taps.len()];
        // SAFETY: the caller's promise.
        unsafe {
            let mut sums = [R::splat(R::Number::default()); TOGETHER];
            for (&tap, &row) in line.taps.iter().zip(sources) {
                let (tap, row) = (R::splat(tap), row.add(column));
                for (place, sum) in sums.iter_mut().enumerate() {
                    *sum = R::get(row.add(place * R::LANES)).multiply_add(tap, *sum);
                }
            }
            let target = tile.add(number * TOGETHER * R::LANES);
            for (place, sum) in sums.into_iter().enumerate() {
                sum.store(target.add(place * R::LANES));
            }
        }
    }
}

/// Sums columns, each a register: `G` outputs that share their taps.
///
/// # Safety
/// The level was detected, and the columns can be read: tap `t` of output `g` is at `t * step + g * member`.
#[inline(always)]
pub unsafe fn sum_columns<R, const G: usize>(
    base: *const R::Number,
    member: usize,
    step: usize,
    taps: &[R::Number],
    target: *mut R::Number,
    apart: usize,
) where
    R: Access<<R as Register>::Number>,
{
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [R::splat(R::Number::default()); G];
        let mut column = base;
        for &tap in taps {
            let tap = R::splat(tap);
            for (place, sum) in sums.iter_mut().enumerate() {
                *sum = R::load(column.add(place * member)).multiply_add(tap, *sum);
            }
            column = column.wrapping_add(step);
        }
        for (place, sum) in sums.into_iter().enumerate() {
            sum.store(target.add(place * apart));
        }
    }
}

/// Turns a square on its side: register `i` then holds what stood at place `i` of each.
///
/// # Safety
/// The level was detected, and as many registers as each holds numbers can be read, `stride` numbers apart.
#[inline(always)]
pub unsafe fn transposed<R>(source: *const R::Number, stride: usize) -> [R; MOST_LANES]
where
    R: Access<<R as Register>::Number>,
{
    // SAFETY: the caller's promise.
    let mut square = unsafe {
        let mut square = [R::splat(R::Number::default()); MOST_LANES];
        for (number, register) in square[..R::LANES].iter_mut().enumerate() {
            *register = R::load(source.add(number * stride));
        }
        square
    };
    // Each step rotates the binary digits of a number's place, row and column together, by one.
    if R::LANES > 1 {
        square = rotated(square);
    }
    if R::LANES > 2 {
        square = rotated(square);
    }
    if R::LANES > 4 {
        square = rotated(square);
    }
    if R::LANES > 8 {
        square = rotated(square);
    }
    square
}

#[inline(always)]
fn rotated<R: Register>(square: [R; MOST_LANES]) -> [R; MOST_LANES] {
    let mut result = square;
    for number in 0..R::LANES / 2 {
        let [even, odd] = R::interleave([square[number], square[number + R::LANES / 2]]);
        (result[2 * number], result[2 * number + 1]) = (even, odd);
    }
    result
}
