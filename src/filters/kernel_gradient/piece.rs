//! A rectangle of outputs and how its products are added: where inputs are, or in windows in which samples outside have
//! their values.

use std::ops::Range;

use super::grid::{Grid, Job};
use super::product_sums;
use crate::axis::Geometry;
use crate::border::Border;
use crate::levels::FilterElement;
use crate::loops::Loops;
use crate::plan::layout::Layout;
use crate::plan::rim::{Part, Units, some};
use crate::scratch::{Scratch, Windows};
use crate::window::Window;
use firelu_core::error::Result;

/// A rectangle of outputs.
#[allow(clippy::large_enum_variant, reason = "a few of them at a time")]
pub enum Piece {
    /// Multiplied tile by tile with inputs where they are.
    Inside(Geometry, Layout, Grid),
    /// Multiplied in windows.
    Rim(Units),
}

impl Piece {
    /// None where no output of the part is summed from any input.
    pub fn new(geometry: &Geometry, part: Part, layout: &Layout) -> Option<Self> {
        if !part.inner {
            return Some(Piece::Rim(Units::new(geometry, part, layout)));
        }
        let x = geometry.x.part(&(0..geometry.x.input), &part.columns);
        let y = geometry.y.part(&(0..geometry.y.input), &part.rows);
        let (geometry, layout) = (Geometry { x, y }, layout.starting_at(part.rows.start, part.columns.start));
        let grid = Grid::new(&geometry, &layout)?;
        Some(Piece::Inside(geometry, layout, grid))
    }

    /// How many tiles or windows so many planes have.
    pub fn count(&self, planes: usize) -> usize {
        match self {
            Piece::Inside(_, _, grid) => grid.tiles,
            Piece::Rim(units) => units.count(planes),
        }
    }

    /// Adds the product sums of some of them.
    ///
    /// # Safety
    /// The level of the loops was detected, every element of the layout is readable, and `sums` holds one writable
    /// number for each tap.
    pub unsafe fn add_products<T: FilterElement>(
        &self,
        loops: &'static Loops<T>,
        (geometry, border, layout): (&Geometry, Border, &Layout),
        some_of: Range<usize>,
        sums: *mut f64,
    ) -> Result<()> {
        if some_of.is_empty() {
            return Ok(());
        }
        match self {
            Piece::Inside(geometry, layout, grid) => Scratch::with(|scratch| {
                let job = Job { geometry, layout, grid, sums };
                // SAFETY: the caller's promise.
                unsafe { product_sums::<T>(loops, &job, some_of, scratch) }
            }),
            Piece::Rim(units) => Windows::with(|windows| {
                for unit in some_of {
                    let (rows, columns, planes) = units.window(unit, layout.planes);
                    let Geometry { x, y } = geometry;
                    let (from_y, from_x) = (some(y.reach(rows.clone())), some(x.reach(columns.clone())));
                    let window = Window { border, y: from_y, x: from_x, plane: (y.input, x.input) };
                    let [memory] = windows.window.numbers::<T, 1>([window.elements(layout.pixel, planes.len())])?;
                    // SAFETY: the caller's promise; the memory just given holds the window.
                    unsafe { window.fill(layout, planes.clone(), memory) };
                    let part = layout.starting_at(rows.start, columns.start);
                    let part = part.window(memory.cast(), size_of::<T>(), window.size(), planes);
                    let geometry = Geometry { x: x.part(&window.x, &columns), y: y.part(&window.y, &rows) };
                    let Some(grid) = Grid::new(&geometry, &part) else { continue };
                    let job = Job { geometry: &geometry, layout: &part, grid: &grid, sums };
                    // SAFETY: the window and these outputs are readable; the caller's promise for the sums.
                    Scratch::with(|scratch| unsafe { product_sums::<T>(loops, &job, 0..grid.tiles, scratch) })?;
                }
                Ok(())
            }),
        }
    }
}
