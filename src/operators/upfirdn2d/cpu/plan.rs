//! How a call is cut into tiles and in which order a tile sums. All of it follows from shapes, strides
//! and the kernel, so that results do not depend on threads; tiles do not change a single bit either.

use super::factor::Taps;
use super::layout::Layout;
use super::short::Form;
use super::twins;
use crate::core::dtype::{Compute, Element};
use crate::devices::cpu::features::last_level_cache;
use crate::operators::upfirdn2d::params::{Axis, Geometry};

/// Which sum comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Along y, then along x.
    VerticalFirst,
    /// Along x, then along y.
    HorizontalFirst,
    /// Both at once.
    Direct,
}

/// The most elements of a row of outputs, and of inputs, that a strip covers: a few such rows fit into
/// the first-level cache.
const STRIP_ELEMENTS: usize = 2048;
/// The same for channels-last rows, whose taps are a whole pixel apart.
const STRIP_PIXEL_ELEMENTS: usize = 8192;
/// The memory that a tile touches at most.
const TILE_BYTES: usize = 512 << 10;
/// Small planes of so much memory together are computed at a time: they stay in the second-level cache.
const GROUP_BYTES: f64 = (64 << 10) as f64;
/// The multiplications that a tile does at most, so that an interrupt is answered in time.
const TILE_PRODUCTS: f64 = 1e7;
/// Elements of strided tensors that are brought together at a time.
const GATHERED_ELEMENTS: usize = 1 << 16;

/// Calls that touch less memory find it in the second-level cache.
const AHEAD_BYTES: f64 = (1 << 20) as f64;

/// A call cut into tiles.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Both directions.
    pub geometry: Geometry,
    /// Which sum comes first.
    pub order: Order,
    /// Elements of a column.
    pub pixel: usize,
    /// Output columns of a strip.
    pub strip: usize,
    /// Output rows of a tile.
    pub band: usize,
    /// Compute numbers that gathering a tile's inputs and outputs needs; zero where both are dense.
    pub gathered: usize,
    /// Whether outputs go past the caches.
    pub streaming: bool,
    /// Whether so much is read that asking for it ahead of time pays.
    pub ahead: bool,
    /// How many strips a row has.
    pub strips: usize,
    /// How many bands a plane has.
    pub bands: usize,
    /// Tiles of a task.
    pub tiles: usize,
    /// Planes that are so small that this many are computed at a time.
    pub group: usize,
    /// What the call costs, in bytes of memory traffic or multiplications, whichever is more.
    pub work: usize,
}

impl Plan {
    /// The plan of a call on element type `T`.
    pub fn new<T: Element>(geometry: Geometry, taps: &Taps<T::Compute>, layout: &Layout) -> Self {
        let (x, y) = (&geometry.x, &geometry.y);
        let (order, products) = choose_order(&geometry, taps);
        let pixel = layout.pixel;
        let limit = if pixel > 1 { STRIP_PIXEL_ELEMENTS / pixel } else { STRIP_ELEMENTS };
        let (period, step) = x.period();
        // Input columns of a strip: one period of inputs for each period of outputs.
        let by_input = 1 + (limit as i64).saturating_mul(2 * period) / step;
        let mut strip = (limit as i64).min(by_input).min(x.output).max(1) as usize;
        if strip < x.output as usize && strip > 64 {
            // Strips start where lines do, if rows do.
            strip -= strip % 64;
        }
        let strips = (x.output as usize).div_ceil(strip);
        // What one output row of a strip reads and writes, and how often it multiplies.
        let share = |axis: &Axis| axis.input as f64 / axis.output.max(1) as f64;
        let elements = (strip * pixel) as f64 * (1.0 + share(x) * share(y));
        let row_bytes = elements * size_of::<T>() as f64;
        let row_products = products * (strip * pixel) as f64 / x.output.max(1) as f64;
        let rows = (TILE_BYTES as f64 / row_bytes).min(TILE_PRODUCTS / row_products.max(1.0));
        let mut band = rows.clamp(1.0, y.output.max(1) as f64) as usize;
        let columns = (strip as i64 * x.down / x.up + x.most_taps() + 1).min(x.input) as usize;
        let dense = layout.first.dense && layout.second.dense;
        let mut gathered = 0;
        if !dense {
            let per_row = strip + columns * (y.down / y.up + 1).min(y.input.max(1)) as usize;
            band = band.min(GATHERED_ELEMENTS / per_row).max(1);
            let rows = (band as i64 * y.down / y.up + y.most_taps() + 1).min(y.input) as usize;
            gathered = (columns * rows + strip * band) * size_of::<T>() / size_of::<T::Compute>() + 2;
        }
        let bands = (y.output as usize).div_ceil(band);
        let band = (y.output as usize).div_ceil(bands.max(1)).max(1);
        let samples = |a: i64, b: i64| a as f64 * b as f64 * (layout.planes * pixel) as f64;
        let bytes = (samples(x.input, y.input) + samples(x.output, y.output)) * size_of::<T>() as f64;
        let products = products * y.output as f64 * (layout.planes * pixel) as f64;
        let tile_cost = (row_bytes * band as f64 / TILE_BYTES as f64).max(row_products * band as f64 / TILE_PRODUCTS);
        Plan {
            geometry,
            order,
            pixel,
            strip,
            band,
            gathered,
            streaming: dense && bytes > (last_level_cache() / 4 * 3) as f64,
            ahead: dense && bytes > AHEAD_BYTES,
            strips,
            bands,
            tiles: (1.0 / tile_cost).clamp(1.0, 4096.0) as usize,
            group: match layout.plane_strides() {
                Some(_) if dense && strips * bands == 1 => (GROUP_BYTES / (row_bytes * band as f64)).max(1.0) as usize,
                _ => 1,
            },
            work: bytes.max(products) as usize,
        }
    }

    /// How many tasks the tiles of so many planes make.
    pub fn tasks(&self, planes: usize) -> usize {
        (planes * self.strips * self.bands).div_ceil(self.tiles)
    }
}

/// The cheaper order, and its multiplications for one output row of one plane. Each pass over a row also
/// loads and stores it, which counts as two.
fn choose_order<C: Compute>(geometry: &Geometry, taps: &Taps<C>) -> (Order, f64) {
    let (x, y) = (&geometry.x, &geometry.y);
    let (nx, ny) = (x.most_taps() as f64, y.most_taps() as f64);
    let (input, output) = (x.input as f64, x.output as f64);
    let shuffle = if x.period() == (1, 1) { 0.0 } else { 2.0 };
    let vertical = input * (ny + 2.0) + output * (nx + 2.0 + shuffle);
    if taps.separable.is_some() && (Form::exists(x) || twins::exist(x)) {
        // Any layout of such a call sums in the order that its loops have.
        return (Order::VerticalFirst, vertical);
    }
    let share = y.input as f64 / y.output.max(1) as f64;
    let horizontal = share * (input * 2.0 + output * (nx + 2.0 + shuffle)) + output * (ny + 2.0);
    let direct = share * input * 2.0 + output * (nx * ny + 2.0 + shuffle);
    // Where both exist, the direct sum must not round more often than the two sums.
    let may_be_direct = taps.separable.is_none() || nx * ny <= nx + ny;
    let orders = [(Order::VerticalFirst, vertical), (Order::HorizontalFirst, horizontal), (Order::Direct, direct)];
    let possible = orders.into_iter().filter(|(order, _)| match order {
        Order::Direct => may_be_direct,
        _ => taps.separable.is_some(),
    });
    possible.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((Order::Direct, direct))
}
