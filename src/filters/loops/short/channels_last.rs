//! Kernels of a few taps on channels-last rows: a column is whole lines, so that windows along x are registers as they
//! are. Each line of a pixel is summed along the row on its own, with the columns of its window in registers; sums are
//! those of the other paths, in the same order.
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::rows::ShortRows;
use crate::loops::memory_access::{LINE, Prefetch, Rows};
use crate::loops::register::Access;
use crate::loops::sum::{Few, Many, Sum};
use firelu_core::dtype::Element;

/// The most columns of a window.
const MOST_COLUMNS: usize = 4;

/// How much of a row is summed before its next lines are: what is as far apart as pixels falls into few sets of the
/// first-level cache, which hold no more.
const AT_ONCE_BYTES: usize = 4096;

/// Larger pixels are better summed row by row: too few of them fit into that.
const MOST_BYTES: usize = 512;

/// Whether pixels of so many bytes are summed here: whole lines, and not too many.
pub fn takes(pixel_bytes: usize) -> bool {
    pixel_bytes.is_multiple_of(LINE) && pixel_bytes <= MOST_BYTES
}

/// To how many bytes target rows must be aligned where stores are non-temporal. Upsampled rows of any alignment pass
/// through a stage, from which whole lines are stored; where less is written than read the stage costs more than it
/// saves.
pub fn alignment(element_bytes: usize, upsamples: bool) -> usize {
    if upsamples { element_bytes } else { LINE }
}

/// As [`separable::write`](super::separable::write), for columns of several elements.
///
/// # Safety
/// What holds for every [loop](crate::loops); pixels and targets are such as [`takes`] and [`alignment`] say.
#[inline(always)]
pub unsafe fn write<T, R, const P: usize, const STEP: usize, const N: usize, const SECOND: usize>(
    rows: &ShortRows<'_, T>,
    taps: [&[R::Number]; 2],
) where
    T: Element<Compute = R::Number>,
    R: Access<T>,
{
    debug_assert!(takes(rows.pixel * size_of::<T>()));
    debug_assert!(!rows.non_temporal || targets(rows).is_multiple_of(alignment(size_of::<T>(), P > 1)));
    // SAFETY: the caller's promise, handed on.
    unsafe {
        match const { LINE / size_of::<T>() / R::LANES } {
            1 => separable::<T, R, 1, P, STEP, N, SECOND>(rows, taps),
            2 => separable::<T, R, 2, P, STEP, N, SECOND>(rows, taps),
            _ => unreachable!("the table has no such loop: a line is one register or two"),
        }
    }
}

/// OR of all target addresses and strides: its low zero bits are the common alignment.
fn targets<T: Element>(rows: &ShortRows<'_, T>) -> usize {
    rows.target as usize | rows.rows.target as usize | rows.planes.target as usize
}

/// Pixels on their way to rows that do not begin with a line: lines that begin in one pixel and end in the next can be
/// streamed once both are there. Before them stands the last line of the pixels before.
#[repr(C, align(64))]
struct Stage([MaybeUninit<u8>; LINE + AT_ONCE_BYTES]);

impl Stage {
    /// Where the pixels begin.
    fn pixels<T>(&mut self) -> *mut T {
        self.0[LINE..].as_mut_ptr().cast()
    }

    /// Writes all `count` elements to the target, but for a last part of a line that more pixels of the row will fill;
    /// `begins` and `ends` say whether they are the first and the last of a row.
    ///
    /// # Safety
    /// The stage holds so many elements, whole lines of them, and the target has room for them.
    #[inline(always)]
    unsafe fn stream<T, R, const B: usize>(&mut self, target: *mut T, count: usize, begins: bool, ends: bool)
    where
        T: Element<Compute = R::Number>,
        R: Access<T>,
    {
        let (pixels, per_line) = (self.pixels::<T>(), B * R::LANES);
        let misplaced = target as usize % LINE / size_of::<T>();
        // SAFETY: the caller's promise; of the line before the pixels only what belongs to the row is read.
        unsafe {
            let mut at = -(misplaced as isize);
            if begins && misplaced > 0 {
                at += per_line as isize;
                target.cast::<u8>().copy_from_nonoverlapping(pixels.cast(), at as usize * size_of::<T>());
            }
            while at + per_line as isize <= count as isize {
                for b in 0..B {
                    let place = at + (b * R::LANES) as isize;
                    R::load(pixels.offset(place)).stream(target.offset(place));
                }
                at += per_line as isize;
            }
            let (rest, last) = (count - at as usize, count - per_line);
            if ends {
                let (to, from) = (target.offset(at), pixels.offset(at));
                to.cast::<u8>().copy_from_nonoverlapping(from.cast(), rest * size_of::<T>());
            } else {
                self.0.as_mut_ptr().copy_from_nonoverlapping(pixels.add(last).cast(), LINE);
            }
        }
    }
}

/// `P` phases of `N` terms over `STEP` columns a period; the second phase starts `SECOND` columns later. A line is `B`
/// registers.
#[inline(always)]
unsafe fn separable<T, R, const B: usize, const P: usize, const STEP: usize, const N: usize, const SECOND: usize>(
    rows: &ShortRows<'_, T>,
    [along_y, along_x]: [&[R::Number]; 2],
) where
    T: Element<Compute = R::Number>,
    R: Access<T>,
{
    // SAFETY: the caller's promise.
    unsafe {
        let mut taps = [[R::splat(along_x[0]); N]; P];
        for p in 0..P {
            for n in 0..N {
                taps[p][n] = R::splat(along_x[p * N + n]);
            }
        }
        let pixels = Pixels::<T, R, B, P, STEP, N, SECOND> { rows, taps };
        if rows.sources.len() != N * rows.phases {
            return pixels.all([Many::<T, R> { sources: rows.sources, taps: along_y, moved: 0 }; 2]);
        }
        let second = N * (rows.phases - 1);
        let first = Few::<T, R, N>::new(rows.sources, along_y).staying_at(rows.zeros);
        let second = Few::<T, R, N>::new(&rows.sources[second..], &along_y[second..]).staying_at(rows.zeros);
        pixels.all([first, second]);
    }
}

/// Rows of pixels and their taps along x.
struct Pixels<
    'a,
    'b,
    T: Element,
    R,
    const B: usize,
    const P: usize,
    const STEP: usize,
    const N: usize,
    const SECOND: usize,
> {
    rows: &'a ShortRows<'b, T>,
    taps: [[R; N]; P],
}

impl<T, R, const B: usize, const P: usize, const STEP: usize, const N: usize, const SECOND: usize>
    Pixels<'_, '_, T, R, B, P, STEP, N, SECOND>
where
    T: Element<Compute = R::Number>,
    R: Access<T>,
{
    /// Writes all rows; the sums along y are those of each phase.
    #[inline(always)]
    unsafe fn all<S: Sum<R> + Copy>(&self, sums: [S; 2]) {
        let ShortRows { rows: Rows { count, source, target: row }, phases, planes, .. } = *self.rows;
        let rows = self.rows;
        let prefetch = rows.prefetch.map_or(Prefetch::NONE, |prefetch| prefetch.of(STEP));
        // A multiple of the phases.
        let at_once = (AT_ONCE_BYTES / (rows.pixel * size_of::<T>())) & !1;
        let staged = P > 1 && rows.non_temporal && !targets(rows).is_multiple_of(LINE);
        let mut stage = Stage([MaybeUninit::uninit(); LINE + AT_ONCE_BYTES]);
        for plane in 0..planes.count as isize {
            let (mut sums, mut phase) = (sums, 0);
            for sum in &mut sums {
                sum.advance(planes.source.wrapping_mul(plane));
            }
            let mut target = rows.target.wrapping_byte_offset(planes.target.wrapping_mul(plane));
            let mut last = rows.last(1).wrapping_offset(planes.source.wrapping_mul(plane));
            for _ in 0..count {
                let (sum, mut first) = (sums[phase], 0);
                while first < rows.count {
                    let outputs = first..(first + at_once).min(rows.count);
                    first = outputs.end;
                    let before = outputs.start * rows.pixel;
                    let place = if staged { stage.pixels::<T>().wrapping_sub(before) } else { target };
                    // SAFETY: the caller's promise.
                    unsafe {
                        for line in 0..rows.pixel / (B * R::LANES) {
                            match rows.non_temporal && !staged {
                                false => self.line::<S, false>(&sum, place, (&outputs, line), (last, prefetch)),
                                true => self.line::<S, true>(&sum, place, (&outputs, line), (last, prefetch)),
                            }
                        }
                        if staged {
                            let (to, elements) = (target.add(before), outputs.len() * rows.pixel);
                            stage.stream::<T, R, B>(to, elements, before == 0, outputs.end == rows.count);
                        }
                    }
                }
                sums[phase].advance(source);
                phase += 1;
                if phase == phases {
                    phase = 0;
                    last = last.wrapping_offset(source);
                }
                target = target.wrapping_byte_offset(row);
            }
        }
    }

    /// One line of some pixels of a row.
    #[inline(always)]
    unsafe fn line<S: Sum<R>, const NON_TEMPORAL: bool>(
        &self,
        sum: &S,
        target: *mut T,
        (outputs, line): (&Range<usize>, usize),
        (last, prefetch): (*const u8, Prefetch),
    ) {
        let (rows, pixel, place) = (self.rows, self.rows.pixel, line * B * R::LANES);
        let columns = (rows.inside / pixel) as isize;
        let before = outputs.start / P * STEP;
        let start = rows.start + before as isize;
        // In the order of memory: with the first line of these pixels go all lines of the first of them, and so on.
        let prefetched = before * (pixel / (B * R::LANES) - 1) + line * (outputs.len() / P * STEP);
        // SAFETY: the caller's promise; columns outside are not read.
        unsafe {
            let zero = R::splat(R::Number::default());
            // The columns of a window, of which `STEP` are new with each period.
            let mut window = [[zero; B]; MOST_COLUMNS];
            for w in 0..SECOND + N - STEP {
                let at = start + w as isize;
                if (0..columns).contains(&at) {
                    window[STEP + w] = sum.block::<B>(at as usize * pixel + place);
                }
            }
            let (mut next, mut q) = (start + (SECOND + N - STEP) as isize, outputs.start);
            while q < outputs.end {
                let from = (prefetched as isize + next) * LINE as isize;
                prefetch.lines::<R>(last, (from, STEP * LINE), STEP);
                for w in 0..SECOND + N - STEP {
                    window[w] = window[w + STEP];
                }
                for s in 0..STEP {
                    let at = next + s as isize;
                    window[SECOND + N - STEP + s] = match (0..columns).contains(&at) {
                        true => sum.block::<B>(at as usize * pixel + place),
                        false => [zero; B],
                    };
                }
                for p in 0..P {
                    // The last period may lack its second output.
                    for b in 0..if q + p < outputs.end { B } else { 0 } {
                        let mut value = window[p * SECOND][b].mul(self.taps[p][0]);
                        for n in 1..N {
                            value = window[p * SECOND + n][b].multiply_add(self.taps[p][n], value);
                        }
                        let at = target.wrapping_add((q + p) * pixel + place + b * R::LANES);
                        if NON_TEMPORAL { value.stream(at) } else { value.store(at) }
                    }
                }
                (next, q) = (next + STEP as isize, q + P);
            }
        }
    }
}
