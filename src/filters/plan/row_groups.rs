//! Output rows that are summed with the same taps, in groups: a loop computes a group in one call.
//!
//! Rows at the border are rows like the others: terms outside the input are read from a row of zeros and multiplied by
//! minus zero, a product that changes no sum, not even the sign of a zero. So the loops for a known number of terms serve
//! them too, and planes of a few rows, in which every third row is at the border, are not slow.

use smallvec::SmallVec;
use std::ops::Range;

use super::taps::Taps;
use crate::axis::{Axis, Support};
use crate::loops::memory_access::Rows;
use firelu_core::dtype::Compute;

/// The input rows inside the input that an output row is summed from, and the first one's tap.
#[inline(always)]
pub fn rows_inside(axis: &Axis, Support { start, tap, count }: Support) -> (Range<i64>, usize) {
    let first = start.max(0);
    (first..(start + count).min(axis.input), (tap + (first - start) * axis.up) as usize)
}

/// Output rows with the same taps, each the same number of rows after the last.
pub struct RowGroup {
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

impl RowGroup {
    fn new(axis: &Axis, first: usize, count: usize, (outputs, inputs): (usize, usize)) -> Self {
        RowGroup { first, count, outputs, inputs, support: axis.support(first as i64) }
    }
}

/// All rows of a tile: those at the border alone, the others phase by phase.
pub fn groups(axis: &Axis, rows: &Range<usize>) -> impl Iterator<Item = RowGroup> {
    let (inner, period) = (interior(axis, rows), period(axis));
    let border = (rows.start..inner.start).chain(inner.end..rows.end).map(|first| (first, 1));
    let first_period = inner.start..inner.end.min(inner.start + period.0);
    let phases = first_period.map(move |first| (first, (inner.end - first).div_ceil(period.0)));
    border.chain(phases).map(move |(first, count)| RowGroup::new(axis, first, count, period))
}

/// All rows that have the same taps, those at the border aside.
pub fn group_of_all(axis: &Axis, rows: &Range<usize>) -> Option<RowGroup> {
    let (inner, period) = (interior(axis, rows), period(axis));
    (period.0 == 1 && !inner.is_empty()).then(|| RowGroup::new(axis, inner.start, inner.len(), period))
}

/// All rows that can be taken two at a time, those at the border aside: the first of each pair.
pub fn group_of_pairs(axis: &Axis, rows: &Range<usize>) -> Option<RowGroup> {
    let (inner, (outputs, inputs)) = (interior(axis, rows), period(axis));
    let pairs = inner.len() / 2;
    (outputs <= 2 && pairs > 0).then(|| RowGroup::new(axis, inner.start, pairs, (2, inputs * 2 / outputs)))
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

/// Output rows, and how far apart the rows of their tile are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowPlaces {
    /// The output rows.
    pub rows: Range<usize>,
    /// Bytes from input row to input row.
    pub source_row: isize,
    /// Bytes from output row to output row.
    pub target_row: isize,
}

/// Stands for a row of zeros among the offsets.
pub const ZEROS: isize = isize::MIN;

/// The groups of a tile, relative to its first input and its first output.
#[derive(Default)]
pub struct RowGroups<C> {
    /// The rows and strides that these groups are for.
    key: RowPlaces,
    /// The groups.
    pub list: SmallVec<[PlacedGroup; 8]>,
    /// Bytes from the tile's first input row to each term's; `ZEROS` for a row of zeros.
    pub offsets: SmallVec<[isize; 32]>,
    /// What each term is multiplied by.
    pub taps: SmallVec<[C; 32]>,
}

/// A group and its terms.
pub struct PlacedGroup {
    /// Its terms among the offsets and taps.
    pub terms: Range<usize>,
    /// Bytes from the tile's first output row.
    pub target: isize,
    /// In how many phases its rows take turns, each with as many terms.
    pub phases: usize,
    /// How many rows and how far apart; from row to row of a phase in the sources.
    pub rows: Rows,
}

impl<C: Compute> RowGroups<C> {
    /// The most terms that a group has.
    pub fn most_terms(&self) -> usize {
        self.list.iter().fold(0, |most, group| most.max(group.terms.len()))
    }

    /// Whether these are the groups of such rows.
    pub fn fit(&self, rows: &RowPlaces) -> bool {
        !self.list.is_empty() && self.key == *rows
    }

    /// The groups of these rows, each of so many at most and of so many terms at least.
    pub fn refill(&mut self, y: &Axis, taps: &Taps<C>, tile: &RowPlaces, at_once: usize, terms: usize) {
        self.key = tile.clone();
        self.list.clear();
        self.offsets.clear();
        self.taps.clear();
        let Some((_, along_y)) = &taps.separable else { return };
        let at_once = at_once * y.period().0 as usize;
        let mut first = tile.rows.start;
        while first < tile.rows.end {
            let rows = first..(first + at_once).min(tile.rows.end);
            first = rows.end;
            for group in groups(y, &rows) {
                let (inputs, mut tap) = rows_inside(y, group.support);
                let (start, inside) = (self.offsets.len(), (inputs.end - inputs.start).max(0) as usize);
                // A product of minus zero changes no sum, not even the sign of a zero.
                for _ in inside..if inside == 0 || group.count > 1 { 0 } else { terms } {
                    self.offsets.push(ZEROS);
                    self.taps.push(C::from_f64(-0.0));
                }
                let mut offset = inputs.start as isize * tile.source_row;
                for _ in 0..inside {
                    self.offsets.push(offset);
                    self.taps.push(along_y[tap]);
                    (offset, tap) = (offset.wrapping_add(tile.source_row), tap + y.up as usize);
                }
                let (source, target) =
                    (group.inputs as isize * tile.source_row, group.outputs as isize * tile.target_row);
                let place = (group.first - tile.rows.start) as isize * tile.target_row;
                // Memory is written in its order where the rows of two phases can take turns.
                if let Some(last) = self.list.last_mut()
                    && (group.outputs, group.count > 1, last.rows.count > 1, last.phases) == (2, true, true, 1)
                    && last.target + tile.target_row == place
                    && (last.terms.len(), self.offsets.len() - start) == (terms, terms)
                {
                    (last.phases, last.terms.end) = (2, self.offsets.len());
                    (last.rows.count, last.rows.target) = (last.rows.count + group.count, tile.target_row);
                    continue;
                }
                self.list.push(PlacedGroup {
                    terms: start..self.offsets.len(),
                    target: place,
                    phases: 1,
                    rows: Rows { count: group.count, source, target },
                });
            }
        }
    }
}
