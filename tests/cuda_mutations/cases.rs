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
    let any = |shape: &[usize], lay, seed| Some(pair(shape, lay, dtype, seed));
    let operand = |shape: &[usize], lay, seed| Some(exact(shape, lay, dtype, seed));
    for shape in [&[3, 5][..], &[1030], &[4130], &[2, 8, 5, 6], &[1, 2, 33, 65], &[2, 3, 32, 64]] {
        for lay in LAYS {
            let alpha = vec![("alpha", float(-0.5))];
            let two = vec![any(shape, lay, 1), any(shape, lay, 2)];
            cases.push(Case::new("LeakyRelu", vec![any(shape, lay, 1)], alpha.clone()));
            cases.push(Case::new("LeakyReluGradient", two.clone(), alpha));
            for name in ["Add", "Sub", "Mul"] {
                cases.push(Case::new(name, two.clone(), vec![]));
            }
            let many = (0..11).map(|k| any(shape, lay, k)).collect();
            cases.push(Case::new("Sum", many, vec![]));
            cases.push(Case::new("BroadcastLike", two, vec![("scale", float(0.5))]));
            if shape.len() < 2 {
                continue;
            }
            let args = vec![("alpha", float(-0.5)), ("scale", float(2.0))];
            // A bias is of the tensors' type or, beside half types, wider.
            for kind in DType::ALL.into_iter().filter(|&kind| kind == dtype || dtype.size() == 2 && kind.size() > 2) {
                let bias = Some(exact(&[shape[1]], Lay::RowMajor, kind, 3));
                let inputs = vec![operand(shape, lay, 1), bias.clone()];
                cases.push(Case::new("FusedLeakyRelu", inputs, args.clone()));
                for dy in [operand(shape, lay, 2), None] {
                    let inputs = vec![operand(shape, lay, 1), dy, bias.clone()];
                    cases.push(Case::new("FusedLeakyReluGradient", inputs, args.clone()));
                }
            }
            let axes = (0..shape.len() as i64).filter(|&axis| axis != 1).collect();
            let args = vec![("axes", ArgValue::Ints(axes)), ("scale", float(0.75))];
            cases.push(Case::new("ReduceSum", vec![operand(shape, lay, 1)], args));
        }
    }
    let broadcast = vec![operand(&[3, 1, 4], Lay::RowMajor, 1), operand(&[2, 1], Lay::RowMajor, 2)];
    cases.push(Case::new("Mul", broadcast, vec![]));
    let args = vec![("scale", float(0.75))];
    cases.push(Case::new("ReduceSum", vec![operand(&[20000], Lay::RowMajor, 1)], args));
    cases
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
    let kinds = [
        Filter::new([2, 3, 9, 9], 4, 1, 1),
        Filter::new([2, 3, 9, 9], 4, 2, 1),
        Filter::new([2, 3, 9, 9], 4, 1, 2),
        Filter::new([1, 2, 17, 24], 4, 1, 1),
        Filter::new([1, 1, 9, 150], 4, 1, 1),
        Filter::new([1, 1, 9, 150], 4, 2, 1),
        Filter::new([1, 1, 9, 300], 4, 1, 2),
        Filter::new([2, 16, 6, 20], 4, 1, 1),
        Filter::new([2, 16, 6, 20], 4, 2, 1),
        Filter::new([1, 24, 6, 20], 4, 1, 2),
        Filter::new([2, 2, 9, 11], 5, 3, 2),
        Filter::new([1, 1, 20, 150], 12, 2, 1),
        Filter::new([1, 2, 18, 20], 3, 1, 1),
        Filter::new([1, 2, 40, 40], 17, 1, 1),
    ];
    let mut cases = Vec::new();
    for filter in kinds {
        for lay in LAYS {
            for (kind, tap_type) in [(Taps::Outer, DType::Float32), (Taps::Full, dtype), (Taps::Infinite, dtype)] {
                cases.extend(filter.cases(lay, kind, tap_type, dtype));
            }
        }
    }
    // A kernel that fits no window.
    let large = Filter { taps: [121, 123], pad: [[0; 2]; 2], ..Filter::new([1, 1, 122, 124], 1, 1, 1) };
    cases.extend(large.cases(Lay::RowMajor, Taps::Full, dtype, dtype));
    cases
}
