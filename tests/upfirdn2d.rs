//! UpFirDn2d and its gradients against a slow float64 definition, at every level of the processor, for
//! every element type, layout and number of threads.

use std::num::NonZeroUsize;

use firelu::devices::cpu::memory::caches;
use firelu::devices::cpu::parallel::with_threads;
use firelu::{DType, Shape, Tensor, UpFirDn2dArgs, registry};
use firelu_filters::axis::{Axis, Geometry};
use firelu_test_support::layouts::Layout;
use firelu_test_support::levels::every_level;
use firelu_test_support::numbers::Numbers;
use firelu_test_support::references::{round_to, rounding};
use firelu_test_support::strategies::dtypes;
use firelu_test_support::tensors::place;
use proptest::prelude::*;

const LAYOUTS: [Layout; 3] = [Layout::RowMajor, Layout::ChannelsLast, Layout::Scattered];

fn values(count: usize, seed: u64) -> Vec<f64> {
    Numbers::new(seed).list(count, Numbers::next_of_few_digits)
}

fn tensor(shape: &[usize], dtype: DType, values: &[f64], layout: Layout) -> Tensor {
    place(dtype, shape, layout, values, &mut Numbers::new(0))
}

/// Calls `visit(output, input, tap)` for every product along one direction.
fn products(axis: &Axis, mut visit: impl FnMut(usize, usize, usize)) {
    for o in 0..axis.output {
        for t in 0..axis.taps {
            let position = o * axis.down + t - axis.pad;
            if position >= 0 && position % axis.up == 0 && position / axis.up < axis.input {
                visit(o as usize, (position / axis.up) as usize, t as usize);
            }
        }
    }
}

struct Case {
    args: UpFirDn2dArgs,
    shape: Vec<usize>,
    kernel: [usize; 2],
    geometry: Geometry,
    output: Shape,
}

impl Case {
    fn new(args: UpFirDn2dArgs, shape: &[usize], kernel: [usize; 2]) -> Option<Self> {
        let geometry = args.geometry("test", &shape.into(), &kernel.into()).ok()?;
        let output = geometry.output_shape(&shape.into());
        Some(Case { args, shape: shape.to_vec(), kernel, geometry, output })
    }

    fn planes(&self) -> usize {
        self.shape[..self.shape.len() - 2].iter().product()
    }

    /// Every product `(output, input, kernel place)` of one plane.
    fn visit(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let (x, y) = (&self.geometry.x, &self.geometry.y);
        products(y, |oy, iy, ty| {
            products(x, |ox, ix, tx| {
                let at = ty * self.kernel[1] + tx;
                let last = self.kernel[0] * self.kernel[1] - 1;
                let place = if self.args.flip_kernel { at } else { last - at };
                visit(oy * x.output as usize + ox, iy * x.input as usize + ix, place);
            });
        });
    }

    fn run(&self, operator: &str, inputs: &[&Tensor]) -> Tensor {
        let inputs: Vec<Option<&Tensor>> = inputs.iter().map(|&input| Some(input)).collect();
        registry::run(operator, &inputs, self.args.named()).unwrap().remove(0)
    }

    fn terms(&self) -> f64 {
        let both = |g: &Geometry| (g.x.most_taps() * g.y.most_taps()).max(g.x.most_taps() + g.y.most_taps()) as f64;
        both(&self.geometry).max(both(&self.geometry.transposed()))
    }
}

/// Within `n + 4` roundings of the sum of magnitudes in `compute`, and one rounding to a narrower result.
fn check_close(name: &str, compute: DType, terms: f64, got: &Tensor, expected: &[f64], magnitude: &[f64]) {
    let dtype = got.dtype();
    let got = got.to_f64_vec().unwrap();
    assert_eq!(got.len(), expected.len(), "{name}");
    for (at, ((&got, &expected), &magnitude)) in got.iter().zip(expected).zip(magnitude).enumerate() {
        let sum = (terms + 4.0) * rounding(compute) * magnitude;
        // Below the normal range a float16 has a fixed spacing.
        let last = if dtype < compute { (expected.abs() + sum) * rounding(dtype) + 2f64.powi(-25) } else { 0.0 };
        let error = (got - expected).abs();
        let overflows = got.is_infinite() && dtype == DType::Float16 && expected.abs() + sum >= 65504.0;
        assert!(
            error <= sum + last || overflows,
            "{name} {dtype} at {at}: {got} instead of {expected}, {error:e} > {:e}",
            sum + last
        );
    }
}

/// All three operators against the definition.
fn check(case: &Case, dtype: DType, layout: Layout, separable: bool, seed: u64) {
    let taps = case.kernel[0] * case.kernel[1];
    let inputs: usize = case.geometry.x.input as usize * case.geometry.y.input as usize;
    let outputs: usize = case.geometry.x.output as usize * case.geometry.y.output as usize;
    let x = values(case.planes() * inputs, seed);
    let dy = values(case.planes() * outputs, seed + 1);
    let mut k = values(taps, seed + 2);
    if separable {
        let column = values(case.kernel[0], seed + 3);
        k = (0..taps).map(|at| column[at / case.kernel[1]] * k[at % case.kernel[1]]).collect();
    }
    let kernel_type = DType::ALL[(seed % 4) as usize];
    k.iter_mut().for_each(|tap| *tap = round_to(kernel_type, *tap));
    // A float64 kernel beside a narrower input is used in the compute type.
    let used: Vec<f64> = k.iter().map(|&tap| round_to(dtype.compute(), tap) * case.args.gain).collect();
    let zero = || (vec![0.0; x.len()], vec![0.0; dy.len()], vec![0.0; taps]);
    let ((mut dx, mut y, mut dk), (mut dx_size, mut y_size, mut dk_size)) = (zero(), zero());
    for plane in 0..case.planes() {
        case.visit(|o, i, t| {
            let (o, i) = (plane * outputs + o, plane * inputs + i);
            for (value, at, product) in [(&mut y, o, x[i] * used[t]), (&mut dx, i, dy[o] * used[t])] {
                value[at] += product;
            }
            y_size[o] += (x[i] * used[t]).abs();
            dx_size[i] += (dy[o] * used[t]).abs();
            dk[t] += x[i] * dy[o] * case.args.gain;
            dk_size[t] += (x[i] * dy[o] * case.args.gain).abs();
        });
    }
    let x = tensor(&case.shape, dtype, &x, layout);
    let dy = tensor(&case.output, dtype, &dy, layout);
    let k = tensor(&case.kernel, kernel_type, &k, if layout == Layout::Scattered { layout } else { Layout::RowMajor });
    for level in every_level() {
        let name = |operator: &str| {
            format!("{operator} {level} {layout:?} {:?} {:?} {:?}", case.args, case.shape, case.kernel)
        };
        let got = case.run("UpFirDn2d", &[&x, &k]);
        check_close(&name("forward"), dtype.compute(), case.terms(), &got, &y, &y_size);
        let got = case.run("UpFirDn2dGradient", &[&dy, &k, &x]);
        check_close(&name("gradient"), dtype.compute(), case.terms(), &got, &dx, &dx_size);
        // A register adds up fewer than 256 products before float64 takes over.
        let got = case.run("UpFirDn2dKernelGradient", &[&x, &dy, &k]);
        check_close(&name("kernel gradient"), dtype.compute(), 256.0, &got, &dk, &dk_size);
    }
}

fn arguments() -> impl Strategy<Value = UpFirDn2dArgs> {
    let factor = || prop_oneof![4 => 1i64..3, 1 => 3i64..8];
    let pad = || (-3i64..6, -3i64..6);
    ((factor(), factor()), (factor(), factor()), pad(), pad(), any::<bool>(), prop_oneof![Just(1.0), 0.25f64..4.0])
        .prop_map(|(up, down, pad_x, pad_y, flip_kernel, gain)| UpFirDn2dArgs {
            up,
            down,
            pad_x,
            pad_y,
            flip_kernel,
            gain,
            ..Default::default()
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_arguments_agree_with_the_definition(
        args in arguments(), shape in (1usize..3, 1usize..11, 0usize..20, 0usize..60), taps in (1usize..8, 1usize..8),
        dtype in dtypes(), layout in prop::sample::select(&LAYOUTS[..]), separable in any::<bool>(), seed in 1u64..1 << 40,
    ) {
        let (n, c, h, w) = shape;
        if let Some(case) = Case::new(args, &[n, c, h, w], [taps.0, taps.1]) {
            check(&case, dtype, layout, separable, seed);
        }
    }
}

fn square(up: i64, down: i64, pad: (i64, i64)) -> UpFirDn2dArgs {
    UpFirDn2dArgs { up: (up, up), down: (down, down), pad_x: pad, pad_y: pad, ..Default::default() }
}

/// Rows longer than a strip and planes longer than a band, with short and long kernels.
#[test]
fn large_rows_and_long_kernels_agree_with_the_definition() {
    for (seed, (args, shape, kernel)) in [
        (square(1, 1, (2, 1)), vec![1, 3, 9, 4500], [4, 4]),
        (square(2, 1, (2, 1)), vec![2, 5, 2300], [4, 4]),
        (square(1, 2, (1, 1)), vec![7, 9001], [4, 4]),
        (square(2, 1, (6, 5)), vec![40, 300], [12, 12]),
        (square(1, 2, (5, 5)), vec![80, 333], [12, 12]),
        (square(3, 2, (1, 2)), vec![20, 1500], [5, 6]),
        (square(1, 1, (1, 1)), vec![700, 40], [3, 3]),
        (square(5, 1, (3, 3)), vec![2, 12, 900], [9, 9]),
    ]
    .into_iter()
    .enumerate()
    {
        let case = Case::new(args, &shape, kernel).unwrap();
        for separable in [true, false] {
            check(&case, DType::Float32, Layout::RowMajor, separable, 4 * seed as u64 + 6);
        }
        check(&case, DType::Float16, Layout::Scattered, true, 4 * seed as u64 + 5);
    }
    let wide = Case::new(square(2, 1, (2, 1)), &[1, 70, 9, 130], [4, 4]).unwrap();
    check(&wide, DType::Float32, Layout::ChannelsLast, true, 30);
    let down = Case::new(square(1, 2, (1, 1)), &[2, 64, 20, 300], [4, 4]).unwrap();
    check(&down, DType::BFloat16, Layout::ChannelsLast, true, 31);
}

/// The same bits for any number of threads, and for any layout of the same values.
#[test]
fn bits_do_not_depend_on_threads_or_strides() {
    for (args, kernel, shape) in [
        (square(1, 1, (2, 1)), [4, 4], [2, 5, 300, 211]),
        (square(2, 1, (2, 1)), [4, 4], [2, 5, 300, 211]),
        (square(3, 2, (4, 4)), [7, 5], [2, 5, 300, 211]),
        (square(1, 1, (4, 4)), [9, 9], [1, 4, 90, 210]),
        (square(2, 1, (6, 5)), [12, 12], [1, 4, 90, 105]),
        (square(1, 2, (5, 5)), [12, 12], [1, 4, 180, 212]),
    ] {
        let case = Case::new(args, &shape, kernel).unwrap();
        for separable in [true, false] {
            let column = values(kernel[0], 5);
            let full = values(kernel[0] * kernel[1], 6);
            let outer = |at: usize| column[at / kernel[1]] * full[at % kernel[1]];
            let k: Vec<f64> = if separable { (0..full.len()).map(outer).collect() } else { full.clone() };
            let k = tensor(&kernel, DType::Float32, &k, Layout::RowMajor);
            let x = values(shape.iter().product(), 1);
            let dy = values(case.output.elements(), 2);
            for level in every_level() {
                let mut seen: Option<[Vec<f64>; 3]> = None;
                for layout in LAYOUTS {
                    let x = tensor(&shape, DType::Float32, &x, layout);
                    let dy = tensor(&case.output, DType::Float32, &dy, layout);
                    let mut of_kernel: Option<Vec<f64>> = None;
                    for threads in [1, 2, 3, 8] {
                        let results = with_threads(threads, || {
                            [
                                case.run("UpFirDn2d", &[&x, &k]),
                                case.run("UpFirDn2dGradient", &[&dy, &k, &x]),
                                case.run("UpFirDn2dKernelGradient", &[&x, &dy, &k]),
                            ]
                        })
                        .map(|tensor| tensor.to_f64_vec().unwrap());
                        let first = seen.get_or_insert_with(|| results.clone());
                        assert!(first[0] == results[0], "forward {level} {layout:?} {threads}");
                        assert!(first[1] == results[1], "gradient {level} {layout:?} {threads}");
                        let first = of_kernel.get_or_insert_with(|| results[2].clone());
                        assert!(*first == results[2], "kernel gradient {level} {layout:?} {threads}");
                    }
                }
            }
        }
    }
}

#[test]
fn zero_sizes_work() {
    for _ in every_level() {
        for (shape, args, output) in [
            ([0, 3, 8, 8], square(1, 1, (2, 1)), [0, 3, 8, 8]),
            ([2, 0, 8, 8], square(2, 1, (2, 1)), [2, 0, 16, 16]),
            ([1, 2, 0, 8], square(1, 1, (3, 2)), [1, 2, 2, 10]),
            ([1, 2, 0, 0], square(1, 1, (4, 3)), [1, 2, 4, 4]),
        ] {
            let case = Case::new(args, &shape, [4, 4]).unwrap();
            let x = tensor(&shape, DType::Float32, &values(shape.iter().product(), 1), Layout::RowMajor);
            let k = tensor(&[4, 4], DType::Float32, &values(16, 2), Layout::RowMajor);
            let y = case.run("UpFirDn2d", &[&x, &k]);
            assert_eq!(y.shape()[..], output);
            assert!(y.to_f64_vec().unwrap().iter().all(|&value| value == 0.0) || x.shape().elements() > 0);
            assert_eq!(case.run("UpFirDn2dGradient", &[&y, &k, &x]).shape()[..], shape);
            assert_eq!(case.run("UpFirDn2dKernelGradient", &[&x, &y, &k]).to_f64_vec().unwrap(), [0.0; 16]);
        }
    }
}

/// A value that is not finite reaches the outputs that use it, and no other.
#[test]
fn infinities_stay_where_they_belong() {
    for level in every_level() {
        for (args, kernel) in
            [(square(1, 1, (2, 1)), [4, 4]), (square(2, 1, (1, 1)), [3, 3]), (square(1, 2, (1, 1)), [2, 2])]
        {
            for separable in [true, false] {
                let shape = [21, 37];
                let case = Case::new(args, &shape, kernel).unwrap();
                let mut x = vec![1.0; 21 * 37];
                (x[10 * 37 + 17], x[3]) = (f64::INFINITY, f64::NAN);
                let mut touched = vec![false; case.output.elements()];
                case.visit(|o, i, _| touched[o] |= !x[i].is_finite());
                let mut k = vec![1.0; kernel[0] * kernel[1]];
                k[0] = if separable { 1.0 } else { 2.0 };
                let k = tensor(&kernel, DType::Float32, &k, Layout::RowMajor);
                let y = case.run("UpFirDn2d", &[&tensor(&shape, DType::Float32, &x, Layout::RowMajor), &k]);
                for (value, touched) in y.to_f64_vec().unwrap().into_iter().zip(touched) {
                    assert_eq!(value.is_finite(), !touched, "{level} {args:?}");
                }
            }
        }
    }
}

/// Calls larger than the caches stream their output past them: the same bits as plane by plane.
#[test]
fn streamed_outputs_have_the_same_bits() {
    let plane = [512, 509];
    // One plane stays in the caches, all of them do not.
    caches::pin(NonZeroUsize::new(plane[0] * plane[1] * 16));
    let planes = caches::threshold().bytes / (plane[0] * plane[1] * 8) + 2;
    let x = values(planes * plane[0] * plane[1], 3);
    let whole = tensor(&[planes, plane[0], plane[1]], DType::Float32, &x, Layout::RowMajor);
    for (args, separable) in [(square(1, 1, (2, 1)), true), (square(1, 1, (1, 1)), false), (square(2, 1, (1, 1)), true)]
    {
        let mut k = values(16, 4);
        if separable {
            k = (0..16).map(|at| k[at / 4] * k[at % 4]).collect();
        }
        let k = tensor(&[4, 4], DType::Float32, &k, Layout::RowMajor);
        let (all, one) = (Case::new(args, whole.shape(), [4, 4]).unwrap(), Case::new(args, &plane, [4, 4]).unwrap());
        for level in every_level() {
            let streamed = all.run("UpFirDn2d", &[&whole, &k]).to_vec::<f32>().unwrap();
            for (index, streamed) in streamed.chunks_exact(one.output.elements()).enumerate() {
                let from = index * plane[0] * plane[1];
                let x = tensor(&plane, DType::Float32, &x[from..from + plane[0] * plane[1]], Layout::RowMajor);
                let cached = one.run("UpFirDn2d", &[&x, &k]).to_vec::<f32>().unwrap();
                assert!(cached == streamed, "{level} {args:?} plane {index}");
            }
        }
    }
}
