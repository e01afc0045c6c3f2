//! A call: what all of its bands share, and the rows and columns that a band is made of.

use std::any::TypeId;
use std::ops::Range;

use firelu_core::dtype::Compute;
use firelu_core::error::Result;
use firelu_cpu::memory;
use firelu_filters::loops::register::{Access, Register};

use crate::Request;
use crate::axis::{Axis, sources};
use crate::band::{Band, Memory, Part, WINDOW};
use crate::columns::Columns;
use crate::halves::{Halving, applies};
use crate::loops::{Line, TOGETHER};
use crate::repeats::Repeating;
use crate::samples::{Holds, Sample};

/// What all bands of a call share.
pub struct Job<'a, S: Sample, D> {
    request: &'a Request,
    vertical: Axis<S::Number>,
    horizontal: Option<Axis<S::Number>>,
    columns: Columns,
    /// Which loops serve the call.
    way: Way,
    source: *const S,
    target: *mut D,
}

/// Which loops serve a call.
#[derive(Clone, Copy)]
enum Way {
    /// Bands.
    General,
    /// `halves`, from a column on.
    Halved(usize),
    /// `repeats`.
    Repeated,
}

// SAFETY: tasks read the source alone, and write to rows of the target that no other task has.
unsafe impl<S: Sample, D> Sync for Job<'_, S, D> {}

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
        let way = horizontal.as_ref().map_or(Way::General, |axis| Self::way(request, &vertical, axis));
        Job { request, vertical, horizontal, columns, way, source, target }
    }

    /// Which loops serve a call with these filters.
    fn way(request: &Request, vertical: &Axis<S::Number>, horizontal: &Axis<S::Number>) -> Way {
        let inputs = [vertical.inputs(0..request.rows[1]), horizontal.inputs(0..request.columns[1])];
        let first = inputs[1].start.max(0) as usize;
        if !applies(inputs, [request.rows[0], request.columns[0]]) {
            return Way::General;
        }
        let half = S::Number::from_f64(0.5);
        let is_mean = horizontal.taps(0).iter().chain(vertical.taps(0)).all(|&tap| tap == half);
        let pixel = request.channels * size_of::<S>();
        if horizontal.is_pairs() && vertical.is_pairs() && Halving::<S, D>::is_served(request.channels, is_mean) {
            Way::Halved(first)
        } else if horizontal.is_repeated()
            && vertical.is_repeated()
            && TypeId::of::<S>() == TypeId::of::<D>()
            && Repeating::is_served(pixel)
        {
            Way::Repeated
        } else {
            Way::General
        }
    }

    /// Where a plane of an array begins, and how far apart its rows are.
    fn plane<T>(&self, array: *mut T, plane: usize, strides: &[isize]) -> (*mut T, isize) {
        let (row, outer) = strides.split_last().expect("a stride of the rows");
        let mut rest = plane;
        let offset = self.request.outer.iter().zip(outer).rev().fold(0, |offset, (length, stride)| {
            let index = rest % length;
            rest /= length;
            offset + index as isize * stride
        });
        (array.wrapping_offset(offset), *row)
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
        // SAFETY: the caller's promise; all inputs of every output are there.
        unsafe {
            match self.way {
                Way::Halved(first) => {
                    rows.for_each(|row| self.halve::<R>(plane, row, first));
                    return Ok(());
                }
                Way::Repeated => {
                    self.repeat(plane, rows);
                    return Ok(());
                }
                Way::General => {}
            }
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
        let (source, source_row) = self.plane(self.source.cast_mut(), plane, &request.source_strides);
        let above = source.wrapping_offset(self.vertical.input(row) * source_row).cast_const();
        let above = above.wrapping_add(first * request.channels);
        let (target, target_row) = self.plane(self.target, plane, &request.target_strides);
        let halving = Halving {
            rows: [above, above.wrapping_offset(source_row)],
            target: target.wrapping_offset(row as isize * target_row),
            columns: request.columns[1],
            channels: request.channels,
            vertical: self.vertical.taps(row),
            horizontal: axis.taps(0),
        };
        // SAFETY: the caller's promise.
        unsafe { halving.run::<R>() }
    }

    /// Writes rows of samples that are repeated as they are.
    ///
    /// # Safety
    /// As `run`; the call is one of `repeats`.
    unsafe fn repeat(&self, plane: usize, rows: Range<usize>) {
        let Some(axis) = &self.horizontal else { return };
        let request = self.request;
        let (source, source_row) = self.plane(self.source.cast_mut(), plane, &request.source_strides);
        let (target, target_row) = self.plane(self.target, plane, &request.target_strides);
        let (bytes, columns) = (request.channels * size_of::<S>(), request.columns[1]);
        let (first, first_times) = (axis.input(0), axis.first_repeats());
        let mut written: Option<isize> = None;
        for row in rows {
            let input = self.vertical.input(row);
            let target = target.wrapping_offset(row as isize * target_row).cast::<u8>();
            if written == Some(input) {
                let above = target.cast::<D>().wrapping_offset(-target_row).cast::<u8>();
                // SAFETY: the row above was written, and is another.
                unsafe { std::ptr::copy_nonoverlapping(above, target, columns * bytes) };
                continue;
            }
            let source = source.wrapping_offset(input * source_row + first * request.channels as isize);
            let source = source.cast_const().cast::<u8>();
            // SAFETY: the caller's promise; source and target are of the same type.
            unsafe { Repeating { source, target, columns, bytes, times: axis.up, first_times }.run() };
            written = Some(input);
        }
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
        let (plane_start, source_row) = self.plane(self.source.cast_mut(), plane, &request.source_strides);
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
        let row = |place: usize| plane_start.wrapping_offset(place as isize * source_row).cast_const();
        let (mut beyond, mut parts) = (Vec::new(), Vec::with_capacity(3));
        // SAFETY: rows that are there can be read.
        unsafe { self.gather(&there, row, &mut beyond, &mut parts)? };
        let total: usize = lines.iter().map(|line| line.taps.len()).sum();
        // Widening a row costs a little more than it saves a sum.
        let direct = !S::WIDENED || 2 * total <= 3 * there.len();
        let block = TOGETHER * R::LANES;
        zeroed(&mut memory.widened, there.len() * block)?;
        let (target, target_row) = self.plane(self.target, plane, &request.target_strides);
        let target = target.wrapping_offset(rows.start as isize * target_row);
        let targets: Vec<*mut D> =
            (0..rows.len()).map(|row| target.wrapping_offset(row as isize * target_row)).collect();
        let (columns, lines) = (&self.columns, &lines[..]);
        let mut band = Band { request, columns, lines, parts: &parts, direct, targets: &targets, memory };
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
