//! Two filters with a loop between them: `output = S( between(U argument, A_1 stream_1, …) )`, row by row.
//!
//! **Comes in**: a [`Request`], which an operator has checked: `up` takes the input grid to the middle grid, `down` the
//! middle grid to the output grid. The argument goes up; each stream goes up too, or comes from the output grid by the
//! adjoint of `down`; the result goes down, or back to the input grid by the adjoint of `up`. So one routine computes a
//! filtered activation and all its derivatives. **Comes out**: the output, and the sums that the loop between has made.
//! Operators call [`run`].
//!
//! Nothing of the middle grid's size is ever in memory. A tile passes through rows that stay in the first-level cache:
//! input row → its phases along x ([`upward`]) → a ring of a few such rows → sum along y → the loop between
//! ([`Between`]) → a ring → sum along y → sum along x → output row ([`downward`]). A row of the middle grid is kept as
//! its phases, one after the other: neither a sum along y nor the loop between cares, an upsampling filter writes
//! phases, and a downsampling filter reads them, so nothing is ever interleaved or taken apart.
//!
//! Each sum is over all taps in their order, with zeros where nothing is, whatever the tile: the bits of the output
//! depend on no number of threads.

mod downward;
mod edges;
mod extent;
mod middle;
mod rows;
mod running;
mod steps;
mod upward;

use std::ops::Range;

use crate::axis::Geometry;
use crate::border::Border;
use crate::levels::FilterElement;
use crate::plan::strip::SLACK;
use crate::plan::taps::Taps;
use crate::scratch::Scratch;
use downward::Down;
use extent::{Columns, KINDS, Plan};
use firelu_core::dtype::Compute;
use firelu_core::error::Result;
use firelu_core::tensor::{Parts, TensorView};
use firelu_cpu::features::Level;
use firelu_cpu::parallel;
use middle::Middle;
use rows::Planes;
use running::Running;
use smallvec::SmallVec;
use upward::Up;

/// One of the two filters, as it is in the forward direction.
pub struct Filter<'a> {
    /// From its input to its output; the first filter only inserts, the second only drops samples.
    pub geometry: Geometry,
    /// The kernel, two-dimensional.
    pub kernel: &'a TensorView<'a>,
    /// Whether the kernel is the other way round in memory than it meets the input.
    pub reverse: bool,
    /// A factor of the kernel.
    pub gain: f64,
    /// What lies outside its input.
    pub border: Border,
}

/// Which of the outer grids a tensor is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grid {
    /// That of the argument, before the first filter.
    Input,
    /// That of the forward result, after the second filter.
    Output,
}

/// The loop between the filters, called with rows of compute numbers that are in the first-level cache. The result
/// replaces `row`: the argument where there are no streams, else the first stream; `others` are then the argument and
/// further streams, all as long.
pub trait Between<C>: Sync {
    /// Replaces a row of a channel by the result.
    fn apply(&self, channel: usize, row: &mut [C], others: &[&[C]]);

    /// Whether it does the same to every channel, so that a row may have samples of several.
    fn is_alike(&self) -> bool {
        false
    }

    /// How many sums over all samples of a channel are wanted.
    fn sums(&self) -> usize {
        0
    }

    /// As `apply`, and adds to the sums.
    fn apply_and_sum(&self, channel: usize, row: &mut [C], others: &[&[C]], _sums: &mut [f64]) {
        self.apply(channel, row, others);
    }
}

/// What is computed, of what, and where to. All tensors agree in all but the last two dimensions.
pub struct Request<'a, C> {
    /// From the input grid to the middle.
    pub up: Filter<'a>,
    /// From the middle to the output grid.
    pub down: Filter<'a>,
    /// What the loop between gets as its argument, on the input grid.
    pub argument: &'a Parts,
    /// Added to the argument's own samples, one number for each channel.
    pub bias: Option<&'a [C]>,
    /// What else the loop between gets.
    pub streams: &'a [(&'a Parts, Grid)],
    /// What is written.
    pub output: (&'a Parts, Grid),
    /// The leading dimension of the channels.
    pub channel_axis: Option<usize>,
    /// The loop between.
    pub between: &'a dyn Between<C>,
}

/// The taps of a direction, in the order in which they meet the input.
enum Kernel<C> {
    /// Along x and along y.
    Separable(Vec<C>, Vec<C>),
    /// Row by row.
    Full(Vec<C>),
}

/// One way through a filter: its geometry, taps, and what happens at the ends.
struct Direction<C> {
    geometry: Geometry,
    kernel: Kernel<C>,
    /// What lies outside the input.
    fill: Border,
    /// The rule by which outputs outside are added to those inside.
    fold: Border,
}

impl<C: Compute> Direction<C> {
    fn new(filter: &Filter<'_>, adjoint: bool) -> Result<Self> {
        let taps = Taps::<C>::read(filter.kernel, filter.reverse != adjoint, filter.gain)?;
        let one = || vec![C::from_f64(1.0)];
        let kernel = match (&filter.kernel.shape()[..], taps.separable) {
            (&[1, _], _) => Kernel::Separable(taps.full.to_vec(), one()),
            (&[_, 1], _) => Kernel::Separable(one(), taps.full.to_vec()),
            (_, Some((x, y))) => Kernel::Separable(x.to_vec(), y.to_vec()),
            _ => Kernel::Full(taps.full.to_vec()),
        };
        let (geometry, none) = (filter.geometry, Border::Constant);
        Ok(match adjoint {
            false => Direction { geometry, kernel, fill: filter.border, fold: none },
            true => Direction { geometry: geometry.transposed(), kernel, fill: none, fold: filter.border },
        })
    }

    /// Whether every output row is one input row, as it is.
    fn passes_rows(&self) -> bool {
        let y = &self.geometry.y;
        let identity = y.taps == 1 && y.up == 1 && y.down == 1 && y.pad == 0 && y.input == y.output;
        identity && matches!(&self.kernel, Kernel::Separable(_, taps) if taps[0] == C::from_f64(1.0))
    }

    /// The number of taps along x and y together that one output is summed from.
    fn terms(&self) -> [usize; 2] {
        [self.geometry.x.most_taps() as usize, self.geometry.y.most_taps() as usize]
    }
}

/// The most phases that a row of the middle grid is kept in.
pub const MOST_PHASES: i64 = 4096;

/// Whether the factors have a common multiple that is small enough for the rows of the middle grid.
pub fn is_possible(up: &Geometry, down: &Geometry) -> bool {
    extent::phases(up.x.up, down.x.down) <= MOST_PHASES
}

/// Filters, calls the loop between, and filters. Gives the sums of each channel, those of a channel side by side.
pub fn run<T>(request: &Request<'_, T::Compute>) -> Result<Vec<f64>>
where
    T: FilterElement,
    T::Compute: FilterElement,
{
    let (output, grid) = request.output;
    let channels = request.channel_axis.map_or(1, |axis| request.argument.shape()[axis]);
    let wanted = request.between.sums();
    let mut sums = vec![0.0; channels * wanted];
    if output.shape().elements() == 0 && wanted == 0 {
        return Ok(sums);
    }
    let mut directions = vec![Direction::new(&request.up, false)?];
    let mut tensors = vec![request.argument];
    for &(tensor, grid) in request.streams {
        directions.push(match grid {
            Grid::Input => Direction::new(&request.up, false)?,
            Grid::Output => Direction::new(&request.down, true)?,
        });
        tensors.push(tensor);
    }
    let down = match grid {
        Grid::Output => Direction::new(&request.down, false)?,
        Grid::Input => Direction::new(&request.up, true)?,
    };
    let planes = Planes::new(&tensors, output, request.channel_axis);
    if planes.count == 0 {
        return Ok(sums);
    }
    let (bias, between, level) = (request.bias, request.between, Level::current());
    let plan =
        Plan::new::<T::Compute>(&directions, &down, planes.count, (wanted == 0, wanted == 0 && between.is_alike()));
    let tiles = plan.count();
    let partial = std::sync::Mutex::new(vec![0.0; if wanted > 0 { tiles * wanted } else { 0 }]);
    let call = (bias, between, level);
    parallel::try_for_each(tiles.div_ceil(plan.tiles), plan.work, |task| {
        let mut first = task * plan.tiles;
        let end = (first + plan.tiles).min(tiles);
        while first < end {
            let last = end.min(plan.end_of_run(first));
            let mut keep = |tile: usize, sums: &[f64]| {
                let mut partial = partial.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                partial[tile * wanted..][..wanted].copy_from_slice(sums);
            };
            Scratch::with(|scratch| {
                // SAFETY: the views promise every element of the planes, tiles write disjoint parts, and a level is
                // current only where it was detected.
                unsafe { run_tiles::<T>(call, &plan, (&directions, &down), &planes, first..last, scratch, &mut keep) }
            })?;
            first = last;
        }
        Ok(())
    })?;
    let partial = partial.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    for tile in 0..partial.len() / wanted.max(1) {
        let channel = planes.channel(plan.tile(tile).planes.start);
        for k in 0..wanted {
            sums[channel * wanted + k] += partial[tile * wanted + k];
        }
    }
    Ok(sums)
}

/// What all tiles share: the bias of each channel, the loop between, the level.
type Shared<'a, C> = (Option<&'a [C]>, &'a dyn Between<C>, Level);

/// Tiles that few preparations are for: of one strip, or of rows whose inner strips are alike.
///
/// # Safety
/// Every element of the planes is readable or writable, no one else writes to these tiles, and the level was detected.
unsafe fn run_tiles<T>(
    (bias, between, level): Shared<'_, T::Compute>,
    plan: &Plan,
    (directions, down): (&[Direction<T::Compute>], &Direction<T::Compute>),
    planes: &Planes,
    tiles: Range<usize>,
    scratch: &mut Scratch,
    keep: &mut dyn FnMut(usize, &[f64]),
) -> Result<()>
where
    T: FilterElement,
    T::Compute: FilterElement,
{
    let mut strips: SmallVec<[usize; KINDS]> = SmallVec::new();
    for tile in tiles.clone() {
        let strip = plan.stands_for(plan.tile(tile).strip);
        if !strips.contains(&strip) {
            strips.push(strip);
        }
    }
    let columns = strips.iter().map(|&strip| plan.columns(directions, down, plan.outputs(strip)));
    let columns: SmallVec<[Columns; KINDS]> = columns.collect();
    let length = columns.iter().map(|columns| columns.lengths(directions, down).total()).sum();
    let [memory] = scratch.numbers::<T::Compute, 1>([length])?;
    let mut room = rows::Room { next: memory, left: length };
    let longest = columns.iter().map(|columns| columns.longest(directions)).max().unwrap_or(0) + SLACK;
    let zeros = room.take(longest);
    // SAFETY: the room was just taken.
    unsafe { zeros.write_bytes(0, longest) };
    let ends = |columns, room: &mut rows::Room<T::Compute>| {
        let ways = directions.iter().enumerate();
        let ups = ways.map(|(index, way)| Up::<T>::new(way, columns, index, (&mut *room, zeros), level)).collect();
        (ups, Down::<T>::new(down, columns, room, level))
    };
    if let [columns] = &columns[..]
        && columns.running
    {
        let (ups, lower) = ends(columns, &mut room);
        let mut running = Running::new(ups, (lower, down), columns, between, (&mut room, level));
        for tile in tiles {
            let at = plan.tile(tile);
            // SAFETY: the caller's promise.
            unsafe { running.write_rows((planes, at.planes), bias, at.rows) };
        }
        return Ok(());
    }
    let prepare = |columns| {
        let (ups, lower) = ends(columns, &mut room);
        (Middle::new(ups, columns, between, down, (&mut room, zeros)), lower)
    };
    let mut prepared: SmallVec<[_; KINDS]> = columns.iter().map(prepare).collect();
    for tile in tiles {
        let at = plan.tile(tile);
        let strip = plan.stands_for(at.strip);
        let which = strips.iter().position(|&prepared| prepared == strip);
        let which = which.unwrap_or_else(|| unreachable!("every strip of these tiles was prepared"));
        let (middle, lower) = &mut prepared[which];
        let on = at.columns.start as i64 - columns[which].real.start;
        let on = Moved { middle: on * down.geometry.x.down, outputs: on };
        middle.begin((planes, at.planes.clone()), bias, plan.owned(down, &at), on);
        let outputs = at.planes.map(|plane| planes.output(plane));
        // SAFETY: the caller's promise.
        unsafe { lower.write_rows((outputs, at.rows, on), middle) };
        if !middle.sums.is_empty() {
            keep(tile, &middle.sums);
        }
    }
    Ok(())
}

/// By how many columns a tile is further on than the strip that its rows were prepared for.
#[derive(Debug, Clone, Copy)]
struct Moved {
    middle: i64,
    outputs: i64,
}

/// A range of 64-bit numbers that holds both.
fn cover(range: Range<i64>, other: Range<i64>) -> Range<i64> {
    range.start.min(other.start)..range.end.max(other.end)
}
