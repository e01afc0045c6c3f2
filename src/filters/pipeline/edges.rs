//! What happens at the ends of a line: which places outside stand for which inside.

use std::ops::Range;

use super::cover;
use crate::border::Border;

/// A place outside a line, and the place inside that it stands for; none where it is zero.
pub type Outside = (i64, Option<i64>);

/// The places of a range that lie outside a line of this length.
pub fn outside(rule: Border, range: Range<i64>, length: i64) -> Vec<Outside> {
    let places = (range.start..range.end.min(0)).chain(range.start.max(length)..range.end);
    places.map(|place| (place, rule.source(place as isize, length as usize).map(|place| place as i64))).collect()
}

/// The smallest range that holds this one and, with each place, all that it stands for or that stand for it.
pub fn closed(mut range: Range<i64>, outside: &[Outside]) -> Range<i64> {
    loop {
        let before = range.clone();
        for &(place, stands_for) in outside {
            let Some(inside) = stands_for else { continue };
            if range.contains(&place) || range.contains(&inside) {
                range = cover(range, place.min(inside)..place.max(inside) + 1);
            }
        }
        if range == before {
            return range;
        }
    }
}
