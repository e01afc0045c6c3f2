//! Writes the rows of a short kernel: block by block, edges with masks, whole lines past the caches.
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use std::ops::Range;

use super::rows::ShortRows;
use super::windows::Windows;
use crate::loops::memory_access::{LINE, Prefetch, Rows};
use crate::loops::register::Access;
use firelu_core::dtype::Element;

/// Rows of so many blocks at most have no middle worth a loop of its own.
const NARROW: usize = 4;

/// How many rows ahead the target of narrow rows is prefetched.
const NARROW_AHEAD: isize = 12;

/// How many source lines are prefetched with each of them, at most.
const NARROW_LINES: usize = 8;

/// Writes rows of outputs, `K` above each other at once.
pub struct Writer<'a, 'b, T: Element, const K: usize> {
    rows: &'a ShortRows<'b, T>,
    /// How often `K` rows are written, and how far apart those are.
    turns: Rows,
    /// In how many phases turns take turns.
    phases: usize,
    /// The last source, from which prefetched rows are counted.
    last: *const u8,
    /// What is prefetched meanwhile.
    prefetch: Prefetch,
    target: *mut T,
}

impl<'a, 'b, T: Element, const K: usize> Writer<'a, 'b, T, K> {
    /// A writer of these rows, a multiple of `K`; where that is more than one, it is a multiple of their phases.
    #[inline(always)]
    pub fn new(rows: &'a ShortRows<'b, T>) -> Self {
        let (turns, phases) = rows.turns(K);
        Writer { rows, turns, phases, last: rows.last(K), prefetch: Prefetch::NONE, target: rows.target }
    }

    /// Writes all rows; the windows are those of each phase.
    ///
    /// # Safety
    /// What holds for every [loop](crate::loops).
    #[inline(always)]
    pub unsafe fn all<R: Access<T>, W: Windows<R, P, K> + Copy, const P: usize>(mut self, mut windows: [W; 2])
    where
        T: Element<Compute = R::Number>,
    {
        if let Some(prefetch) = self.rows.prefetch {
            self.prefetch = prefetch.of(W::NEW_ROWS);
        }
        // SAFETY: the caller's promise.
        unsafe {
            if self.rows.count <= NARROW * P * R::LANES {
                return self.narrow(windows);
            }
            let (turns, phases, planes) = (self.turns, self.phases, self.rows.planes);
            let target_rest = planes.target.wrapping_sub(turns.target.wrapping_mul(turns.count as isize));
            let mut parts = self.parts::<R, W, P>();
            let mut misaligned = self.target as usize % LINE;
            for _ in 0..planes.count {
                let mut phase = 0;
                for _ in 0..turns.count {
                    if self.rows.non_temporal && self.target as usize % LINE != misaligned {
                        misaligned = self.target as usize % LINE;
                        parts = self.parts::<R, W, P>();
                    }
                    // A copy, which can stay in registers.
                    let row = windows[phase];
                    self.part(&row, &parts[0]);
                    if parts[1].end > parts[0].end {
                        self.part(&row, &parts[1]);
                    }
                    windows[phase].advance(turns.source);
                    phase += 1;
                    if phase == phases {
                        phase = 0;
                        self.last = self.last.wrapping_offset(turns.source);
                    }
                    self.target = self.target.wrapping_byte_offset(turns.target);
                }
                self.go_to_next_plane(&mut windows);
                self.target = self.target.wrapping_byte_offset(target_rest);
            }
        }
    }

    /// How many turns of a plane are of a phase.
    #[inline(always)]
    fn turns_of(&self, phase: usize) -> usize {
        (self.turns.count + self.phases - 1 - phase) / self.phases
    }

    /// Goes on from the row after a plane's last to the first of the next plane.
    #[inline(always)]
    fn go_to_next_plane<R: Access<T>, W: Windows<R, P, K>, const P: usize>(&mut self, windows: &mut [W; 2])
    where
        T: Element<Compute = R::Number>,
    {
        let (turns, phases) = (self.turns, self.phases);
        for phase in 0..phases {
            let done = self.turns_of(phase) as isize;
            windows[phase].advance(self.rows.planes.source.wrapping_sub(turns.source.wrapping_mul(done)));
        }
        let done = (turns.count / phases) as isize;
        let rest = self.rows.planes.source.wrapping_sub(turns.source.wrapping_mul(done));
        self.last = self.last.wrapping_offset(rest);
    }

    /// An output of one of the `K` rows at hand.
    #[inline(always)]
    fn place(&self, row: usize, q: usize) -> *mut T {
        self.target.wrapping_byte_offset(self.rows.rows.target.wrapping_mul(row as isize)).wrapping_add(q)
    }

    /// Rows of a few blocks, whose masks are made once. One phase after the other: what each needs stays in registers.
    #[inline(always)]
    unsafe fn narrow<R: Access<T>, W: Windows<R, P, K> + Copy, const P: usize>(&mut self, windows: [W; 2])
    where
        T: Element<Compute = R::Number>,
    {
        let (Rows { source, target, .. }, width, start) = (self.turns, self.rows.count, self.rows.start);
        let (planes, phases, row) = (self.rows.planes, self.phases, self.rows.rows.target);
        let lines = [self.target as usize, row as usize, planes.target as usize, width * size_of::<T>()]
            .iter()
            .all(|n| n.is_multiple_of(LINE));
        let streamed = if self.rows.non_temporal && lines { width } else { 0 };
        let soon = if self.rows.prefetch.is_some() { target.wrapping_mul(NARROW_AHEAD) } else { 0 };
        let (inside, step) = (self.rows.inside as isize, (W::STEP * R::LANES) as isize);
        let (blocks, full) = (width.div_ceil(P * R::LANES), P * R::LANES);
        let whole = streamed == 0 && width == blocks * full;
        // SAFETY: the register exists.
        let mut masks = [unsafe { W::masks(start, inside) }; NARROW + 1];
        for block in 1..=blocks {
            // SAFETY: as above.
            masks[block] = unsafe { W::masks(start + block as isize * step, inside) };
        }
        // Rows that fill their registers, of which the first window takes all but the last column and the second that
        // one alone: they are loaded once as they stand, and shifted.
        let filled = W::STEP > 1 && whole && start == -1 && inside == blocks as isize * step;
        // SAFETY: as above; no column is read.
        let (filling, outside) = unsafe {
            let outside = windows[0].at_edge(inside, W::masks(inside, inside));
            (W::masks(0, inside), outside)
        };
        let first = self.target;
        // Where more is read than written: planes without gaps are one stream, of which each row takes its share.
        let stream = W::STEP > 1 && self.prefetch.gapless;
        let mut read = stream.then(|| self.last.wrapping_offset(self.prefetch.first));
        for phase in 0..phases {
            let (count, target) = (self.turns_of(phase), target.wrapping_mul(phases as isize));
            let source_rest = planes.source.wrapping_sub(source.wrapping_mul(count as isize));
            let target_rest = planes.target.wrapping_sub(target.wrapping_mul(count as isize));
            let mut windows = windows[phase];
            self.target = first.wrapping_byte_offset(row.wrapping_mul(phase as isize));
            for _ in 0..planes.count {
                for _ in 0..count {
                    // SAFETY: the caller's promise.
                    unsafe {
                        if let Some(read) = &mut read {
                            for line in 0..(source as usize / LINE).min(K * NARROW_LINES) {
                                R::prefetch_l2(read.wrapping_add(line * LINE));
                            }
                            *read = read.wrapping_offset(source);
                        }
                        if streamed == 0 {
                            // Rows so short are no stream that the processor would see coming.
                            for k in 0..K {
                                R::prefetch(self.place(k, 0).wrapping_byte_offset(soon).cast());
                            }
                        }
                        let mut loaded = outside;
                        let mut current = if filled {
                            loaded = windows.at_edge(0, filling);
                            windows.one_before(&outside, &loaded)
                        } else {
                            windows.at_edge(start, masks[0])
                        };
                        for block in 0..blocks {
                            let column = start + (block as isize + 1) * step;
                            let next = if filled {
                                let previous = loaded;
                                loaded =
                                    if block + 1 < blocks { windows.at_edge(column + 1, filling) } else { outside };
                                windows.one_before(&previous, &loaded)
                            } else {
                                windows.at_edge(column, masks[block + 1])
                            };
                            let values = windows.outputs(&current, &next);
                            if whole {
                                for k in 0..K {
                                    for p in 0..P {
                                        values[k][p].store(self.place(k, block * full + p * R::LANES));
                                    }
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
                read = read.map(|read| read.wrapping_offset(source_rest));
                self.target = self.target.wrapping_byte_offset(target_rest);
            }
            // The next phase reads what is there by now.
            read = None;
        }
    }

    /// Stores the part below `end` of a block that starts at `q`, streamed below `streamed`.
    #[inline(always)]
    unsafe fn store<R: Access<T>, const P: usize>(&self, values: [[R; P]; K], q: usize, end: usize, streamed: usize)
    where
        T: Element<Compute = R::Number>,
    {
        for k in 0..K {
            for p in 0..P {
                let place = q + p * R::LANES;
                // SAFETY: the caller's promise; places are below `end`.
                unsafe {
                    match end.saturating_sub(place) {
                        0 => {}
                        rest if rest < R::LANES => values[k][p].store_part(self.place(k, place), rest),
                        _ if place + R::LANES <= streamed => values[k][p].stream(self.place(k, place)),
                        _ => values[k][p].store(self.place(k, place)),
                    }
                }
            }
        }
    }

    /// Prefetches what `blocks` steps of the next rows will read.
    #[inline(always)]
    fn prefetch<R: Access<T>, W: Windows<R, P, K>, const P: usize>(&self, column: isize, blocks: usize)
    where
        T: Element<Compute = R::Number>,
    {
        let size = size_of::<T>();
        let bytes = (column * size as isize, blocks * W::STEP * R::LANES * size);
        self.prefetch.lines::<R>(self.last, bytes, W::NEW_ROWS);
    }

    /// `count` blocks inside, from output `q` on, `B` at a time; what is left of them is left. All choices are made
    /// outside of the loop, which is so short that branches would be most of it.
    #[inline(always)]
    unsafe fn inside<R: Access<T>, W: Windows<R, P, K>, const P: usize, const B: usize, const NON_TEMPORAL: bool>(
        &self,
        windows: &W,
        (current, column, q): (&mut W::Registers, &mut isize, &mut usize),
        mut count: usize,
    ) -> usize
    where
        T: Element<Compute = R::Number>,
    {
        // SAFETY: the caller's promise.
        unsafe {
            while count >= B {
                self.prefetch::<R, W, P>(*column, B);
                let values = windows.steps::<B>(current, *column as usize);
                for k in 0..K {
                    for block in 0..B {
                        for p in 0..P {
                            let (value, place) = (values[k][block][p], self.place(k, *q + (block * P + p) * R::LANES));
                            if NON_TEMPORAL { value.stream(place) } else { value.store(place) }
                        }
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
    unsafe fn parts<R: Access<T>, W: Windows<R, P, K>, const P: usize>(&self) -> [Part<W::Masks>; 2]
    where
        T: Element<Compute = R::Number>,
    {
        let (count, size) = (self.rows.count, size_of::<T>());
        let misaligned = self.target as usize % LINE;
        let head = (LINE - misaligned) % LINE / size;
        let non_temporal = self.rows.non_temporal && misaligned.is_multiple_of(size) && head.is_multiple_of(P);
        // SAFETY: the register exists.
        unsafe {
            if !non_temporal || head >= count {
                return [Part::new::<T, R, W, P, K>(self.rows, 0..count, 0); 2];
            }
            let streamed = head + (count - head) * size / LINE * LINE / size;
            let rest = Part::new::<T, R, W, P, K>(self.rows, head..count, streamed);
            [if head == 0 { rest } else { Part::new::<T, R, W, P, K>(self.rows, 0..head, 0) }, rest]
        }
    }

    /// Writes a part of a row.
    #[inline(always)]
    unsafe fn part<R: Access<T>, W: Windows<R, P, K>, const P: usize>(&self, windows: &W, part: &Part<W::Masks>)
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
        // SAFETY: the caller's promise; loads stay inside, stores below `end`.
        unsafe {
            if streams && streamed < end {
                // The last line is not streamed whole: stores to it would wait for it.
                for k in 0..K {
                    R::prefetch(self.place(k, end).cast());
                }
            }
            self.prefetch::<R, W, P>(column, 1);
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
                    self.prefetch::<R, W, P>(column, 1);
                    let next = windows.at_edge(column, masks);
                    self.store(windows.outputs(&current, &next), q, end, streamed);
                    (current, q, column) = (next, q + full, column + step);
                }
                if q >= end {
                    return;
                }
                // One of these is compiled: the number of blocks is a constant.
                macro_rules! at_most {
                    ($blocks:literal) => {
                        if $blocks <= at_once {
                            let state = (&mut current, &mut column, &mut q);
                            inside = match streams {
                                false => self.inside::<R, W, P, $blocks, false>(windows, state, inside),
                                true => self.inside::<R, W, P, $blocks, true>(windows, state, inside),
                            };
                        }
                    };
                }
                at_most!(8);
                at_most!(4);
                at_most!(2);
                at_most!(1);
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
    unsafe fn new<T, R, W, const P: usize, const K: usize>(
        rows: &ShortRows<'_, T>,
        outputs: Range<usize>,
        streamed: usize,
    ) -> Self
    where
        T: Element<Compute = R::Number>,
        R: Access<T>,
        W: Windows<R, P, K, Masks = M>,
    {
        let (q, end, full, step) = (outputs.start, outputs.end, P * R::LANES, (W::STEP * R::LANES) as isize);
        let (column, columns) = (rows.start + (q / P * W::STEP) as isize, rows.inside as isize);
        let limit = if q < streamed { streamed } else { end };
        let blocks = ((limit - q) / full) as isize;
        // Each block ends with the register that the next starts with.
        let ends_before = (-column + step - 1).div_euclid(step) - isize::from(!W::LOOKS_BACK);
        let before = ends_before.clamp(0, blocks);
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
