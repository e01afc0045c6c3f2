//! The kernel's gradient: each tap is the product sum of dY with the input it met. Registers add up a
//! bounded number of products, then go into float64 sums; tasks and the order of their sums follow
//! from the shapes alone.

use smallvec::SmallVec;
use std::ops::Range;

use super::FirElement;
use super::layout::{Layout, Side, copy_strided};
use super::products::{PreparedRows, Series};
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
    R: Filter<T, Number = T::Compute>,
{
    let Job { geometry, layout, grid, sums } = job;
    let (x, y, pixel) = (&geometry.x, &geometry.y, layout.pixel);
    let most_inputs = (grid.band as i64 * y.down / y.up + y.most_taps() + 1).min(y.input) as usize;
    let mut series = SmallVec::new();
    let per_strip = grid.bands * layout.planes;
    let mut tile = tiles.start;
    while tile < tiles.end {
        let first = tile / per_strip * grid.strip;
        let columns = first..(first + grid.strip).min(x.output as usize);
        let strip = Strip::new(x, columns.clone(), pixel);
        let gathered = strip.inside_length().max(columns.len() * pixel);
        let (input_pitch, output_pitch) = (strip.prepared_length(), strip.output_length());
        let lengths = [most_inputs * input_pitch, grid.band * output_pitch, gathered];
        let [prepared, split, gathered] = scratch.numbers::<T::Compute, 3>(lengths)?;
        // SAFETY: the scratch memory just given holds these; what no input fills stays zero.
        unsafe { prepared.write_bytes(0, lengths[0]) };
        let end = tiles.end.min((tile / per_strip + 1) * per_strip);
        while tile < end {
            let (plane, band) = (tile % per_strip / grid.bands, tile % grid.bands);
            tile += 1;
            let offsets = layout.offsets(plane);
            let band = band * grid.band..((band + 1) * grid.band).min(y.output as usize);
            let inputs = inputs_of(y, &band);
            // SAFETY: rows and columns are inside the tensors; scratch rows are as long as the strip says.
            unsafe {
                for row in inputs.clone() {
                    let place = (row, strip.inside.start, strip.inside_length());
                    let source = row_of::<T>(&layout.first, offsets.0, place, pixel, gathered.cast());
                    let target = prepared.add((row - inputs.start) as usize * input_pitch);
                    strip.split::<T, R>(source, target, Rows::ONE, ahead(&layout.first));
                }
                for (row, target) in band.clone().enumerate() {
                    let place = (target as i64, columns.start as i64, columns.len() * pixel);
                    let source = row_of::<T>(&layout.second, offsets.1, place, pixel, gathered.cast());
                    strip.split_outputs::<T, R>(source, split.add(row * output_pitch), ahead(&layout.second));
                }
                fill_series(&mut series, y, &band);
                let rows = PreparedRows {
                    inputs: prepared,
                    first_input: inputs.start,
                    outputs: split,
                    first_output: band.start as i64,
                    sums: *sums,
                    taps_x: x.taps as usize,
                };
                strip.add_products::<R>(&series, &rows);
            }
        }
    }
    Ok(())
}

/// The input rows inside that a band of output rows needs.
fn inputs_of(y: &Axis, band: &Range<usize>) -> Range<i64> {
    let last = y.support(band.end as i64 - 1);
    let start = y.support(band.start as i64).start.max(0);
    start..(last.start + last.count).min(y.input).max(start)
}

/// For each tap along y, the pairs of an input row and an output row of the band in which it stands
/// between them; those whose input rows recur in the same places come one after the other.
fn fill_series(series: &mut SmallVec<[Series; 16]>, y: &Axis, band: &Range<usize>) {
    let (outputs, inputs) = y.period();
    series.clear();
    for output in band.start as i64..(band.end as i64).min(band.start as i64 + outputs) {
        let Support { start, tap, count } = y.support(output);
        for m in 0..count {
            let input = start + m;
            // Pairs before the input's first row and after its last are none.
            let periods = |rows: i64, period: i64| (rows.max(0) + period - 1) / period;
            let skipped = periods(-input, inputs);
            let in_band = periods(band.end as i64 - output, outputs);
            let in_input = periods(y.input - input, inputs);
            let count = (in_band.min(in_input) - skipped).max(0);
            if count > 0 {
                let (input, output) = (input + skipped * inputs, output + skipped * outputs);
                series.push(Series { tap: tap + m * y.up, input, output, count, inputs, outputs });
            }
        }
    }
    series.sort_by_key(|series| (series.input % inputs, series.tap));
}

/// Reads a dense row and asks for one that follows.
fn ahead(side: &Side) -> Stores {
    if side.dense { Stores::CachedAhead(Ahead::rows(side.row, 1)) } else { Stores::Cached }
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
