//! A filter with a border rule, cut into rectangles: one in the middle, to which no sample outside the input matters, and up
//! to four around it. The middle is filtered like any other call; those around it by way of windows, small dense copies
//! in which what lies outside has its values.

use smallvec::SmallVec;
use std::ops::Range;

use super::layout::Layout;
use crate::axis::{Axis, Geometry};
use crate::border::Border;
use firelu_core::error::Result;
use firelu_cpu::memory;

/// Elements of a window, so that it stays in the second-level cache.
pub const WINDOW_ELEMENTS: i64 = 1 << 15;

/// A rectangle of outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its rows.
    pub rows: Range<i64>,
    /// Its columns.
    pub columns: Range<i64>,
    /// Whether no sample outside matters to it.
    pub inner: bool,
}

/// Cuts the outputs around those in the middle; where these are less than half of all, nothing is cut.
pub fn parts(geometry: &Geometry, middle: (Range<i64>, Range<i64>)) -> SmallVec<[Part; 5]> {
    let (height, width) = (geometry.y.output, geometry.x.output);
    let (rows, columns) = middle;
    let area = |rows: &Range<i64>, columns: &Range<i64>| {
        (rows.end - rows.start).max(0) as f64 * (columns.end - columns.start).max(0) as f64
    };
    if 2.0 * area(&rows, &columns) < area(&(0..height), &(0..width)) {
        return SmallVec::from_iter([Part { rows: 0..height, columns: 0..width, inner: false }]);
    }
    let part = |rows: Range<i64>, columns: Range<i64>, inner| Part { rows, columns, inner };
    let all = [
        part(rows.clone(), columns.clone(), true),
        part(0..rows.start, 0..width, false),
        part(rows.clone(), 0..columns.start, false),
        part(rows.clone(), columns.end..width, false),
        part(rows.end..height, 0..width, false),
    ];
    all.into_iter().filter(|part| !part.rows.is_empty() && !part.columns.is_empty()).collect()
}

/// All outputs, to which nothing outside matters.
pub fn whole(geometry: &Geometry) -> SmallVec<[Part; 5]> {
    SmallVec::from_iter([Part { rows: 0..geometry.y.output, columns: 0..geometry.x.output, inner: true }])
}

/// The outputs of a forward filter that are summed from samples inside alone.
pub fn middle_of_forward(axis: &Axis) -> Range<i64> {
    let inner = axis.interior();
    inner.start..inner.end.max(inner.start)
}

/// The outputs of an adjoint, the samples of the forward input, that stand for nothing but themselves.
pub fn middle_of_adjoint(forward: &Axis, border: Border) -> Range<i64> {
    let (n, reach) = (forward.input, forward.reach(0..forward.output));
    let (before, after) = ((-reach.start).max(0), (reach.end - n).max(0));
    let (first, last) = match border {
        Border::Constant => (0, 0),
        Border::Edge => (before.min(1), after.min(1)),
        Border::Reflect => (if before > 0 { before + 1 } else { 0 }, if after > 0 { after + 1 } else { 0 }),
        Border::Symmetric => (before, after),
        Border::Wrap => (after, before),
    };
    let start = first.min(n);
    start..(n - last).max(start)
}

/// All positions inside and outside the forward input that stand for these of its samples and that any output is summed
/// from, as ranges in rising order.
pub fn positions_of(forward: &Axis, border: Border, samples: &Range<i64>) -> Result<Vec<Range<i64>>> {
    let mut ranges: Vec<Range<i64>> = Vec::new();
    let mut add = |range: Range<i64>| -> Result<()> {
        match ranges.last_mut() {
            _ if range.is_empty() => {}
            Some(last) if last.end == range.start => last.end = range.end,
            _ => {
                if ranges.len() == ranges.capacity() {
                    let more = ranges.len().max(4);
                    memory::reserve(&mut ranges, more)?;
                }
                ranges.push(range);
            }
        }
        Ok(())
    };
    let n = forward.input;
    let stands_for_one = |position: i64| {
        border.source(position as isize, n as usize).is_some_and(|sample| samples.contains(&(sample as i64)))
    };
    let mut met = i64::MIN;
    for reach in reaches(forward) {
        let reach = reach.start.max(met)..reach.end;
        met = met.max(reach.end);
        for position in (reach.start..reach.end.min(0)).filter(|&position| stands_for_one(position)) {
            add(position..position + 1)?;
        }
        add(reach.start.max(samples.start)..reach.end.min(samples.end))?;
        for position in (reach.start.max(n)..reach.end).filter(|&position| stands_for_one(position)) {
            add(position..position + 1)?;
        }
    }
    Ok(ranges)
}

/// The positions that outputs are summed from: at once, or, where outputs are further apart than the kernel is long, output by
/// output.
fn reaches(forward: &Axis) -> impl Iterator<Item = Range<i64>> + use<> {
    let axis = *forward;
    let at_once = if axis.down <= axis.taps { axis.output } else { 1 };
    (0..axis.output / at_once).map(move |part| axis.reach(part * at_once..(part + 1) * at_once))
}

/// So many inputs and outputs lie in a window of so many outputs.
fn weight(axis: &Axis, outputs: i64) -> i64 {
    (outputs.saturating_mul(axis.down) / axis.up + axis.most_taps() + 1).max(outputs)
}

/// The elements of a window of so many rows and columns of outputs.
pub fn window_elements(geometry: &Geometry, (rows, columns): (i64, i64), pixel: usize) -> i64 {
    weight(&geometry.y, rows).saturating_mul(weight(&geometry.x, columns)).saturating_mul(pixel as i64)
}

/// How many rows and columns of outputs, of so many, have a place in a window.
pub fn fitting(geometry: &Geometry, most: (i64, i64), pixel: usize) -> (i64, i64) {
    let (mut rows, mut columns) = most;
    while window_elements(geometry, (rows, columns), pixel) > WINDOW_ELEMENTS && (rows > 1 || columns > 1) {
        // Long rows are filtered faster than short ones.
        if rows > 16 || columns == 1 {
            rows = (rows + 1) / 2;
        } else {
            columns = (columns + 1) / 2;
        }
    }
    (rows, columns)
}

/// Windows of so many rows, columns and planes at most, plane by plane and row by row.
pub struct Units {
    part: Part,
    rows: i64,
    columns: i64,
    planes: usize,
}

impl Units {
    /// The windows of a part, each of as many planes as have a place in it where planes are evenly apart.
    pub fn new(geometry: &Geometry, part: Part, layout: &Layout) -> Self {
        let most = (part.rows.end - part.rows.start, part.columns.end - part.columns.start);
        let (rows, columns) = fitting(geometry, most, layout.pixel);
        let elements = window_elements(geometry, (rows, columns), layout.pixel);
        let planes = match layout.plane_strides() {
            Some(_) => ((WINDOW_ELEMENTS / elements) as usize).clamp(1, layout.planes.max(1)),
            None => 1,
        };
        Units { part, rows, columns, planes }
    }

    /// How many windows so many planes have.
    pub fn count(&self, planes: usize) -> usize {
        self.across() * self.down() * planes.div_ceil(self.planes)
    }

    fn across(&self) -> usize {
        pieces(&self.part.columns, self.columns)
    }

    fn down(&self) -> usize {
        pieces(&self.part.rows, self.rows)
    }

    /// The rows, columns and planes of a window, of which so many planes are all.
    pub fn window(&self, unit: usize, planes: usize) -> (Range<i64>, Range<i64>, Range<usize>) {
        let piece = |range: &Range<i64>, most: i64, index: usize| {
            let start = range.start + index as i64 * most;
            start..(start + most).min(range.end)
        };
        let (across, down) = (self.across(), self.down());
        let first = unit / (across * down) * self.planes;
        let rows = piece(&self.part.rows, self.rows, unit / across % down);
        (rows, piece(&self.part.columns, self.columns, unit % across), first..(first + self.planes).min(planes))
    }
}

/// How many pieces of so much at most a range has.
fn pieces(range: &Range<i64>, most: i64) -> usize {
    ((range.end - range.start) as usize).div_ceil(most as usize)
}

/// The range, with one more where it is empty: windows have elements.
pub fn some(range: Range<i64>) -> Range<i64> {
    range.start..range.end.max(range.start + 1)
}

/// A range in pieces of so many at most.
pub fn cut(range: &Range<i64>, most: i64) -> impl Iterator<Item = Range<i64>> + use<> {
    let (start, end) = (range.start, range.end);
    (0..pieces(range, most) as i64).map(move |piece| start + piece * most..(start + (piece + 1) * most).min(end))
}
