//! The forward filter and its adjoint, one tile after the other.
//!
//! **Comes in**: a [`Request`], which the operator's schema has checked. **Comes out**: the output, written. A call is read
//! into a [`Plan`], cut into tiles, and each tile is computed by a [`Worker`](worker::Worker) with the loops of the
//! processor's level. Operators call [`run`]; a second operator may also use [`horizontal`] on rows of its own. Bits agree
//! within one level for any number of threads; the sign of a zero may depend on the memory layout, and between levels the
//! last place may differ, since a fused multiply-add rounds once.

mod bordered;
mod by_rows;
pub mod horizontal;
mod in_registers;
mod prepared;
mod worker;

use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

use crate::axis::Geometry;
use crate::border::Border;
use crate::levels::FilterElement;
use crate::loops::Loops;
use crate::loops::memory_access::Rows;
use crate::plan::layout::{Layout, copy_strided};
use crate::plan::path::Path;
use crate::plan::row_groups::RowPlaces;
use crate::plan::strip::Strip;
use crate::plan::taps::Taps;
use crate::plan::tiles::Plan;
use crate::scratch::Scratch;
use bordered::Bordered;
use firelu_core::error::Result;
use firelu_core::tensor::{Parts, TensorView};
use firelu_core::with_element;
use firelu_cpu::features::Level;
use firelu_cpu::parallel;
use prepared::{KERNEL_BYTES, Key, Prepared, is_worth_keeping};
pub use prepared::{MOST_KEPT, kept_calls};
use worker::{Tile, Worker};

/// What is filtered, with what, and where to.
pub struct Request<'a> {
    /// Both directions, from the input to the output.
    pub geometry: Geometry,
    /// Whether the kernel is the other way round in memory than it meets the input.
    pub reverse: bool,
    /// A factor of the kernel.
    pub gain: f64,
    /// The kernel, two-dimensional.
    pub kernel: &'a TensorView<'a>,
    /// What is filtered.
    pub input: &'a Parts,
    /// What is written.
    pub output: &'a Parts,
    /// What lies outside the input, or, of an adjoint, what happens to that which lies outside the output.
    pub border: Border,
    /// Whether this is the adjoint of a filter with that border: what lies outside is added to what it stands for.
    pub adjoint: bool,
}

impl Request<'_> {
    /// Whether samples outside have other values than zero, and matter.
    fn has_border(&self) -> bool {
        let forward = if self.adjoint { self.geometry.transposed() } else { self.geometry };
        self.border != Border::Constant && forward.reaches_out()
    }
}

/// Filters.
pub fn run(request: &Request<'_>) -> Result<()> {
    // Before anything is multiplied: beside a length of zero the others may be of any size.
    if request.output.shape().elements() == 0 {
        return Ok(());
    }
    with_element!(request.output.dtype(), T => filter::<T>(request))
}

/// Which path such a call takes on the current level, and how it is cut: a sentence for people.
pub fn explain(request: &Request<'_>) -> Result<String> {
    if request.output.shape().elements() == 0 {
        return Ok("nothing to compute".into());
    }
    with_element!(request.output.dtype(), T => explanation::<T>(request))
}

fn explanation<T: FilterElement<Compute: FilterElement>>(request: &Request<'_>) -> Result<String> {
    let (level, taps) = (Level::current(), Arc::new(Taps::read(request.kernel, request.reverse, request.gain)?));
    let layout = Layout::new(request.input, request.output);
    let path = |plan: &Plan| {
        let strip = Strip::new(&plan.geometry.x, 0..plan.strip.min(plan.geometry.x.output as usize), plan.pixel);
        format!("{}; {plan}", Path::of(plan, &strip, T::loops(level)))
    };
    if !request.has_border() {
        let plan = Plan::new::<T>(request.geometry, &taps, &layout);
        return Ok(format!("{}; {level:?} loops, {} tasks", path(&plan), plan.tasks(layout.planes)));
    }
    let bordered = Bordered::<T>::new(request, &taps, &layout, level);
    let middle = bordered.middle().map_or("in windows alone".into(), path);
    Ok(format!("{middle}; border {}: {}; {level:?} loops, {} tasks", request.border, bordered.rims(), bordered.tasks()))
}

fn filter<T: FilterElement<Compute: FilterElement>>(request: &Request<'_>) -> Result<()> {
    let (level, mut bytes) = (Level::current(), SmallVec::new());
    if request.has_border() {
        let taps = Arc::new(Taps::read(request.kernel, request.reverse, request.gain)?);
        let layout = Layout::new(request.input, request.output);
        return Bordered::<T>::new(request, &taps, &layout, level).run();
    }
    let key = copy_kernel(request.kernel, &mut bytes).then(|| Key { request, kernel: &bytes, level });
    if let Some(prepared) = key.as_ref().and_then(Prepared::take) {
        run_prepared::<T>(prepared, request);
        return Ok(());
    }
    let loops = T::loops(level);
    let copy = key.as_ref().map(|key| view_of_copy(request.kernel, key.kernel));
    let kernel = copy.as_ref().unwrap_or(request.kernel);
    let taps = Arc::new(Taps::read(kernel, request.reverse, request.gain)?);
    let layout = Layout::new(request.input, request.output);
    let plan = Plan::new::<T>(request.geometry, &taps, &layout);
    if let Some(key) = key.filter(|_| is_worth_keeping(&plan)) {
        run_prepared::<T>(Prepared::new(&key, plan, layout, loops, &taps)?, request);
        return Ok(());
    }
    let tiles = plan.strips * plan.bands * layout.planes;
    parallel::try_for_each(plan.tasks(layout.planes), plan.work, |task| {
        let first = task * plan.tiles;
        Scratch::with(|scratch| {
            // SAFETY: the views promise every element of the layout, and tiles write disjoint parts.
            unsafe { run_tiles::<T>(loops, &plan, &taps, &layout, first..(first + plan.tiles).min(tiles), scratch) }
        })
    })
}

/// Copies the bytes of a small kernel in row-major order; false, with nothing done, where it is not small.
fn copy_kernel(kernel: &TensorView<'_>, bytes: &mut SmallVec<[u8; KERNEL_BYTES]>) -> bool {
    let (rows, columns, size) = (kernel.shape()[0], kernel.shape()[1], kernel.dtype().size());
    if rows.saturating_mul(columns) > KERNEL_BYTES / size {
        return false;
    }
    let (target, row_bytes) = (bytes.as_mut_ptr(), columns * size);
    // SAFETY: the view promises every element, and the bytes have room for all of them, which are then set.
    unsafe {
        if kernel.is_row_major() {
            target.copy_from_nonoverlapping(kernel.pointer, rows * row_bytes);
        } else {
            for row in 0..rows {
                let from = kernel.pointer.wrapping_offset(row as isize * kernel.strides[0]).cast_const();
                let to = (target.add(row * row_bytes), size as isize);
                with_element!(kernel.dtype(), K => copy_strided::<K>((from, kernel.strides[1]), to, columns));
            }
        }
        bytes.set_len(rows * row_bytes);
    }
    true
}

/// The kernel whose elements are these bytes, of another's type.
fn view_of_copy<'a>(kernel: &TensorView<'_>, bytes: &'a [u8]) -> TensorView<'a> {
    let strides = kernel.shape().row_major_strides(kernel.dtype());
    let pointer = bytes.as_ptr().cast_mut();
    // SAFETY: the bytes are all elements in that order, and are borrowed as long as the view.
    unsafe { TensorView::from_parts(Parts { pointer, kind: kernel.kind.clone(), strides, device: kernel.device }) }
}

/// Runs a prepared call on the memory of this one.
fn run_prepared<T: FilterElement>(mut prepared: Box<Prepared<T>>, request: &Request<'_>) {
    let Prepared { plan, layout, worker, .. } = &mut *prepared;
    (layout.first.pointer, layout.second.pointer) = (request.input.pointer, request.output.pointer);
    // SAFETY: the views promise every element of the layout, and this call alone writes to it.
    unsafe { run_strip::<T>(plan, worker, layout, 0..layout.planes * plan.bands) };
    prepared.keep();
}

/// Tiles are numbered strip by strip, then plane by plane, then band by band, so that neighbours share
/// a strip.
///
/// # Safety
/// Every element of the layout is readable or writable, and no one else writes to these tiles.
unsafe fn run_tiles<T: FilterElement>(
    loops: &'static Loops<T>,
    plan: &Plan,
    taps: &Arc<Taps<T::Compute>>,
    layout: &Layout,
    tiles: Range<usize>,
    scratch: &mut Scratch,
) -> Result<()> {
    let per_strip = layout.planes * plan.bands;
    let mut tile = tiles.start;
    while tile < tiles.end {
        let strip = tile / per_strip;
        let mut worker = Worker::new(plan, loops, taps, strip * plan.strip, scratch)?;
        let (first, end) = (strip * per_strip, tiles.end.min((strip + 1) * per_strip));
        // SAFETY: the caller's promise.
        unsafe { run_strip::<T>(plan, &mut worker, layout, tile - first..end - first) };
        tile = end;
    }
    Ok(())
}

/// Tiles of the worker's strip, numbered from its first.
///
/// # Safety
/// As [`run_strip`].
unsafe fn run_strip<T: FilterElement>(plan: &Plan, worker: &mut Worker<T>, layout: &Layout, tiles: Range<usize>) {
    let (mut plane, mut band) = (tiles.start / plan.bands, tiles.start % plan.bands);
    let mut tile = tiles.start;
    while tile < tiles.end {
        let planes = plan.group.min(tiles.end - tile);
        // SAFETY: the caller's promise.
        unsafe { run_tile::<T>(plan, worker, layout, plane..plane + planes, band) };
        tile += planes;
        band += 1;
        if band == plan.bands {
            (plane, band) = (plane + planes, 0);
        }
    }
}

/// A tile of some planes, of one where there are several tiles in each.
///
/// # Safety
/// As [`run_strip`].
unsafe fn run_tile<T: FilterElement>(
    plan: &Plan,
    worker: &mut Worker<T>,
    layout: &Layout,
    planes: Range<usize>,
    band: usize,
) {
    let (source, target) = (&layout.first, &layout.second);
    let (source_offset, target_offset) = layout.offsets(planes.start);
    let (source_plane_step, target_plane_step) = layout.plane_strides().unwrap_or_default();
    let planes = Rows { count: planes.len(), source: source_plane_step, target: target_plane_step };
    let rows = band * plan.band..((band + 1) * plan.band).min(plan.geometry.y.output as usize);
    let columns = worker.columns();
    let source_plane = source.pointer.wrapping_offset(source_offset);
    let width = if plan.pixel == 1 { target.column } else { (plan.pixel * size_of::<T>()) as isize };
    let target_start = target
        .pointer
        .wrapping_offset(target_offset + rows.start as isize * target.row + columns.start as isize * width);
    let mut tile = Tile {
        source: source_plane as *const T,
        target: target_start.cast(),
        at: RowPlaces { rows: rows.clone(), source_row: source.row, target_row: target.row },
    };
    let mut gathered = worker.gathered.cast::<T>();
    if !source.dense {
        let inside = worker.inside();
        let length = (inside.end - inside.start) as usize;
        let Range { start: top, end: bottom } = plan.geometry.y.inputs_of(rows.start as i64..rows.end as i64);
        for row in top..bottom {
            let from = source_plane.wrapping_offset(row as isize * source.row + inside.start as isize * source.column);
            let to = gathered.wrapping_add((row - top) as usize * length);
            // SAFETY: these rows and columns are inside the input; `plan.gathered` counts their elements.
            unsafe { copy_strided::<T>((from, source.column), (to.cast(), size_of::<T>() as isize), length) };
        }
        // So placed that the tile finds row and column numbers of the plane in the copy.
        let row_bytes = (length * size_of::<T>()) as isize;
        tile.source = gathered.wrapping_byte_offset(-(top as isize) * row_bytes).wrapping_sub(inside.start as usize);
        tile.at.source_row = row_bytes;
        gathered = gathered.wrapping_add((bottom - top).max(0) as usize * length);
    }
    if !target.dense {
        tile.target = gathered;
        tile.at.target_row = (columns.len() * size_of::<T>()) as isize;
    }
    // SAFETY: the caller's promise; a level is current only where it was detected.
    unsafe {
        worker.run(&tile, planes);
        if !target.dense {
            for row in 0..rows.len() {
                let from = gathered.wrapping_add(row * columns.len());
                let to = target_start.wrapping_offset(row as isize * target.row);
                copy_strided::<T>((from.cast(), size_of::<T>() as isize), (to, target.column), columns.len());
            }
        }
    }
}
