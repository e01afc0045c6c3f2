//! How a call is cut into tiles: strips of output columns, bands of output rows, groups of small planes.

use std::fmt;

use super::layout::Layout;
use super::order::{Order, choose_order};
use super::taps::Taps;
use crate::axis::{Axis, Geometry};
use firelu_core::dtype::Element;
use firelu_cpu::memory::caches::bypasses;

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

/// Calls that touch less memory find it in the second-level cache: nothing is prefetched.
const CACHED_BYTES: f64 = (1 << 20) as f64;

/// A call cut into tiles.
#[derive(Debug, Clone, Copy)]
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
    /// Whether outputs are written by non-temporal stores.
    pub non_temporal: bool,
    /// Whether so much is read that prefetching pays.
    pub prefetch: bool,
    /// OR of the output's address and strides: its low zero bits are the alignment that all rows share.
    pub target_bits: usize,
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
        Plan::in_order::<T>(geometry, choose_order(&geometry, taps), layout)
    }

    /// The plan of a call whose sums have this order.
    pub fn in_order<T: Element>(geometry: Geometry, order: Order, layout: &Layout) -> Self {
        let (x, y) = (&geometry.x, &geometry.y);
        let products = order.products(&geometry);
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
            non_temporal: dense && bypasses(bytes as usize),
            prefetch: dense && bytes > CACHED_BYTES,
            target_bits: layout.second_alignment_bits(),
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

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = if self.pixel > 1 { "channels-last rows" } else { "planes" };
        let stores = if self.non_temporal { "non-temporal stores" } else { "stores into the caches" };
        let prefetch = if self.prefetch { "prefetch" } else { "no prefetch" };
        write!(f, "{layout}, {stores}, {prefetch}; {} strip(s) of {} columns, ", self.strips, self.strip)?;
        write!(f, "{} band(s) of {} rows", self.bands, self.band)?;
        if self.group > 1 { write!(f, ", {} planes at a time", self.group) } else { Ok(()) }
    }
}
