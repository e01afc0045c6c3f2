//! The kernel's gradient: each tap is the product sum of dY with the input it met. Registers add up a
//! bounded number of products, then go into float64 sums; tasks and the order of their sums follow
//! from the shapes alone.

use std::ops::Range;

use super::FirElement;
use super::layout::{Layout, Side, copy_strided};
use super::products::{Pairs, Part, Products, rows_at_once};
use super::rows::{Ahead, Rows, Stores, ask_for_lines};
use super::scratch::Scratch;
use super::strip::Strip;
use super::sums::Filter;
use crate::core::dtype::{Compute, Element};
use crate::core::error::Result;
use crate::core::tensor::{Parts, TensorView, TensorViewMut};
use crate::devices::cpu::features::Level;
use crate::devices::cpu::{memory, parallel};
use crate::operators::upfirdn2d::params::{Geometry, Support, UpFirDn2dArgs};

/// The most elements of a row that are multiplied at a time.
const STRIP_ELEMENTS: usize = 1024;
/// Elements of the inputs or the outputs of a tile: both stay in the second-level cache.
const BAND_ELEMENTS: i64 = 1 << 15;
/// The memory that a task should read.
const TASK_BYTES: f64 = (1 << 20) as f64;
/// The memory for the sums of all tasks.
const SUMS_BYTES: usize = 4 << 20;
/// More tasks than this balance no better.
const MOST_TASKS: usize = 256;

/// The product sums of all taps, in the order in which they meet the input.
pub fn sums<T: FirElement>(geometry: Geometry, x: &TensorView<'_>, dy: &TensorView<'_>) -> Result<Vec<f64>> {
    let taps = (geometry.x.taps * geometry.y.taps) as usize;
    if dy.shape().elements() == 0 || x.shape().elements() == 0 {
        return memory::numbers(0.0, taps);
    }
    let layout = Layout::new(x, dy);
    let Some(grid) = Grid::new(&geometry, &layout) else { return memory::numbers(0.0, taps) };
    let bytes = |parts: &Parts| parts.shape().elements() as f64 * size_of::<T>() as f64;
    let products = dy.shape().elements() as f64 * (geometry.x.most_taps() * geometry.y.most_taps()) as f64;
    let work = (bytes(x) + bytes(dy)).max(products);
    let most = MOST_TASKS.min(SUMS_BYTES / (8 * taps)).min(grid.tiles).max(1);
    let tasks = ((work / TASK_BYTES) as usize).clamp(1, most);
    let mut partial = memory::numbers(0.0, tasks * taps)?;
    let all_sums = Sums(partial.as_mut_ptr());
    let level = Level::current();
    parallel::try_for_each(tasks, work as usize, |task| {
        let tiles = task * grid.tiles / tasks..(task + 1) * grid.tiles / tasks;
        let all_sums = &all_sums;
        Scratch::with(|scratch| {
            let sums = all_sums.0.wrapping_add(task * taps);
            let job = Job { geometry: &geometry, layout: &layout, grid: &grid, sums };
            // SAFETY: the views promise every element of the layout; each task has its own `taps` sums.
            // A level is current only where it was detected.
            unsafe {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => super::avx512::product_sums::<T>(&job, tiles, scratch),
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => super::avx2::product_sums::<T>(&job, tiles, scratch),
                    _ => super::native::product_sums::<T>(&job, tiles, scratch),
                }
            }
        })
    })?;
    let mut total = memory::numbers(0.0, taps)?;
    for sums in partial.chunks_exact(taps) {
        total.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
    }
    Ok(total)
}

/// Writes the sums as the kernel's gradient, in the kernel's own direction.
pub fn write<K: Element>(sums: &[f64], args: &UpFirDn2dArgs, dk: &TensorViewMut<'_>) {
    let (rows, columns) = (dk.shape()[0], dk.shape()[1]);
    for row in 0..rows {
        for column in 0..columns {
            let at = row * columns + column;
            let sum = if args.flip_kernel { sums[at] } else { sums[sums.len() - 1 - at] };
            let value = K::from_compute(K::Compute::from_f64(sum * args.gain));
            let offset = row as isize * dk.strides[0] + column as isize * dk.strides[1];
            // SAFETY: the index is inside the shape, every element of which the view promises.
            unsafe { dk.pointer.offset(offset).cast::<K>().write_unaligned(value) };
        }
    }
}

/// The sums of all tasks, of which each writes to its own part.
struct Sums(*mut f64);

// SAFETY: tasks write to disjoint parts of the memory, which outlives them all.
unsafe impl Sync for Sums {}

/// How planes are cut into strips of output columns and bands of input rows.
struct Grid {
    strip: usize,
    /// The input rows that any output is summed from.
    inputs: Range<i64>,
    band: i64,
    bands: usize,
    /// How many small planes a tile has.
    planes: usize,
    tiles: usize,
}

impl Grid {
    /// None where no output is summed from any input.
    fn new(geometry: &Geometry, layout: &Layout) -> Option<Self> {
        let Geometry { x, y } = geometry;
        let (period, step) = x.period();
        let limit = (STRIP_ELEMENTS / layout.pixel).max(1) as i64;
        let by_input = 1 + limit.saturating_mul(2 * period) / step;
        let strip = limit.min(by_input).min(x.output).max(1);
        let inputs = y.inputs_of(0..y.output);
        if inputs.is_empty() {
            return None;
        }
        let rows = inputs.end - inputs.start;
        // What is read for an input row: its own elements, and those of the outputs that it is the first to meet.
        let elements = (strip * step / period).max(strip.saturating_mul(y.up) / y.down).max(1);
        let elements = elements.saturating_mul(layout.pixel as i64);
        let band = (BAND_ELEMENTS / elements).clamp(1, rows);
        let bands = (rows as usize).div_ceil(band as usize);
        let several = bands == 1 && layout.plane_strides().is_some();
        let planes = if several { ((BAND_ELEMENTS / (elements * band)) as usize).clamp(1, layout.planes) } else { 1 };
        let strips = (x.output as usize).div_ceil(strip as usize);
        let tiles = strips * bands * layout.planes.div_ceil(planes);
        Some(Grid { strip: strip as usize, inputs, band, bands, planes, tiles })
    }
}

/// What a task is given.
pub struct Job<'a> {
    geometry: &'a Geometry,
    layout: &'a Layout,
    grid: &'a Grid,
    /// The task's own sums, one for each tap.
    sums: *mut f64,
}

/// Adds the product sums of some tiles to the job's sums.
///
/// # Safety
/// The register's level was detected, every element of the layout is readable, and `job.sums` holds one
/// writable number for each tap.
#[inline(always)]
pub unsafe fn product_sums<T, R>(job: &Job<'_>, tiles: Range<usize>, scratch: &mut Scratch) -> Result<()>
where
    T: Element,
    R: Filter<T, Number = T::Compute> + Products,
{
    let Job { geometry, layout, grid, .. } = job;
    let (x, y, pixel) = (&geometry.x, &geometry.y, layout.pixel);
    let most_inputs = grid.band as usize * grid.planes;
    let met = ((grid.band - 1) * y.up + y.taps - 1) / y.down + 1;
    let most_outputs = met.min(y.output) as usize * grid.planes;
    let per_strip = grid.bands * layout.planes.div_ceil(grid.planes);
    let mut tile = tiles.start;
    while tile < tiles.end {
        let first = tile / per_strip * grid.strip;
        let columns = first..(first + grid.strip).min(x.output as usize);
        let strip = Strip::new(x, columns.clone(), pixel);
        let parts = strip.parts();
        let repeats = strip.repeats();
        // Outputs of the compute type that lie one after the other are multiplied where they are.
        let in_place = strip.is_one_part() && layout.second.dense && size_of::<T>() == size_of::<T::Compute>();
        let outputs = if in_place { 0 } else { most_outputs * strip.output_length() };
        let repeated = if repeats { most_inputs * strip.repeated_length() } else { 0 };
        let gathered = strip.inside_length().max(columns.len() * pixel);
        let lengths = [most_inputs * strip.prepared_length(), repeated, outputs, gathered];
        let [inputs, repeated, outputs, gathered] = scratch.numbers::<T::Compute, 4>(lengths)?;
        // SAFETY: the scratch memory just given holds these; what no input fills stays zero.
        unsafe { inputs.write_bytes(0, lengths[0]) };
        let end = tiles.end.min((tile / per_strip + 1) * per_strip);
        while tile < end {
            let (plane, band) = (tile % per_strip / grid.bands * grid.planes, tile % grid.bands);
            tile += 1;
            let start = grid.inputs.start + band as i64 * grid.band;
            let band = start..(start + grid.band).min(grid.inputs.end);
            let planes = plane..(plane + grid.planes).min(layout.planes);
            let tile =
                Tile { job, strip: &strip, parts: &parts, planes, inputs, repeated, outputs, gathered, in_place };
            // SAFETY: the caller's promise; rows and columns are inside the tensors, and scratch rows are as
            // long as the strip says.
            unsafe { tile.add_products::<T, R>(band) };
        }
    }
    Ok(())
}

/// A strip of a band of input rows, and of all output rows that they meet, of one plane or of several whole ones.
struct Tile<'a, C> {
    job: &'a Job<'a>,
    strip: &'a Strip,
    parts: &'a [Part],
    planes: Range<usize>,
    /// Room for prepared input rows.
    inputs: *mut C,
    /// Room for repeated input rows.
    repeated: *mut C,
    /// Room for split output rows.
    outputs: *mut C,
    /// Room for a row brought together.
    gathered: *mut C,
    /// Whether output rows are multiplied where they are.
    in_place: bool,
}

/// Rows of each plane of a tile: where the first is, and the bytes from row to row and from plane to plane.
#[derive(Clone, Copy)]
struct RowSet<C> {
    first: *const C,
    row: isize,
    plane: isize,
}

impl<C: Compute> Tile<'_, C> {
    /// Adds the products of the input rows with all outputs that they meet. All are prepared first: long reads of
    /// memory are faster than short ones between products. Then a few input rows at a time meet their output rows, so
    /// that both stay in the first-level cache.
    #[inline(always)]
    unsafe fn add_products<T, R>(&self, rows: Range<i64>)
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C> + Products,
    {
        let (y, taps_x) = (&self.job.geometry.y, self.job.geometry.x.taps);
        let adjoint = y.transposed();
        let (whole, (outputs_on, inputs_on)) = (adjoint.interior(), y.period());
        let at_once = rows_at_once::<R>(self.parts);
        let met = adjoint.inputs_of(rows.clone());
        if met.is_empty() {
            return;
        }
        // SAFETY: the caller's promise; these rows are inside the tensors.
        let (outputs, inputs) = unsafe { (self.outputs::<T, R>(met.clone()), self.inputs::<T, R>(rows.clone())) };
        let first = met.start;
        let mut row = rows.start;
        while row < rows.end {
            // Several periods of rows that meet no output outside the plane, or a single row.
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
                    unsafe { R::add_products(self.parts, &pairs) };
                    pairs.input = pairs.input.wrapping_byte_offset(pairs.planes as isize * inputs.plane);
                    pairs.outputs = pairs.outputs.wrapping_byte_offset(pairs.planes as isize * outputs.plane);
                }
            }
            row = next;
        }
    }

    /// Prepares input rows in the scratch memory.
    #[inline(always)]
    unsafe fn inputs<T, R>(&self, rows: Range<i64>) -> RowSet<C>
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
        let (side, strip, count) = (&self.job.layout.first, self.strip, (rows.end - rows.start) as usize);
        let prepared = RowSet::in_scratch(self.inputs, strip.prepared_length(), count);
        let stores = ahead(side).map_or(Stores::Cached, Stores::CachedAhead);
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
                strip.split::<T, R>(source, target, moved, stores);
            }
        }
        if !strip.repeats() {
            return prepared;
        }
        let repeated = RowSet::in_scratch(self.repeated, strip.repeated_length(), count);
        let all = Rows { count: count * self.planes.len(), source: prepared.row, target: repeated.row };
        // SAFETY: all prepared rows and as many repeated ones have their place in the scratch memory.
        unsafe { strip.repeat::<R>(prepared.first, self.repeated, all) };
        repeated
    }

    /// Output rows where they are, or split in the scratch memory.
    #[inline(always)]
    unsafe fn outputs<T, R>(&self, rows: Range<i64>) -> RowSet<C>
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
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
                        ask_for_lines::<R>(
                            source.wrapping_byte_offset(row * side.row).cast(),
                            first.1 * size_of::<T>(),
                        );
                    }
                } else {
                    strip.split_outputs::<T, R>(source, target, moved, ahead(side));
                }
            }
        }
        if !self.in_place {
            return split;
        }
        let from = layout.offsets(self.planes.start).1 + rows.start as isize * side.row;
        let first = side.pointer.wrapping_offset(from).cast::<C>().wrapping_add(strip.columns.start * strip.pixel);
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

/// What to ask for while a dense row is read: one that follows.
fn ahead(side: &Side) -> Option<Ahead> {
    side.dense.then(|| Ahead::rows(side.row, 0, 1))
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
