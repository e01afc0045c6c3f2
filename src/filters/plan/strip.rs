//! A strip of output columns: which input columns it needs, and how they are laid out so that every tap reads one after
//! the other.
//!
//! With `p` outputs per period and `step` inputs per period, input columns are split into `step` rows
//! (every `step`-th column each) and outputs computed in `p` phases, so that no phase skips a column
//! and no work is done on inserted zeros or dropped samples. A column is `pixel` elements wide: one in
//! planar tensors, all channels in channels-last ones.

use smallvec::SmallVec;
use std::ops::Range;

use crate::axis::Axis;
use crate::loops::split::Columns;
use firelu_core::dtype::Compute;

/// Elements that every row of scratch memory has to spare, for registers that reach past its end.
pub const SLACK: usize = 32;

/// The horizontal geometry of one strip.
#[derive(Default)]
pub struct Strip {
    /// The output columns.
    pub columns: Range<usize>,
    /// The first input column that a tap reads; may lie outside the input.
    first: i64,
    /// The input columns that taps read and the input has.
    pub inside: Range<i64>,
    /// Elements of a column.
    pub pixel: usize,
    /// Into how many rows input columns are split.
    pub step: usize,
    /// The length of each of these rows.
    pitch: usize,
    /// In how many phases outputs are computed.
    pub phases: usize,
    /// Where each phase ends in the two lists below.
    pub bounds: SmallVec<[usize; 8]>,
    /// Where each term starts in a prepared row.
    pub offsets: SmallVec<[usize; 16]>,
    /// Which tap along x it has.
    pub taps: SmallVec<[usize; 16]>,
}

/// The terms of every phase for certain prepared rows.
pub struct Terms<C> {
    /// Where each term is read.
    pub sources: SmallVec<[*const C; 32]>,
    /// What each term is multiplied by, phase by phase.
    pub taps: SmallVec<[C; 32]>,
    /// Where each phase ends.
    pub bounds: SmallVec<[usize; 8]>,
    /// Whether a phase has no terms at all.
    pub gaps: bool,
}

impl<C> Default for Terms<C> {
    fn default() -> Self {
        Terms { sources: SmallVec::new(), taps: SmallVec::new(), bounds: SmallVec::new(), gaps: false }
    }
}

impl Strip {
    /// The strip of these output columns.
    #[inline]
    pub fn new(axis: &Axis, columns: Range<usize>, pixel: usize) -> Self {
        let (period, step) = axis.period();
        let phases = (period as usize).min(columns.len());
        let first = axis.support(columns.start as i64).start;
        // Starts never fall from one output to the next.
        let last = axis.support(columns.end as i64 - 1).start + axis.most_taps();
        let (length, step) = ((last - first) as usize, step as usize);
        // With one output in each phase nothing recurs.
        let step = if columns.len() <= phases { 1 } else { step };
        let pitch = if step == 1 { length } else { length.div_ceil(step) } * pixel;
        let inside = first.max(0)..last.min(axis.input).max(first.max(0));
        let mut strip = Strip { first, inside, pixel, step, pitch, phases, ..Strip::default() };
        for phase in 0..phases {
            let support = axis.support((columns.start + phase) as i64);
            for m in 0..support.count {
                let column = (support.start + m - first) as usize;
                let split = if step == 1 { column * pixel } else { column % step * pitch + column / step * pixel };
                strip.offsets.push(split);
                strip.taps.push((support.tap + m * axis.up) as usize);
            }
            strip.bounds.push(strip.offsets.len());
        }
        strip.columns = columns;
        strip
    }

    /// The elements of a prepared row, with room to spare.
    pub fn prepared_length(&self) -> usize {
        (self.step * self.pitch + SLACK).next_multiple_of(16)
    }

    /// The elements of an output row, with room to spare.
    pub fn output_length(&self) -> usize {
        (self.columns.len() * self.pixel + SLACK).next_multiple_of(16)
    }

    /// The elements of the input row inside the strip.
    pub fn inside_length(&self) -> usize {
        (self.inside.end - self.inside.start) as usize * self.pixel
    }

    /// Whether a prepared row is the input row as it stands, so that it can be written in one go.
    pub fn is_plain(&self) -> bool {
        self.step == 1
    }

    /// Where in a plain prepared row the first column inside stands.
    pub fn inside_offset(&self) -> usize {
        (self.inside.start - self.first) as usize * self.pixel
    }

    /// Where in a prepared row the first two elements inside stand, if every second one follows them.
    pub fn places(&self) -> Option<[usize; 2]> {
        let column = (self.inside.start - self.first) as usize;
        match (self.step, self.pixel) {
            (1, _) => Some([self.inside_offset(), self.inside_offset() + 1]),
            (2, 1) => Some([column, column + 1].map(|column| column % 2 * self.pitch + column / 2)),
            _ => None,
        }
    }

    /// Where the first window starts, counted from the first column inside.
    pub fn start(&self) -> isize {
        (self.first - self.inside.start) as isize
    }

    /// Writes the terms of every phase over several prepared rows, whose taps along x stand from a
    /// given place on.
    pub fn fill_terms<C: Compute>(&self, terms: &mut Terms<C>, rows: &[(*const C, usize)], taps: &[C]) {
        terms.sources.clear();
        terms.taps.clear();
        terms.bounds.clear();
        terms.gaps = false;
        let mut start = 0;
        for &end in &self.bounds {
            for &(row, first_tap) in rows {
                for term in start..end {
                    terms.sources.push(row.wrapping_add(self.offsets[term]));
                    terms.taps.push(taps[first_tap + self.taps[term]]);
                }
            }
            terms.gaps |= start == end || rows.is_empty();
            terms.bounds.push(terms.sources.len());
            start = end;
        }
    }

    /// Which columns of an input row are split, and where they go in a prepared row.
    pub fn split_columns(&self) -> Columns {
        let [start, end] = [self.inside.start, self.inside.end].map(|column| (column - self.first) as usize);
        Columns { step: self.step, pitch: self.pitch, start, end }
    }
}
