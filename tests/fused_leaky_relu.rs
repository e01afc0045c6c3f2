//! `FusedLeakyRelu` and its gradient against slow float64 definitions.

use std::num::NonZeroUsize;

use firelu::devices::cpu::memory::caches;
use firelu::{ArgValue, DType, OperatorDef, Tensor, registry};
use firelu_test_support::gradients::check_gradient;
use firelu_test_support::layouts::Layout;
use firelu_test_support::levels::every_level;
use firelu_test_support::numbers::Numbers;
use firelu_test_support::references::{Exact, rounding, rounding_of};
use firelu_test_support::run::{Blobs, run_in_place, run_into, same_for_every_number_of_threads};
use firelu_test_support::strategies::{dtypes, readable, writable};
use firelu_test_support::tensors::{bits, place, random};
use proptest::prelude::*;

#[derive(Debug, Clone)]
struct Case {
    dtype: DType,
    shape: Vec<usize>,
    axis: usize,
    from_end: bool,
    alpha: f64,
    scale: f64,
    bias: Option<DType>,
    layouts: [Layout; 3],
    output: Layout,
    seed: u64,
}

impl Case {
    fn args(&self) -> Vec<(&'static str, ArgValue)> {
        let axis = self.axis as i64 - if self.from_end { self.shape.len() as i64 } else { 0 };
        vec![
            ("alpha", ArgValue::Float(self.alpha)),
            ("scale", ArgValue::Float(self.scale)),
            ("axis", ArgValue::Int(axis)),
        ]
    }

    /// An argument as the kernel has it: rounded to the compute type.
    fn compute(&self, value: f64) -> f64 {
        if self.dtype == DType::Float64 { value } else { f64::from(value as f32) }
    }

    fn channel(&self, flat: usize) -> usize {
        let inner: usize = self.shape[self.axis + 1..].iter().product();
        flat / inner % self.shape[self.axis]
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let length = prop_oneof![4 => 1..6usize, 2 => 6..40usize, 1 => Just(0usize)];
    let shape = prop::collection::vec(length, 1..5);
    let alpha = prop::sample::select(vec![0.2, 0.0, 1.0, -0.5, 3.0]);
    let scale = prop::sample::select(vec![std::f64::consts::SQRT_2, 1.0, -2.0, 0.0]);
    let flags = (any::<bool>(), 0..3u8, any::<usize>());
    (dtypes(), shape, alpha, scale, flags, [readable(), readable(), readable()], writable(), any::<u64>()).prop_map(
        |(dtype, shape, alpha, scale, (from_end, bias, axis), layouts, output, seed)| {
            let wide = if dtype.size() == 2 { DType::Float32 } else { dtype };
            let bias = [None, Some(dtype), Some(wide)][bias as usize];
            let axis = axis % shape.len();
            Case { dtype, shape, axis, from_end, alpha, scale, bias, layouts, output, seed }
        },
    )
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_f64_vec().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn forward_follows_the_definition(case in cases()) {
        let mut numbers = Numbers::new(case.seed);
        let x = random(case.dtype, &case.shape, case.layouts[0], &mut numbers);
        let b = case.bias.map(|dtype| random(dtype, &[case.shape[case.axis]], case.layouts[1], &mut numbers));
        let mut first: Option<Vec<u8>> = None;
        for _ in every_level() {
            let mut y = random(case.dtype, &case.shape, case.output, &mut numbers);
            run_into("FusedLeakyRelu", &[Some(&x), b.as_ref()], &mut [Some(&mut y)], &case.args()).unwrap();
            let (xs, bs) = (values(&x), b.as_ref().map(values));
            for (flat, got) in values(&y).into_iter().enumerate() {
                let bias = bs.as_ref().map_or(0.0, |b| b[case.channel(flat)]);
                let sum = xs[flat] + bias;
                let slope = if sum > 0.0 { 1.0 } else { case.compute(case.alpha) };
                let expected = sum * slope * case.compute(case.scale);
                // Sum, slope and scale are rounded in the compute type; then the result is rounded once.
                let bound = 4.0 * rounding(case.dtype.compute()) * expected.abs();
                let bound = bound + if case.dtype.size() == 2 { rounding_of(case.dtype, expected.abs() + bound) } else { 0.0 };
                assert!((got - expected).abs() <= bound, "{flat}: got {got}, expected {expected}");
            }
            let bits = bits(&y);
            assert!(first.get_or_insert_with(|| bits.clone()) == &bits, "levels disagree");
        }
    }

    #[test]
    fn strides_change_no_bit(case in cases()) {
        let mut numbers = Numbers::new(case.seed);
        let x = random(case.dtype, &case.shape, case.layouts[0], &mut numbers);
        let dense = place(case.dtype, &case.shape, Layout::RowMajor, &values(&x), &mut numbers);
        let b = case.bias.map(|dtype| random(dtype, &[case.shape[case.axis]], case.layouts[1], &mut numbers));
        let mut y = random(case.dtype, &case.shape, case.output, &mut numbers);
        let mut expected = random(case.dtype, &case.shape, Layout::RowMajor, &mut numbers);
        run_into("FusedLeakyRelu", &[Some(&x), b.as_ref()], &mut [Some(&mut y)], &case.args()).unwrap();
        run_into("FusedLeakyRelu", &[Some(&dense), b.as_ref()], &mut [Some(&mut expected)], &case.args()).unwrap();
        prop_assert_eq!(bits(&y), bits(&expected));
    }

    #[test]
    fn gradient_follows_the_definition(case in cases(), dy_given in any::<bool>(), like in any::<bool>()) {
        prop_assume!(dy_given || case.bias.is_some());
        let mut numbers = Numbers::new(case.seed);
        let channels = case.shape[case.axis];
        let y = random(case.dtype, &case.shape, case.layouts[0], &mut numbers);
        let dy = dy_given.then(|| random(case.dtype, &case.shape, case.layouts[1], &mut numbers));
        let b = case.bias.map(|dtype| random(dtype, &[channels], case.layouts[2], &mut numbers));
        let like = like.then(|| random(case.dtype.compute(), &[channels], Layout::RowMajor, &mut numbers));
        let sum_dtype = like.as_ref().or(b.as_ref()).map_or(case.dtype, Tensor::dtype);
        let inputs = [Some(&y), dy.as_ref(), b.as_ref(), like.as_ref()];

        let (ys, dys, bs) = (values(&y), dy.as_ref().map(values), b.as_ref().map(values));
        let mut sums = vec![(Exact::default(), 0.0, 0usize); channels];
        let mut expected = Vec::new();
        for flat in 0..ys.len() {
            let channel = case.channel(flat);
            let sum = dys.as_ref().map_or(0.0, |dy| dy[flat]) + bs.as_ref().map_or(0.0, |b| b[channel]);
            let slope = if ys[flat] > 0.0 { 1.0 } else { case.compute(case.alpha) };
            let value = sum * slope * case.compute(case.scale);
            expected.push(value);
            let (total, magnitude, count) = &mut sums[channel];
            total.add(value);
            *magnitude += value.abs();
            *count += 1;
        }
        let mut first: Option<Vec<Vec<u8>>> = None;
        for _ in every_level() {
            let mut dx = random(case.dtype, &case.shape, case.output, &mut numbers);
            let mut db = random(sum_dtype, &[channels], Layout::Strided, &mut numbers);
            run_into("FusedLeakyReluGradient", &inputs, &mut [Some(&mut dx), Some(&mut db)], &case.args()).unwrap();
            for (got, expected) in values(&dx).into_iter().zip(&expected) {
                let bound = 4.0 * rounding(case.dtype.compute()) * expected.abs();
                let bound = bound + if case.dtype.size() == 2 { rounding_of(case.dtype, expected.abs() + bound) } else { 0.0 };
                assert!((got - expected).abs() <= bound, "dX: got {got}, expected {expected}");
            }
            for (got, (total, magnitude, count)) in values(&db).into_iter().zip(&sums) {
                let total = total.value();
                // Four roundings of each term, and those of one lane's sum.
                let steps = 4.0 + (*count as f64 / 8.0).ceil();
                let bound = steps * rounding(case.dtype.compute()) * magnitude;
                let bound = bound + rounding_of(sum_dtype, total.abs() + bound);
                assert!((got - total).abs() <= bound, "dB: got {got}, expected {total}");
            }
            // Each output by itself has the same bits as both together.
            let (mut dx_alone, mut db_alone) = (
                random(case.dtype, &case.shape, case.output, &mut numbers),
                random(sum_dtype, &[channels], Layout::RowMajor, &mut numbers),
            );
            run_into("FusedLeakyReluGradient", &inputs, &mut [Some(&mut dx_alone), None], &case.args()).unwrap();
            run_into("FusedLeakyReluGradient", &inputs, &mut [None, Some(&mut db_alone)], &case.args()).unwrap();
            assert_eq!(bits(&dx_alone), bits(&dx));
            assert_eq!(bits(&db_alone), bits(&db));
            let bits = vec![bits(&dx), bits(&db)];
            assert!(first.get_or_insert_with(|| bits.clone()) == &bits, "levels disagree");
        }
    }
}

/// Shapes that take each way through the reduction, large enough for several threads and blocks.
const LARGE: [(&[usize], usize, Layout); 8] = [
    (&[1, 3, 300, 301], 1, Layout::RowMajor),
    (&[2, 4, 256, 128], 1, Layout::RowMajor),
    (&[9, 600, 4, 4], 1, Layout::RowMajor),
    (&[7, 300, 7, 9], 1, Layout::RowMajor),
    (&[2, 3, 200, 301], 1, Layout::ChannelsLast),
    (&[2, 130, 40, 41], 1, Layout::ChannelsLast),
    (&[9001, 37], 1, Layout::RowMajor),
    (&[3, 70, 33, 40], 2, Layout::Strided),
];

#[test]
fn the_number_of_threads_changes_no_bit() {
    for dtype in DType::ALL {
        for (shape, axis, layout) in LARGE {
            let mut numbers = Numbers::new(7);
            let y = random(dtype, shape, layout, &mut numbers);
            let dy = random(dtype, shape, layout, &mut numbers);
            let b = random(dtype, &[shape[axis]], Layout::RowMajor, &mut numbers);
            let args = [("axis", ArgValue::Int(axis as i64))];
            let results = same_for_every_number_of_threads(|| {
                let run = |name: &str, inputs: &[Option<&Tensor>]| registry::run(name, inputs, args.clone()).unwrap();
                let forward = run("FusedLeakyRelu", &[Some(&y), Some(&b)]);
                let backward = run("FusedLeakyReluGradient", &[Some(&y), Some(&dy), Some(&b)]);
                forward.iter().chain(&backward).map(bits).collect()
            });
            // And neither does the order of memory: a row-major copy gives the same bits.
            let dense = |tensor: &Tensor| place(dtype, shape, Layout::RowMajor, &values(tensor), &mut Numbers::new(1));
            let inputs = [Some(&dense(&y)), Some(&dense(&dy)), Some(&b)].map(|tensor| tensor.cloned());
            let inputs: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
            let backward = registry::run("FusedLeakyReluGradient", &inputs, args.clone()).unwrap();
            assert!(backward.iter().map(bits).eq(results[1..].iter().cloned()), "{dtype} {shape:?} {layout:?}");
        }
    }
}

#[test]
fn large_bias_gradients_are_exact_where_float32_sums_are_not() {
    // Sixteen million ones: a running float32 sum would stop at 2^24 = 16,777,216.
    let shape = [1, 1, 4100, 4100];
    let ones = Tensor::from_vec(shape, vec![1f32; 4100 * 4100]).unwrap();
    let args = [("scale", ArgValue::Float(1.0))];
    let outputs = registry::run("FusedLeakyReluGradient", &[Some(&ones), Some(&ones)], args).unwrap();
    assert_eq!(outputs[1].to_vec::<f32>().unwrap(), [16_810_000.0]);
}

#[test]
fn results_that_bypass_the_caches_have_the_same_bits() {
    // Above three quarters of the cache, with rows of odd length.
    caches::pin(NonZeroUsize::new(1 << 20));
    let rows = caches::threshold().bytes / 4 / 1021 / 8 + 1;
    let shape = [rows, 8, 1021];
    let mut numbers = Numbers::new(3);
    let y = random(DType::Float32, &shape, Layout::RowMajor, &mut numbers);
    let b = random(DType::Float32, &[8], Layout::RowMajor, &mut numbers);
    let run =
        |name: &str, inputs: &[Option<&Tensor>]| registry::run(name, inputs, [] as [(&str, ArgValue); 0]).unwrap();
    let forward = run("FusedLeakyRelu", &[Some(&y), Some(&b)]);
    let backward = run("FusedLeakyReluGradient", &[Some(&y), Some(&y), Some(&b)]);
    let (ys, bs) = (y.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
    let (alpha, scale) = (0.2f32, std::f64::consts::SQRT_2 as f32);
    let activate = |sign: f32, value: f32| (if sign > 0.0 { value } else { alpha * value }) * scale;
    let (got, got_dx) = (forward[0].to_vec::<f32>().unwrap(), backward[0].to_vec::<f32>().unwrap());
    for (flat, &x) in ys.iter().enumerate() {
        let sum = x + bs[flat / 1021 % 8];
        assert_eq!(got[flat].to_bits(), activate(sum, sum).to_bits(), "{flat}");
        assert_eq!(got_dx[flat].to_bits(), activate(x, sum).to_bits(), "{flat}");
    }
}

#[test]
fn in_place_gives_the_bits_of_an_output_of_its_own() {
    for dtype in DType::ALL {
        for layout in [Layout::RowMajor, Layout::ChannelsLast, Layout::Strided] {
            let mut numbers = Numbers::new(29);
            let shape = [3, 5, 7, 11];
            let y = random(dtype, &shape, layout, &mut numbers);
            let b = random(dtype, &[5], Layout::RowMajor, &mut numbers);
            let mut changed = random(dtype, &shape, layout, &mut numbers);
            let run = |name: &str, inputs: &[Option<&Tensor>]| {
                registry::run(name, inputs, [] as [(&str, ArgValue); 0]).unwrap()
            };
            let expected = run("FusedLeakyRelu", &[Some(&changed), Some(&b)]);
            run_in_place("FusedLeakyRelu", &[None, Some(&b)], 0, &mut changed, &mut []);
            assert_eq!(bits(&changed), bits(&expected[0]), "{dtype} {layout:?}");
            let expected = run("FusedLeakyReluGradient", &[Some(&y), Some(&changed), Some(&b)]);
            let mut db = random(dtype, &[5], Layout::RowMajor, &mut numbers);
            run_in_place("FusedLeakyReluGradient", &[Some(&y), None, Some(&b)], 1, &mut changed, &mut [&mut db]);
            assert_eq!(bits(&changed), bits(&expected[0]), "{dtype} {layout:?}");
            assert_eq!(bits(&db), bits(&expected[1]), "{dtype} {layout:?}");
        }
    }
}

#[test]
fn special_values_follow_the_predicate() {
    let x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, f32::MIN_POSITIVE / 2.0];
    let tensor = Tensor::from_vec([x.len()], x.to_vec()).unwrap();
    let args = [("alpha", ArgValue::Float(0.0)), ("scale", ArgValue::Float(1.0))];
    for level in every_level() {
        let y = registry::run("FusedLeakyRelu", &[Some(&tensor)], args.clone()).unwrap()[0].to_vec::<f32>().unwrap();
        assert!(y[0].is_nan() && y[2].is_nan(), "{level}: 0 * NaN and 0 * infinity are no numbers");
        assert_eq!((y[1], y[5]), (f32::INFINITY, f32::MIN_POSITIVE / 2.0), "{level}");
        assert_eq!((y[3].to_bits(), y[4].to_bits()), ((-0f32).to_bits(), 0), "{level}");
    }
}

#[test]
fn gradients_of_every_order_match_differences() {
    let mut numbers = Numbers::new(11);
    // Away from the kink, where differences mean nothing.
    let away = |shape: &[usize], numbers: &mut Numbers| {
        let values = (0..shape.iter().product()).map(|_| {
            let number = numbers.next_number();
            number + if number > 0.0 { 0.5 } else { -0.5 }
        });
        Tensor::from_vec(shape, values.collect::<Vec<f64>>()).unwrap()
    };
    for (alpha, scale) in [(0.2, 1.5), (-0.3, 1.0), (0.2, -2.0)] {
        for inputs in [vec!["X", "B"], vec!["X"], vec!["X", ""]] {
            let mut blobs = Blobs::new();
            blobs.insert("X".into(), away(&[2, 3, 4], &mut numbers));
            blobs.insert("B".into(), Tensor::from_vec([3], vec![0.1, -0.2, 0.05]).unwrap());
            let def = OperatorDef::new("FusedLeakyRelu", &inputs, &["Y"])
                .arg("alpha", ArgValue::Float(alpha))
                .arg("scale", ArgValue::Float(scale));
            check_gradient(&def, &blobs, 3, &mut numbers);
        }
    }
    for inputs in [vec!["Y", "dY", "C"], vec!["Y", "", "C"], vec!["Y", "dY"]] {
        let mut blobs = Blobs::new();
        blobs.insert("Y".into(), away(&[2, 3, 2], &mut numbers));
        blobs.insert("dY".into(), away(&[2, 3, 2], &mut numbers));
        blobs.insert("C".into(), away(&[3], &mut numbers));
        check_gradient(&OperatorDef::new("FusedLeakyReluGradient", &inputs, &["dX", "dB"]), &blobs, 3, &mut numbers);
    }
}
