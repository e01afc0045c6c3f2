//! The kernel's gradient: each tap is the product sum of dY with the input it met. Registers add up a
//! bounded number of products, then go into float64 sums; tasks and the order of their sums follow
//! from the shapes alone.

use std::ops::Range;

use super::FirElement;
use super::layout::{Layout, Side, copy_strided};
use super::products::{Pairs, Products, rows_at_once};
use super::rows::{Ahead, Rows, Stores};
use super::scratch::Scratch;
use super::strip::Strip;
use super::sums::Filter;
use crate::core::dtype::{Compute, Element};
use crate::core::error::Result;
use crate::core::tensor::{Parts, TensorView, TensorViewMut};
use crate::devices::cpu::features::Level;
use crate::devices::cpu::{memory, parallel};
use crate::operators::upfirdn2d::params::{Axis, Geometry, Support, UpFirDn2dArgs};

/// The most elements of a row that are multiplied at a time.
const STRIP_ELEMENTS: usize = 1024;
/// Output rows of a tile, and elements of them: its inputs and outputs stay in the second-level cache.
const BAND: usize = 64;
const BAND_ELEMENTS: usize = 1 << 15;
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
    let grid = Grid::new(&geometry, &layout);
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

/// How planes are cut into strips of columns and bands of rows.
struct Grid {
    strip: usize,
    band: usize,
    bands: usize,
    tiles: usize,
}

impl Grid {
    fn new(geometry: &Geometry, layout: &Layout) -> Self {
        let (period, step) = geometry.x.period();
        let limit = (STRIP_ELEMENTS / layout.pixel).max(1) as i64;
        let by_input = 1 + limit.saturating_mul(2 * period) / step;
        let strip = limit.min(by_input).min(geometry.x.output).max(1) as usize;
        let inputs = (strip as i64 * step / period) as usize * (geometry.y.down / geometry.y.up).max(1) as usize;
        let band = (BAND_ELEMENTS / (strip.max(inputs) * layout.pixel).max(1)).clamp(1, BAND);
        let bands = (geometry.y.output as usize).div_ceil(band);
        Grid { strip, band, bands, tiles: (geometry.x.output as usize).div_ceil(strip) * bands * layout.planes }
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
    let most_inputs = (grid.band as i64 * y.down / y.up + y.most_taps() + 1).min(y.input) as usize;
    let per_strip = grid.bands * layout.planes;
    let mut tile = tiles.start;
    while tile < tiles.end {
        let first = tile / per_strip * grid.strip;
        let columns = first..(first + grid.strip).min(x.output as usize);
        let strip = Strip::new(x, columns.clone(), pixel);
        let counts = strip.phase_counts();
        let gathered = strip.inside_length().max(columns.len() * pixel);
        let lengths = [most_inputs * strip.prepared_length(), grid.band * strip.output_length(), gathered];
        let [inputs, outputs, gathered] = scratch.numbers::<T::Compute, 3>(lengths)?;
        // SAFETY: the scratch memory just given holds these; what no input fills stays zero.
        unsafe { inputs.write_bytes(0, lengths[0]) };
        let end = tiles.end.min((tile / per_strip + 1) * per_strip);
        while tile < end {
            let (plane, band) = (tile % per_strip / grid.bands, tile % grid.bands);
            tile += 1;
            let band = band * grid.band..((band + 1) * grid.band).min(y.output as usize);
            let tile =
                Tile { job, strip: &strip, counts: &counts, plane: layout.offsets(plane), inputs, outputs, gathered };
            // SAFETY: the caller's promise; rows and columns are inside the tensors, and scratch rows are as
            // long as the strip says.
            unsafe { tile.add_products::<T, R>(band.start as i64..band.end as i64) };
        }
    }
    Ok(())
}

/// A strip of a band of output rows.
struct Tile<'a, C> {
    job: &'a Job<'a>,
    strip: &'a Strip,
    /// How many elements each phase of an output row has.
    counts: &'a [usize],
    /// Where the plane starts in both tensors.
    plane: (isize, isize),
    /// Room for prepared input rows.
    inputs: *mut C,
    /// Room for split output rows.
    outputs: *mut C,
    /// Room for a row brought together.
    gathered: *mut C,
}

impl<C: Compute> Tile<'_, C> {
    /// Adds the products of the band's rows. All are prepared first: long reads of memory are faster than
    /// short ones between products. Then a few input rows at a time meet all of their output rows, so that
    /// both stay in the first-level cache.
    #[inline(always)]
    unsafe fn add_products<T, R>(&self, band: Range<i64>)
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C> + Products,
    {
        let (y, taps_x) = (&self.job.geometry.y, self.job.geometry.x.taps);
        let rows = inputs_of(y, &band);
        // What each input row meets in the band, as if there were no other outputs.
        let adjoint = Axis { output: band.end - band.start, pad: y.pad - band.start * y.down, ..*y }.transposed();
        let (whole, (outputs, inputs)) = (adjoint.interior(), y.period());
        let at_once = rows_at_once::<R>(self.counts[0]) as i64;
        let (input_pitch, output_pitch) = (self.strip.prepared_length(), self.strip.output_length());
        // SAFETY: the caller's promise; these rows are inside the tensors.
        unsafe {
            self.prepare_inputs::<T, R>(rows.clone());
            self.split_outputs::<T, R>(band);
        }
        let mut row = rows.start;
        while row < rows.end {
            // Several periods of rows that meet no output outside the band, or a single row.
            let ready = if whole.contains(&row) { (whole.end.min(rows.end) - row) / inputs } else { 0 };
            let periods = ready.min(at_once);
            let next = row + (periods * inputs).max(1);
            // SAFETY: the rows were prepared above.
            unsafe {
                for row in row..next.min(row + inputs) {
                    let Support { start, tap, count } = adjoint.support(row);
                    let met = start.max(0)..(start + count).min(adjoint.input);
                    // The adjoint's taps are the kernel's, from its end.
                    let tap = y.taps - 1 - (tap + (met.start - start) * y.down);
                    let pairs = Pairs {
                        counts: self.counts,
                        input: self.inputs.wrapping_add((row - rows.start) as usize * input_pitch),
                        outputs: self.outputs.wrapping_add(met.start as usize * output_pitch),
                        sums: self.job.sums.wrapping_offset((tap * taps_x) as isize),
                        met: (met.end - met.start).max(0) as usize,
                        output_pitch,
                        sums_step: -(y.down * taps_x) as isize,
                        rows: periods.max(1) as usize,
                        steps: (inputs as usize * input_pitch, outputs as usize * output_pitch),
                    };
                    R::add_products(self.strip, &pairs);
                }
            }
            row = next;
        }
    }

    /// Prepares input rows into the scratch memory.
    #[inline(always)]
    unsafe fn prepare_inputs<T, R>(&self, rows: Range<i64>)
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
        let (side, strip) = (&self.job.layout.first, self.strip);
        let (pixel, pitch) = (self.job.layout.pixel, strip.prepared_length());
        let mut row = rows.start;
        while row < rows.end {
            // Rows that have to be brought together come one by one.
            let count = if side.dense { rows.end - row } else { 1 };
            let moved = Rows { count: count as usize, source: side.row, target: (pitch * size_of::<C>()) as isize };
            let from = (row, strip.inside.start, strip.inside_length());
            // SAFETY: the promise of `add_products`.
            unsafe {
                let source = row_of::<T>(side, self.plane.0, from, pixel, self.gathered.cast());
                let target = self.inputs.wrapping_add((row - rows.start) as usize * pitch);
                let stores = ahead(side).map_or(Stores::Cached, Stores::CachedAhead);
                strip.split::<T, R>(source, target, moved, stores);
            }
            row += count;
        }
    }

    /// Splits output rows into the scratch memory.
    #[inline(always)]
    unsafe fn split_outputs<T, R>(&self, rows: Range<i64>)
    where
        T: Element<Compute = C>,
        R: Filter<T, Number = C>,
    {
        let (side, strip) = (&self.job.layout.second, self.strip);
        let (pixel, pitch) = (self.job.layout.pixel, strip.output_length());
        let mut row = rows.start;
        while row < rows.end {
            let count = if side.dense { rows.end - row } else { 1 };
            let moved = Rows { count: count as usize, source: side.row, target: (pitch * size_of::<C>()) as isize };
            let from = (row, strip.columns.start as i64, strip.columns.len() * pixel);
            // SAFETY: the promise of `add_products`.
            unsafe {
                let source = row_of::<T>(side, self.plane.1, from, pixel, self.gathered.cast());
                let target = self.outputs.wrapping_add((row - rows.start) as usize * pitch);
                strip.split_outputs::<T, R>(source, target, moved, ahead(side));
            }
            row += count;
        }
    }
}

/// The input rows inside that a band of output rows needs.
fn inputs_of(y: &Axis, band: &Range<i64>) -> Range<i64> {
    let last = y.support(band.end - 1);
    let start = y.support(band.start).start.max(0);
    start..(last.start + last.count).min(y.input).max(start)
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
