//! The kernel's gradient: each tap is the product sum of dY with the input it met.
//!
//! **Comes in**: a [`Request`], which the operator's schema has checked. **Comes out**: dK, written. Registers add up a
//! bounded number of products, then go into float64 sums; tasks and the order of their sums follow from the shapes alone.
//! Its last places may depend on the memory layout. Operators call [`run`].

mod grid;
mod parts;
mod piece;
mod tile;

use smallvec::SmallVec;
use std::ops::Range;

use crate::axis::Geometry;
use crate::border::Border;
use crate::levels::FilterElement;
use crate::loops::Loops;
use crate::plan::layout::Layout;
use crate::plan::rim;
use crate::plan::strip::Strip;
use crate::scratch::Scratch;
use firelu_core::dtype::{Compute, Element};
use firelu_core::error::Result;
use firelu_core::tensor::{Parts, TensorView, TensorViewMut};
use firelu_core::with_element;
use firelu_cpu::features::Level;
use firelu_cpu::{memory, parallel};
use grid::Job;
use piece::Piece;
use tile::Tile;

/// The memory that a task should read.
const TASK_BYTES: f64 = (1 << 20) as f64;
/// The memory for the sums of all tasks.
const SUMS_BYTES: usize = 4 << 20;
/// More tasks than this balance no better.
const MOST_TASKS: usize = 256;

/// What is multiplied, and where to.
pub struct Request<'a> {
    /// Both directions of the forward filter.
    pub geometry: Geometry,
    /// Whether the kernel is the other way round in memory than it meets the input.
    pub reverse: bool,
    /// The forward filter's factor of the kernel.
    pub gain: f64,
    /// What lies outside the forward input.
    pub border: Border,
    /// The forward input.
    pub x: &'a TensorView<'a>,
    /// The gradient of the output.
    pub dy: &'a TensorView<'a>,
    /// Where the kernel's gradient goes.
    pub dk: &'a TensorViewMut<'a>,
}

/// Computes the gradient.
pub fn run(request: &Request<'_>) -> Result<()> {
    let sums = with_element!(request.x.dtype(), T => sums::<T>(request))?;
    with_element!(request.dk.dtype(), K => write::<K>(&sums, request));
    Ok(())
}

/// The product sums of all taps, in the order in which they meet the input.
fn sums<T: FilterElement>(request: &Request<'_>) -> Result<Vec<f64>> {
    let Request { geometry, border, x, dy, .. } = request;
    let taps = (geometry.x.taps * geometry.y.taps) as usize;
    if dy.shape().elements() == 0 || x.shape().elements() == 0 {
        return memory::numbers(0.0, taps);
    }
    let layout = Layout::new(x, dy);
    let parts = match geometry.reaches_out() && *border != Border::Constant {
        true => rim::parts(geometry, (rim::middle_of_forward(&geometry.y), rim::middle_of_forward(&geometry.x))),
        false => rim::whole(geometry),
    };
    let pieces: SmallVec<[Piece; 5]> =
        parts.into_iter().filter_map(|part| Piece::new(geometry, part, &layout)).collect();
    let all = pieces.iter().map(|piece| piece.count(layout.planes)).sum::<usize>();
    if all == 0 {
        return memory::numbers(0.0, taps);
    }
    let bytes = |parts: &Parts| parts.shape().elements() as f64 * size_of::<T>() as f64;
    let products = dy.shape().elements() as f64 * (geometry.x.most_taps() * geometry.y.most_taps()) as f64;
    let work = (bytes(x) + bytes(dy)).max(products);
    let most = MOST_TASKS.min(SUMS_BYTES / (8 * taps)).min(all).max(1);
    let tasks = ((work / TASK_BYTES) as usize).clamp(1, most);
    let mut partial = memory::numbers(0.0, tasks * taps)?;
    let all_sums = Sums(partial.as_mut_ptr());
    let loops = T::loops(Level::current());
    parallel::try_for_each(tasks, work as usize, |task| {
        let mut tiles = task * all / tasks..(task + 1) * all / tasks;
        let all_sums = &all_sums;
        let sums = all_sums.0.wrapping_add(task * taps);
        for piece in &pieces {
            let count = piece.count(layout.planes);
            let some = tiles.start.min(count)..tiles.end.min(count);
            tiles = tiles.start.saturating_sub(count)..tiles.end.saturating_sub(count);
            // SAFETY: the views promise every element of the layout; each task has its own `taps` sums.
            // A level is current only where it was detected.
            unsafe { piece.add_products::<T>(loops, (geometry, *border, &layout), some, sums) }?;
        }
        Ok(())
    })?;
    let mut total = memory::numbers(0.0, taps)?;
    for sums in partial.chunks_exact(taps) {
        total.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
    }
    Ok(total)
}

/// Writes the sums as the kernel's gradient, in the kernel's own direction.
fn write<K: Element>(sums: &[f64], request: &Request<'_>) {
    let dk = request.dk;
    let (rows, columns) = (dk.shape()[0], dk.shape()[1]);
    for row in 0..rows {
        for column in 0..columns {
            let at = row * columns + column;
            let sum = if request.reverse { sums[sums.len() - 1 - at] } else { sums[at] };
            let value = K::from_compute(K::Compute::from_f64(sum * request.gain));
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

/// Adds the product sums of some tiles to the job's sums.
///
/// # Safety
/// The level of the loops was detected, every element of the layout is readable, and `job.sums` holds one
/// writable number for each tap.
unsafe fn product_sums<T: Element>(
    loops: &'static Loops<T>,
    job: &Job<'_>,
    tiles: Range<usize>,
    scratch: &mut Scratch,
) -> Result<()> {
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
        let (row_parts, repeats) = (parts::parts(&strip), parts::repeats(&strip));
        // Outputs of the compute type that lie one after the other are multiplied where they are.
        let in_place = parts::is_one_part(&strip) && layout.second.dense && size_of::<T>() == size_of::<T::Compute>();
        let outputs = if in_place { 0 } else { most_outputs * strip.output_length() };
        let repeated = if repeats { most_inputs * parts::repeated_length(&strip) } else { 0 };
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
            let (strip, parts) = (&strip, &row_parts[..]);
            let tile = Tile { job, loops, strip, parts, planes, inputs, repeated, outputs, gathered, in_place };
            // SAFETY: the caller's promise; rows and columns are inside the tensors, and scratch rows are as
            // long as the strip says.
            unsafe { tile.add_products(band) };
        }
    }
    Ok(())
}
