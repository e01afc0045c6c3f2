//! One tile of the kernel's gradient.

use std::ops::Range;

use super::grid::Job;
use super::parts;
use crate::axis::Support;
use crate::filter::horizontal;
use crate::loops::Loops;
use crate::loops::memory_access::{Prefetch, Rows, Stores};
use crate::loops::products::{Pairs, Part, rows_at_once};
use crate::plan::layout::{Side, copy_strided};
use crate::plan::strip::Strip;
use firelu_core::dtype::Element;

/// A strip of a band of input rows, and of all output rows that they meet, of one plane or of several whole ones.
pub struct Tile<'a, T: Element> {
    pub job: &'a Job<'a>,
    pub loops: &'static Loops<T>,
    pub strip: &'a Strip,
    pub parts: &'a [Part],
    pub planes: Range<usize>,
    /// Room for prepared input rows.
    pub inputs: *mut T::Compute,
    /// Room for repeated input rows.
    pub repeated: *mut T::Compute,
    /// Room for split output rows.
    pub outputs: *mut T::Compute,
    /// Room for a row brought together.
    pub gathered: *mut T::Compute,
    /// Whether output rows are multiplied where they are.
    pub in_place: bool,
}

/// Rows of each plane of a tile: where the first is, and the bytes from row to row and from plane to plane.
#[derive(Clone, Copy)]
struct RowSet<C> {
    first: *const C,
    row: isize,
    plane: isize,
}

impl<T: Element> Tile<'_, T> {
    /// Adds the products of the input rows with all outputs that they meet. All are prepared first: long reads of
    /// memory are faster than short ones between products. Then a few input rows at a time meet their output rows, so
    /// that both stay in the first-level cache.
    ///
    /// # Safety
    /// The level of the loops was detected; rows and columns are inside the tensors, and scratch rows are as long as the
    /// strip says.
    pub unsafe fn add_products(&self, rows: Range<i64>) {
        let (y, taps_x) = (&self.job.geometry.y, self.job.geometry.x.taps);
        let adjoint = y.transposed();
        let (whole, (outputs_on, inputs_on)) = (adjoint.interior(), y.period());
        let at_once = rows_at_once(self.parts, self.loops.lanes);
        let met = adjoint.inputs_of(rows.clone());
        if met.is_empty() {
            return;
        }
        // SAFETY: the caller's promise; these rows are inside the tensors.
        let (outputs, inputs) = unsafe { (self.outputs(met.clone()), self.inputs(rows.clone())) };
        let first = met.start;
        let mut row = rows.start;
        while row < rows.end {
            // SharedRows periods of rows that meet no output outside the plane, or a single row.
            let ready = if whole.contains(&row) { (whole.end.min(rows.end) - row) / inputs_on } else { 0 };
            let periods = (ready as usize).min(at_once);
            let next = row + (periods as i64 * inputs_on).max(1);
            for row in row..next.min(row + inputs_on) {
                let Support { start, tap, count } = adjoint.support(row);
                let met = start.max(0)..(start + count).min(adjoint.input);
                // The adjoint's taps are the kernel's, from its end.
                let tap = y.taps - 1 - (tap + (met.start - start) * y.down);
                let mut pairs = Pairs {
                    input: inputs.first.wrapping_byte_offset((row - rows.start) as isize * inputs.row),
                    outputs: outputs.first.wrapping_byte_offset((met.start - first) as isize * outputs.row),
                    sums: self.job.sums.wrapping_offset((tap * taps_x) as isize),
                    met: (met.end - met.start).max(0) as usize,
                    output_pitch: outputs.row,
                    sums_step: -(y.down * taps_x) as isize,
                    rows: periods.max(1),
                    steps: (inputs_on as isize * inputs.row, outputs_on as isize * outputs.row),
                    planes: 0,
                    plane_steps: (inputs.plane, outputs.plane),
                };
                let mut left = self.planes.len();
                while left > 0 {
                    pairs.planes = (at_once / pairs.rows).clamp(1, left);
                    left -= pairs.planes;
                    // SAFETY: the rows were prepared above.
                    unsafe { (self.loops.products)(self.parts, &pairs) };
                    pairs.input = pairs.input.wrapping_byte_offset(pairs.planes as isize * inputs.plane);
                    pairs.outputs = pairs.outputs.wrapping_byte_offset(pairs.planes as isize * outputs.plane);
                }
            }
            row = next;
        }
    }

    /// Prepares input rows in the scratch memory.
    unsafe fn inputs(&self, rows: Range<i64>) -> RowSet<T::Compute> {
        let (side, strip, count) = (&self.job.layout.first, self.strip, (rows.end - rows.start) as usize);
        let prepared = RowSet::in_scratch(self.inputs, strip.prepared_length(), count);
        let stores = prefetch(side).map_or(Stores::Cached, Stores::CachedPrefetchingSources);
        let runs = self.runs(side, self.job.layout.plane_strides().map(|strides| strides.0), count);
        let moved = Rows { count: runs.rows, source: side.row, target: prepared.row };
        for run in 0..runs.count {
            let (plane, row) = (self.planes.start + run * runs.rows / count, (run * runs.rows % count) as i64);
            let from = (rows.start + row, strip.inside.start, strip.inside_length());
            let target = self.inputs.wrapping_byte_offset((run * runs.rows) as isize * prepared.row);
            // SAFETY: the promise of `add_products`.
            unsafe {
                let plane = self.job.layout.offsets(plane).0;
                let source = row_of::<T>(side, plane, from, strip.pixel, self.gathered.cast());
                horizontal::split(strip, &self.loops.input, source, target, moved, stores);
            }
        }
        if !parts::repeats(strip) {
            return prepared;
        }
        let repeated = RowSet::in_scratch(self.repeated, parts::repeated_length(strip), count);
        let all = Rows { count: count * self.planes.len(), source: prepared.row, target: repeated.row };
        // SAFETY: all prepared rows and as many repeated ones have their place in the scratch memory.
        unsafe { parts::repeat(strip, &self.loops.between_out, prepared.first, self.repeated, all) };
        repeated
    }

    /// Output rows where they are, or split in the scratch memory.
    unsafe fn outputs(&self, rows: Range<i64>) -> RowSet<T::Compute> {
        let (layout, strip, count) = (self.job.layout, self.strip, (rows.end - rows.start) as usize);
        let side = &layout.second;
        let plane_stride = layout.plane_strides().map(|strides| strides.1);
        let runs = self.runs(side, plane_stride, count);
        let split = RowSet::in_scratch(self.outputs, strip.output_length(), count);
        let moved = Rows { count: runs.rows, source: side.row, target: split.row };
        let first = (strip.columns.start as i64, strip.columns.len() * strip.pixel);
        for run in 0..runs.count {
            let (plane, row) = (self.planes.start + run * runs.rows / count, (run * runs.rows % count) as i64);
            let target = self.outputs.wrapping_byte_offset((run * runs.rows) as isize * split.row);
            let plane = layout.offsets(plane).1;
            // SAFETY: the promise of `add_products`.
            unsafe {
                let from = (rows.start + row, first.0, first.1);
                let source = row_of::<T>(side, plane, from, strip.pixel, self.gathered.cast());
                if self.in_place {
                    for row in 0..runs.rows as isize {
                        let row = source.wrapping_byte_offset(row * side.row);
                        (self.loops.prefetch_lines)(row.cast(), first.1 * size_of::<T>());
                    }
                } else {
                    parts::split_outputs(strip, self.loops, source, target, moved, prefetch(side));
                }
            }
        }
        if !self.in_place {
            return split;
        }
        let from = layout.offsets(self.planes.start).1 + rows.start as isize * side.row;
        let first =
            side.pointer.wrapping_offset(from).cast::<T::Compute>().wrapping_add(strip.columns.start * strip.pixel);
        RowSet { first, row: side.row, plane: plane_stride.unwrap_or(0) }
    }

    /// How `count` rows of each plane are read: in as long runs as their places allow.
    fn runs(&self, side: &Side, plane_stride: Option<isize>, count: usize) -> Runs {
        let planes = self.planes.len();
        let follow = planes == 1 || plane_stride == Some(count as isize * side.row);
        match side.dense {
            true if follow => Runs { count: 1, rows: planes * count },
            true => Runs { count: planes, rows: count },
            // Rows that have to be brought together come one by one.
            false => Runs { count: planes * count, rows: 1 },
        }
    }
}

/// Rows of the planes of a tile that are read in one go.
struct Runs {
    count: usize,
    rows: usize,
}

impl<C> RowSet<C> {
    /// Rows of so many elements, one after the other, of which each plane has `count`.
    fn in_scratch(first: *const C, length: usize, count: usize) -> Self {
        let row = (length * size_of::<C>()) as isize;
        RowSet { first, row, plane: count as isize * row }
    }
}

/// What to prefetch while a dense row is read: one that follows.
fn prefetch(side: &Side) -> Option<Prefetch> {
    side.dense.then(|| Prefetch::rows(side.row, 0, 1))
}

/// The elements of a row from a column on: in place, or brought together.
///
/// # Safety
/// These elements are readable, and `gathered` has room for them.
#[inline(always)]
unsafe fn row_of<T: Element>(
    side: &Side,
    plane: isize,
    (row, column, length): (i64, i64, usize),
    pixel: usize,
    gathered: *mut T,
) -> *const T {
    let start = side.pointer.wrapping_offset(plane + row as isize * side.row);
    if side.dense {
        return start.cast::<T>().wrapping_add(column as usize * pixel);
    }
    let from = start.wrapping_offset(column as isize * side.column);
    // SAFETY: the caller's promise.
    unsafe { copy_strided::<T>((from, side.column), (gathered.cast(), size_of::<T>() as isize), length) };
    gathered
}
