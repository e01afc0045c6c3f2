//! Which kernel serves a problem, with which tiles: pure arithmetic, nothing is launched here.

use super::TAPS_HEADER;
use super::parameters::{KernelGradientParameters, UpFirDn2dParameters};
use crate::core::dtype::DType;
use crate::devices::cuda::launch::MAX_BLOCKS;
use crate::devices::cuda::layout::is_wide;
use crate::devices::cuda::parameters::{CHUNK, THREADS, suffix};

/// What every device has, less the few bytes that a kernel may hold for itself.
const SHARED_BYTES: i64 = 48 * 1024 - 256;
/// The offsets of a tiled block's planes: one for each thread.
const ORIGIN_BYTES: i64 = THREADS as i64 * 8;
/// The offset of the one plane of a general block, with room to a vector's boundary.
const ORIGIN_BYTES_OF_ONE: i64 = 16;
/// With fewer blocks than this a launch takes as long as its slowest block, and larger tiles save no time.
const ENOUGH_BLOCKS: i64 = 8;
/// Coordinates stay below this in 32-bit kernels, with room for a tile beyond.
const NARROW: i64 = 1 << 30;
/// Channels last: sixteen-byte vectors of channels that a block has of each pixel, at most.
const MAX_PIXEL_VECTORS: u64 = 4;
/// Bytes that memory moves at once.
const SECTOR: i64 = 32;
/// What the tiled kernels are written for.
const TILED_TAPS: i32 = 4;

/// A kernel and how it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// The entry point.
    pub kernel: String,
    /// Blocks.
    pub blocks: u64,
    /// Dynamic shared memory.
    pub shared_bytes: u32,
}

/// Inputs that `outputs` neighbouring outputs need at most.
fn window(outputs: i64, up: i32, down: i32, taps: i32) -> i64 {
    let (up, down, taps) = (i64::from(up), i64::from(down), i64::from(taps));
    ((outputs - 1) * down + up - 1) / up + (taps + up - 1) / up
}

/// Header and taps of the compute type in shared memory, up to a vector's boundary; as `Taps` of `taps.cuh`.
fn staged_taps(p: &UpFirDn2dParameters, compute: i64) -> i64 {
    let (taps_x, taps_y) = (i64::from(p.taps_x), i64::from(p.taps_y));
    TAPS_HEADER as i64 + ((taps_x + taps_y + taps_x * taps_y) * compute + 15) / 16 * 16
}

/// For division by multiplication; see `divide` in `window.cuh`. A window has two rows and two columns at least, as a
/// tile of outputs has.
fn magic(divisor: i64) -> u32 {
    debug_assert!(divisor > 1);
    ((1u64 << 32) / divisor as u64 + 1) as u32
}

fn log2(value: i64) -> i32 {
    value.trailing_zeros() as i32
}

/// Whether all coordinates and the offsets within a plane can be computed in 32 bits.
fn is_narrow(p: &UpFirDn2dParameters) -> bool {
    let reach = |strides: &[i64; 4], width: i64, height: i64| {
        strides[2]
            .saturating_abs()
            .saturating_mul(height)
            .saturating_add(strides[3].saturating_abs().saturating_mul(width))
    };
    let fits = |size: i64, factor: i32| size.saturating_mul(i64::from(factor)) < NARROW;
    reach(&p.input_strides, p.input_width, p.input_height) < NARROW
        && reach(&p.output_strides, p.output_width, p.output_height) < NARROW
        && p.planes < NARROW
        && fits(p.output_width, p.down_x)
        && fits(p.output_height, p.down_y)
        && fits(p.input_width, p.up_x)
        && fits(p.input_height, p.up_y)
        && [p.pad_x, p.pad_y].iter().all(|pad| pad.abs() < NARROW)
        && i64::from(p.taps_x) * i64::from(p.taps_y) < NARROW
}

/// The kernel for a problem, and its parameters with the tiles filled in.
pub fn filter(dtype: DType, p: UpFirDn2dParameters) -> (Form, UpFirDn2dParameters) {
    let narrow = is_narrow(&p);
    let planned = narrow.then(|| tiled(dtype, p).or_else(|| channels_last(dtype, p)).or_else(|| general(dtype, p)));
    planned.flatten().unwrap_or_else(|| strided(dtype, p))
}

fn grid(p: &UpFirDn2dParameters, groups: i64) -> Option<u64> {
    let blocks = i64::from(p.tiles_x).checked_mul(i64::from(p.tiles_y))?.checked_mul(groups)?;
    (blocks <= MAX_BLOCKS as i64).then_some(blocks as u64)
}

/// Fills in tiles of these powers of two.
fn with_tiles(mut p: UpFirDn2dParameters, width: i64, height: i64) -> UpFirDn2dParameters {
    p.tile_width_log2 = log2(width);
    p.tile_height_log2 = log2(height);
    p.tiles_x = (p.output_width as u64).div_ceil(width as u64) as i32;
    p.tiles_y = (p.output_height as u64).div_ceil(height as u64) as i32;
    p
}

fn with_window(
    mut p: UpFirDn2dParameters,
    width: i64,
    height: i64,
    pitch: i64,
    plane_pitch: i64,
) -> UpFirDn2dParameters {
    (p.window_width, p.window_height) = (width as i32, height as i32);
    (p.pitch, p.plane_pitch) = (pitch as i32, plane_pitch as i32);
    (p.width_magic, p.height_magic) = (magic(width), magic(height));
    // With fewer columns than a warp has threads, the threads share several rows.
    p.row_threads_log2 = row_threads_log2(width);
    p
}

/// Threads side by side for so many columns.
fn row_threads_log2(columns: i64) -> i32 {
    log2((columns as u64).next_power_of_two().min(32) as i64)
}

/// Four by four taps with the usual factors and columns side by side in memory.
fn tiled(dtype: DType, p: UpFirDn2dParameters) -> Option<(Form, UpFirDn2dParameters)> {
    let (name, up, down) = match (p.up_x, p.up_y, p.down_x, p.down_y) {
        (1, 1, 1, 1) => ("filter", 1, 1),
        (2, 2, 1, 1) => ("up2", 2, 1),
        (1, 1, 2, 2) => ("down2", 1, 2),
        _ => return None,
    };
    if (p.taps_x, p.taps_y) != (TILED_TAPS, TILED_TAPS) || p.input_strides[3] != 1 || p.output_strides[3] != 1 {
        return None;
    }
    // One thread's outputs, and their share of the window: as in `Tiled` of `tiled.cuh`.
    let compute = dtype.compute().size() as i64;
    let unit = 16 / compute;
    let (width, height) = (unit, if down == 2 { 2 } else { 4 });
    let (step_x, step_y) = (width * down / up, height * down / up);
    let read = if step_x % unit == 0 { unit } else { (8 / compute).max(1).min(step_x) };
    let needed = (width / up - 1) * down + i64::from(TILED_TAPS) / up + (up - 1);
    let columns = (needed as u64).next_multiple_of(read as u64) as i64;
    let rows = (height.max(up) / up - 1) * down + i64::from(TILED_TAPS) / up + (up - 1);

    // The widest tile that wastes little; a tile's border costs about two sectors a row.
    let cost = |tile: i64| (p.output_width as u64).div_ceil(tile as u64) as i64 * (tile + 8);
    let tile_width = (0..=5).rev().map(|log| width << log).min_by_key(|&tile| cost(tile))?;
    let threads_x = tile_width / width;
    let fitting_y = (p.output_height as u64).div_ceil(height as u64).next_power_of_two() as i64;
    let mut threads_y = fitting_y.min(8).min(i64::from(THREADS) / threads_x);
    // Spare threads first take further planes, then further rows.
    let depth = |threads_y: i64| i64::from(THREADS) / (threads_x * threads_y);
    while depth(threads_y) > p.planes && depth(threads_y) > 1 && threads_y < fitting_y {
        threads_y *= 2;
    }
    let mut planned = with_tiles(p, tile_width, height * threads_y);
    let (window_width, window_height) = ((threads_x - 1) * step_x + columns, (threads_y - 1) * step_y + rows);
    // Rows an odd number of sixteen-byte units apart, and planes so that eight neighbouring threads meet no bank twice.
    let units = ((window_width as u64).div_ceil(unit as u64) | 1) as i64;
    let plane_units = match threads_x {
        1 => 1,
        2 => 2,
        _ => 4,
    };
    let whole = units * window_height;
    let plane_pitch = (whole + (plane_units - whole).rem_euclid(8)) * unit;
    planned = with_window(planned, window_width, window_height, units * unit, plane_pitch);
    // Rows of whole vectors: none is half inside the input. A window may begin within one; as `load_vectors` counts them.
    let lanes = 16 / dtype.size() as i64;
    let whole = |value: i64| value % lanes == 0;
    if p.input % 16 == 0 && whole(p.input_width) && p.input_strides[..3].iter().all(|&stride| whole(stride)) {
        planned.vectors = 1;
        planned.width_magic = magic((window_width + 2 * lanes - unit - 1) / lanes + 1);
    }
    let vector = width * dtype.size() as i64;
    let strides = [p.output_strides[0], p.output_strides[1], p.output_strides[2]];
    let aligned = p.output % vector as u64 == 0
        && p.output_width % width == 0
        && strides.iter().all(|stride| stride % width == 0);
    planned.aligned_output = i32::from(aligned);
    // As many planes as there are threads and shared memory for; unaligned outputs are put together there too.
    let staged = if aligned { 0 } else { tile_width * height * threads_y };
    let plane_bytes = plane_pitch.max(staged) * compute;
    let fixed_bytes = ORIGIN_BYTES + staged_taps(&p, compute);
    let depth = depth(threads_y).min(p.planes).min((SHARED_BYTES - fixed_bytes) / plane_bytes);
    if depth == 0 {
        return None;
    }
    planned.planes_per_block = depth as i32;
    let groups = (p.planes as u64).div_ceil(depth as u64) as i64;
    let form = Form {
        kernel: format!("upfirdn2d_{name}_{}", suffix(dtype)),
        blocks: grid(&planned, groups)?,
        shared_bytes: (fixed_bytes + plane_bytes * depth) as u32,
    };
    Some((form, planned))
}

/// Tiles of outputs for the forms that take any factors, four columns and rows at least: a thread has several of them.
const TILES: [(i64, i64); 11] =
    [(128, 32), (64, 32), (64, 16), (32, 32), (32, 16), (32, 8), (16, 16), (16, 8), (8, 8), (8, 4), (4, 4)];

/// One of [`TILES`] with the window that it needs.
struct Choice {
    tile: (i64, i64),
    columns: i64,
    rows: i64,
    shared_bytes: i64,
}

/// The tile that reads least, of those whose window fits shared memory. `reads` is what a window costs, `planes` how
/// often the tiles of a plane are launched.
fn cheapest(
    p: &UpFirDn2dParameters,
    planes: i64,
    shared: impl Fn(&Choice) -> i64,
    reads: impl Fn(&Choice) -> i64,
) -> Option<Choice> {
    let choices = TILES.into_iter().filter_map(|(width, height)| {
        let (columns, rows) = (window(width, p.up_x, p.down_x, p.taps_x), window(height, p.up_y, p.down_y, p.taps_y));
        let mut choice = Choice { tile: (width, height), columns, rows, shared_bytes: 0 };
        choice.shared_bytes = shared(&choice);
        let divisible = columns.saturating_mul(rows).saturating_mul(columns.max(rows)) < 1 << 32;
        (choice.shared_bytes <= SHARED_BYTES && divisible).then_some(choice)
    });
    choices.min_by_key(|choice| {
        let (width, height) = (choice.tile.0 as u64, choice.tile.1 as u64);
        let tiles = (p.output_width as u64).div_ceil(width) * (p.output_height as u64).div_ceil(height);
        let blocks = (tiles as i64).saturating_mul(planes);
        blocks.max(ENOUGH_BLOCKS).saturating_mul(reads(choice))
    })
}

/// Channels side by side in memory, in whole sixteen-byte vectors.
fn channels_last(dtype: DType, p: UpFirDn2dParameters) -> Option<(Form, UpFirDn2dParameters)> {
    let lanes = 16 / dtype.size() as i64;
    let whole = |strides: &[i64; 4]| strides[1] == 1 && [0, 2, 3].iter().all(|&d| strides[d] % lanes == 0);
    if p.channels % lanes != 0
        || !whole(&p.input_strides)
        || !whole(&p.output_strides)
        || (p.input | p.output) % 16 != 0
    {
        return None;
    }
    // A block has as many channels as two sectors hold: fewer would leave sectors half used, more would shrink the tile.
    let vectors = (p.channels / lanes) as u64;
    let parts = vectors.next_power_of_two().min(MAX_PIXEL_VECTORS);
    let planes = p.planes / p.channels * vectors.div_ceil(parts) as i64;
    let taps = staged_taps(&p, dtype.compute().size() as i64);
    let pixels = |choice: &Choice| choice.columns.saturating_mul(choice.rows);
    let shared = |choice: &Choice| pixels(choice).saturating_mul(16 * parts as i64).saturating_add(taps);
    let sectors = |choice: &Choice| choice.rows * (choice.columns * 16 * parts as i64 / SECTOR + 1);
    let choice = cheapest(&p, planes, shared, sectors)?;
    let planned = UpFirDn2dParameters { row_threads_log2: log2(parts as i64), ..with_choice(p, &choice) };
    let kernel = format!("upfirdn2d_channels_last_{}", suffix(dtype));
    Some((Form { kernel, blocks: grid(&planned, planes)?, shared_bytes: choice.shared_bytes as u32 }, planned))
}

fn with_choice(p: UpFirDn2dParameters, choice: &Choice) -> UpFirDn2dParameters {
    let &Choice { tile: (width, height), columns, rows, .. } = choice;
    with_window(with_tiles(p, width, height), columns, rows, columns, columns * rows)
}

/// Any factors, taps and strides whose window fits shared memory.
fn general(dtype: DType, p: UpFirDn2dParameters) -> Option<(Form, UpFirDn2dParameters)> {
    let compute = dtype.compute().size() as i64;
    let fixed_bytes = ORIGIN_BYTES_OF_ONE + staged_taps(&p, compute);
    // The window, and the window filtered along x, by columns.
    let shared = |choice: &Choice| {
        let across = choice.tile.0.saturating_mul(choice.rows | 1);
        choice
            .columns
            .saturating_mul(choice.rows)
            .saturating_add(across)
            .saturating_mul(compute)
            .saturating_add(fixed_bytes)
    };
    // Sectors of each row, and one more where a row begins within one.
    let sectors = |choice: &Choice| choice.rows * (choice.columns * dtype.size() as i64 / SECTOR + 1);
    let choice = cheapest(&p, p.planes, shared, sectors)?;
    let planned = with_choice(p, &choice);
    let kernel = format!("upfirdn2d_general_{}", suffix(dtype));
    Some((Form { kernel, blocks: grid(&planned, p.planes)?, shared_bytes: choice.shared_bytes as u32 }, planned))
}

/// Everything else.
fn strided(dtype: DType, mut p: UpFirDn2dParameters) -> (Form, UpFirDn2dParameters) {
    let outputs = p.output_width.saturating_mul(p.output_height).saturating_mul(p.planes);
    p.channels_fastest = i32::from(p.output_strides[1].abs() < p.output_strides[3].abs() && p.channels > 1);
    let width = if outputs < NARROW && !is_wide() { 32 } else { 64 };
    let blocks = (outputs as u64).div_ceil(u64::from(THREADS));
    (Form { kernel: format!("upfirdn2d_strided_{}_{width}", suffix(dtype)), blocks, shared_bytes: 0 }, p)
}

/// The kernel that adds up the gradient of the taps; `blocks` is filled in with the partial sums of one tap.
pub fn kernel_gradient(dtype: DType, mut p: KernelGradientParameters) -> (Form, KernelGradientParameters) {
    let as_filter = UpFirDn2dParameters {
        planes: p.planes,
        input_strides: p.input_strides,
        output_strides: p.gradient_strides,
        input_width: p.input_width,
        input_height: p.input_height,
        output_width: p.output_width,
        output_height: p.output_height,
        pad_x: p.pad_x,
        pad_y: p.pad_y,
        up_x: p.up_x,
        up_y: p.up_y,
        down_x: p.down_x,
        down_y: p.down_y,
        taps_x: p.taps_x,
        taps_y: p.taps_y,
        ..Default::default()
    };
    let compute = dtype.compute().size() as i64;
    let tiles = [(64, 16), (32, 16), (32, 8), (32, 4), (16, 4), (8, 4), (4, 4), (2, 2), (1, 1)];
    let fitting = tiles.into_iter().filter(|_| is_narrow(&as_filter)).find_map(|(width, height)| {
        let (columns, rows) = (window(width, p.up_x, p.down_x, p.taps_x), window(height, p.up_y, p.down_y, p.taps_y));
        let shared = (width * height + columns * rows) * compute;
        let tiled = with_tiles(as_filter, width, height);
        let blocks = grid(&tiled, p.planes)?;
        (shared <= SHARED_BYTES).then_some((tiled, columns, rows, blocks, shared))
    });
    if let Some((tiled, columns, rows, blocks, shared)) = fitting {
        (p.tiles_x, p.tiles_y) = (tiled.tiles_x, tiled.tiles_y);
        (p.tile_width_log2, p.tile_height_log2) = (tiled.tile_width_log2, tiled.tile_height_log2);
        (p.window_width, p.window_height) = (columns as i32, rows as i32);
        p.blocks = blocks as i64;
        let kernel = format!("upfirdn2d_kernel_gradient_{}", suffix(dtype));
        return (Form { kernel, blocks, shared_bytes: shared as u32 }, p);
    }
    let outputs = p.output_width.saturating_mul(p.output_height).saturating_mul(p.planes) as u64;
    p.blocks = outputs.div_ceil(CHUNK) as i64;
    let blocks = p.blocks as u64 * (p.taps_x as u64 * p.taps_y as u64);
    (Form { kernel: format!("upfirdn2d_kernel_gradient_strided_{}", suffix(dtype)), blocks, shared_bytes: 0 }, p)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(input: [i64; 2], output: [i64; 2], planes: i64, up: i32, down: i32, taps: i32) -> UpFirDn2dParameters {
        UpFirDn2dParameters {
            planes,
            channels: planes,
            input_strides: [0, input[0] * input[1], input[1], 1],
            output_strides: [0, output[0] * output[1], output[1], 1],
            input_width: input[1],
            input_height: input[0],
            output_width: output[1],
            output_height: output[0],
            pad_x: 2,
            pad_y: 2,
            up_x: up,
            up_y: up,
            down_x: down,
            down_y: down,
            taps_x: taps,
            taps_y: taps,
            ..Default::default()
        }
    }

    #[test]
    fn usual_shapes_get_the_tiled_kernels() {
        let names = |p| filter(DType::Float32, p).0.kernel;
        assert_eq!(names(problem([512, 512], [512, 512], 64, 1, 1, 4)), "upfirdn2d_filter_f32");
        assert_eq!(names(problem([256, 256], [512, 512], 64, 2, 1, 4)), "upfirdn2d_up2_f32");
        assert_eq!(names(problem([512, 512], [256, 256], 64, 1, 2, 4)), "upfirdn2d_down2_f32");
        assert_eq!(names(problem([512, 512], [512, 512], 64, 1, 1, 12)), "upfirdn2d_general_f32");
        assert_eq!(names(problem([512, 512], [512, 512], 64, 1, 1, 200)), "upfirdn2d_strided_f32_32");
    }

    #[test]
    fn every_plan_covers_the_output_and_fits_shared_memory() {
        for dtype in DType::ALL {
            for size in [1, 4, 5, 8, 16, 17, 33, 64, 65, 128, 513, 1024] {
                for planes in [1, 3, 64, 1000] {
                    for (up, down) in [(1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (1, 3), (3, 2)] {
                        for taps in [1, 2, 4, 7, 12] {
                            let p = problem([size, size], [size, size], planes, up, down, taps);
                            let (form, p) = filter(dtype, p);
                            assert!(i64::from(form.shared_bytes) <= SHARED_BYTES, "{form:?}");
                            if form.shared_bytes > 0 {
                                let width = i64::from(p.tiles_x) << p.tile_width_log2;
                                let height = i64::from(p.tiles_y) << p.tile_height_log2;
                                assert!(width >= size && height >= size, "{form:?} {p:?}");
                                assert!(p.pitch >= p.window_width && p.plane_pitch >= p.pitch * p.window_height);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn division_by_multiplication_is_exact_within_a_tile() {
        for divisor in 2..600i64 {
            let (magic, limit) = (magic(divisor), 48 * 1024);
            for value in (0..limit).step_by(7).chain([limit - 1]) {
                let quotient = ((value as u64 * u64::from(magic)) >> 32) as i64;
                assert_eq!(quotient, value / divisor, "{value} / {divisor}");
            }
        }
    }

    #[test]
    fn sizes_beyond_32_bits_get_the_wide_kernel() {
        let p = problem([1 << 20, 1 << 20], [1 << 20, 1 << 20], 1, 1, 1, 4);
        assert_eq!(filter(DType::Float16, p).0.kernel, "upfirdn2d_strided_f16_64");
    }
}
