//! `Sum`, `Add`, `Sub`, `Mul`, `ReduceSum` and `BroadcastLike` against slow float64 definitions.

use firelu::operators::arithmetic::broadcast_shapes;
use firelu::{ArgValue, BFloat16, DType, Error, Float16, OperatorDef, Shape, Tensor, registry};
use firelu_test_support::gradients::check_gradient;
use firelu_test_support::layouts::Layout;
use firelu_test_support::levels::every_level;
use firelu_test_support::numbers::Numbers;
use firelu_test_support::references::{Exact, indices, rounding, rounding_of};
use firelu_test_support::run::{Blobs, run_in_place, run_into, same_for_every_number_of_threads};
use firelu_test_support::strategies::{dtypes, readable, writable};
use firelu_test_support::tensors::{bits, place, random};
use proptest::prelude::*;

const NO_ARGS: [(&str, ArgValue); 0] = [];

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_f64_vec().unwrap()
}

/// The row-major place, in a tensor of `shape`, of what an index of a larger shape repeats.
fn repeated_place(index: &[usize], shape: &[usize]) -> usize {
    let index = &index[index.len() - shape.len()..];
    index.iter().zip(shape).fold(0, |place, (&i, &n)| place * n + if n == 1 { 0 } else { i })
}

/// A shape and two shapes that broadcast to it.
fn broadcastable() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    let length = prop_oneof![4 => 1..6usize, 2 => 6..70usize, 1 => Just(0usize)];
    (prop::collection::vec(length, 0..4), any::<u64>()).prop_map(|(shape, seed)| {
        let mut numbers = Numbers::new(seed);
        let mut part = || {
            let from = if numbers.below(3) == 0 { numbers.below(shape.len() + 1) } else { 0 };
            shape[from..].iter().map(|&n| if numbers.below(3) == 0 { 1 } else { n }).collect::<Vec<_>>()
        };
        (part(), part())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn binary_operators_broadcast(
        (a_shape, b_shape) in broadcastable(),
        dtype in dtypes(),
        layouts in [readable(), readable()],
        output in writable(),
        seed in any::<u64>(),
    ) {
        let mut numbers = Numbers::new(seed);
        let shape = broadcast_shapes(&a_shape, &b_shape).unwrap();
        let a = random(dtype, &a_shape, layouts[0], &mut numbers);
        let b = random(dtype, &b_shape, layouts[1], &mut numbers);
        let (a_values, b_values) = (values(&a), values(&b));
        for (name, function) in
            [("Add", (|a, b| a + b) as fn(f64, f64) -> f64), ("Sub", |a, b| a - b), ("Mul", |a, b| a * b)]
        {
            for level in every_level() {
                let mut c = random(dtype, &shape, output, &mut numbers);
                run_into(name, &[Some(&a), Some(&b)], &mut [Some(&mut c)], &NO_ARGS).unwrap();
                for (index, got) in indices(&shape).zip(values(&c)) {
                    let (a, b) = (a_values[repeated_place(&index, &a_shape)], b_values[repeated_place(&index, &b_shape)]);
                    // Sums, differences and products of half numbers are rounded in float32 and once more.
                    let expected = function(a, b);
                    let bound = rounding_of(dtype, expected.abs() * 1.01) + rounding(dtype.compute()) * expected.abs();
                    assert!((got - expected).abs() <= bound, "{name} {level} {index:?}: got {got}, expected {expected}");
                }
            }
        }
    }

    #[test]
    fn reduce_sum_sums_axes_and_to_a_shape(
        (shape, like_shape) in broadcastable(),
        dtype in dtypes(),
        layout in readable(),
        keepdims in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut numbers = Numbers::new(seed);
        let shape = broadcast_shapes(&shape, &like_shape).unwrap();
        let x = random(dtype, &shape, layout, &mut numbers);
        let like = random(DType::Float16, &like_shape, Layout::Repeated, &mut numbers);
        let axes: Vec<i64> = (0..shape.len() as i64).filter(|_| numbers.below(2) == 0).collect();
        let summed = |d: usize| axes.is_empty() || axes.contains(&(d as i64));
        let left: Vec<usize> = (0..shape.len())
            .filter(|&d| keepdims || !summed(d))
            .map(|d| if summed(d) { 1 } else { shape[d] })
            .collect();
        let of_axes = |index: &[usize]| {
            let kept: Vec<usize> = (0..index.len()).filter(|&d| keepdims || !summed(d)).map(|d| index[d]).collect();
            repeated_place(&kept, &left)
        };
        let of_like = |index: &[usize]| repeated_place(index, &like_shape);
        let from_end: Vec<i64> = axes.iter().map(|axis| axis - shape.len() as i64).collect();
        let args = vec![
            ("axes", ArgValue::Ints(if numbers.below(2) == 0 { axes.clone() } else { from_end })),
            ("keepdims", ArgValue::Bool(keepdims)),
            ("scale", ArgValue::Float(0.5)),
        ];
        check_sums(&x, &[Some(&x)], &left, &args, 0.5, of_axes);
        check_sums(&x, &[Some(&x), Some(&like)], &like_shape, &NO_ARGS, 1.0, of_like);
    }

    #[test]
    fn broadcast_like_repeats(
        (shape, from) in broadcastable(),
        dtype in dtypes(),
        layout in readable(),
        seed in any::<u64>(),
    ) {
        let mut numbers = Numbers::new(seed);
        let shape = broadcast_shapes(&shape, &from).unwrap();
        let x = random(dtype, &from, layout, &mut numbers);
        let like = random(DType::Float32, &shape, Layout::RowMajor, &mut numbers);
        let y = registry::run("BroadcastLike", &[Some(&x), Some(&like)], NO_ARGS).unwrap();
        let of_x = values(&x);
        for (index, got) in indices(&shape).zip(values(&y[0])) {
            prop_assert_eq!(got, of_x[repeated_place(&index, &from)]);
        }
    }

    #[test]
    fn sum_rounds_once(
        shape in prop::collection::vec(0..20usize, 0..4),
        count in 1..8usize,
        dtype in dtypes(),
        layout in readable(),
        seed in any::<u64>(),
    ) {
        let mut numbers = Numbers::new(seed);
        let mut inputs: Vec<Tensor> = (1..count).map(|_| random(dtype, &shape, layout, &mut numbers)).collect();
        inputs.insert(0, random(dtype, &shape, Layout::Strided, &mut numbers));
        let borrowed: Vec<Option<&Tensor>> = inputs.iter().map(Some).collect();
        let mut out = random(dtype, &shape, Layout::Strided, &mut numbers);
        run_into("Sum", &borrowed, &mut [Some(&mut out)], &NO_ARGS).unwrap();
        let columns: Vec<Vec<f64>> = inputs.iter().map(values).collect();
        for (place, got) in values(&out).into_iter().enumerate() {
            // In order, in the compute type, then rounded once: to the bit.
            let expected = columns[1..].iter().fold(columns[0][place], |sum, column| match dtype {
                DType::Float64 => sum + column[place],
                _ => f64::from(sum as f32 + column[place] as f32),
            });
            let expected = match dtype {
                DType::Float16 => Float16::from_f32(expected as f32).to_f64(),
                DType::BFloat16 => BFloat16::from_f32(expected as f32).to_f64(),
                _ => expected,
            };
            prop_assert_eq!(got, expected);
        }
    }
}

/// Compares `ReduceSum` with exact sums of the elements that `place_of` sends to each place of `shape`.
fn check_sums(
    x: &Tensor,
    inputs: &[Option<&Tensor>],
    shape: &[usize],
    args: &[(&str, ArgValue)],
    scale: f64,
    place_of: impl Fn(&[usize]) -> usize,
) {
    let places = Shape::from(shape).elements();
    let mut sums = vec![(Exact::default(), 0.0, 0usize); places];
    for (index, value) in indices(x.shape()).zip(values(x)) {
        let (sum, magnitude, count) = &mut sums[place_of(&index)];
        sum.add(scale * value);
        *magnitude += (scale * value).abs();
        *count += 1;
    }
    let mut first: Option<Vec<u8>> = None;
    for level in every_level() {
        let mut y = random(x.dtype(), shape, Layout::Strided, &mut Numbers::new(1));
        run_into("ReduceSum", inputs, &mut [Some(&mut y)], args).unwrap();
        for (place, (got, (sum, magnitude, count))) in values(&y).into_iter().zip(&sums).enumerate() {
            let steps = (*count as f64 / 8.0).ceil() + 1.0;
            let bound = steps * rounding(x.dtype().compute()) * magnitude;
            let bound = bound + rounding_of(x.dtype(), sum.value().abs() + bound);
            assert!((got - sum.value()).abs() <= bound, "{level} {place}: got {got}, expected {}", sum.value());
        }
        let bits = bits(&y);
        assert!(first.get_or_insert_with(|| bits.clone()) == &bits, "levels disagree");
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for dtype in DType::ALL {
        let mut numbers = Numbers::new(5);
        let x = random(dtype, &[7, 90, 400], Layout::RowMajor, &mut numbers);
        let row = random(dtype, &[1, 400], Layout::RowMajor, &mut numbers);
        same_for_every_number_of_threads(|| {
            let mut results = Vec::new();
            for axes in [vec![], vec![0], vec![1], vec![2], vec![0, 2], vec![1, 2]] {
                let args = [("axes", ArgValue::Ints(axes))];
                results.extend(registry::run("ReduceSum", &[Some(&x)], args).unwrap());
            }
            for name in ["Add", "Sub", "Mul"] {
                results.extend(registry::run(name, &[Some(&x), Some(&row)], NO_ARGS).unwrap());
                results.extend(registry::run(name, &[Some(&row), Some(&x)], NO_ARGS).unwrap());
            }
            for count in [2, 5] {
                results.extend(registry::run("Sum", &vec![Some(&x); count], NO_ARGS).unwrap());
            }
            results.iter().map(bits).collect()
        });
    }
}

#[test]
fn in_place_sums_have_the_bits_of_an_output_of_their_own() {
    for dtype in DType::ALL {
        for count in [1, 2, 4, 6] {
            let mut numbers = Numbers::new(9);
            let mut total = random(dtype, &[3, 40], Layout::RowMajor, &mut numbers);
            let other = random(dtype, &[3, 40], Layout::Strided, &mut numbers);
            let copy = place(dtype, &[3, 40], Layout::RowMajor, &values(&total), &mut numbers);
            let mut inputs = vec![Some(&copy)];
            inputs.resize(count, Some(&other));
            let expected = registry::run("Sum", &inputs, NO_ARGS).unwrap();
            inputs[0] = None;
            run_in_place("Sum", &inputs, 0, &mut total, &mut []);
            assert_eq!(bits(&total), bits(&expected[0]), "{dtype}, {count} inputs");
        }
    }
}

#[test]
fn wrong_axes_and_shapes_are_refused() {
    let x = Tensor::from_vec([2, 3], vec![0f32; 6]).unwrap();
    let small = Tensor::from_vec([2], vec![0f32; 2]).unwrap();
    for axes in [vec![2], vec![-3], vec![0, 0], vec![1, -1], vec![i64::MIN]] {
        let refused = registry::run("ReduceSum", &[Some(&x)], [("axes", ArgValue::Ints(axes.clone()))]);
        assert!(matches!(refused, Err(Error::Argument(_))), "{axes:?}");
        let refused = registry::run("BroadcastLike", &[Some(&x), Some(&x)], [("axes", ArgValue::Ints(axes))]);
        assert!(matches!(refused, Err(Error::Argument(_))));
    }
    for name in ["ReduceSum", "BroadcastLike"] {
        let inputs = if name == "ReduceSum" { [Some(&x), Some(&small)] } else { [Some(&small), Some(&x)] };
        assert!(matches!(registry::run(name, &inputs, NO_ARGS), Err(Error::Shape(_))));
    }
    assert!(matches!(registry::run("Sum", &[Some(&x), Some(&small)], NO_ARGS), Err(Error::Shape(_))));
    assert!(matches!(registry::run("Sum", &[], NO_ARGS), Err(Error::Argument(_))));
    let double = Tensor::from_vec([2, 3], vec![0f64; 6]).unwrap();
    assert!(matches!(registry::run("Mul", &[Some(&x), Some(&double)], NO_ARGS), Err(Error::DType(_))));
}

#[test]
fn a_mean_is_a_scaled_sum() {
    let x = Tensor::from_vec([2, 2], vec![1f32, 2.0, 3.0, 5.0]).unwrap();
    let mean = registry::run("ReduceSum", &[Some(&x)], [("scale", ArgValue::Float(0.25))]).unwrap();
    assert_eq!(mean[0].to_vec::<f32>().unwrap(), [2.75]);
    assert_eq!(mean[0].shape().len(), 0);
}

#[test]
fn gradients_of_every_order_match_differences() {
    let mut numbers = Numbers::new(23);
    let ints = |values: &[i64]| ArgValue::Ints(values.to_vec());
    let mut cases = Vec::new();
    for name in ["Add", "Sub", "Mul"] {
        for (a, b) in [(vec![2, 3], vec![2, 3]), (vec![2, 1, 2], vec![3, 1]), (vec![], vec![2, 2])] {
            cases.push((OperatorDef::new(name, &["A", "B"], &["C"]), vec![("A", a), ("B", b)]));
        }
        cases.push((OperatorDef::new(name, &["A", "A"], &["C"]), vec![("A", vec![3])]));
    }
    cases.push((OperatorDef::new("Sum", &["A", "B", "A"], &["C"]), vec![("A", vec![2, 2]), ("B", vec![2, 2])]));
    let reduce = |inputs: &[&str]| OperatorDef::new("ReduceSum", inputs, &["Y"]).arg("scale", ArgValue::Float(0.5));
    let x = ("X", vec![2, 3, 2]);
    cases.push((reduce(&["X"]), vec![x.clone()]));
    cases.push((reduce(&["X"]).arg("axes", ints(&[1])), vec![x.clone()]));
    cases.push((reduce(&["X"]).arg("axes", ints(&[0, -1])).arg("keepdims", ArgValue::Bool(true)), vec![x.clone()]));
    cases.push((reduce(&["X", "L"]), vec![x.clone(), ("L", vec![3, 1])]));
    cases.push((reduce(&["X", "L"]).arg("axes", ints(&[1])), vec![x.clone(), ("L", vec![1, 2])]));
    let broadcast = OperatorDef::new("BroadcastLike", &["X", "L"], &["Y"]);
    cases.push((broadcast.clone().arg("axes", ints(&[0])), vec![("X", vec![3, 1]), ("L", vec![2, 3, 2])]));
    cases.push((broadcast, vec![("X", vec![3, 1]), ("L", vec![2, 3, 2])]));
    for (def, shapes) in cases {
        let blobs: Blobs = shapes
            .into_iter()
            .map(|(name, shape)| (name.to_string(), random(DType::Float64, &shape, Layout::RowMajor, &mut numbers)))
            .collect();
        check_gradient(&def, &blobs, 3, &mut numbers);
    }
}
