//! Calls of filters that together reach every guard of their kernels.

use super::cases::{Case, LAYOUTS, exact, fused, reduced, whole};
use super::common::operands::{GPU, float, pair_of, tensor};
use firelu::devices::copy;
use firelu::{ArgValue, DType, Tensor, registry};
use firelu_test_support::layouts::Layout;

/// Which filter: the products of powers of two, whose factors are powers of two; whole numbers; with an infinite tap at a
/// place.
#[derive(Clone, Copy, PartialEq)]
enum Taps {
    Outer,
    Full,
    Infinite(usize),
}

fn taps([rows, columns]: [usize; 2], kind: Taps, dtype: DType) -> [Tensor; 2] {
    let mut numbers = whole(rows * columns, 13);
    if kind == Taps::Outer {
        let power = |number: &f64| {
            if *number == 3.0 {
                4.0
            } else if *number == -3.0 {
                -1.0
            } else {
                *number
            }
        };
        let (y, x) = (whole(rows, 11), whole(columns, 12));
        numbers = y.iter().flat_map(|y| x.iter().map(move |x| power(y) * power(x))).collect();
    }
    if let Taps::Infinite(place) = kind {
        numbers[place] = f64::INFINITY;
    }
    let host = tensor(&[rows, columns], &numbers, dtype);
    [host.clone(), copy(&host, GPU).unwrap()]
}

/// A call of UpFirDn2d; the pair of a field is for y, then for x.
#[derive(Clone, Copy)]
struct Filter {
    shape: [usize; 4],
    taps: [usize; 2],
    up: [i64; 2],
    down: [i64; 2],
    /// Before and after.
    pad: [[i64; 2]; 2],
    flip: bool,
}

impl Filter {
    fn new(shape: [usize; 4], size: usize, up: i64, down: i64) -> Self {
        let pad = size as i64 / 2;
        let pad = [[pad - 1, pad], [pad, pad - 1]];
        Filter { shape, taps: [size; 2], up: [up; 2], down: [down; 2], pad, flip: shape[3] % 2 == 0 }
    }

    fn args(&self) -> Vec<(&'static str, ArgValue)> {
        let numbers = [
            ("up_y", self.up[0]),
            ("up_x", self.up[1]),
            ("down_y", self.down[0]),
            ("down_x", self.down[1]),
            ("pad_y0", self.pad[0][0]),
            ("pad_y1", self.pad[0][1]),
            ("pad_x0", self.pad[1][0]),
            ("pad_x1", self.pad[1][1]),
        ];
        let mut args: Vec<_> = numbers.map(|(name, number)| (name, ArgValue::Int(number))).to_vec();
        args.push(("flip_kernel", ArgValue::Bool(self.flip)));
        args.push(("gain", float(1.5)));
        args
    }

    /// Visits every product of the definition in one plane, padding left out: output, tap and sample by their places.
    fn for_each_product(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let Filter { shape, up, down, pad, .. } = *self;
        let [.., height, width] = shape.map(|size| size as i64);
        let [taps_y, taps_x] = self.taps.map(|size| size as i64);
        let size = |input: i64, taps: i64, axis: usize| {
            (input * up[axis] + pad[axis][0] + pad[axis][1] - taps) / down[axis] + 1
        };
        // The sample that a tap of an output meets, if it meets one.
        let meets = |output: i64, tap: i64, axis: usize, samples: i64| {
            let position = output * down[axis] + tap - pad[axis][0];
            (position >= 0 && position % up[axis] == 0 && position / up[axis] < samples).then(|| position / up[axis])
        };
        let columns = size(width, taps_x, 1);
        for output in 0..size(height, taps_y, 0) * columns {
            for tap in 0..taps_y * taps_x {
                let row = meets(output / columns, tap / taps_x, 0, height);
                let column = meets(output % columns, tap % taps_x, 1, width);
                if let (Some(row), Some(column)) = (row, column) {
                    let place = if self.flip { tap } else { taps_y * taps_x - 1 - tap };
                    visit(output as usize, place as usize, (row * width + column) as usize);
                }
            }
        }
    }

    /// The outputs, as many in a plane: what the CPU promises for filters of finite taps alone.
    fn outputs(&self, x: &[f64], taps: &[f64], in_plane: usize) -> Vec<f64> {
        let of_plane = |plane: &[f64]| {
            let mut sums = vec![0.0; in_plane];
            self.for_each_product(|output, tap, sample| sums[output] += plane[sample] * taps[tap]);
            sums.into_iter().map(|sum| 1.5 * sum)
        };
        x.chunks(self.shape[2] * self.shape[3]).flat_map(of_plane).collect()
    }

    /// The gradient of the taps of one plane: what the CPU promises for finite samples and gradients alone.
    fn kernel_gradient(&self, x: &[f64], dy: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.taps.iter().product()];
        self.for_each_product(|output, tap, sample| sums[tap] += x[sample] * dy[output]);
        sums.into_iter().map(|sum| 1.5 * sum).collect()
    }

    /// Forward, and both gradients where the filter is finite.
    fn cases(&self, layout: Layout, kind: Taps, tap_type: DType, dtype: DType) -> Vec<Case> {
        let (x, k) = (exact(&self.shape, layout, dtype, 1), taps(self.taps, kind, tap_type));
        let mut forward = Case::new("UpFirDn2d", vec![Some(x.clone()), Some(k.clone())], self.args());
        if matches!(kind, Taps::Infinite(_)) {
            let [x, k] = [&x[0], &k[0]].map(|tensor| tensor.to_f64_vec().unwrap());
            let in_plane = forward.expected[0].len() / (self.shape[0] * self.shape[1]);
            let outputs = self.outputs(&x, &k, in_plane);
            forward.expected = vec![tensor(&[outputs.len()], &outputs, dtype).to_f64_vec().unwrap()];
            return vec![forward];
        }
        let out = registry::run("UpFirDn2d", &[Some(&x[0]), Some(&k[0])], self.args()).unwrap();
        let dy = Some(exact(out[0].shape(), layout, dtype, 5));
        let inputs = vec![dy.clone(), Some(k.clone()), Some(x.clone())];
        let back = Case::new("UpFirDn2dGradient", inputs, self.args());
        vec![forward, back, Case::new("UpFirDn2dKernelGradient", vec![Some(x), dy, Some(k)], self.args())]
    }
}

/// Filters that the general kernels serve.
fn of_any_factors() -> Vec<Filter> {
    let cropped = [[-1, -2], [-2, -1]];
    vec![
        Filter::new([2, 2, 9, 11], 5, 3, 2),
        Filter::new([1, 1, 20, 150], 12, 2, 1),
        Filter::new([1, 2, 18, 20], 3, 1, 1),
        Filter::new([1, 2, 40, 40], 17, 1, 1),
        Filter::new([1, 8, 20, 20], 17, 1, 1),
        Filter::new([1, 2, 20, 70], 1, 1, 1),
        Filter { taps: [3, 5], up: [2, 3], down: [3, 1], ..Filter::new([2, 3, 7, 9], 4, 1, 1) },
        Filter { taps: [6, 1], up: [1, 2], down: [1, 3], ..Filter::new([1, 3, 13, 40], 4, 1, 1) },
        Filter { pad: cropped, ..Filter::new([1, 2, 18, 21], 3, 1, 1) },
        // Zeros that are more than the taps, so that some outputs meet no sample.
        Filter { pad: [[2, 2]; 2], ..Filter::new([1, 8, 6, 7], 2, 3, 1) },
        Filter { pad: [[3, 1]; 2], ..Filter::new([2, 8, 5, 6], 2, 8, 1) },
        // Steps so long that tiles cannot count them: one row or one column.
        Filter { down: [1, 1 << 30], ..Filter::new([2, 3, 9, 9], 3, 2, 1) },
        Filter { down: [1 << 30, 2], ..Filter::new([2, 3, 9, 300], 3, 1, 1) },
        Filter { down: [1 << 30, 1], pad: cropped, ..Filter::new([2, 4, 9, 300], 4, 2, 1) },
        Filter { down: [1 << 30, 1], pad: [[1, 1], [1, 2]], ..Filter::new([1, 2, 5, 9], 3, 1, 1) },
        Filter { down: [1, 1 << 30], pad: [[2, 2]; 2], ..Filter::new([1, 2, 6, 7], 2, 3, 1) },
        Filter { down: [1, 1 << 30], pad: [[2, 2], [1, 2]], ..Filter::new([1, 2, 6, 7], 2, 3, 1) },
    ]
}

/// More of them.
fn of_long_steps() -> Vec<Filter> {
    // Ever larger steps, so ever smaller tiles.
    let mut kinds = [4, 6, 10, 16].map(|down| Filter::new([1, 2, 40, 50], 3, 1, down)).to_vec();
    kinds.push(Filter::new([1, 2, 40, 320], 3, 1, 16));
    // Rows of the window longer than one warp and longer than three.
    for down in [40, 100] {
        let pad = [[1, 1], [2, 40]];
        kinds.push(Filter { taps: [2, 3], down: [1, down], pad, ..Filter::new([1, 2, 5, 150], 3, 1, 1) });
    }
    // More rows than the threads load and filter at once.
    let pad = [[2, 40], [1, 1]];
    kinds.push(Filter { taps: [3, 2], down: [200, 1], pad, ..Filter::new([1, 2, 250, 5], 3, 1, 1) });
    // Few outputs far apart: long rows of the window, which end and begin in each of the places that a thread reads.
    for width in [10, 40, 70, 100, 130, 170, 200, 232, 270] {
        for before in [2, 40, 100] {
            let pad = [[1, 1], [before, 300 - width as i64]];
            kinds.push(Filter { taps: [2, 3], down: [1, 240], pad, ..Filter::new([1, 2, 5, width], 3, 1, 1) });
        }
    }
    kinds
}

/// Filters of four taps and the usual factors.
fn of_four_taps() -> Vec<Filter> {
    // Rows that are whole vectors and not, narrower than a warp and wider than three, planes that fill blocks and not,
    // and padding on every side or cropping.
    let shapes = [
        [2, 3, 9, 9],
        [1, 2, 17, 24],
        [1, 1, 9, 150],
        [1, 1, 9, 300],
        [2, 16, 6, 20],
        [1, 24, 6, 20],
        [1, 12, 5, 33],
        [1, 5, 8, 16],
        [1, 70, 2, 4],
        [1, 1, 1, 1],
        [1, 1, 33, 128],
        [1, 1, 4, 132],
        [1, 3, 9, 8],
        [1, 3, 10, 8],
        [1, 3, 11, 16],
        [1, 3, 12, 16],
        [1, 3, 6, 5],
        [1, 3, 6, 7],
        [1, 3, 7, 11],
        [1, 1, 31, 31],
        // So many vectors of sixteen bytes a tile that a thread has all that are under way together, and more rounds.
        [1, 16, 16, 16],
        [1, 70, 8, 8],
    ];
    let mut kinds = Vec::new();
    for (up, down) in FACTORS {
        for shape in shapes {
            let filter = Filter::new(shape, 4, up, down);
            kinds.push(filter);
            if shape[2] > 8 {
                kinds.push(Filter { pad: [[-1, -2], [-2, -1]], flip: !filter.flip, ..filter });
            }
        }
    }
    kinds
}

const FACTORS: [(i64, i64); 3] = [(1, 1), (2, 1), (1, 2)];

/// More of them.
fn of_wide_tiles() -> Vec<Filter> {
    let mut kinds = Vec::new();
    for (up, down) in FACTORS {
        // One tile as wide as any, of rows that end in each of the places that a thread reads.
        for width in [3, 40, 70, 100, 130, 200, 230] {
            let (samples, inputs) = (width as i64 * up, 127 * down + 4);
            if samples < inputs {
                let pad = [[1, 1], [2, inputs - samples - 2]];
                kinds.push(Filter { pad, ..Filter::new([1, 1, 9, width], 4, up, down) });
            }
        }
    }
    kinds
}

/// Every filter in every layout with every kind of taps.
fn thoroughly(kinds: Vec<Filter>, dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    for (filter, layout) in kinds.into_iter().flat_map(|filter| LAYOUTS.map(|layout| (filter, layout))) {
        for kind in [Taps::Outer, Taps::Full, Taps::Infinite(0)] {
            let tap_type = if kind == Taps::Outer { dtype.compute() } else { dtype };
            cases.extend(filter.cases(layout, kind, tap_type, dtype));
        }
    }
    cases
}

pub fn filters_of_any_factors(dtype: DType) -> Vec<Case> {
    thoroughly([of_any_factors(), of_long_steps()].concat(), dtype)
}

pub fn filters_of_four_taps(dtype: DType) -> Vec<Case> {
    let mut cases = thoroughly([of_four_taps(), of_wide_tiles()].concat(), dtype);
    for (tap_type, (up, down)) in DType::ALL.into_iter().flat_map(|tap_type| FACTORS.map(|factors| (tap_type, factors)))
    {
        cases.extend(Filter::new([1, 2, 9, 9], 4, up, down).cases(Layout::RowMajor, Taps::Full, tap_type, dtype));
    }
    cases
}

/// Channels side by side, so many that a block has more pixels than threads for them.
pub fn filters_of_many_channels(dtype: DType) -> Vec<Case> {
    let filter = Filter::new([20, 64 / dtype.size(), 20, 16], 4, 1, 1);
    [Taps::Outer, Taps::Full]
        .into_iter()
        .flat_map(|kind| filter.cases(Layout::ChannelsLast, kind, dtype, dtype))
        .collect()
}

/// Enough to reach every barrier: each filter in every layout with one kind of taps in turn.
pub fn some_filters(dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    for (turn, filter) in of_any_factors().into_iter().chain(of_four_taps()).enumerate() {
        for (place, layout) in LAYOUTS.into_iter().enumerate() {
            let kind = [Taps::Outer, Taps::Full, Taps::Infinite(0)][(turn + place) % 3];
            cases.extend(filter.cases(layout, kind, dtype, dtype));
        }
    }
    cases
}

/// More work: as many partial sums a tap as blocks have threads, and several rounds of four times as many; kernels that
/// fit no window, of few outputs and of more than one block adds.
pub fn sums_of_filters(dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    for planes in [255, 256, 257, 770, 1024, 2100] {
        let filter = Filter { taps: [2, 1], ..Filter::new([planes, 1, 2, 2], 2, 1, 1) };
        cases.extend(filter.cases(Layout::RowMajor, Taps::Full, dtype, dtype));
    }
    let large = Filter { taps: [121, 123], pad: [[0; 2]; 2], ..Filter::new([1, 1, 122, 124], 1, 1, 1) };
    cases.extend(large.cases(Layout::RowMajor, Taps::Full, dtype, dtype));
    let long = Filter { down: [1, 1 << 30], ..Filter::new([1, 1, 9000, 3], 3, 1, 1) };
    cases.extend(long.cases(Layout::RowMajor, Taps::Full, dtype, dtype));
    cases.extend(infinities(dtype));
    cases.extend(bordered(dtype));
    cases
}

/// Filters whose padding is filled with samples, and both gradients: whole numbers, so that sums have no order.
fn bordered(dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    for border in ["edge", "reflect", "symmetric", "wrap"] {
        let filter = Filter { pad: [[3, 2], [2, 3]], ..Filter::new([2, 3, 18, 21], 3, 2, 1) };
        let (x, k) =
            (exact(&filter.shape, Layout::RowMajor, dtype, 1), exact(&filter.taps, Layout::RowMajor, dtype, 3));
        let mut args = filter.args();
        args.push(("border", ArgValue::String(border.into())));
        let out = registry::run("UpFirDn2d", &[Some(&x[0]), Some(&k[0])], args.clone()).unwrap();
        let dy = exact(out[0].shape(), Layout::RowMajor, dtype, 5);
        cases.push(Case::new("UpFirDn2d", vec![Some(x.clone()), Some(k.clone())], args.clone()));
        let gradient = vec![Some(dy.clone()), Some(k.clone()), Some(x.clone())];
        cases.push(Case::new("UpFirDn2dGradient", gradient, args.clone()));
        cases.push(Case::new("UpFirDn2dKernelGradient", vec![Some(x), Some(dy), Some(k)], args));
    }
    cases
}

/// Kernel gradients of an infinite sample and of an infinite gradient, which show in a sum that should leave them out
/// even where they are multiplied with zero: cropped on one side, so that outputs past the last would meet the sample.
fn infinities(dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    let factors = [(1, 1), (2, 1), (1, 2), (3, 2), (1, 1 << 30)];
    let pads = [[[1, 1], [1, 1]], [[1, 1], [1, -1]], [[1, -1], [1, 1]], [[-1, 1], [1, 1]], [[1, 1], [-1, 1]]];
    for ((up, down), pad) in factors.into_iter().flat_map(|factors| pads.map(|pad| (factors, pad))) {
        let filter = Filter { pad, ..Filter::new([1, 1, 18, 21], 3, up, down) };
        let (x, k) = (exact(&filter.shape, Layout::RowMajor, dtype, 1), taps(filter.taps, Taps::Full, dtype));
        let out = registry::run("UpFirDn2d", &[Some(&x[0]), Some(&k[0])], filter.args()).unwrap();
        let dy = exact(out[0].shape(), Layout::RowMajor, dtype, 5);
        let with_infinity = |shape: &[usize], is_last: bool| {
            pair_of(shape, Layout::RowMajor, dtype, |count| {
                let mut numbers = whole(count, 7);
                numbers[if is_last { count - 1 } else { 0 }] = f64::INFINITY;
                numbers
            })
        };
        for is_last in [false, true] {
            for (x, dy) in [
                (with_infinity(&filter.shape, is_last), dy.clone()),
                (x.clone(), with_infinity(out[0].shape(), is_last)),
            ] {
                let [samples, gradients] = [&x, &dy].map(|pair| pair[0].to_f64_vec().unwrap());
                let inputs = vec![Some(x), Some(dy), Some(k.clone())];
                let mut case = Case::new("UpFirDn2dKernelGradient", inputs, filter.args());
                let expected = filter.kernel_gradient(&samples, &gradients);
                case.expected = vec![tensor(&[expected.len()], &expected, dtype).to_f64_vec().unwrap()];
                cases.push(case);
            }
        }
    }
    cases
}

/// Kernels of every type, of fewer taps than threads and of more, and those whose factors show.
pub fn taps_of_filters(dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    for tap_type in DType::ALL {
        for size in [3, 7, 17] {
            for kind in [Taps::Outer, Taps::Full, Taps::Infinite(0)] {
                let filter = Filter::new([1, 1, 18, 20], size, 1, 1);
                cases.extend(filter.cases(Layout::RowMajor, kind, tap_type, dtype));
            }
        }
    }
    // The one infinite tap is that of any warp: each tells the others.
    for warp in 0..8 {
        let filter = Filter::new([1, 1, 18, 20], 17, 1, 1);
        cases.extend(filter.cases(Layout::RowMajor, Taps::Infinite(32 * warp + 9), dtype, dtype));
    }
    for rows in almost_products(dtype.compute()) {
        let turned = (0..rows[0].len()).map(|x| rows.iter().map(|row| row[x]).collect()).collect();
        for rows in [rows, turned].into_iter().flat_map(|rows: Vec<Vec<f64>>| [among_zeros(&rows), rows]) {
            let backwards = rows.iter().rev().map(|row| row.iter().rev().copied().collect()).collect();
            cases.extend([rows, backwards].map(|rows| impulse(&rows, dtype)));
        }
    }
    cases
}

/// Kernels that are the product of two factors but for a digit, so that it shows in the impulse response whether they
/// are filtered by factors and which of two largest taps these are taken by.
fn almost_products(compute: DType) -> Vec<Vec<Vec<f64>>> {
    let is_double = compute == DType::Float64;
    let next = 0.5 * (1.0 + if is_double { 2f64.powi(-52) } else { 2f64.powi(-23) });
    let row = |columns: usize, largest: usize, others: f64| {
        let mut row = vec![others; columns];
        row[largest] = 1.0;
        row
    };
    // Factors below the normal numbers lose digits: of them, not of whole kernels, so these are no products.
    let (unit, whole) = if is_double { (f64::from_bits(1), 2f64.powi(50)) } else { (2f64.powi(-149), 2f64.powi(22)) };
    let (small, odd) = (whole * unit, (whole - 1.0) / 3.0);
    vec![
        vec![row(2, 0, 0.5), row(2, 0, next)],
        vec![row(300, 0, 0.5), row(300, 0, next)],
        // The first of the largest taps is another thread's than the second, which has the lower number.
        vec![row(255, 1, 0.5), row(255, 1, next)],
        vec![vec![1.0, 0.0, 0.5], vec![1.0, 0.0, next]],
        vec![vec![1.0, 0.5], vec![0.0, 0.0], vec![1.0, next]],
        vec![vec![3.0, small], vec![3.0, small]],
        vec![vec![3.0, 1.0], vec![3.0 * odd * unit, odd * unit]],
    ]
}

/// The same with zeros around it, where it is small: more taps than a warp has lanes.
fn among_zeros(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let columns = rows[0].len().max(7);
    let mut wide: Vec<_> = rows.iter().map(|row| [&row[..], &vec![0.0; columns - row.len()]].concat()).collect();
    wide.resize(rows.len().max(7), vec![0.0; columns]);
    wide
}

/// A single sample, so that every output is one tap.
fn impulse(rows: &[Vec<f64>], dtype: DType) -> Case {
    let size = [rows.len(), rows[0].len()];
    let pad = size.map(|size| [size as i64 - 1; 2]);
    let filter = Filter { taps: size, pad, ..Filter::new([1, 1, 1, 1], 1, 1, 1) };
    let x = pair_of(&filter.shape, Layout::RowMajor, dtype, |count| vec![1.0; count]);
    let k = tensor(&size, &rows.concat(), dtype.compute());
    let k = [k.clone(), copy(&k, GPU).unwrap()];
    Case::new("UpFirDn2d", vec![Some(x), Some(k)], filter.args())
}

/// One of each kind whose last step is a kernel for all types, in the other types.
pub fn of_other_types(dtype: DType) -> Vec<Case> {
    let others = DType::ALL.into_iter().filter(|&other| other != dtype);
    others
        .flat_map(|other| {
            let mut cases = fused(&[2, 3, 32, 64], Layout::RowMajor, other);
            cases.push(reduced(&[20000], Layout::RowMajor, &[0], other));
            cases.extend(Filter::new([1, 2, 18, 20], 3, 1, 1).cases(Layout::RowMajor, Taps::Full, other, other));
            cases
        })
        .collect()
}
