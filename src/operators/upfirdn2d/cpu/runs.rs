//! Output rows that are summed with the same taps.

use smallvec::SmallVec;
use std::ops::Range;

use super::factor::Taps;
use super::rows::Rows;
use super::tile::Tile;
use crate::core::dtype::Compute;
use crate::operators::upfirdn2d::params::{Axis, Support};

/// The input rows inside the input that an output row is summed from, and the first one's tap.
#[inline(always)]
pub fn rows_inside(axis: &Axis, Support { start, tap, count }: Support) -> (Range<i64>, usize) {
    let first = start.max(0);
    (first..(start + count).min(axis.input), (tap + (first - start) * axis.up) as usize)
}

/// Output rows with the same taps, each the same number of rows after the last.
pub struct Run {
    /// The first.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// From each output row to the next.
    pub outputs: usize,
    /// From each row's first input row to the next's.
    pub inputs: usize,
    /// What the first is summed from.
    pub support: Support,
}

impl Run {
    fn new(axis: &Axis, first: usize, count: usize, (outputs, inputs): (usize, usize)) -> Self {
        Run { first, count, outputs, inputs, support: axis.support(first as i64) }
    }
}

/// All rows of a tile: those at the border alone, the others phase by phase.
pub fn runs(axis: &Axis, rows: &Range<usize>) -> impl Iterator<Item = Run> {
    let (inner, period) = (interior(axis, rows), period(axis));
    let border = (rows.start..inner.start).chain(inner.end..rows.end).map(|first| (first, 1));
    let first_period = inner.start..inner.end.min(inner.start + period.0);
    let phases = first_period.map(move |first| (first, (inner.end - first).div_ceil(period.0)));
    border.chain(phases).map(move |(first, count)| Run::new(axis, first, count, period))
}

/// All rows that have the same taps, those at the border aside.
pub fn run_of_all(axis: &Axis, rows: &Range<usize>) -> Option<Run> {
    let (inner, period) = (interior(axis, rows), period(axis));
    (period.0 == 1 && !inner.is_empty()).then(|| Run::new(axis, inner.start, inner.len(), period))
}

/// All rows that can be taken two at a time, those at the border aside: the first of each pair.
pub fn run_of_pairs(axis: &Axis, rows: &Range<usize>) -> Option<Run> {
    let (inner, (outputs, inputs)) = (interior(axis, rows), period(axis));
    let pairs = inner.len() / 2;
    (outputs <= 2 && pairs > 0).then(|| Run::new(axis, inner.start, pairs, (2, inputs * 2 / outputs)))
}

/// The rows whose taps all lie inside the input.
fn interior(axis: &Axis, rows: &Range<usize>) -> Range<usize> {
    let interior = axis.interior();
    let top = (interior.start.max(0) as usize).clamp(rows.start, rows.end);
    top..(interior.end.max(0) as usize).clamp(top, rows.end)
}

fn period(axis: &Axis) -> (usize, usize) {
    let (outputs, inputs) = axis.period();
    (outputs as usize, inputs as usize)
}

/// Stands for a row of zeros among the offsets.
pub const ZEROS: isize = isize::MIN;

/// The runs of a tile, relative to its first input and its first output.
#[derive(Default)]
pub struct Runs<C> {
    /// The rows and strides that these runs are for.
    key: (Range<usize>, isize, isize),
    /// The runs.
    pub list: SmallVec<[PlacedRun; 8]>,
    /// Bytes from the tile's first input row to each term's; `ZEROS` for a row of zeros.
    pub offsets: SmallVec<[isize; 32]>,
    /// What each term is multiplied by.
    pub taps: SmallVec<[C; 32]>,
}

/// A run and its terms.
pub struct PlacedRun {
    /// Its terms among the offsets and taps.
    pub terms: Range<usize>,
    /// Bytes from the tile's first output row.
    pub target: isize,
    /// In how many phases its rows take turns, each with as many terms.
    pub phases: usize,
    /// How many rows and how far apart; from row to row of a phase in the sources.
    pub rows: Rows,
}

impl<C: Compute> Runs<C> {
    /// The most terms that a run has.
    pub fn most_terms(&self) -> usize {
        self.list.iter().fold(0, |most, run| most.max(run.terms.len()))
    }

    /// Whether these are the runs of such a tile.
    pub fn fit<T>(&self, tile: &Tile<T>) -> bool {
        !self.list.is_empty() && self.key == (tile.rows.clone(), tile.source_row, tile.target_row)
    }

    /// The runs of a tile, each of so many rows at most and of so many terms at least.
    pub fn refill<T>(&mut self, y: &Axis, taps: &Taps<C>, tile: &Tile<T>, at_once: usize, terms: usize) {
        self.key = (tile.rows.clone(), tile.source_row, tile.target_row);
        self.list.clear();
        self.offsets.clear();
        self.taps.clear();
        let Some((_, along_y)) = &taps.separable else { return };
        let at_once = at_once * y.period().0 as usize;
        let mut first = tile.rows.start;
        while first < tile.rows.end {
            let rows = first..(first + at_once).min(tile.rows.end);
            first = rows.end;
            for run in runs(y, &rows) {
                let (inputs, mut tap) = rows_inside(y, run.support);
                let (start, inside) = (self.offsets.len(), (inputs.end - inputs.start).max(0) as usize);
                // A product of minus zero changes no sum, not even the sign of a zero.
                for _ in inside..if inside == 0 || run.count > 1 { 0 } else { terms } {
                    self.offsets.push(ZEROS);
                    self.taps.push(C::from_f64(-0.0));
                }
                let mut offset = inputs.start as isize * tile.source_row;
                for _ in 0..inside {
                    self.offsets.push(offset);
                    self.taps.push(along_y[tap]);
                    (offset, tap) = (offset.wrapping_add(tile.source_row), tap + y.up as usize);
                }
                let (source, target) = (run.inputs as isize * tile.source_row, run.outputs as isize * tile.target_row);
                let place = (run.first - tile.rows.start) as isize * tile.target_row;
                // Memory is written in its order where the rows of two phases can take turns.
                if let Some(last) = self.list.last_mut()
                    && (run.outputs, run.count > 1, last.rows.count > 1, last.phases) == (2, true, true, 1)
                    && last.target + tile.target_row == place
                    && (last.terms.len(), self.offsets.len() - start) == (terms, terms)
                {
                    (last.phases, last.terms.end) = (2, self.offsets.len());
                    (last.rows.count, last.rows.target) = (last.rows.count + run.count, tile.target_row);
                    continue;
                }
                self.list.push(PlacedRun {
                    terms: start..self.offsets.len(),
                    target: place,
                    phases: 1,
                    rows: Rows { count: run.count, source, target },
                });
            }
        }
    }
}
