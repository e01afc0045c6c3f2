//! Kernels of a few taps: input rows are loaded, or summed, into registers, which are then shifted into
//! each other to be summed along x, so that no row is written in between. Sums are those of the other
//! paths, in the same order.
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use std::ops::Range;

use super::registers::Access;
use super::rows::{Ahead, LINE, Rows};
use super::strip::Strip;
use super::sums::{Few, Many};
use super::windows::{Direct, Separable, Windows};
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

    /// How many terms along y the rows at the border are filled up to with zeros, if to any.
    pub fn terms(self) -> usize {
        match self {
            Form::Up4(_) => 2,
            Form::Plain3 => 3,
            Form::Plain4 | Form::Down4 => 4,
            Form::Up12(_) => 6,
            Form::Down12 => 0,
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
            (1, 2, 1, 6) => second.map(Form::Up12),
            (1, 1, 2, 4) => Some(Form::Down4),
            (1, 1, 2, 12) => Some(Form::Down12),
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
    /// The first column inside of each input row; at least one.
    pub sources: &'a [*const T],
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
    // Half-precision numbers that fill so little of a line are better widened once.
    if R::LANES * size_of::<T>() < LINE / 2 {
        return false;
    }
    // SAFETY: the caller's promise, handed on.
    unsafe {
        match (rows.form, rows.taps) {
            (Form::Plain4, RowTaps::Direct(taps)) if rows.sources.len() == 4 && taps.len() == 16 => {
                let sources = [rows.sources[0], rows.sources[1], rows.sources[2], rows.sources[3]];
                Writer::new(rows).all(Direct::<T, R, 4, 4>::new(sources, taps));
                true
            }
            (_, RowTaps::Direct(_)) => false,
            (Form::Plain3, RowTaps::Separable(y, x)) => separable::<T, R, 1, 1, 3, 0>(rows, y, x),
            (Form::Plain4, RowTaps::Separable(y, x)) => separable::<T, R, 1, 1, 4, 0>(rows, y, x),
            (Form::Up4(false), RowTaps::Separable(y, x)) => separable::<T, R, 2, 1, 2, 0>(rows, y, x),
            (Form::Up4(true), RowTaps::Separable(y, x)) => separable::<T, R, 2, 1, 2, 1>(rows, y, x),
            (Form::Down4, RowTaps::Separable(y, x)) => separable::<T, R, 1, 2, 4, 0>(rows, y, x),
            (Form::Up12(false), RowTaps::Separable(y, x)) => separable::<T, R, 2, 1, 6, 0>(rows, y, x),
            (Form::Up12(true), RowTaps::Separable(y, x)) => separable::<T, R, 2, 1, 6, 1>(rows, y, x),
            (Form::Down12, RowTaps::Separable(y, x)) => separable::<T, R, 1, 2, 12, 0>(rows, y, x),
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
        let mut taps = [[R::splat(along_x[0]); N]; P];
        for p in 0..P {
            for n in 0..N {
                taps[p][n] = R::splat(along_x[p * N + n]);
            }
        }
        // As many terms along y as along x is the usual case; others are rows at the border, too.
        if N <= 6 && rows.sources.len() == N {
            let sum = Few::<T, R, N>::new(rows.sources, along_y).staying_at(rows.zeros);
            Writer::new(rows).all(Separable::<R, _, P, STEP, N, SECOND> { sum, taps });
        } else {
            let sum = Many::<T, R> { sources: rows.sources, taps: along_y, moved: 0 };
            Writer::new(rows).all(Separable::<R, _, P, STEP, N, SECOND> { sum, taps });
        }
    }
    true
}

/// Rows of so many blocks at most have no middle worth a loop of its own.
const NARROW: usize = 4;

/// How many rows ahead the memory of narrow rows is asked for.
const NARROW_AHEAD: isize = 12;

/// Writes rows of outputs.
struct Writer<'a, 'b, T: Element> {
    rows: &'a ShortRows<'b, T>,
    /// The last source, from which rows ahead are counted.
    last: *const u8,
    target: *mut T,
}

impl<'a, 'b, T: Element> Writer<'a, 'b, T> {
    #[inline(always)]
    fn new(rows: &'a ShortRows<'b, T>) -> Self {
        Writer { rows, last: rows.sources[rows.sources.len() - 1].cast(), target: rows.target }
    }

    #[inline(always)]
    unsafe fn all<R: Access<T>, const P: usize>(mut self, mut windows: impl Windows<R, P>)
    where
        T: Element<Compute = R::Number>,
    {
        // SAFETY: the promise of `write`.
        unsafe {
            if self.rows.count <= NARROW * P * R::LANES {
                return self.narrow(windows);
            }
            let Rows { count, source, target } = self.rows.rows;
            let (source_rest, target_rest) = self.to_next_plane();
            for _ in 0..self.rows.planes.count {
                for _ in 0..count {
                    self.row(&windows);
                    windows.advance(source);
                    self.last = self.last.wrapping_offset(source);
                    self.target = self.target.wrapping_byte_offset(target);
                }
                windows.advance(source_rest);
                self.last = self.last.wrapping_offset(source_rest);
                self.target = self.target.wrapping_byte_offset(target_rest);
            }
        }
    }

    /// Bytes from the row after a plane's last to the first of the next plane, in sources and target.
    #[inline(always)]
    fn to_next_plane(&self) -> (isize, isize) {
        let (rows, planes) = (&self.rows.rows, &self.rows.planes);
        let rest = |plane: isize, row: isize| plane.wrapping_sub(row.wrapping_mul(rows.count as isize));
        (rest(planes.source, rows.source), rest(planes.target, rows.target))
    }

    /// Rows of a few blocks, whose masks are made once.
    #[inline(always)]
    unsafe fn narrow<R: Access<T>, W: Windows<R, P>, const P: usize>(&mut self, mut windows: W)
    where
        T: Element<Compute = R::Number>,
    {
        let (Rows { count, source, target }, width, start) = (self.rows.rows, self.rows.count, self.rows.start);
        let planes = self.rows.planes;
        let lines = [self.target as usize, target as usize, planes.target as usize, width * size_of::<T>()]
            .iter()
            .all(|n| n.is_multiple_of(LINE));
        let streamed = if self.rows.streaming && lines { width } else { 0 };
        let soon = if self.rows.ahead.is_some() { target.wrapping_mul(NARROW_AHEAD) } else { 0 };
        let (inside, step) = (self.rows.inside as isize, (W::STEP * R::LANES) as isize);
        let (blocks, full) = (width.div_ceil(P * R::LANES), P * R::LANES);
        let whole = streamed == 0 && width == blocks * full;
        // SAFETY: the register exists.
        let mut masks = [unsafe { W::masks(start, inside) }; NARROW + 1];
        for block in 1..=blocks {
            // SAFETY: as above.
            masks[block] = unsafe { W::masks(start + block as isize * step, inside) };
        }
        let (source_rest, target_rest) = self.to_next_plane();
        for _ in 0..planes.count {
            for _ in 0..count {
                // SAFETY: the promise of `write`.
                unsafe {
                    if streamed == 0 {
                        // Rows so short are no stream that the processor would see coming.
                        R::prefetch(self.target.wrapping_byte_offset(soon).cast());
                    }
                    let mut current = windows.at_edge(start, masks[0]);
                    for block in 0..blocks {
                        let column = start + (block as isize + 1) * step;
                        let next = windows.at_edge(column, masks[block + 1]);
                        let values = windows.outputs(&current, &next);
                        if whole {
                            for p in 0..P {
                                values[p].store(self.target.add(block * full + p * R::LANES));
                            }
                        } else {
                            self.store(values, block * full, width, streamed);
                        }
                        current = next;
                    }
                }
                windows.advance(source);
                self.target = self.target.wrapping_byte_offset(target);
            }
            windows.advance(source_rest);
            self.target = self.target.wrapping_byte_offset(target_rest);
        }
    }

    /// Stores the part below `end` of a block that starts at `q`, streamed below `streamed`.
    #[inline(always)]
    unsafe fn store<R: Access<T>, const P: usize>(&self, values: [R; P], q: usize, end: usize, streamed: usize)
    where
        T: Element<Compute = R::Number>,
    {
        for p in 0..P {
            let place = q + p * R::LANES;
            // SAFETY: the promise of `write`; places are below `end`.
            unsafe {
                match end.saturating_sub(place) {
                    0 => {}
                    rest if rest < R::LANES => values[p].store_part(self.target.add(place), rest),
                    _ if place + R::LANES <= streamed => values[p].stream(self.target.add(place)),
                    _ => values[p].store(self.target.add(place)),
                }
            }
        }
    }

    /// `B` blocks inside, from output `q` on.
    #[inline(always)]
    unsafe fn blocks<R: Access<T>, W: Windows<R, P>, const P: usize, const B: usize>(
        &self,
        windows: &W,
        current: &mut W::Registers,
        column: usize,
        q: usize,
        streams: bool,
    ) where
        T: Element<Compute = R::Number>,
    {
        // SAFETY: the promise of `write`.
        unsafe {
            let values = windows.steps::<B>(current, column);
            for block in 0..B {
                for p in 0..P {
                    let place = self.target.add(q + (block * P + p) * R::LANES);
                    if streams { values[block][p].stream(place) } else { values[block][p].store(place) }
                }
            }
        }
    }

    /// Lines are streamed whole; what stands before the first is written as a row of its own.
    #[inline(always)]
    unsafe fn row<R: Access<T>, W: Windows<R, P>, const P: usize>(&self, windows: &W)
    where
        T: Element<Compute = R::Number>,
    {
        let (count, size) = (self.rows.count, size_of::<T>());
        let misaligned = self.target as usize % LINE;
        let head = (LINE - misaligned) % LINE / size;
        let streaming = self.rows.streaming && misaligned.is_multiple_of(size) && head.is_multiple_of(P);
        let (mut start, mut end, mut streamed) = (0, count, 0);
        if streaming && head < count {
            // The last line is not streamed whole: stores to it would wait for it.
            R::prefetch(self.target.wrapping_add(count).cast());
            streamed = head + (count - head) * size / LINE * LINE / size;
            end = if head == 0 { count } else { head };
        }
        // One place where the loop is compiled, run at most twice.
        while start < count {
            // SAFETY: the promise of `write`.
            unsafe { self.part(windows, start..end, if end == count { streamed } else { 0 }) };
            (start, end) = (end, count);
        }
    }

    /// Some outputs, streamed below `streamed`.
    #[inline(always)]
    unsafe fn part<R: Access<T>, W: Windows<R, P>, const P: usize>(
        &self,
        windows: &W,
        outputs: Range<usize>,
        streamed: usize,
    ) where
        T: Element<Compute = R::Number>,
    {
        let Range { start: mut q, end } = outputs;
        let (full, step) = (P * R::LANES, (W::STEP * R::LANES) as isize);
        // Blocks that fill a line, which is then written back to back, and the lines they are summed from.
        let at_once = const {
            let bytes = P * R::LANES * size_of::<T>();
            let at_least = W::AT_ONCE;
            if bytes * at_least < LINE { LINE / bytes } else { at_least }
        };
        let read = (at_once * W::STEP * R::LANES * size_of::<T>()).div_ceil(LINE);
        let inside = self.rows.inside as isize;
        let mut column = self.rows.start + (q / P * W::STEP) as isize;
        // SAFETY: the promise of `write`; loads stay inside, stores below `end`.
        unsafe {
            let mut current = windows.at_edge(column, W::masks(column, inside));
            column += step;
            while q < end {
                let streams = q < streamed;
                let limit = if streams { streamed } else { end };
                // Blocks that neither reach over an edge nor need another kind of store.
                let reachable = usize::try_from(inside - column).unwrap_or(0) / (W::STEP * R::LANES);
                let blocks = if column < 0 { 0 } else { reachable.min((limit - q) / full) };
                let mut left = blocks;
                while left >= at_once {
                    if let Some(ahead) = self.rows.ahead {
                        let column = self.last.wrapping_offset(column * size_of::<T>() as isize);
                        for line in 0..read {
                            ahead.ask::<R>(column.wrapping_add(line * LINE));
                        }
                    }
                    // One of these is compiled: the number of blocks is a constant.
                    match at_once {
                        1 => self.blocks::<R, W, P, 1>(windows, &mut current, column as usize, q, streams),
                        2 => self.blocks::<R, W, P, 2>(windows, &mut current, column as usize, q, streams),
                        _ => self.blocks::<R, W, P, 4>(windows, &mut current, column as usize, q, streams),
                    }
                    column += at_once as isize * step;
                    q += at_once * full;
                    left -= at_once;
                }
                for _ in 0..left.max(usize::from(blocks == 0)) {
                    let next = windows.at_edge(column, W::masks(column, inside));
                    self.store(windows.outputs(&current, &next), q, end, streamed);
                    (current, q, column) = (next, q + full, column + step);
                }
            }
        }
    }
}
