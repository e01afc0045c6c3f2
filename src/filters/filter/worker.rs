//! What a task keeps from tile to tile: a strip, its path, its scratch memory, and terms that do not change.

use std::ops::Range;
use std::sync::Arc;

use crate::loops::Loops;
use crate::loops::memory_access::{Prefetch, Rows, Stores};
use crate::plan::order::Order;
use crate::plan::path::Path;
use crate::plan::row_groups::{RowGroups, RowPlaces};
use crate::plan::strip::{Strip, Terms};
use crate::plan::taps::Taps;
use crate::plan::tiles::Plan;
use crate::scratch::Scratch;
use firelu_core::dtype::Element;
use firelu_core::error::Result;
use firelu_cpu::simd::fence;

/// The rows of a plane that a tile reads and writes.
pub struct Tile<T> {
    /// Input row zero, column zero; only elements inside the strip and the input are touched.
    pub source: *const T,
    /// The first output row of the tile, first column of the strip.
    pub target: *mut T,
    /// The output rows, and how far apart rows are.
    pub at: RowPlaces,
}

impl<T> Tile<T> {
    /// The same tile of a plane so many bytes on.
    fn moved(&self, source: isize, target: isize) -> Self {
        Tile {
            source: self.source.wrapping_byte_offset(source),
            target: self.target.wrapping_byte_offset(target),
            at: self.at.clone(),
        }
    }
}

/// Elements of the rows that are held at once, or written with one set of taps before those with the next: they stay
/// in the first-level cache.
pub const AT_ONCE_ELEMENTS: usize = 4096;

/// Computes the tiles of a strip.
pub struct Worker<T: Element> {
    pub(super) plan: Plan,
    pub(super) loops: &'static Loops<T>,
    pub(super) path: Path,
    pub(super) taps: Arc<Taps<T::Compute>>,
    pub(super) strip: Strip,
    pub(super) terms: Terms<T::Compute>,
    /// Prepared rows, or a ring of them.
    pub(super) prepared: *mut T::Compute,
    /// Rows summed along y before they are split, or a ring of rows summed along x.
    pub(super) rows: *mut T::Compute,
    /// Outputs of one phase, where there are many phases.
    pub(super) spare: *mut T::Compute,
    /// The row groups of the last tile.
    pub(super) groups: RowGroups<T::Compute>,
    /// How many rows a ring holds: at least as many as one output needs.
    pub(super) ring: usize,
    /// How many output rows are summed along y at once, or input rows along x, if any.
    pub(super) at_once: usize,
    /// Input and output elements brought together, where theirs are not.
    pub gathered: *mut T::Compute,
}

impl<T: Element> Worker<T> {
    /// A worker on the strip that starts at output column `first`; inlined, since it is large to move. It works
    /// while the scratch memory is left to it.
    #[inline(always)]
    pub fn new(
        plan: &Plan,
        loops: &'static Loops<T>,
        taps: &Arc<Taps<T::Compute>>,
        first: usize,
        scratch: &mut Scratch,
    ) -> Result<Self> {
        let geometry = &plan.geometry;
        let last = (first + plan.strip).min(geometry.x.output as usize);
        let strip = Strip::new(&geometry.x, first..last, plan.pixel);
        let y = &geometry.y;
        // A power of two, so that finding a row's place takes no division.
        let ring = (y.most_taps().min(y.input).max(1) as usize).next_power_of_two();
        let (prepared, output) = (strip.prepared_length(), strip.output_length());
        let taps_y = y.most_taps() as usize;
        let (at_once, prepared, rows) = match plan.order {
            Order::VerticalFirst => {
                // An even number where there are as many, so that rows can be taken in pairs.
                let rows = ((AT_ONCE_ELEMENTS / prepared) & !1).max(2).min(plan.band);
                (rows, rows * prepared, if strip.is_plain() { 0 } else { rows * strip.inside_length() })
            }
            // New rows, which stay in the first-level cache with those that were.
            Order::HorizontalFirst => match (AT_ONCE_ELEMENTS / output).saturating_sub(taps_y) {
                0 => (0, prepared, ring * output),
                new => (new, (new + taps_y + 1) * prepared, (new + taps_y + 1) * output),
            },
            Order::Direct => (0, ring * prepared, 0),
        };
        // Rows in registers are summed with a row of zeros at the border.
        let prepared = prepared.max(strip.inside_length());
        let lengths = [prepared, rows, strip.output_length(), plan.gathered];
        let [prepared_memory, rows, spare, gathered]: [*mut T::Compute; 4] = scratch.numbers(lengths)?;
        // SAFETY: the scratch memory just given holds that many; what no input fills stays zero.
        unsafe { prepared_memory.write_bytes(0, prepared) };
        let mut terms = Terms::default();
        if let (Some((along_x, _)), true) = (&taps.separable, plan.order != Order::Direct) {
            strip.fill_terms(&mut terms, &[(prepared_memory as *const T::Compute, 0)], along_x);
        }
        Ok(Worker {
            plan: *plan,
            loops,
            path: Path::of(plan, &strip, loops),
            taps: taps.clone(),
            strip,
            groups: RowGroups::default(),
            terms,
            prepared: prepared_memory,
            rows,
            spare,
            ring,
            at_once,
            gathered,
        })
    }

    /// The output columns of the strip.
    pub fn columns(&self) -> Range<usize> {
        self.strip.columns.clone()
    }

    /// The input columns inside the input that the strip needs.
    pub fn inside(&self) -> Range<i64> {
        self.strip.inside.clone()
    }

    /// Computes a tile, and those at the same place of the planes after it.
    ///
    /// # Safety
    /// The level of the loops was detected; in each plane the input rows that the tile's rows need are readable in the
    /// columns `inside`, the tile's outputs are writable and overlap no input.
    pub unsafe fn run(&mut self, tile: &Tile<T>, planes: Rows) {
        // SAFETY: the caller's promise.
        unsafe {
            if let Path::InRegisters(form) = self.path {
                self.in_registers(form, tile, planes);
            } else {
                for plane in 0..planes.count as isize {
                    let tile = tile.moved(plane * planes.source, plane * planes.target);
                    match self.path {
                        Path::InRegisters(_) | Path::VerticalFirst => self.vertical_first(&tile),
                        Path::HorizontalFirst if self.at_once > 0 => self.whole_horizontal_first(&tile),
                        Path::HorizontalFirst => self.horizontal_first(&tile),
                        Path::DirectInRegisters | Path::Direct => self.direct(&tile),
                    }
                }
            }
        }
        if self.plan.non_temporal && self.loops.non_temporal {
            fence();
        }
    }

    /// The first column inside, in an input row.
    pub(super) fn source(&self, tile: &Tile<T>, row: i64) -> *const T {
        let start = tile.source.wrapping_byte_offset(row as isize * tile.at.source_row);
        start.wrapping_add(self.strip.inside.start as usize * self.plan.pixel)
    }

    pub(super) fn target(&self, tile: &Tile<T>, row: usize) -> *mut T {
        tile.target.wrapping_byte_offset((row - tile.at.rows.start) as isize * tile.at.target_row)
    }

    /// What to prefetch while so many new rows at a time are read.
    pub(super) fn prefetch(&self, tile: &Tile<T>, rows: usize) -> Prefetch {
        Prefetch::rows(tile.at.source_row, self.strip.inside_length() * size_of::<T>(), rows)
    }

    /// How rows that stay in the caches are written while the input is read, so many new rows at a time.
    pub(super) fn reading(&self, tile: &Tile<T>, rows: i64) -> Stores {
        match self.plan.prefetch {
            true => Stores::CachedPrefetchingSources(self.prefetch(tile, rows as usize)),
            false => Stores::Cached,
        }
    }

    /// How output rows are written.
    pub(super) fn writing(&self) -> Stores {
        match (self.plan.non_temporal, self.plan.prefetch) {
            (true, _) => Stores::NonTemporal,
            (false, true) => Stores::CachedPrefetchingTarget,
            (false, false) => Stores::Cached,
        }
    }
}
