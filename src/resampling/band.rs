//! One band of output rows: inputs are summed along columns, turned, summed along rows, turned back and stored.

use std::ops::Range;

use firelu_core::dtype::Compute;
use firelu_core::error::Result;
use firelu_cpu::memory;
use firelu_filters::border::Border;
use firelu_filters::loops::register::{Access, Register};

use crate::Request;
use crate::axis::{Axis, sources};
use crate::halves::{Halving, applies};
use crate::loops::{Line, TOGETHER, sum_columns, sum_rows, transposed};
use crate::samples::{Holds, MOST_LANES, Sample};

/// How many columns are in work between the filters, at least, and how many outputs wait to be turned back: both stay in
/// the first-level cache.
const WINDOW: usize = 256;

/// How many bytes of a row are asked for before they are summed: rows are too many for the processor to do so by itself.
const AHEAD: usize = 512;

/// What all bands of a call share.
pub struct Job<'a, S: Sample, D> {
    request: &'a Request,
    vertical: Axis<S::Number>,
    horizontal: Option<Axis<S::Number>>,
    columns: Columns,
    /// The first of the columns, where `halves` has a loop for the call.
    halved: Option<usize>,
    source: *const S,
    target: *mut D,
}

// SAFETY: tasks read the source alone, and write to rows of the target that no other task has.
unsafe impl<S: Sample, D> Sync for Job<'_, S, D> {}

/// The columns that outputs need: those beyond the left end, those that there are, those beyond the right end.
struct Columns {
    left: Vec<Option<usize>>,
    middle: Range<usize>,
    right: Vec<Option<usize>>,
    /// The first, counted from the first that there is.
    first: isize,
}

impl Columns {
    fn new(places: Range<isize>, length: usize, border: Border) -> Self {
        let (start, end, length) = (places.start, places.end, length as isize);
        let middle = start.clamp(0, length)..end.clamp(0, length);
        let middle = middle.start as usize..middle.end.max(middle.start) as usize;
        let left = sources(border, start..end.min(0), length as usize);
        let right = sources(border, start.max(length)..end, length as usize);
        Columns { left, middle, right, first: start }
    }
}

/// Rows of one part of the columns, in samples.
struct Part<S> {
    rows: Vec<*const S>,
    start: usize,
    end: usize,
}

/// Memory of a task.
struct Memory<C> {
    /// Input rows of a few columns, widened.
    widened: Vec<C>,
    /// Output rows of the same columns.
    tile: Vec<C>,
    /// The same on their side: one register a column.
    window: Vec<C>,
    /// Outputs, one register a column.
    outputs: Vec<C>,
    /// Where the widened rows begin.
    rows: Vec<*const C>,
}

fn zeroed<T: Copy + Default>(vector: &mut Vec<T>, count: usize) -> Result<()> {
    if vector.len() < count {
        memory::reserve(vector, count - vector.len())?;
        vector.resize(count, T::default());
    }
    Ok(())
}

impl<'a, S: Sample, D: Sample<Number = S::Number>> Job<'a, S, D> {
    /// Says where the columns of a call come from.
    pub fn new(
        request: &'a Request,
        vertical: Axis<S::Number>,
        horizontal: Option<Axis<S::Number>>,
        source: *const S,
        target: *mut D,
    ) -> Self {
        let columns = match &horizontal {
            Some(axis) => Columns::new(axis.inputs(0..request.columns[1]), request.columns[0], request.border),
            None => Columns::new(0..request.columns[0] as isize, request.columns[0], request.border),
        };
        let halved = horizontal.as_ref().filter(|axis| axis.is_pairs() && vertical.is_pairs()).and_then(|axis| {
            let half = S::Number::from_f64(0.5);
            let is_mean = axis.taps(0).iter().chain(vertical.taps(0)).all(|&tap| tap == half);
            let inputs = [vertical.inputs(0..request.rows[1]), axis.inputs(0..request.columns[1])];
            let first = inputs[1].start.max(0) as usize;
            let served = Halving::<S, D>::is_served(request.channels, is_mean);
            (served && applies(inputs, [request.rows[0], request.columns[0]])).then_some(first)
        });
        Job { request, vertical, horizontal, columns, halved, source, target }
    }

    /// Where a plane begins.
    fn offset(&self, plane: usize, strides: &[isize]) -> isize {
        let mut rest = plane;
        self.request.outer.iter().zip(strides).rev().fold(0, |offset, (length, stride)| {
            let index = rest % length;
            rest /= length;
            offset + index as isize * stride
        })
    }

    /// Writes some rows of a plane.
    ///
    /// # Safety
    /// The registers' level was detected; what the request names can be read and written.
    #[inline(always)]
    pub unsafe fn run<R>(&self, plane: usize, rows: Range<usize>) -> Result<()>
    where
        R: Register<Number = S::Number> + Holds<S> + Holds<D> + Holds<S::Number> + Access<S::Number>,
        S::Number: Sample<Number = S::Number>,
    {
        if let Some(first) = self.halved {
            for row in rows {
                // SAFETY: the caller's promise; both inputs of every output are there.
                unsafe { self.halve::<R>(plane, row, first) };
            }
            return Ok(());
        }
        let mut memory =
            Memory { widened: Vec::new(), tile: Vec::new(), window: Vec::new(), outputs: Vec::new(), rows: Vec::new() };
        let block = TOGETHER * R::LANES;
        zeroed(&mut memory.tile, R::LANES * block)?;
        let reach = self.horizontal.as_ref().map_or(0, |axis| (axis.most_taps() + 2) * self.request.channels);
        let window = (4 * reach).max(WINDOW);
        zeroed(&mut memory.window, (window + block) * R::LANES)?;
        let outputs = WINDOW.max(self.request.channels).next_multiple_of(R::LANES);
        zeroed(&mut memory.outputs, outputs * R::LANES)?;
        let mut start = rows.start;
        while start < rows.end {
            let end = (start + R::LANES).min(rows.end);
            // SAFETY: the caller's promise.
            unsafe { self.band::<R>(plane, start..end, &mut memory, window)? };
            start = end;
        }
        Ok(())
    }

    /// Writes a row of means, or of other sums of two by two pixels.
    ///
    /// # Safety
    /// As `run`; the call is one of `halves`.
    #[inline(always)]
    unsafe fn halve<R>(&self, plane: usize, row: usize, first: usize)
    where
        R: Register<Number = S::Number> + Holds<S> + Holds<D> + Access<S::Number>,
    {
        let Some(axis) = &self.horizontal else { return };
        let request = self.request;
        let (source_row, outer) = request.source_strides.split_last().expect("a stride of the rows");
        let start = self.offset(plane, outer) + self.vertical.input(row) * source_row;
        let above = self.source.wrapping_offset(start).wrapping_add(first * request.channels);
        let (target_row, outer) = request.target_strides.split_last().expect("a stride of the rows");
        let target = self.target.wrapping_offset(self.offset(plane, outer) + row as isize * target_row);
        let halving = Halving {
            rows: [above, above.wrapping_offset(*source_row)],
            target,
            columns: request.columns[1],
            channels: request.channels,
            vertical: self.vertical.taps(row),
            horizontal: axis.taps(0),
        };
        // SAFETY: the caller's promise.
        unsafe { halving.run::<R>() }
    }

    /// Writes at most as many rows as a register holds numbers.
    ///
    /// # Safety
    /// As `run`.
    #[inline(always)]
    unsafe fn band<R>(
        &self,
        plane: usize,
        rows: Range<usize>,
        memory: &mut Memory<S::Number>,
        window: usize,
    ) -> Result<()>
    where
        R: Register<Number = S::Number> + Holds<S> + Holds<D> + Holds<S::Number> + Access<S::Number>,
        S::Number: Sample<Number = S::Number>,
    {
        let request = self.request;
        let (&source_row, outer) = request.source_strides.split_last().expect("a stride of the rows");
        let plane_start = self.source.wrapping_offset(self.offset(plane, outer));
        let needed = self.vertical.inputs(rows.clone());
        let places = sources(request.border, needed.clone(), request.rows[0]);
        // Rows of zeros are at the ends alone: taps that would meet them are left out.
        let inside = places.iter().position(Option::is_some).unwrap_or(places.len());
        let there: Vec<usize> = places.iter().copied().flatten().collect();
        let lines: Vec<Line<'_, S::Number>> = rows
            .clone()
            .map(|row| {
                let (first, taps) = ((self.vertical.input(row) - needed.start) as usize, self.vertical.taps(row));
                let range = first.max(inside)..(first + taps.len()).min(inside + there.len());
                let range = range.start..range.end.max(range.start);
                let taps = &taps[(range.start - first).min(taps.len())..(range.end - first).min(taps.len())];
                Line { offset: (range.start - inside).min(there.len() - taps.len()), taps }
            })
            .collect();
        let row = |place: usize| plane_start.wrapping_offset(place as isize * source_row);
        let (mut beyond, mut parts) = (Vec::new(), Vec::with_capacity(3));
        // SAFETY: rows that are there can be read.
        unsafe { self.gather(&there, row, &mut beyond, &mut parts)? };
        let total: usize = lines.iter().map(|line| line.taps.len()).sum();
        // Widening a row costs a little more than it saves a sum.
        let direct = !S::WIDENED || 2 * total <= 3 * there.len();
        let block = TOGETHER * R::LANES;
        zeroed(&mut memory.widened, there.len() * block)?;
        let (&target_row, outer) = request.target_strides.split_last().expect("a stride of the rows");
        let target = self.target.wrapping_offset(self.offset(plane, outer) + rows.start as isize * target_row);
        let targets: Vec<*mut D> =
            (0..rows.len()).map(|row| target.wrapping_offset(row as isize * target_row)).collect();
        let mut band = Band { job: self, lines: &lines, parts: &parts, direct, targets: &targets, memory };
        // SAFETY: the caller's promise; the rows, widened and not, are those that the lines name.
        unsafe {
            match &self.horizontal {
                None => band.columns_alone::<R>(),
                Some(axis) => band.columns_and_rows::<R>(axis, window),
            }
        }
        Ok(())
    }

    /// Lists the parts of the columns; those beyond the ends are copied.
    ///
    /// # Safety
    /// The rows can be read.
    unsafe fn gather(
        &self,
        there: &[usize],
        row: impl Fn(usize) -> *const S,
        beyond: &mut Vec<S>,
        parts: &mut Vec<Part<S>>,
    ) -> Result<()> {
        let (channels, columns) = (self.request.channels, &self.columns);
        let outside = columns.left.len() + columns.right.len();
        zeroed(beyond, there.len() * outside * channels)?;
        let base = beyond.as_mut_ptr();
        for (number, &place) in there.iter().enumerate() {
            for (column, from) in columns.left.iter().chain(&columns.right).enumerate() {
                let Some(from) = from else { continue };
                // SAFETY: a column that is there, of a row that can be read, into memory that holds all of them.
                unsafe {
                    let target = base.add((number * outside + column) * channels);
                    std::ptr::copy_nonoverlapping(
                        row(place).add(from * channels).cast::<u8>(),
                        target.cast(),
                        channels * size_of::<S>(),
                    );
                }
            }
        }
        let copied = |first: usize| -> Vec<*const S> {
            (0..there.len())
                .map(|number| base.wrapping_add((number * outside + first) * channels).cast_const())
                .collect()
        };
        let middle: Vec<*const S> =
            there.iter().map(|&place| row(place).wrapping_add(columns.middle.start * channels)).collect();
        let mut start = 0;
        for (rows, width) in [
            (copied(0), columns.left.len()),
            (middle, columns.middle.len()),
            (copied(columns.left.len()), columns.right.len()),
        ] {
            let end = start + width * channels;
            parts.push(Part { rows, start, end });
            start = end;
        }
        Ok(())
    }
}

/// A band on its way.
struct Band<'a, 'b, S: Sample, D> {
    job: &'a Job<'b, S, D>,
    lines: &'a [Line<'a, S::Number>],
    parts: &'a [Part<S>],
    /// Whether sums read samples, not widened rows.
    direct: bool,
    targets: &'a [*mut D],
    memory: &'a mut Memory<S::Number>,
}

impl<S: Sample, D: Sample<Number = S::Number>> Band<'_, '_, S, D> {
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
    unsafe fn columns_alone<R>(&mut self)
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
    unsafe fn columns_and_rows<R>(&mut self, axis: &Axis<S::Number>, window: usize)
    where
        R: Register<Number = S::Number> + Holds<S> + Holds<D> + Holds<S::Number> + Access<S::Number>,
        S::Number: Sample<Number = S::Number>,
    {
        let (channels, outputs) = (self.job.request.channels, self.job.request.columns[1]);
        let (first, parts) = (self.job.columns.first, self.parts);
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
        let (channels, lanes, first) = (self.job.request.channels, R::LANES, self.job.columns.first);
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
