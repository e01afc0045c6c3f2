//! Which tiles serve a call, or why none do: pure arithmetic, nothing is launched here. Calls without tiles go by parts.

use std::fmt;

use super::parameters::{
    BORDER_TOGETHER, FilterParameters, FilteredActParameters, MOST_TAPS, StreamParameters, TOGETHER,
};
use crate::core::dtype::DType;
use crate::devices::cuda::launch::MAX_BLOCKS;
use crate::devices::cuda::parameters::THREADS;
use firelu_filters::axis::{Axis, Geometry};
use firelu_filters::border::Border;

/// What every device has, less what the kernels declare for themselves.
const SHARED_BYTES: i64 = 48 * 1024 - 512;
/// Blocks that keep any GPU busy: with fewer, larger tiles save no time.
const ENOUGH_BLOCKS: i64 = 64;
/// Round trips to memory that a block makes one after the other, at most.
const MOST_TRIPS: i64 = 6;
/// Coordinates stay below this, with room for a tile beyond.
const NARROW: i64 = 1 << 29;
/// Bytes that memory moves at once.
const SECTOR: i64 = 32;
const WARPS: i64 = 8;
/// What a sample of the middle grid costs, in sectors.
const MIDDLE_COST: f64 = 0.05;

/// Why a call goes by parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A filter has more taps than a block prepares.
    Taps,
    /// Coordinates or offsets within a plane do not fit into 32 bits.
    Wide,
    /// What lies outside the activated samples stands for some outside the tile.
    Border,
    /// Not even one row of outputs fits into shared memory.
    Shared,
    /// A border's rule would have to be transposed.
    Adjoint,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Taps => "more than 1024 taps",
            Refusal::Wide => "coordinates beyond 32 bits",
            Refusal::Border => "a border whose samples lie in other tiles",
            Refusal::Shared => "no tile fits into shared memory",
            Refusal::Adjoint => "the adjoint of a border's rule",
        })
    }
}

/// What is computed, without addresses: from each stream's grid to the middle, and from there to the output.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The ways up.
    pub ups: Vec<Geometry>,
    /// The way down.
    pub down: Geometry,
    /// What lies outside the streams.
    pub first_border: Border,
    /// What lies outside the middle grid.
    pub border: Border,
    /// Batches times channels.
    pub planes: i64,
    /// Numbers that each channel has: its bias, and snake's.
    pub numbers: usize,
    /// The tensors' type.
    pub dtype: DType,
}

/// Tiles of outputs, and how they lie in shared memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    width: i64,
    height: i64,
    chunk: i64,
    tiles: [i64; 2],
    columns: i64,
    phase_pitch: i64,
    pitch: i64,
    /// Columns of each stream's window, and the first row of its rows.
    windows: Vec<(i64, i64)>,
    taps: Vec<i64>,
    middle: i64,
    sums: i64,
    numbers: i64,
    trips: i64,
    planes: i64,
    dtype: DType,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { width, height, chunk, trips, .. } = self;
        let (blocks, bytes) = (self.blocks(), self.shared_bytes());
        write!(
            f,
            "{blocks} tiles of {width} x {height} outputs, {chunk} rows at a time, {bytes} bytes of shared memory, "
        )?;
        write!(f, "at most {trips} round trips")
    }
}

fn magic(divisor: i64) -> u32 {
    if divisor == 1 { 0 } else { ((1u64 << 32) / divisor as u64 + 1) as u32 }
}

/// Inputs that so many neighbouring samples of the middle grid are summed from, at most.
fn reach(axis: &Axis, samples: i64) -> i64 {
    (samples + axis.taps - 2) / axis.up + 1
}

/// Samples of the middle grid that so many neighbouring outputs are summed from.
fn needed(axis: &Axis, outputs: i64) -> i64 {
    (outputs - 1) * axis.down + axis.taps
}

fn is_line(geometry: &Geometry) -> bool {
    geometry.x.taps == 1 || geometry.y.taps == 1
}

/// Samples outside a stream, where they are not zeros, that a window of so many columns and rows holds at most.
fn outside(problem: &Problem, up: &Geometry, tiles: [i64; 2], outputs: [i64; 2], window: [i64; 2]) -> i64 {
    if problem.first_border == Border::Constant {
        return 0;
    }
    let along = |up: &Axis, down: &Axis, tiles: i64, outputs: i64, window: i64| {
        let first = -down.pad;
        let range = up.reach(first..first + needed(down, tiles * outputs));
        let (before, after) = ((-range.start).max(0), (range.end - up.input).max(0));
        // One tile reaches out at both ends; of several, one that is narrow may too.
        (before + after).min(window)
    };
    let columns = along(&up.x, &problem.down.x, tiles[0], outputs[0], window[0]);
    let lines = along(&up.y, &problem.down.y, tiles[1], outputs[1], window[1]);
    lines * window[0] + (window[1] - lines) * columns
}

impl Plan {
    /// The tiles of a call, or why there are none.
    pub fn new(problem: &Problem) -> Result<Self, Refusal> {
        let Problem { ups, down, planes, .. } = problem;
        let filters = || ups.iter().chain([down]);
        if filters().any(|filter| filter.x.taps.saturating_mul(filter.y.taps) > MOST_TAPS as i64) {
            return Err(Refusal::Taps);
        }
        let narrow = |axis: &Axis| {
            let Axis { input, output, up, down, pad, taps } = *axis;
            input.saturating_mul(up) < NARROW
                && output.saturating_mul(down) < NARROW
                && pad.abs() < NARROW
                && taps < NARROW
        };
        if !filters().all(|filter| narrow(&filter.x) && narrow(&filter.y)) || *planes >= NARROW {
            return Err(Refusal::Wide);
        }
        let outside = |axis: &Axis| {
            let reach = axis.reach(0..axis.output);
            problem.border != Border::Constant && (reach.start < 0 || reach.end > axis.input)
        };
        // Rows outside are copies of rows in the same chunk.
        let whole_chunk = outside(&down.y);
        let mut best: Option<(Plan, [bool; 2], f64)> = None;
        let mut refusal = Refusal::Shared;
        for tiles_x in splits(down.x.output) {
            let width = (down.x.output + tiles_x - 1) / tiles_x;
            for chunks in 1..=if whole_chunk { 1 } else { 5.min(down.y.output) } {
                let Some(plan) = Plan::tallest(problem, width, chunks) else { continue };
                if outside(&down.x)
                    && !plan.stands_inside(&down.x, problem.border, plan.columns, plan.width, plan.tiles[0])
                    || whole_chunk
                        && !plan.stands_inside(
                            &down.y,
                            problem.border,
                            needed(&down.y, plan.height),
                            plan.height,
                            plan.tiles[1],
                        )
                {
                    refusal = Refusal::Border;
                    continue;
                }
                let poor = [plan.trips > MOST_TRIPS, plan.blocks() < ENOUGH_BLOCKS];
                let cost = plan.cost(problem);
                let better = best.as_ref().is_none_or(|(_, other, least)| (poor, cost) < (*other, *least));
                if better && plan.blocks() <= MAX_BLOCKS as i64 {
                    best = Some((plan, poor, cost));
                }
            }
        }
        best.map(|(plan, ..)| plan).ok_or(refusal)
    }

    /// Tiles of this width and of so many chunks, as tall as shared memory allows, then alike.
    fn tallest(problem: &Problem, width: i64, chunks: i64) -> Option<Self> {
        let height = problem.down.y.output;
        let fits = |chunk: i64| {
            let plan = Plan::of(problem, width, (chunk * chunks).min(height), chunk);
            (plan.shared_bytes() <= SHARED_BYTES).then_some(plan)
        };
        fits(1)?;
        let (mut low, mut high) = (1, (height + chunks - 1) / chunks);
        while low < high {
            let middle = (low + high + 1) / 2;
            if fits(middle).is_some() {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        let tiles = (height + low * chunks - 1) / (low * chunks);
        let alike = (height + tiles - 1) / tiles;
        let plan = Plan::of(problem, width, alike, (alike + chunks - 1) / chunks);
        (plan.shared_bytes() <= SHARED_BYTES).then_some(plan)
    }

    fn of(problem: &Problem, width: i64, height: i64, chunk: i64) -> Self {
        let Problem { ups, down, planes, dtype, .. } = problem;
        let columns = needed(&down.x, width);
        let phase_pitch = match (columns + down.x.down - 1) / down.x.down {
            // Neighbouring columns stand in different banks.
            least if down.x.down > 2 && down.x.down <= 32 && down.x.down.count_ones() == 1 => {
                least + (32 / down.x.down - least).rem_euclid(32)
            }
            least => least,
        };
        let lines = |up: &Geometry| if is_line(up) { 0 } else { reach(&up.x, columns) };
        let pitch = ups.iter().map(lines).fold(phase_pitch * down.x.down, i64::max);
        let rows = needed(&down.y, chunk);
        let kept = (down.y.taps - down.y.down).max(0);
        let mut plan = Plan {
            width,
            height,
            chunk,
            tiles: [(down.x.output + width - 1) / width, (down.y.output + height - 1) / height],
            columns,
            phase_pitch,
            pitch,
            windows: Vec::new(),
            taps: Vec::new(),
            middle: 0,
            sums: 0,
            numbers: 0,
            // The taps come with the first number, and each number after the one before.
            trips: problem.numbers.max(1) as i64,
            planes: *planes,
            dtype: *dtype,
        };
        for filter in ups.iter().chain([down]) {
            plan.taps.push(plan.numbers);
            plan.numbers += filter.x.taps + filter.y.taps + filter.x.taps * filter.y.taps;
        }
        let mut middle_rows = rows;
        let tiles = plan.tiles;
        let lanes = if dtype.size() == 2 { 64 } else { 32 };
        let together = if dtype.size() == 4 { TOGETHER } else { TOGETHER / 2 };
        for (place, up) in ups.iter().enumerate() {
            let window = reach(&up.x, columns);
            let pieces = plan.pieces(window, lanes);
            let first = reach(&up.y, rows);
            let later = (chunk * down.y.down + up.y.up - 1) / up.y.up + 1;
            // Windows of rows stand where the middle grid's rows come later.
            middle_rows = middle_rows.max((first * window + pitch - 1) / pitch);
            let trips = |rows: i64| {
                let samples = outside(problem, up, tiles, [width, height], [window, rows]);
                let at_once = i64::from(THREADS) * BORDER_TOGETHER;
                (rows * pieces + WARPS * together - 1) / (WARPS * together) + (samples + at_once - 1) / at_once
            };
            plan.trips += trips(first);
            let mut held = first;
            let overlap = (up.y.taps + up.y.up - 2) / up.y.up;
            if chunk < height {
                middle_rows = middle_rows.max(kept + (later * window + pitch - 1) / pitch);
                plan.trips += trips(later) * ((height + chunk - 1) / chunk - 1);
                held = held.max(overlap + later);
            }
            plan.windows.push((window, plan.numbers));
            if place == 0 {
                // Sums along y stand behind the rows that are kept.
                let before = if chunk < height { overlap } else { 0 };
                plan.sums = plan.numbers + before * pitch;
                held = held.max(before + chunk);
            }
            plan.numbers += held * pitch;
        }
        plan.middle = plan.numbers;
        plan.numbers += middle_rows * pitch;
        plan
    }

    /// The pieces of a row that begins anywhere in a sector.
    fn pieces(&self, columns: i64, lanes: i64) -> i64 {
        (columns + SECTOR / self.dtype.size() as i64 - 1 + lanes - 1) / lanes
    }

    /// Blocks of the launch.
    pub fn blocks(&self) -> i64 {
        self.tiles[0].saturating_mul(self.tiles[1]).saturating_mul(self.planes)
    }

    /// Dynamic shared memory.
    pub fn shared_bytes(&self) -> i64 {
        self.numbers.saturating_mul(self.dtype.compute().size() as i64)
    }

    /// Whether every sample outside that a tile needs stands for one that it computes.
    fn stands_inside(&self, axis: &Axis, border: Border, samples: i64, outputs: i64, tiles: i64) -> bool {
        (0..tiles).all(|tile| {
            let first = tile * outputs * axis.down - axis.pad;
            let places = (first..first + samples).filter(|place| !(0..axis.input).contains(place));
            places.into_iter().all(|place| {
                let source = border.source(place as isize, axis.input as usize);
                source.is_none_or(|source| (first..first + samples).contains(&(source as i64)))
            })
        })
    }

    /// Sectors that are moved and samples that are computed, over all tiles of a plane.
    fn cost(&self, problem: &Problem) -> f64 {
        let Problem { ups, down, dtype, .. } = problem;
        let size = dtype.size() as f64;
        // Over all tiles of an axis, what each reads of the input, and the number of samples that it computes.
        let read = |up: &Axis, down: &Axis, outputs: i64, tiles: i64| {
            let tile = |index: i64| {
                let first = index * outputs * down.down - down.pad;
                let range = up.reach(first..first + needed(down, outputs));
                (range.end.min(up.input) - range.start.max(0)).max(0) as f64
            };
            match tiles {
                1 => tile(0),
                _ => tile(0) + tile(tiles - 1) + tile(tiles / 2) * (tiles - 2) as f64,
            }
        };
        let (tiles_x, tiles_y) = (self.tiles[0] as f64, self.tiles[1] as f64);
        let mut sectors = 0.0;
        for up in ups {
            let columns = read(&up.x, &down.x, self.width, self.tiles[0]) * size + tiles_x * (SECTOR - 2) as f64;
            sectors += columns / SECTOR as f64 * read(&up.y, &down.y, self.height, self.tiles[1]);
        }
        let row = down.x.output as f64 * size / SECTOR as f64 + tiles_x;
        sectors += row * down.y.output as f64;
        let middle = tiles_x * self.columns as f64 * tiles_y * needed(&down.y, self.height) as f64;
        sectors + MIDDLE_COST * middle
    }

    /// Fills in everything that is not an address, a stride or a number of the caller's.
    pub fn fill(&self, problem: &Problem, p: &mut FilteredActParameters) {
        let filter = |to: &mut FilterParameters, geometry: &Geometry, factors: [i64; 2], place: i64| {
            (to.taps_x, to.taps_y) = (geometry.x.taps as i32, geometry.y.taps as i32);
            (to.pad_x, to.pad_y) = (geometry.x.pad as i32, geometry.y.pad as i32);
            (to.factor_x, to.factor_y) = (factors[0] as i32, factors[1] as i32);
            to.place = place as i32;
        };
        let lanes = if self.dtype.size() == 2 { 64 } else { 32 };
        for (index, up) in problem.ups.iter().enumerate() {
            let (window, rows) = self.windows[index];
            let stream: &mut StreamParameters = &mut p.streams[index];
            filter(&mut stream.filter, up, [up.x.up, up.y.up], self.taps[index]);
            (stream.width, stream.height) = (up.x.input as i32, up.y.input as i32);
            (stream.window_width, stream.rows) = (window as i32, rows as i32);
            let pieces = self.pieces(window, lanes);
            (stream.pieces, stream.piece_magic) = (pieces as i32, magic(pieces));
        }
        let down = &problem.down;
        filter(&mut p.down, down, [down.x.down, down.y.down], self.taps[problem.ups.len()]);
        p.down.border = problem.border as i32;
        (p.output_width, p.output_height) = (down.x.output as i32, down.y.output as i32);
        (p.middle_width, p.middle_height) = (down.x.input as i32, down.y.input as i32);
        (p.tiles_x, p.tiles_y) = (self.tiles[0] as i32, self.tiles[1] as i32);
        (p.tile_width, p.tile_height, p.chunk) = (self.width as i32, self.height as i32, self.chunk as i32);
        (p.columns, p.columns_magic, p.down_magic) = (self.columns as i32, magic(self.columns), magic(down.x.down));
        (p.phase_pitch, p.pitch) = (self.phase_pitch as i32, self.pitch as i32);
        (p.middle, p.sums) = (self.middle as i32, self.sums as i32);
        let pieces = self.pieces(self.width, 32);
        (p.pieces, p.piece_magic) = (pieces as i32, magic(pieces));
        p.blocks = self.blocks() as i32;
    }
}

/// Into how many tiles a row of outputs may be cut: powers of two, and three times these.
fn splits(width: i64) -> impl Iterator<Item = i64> {
    (0..20).flat_map(|power| [1i64 << power, 3 << power]).take_while(move |&tiles| tiles <= width.max(1))
}
