//! How the kernel's gradient cuts planes into tiles, and what a task is given.

use std::ops::Range;

use crate::axis::Geometry;
use crate::plan::layout::Layout;

/// The most elements of a row that are multiplied at a time.
const STRIP_ELEMENTS: usize = 1024;
/// Elements of the inputs or the outputs of a tile: both stay in the second-level cache.
const BAND_ELEMENTS: i64 = 1 << 15;

/// How planes are cut into strips of output columns and bands of input rows.
pub struct Grid {
    /// Output columns of a strip.
    pub strip: usize,
    /// The input rows that any output is summed from.
    pub inputs: Range<i64>,
    /// Input rows of a band.
    pub band: i64,
    /// How many bands a plane has.
    pub bands: usize,
    /// How many small planes a tile has.
    pub planes: usize,
    /// How many tiles there are.
    pub tiles: usize,
}

impl Grid {
    /// None where no output is summed from any input.
    pub fn new(geometry: &Geometry, layout: &Layout) -> Option<Self> {
        let Geometry { x, y } = geometry;
        let (period, step) = x.period();
        let limit = (STRIP_ELEMENTS / layout.pixel).max(1) as i64;
        let by_input = 1 + limit.saturating_mul(2 * period) / step;
        let strip = limit.min(by_input).min(x.output).max(1);
        let inputs = y.inputs_of(0..y.output);
        if inputs.is_empty() {
            return None;
        }
        let rows = inputs.end - inputs.start;
        // What is read for an input row: its own elements, and those of the outputs that it is the first to meet.
        let elements = (strip * step / period).max(strip.saturating_mul(y.up) / y.down).max(1);
        let elements = elements.saturating_mul(layout.pixel as i64);
        let band = (BAND_ELEMENTS / elements).clamp(1, rows);
        let bands = (rows as usize).div_ceil(band as usize);
        let several = bands == 1 && layout.plane_strides().is_some();
        let planes = if several { ((BAND_ELEMENTS / (elements * band)) as usize).clamp(1, layout.planes) } else { 1 };
        let strips = (x.output as usize).div_ceil(strip as usize);
        let tiles = strips * bands * layout.planes.div_ceil(planes);
        Some(Grid { strip: strip as usize, inputs, band, bands, planes, tiles })
    }
}

/// What a task is given.
pub struct Job<'a> {
    /// Both directions.
    pub geometry: &'a Geometry,
    /// Where inputs and outputs are.
    pub layout: &'a Layout,
    /// How they are cut.
    pub grid: &'a Grid,
    /// The task's own sums, one for each tap.
    pub sums: *mut f64,
}
