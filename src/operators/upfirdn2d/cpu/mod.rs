//! The kernels of the CPU. A call is read into a [`Plan`](plan::Plan), cut into tiles, and each tile is
//! computed with the registers of the processor's level. Bits agree within one level for any number of
//! threads; the sign of a zero and the last places of the kernel's gradient may depend on the memory
//! layout, and between levels the last place may differ, since a fused multiply-add rounds once.

#[cfg(target_arch = "x86_64")]
#[macro_use]
mod level;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod factor;
mod kernel_gradient;
mod layout;
mod native;
mod phases;
mod pixels;
mod plan;
mod products;
mod recent;
mod registers;
mod rows;
mod runs;
mod scratch;
mod short;
mod stacks;
mod strip;
mod sums;
mod tile;
mod twins;
mod windows;
mod writer;

use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

use super::params::{Geometry, UpFirDn2dArgs};
#[cfg(not(target_arch = "x86_64"))]
use crate::core::dtype::Element;
use crate::core::error::Result;
use crate::core::operator::Call;
use crate::core::tensor::{Parts, TensorView};
use crate::devices::cpu::features::Level;
use crate::devices::cpu::parallel;
#[cfg(target_arch = "x86_64")]
use crate::devices::cpu::simd::avx2::Avx2Element;
use crate::with_element;
#[cfg(target_arch = "x86_64")]
use avx512::Avx512Element;
use factor::Taps;
use layout::{Layout, copy_strided};
use plan::Plan;
#[cfg(target_arch = "x86_64")]
use products::Products;
use recent::{KERNEL_BYTES, Key, Prepared, Request, is_worth_keeping};
use rows::Rows;
use scratch::Scratch;
#[cfg(target_arch = "x86_64")]
use sums::Filter;
use tile::{Tile, Worker};

/// What the kernels need of an element type.
#[cfg(target_arch = "x86_64")]
pub trait FirElement: Avx2Element<Register: Filter<Self> + Products> + Avx512Element {}
#[cfg(target_arch = "x86_64")]
impl<T: Avx2Element<Register: Filter<T> + Products> + Avx512Element> FirElement for T {}
/// What the kernels need of an element type.
#[cfg(not(target_arch = "x86_64"))]
pub trait FirElement: Element {}
#[cfg(not(target_arch = "x86_64"))]
impl<T: Element> FirElement for T {}

/// Y of X and K.
pub fn forward(call: &Call<'_>) -> Result<()> {
    let Some(y) = &call.outputs[0] else { return Ok(()) };
    let args = UpFirDn2dArgs::from_args(call.args);
    run(&Request { args, adjoint: false, kernel: call.input(1), input: call.input(0), output: y })
}

/// dX of dY and K: the adjoint, with the kernel the other way round.
pub fn gradient(call: &Call<'_>) -> Result<()> {
    let Some(dx) = &call.outputs[0] else { return Ok(()) };
    let args = UpFirDn2dArgs::from_args(call.args);
    run(&Request { args, adjoint: true, kernel: call.input(1), input: call.input(0), output: dx })
}

/// dK of X and dY.
pub fn kernel_gradient(call: &Call<'_>) -> Result<()> {
    let Some(dk) = &call.outputs[0] else { return Ok(()) };
    let (x, dy, args) = (call.input(0), call.input(1), UpFirDn2dArgs::from_args(call.args));
    let geometry = Geometry::new("UpFirDn2d", &args, x.shape(), dk.shape())?;
    let sums = with_element!(x.dtype(), T => kernel_gradient::sums::<T>(geometry, x, dy))?;
    with_element!(dk.dtype(), K => kernel_gradient::write::<K>(&sums, &args, dk));
    Ok(())
}

fn run(request: &Request<'_>) -> Result<()> {
    // Before anything is multiplied: beside a length of zero the others may be of any size.
    if request.output.shape().elements() == 0 {
        return Ok(());
    }
    with_element!(request.output.dtype(), T => filter::<T>(request))
}

fn filter<T: FirElement>(request: &Request<'_>) -> Result<()> {
    let (level, mut bytes) = (Level::current(), SmallVec::new());
    let key = copy_kernel(request.kernel, &mut bytes).then(|| Key { request, kernel: &bytes, level });
    if let Some(prepared) = key.as_ref().and_then(Prepared::take) {
        run_prepared::<T>(prepared, level, request);
        return Ok(());
    }
    let copy = key.as_ref().map(|key| view_of_copy(request.kernel, key.kernel));
    let kernel = copy.as_ref().unwrap_or(request.kernel);
    let taps = Arc::new(Taps::read(kernel, request.reverse(), request.args.gain)?);
    let layout = Layout::new(request.input, request.output);
    let plan = Plan::new::<T>(request.geometry()?, &taps, &layout);
    if let Some(key) = key.filter(|_| is_worth_keeping(&plan)) {
        run_prepared::<T>(Prepared::new(&key, plan, layout, &taps)?, level, request);
        return Ok(());
    }
    let tiles = plan.strips * plan.bands * layout.planes;
    parallel::try_for_each(plan.tasks(layout.planes), plan.work, |task| {
        let first = task * plan.tiles;
        Scratch::with(|scratch| {
            // SAFETY: the views promise every element of the layout, and tiles write disjoint parts.
            unsafe { run_tiles::<T>(level, &plan, &taps, &layout, first..(first + plan.tiles).min(tiles), scratch) }
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
fn run_prepared<T: FirElement>(mut prepared: Box<Prepared<T::Compute>>, level: Level, request: &Request<'_>) {
    let Prepared { plan, layout, worker, .. } = &mut *prepared;
    (layout.first.pointer, layout.second.pointer) = (request.input.pointer, request.output.pointer);
    // SAFETY: the views promise every element of the layout, and this call alone writes to it.
    unsafe { run_strip::<T>(level, plan, worker, layout, 0..layout.planes * plan.bands) };
    prepared.keep();
}

/// Tiles are numbered strip by strip, then plane by plane, then band by band, so that neighbours share
/// a strip.
///
/// # Safety
/// Every element of the layout is readable or writable, and no one else writes to these tiles.
unsafe fn run_tiles<T: FirElement>(
    level: Level,
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
        let mut worker = Worker::new(plan, taps, strip * plan.strip, scratch)?;
        let (first, end) = (strip * per_strip, tiles.end.min((strip + 1) * per_strip));
        // SAFETY: the caller's promise.
        unsafe { run_strip::<T>(level, plan, &mut worker, layout, tile - first..end - first) };
        tile = end;
    }
    Ok(())
}

/// Tiles of the worker's strip, numbered from its first.
///
/// # Safety
/// As [`run_tiles`].
unsafe fn run_strip<T: FirElement>(
    level: Level,
    plan: &Plan,
    worker: &mut Worker<T::Compute>,
    layout: &Layout,
    tiles: Range<usize>,
) {
    let (mut plane, mut band) = (tiles.start / plan.bands, tiles.start % plan.bands);
    let mut tile = tiles.start;
    while tile < tiles.end {
        let planes = plan.group.min(tiles.end - tile);
        // SAFETY: the caller's promise.
        unsafe { run_tile::<T>(level, plan, worker, layout, plane..plane + planes, band) };
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
/// As [`run_tiles`].
unsafe fn run_tile<T: FirElement>(
    level: Level,
    plan: &Plan,
    worker: &mut Worker<T::Compute>,
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
        source_row: source.row,
        target: target_start.cast(),
        target_row: target.row,
        rows: rows.clone(),
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
        tile.source_row = row_bytes;
        gathered = gathered.wrapping_add((bottom - top).max(0) as usize * length);
    }
    if !target.dense {
        tile.target = gathered;
        tile.target_row = (columns.len() * size_of::<T>()) as isize;
    }
    // SAFETY: the caller's promise; a level is current only where it was detected.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512::tile::<T>(worker, &tile, planes),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2::tile::<T>(worker, &tile, planes),
            _ => native::tile::<T>(worker, &tile, planes),
        }
        if !target.dense {
            for row in 0..rows.len() {
                let from = gathered.wrapping_add(row * columns.len());
                let to = target_start.wrapping_offset(row as isize * target.row);
                copy_strided::<T>((from.cast(), size_of::<T>() as isize), (to, target.column), columns.len());
            }
        }
    }
}
