//! Calls that together reach every guard of the kernels, with operands whose sums are exact: whole numbers, none of
//! them zero, so that a term too many or too few is a wrong result, whatever the order of the sum.

use std::fmt;

use super::common::operands::{GPU, Lay, float, pair, pair_of, same_bits, tensor};
use firelu::devices::copy;
use firelu::{ArgValue, DType, Device, Tensor, registry};

/// An operator with operands on both devices, and what the CPU says.
pub struct Case {
    pub name: &'static str,
    inputs: Vec<Option<[Tensor; 2]>>,
    args: Vec<(&'static str, ArgValue)>,
    expected: Vec<Vec<f64>>,
}

impl Case {
    fn new(name: &'static str, inputs: Vec<Option<[Tensor; 2]>>, args: Vec<(&'static str, ArgValue)>) -> Self {
        let host: Vec<_> = inputs.iter().map(|input| input.as_ref().map(|pair| &pair[0])).collect();
        let expected = registry::run(name, &host, args.iter().cloned()).unwrap();
        let expected = expected.iter().map(|y| y.to_f64_vec().unwrap()).collect();
        Case { name, inputs, args, expected }
    }

    /// Whether the device agrees with the CPU, to the bit but for the sign of a filter's zeros, and no call failed.
    pub fn agrees(&self) -> bool {
        let inputs: Vec<_> = self.inputs.iter().map(|input| input.as_ref().map(|pair| &pair[1])).collect();
        let Ok(results) = registry::run(self.name, &inputs, self.args.iter().cloned()) else { return false };
        results.iter().zip(&self.expected).all(|(result, expected)| {
            let Ok(found) = copy(result, Device::Cpu).and_then(|found| found.to_f64_vec()) else { return false };
            let is_filter = self.name.starts_with("UpFirDn2d");
            expected.iter().zip(&found).all(|(&a, &b)| same_bits(a, b) || is_filter && a == b)
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<_> = self.inputs.iter().flatten().map(|pair| (pair[0].kind(), pair[0].strides())).collect();
        write!(f, "{} of {kinds:?} {:?}", self.name, self.args)
    }
}

const LAYS: [Lay; 4] = [Lay::RowMajor, Lay::ChannelsLast, Lay::Sliced, Lay::Shifted];

/// Whole numbers from -3 to 3 without zero.
fn whole(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0][(state >> 33) as usize % 6]
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn exact(shape: &[usize], lay: Lay, dtype: DType, seed: u64) -> [Tensor; 2] {
    pair_of(shape, lay, dtype, |count| whole(count, seed))
}

/// Which filter: the products of powers of two, whose factors are powers of two; whole numbers; with an infinite tap.
#[derive(Clone, Copy, PartialEq)]
enum Taps {
    Outer,
    Full,
    Infinite,
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
    if kind == Taps::Infinite {
        numbers[0] = f64::INFINITY;
    }
    let host = tensor(&[rows, columns], &numbers, dtype);
    [host.clone(), copy(&host, GPU).unwrap()]
}

pub fn elementwise(dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    for shape in [&[3, 5][..], &[1030], &[4130], &[2, 8, 5, 6], &[1, 2, 33, 65], &[2, 3, 32, 64]] {
        for lay in LAYS {
            cases.extend(maps(shape, lay, dtype));
            cases.extend(sums(shape, lay, &[11], dtype));
            cases.extend(fused(shape, lay, dtype));
            let axes: Vec<usize> = (0..shape.len()).filter(|&axis| axis != 1).collect();
            cases.extend([reduced(shape, lay, &axes, dtype)]);
        }
    }
    // Every rank that a kernel takes, of dimensions that cannot be merged, reduced over some of them.
    for rank in 1..=8 {
        let shape: Vec<usize> = (0..rank).map(|axis| 2 + axis % 2).collect();
        cases.extend(maps(&shape, Lay::Sliced, dtype));
        cases.extend(sums(&shape, Lay::Sliced, &[1, 2, 3], dtype));
        cases.extend(fused(&shape, Lay::Sliced, dtype));
        for axes in [(0..rank).collect::<Vec<_>>(), (0..rank).step_by(2).collect(), (1..rank).collect(), vec![rank - 1]]
        {
            cases.extend([reduced(&shape, Lay::Sliced, &axes, dtype)]);
        }
        // Long sums: one block for each, of several rounds and of several chunks.
        let long: Vec<usize> = [50, 11].into_iter().chain(shape).take(rank.max(2)).collect();
        let axes: Vec<usize> = (0..long.len()).filter(|&axis| axis != 1).collect();
        cases.extend([reduced(&long, Lay::Sliced, &axes, dtype), reduced(&long, Lay::Sliced, &[0], dtype)]);
        cases.extend([reduced(&[vec![9000, 2], vec![1; rank - 1]].concat(), Lay::Sliced, &[0], dtype)]);
    }
    cases.extend(fused(&[2; 9], Lay::Sliced, dtype));
    // Short sums of as many dimensions as they can have, of one term and of none, and long ones for outputs of every rank.
    cases.extend([6, 7].map(|rank| reduced(&vec![2; rank], Lay::Sliced, &Vec::from_iter(0..rank), dtype)));
    cases.push(reduced(&[2; 8], Lay::Sliced, &Vec::from_iter(1..8), dtype));
    cases.push(reduced(&[2; 9], Lay::Sliced, &[8], dtype));
    cases.extend([0, 1].map(|length| reduced(&[3, length], Lay::Sliced, &[1], dtype)));
    for rank in 1..=8 {
        cases.push(reduced(&[vec![2; rank], vec![129]].concat(), Lay::Sliced, &[rank], dtype));
    }
    // Zeros whose sign tells whether they were added to anything.
    let zeros = pair_of(&[7], Lay::RowMajor, dtype, |count| vec![-0.0; count]);
    cases.push(Case::new("Sum", vec![Some(zeros)], vec![]));
    cases.extend(fused(&[9, 2, 1000], Lay::Sliced, dtype));
    // Sums of vectors and of what is left of one, of as many operands as one launch takes and of more.
    for count in [1, 2, 3, 4, 5, 6, 7, 1027] {
        cases.extend(sums(&[count], Lay::RowMajor, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17], dtype));
    }
    // Planes of one block and of two, whole and one vector short of whole or past it.
    let lanes = 16 / dtype.size();
    for vectors in [128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025] {
        cases.extend(fused(&[2, 3, 1, vectors * lanes], Lay::RowMajor, dtype));
    }
    // Channels side by side: few and many, in groups whole and not, over rows whole and not.
    for vectors in [1, 2, 3, 8, 9, 16] {
        for rows in [1, 31, 32, 96, 256, 512, 513, 515] {
            cases.extend(fused(&[1, vectors * lanes, 1, rows], Lay::ChannelsLast, dtype));
        }
    }
    for (vectors, rows) in [(9, 8197), (9, 8224), (16, 8197)] {
        cases.extend(fused(&[1, vectors * lanes, 1, rows], Lay::ChannelsLast, dtype));
    }
    // Channels that begin within a vector.
    for shape in [&[7, 3][..], &[40, 3, 5, 7], &[90, 2, 3], &[301, 5], &[1, 1, 1, 9], &[2, 1, 3]] {
        cases.extend(fused(shape, Lay::RowMajor, dtype));
    }
    let broadcast =
        vec![Some(exact(&[3, 1, 4], Lay::RowMajor, dtype, 1)), Some(exact(&[2, 1], Lay::RowMajor, dtype, 2))];
    cases.push(Case::new("Mul", broadcast, vec![]));
    cases.push(reduced(&[20000], Lay::RowMajor, &[0], dtype));
    cases
}

/// One of each kind whose last step is a kernel for all types, in the other types.
pub fn of_other_types(dtype: DType) -> Vec<Case> {
    let others = DType::ALL.into_iter().filter(|&other| other != dtype);
    others
        .flat_map(|other| {
            let mut cases = fused(&[2, 3, 32, 64], Lay::RowMajor, other);
            cases.push(reduced(&[20000], Lay::RowMajor, &[0], other));
            cases.extend(Filter::new([1, 2, 18, 20], 3, 1, 1).cases(Lay::RowMajor, Taps::Full, other, other));
            cases
        })
        .collect()
}

fn maps(shape: &[usize], lay: Lay, dtype: DType) -> Vec<Case> {
    let two = vec![Some(pair(shape, lay, dtype, 1)), Some(pair(shape, lay, dtype, 2))];
    let alpha = vec![("alpha", float(-0.5))];
    let mut cases = vec![
        Case::new("LeakyRelu", two[..1].to_vec(), alpha.clone()),
        Case::new("LeakyReluGradient", two.clone(), alpha),
        Case::new("BroadcastLike", two.clone(), vec![("scale", float(0.5))]),
    ];
    cases.extend(["Add", "Sub", "Mul"].map(|name| Case::new(name, two.clone(), vec![])));
    cases
}

fn sums(shape: &[usize], lay: Lay, counts: &[u64], dtype: DType) -> Vec<Case> {
    let of = |count: u64| (0..count).map(|seed| Some(pair(shape, lay, dtype, seed))).collect();
    counts.iter().map(|&count| Case::new("Sum", of(count), vec![])).collect()
}

/// FusedLeakyRelu and its gradient with and without a bias, which is of the tensors' type or of that they are computed in.
fn fused(shape: &[usize], lay: Lay, dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    if shape.len() < 2 {
        return cases;
    }
    let args = vec![("alpha", float(-0.5)), ("scale", float(2.0))];
    let [x, dy] = [1, 2].map(|seed| Some(exact(shape, lay, dtype, seed)));
    let mut kinds = vec![dtype, dtype.compute()];
    kinds.dedup();
    for bias in kinds.into_iter().map(|kind| Some(exact(&[shape[1]], Lay::RowMajor, kind, 3))).chain([None]) {
        cases.push(Case::new("FusedLeakyRelu", vec![x.clone(), bias.clone()], args.clone()));
        cases.push(Case::new("FusedLeakyReluGradient", vec![x.clone(), dy.clone(), bias.clone()], args.clone()));
        if bias.is_some() {
            cases.push(Case::new("FusedLeakyReluGradient", vec![x.clone(), None, bias], args.clone()));
        }
    }
    // Where there is no gradient, -0 stands for it: a zero of the other sign would show.
    let zeros = pair_of(&[shape[1]], Lay::RowMajor, dtype, |count| vec![-0.0; count]);
    cases.push(Case::new("FusedLeakyReluGradient", vec![x, None, Some(zeros)], args));
    cases
}

fn reduced(shape: &[usize], lay: Lay, axes: &[usize], dtype: DType) -> Case {
    let axes = ArgValue::Ints(axes.iter().map(|&axis| axis as i64).collect());
    Case::new("ReduceSum", vec![Some(exact(shape, lay, dtype, 1))], vec![("axes", axes), ("scale", float(0.75))])
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

    /// The outputs by the definition, padding left out: what the CPU promises for filters of finite taps alone.
    fn by_definition(&self, x: &[f64], taps: &[f64]) -> Vec<f64> {
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
        let mut outputs = Vec::new();
        for plane in x.chunks((height * width) as usize) {
            for y in 0..size(height, taps_y, 0) {
                for x in 0..size(width, taps_x, 1) {
                    let mut sum = 0.0;
                    for tap in 0..taps_y * taps_x {
                        let (tap_y, tap_x) = (tap / taps_x, tap % taps_x);
                        let place = if self.flip { tap } else { taps_y * taps_x - 1 - tap };
                        if let (Some(row), Some(column)) = (meets(y, tap_y, 0, height), meets(x, tap_x, 1, width)) {
                            sum += plane[(row * width + column) as usize] * taps[place as usize];
                        }
                    }
                    outputs.push(1.5 * sum);
                }
            }
        }
        outputs
    }

    /// Forward, and both gradients where the filter is finite.
    fn cases(&self, lay: Lay, kind: Taps, tap_type: DType, dtype: DType) -> Vec<Case> {
        let (x, k) = (exact(&self.shape, lay, dtype, 1), taps(self.taps, kind, tap_type));
        let mut forward = Case::new("UpFirDn2d", vec![Some(x.clone()), Some(k.clone())], self.args());
        if kind == Taps::Infinite {
            let [x, k] = [&x[0], &k[0]].map(|tensor| tensor.to_f64_vec().unwrap());
            forward.expected = vec![self.by_definition(&x, &k)];
            return vec![forward];
        }
        let out = registry::run("UpFirDn2d", &[Some(&x[0]), Some(&k[0])], self.args()).unwrap();
        let dy = Some(exact(out[0].shape(), lay, dtype, 5));
        let inputs = vec![dy.clone(), Some(k.clone()), Some(x.clone())];
        let back = Case::new("UpFirDn2dGradient", inputs, self.args());
        vec![forward, back, Case::new("UpFirDn2dKernelGradient", vec![Some(x), dy, Some(k)], self.args())]
    }
}

pub fn filters(dtype: DType) -> Vec<Case> {
    let cropped = [[-1, -2], [-2, -1]];
    let mut kinds = vec![
        Filter::new([2, 2, 9, 11], 5, 3, 2),
        Filter::new([1, 1, 20, 150], 12, 2, 1),
        Filter::new([1, 2, 18, 20], 3, 1, 1),
        Filter::new([1, 2, 40, 40], 17, 1, 1),
        Filter { taps: [3, 5], up: [2, 3], down: [3, 1], ..Filter::new([2, 3, 7, 9], 4, 1, 1) },
        Filter { taps: [6, 1], up: [1, 2], down: [1, 3], ..Filter::new([1, 3, 13, 40], 4, 1, 1) },
        Filter { pad: cropped, ..Filter::new([1, 2, 18, 21], 3, 1, 1) },
        // Steps so long that tiles cannot count them: one row or one column.
        Filter { down: [1, 1 << 30], ..Filter::new([2, 3, 9, 9], 3, 2, 1) },
        Filter { down: [1 << 30, 2], ..Filter::new([2, 3, 9, 300], 3, 1, 1) },
        Filter { down: [1 << 30, 1], pad: cropped, ..Filter::new([2, 4, 9, 300], 4, 2, 1) },
    ];
    // Four taps and the usual factors: rows that are whole vectors and not, narrower than a warp and wider than three,
    // planes that fill blocks and not, and padding on every side or cropping.
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
    ];
    for (up, down) in [(1, 1), (2, 1), (1, 2)] {
        for shape in shapes {
            let filter = Filter::new(shape, 4, up, down);
            kinds.push(filter);
            if shape[2] > 8 {
                kinds.push(Filter { pad: cropped, flip: !filter.flip, ..filter });
            }
        }
    }
    let mut cases = Vec::new();
    // Every filter in every layout, each with one kind of taps in turn.
    for (turn, filter) in kinds.into_iter().enumerate() {
        for (place, lay) in LAYS.into_iter().enumerate() {
            let kind = [Taps::Outer, Taps::Full, Taps::Infinite][(turn + place) % 3];
            let tap_type = if kind == Taps::Outer { dtype.compute() } else { dtype };
            cases.extend(filter.cases(lay, kind, tap_type, dtype));
        }
    }
    // As many partial sums a tap as blocks have threads, and several rounds of four times as many.
    for planes in [255, 256, 257, 770, 1024, 2100] {
        let filter = Filter { taps: [2, 1], ..Filter::new([planes, 1, 2, 2], 2, 1, 1) };
        cases.extend(filter.cases(Lay::RowMajor, Taps::Full, dtype, dtype));
    }
    // A kernel that fits no window.
    let large = Filter { taps: [121, 123], pad: [[0; 2]; 2], ..Filter::new([1, 1, 122, 124], 1, 1, 1) };
    cases.extend(large.cases(Lay::RowMajor, Taps::Full, dtype, dtype));
    cases
}
