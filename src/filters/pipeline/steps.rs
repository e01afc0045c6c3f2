//! Whether every sum along y takes as many steps as the loops of [`running`](crate::loops::running), and how many rows are
//! at hand where these run.

use super::{Direction, Kernel};
use crate::border::Border;
use crate::levels::FilterElement;
use crate::loops::memory_access::LINE;
use crate::loops::running::STEPS;
use crate::plan::strip::SLACK;
use firelu_core::dtype::Compute;
use firelu_cpu::features::Level;

/// Sums under way beside those that end.
pub const LATER: usize = STEPS - 1;

/// How many input rows are prepared before their phases are written, where sums run down the columns: one call of a loop
/// writes a phase of all of them.
pub const ROWS_AT_ONCE: usize = 4;

/// Whether all sums along y run in steps, and it pays: a kernel that is not separable loads each shift of a row once for
/// six rows. Sums of separable ones are short: in registers of half a line they are faster row by row.
pub fn is_possible<C: FilterElement + Compute>(ups: &[Direction<C>], down: &Direction<C>, phases: usize) -> bool {
    let level = <C as FilterElement>::loops(Level::current());
    let no_rule = |direction: &Direction<C>| direction.fill == Border::Constant && direction.fold == Border::Constant;
    let steps = STEPS as i64;
    level.running.is_some()
        && (level.lanes * size_of::<C>() == LINE || !all_separable(ups, down))
        && phases <= 16
        && ups.iter().all(|up| no_rule(up) && up.geometry.y.taps == steps * up.geometry.y.up)
        && no_rule(down)
        && down.geometry.y.taps == steps * down.geometry.y.down
}

/// Whether both kernels, and those of all streams, are separable.
pub fn all_separable<C>(ups: &[Direction<C>], down: &Direction<C>) -> bool {
    ups.iter().chain([down]).all(|direction| matches!(direction.kernel, Kernel::Separable(..)))
}

/// Steps of the way down at a time: about two dozen rows of the middle grid. Of separable kernels twice as many, since
/// beginning and ending takes the more of their time.
pub fn at_once<C>(ups: &[Direction<C>], down: &Direction<C>) -> usize {
    let rows = if all_separable(ups, down) { 8 } else { 4 };
    STEPS * (rows / down.geometry.y.down as usize).max(1)
}

/// The most rows of the middle grid that are there at once, and input rows of a way up.
pub fn most_rows<C>(up: &Direction<C>, down: &Direction<C>, at_once: usize) -> (usize, usize) {
    let rows = at_once * down.geometry.y.down as usize;
    let up = up.geometry.y.up as usize;
    (rows + up, LATER + rows / up + 2)
}

/// Rows of the middle grid's length that a tile takes, about.
pub fn rows<C>(ups: &[Direction<C>], down: &Direction<C>) -> usize {
    let at_once = at_once(ups, down);
    let of_ups = ups.iter().map(|up| {
        let (middle, inputs) = most_rows(up, down, at_once);
        middle + inputs + LATER * up.geometry.y.up as usize + 3
    });
    of_ups.sum::<usize>() + at_once + LATER + 3
}

/// The room for all of them: rows of the middle grid are so long, and input rows of each way up.
pub fn room<C>(row: usize, input_rows: &[usize], ups: &[Direction<C>], down: &Direction<C>) -> usize {
    let line = |elements: usize| (elements + SLACK).next_multiple_of(16);
    let at_once = at_once(ups, down);
    let of_ups = ups.iter().zip(input_rows).map(|(up, &input_row)| {
        let (middle, inputs) = most_rows(up, down, at_once);
        line(middle * row) + inputs * line(input_row) + line(LATER * up.geometry.y.up as usize * row)
    });
    of_ups.sum::<usize>() + line(LATER * row) + at_once * line(row)
}
