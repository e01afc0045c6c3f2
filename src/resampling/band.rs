//! One band of output rows: inputs are summed along columns, turned, summed along rows, turned back and stored.

use std::ops::Range;

use firelu_filters::loops::register::{Access, Register};

use crate::Request;
use crate::axis::Axis;
use crate::columns::Columns;
use crate::loops::{Line, TOGETHER, sum_columns, sum_rows, transposed};
use crate::samples::{Holds, MOST_LANES, Sample};

/// How many columns are in work between the filters, at least, and how many outputs wait to be turned back: both stay in
/// the first-level cache.
pub const WINDOW: usize = 256;

/// How many bytes of a row are asked for before they are summed: rows are too many for the processor to do so by itself.
const AHEAD: usize = 512;

/// Rows of one part of the columns, in samples.
pub struct Part<S> {
    pub rows: Vec<*const S>,
    pub start: usize,
    pub end: usize,
}

/// Memory of a task.
pub struct Memory<C> {
    /// Input rows of a few columns, widened.
    pub widened: Vec<C>,
    /// Output rows of the same columns.
    pub tile: Vec<C>,
    /// The same on their side: one register a column.
    pub window: Vec<C>,
    /// Outputs, one register a column.
    pub outputs: Vec<C>,
    /// Where the widened rows begin.
    pub rows: Vec<*const C>,
}

/// A band on its way.
pub struct Band<'a, S: Sample, D> {
    pub request: &'a Request,
    pub columns: &'a Columns,
    pub lines: &'a [Line<'a, S::Number>],
    pub parts: &'a [Part<S>],
    /// Whether sums read samples, not widened rows.
    pub direct: bool,
    pub targets: &'a [*mut D],
    pub memory: &'a mut Memory<S::Number>,
}

impl<S: Sample, D: Sample<Number = S::Number>> Band<'_, S, D> {
    /// Sums the columns from `column` on into the tile, as many as are summed at once; gives how many of them there are
    /// in this part.
    ///
    /// # Safety
    /// As `Job::run`; the part's rows can be read between its ends.
    #[inline(always)]
    unsafe fn sum<R>(&mut self, part: &Part<S>, column: usize) -> usize
    where
        R: Register<Number = S::Number> + Holds<S> + Holds<S::Number> + Access<S::Number>,
        S::Number: Sample<Number = S::Number>,
    {
        let (block, at) = (TOGETHER * R::LANES, column - part.start);
        let count = block.min(part.end - column);
        let tile = self.memory.tile.as_mut_ptr();
        for row in &part.rows {
            let ahead = row.wrapping_add(at).cast::<u8>().wrapping_add(AHEAD);
            for line in (0..block * size_of::<S>()).step_by(64) {
                R::prefetch(ahead.wrapping_add(line));
            }
        }
        // SAFETY: the caller's promise. Where fewer columns are left than are summed at once they are copied first; the
        // widened rows and the tile were made as large as this.
        unsafe {
            if self.direct && count == block {
                sum_rows::<S, R>(self.lines, &part.rows, at, tile);
                return count;
            }
            let widened = self.memory.widened.as_mut_ptr();
            for (number, row) in part.rows.iter().enumerate() {
                let mut last = [S::default(); TOGETHER * MOST_LANES];
                let mut source = row.add(at);
                if count < block {
                    std::ptr::copy_nonoverlapping(
                        source.cast::<u8>(),
                        last.as_mut_ptr().cast(),
                        count * size_of::<S>(),
                    );
                    source = last.as_ptr();
                }
                for place in (0..block).step_by(R::LANES) {
                    <R as Holds<S>>::get(source.add(place)).store(widened.add(number * block + place));
                }
            }
            let (lines, rows) = (self.lines, self.widened_rows(block, part.rows.len()));
            sum_rows::<S::Number, R>(lines, rows, 0, tile);
        }
        count
    }

    /// Pointers to the widened rows.
    fn widened_rows(&mut self, block: usize, count: usize) -> &[*const S::Number] {
        let memory = &mut *self.memory;
        if memory.rows.len() != count || memory.rows.first() != Some(&memory.widened.as_ptr()) {
            let base = memory.widened.as_ptr();
            memory.rows.clear();
            memory.rows.extend((0..count).map(|number| base.wrapping_add(number * block)));
        }
        &memory.rows
    }

    /// Stores what was summed along columns.
    ///
    /// # Safety
    /// As `Job::run`.
    #[inline(always)]
    pub unsafe fn columns_alone<R>(&mut self)
    where
        R: Register<Number = S::Number> + Holds<S> + Holds<D> + Holds<S::Number> + Access<S::Number>,
        S::Number: Sample<Number = S::Number>,
    {
        let (block, parts) = (TOGETHER * R::LANES, self.parts);
        for part in parts {
            let mut column = part.start;
            while column < part.end {
                // SAFETY: the caller's promise; the tile has a row for each target.
                unsafe {
                    let count = self.sum::<R>(part, column);
                    for (number, target) in self.targets.iter().enumerate() {
                        for place in (0..count).step_by(R::LANES) {
                            let sums = R::load(self.memory.tile.as_ptr().add(number * block + place));
                            store::<D, R>(sums, target.add(column + place), count - place);
                        }
                    }
                    column += count;
                }
            }
        }
    }

    /// Sums along columns, then along rows, a window of columns at a time.
    ///
    /// # Safety
    /// As `Job::run`.
    #[inline(always)]
    pub unsafe fn columns_and_rows<R>(&mut self, axis: &Axis<S::Number>, window: usize)
    where
        R: Register<Number = S::Number> + Holds<S> + Holds<D> + Holds<S::Number> + Access<S::Number>,
        S::Number: Sample<Number = S::Number>,
    {
        let (channels, outputs) = (self.request.channels, self.request.columns[1]);
        let (first, parts) = (self.columns.first, self.parts);
        let all = parts.last().map_or(0, |part| part.end);
        // Columns from `start` to `end` are in the window.
        let (mut start, mut end, mut output) = (0, 0, 0);
        while output < outputs {
            while end < all && end - start < window {
                let part = parts.iter().find(|part| part.end > end).expect("a part that is not done");
                // SAFETY: the caller's promise; the window has room for a block beyond its end.
                unsafe {
                    let count = self.sum::<R>(part, end);
                    let target = self.memory.window.as_mut_ptr().add((end - start) * R::LANES);
                    for group in (0..count).step_by(R::LANES) {
                        let square = transposed::<R>(self.memory.tile.as_ptr().add(group), TOGETHER * R::LANES);
                        for (place, column) in square[..R::LANES].iter().enumerate() {
                            column.store(target.add((group + place) * R::LANES));
                        }
                    }
                    end += count;
                }
            }
            let complete = axis.complete(first + (end / channels) as isize).min(outputs);
            let complete = if end == all { outputs } else { complete };
            while output < complete {
                let next = (output + (WINDOW / channels).max(1)).min(complete);
                // SAFETY: the caller's promise; the inputs of these outputs are in the window.
                unsafe {
                    self.outputs::<R>(axis, output..next, start);
                    self.flush::<R>(output * channels, (next - output) * channels);
                }
                output = next;
            }
            if output < outputs {
                let kept = ((axis.input(output) - first) as usize * channels).min(all);
                if kept < end {
                    self.memory.window.copy_within((kept - start) * R::LANES..(end - start) * R::LANES, 0);
                }
                (start, end) = (kept, end.max(kept));
            }
        }
    }

    /// Sums some outputs along the rows, phase by phase.
    ///
    /// # Safety
    /// As `Job::run`; the window begins with column `start` and has all inputs of these outputs.
    #[inline(always)]
    unsafe fn outputs<R>(&mut self, axis: &Axis<S::Number>, range: Range<usize>, start: usize)
    where
        R: Register<Number = S::Number> + Access<S::Number>,
    {
        let (channels, lanes, first) = (self.request.channels, R::LANES, self.columns.first);
        let (window, target) = (self.memory.window.as_ptr(), self.memory.outputs.as_mut_ptr());
        let step = channels * lanes;
        for phase in 0..axis.up.min(range.len()) {
            let mut output = range.start + phase;
            let taps = axis.taps(output);
            let column = (axis.input(output) - first) as usize * channels - start;
            let mut source = window.wrapping_add(column * lanes);
            // SAFETY: the caller's promise.
            unsafe {
                while channels == 1 && output + 3 * axis.up < range.end {
                    let place = target.add((output - range.start) * lanes);
                    sum_columns::<R, 4>(source, axis.down * lanes, step, taps, place, axis.up * lanes);
                    output += 4 * axis.up;
                    source = source.wrapping_add(4 * axis.down * lanes);
                }
                while output < range.end {
                    let place = target.add((output - range.start) * step);
                    let mut channel = 0;
                    while channel < channels {
                        let (source, place) = (source.add(channel * lanes), place.add(channel * lanes));
                        match channels - channel {
                            1 => sum_columns::<R, 1>(source, lanes, step, taps, place, lanes),
                            2 => sum_columns::<R, 2>(source, lanes, step, taps, place, lanes),
                            3 => sum_columns::<R, 3>(source, lanes, step, taps, place, lanes),
                            _ => sum_columns::<R, 4>(source, lanes, step, taps, place, lanes),
                        }
                        channel += 4;
                    }
                    output += axis.up;
                    source = source.wrapping_add(axis.down * step);
                }
            }
        }
    }

    /// Turns outputs back and stores them, from a sample of the rows on.
    ///
    /// # Safety
    /// As `Job::run`.
    #[inline(always)]
    unsafe fn flush<R>(&mut self, sample: usize, count: usize)
    where
        R: Register<Number = S::Number> + Holds<D> + Access<S::Number>,
    {
        for group in (0..count).step_by(R::LANES) {
            // SAFETY: the caller's promise; the outputs end with a whole register's worth.
            unsafe {
                let square = transposed::<R>(self.memory.outputs.as_ptr().add(group * R::LANES), R::LANES);
                for (target, row) in self.targets.iter().zip(square) {
                    store::<D, R>(row, target.add(sample + group), count - group);
                }
            }
        }
    }
}

/// Stores a register, or the first `count` of it.
///
/// # Safety
/// The samples can be written.
#[inline(always)]
unsafe fn store<D, R>(values: R, target: *mut D, count: usize)
where
    D: Sample<Number = R::Number>,
    R: Holds<D>,
{
    // SAFETY: the caller's promise; the array holds as many as a register.
    unsafe {
        if count >= R::LANES {
            values.put(target);
        } else {
            let mut samples = [D::default(); MOST_LANES];
            values.put(samples.as_mut_ptr());
            std::ptr::copy_nonoverlapping(samples.as_ptr().cast::<u8>(), target.cast(), count * size_of::<D>());
        }
    }
}
