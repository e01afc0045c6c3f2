//! The kernel's gradient: each tap is the product sum of dY with the input it met. Registers add up a
//! bounded number of products, then go into float64 sums; tasks and the order of their sums follow
//! from the shapes alone.

use smallvec::SmallVec;
use std::ops::Range;

use super::FirElement;
use super::layout::{Layout, Side, copy_strided};
use super::registers::{Access, Register};
use super::scratch::Scratch;
use super::strip::Strip;
use super::sums::{Ahead, Filter, Rows, Stores};
use crate::core::dtype::{Compute, Element};
use crate::core::error::Result;
use crate::core::tensor::{Parts, TensorView, TensorViewMut};
use crate::devices::cpu::features::Level;
use crate::devices::cpu::{memory, parallel};
use crate::operators::upfirdn2d::params::{Geometry, UpFirDn2dArgs};

/// How many products a place of a register adds up before it goes into a float64 sum.
const PRODUCTS: usize = 128;
/// The most elements of a row that are multiplied at a time.
const STRIP_ELEMENTS: usize = 1024;
/// Output rows of a tile.
const BAND: usize = 64;
/// The memory that a task should read.
const TASK_BYTES: f64 = (1 << 20) as f64;
/// The memory for the sums of all tasks.
const SUMS_BYTES: usize = 4 << 20;
/// More tasks than this balance no better.
const MOST_TASKS: usize = 256;
/// The register places that hold the pending sums of one tap.
const PLACES: usize = 16;

/// The product sums of all taps, in the order in which they meet the input.
pub fn sums<T: FirElement>(geometry: Geometry, x: &TensorView<'_>, dy: &TensorView<'_>) -> Result<Vec<f64>> {
    let layout = Layout::new(x, dy);
    let taps = (geometry.x.taps * geometry.y.taps) as usize;
    let grid = Grid::new(&geometry, &layout);
    if dy.shape().elements() == 0 || x.shape().elements() == 0 {
        return memory::numbers(0.0, taps);
    }
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
    bands: usize,
    tiles: usize,
}

impl Grid {
    fn new(geometry: &Geometry, layout: &Layout) -> Self {
        let (period, step) = geometry.x.period();
        let limit = (STRIP_ELEMENTS / layout.pixel).max(1) as i64;
        let by_input = 1 + limit.saturating_mul(2 * period) / step;
        let strip = limit.min(by_input).min(geometry.x.output).max(1) as usize;
        let bands = (geometry.y.output as usize).div_ceil(BAND);
        Grid { strip, bands, tiles: (geometry.x.output as usize).div_ceil(strip) * bands * layout.planes }
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
    let taps = (x.taps * y.taps) as usize;
    let ring = (y.most_taps().min(y.input).max(1) as usize).next_power_of_two();
    let mut rows: SmallVec<[(*const T::Compute, *mut T::Compute); 16]> = SmallVec::new();
    let per_strip = grid.bands * layout.planes;
    let mut tile = tiles.start;
    while tile < tiles.end {
        let first = tile / per_strip * grid.strip;
        let columns = first..(first + grid.strip).min(x.output as usize);
        let strip = Strip::new(x, columns.clone(), pixel);
        let gathered = strip.inside_length().max(columns.len() * pixel);
        let lengths = [ring * strip.prepared_length(), strip.output_length(), taps * PLACES, gathered];
        let [prepared, split, places, gathered] = scratch.numbers::<T::Compute, 4>(lengths)?;
        // SAFETY: the scratch memory just given holds these; what no input fills stays zero.
        unsafe {
            prepared.write_bytes(0, lengths[0]);
            places.write_bytes(0, lengths[2]);
        }
        let mut pending = 0;
        let end = tiles.end.min((tile / per_strip + 1) * per_strip);
        while tile < end {
            let (plane, band) = (tile % per_strip / grid.bands, tile % grid.bands);
            let offsets = layout.offsets(plane);
            let mut next = 0;
            let band = band * BAND..((band + 1) * BAND).min(y.output as usize);
            for (row, support) in band.clone().zip(y.supports(band.start as i64)) {
                let inputs = support.start.max(0)..(support.start + support.count).min(y.input);
                next = inputs.start.max(next);
                // SAFETY: rows and columns are inside the tensors; scratch rows are as long as the strip says.
                unsafe {
                    while next < inputs.end {
                        let place = (next, strip.inside.start, strip.inside_length());
                        let source = row_of::<T>(&layout.first, offsets.0, place, pixel, gathered.cast());
                        let target = prepared.add((next as usize & (ring - 1)) * strip.prepared_length());
                        strip.split::<T, R>(source, target, Rows::ONE, ahead(&layout.first));
                        next += 1;
                    }
                    let place = (row as i64, columns.start as i64, columns.len() * pixel);
                    let dy = row_of::<T>(&layout.second, offsets.1, place, pixel, gathered.cast());
                    strip.split_outputs::<T, R>(dy, split, ahead(&layout.second));
                    rows.clear();
                    for input in inputs {
                        let tap = support.tap + (input - support.start) * y.up;
                        let row = prepared.add((input as usize & (ring - 1)) * strip.prepared_length());
                        rows.push((row as *const _, places.add((tap * x.taps) as usize * PLACES)));
                    }
                    strip.add_products::<R, PLACES>(split, &rows);
                    pending += strip.most_products(R::LANES);
                    if pending >= PRODUCTS {
                        flush::<R>(places, *sums, taps);
                        pending = 0;
                    }
                }
            }
            tile += 1;
        }
        // SAFETY: `places` and `sums` hold one entry for each tap.
        unsafe { flush::<R>(places, *sums, taps) };
    }
    Ok(())
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

/// Adds what registers hold to the float64 sums and empties them.
///
/// # Safety
/// Both hold one entry for each tap.
#[inline(always)]
unsafe fn flush<R: Access<<R as Register>::Number>>(places: *mut R::Number, sums: *mut f64, taps: usize) {
    for tap in 0..taps {
        // SAFETY: the caller's promise.
        unsafe {
            let place = places.add(tap * PLACES);
            *sums.add(tap) += R::load(place).sum();
            R::splat(R::Number::default()).store(place);
        }
    }
}
