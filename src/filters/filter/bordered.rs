//! Filters with a border rule. The rectangle in the middle, to which no sample outside matters, runs as a call of its own;
//! those around it in windows. A forward filter reads a window in which samples outside have their values. The adjoint
//! writes one that reaches outside, and what lies there is added to the samples that it stands for.

use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

use super::{Request, run_tiles};
use crate::axis::Geometry;
use crate::border::Border;
use crate::levels::FilterElement;
use crate::plan::layout::Layout;
use crate::plan::order::{Order, choose_order};
use crate::plan::rim::{self, Part, Units, cut, some};
use crate::plan::taps::Taps;
use crate::plan::tiles::Plan;
use crate::scratch::{Scratch, Windows};
use crate::window::{Window, add, round_row};
use firelu_core::error::Result;
use firelu_cpu::features::Level;
use firelu_cpu::parallel;

/// A call, cut.
pub struct Bordered<'a, T: FilterElement<Compute: FilterElement>> {
    geometry: Geometry,
    border: Border,
    adjoint: bool,
    order: Order,
    taps: &'a Arc<Taps<T::Compute>>,
    layout: &'a Layout,
    level: Level,
    /// The rectangles, and how each is computed.
    pieces: SmallVec<[Piece; 5]>,
}

/// A rectangle of outputs, and how it is computed.
#[allow(clippy::large_enum_variant, reason = "a few of them at a time")]
enum Piece {
    /// As a call of its own, at this place of the output.
    Middle(Plan, Layout),
    /// In windows.
    Rim(Units),
}

impl Piece {
    fn tasks(&self, planes: usize) -> usize {
        match self {
            Piece::Middle(plan, layout) => plan.tasks(layout.planes),
            Piece::Rim(units) => units.count(planes),
        }
    }
}

impl<'a, T: FilterElement<Compute: FilterElement>> Bordered<'a, T> {
    /// Cuts a call whose border is not zeros.
    pub fn new(request: &Request<'_>, taps: &'a Arc<Taps<T::Compute>>, layout: &'a Layout, level: Level) -> Self {
        let Request { geometry, border, adjoint, .. } = *request;
        let order = choose_order(&geometry, taps);
        let forward = geometry.transposed();
        let (rows, mut columns) = match adjoint {
            true => (rim::middle_of_adjoint(&forward.y, border), rim::middle_of_adjoint(&forward.x, border)),
            false => (rim::middle_of_forward(&geometry.y), rim::middle_of_forward(&geometry.x)),
        };
        // Rows of the middle begin with a line where those of the output do.
        let line = (64 / size_of::<T>()) as i64;
        if layout.pixel == 1 {
            columns.start = (columns.start as u64).next_multiple_of(line as u64) as i64;
        }
        let middle = |part: &Part| {
            let x = geometry.x.part(&(0..geometry.x.input), &part.columns);
            let y = geometry.y.part(&(0..geometry.y.input), &part.rows);
            let layout = layout.starting_at(part.rows.start, part.columns.start);
            Piece::Middle(Plan::in_order::<T>(Geometry { x, y }, order, &layout), layout)
        };
        let pieces = rim::parts(&geometry, (rows, columns));
        let pieces = pieces
            .into_iter()
            .map(|part| if part.inner { middle(&part) } else { Piece::Rim(Units::new(&geometry, part, layout)) });
        Bordered { geometry, border, adjoint, order, taps, layout, level, pieces: pieces.collect() }
    }

    /// How the rectangle in the middle is computed, where there is one.
    pub fn middle(&self) -> Option<&Plan> {
        self.pieces.iter().find_map(|piece| match piece {
            Piece::Middle(plan, _) => Some(plan),
            Piece::Rim(_) => None,
        })
    }

    /// The rectangles around it: a few words for people.
    pub fn rims(&self) -> String {
        let rims = self.pieces.len() - usize::from(self.middle().is_some());
        format!("{rims} part(s) in windows {}", if self.adjoint { "folded back" } else { "that reach outside" })
    }

    /// How many tasks there are.
    pub fn tasks(&self) -> usize {
        self.pieces.iter().map(|piece| piece.tasks(self.layout.planes)).sum()
    }

    /// Computes everything.
    pub fn run(&self) -> Result<()> {
        let planes = self.layout.planes;
        let work = Plan::in_order::<T>(self.geometry, self.order, self.layout).work;
        parallel::try_for_each(self.tasks(), work, |mut task| {
            for piece in &self.pieces {
                let tasks = piece.tasks(planes);
                if task >= tasks {
                    task -= tasks;
                    continue;
                }
                return Scratch::with(|scratch| match piece {
                    Piece::Middle(plan, layout) => {
                        let (first, tiles) = (task * plan.tiles, plan.strips * plan.bands * planes);
                        let tiles = first..(first + plan.tiles).min(tiles);
                        // SAFETY: the views promise every element of the layout, and tiles write disjoint parts.
                        unsafe { run_tiles::<T>(T::loops(self.level), plan, self.taps, layout, tiles, scratch) }
                    }
                    Piece::Rim(units) => Windows::with(|windows| {
                        let (rows, columns, planes) = units.window(task, planes);
                        // SAFETY: as above; windows are disjoint.
                        unsafe {
                            match self.adjoint {
                                true => self.fold(rows, columns, planes, windows, scratch),
                                false => self.extend(rows, columns, planes, windows, scratch),
                            }
                        }
                    }),
                });
            }
            Ok(())
        })
    }

    /// Computes some outputs of a forward filter from a window that reaches outside the input.
    ///
    /// # Safety
    /// Every element of the layout is readable or writable, and no one else writes to these outputs.
    unsafe fn extend(
        &self,
        rows: Range<i64>,
        columns: Range<i64>,
        planes: Range<usize>,
        windows: &mut Windows,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Geometry { x, y } = &self.geometry;
        let (from_y, from_x) = (y.reach(rows.clone()), x.reach(columns.clone()));
        let window = Window { border: self.border, y: some(from_y), x: some(from_x), plane: (y.input, x.input) };
        let length = window.elements(self.layout.pixel, planes.len());
        let [memory] = windows.window.numbers::<T, 1>([length])?;
        // SAFETY: the caller's promise; the memory just given holds the window.
        unsafe { window.fill(self.layout, planes.clone(), memory) };
        let size = window.size();
        let layout = self.layout.starting_at(rows.start, columns.start);
        let layout = layout.window(memory.cast(), size_of::<T>(), size, planes);
        let geometry = Geometry { x: x.part(&window.x, &columns), y: y.part(&window.y, &rows) };
        // SAFETY: the window is all that these outputs are summed from; the caller's promise for the output.
        unsafe { self.run_window::<T>(geometry, &layout, scratch) }
    }

    /// Runs a whole call on a window.
    unsafe fn run_window<E>(&self, geometry: Geometry, layout: &Layout, scratch: &mut Scratch) -> Result<()>
    where
        E: FilterElement<Compute = T::Compute>,
    {
        let plan = Plan::in_order::<E>(geometry, self.order, layout);
        let tiles = 0..plan.strips * plan.bands * layout.planes;
        // SAFETY: the caller's promise that every element of the layout is readable or writable.
        unsafe { run_tiles::<E>(E::loops(self.level), &plan, self.taps, layout, tiles, scratch) }
    }

    /// Computes some outputs of an adjoint: all positions that stand for them, added up in their order.
    ///
    /// # Safety
    /// Every element of the layout is readable or writable, and no one else writes to these outputs.
    unsafe fn fold(
        &self,
        rows: Range<i64>,
        columns: Range<i64>,
        planes: Range<usize>,
        windows: &mut Windows,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (Geometry { x, y }, pixel) = (&self.geometry, self.layout.pixel);
        let forward = self.geometry.transposed();
        let (across, down) =
            (rim::positions_of(&forward.x, self.border, &columns)?, rim::positions_of(&forward.y, self.border, &rows)?);
        let row_length = (columns.end - columns.start) as usize * pixel;
        let longest = |ranges: &[Range<i64>]| ranges.iter().fold(1, |most, range| most.max(range.end - range.start));
        let most = rim::fitting(&self.geometry, (longest(&down), longest(&across)), pixel);
        let plane_length = (rows.end - rows.start) as usize * row_length;
        let lengths = [plane_length, most.0 as usize * row_length].map(|length| length * planes.len());
        let [sums, lines] = windows.sums.numbers::<T::Compute, 2>(lengths)?;
        // SAFETY: the memory just given holds that many.
        unsafe { sums.write_bytes(0, lengths[0]) };
        for to_y in down.iter().flat_map(|range| cut(range, most.0)) {
            let from_y = y.inputs_of(to_y.clone());
            // First along each line, then lines: so the order of the sums depends on no window.
            // SAFETY: as above.
            unsafe { lines.write_bytes(0, lengths[1]) };
            for to_x in across.iter().flat_map(|range| cut(range, most.1)) {
                let from_x = x.inputs_of(to_x.clone());
                if from_y.is_empty() || from_x.is_empty() {
                    continue;
                }
                let inside =
                    Window { border: Border::Constant, y: from_y.clone(), x: from_x, plane: (y.input, x.input) };
                let outside = Window { border: self.border, y: to_y.clone(), x: to_x, plane: (y.output, x.output) };
                let lengths = [&inside, &outside].map(|window| window.elements(pixel, planes.len()));
                let [source, target] = windows.window.numbers::<T::Compute, 2>(lengths)?;
                let geometry = Geometry { x: x.part(&inside.x, &outside.x), y: y.part(&inside.y, &outside.y) };
                let size = size_of::<T::Compute>();
                let layout = self.layout.window(source.cast(), size, inside.size(), planes.clone());
                let layout = layout.between_windows(target.cast(), size, outside.size());
                // SAFETY: the caller's promise; the memory just given holds both windows, that before it the lines.
                unsafe {
                    inside.widen::<T>(self.layout, planes.clone(), source);
                    self.run_window::<T::Compute>(geometry, &layout, scratch)?;
                    outside.fold_columns(target, lines, &columns, pixel, planes.len());
                }
            }
            for plane in 0..planes.len() {
                for (line, position) in to_y.clone().enumerate() {
                    let line = (plane * (to_y.end - to_y.start) as usize + line) * row_length;
                    let sample = self.border.source(position as isize, y.output as usize).unwrap_or(0);
                    let sum = plane * plane_length + (sample - rows.start as usize) * row_length;
                    // SAFETY: every position stands for one of the rows; both have room for a row.
                    unsafe { add(lines.wrapping_add(line), sums.wrapping_add(sum), row_length) };
                }
            }
        }
        let side = &self.layout.second;
        for (index, plane) in planes.enumerate() {
            let offset = self.layout.offsets(plane).1;
            for row in rows.clone() {
                let from = sums.wrapping_add(index * plane_length + (row - rows.start) as usize * row_length);
                // SAFETY: the caller's promise for the output; the sums hold the row.
                unsafe { round_row::<T>(from, side, side.place(row, columns.start, offset), row_length) };
            }
        }
        Ok(())
    }
}
