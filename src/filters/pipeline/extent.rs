//! How a call is cut into tiles, and which columns and rows of each grid a tile needs.

use std::ops::Range;

use super::edges::{Outside, closed, outside};
use super::steps::ROWS_AT_ONCE;
use super::{Direction, Kernel, steps};
use crate::axis::Axis;
use crate::border::Border;
use crate::levels::FilterElement;
use crate::plan::strip::SLACK;
use firelu_core::dtype::Compute;

/// What the rows of a tile may take of the caches: a call of a loop costs as much as some registers of a row, so that
/// rows twice as long, in the second-level cache, are faster than what the first level holds.
const CACHED_BYTES: usize = 96 << 10;
/// The same where every row passes for itself: then nothing but the row at hand is kept, and all its stages stay in the
/// first level together.
const PASSING_BYTES: usize = 24 << 10;
/// The same where sums run down the columns, for each way up: many rows one after the other, in the second-level cache.
const RUNNING_BYTES: usize = 384 << 10;
/// The most kinds of strips of a row: one stands for all that nothing outside matters to.
pub const KINDS: usize = 4;
/// Output rows of a tile, at least: neighbours compute some rows of the middle grid twice.
const ROWS: usize = 64;
/// How many tiles are enough for every thread to get its share.
const TILES: usize = 64;
/// Multiply-adds of a task, at least and at most where there are enough for all threads.
const TASK_PRODUCTS: f64 = 1_500_000.0;
const MOST_TASK_PRODUCTS: f64 = 6_000_000.0;
/// Columns of each phase up to which narrow planes stand side by side.
const JOINED: usize = 400;

/// The least common multiple: the phases in which a row of the middle grid is kept.
pub fn phases(up: i64, down: i64) -> i64 {
    let (mut a, mut b) = (up, down);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (up / a).saturating_mul(down)
}

/// How a call is cut.
pub struct Plan {
    phases: usize,
    /// How many planes stand side by side in a row.
    joined: usize,
    /// Output columns of a strip.
    strip: usize,
    /// Output rows of a band.
    band: usize,
    pub strips: usize,
    pub bands: usize,
    /// Tiles of a task.
    pub tiles: usize,
    /// How much work there is.
    pub work: usize,
    /// Whether tiles are numbered row by row, else strip by strip.
    by_rows: bool,
    /// Strips to which nothing outside matters: what is prepared for the first serves all.
    alike: Range<usize>,
    planes: usize,
    /// Planes side by side count as one.
    groups: usize,
    width: usize,
    height: usize,
    /// The lengths of the middle grid.
    middle: [i64; 2],
    /// How many rows each ring holds: one for each way up, then that of the middle grid.
    rings: Vec<usize>,
    /// Whether sums run down the columns.
    running: bool,
}

/// One tile: some output rows and columns of a plane, or of some that stand side by side.
pub struct Tile {
    pub planes: Range<usize>,
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    pub strip: usize,
    band: usize,
}

impl Plan {
    /// Planes may stand side by side where the loop between does the same to all (`alike`).
    pub fn new<C: FilterElement + Compute>(
        ups: &[Direction<C>],
        down: &Direction<C>,
        planes: usize,
        (no_sums, alike): (bool, bool),
    ) -> Self {
        // Where every row passes for itself, none is kept.
        let passing = down.passes_rows() && ups.iter().all(Direction::passes_rows);
        let by_rows = if passing { Self::by_rows(ups, down, planes) } else { None };
        by_rows.unwrap_or_else(|| Self::cut(ups, down, (planes, no_sums, alike), (passing, CACHED_BYTES)))
    }

    /// Short strips that follow each other along each row, so that what is prepared for one must serve many.
    fn by_rows<C: FilterElement + Compute>(ups: &[Direction<C>], down: &Direction<C>, planes: usize) -> Option<Self> {
        let mut plan = Self::cut(ups, down, (planes, false, false), (true, PASSING_BYTES));
        plan.by_rows = true;
        if plan.strips > KINDS {
            let is_inside = |strip: usize| plan.columns(ups, down, plan.outputs(strip)).is_inside(ups, plan.middle[0]);
            // What lies between two strips inside is inside as well.
            let alike = |&(before, after): &(usize, usize)| {
                let alike = before..plan.strips - after;
                is_inside(alike.start) && is_inside(alike.end - 1)
            };
            let (before, after) = [(1, 1), (1, 2), (2, 1)].into_iter().find(alike)?;
            plan.alike = before..plan.strips - after;
        }
        Some(plan)
    }

    fn cut<C: FilterElement + Compute>(
        ups: &[Direction<C>],
        down: &Direction<C>,
        (planes, no_sums, alike): (usize, bool, bool),
        (passing, bytes): (bool, usize),
    ) -> Self {
        let (x, y) = (&down.geometry.x, &down.geometry.y);
        let phases = ups.iter().fold(x.down, |multiple, up| phases(multiple, up.geometry.x.up)) as usize;
        let running = no_sums && steps::is_possible(ups, down, phases);
        let ring = |rows: i64| if passing || running { 1 } else { (rows as usize).next_power_of_two() };
        let mut rings: Vec<usize> = ups.iter().map(|up| ring(up.geometry.y.most_taps() + 2)).collect();
        rings.push(ring(y.taps + y.down + 1));
        // Rows of the middle grid's width: all rings, one row for each way up, and the sums along y.
        let rows = if passing { ups.len() + 1 } else { rings.iter().sum::<usize>() + ups.len() + 3 };
        let (bytes, rows) = if running { (RUNNING_BYTES * ups.len(), steps::rows(ups, down)) } else { (bytes, rows) };
        let per_row = bytes / size_of::<C>() / rows / phases;
        let per_phase = phases as i64 / x.down;
        let wraps = |direction: &Direction<C>| direction.fold == Border::Wrap || direction.fill == Border::Wrap;
        let needs_whole_rows = wraps(down) || ups.iter().any(|up| up.fold == Border::Wrap);
        let widest = match per_row.max(64 + SLACK) as i64 - SLACK as i64 - x.taps / phases as i64 - 1 {
            _ if needs_whole_rows => x.output,
            widest => (widest.max(32) / 16 * 16 * per_phase).max(1),
        };
        let (width, height) = (x.output as usize, y.output as usize);
        let strips = (width as i64).div_euclid(widest.max(1)) as usize + usize::from(width as i64 % widest.max(1) != 0);
        // Those of a row differ by whole lines of every phase.
        let lines = if passing && !needs_whole_rows { 16 * per_phase as usize } else { 1 };
        let strip = width.div_ceil(strips.max(1)).max(1).next_multiple_of(lines);
        let strips = width.div_ceil(strip);
        // Multiply-adds of an output row of a strip.
        let kernel = |of: &Direction<C>| {
            let [x, y] = of.terms().map(|terms| terms as f64);
            match &of.kernel {
                Kernel::Separable(..) => x + y,
                Kernel::Full(_) => x * y,
            }
        };
        let middle = [ups[0].geometry.x.output, ups[0].geometry.y.output];
        let samples = middle[0] as f64 * middle[1] as f64;
        let products = samples * (ups.iter().map(kernel).sum::<f64>() + 8.0)
            + kernel(down) * x.output as f64 * y.output as f64 * x.down.max(1) as f64;
        let per_output_row = products / (strips as f64 * height.max(1) as f64);
        let joined = match alike && strips == 1 && !passing {
            true => joined(ups, down, phases, planes, running),
            false => 1,
        };
        let groups = planes.div_ceil(joined);
        let band = match passing {
            true => (TASK_PRODUCTS / per_output_row.max(1.0)).clamp(1.0, height.max(1) as f64) as usize,
            false => (height * strips * groups).div_ceil(TILES).max(ROWS),
        };
        let bands = height.div_ceil(band.max(1)).max(1);
        let band = height.div_ceil(bands).max(1);
        let bands = height.div_ceil(band);
        let per_tile = per_output_row * (band * joined) as f64;
        let work = products * planes as f64;
        let per_task = match passing {
            true => (work / TILES as f64).clamp(TASK_PRODUCTS, MOST_TASK_PRODUCTS),
            false => TASK_PRODUCTS,
        };
        Plan {
            phases,
            joined,
            strip,
            band,
            strips,
            bands,
            tiles: (per_task / per_tile.max(1.0)).clamp(1.0, 4096.0) as usize,
            work: work as usize,
            by_rows: false,
            alike: 0..0,
            planes,
            groups,
            width,
            height,
            middle,
            rings,
            running,
        }
    }

    /// How many tiles there are.
    pub fn count(&self) -> usize {
        self.strips * self.strip_tiles()
    }

    /// How many tiles share a strip.
    fn strip_tiles(&self) -> usize {
        self.groups * self.bands
    }

    /// The end of the tiles from this one on that one preparation is for.
    pub fn end_of_run(&self, tile: usize) -> usize {
        if self.by_rows { self.count() } else { (self.tile(tile).strip + 1) * self.strip_tiles() }
    }

    /// The output columns of a strip.
    pub fn outputs(&self, strip: usize) -> Range<usize> {
        strip * self.strip..((strip + 1) * self.strip).min(self.width)
    }

    /// The strip whose preparation serves this one.
    pub fn stands_for(&self, strip: usize) -> usize {
        if self.alike.contains(&strip) { self.alike.start } else { strip }
    }

    /// Tiles are numbered strip by strip, then plane by plane, then band by band, so that neighbours share a strip; or
    /// plane by plane, then band by band, then strip by strip, so that they follow each other in memory.
    pub fn tile(&self, index: usize) -> Tile {
        let (strip, index) = match self.by_rows {
            true => (index % self.strips, index / self.strips),
            false => (index / self.strip_tiles(), index % self.strip_tiles()),
        };
        let (band, first) = (index % self.bands, index / self.bands * self.joined);
        Tile {
            planes: first..(first + self.joined).min(self.planes),
            rows: band * self.band..((band + 1) * self.band).min(self.height),
            columns: self.outputs(strip),
            strip,
            band,
        }
    }

    /// The rows and columns of the middle grid that this tile counts in sums: each is counted by one tile.
    pub fn owned<C: Compute>(&self, down: &Direction<C>, tile: &Tile) -> [Range<i64>; 2] {
        let share = |axis: &Axis, length: i64, outputs: &Range<usize>, first: bool, last: bool| {
            let start = if first { 0 } else { axis.support(outputs.start as i64).start.clamp(0, length) };
            start..if last { length } else { axis.support(outputs.end as i64).start.clamp(0, length) }
        };
        let (x, y) = (&down.geometry.x, &down.geometry.y);
        [
            share(x, self.middle[0], &tile.columns, tile.strip == 0, tile.strip + 1 == self.strips),
            share(y, self.middle[1], &tile.rows, tile.band == 0, tile.band + 1 == self.bands),
        ]
    }

    /// The columns of a strip on every grid.
    pub fn columns<C: Compute>(&self, ups: &[Direction<C>], down: &Direction<C>, outputs: Range<usize>) -> Columns {
        let (x, real) = (&down.geometry.x, outputs.start as i64..outputs.end as i64);
        let folded = match down.fold {
            Border::Constant => Vec::new(),
            // The adjoint's outputs outside are the places outside that the forward filter reads.
            rule => outside(rule, reach(&x.transposed()), x.output),
        };
        let outputs = closed(real.clone(), &folded);
        let here = |&(outside, stands_for): &Outside| {
            outputs.contains(&outside) && stands_for.is_some_and(|inside| outputs.contains(&inside))
        };
        let folded: Vec<_> = folded.into_iter().filter(here).collect();
        let start = x.support(outputs.start).start;
        let needed = start..x.support(outputs.end - 1).start + x.taps;
        let length = self.middle[0];
        let folds = ups.iter().map(|up| match up.fold {
            Border::Constant => Vec::new(),
            rule => outside(rule, reach(&up.geometry.x.transposed()), length),
        });
        let folds: Vec<_> = folds.collect();
        // A range that was extended has more places outside, which may stand for others still.
        let mut range = needed;
        let stands = loop {
            let stands = outside(down.fill, range.clone(), length);
            let extended = folds.iter().fold(closed(range.clone(), &stands), |range, fold| closed(range, fold));
            if extended == range {
                break stands;
            }
            range = extended;
        };
        let own = ((range.end - range.start) as usize).div_ceil(self.phases);
        // Whole registers, unless phases are so many that most of a register would be in vain.
        let line = |columns: usize| if self.phases <= 16 { columns.next_multiple_of(16) } else { columns };
        let segment = if self.joined > 1 { segment(ups, &range, own, self.phases) } else { own };
        let per_phase = line(segment * self.joined);
        let inputs: Vec<_> = ups
            .iter()
            .map(|up| {
                let columns = if self.joined > 1 { own } else { per_phase };
                inputs(&up.geometry.x, range.start, columns * self.phases)
            })
            .collect();
        let down_phases = self.phases / x.down as usize;
        // Prepared rows of planes side by side, and their outputs, are about as long as rows of the middle grid.
        let widest = inputs.iter().map(|&(_, columns)| columns + 2 * SLACK).max().unwrap_or(0);
        let widest = match self.joined {
            1 => widest,
            _ => widest.max((per_phase * self.phases + 2 * SLACK).max(per_phase * down_phases + SLACK)),
        };
        Columns {
            phases: self.phases,
            range,
            per_phase,
            pitch: per_phase,
            joined: self.joined,
            segment,
            stands,
            folds,
            inputs,
            widest: widest.max(
                outputs.end as usize - outputs.start.max(0) as usize
                    + outputs.start.min(0).unsigned_abs() as usize
                    + SLACK,
            ),
            real,
            outputs,
            folded,
            height: self.middle[1],
            rings: self.rings.clone(),
            running: self.running,
            at_once: steps::at_once(ups, down),
        }
    }
}

/// The places of the input, inside and outside, that an axis reads.
pub fn reach(axis: &Axis) -> Range<i64> {
    let (first, last) = (axis.support(0), axis.support(axis.output - 1));
    first.start..last.start + last.count.max(0)
}

/// The first input column that so many columns of the middle grid need, and how many.
fn inputs(x: &Axis, start: i64, columns: usize) -> (i64, usize) {
    let (first, last) = (x.support(start).start, start + columns as i64 - 1);
    (first, (x.support(last).start + x.most_taps() - first).max(0) as usize)
}

/// From one of the planes that stand side by side to the next, in columns of each phase: no sum of a plane's own columns
/// reads another plane's samples. Zeros at the end of one and at the start of the next may be the same.
fn segment<C: Compute>(ups: &[Direction<C>], range: &Range<i64>, own: usize, phases: usize) -> usize {
    ups.iter().fold(own, |segment, up| {
        let x = &up.geometry.x;
        let (first, count) = inputs(x, range.start, own * phases);
        let split = phases / x.up as usize;
        let before = (-first).clamp(0, count as i64) as usize;
        let end = (x.input - first).clamp(before as i64, count as i64) as usize;
        segment.max(match split {
            1 => end.max(count - before),
            _ => count.div_ceil(split),
        })
    })
}

/// How many planes stand side by side: narrow ones would leave the loops little to do between one call and the next.
fn joined<C: Compute>(ups: &[Direction<C>], down: &Direction<C>, phases: usize, planes: usize, running: bool) -> usize {
    let simple = |direction: &Direction<C>| {
        let no_rule = direction.fill == Border::Constant && direction.fold == Border::Constant;
        no_rule && (running || matches!(direction.kernel, Kernel::Separable(..)))
    };
    if phases > 16 || !simple(down) || !ups.iter().all(simple) {
        return 1;
    }
    let x = &down.geometry.x;
    let start = x.support(0).start;
    let range = start..x.support(x.output - 1).start + x.taps;
    let own = ((range.end - range.start) as usize).div_ceil(phases);
    let segment = segment(ups, &range, own, phases);
    let most = (JOINED / segment.max(1)).min(planes.div_ceil(8));
    // The one that leaves the fewest places of its last register empty, and of several the largest.
    let waste = |count: &usize| (count * segment).next_multiple_of(16) * 1000 / (count * segment).max(1);
    (1..=most).rev().min_by_key(waste).unwrap_or(1)
}

/// The columns of a strip on every grid. Column `c` of the middle grid stands at place `(c - start) / phases` of phase
/// `(c - start) % phases`, where `start` is that of `range`.
pub struct Columns {
    pub phases: usize,
    /// Columns of the middle grid that are needed; some may lie outside it.
    pub range: Range<i64>,
    /// Columns of each phase.
    pub per_phase: usize,
    /// Elements from phase to phase.
    pub pitch: usize,
    /// How many planes stand side by side in each phase, and how many columns after one the next begins.
    pub joined: usize,
    pub segment: usize,
    /// Columns outside the middle grid that the way down reads.
    pub stands: Vec<Outside>,
    /// For each way up, columns outside the middle grid that are added to others.
    pub folds: Vec<Vec<Outside>>,
    /// For each way up, the first input column and how many.
    pub inputs: Vec<(i64, usize)>,
    /// The most numbers of any row that is not of the middle grid.
    pub widest: usize,
    /// The output columns of the tile.
    pub real: Range<i64>,
    /// Those, and outputs outside that are added to others.
    pub outputs: Range<i64>,
    /// Outputs outside, and those of the tile that they are added to.
    pub folded: Vec<Outside>,
    /// The lengths of the middle grid.
    pub height: i64,
    pub rings: Vec<usize>,
    /// Whether sums run down the columns, and how many steps at a time.
    pub running: bool,
    pub at_once: usize,
}

/// How much room a tile needs.
pub struct Lengths(usize);

impl Lengths {
    pub fn total(&self) -> usize {
        self.0
    }
}

impl Columns {
    /// Elements of a row of the middle grid.
    pub fn row(&self) -> usize {
        self.phases * self.pitch
    }

    /// Whether nothing outside any grid matters.
    fn is_inside<C: Compute>(&self, ups: &[Direction<C>], middle: i64) -> bool {
        let within = |start: i64, end: i64, length: i64| start >= 0 && end <= length;
        let inputs = ups.iter().zip(&self.inputs);
        self.outputs == self.real
            && within(self.range.start, self.range.end, middle)
            && inputs.clone().all(|(up, &(first, count))| within(first, first + count as i64, up.geometry.x.input))
    }

    /// Where a column of the middle grid stands in a row.
    pub fn place(&self, column: i64) -> usize {
        let from_first = (column - self.range.start) as usize;
        from_first % self.phases * self.pitch + from_first / self.phases
    }

    /// Elements of a row of the `index`th way up's ring.
    pub fn ring_row<C>(&self, direction: &Direction<C>, index: usize) -> usize {
        match direction.kernel {
            Kernel::Separable(..) => self.row(),
            Kernel::Full(_) => self.prepared(direction, index).1,
        }
    }

    /// For the `index`th way up: into how many rows input columns are split, all their elements, and from one to the next.
    pub fn prepared<C>(&self, direction: &Direction<C>, index: usize) -> (usize, usize, usize) {
        let split = self.phases / direction.geometry.x.up as usize;
        let last = (self.joined - 1) * self.segment;
        let columns = (last + self.inputs[index].1.div_ceil(split)).max(self.per_phase);
        let pitch = (columns + SLACK).next_multiple_of(16);
        (split, split * pitch, pitch)
    }

    /// Elements of the longest row that zeros stand for.
    pub fn longest<C>(&self, directions: &[Direction<C>]) -> usize {
        let prepared = directions.iter().enumerate().map(|(index, direction)| self.prepared(direction, index).1);
        prepared.max().unwrap_or(0).max(self.row())
    }

    /// The room for a tile.
    pub fn lengths<C>(&self, directions: &[Direction<C>], down: &Direction<C>) -> Lengths {
        let row = self.row() + SLACK;
        let line = |elements: usize| elements.next_multiple_of(16);
        let mut total = line(self.longest(directions) + SLACK);
        for (index, direction) in directions.iter().enumerate() {
            let (_, prepared, _) = self.prepared(direction, index);
            // The row as it is read, ones for its bias, and prepared.
            let at_once = if self.running { ROWS_AT_ONCE } else { 1 };
            total += 2 * line(self.widest) + line(at_once * prepared);
            total += self.rings[index] * line(self.ring_row(direction, index)) + SLACK;
            // Its rows of the middle grid, two at a time, and one to be added to others.
            total += 3 * line(row);
        }
        total += self.rings[directions.len()] * line(self.row()) + SLACK;
        if self.running {
            let inputs = directions.iter().enumerate().map(|(index, direction)| self.ring_row(direction, index));
            total += steps::room(self.row(), &inputs.collect::<Vec<_>>(), directions, down);
            // Output rows on their way.
            total += self.at_once * line(self.widest);
        }
        // Sums along y, two at a time and one to be added; outputs on their way.
        Lengths(total + 3 * line(row) + 3 * line(self.widest))
    }
}
