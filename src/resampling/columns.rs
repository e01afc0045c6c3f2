//! Where the columns of a call come from.

use std::ops::Range;

use firelu_filters::border::Border;

use crate::axis::sources;

/// The columns that outputs need: those beyond the left end, those that there are, those beyond the right end.
pub struct Columns {
    pub left: Vec<Option<usize>>,
    pub middle: Range<usize>,
    pub right: Vec<Option<usize>>,
    /// The first, counted from the first that there is.
    pub first: isize,
}

impl Columns {
    pub fn new(places: Range<isize>, length: usize, border: Border) -> Self {
        let (start, end, length) = (places.start, places.end, length as isize);
        let middle = start.clamp(0, length)..end.clamp(0, length);
        let middle = middle.start as usize..middle.end.max(middle.start) as usize;
        let left = sources(border, start..end.min(0), length as usize);
        let right = sources(border, start.max(length)..end, length as usize);
        Columns { left, middle, right, first: start }
    }
}
