//! Kernels of a few taps: input rows are loaded, or summed, into registers, which are then shifted into
//! each other to be summed along x, so that no row is written in between. Sums are those of the other
//! paths, in the same order.
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use std::ops::Range;

use super::registers::Access;
use super::rows::{Ahead, LINE, Rows};
use super::strip::Strip;
use super::sums::{Few, Many};
use super::windows::{Direct, Separable, Windows, taps_along_x};
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
    /// Half as many outputs, twelve taps.
    Down12,
}

impl Form {
    /// Whether rows along this axis have a form, whatever the strip.
    pub fn exists(axis: &Axis) -> bool {
        matches!((axis.up, axis.down, axis.taps), (1, 1, 3 | 4) | (2, 1, 4) | (1, 2, 4 | 12))
    }

    /// How many terms along y the rows at the border are filled up to with zeros, if to any.
    pub fn terms(self) -> usize {
        match self {
            Form::Up4(_) => 2,
            Form::Plain3 => 3,
            Form::Plain4 | Form::Down4 => 4,
            Form::Down12 => 12,
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
                Writer::new(rows).all([Direct::<T, R, 4, 4>::new(sources, taps); 2]);
                true
            }
            (_, RowTaps::Direct(_)) => false,
            (Form::Plain3, RowTaps::Separable(y, x)) => separable::<T, R, 1, 1, 3, 0>(rows, y, x),
            (Form::Plain4, RowTaps::Separable(y, x)) => separable::<T, R, 1, 1, 4, 0>(rows, y, x),
            (Form::Up4(false), RowTaps::Separable(y, x)) => separable::<T, R, 2, 1, 2, 0>(rows, y, x),
            (Form::Up4(true), RowTaps::Separable(y, x)) => separable::<T, R, 2, 1, 2, 1>(rows, y, x),
            (Form::Down4, RowTaps::Separable(y, x)) => separable::<T, R, 1, 2, 4, 0>(rows, y, x),
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

    /// Writes all rows; the windows are those of each phase.
    #[inline(always)]
    unsafe fn all<R: Access<T>, W: Windows<R, P> + Copy, const P: usize>(mut self, mut windows: [W; 2])
    where
        T: Element<Compute = R::Number>,
    {
        // SAFETY: the promise of `write`.
        unsafe {
            if self.rows.count <= NARROW * P * R::LANES {
                return self.narrow(windows);
            }
            let (rows, phases, planes) = (self.rows.rows, self.rows.phases, self.rows.planes);
            let target_rest = planes.target.wrapping_sub(rows.target.wrapping_mul(rows.count as isize));
            let mut parts = self.parts::<R, W, P>();
            let mut misaligned = self.target as usize % LINE;
            for _ in 0..planes.count {
                let mut phase = 0;
                for _ in 0..rows.count {
                    if self.rows.streaming && self.target as usize % LINE != misaligned {
                        misaligned = self.target as usize % LINE;
                        parts = self.parts::<R, W, P>();
                    }
                    // A copy, which can stay in registers.
                    let row = windows[phase];
                    self.part(&row, &parts[0]);
                    if parts[1].end > parts[0].end {
                        self.part(&row, &parts[1]);
                    }
                    windows[phase].advance(rows.source);
                    phase += 1;
                    if phase == phases {
                        phase = 0;
                        self.last = self.last.wrapping_offset(rows.source);
                    }
                    self.target = self.target.wrapping_byte_offset(rows.target);
                }
                self.go_to_next_plane(&mut windows);
                self.target = self.target.wrapping_byte_offset(target_rest);
            }
        }
    }

    /// Goes on from the row after a plane's last to the first of the next plane.
    #[inline(always)]
    fn go_to_next_plane<R: Access<T>, W: Windows<R, P>, const P: usize>(&mut self, windows: &mut [W; 2])
    where
        T: Element<Compute = R::Number>,
    {
        let (rows, phases) = (self.rows.rows, self.rows.phases);
        for phase in 0..phases {
            let done = (rows.count + phases - 1 - phase) / phases;
            windows[phase].advance(self.rows.planes.source.wrapping_sub(rows.source.wrapping_mul(done as isize)));
        }
        let done = (rows.count / phases) as isize;
        let rest = self.rows.planes.source.wrapping_sub(rows.source.wrapping_mul(done));
        self.last = self.last.wrapping_offset(rest);
    }

    /// Rows of a few blocks, whose masks are made once. One phase after the other: what each needs stays in registers.
    #[inline(always)]
    unsafe fn narrow<R: Access<T>, W: Windows<R, P> + Copy, const P: usize>(&mut self, windows: [W; 2])
    where
        T: Element<Compute = R::Number>,
    {
        let (Rows { count, source, target }, width, start) = (self.rows.rows, self.rows.count, self.rows.start);
        let (planes, phases) = (self.rows.planes, self.rows.phases);
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
        let first = self.target;
        for phase in 0..phases {
            let (count, target) = ((count + phases - 1 - phase) / phases, target.wrapping_mul(phases as isize));
            let source_rest = planes.source.wrapping_sub(source.wrapping_mul(count as isize));
            let target_rest = planes.target.wrapping_sub(target.wrapping_mul(count as isize));
            let mut windows = windows[phase];
            self.target = first.wrapping_byte_offset(self.rows.rows.target.wrapping_mul(phase as isize));
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

    /// Asks for some columns of the rows that will be read soon.
    #[inline(always)]
    fn ask<R: Access<T>>(&self, column: isize, rows: usize, columns: usize)
    where
        T: Element<Compute = R::Number>,
    {
        // Where nothing is to come, the line at hand is asked for: a branch would cost more.
        let ahead = self.rows.ahead.unwrap_or(Ahead::NONE);
        let soon = self.last.wrapping_offset(column * size_of::<T>() as isize);
        for line in 0..(columns * size_of::<T>()).div_ceil(LINE) {
            ahead.ask::<R>(soon.wrapping_add(line * LINE), rows);
        }
    }

    /// `count` blocks inside, from output `q` on, `B` at a time; what is left of them is left. All choices are made
    /// outside of the loop, which is so short that branches would be most of it.
    #[inline(always)]
    unsafe fn inside<R: Access<T>, W: Windows<R, P>, const P: usize, const B: usize, const STREAMS: bool>(
        &self,
        windows: &W,
        (current, column, q): (&mut W::Registers, &mut isize, &mut usize),
        mut count: usize,
    ) -> usize
    where
        T: Element<Compute = R::Number>,
    {
        // SAFETY: the promise of `write`.
        unsafe {
            while count >= B {
                self.ask::<R>(*column, W::STEP, B * W::STEP * R::LANES);
                let values = windows.steps::<B>(current, *column as usize);
                for block in 0..B {
                    for p in 0..P {
                        let place = self.target.add(*q + (block * P + p) * R::LANES);
                        if STREAMS { values[block][p].stream(place) } else { values[block][p].store(place) }
                    }
                }
                *column += (B * W::STEP * R::LANES) as isize;
                *q += B * P * R::LANES;
                count -= B;
            }
        }
        count
    }

    /// Lines are streamed whole; what stands before the first is a part of its own.
    #[inline(always)]
    unsafe fn parts<R: Access<T>, W: Windows<R, P>, const P: usize>(&self) -> [Part<W::Masks>; 2]
    where
        T: Element<Compute = R::Number>,
    {
        let (count, size) = (self.rows.count, size_of::<T>());
        let misaligned = self.target as usize % LINE;
        let head = (LINE - misaligned) % LINE / size;
        let streaming = self.rows.streaming && misaligned.is_multiple_of(size) && head.is_multiple_of(P);
        // SAFETY: the register exists.
        unsafe {
            if !streaming || head >= count {
                return [Part::new::<T, R, W, P>(self.rows, 0..count, 0); 2];
            }
            let streamed = head + (count - head) * size / LINE * LINE / size;
            let rest = Part::new::<T, R, W, P>(self.rows, head..count, streamed);
            [if head == 0 { rest } else { Part::new::<T, R, W, P>(self.rows, 0..head, 0) }, rest]
        }
    }

    /// Writes a part of a row.
    #[inline(always)]
    unsafe fn part<R: Access<T>, W: Windows<R, P>, const P: usize>(&self, windows: &W, part: &Part<W::Masks>)
    where
        T: Element<Compute = R::Number>,
    {
        let (full, step) = (P * R::LANES, (W::STEP * R::LANES) as isize);
        // Blocks that fill a line, which is then written back to back, and the lines they are summed from.
        let at_once = const {
            let bytes = P * R::LANES * size_of::<T>();
            let read = W::STEP * R::LANES * size_of::<T>();
            let bytes = if read < bytes { read } else { bytes };
            let at_least = W::AT_ONCE;
            if bytes * at_least < LINE { LINE / bytes } else { at_least }
        };
        let Part { mut column, mut q, end, streamed, .. } = *part;
        let streams = q < streamed;
        // SAFETY: the promise of `write`; loads stay inside, stores below `end`.
        unsafe {
            if streams {
                // The last line is not streamed whole: stores to it would wait for it.
                R::prefetch(self.target.wrapping_add(end).cast());
            }
            self.ask::<R>(column, W::STEP, W::STEP * R::LANES);
            let mut current = windows.at_edge(column, part.first);
            column += step;
            // One place where the edges are compiled.
            let mut inside = part.inside;
            let mut edges = part.before;
            loop {
                for edge in 0..edges {
                    let masks = match part.after.get(edge) {
                        Some(&masks) if inside == 0 => masks,
                        _ => W::masks(column, self.rows.inside as isize),
                    };
                    self.ask::<R>(column, W::STEP, W::STEP * R::LANES);
                    let next = windows.at_edge(column, masks);
                    self.store(windows.outputs(&current, &next), q, end, streamed);
                    (current, q, column) = (next, q + full, column + step);
                }
                if q >= end {
                    return;
                }
                // One of these is compiled: the number of blocks is a constant.
                let state = (&mut current, &mut column, &mut q);
                inside = match (at_once, streams) {
                    (1, false) => self.inside::<R, W, P, 1, false>(windows, state, inside),
                    (1, true) => self.inside::<R, W, P, 1, true>(windows, state, inside),
                    (2, false) => self.inside::<R, W, P, 2, false>(windows, state, inside),
                    (2, true) => self.inside::<R, W, P, 2, true>(windows, state, inside),
                    (_, false) => self.inside::<R, W, P, 4, false>(windows, state, inside),
                    (_, true) => self.inside::<R, W, P, 4, true>(windows, state, inside),
                };
                let state = (&mut current, &mut column, &mut q);
                inside = match (at_once, streams) {
                    (1, _) => 0,
                    (_, false) => self.inside::<R, W, P, 1, false>(windows, state, inside),
                    (_, true) => self.inside::<R, W, P, 1, true>(windows, state, inside),
                };
                edges = (end - q).div_ceil(full);
            }
        }
    }
}

/// Outputs of a row that are written in one go, and what is known of them before the first row.
#[derive(Clone, Copy)]
struct Part<M> {
    /// The first output.
    q: usize,
    /// Where they end.
    end: usize,
    /// Below this they are streamed.
    streamed: usize,
    /// Where the first register starts.
    column: isize,
    /// Its places inside.
    first: M,
    /// Blocks whose registers reach over the edge, before those inside.
    before: usize,
    /// Blocks of registers inside, all stored alike.
    inside: usize,
    /// The places inside of the registers after those.
    after: [M; 3],
}

impl<M: Copy> Part<M> {
    /// # Safety
    /// The register's level was detected.
    #[inline(always)]
    unsafe fn new<T, R, W, const P: usize>(rows: &ShortRows<'_, T>, outputs: Range<usize>, streamed: usize) -> Self
    where
        T: Element<Compute = R::Number>,
        R: Access<T>,
        W: Windows<R, P, Masks = M>,
    {
        let (q, end, full, step) = (outputs.start, outputs.end, P * R::LANES, (W::STEP * R::LANES) as isize);
        let (column, columns) = (rows.start + (q / P * W::STEP) as isize, rows.inside as isize);
        let limit = if q < streamed { streamed } else { end };
        let blocks = ((limit - q) / full) as isize;
        // Each block ends with the register that the next starts with.
        let before = ((-column + step - 1).div_euclid(step) - 1).clamp(0, blocks);
        let inside = ((columns - column).div_euclid(step) - 1 - before).clamp(0, blocks - before);
        // Without such blocks all are alike.
        let before = if inside == 0 { 0 } else { before };
        let after = column + (1 + before + inside) * step;
        // SAFETY: the caller's promise.
        unsafe {
            let masks =
                [W::masks(after, columns), W::masks(after + step, columns), W::masks(after + 2 * step, columns)];
            Part {
                q,
                end,
                streamed,
                column,
                first: W::masks(column, columns),
                before: before as usize,
                inside: inside as usize,
                after: masks,
            }
        }
    }
}
