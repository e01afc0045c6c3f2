//! LeakyRelu through the registry, by name, against a slow float64 reference: every level, dtype and value.

use firelu::devices::cpu::parallel::with_threads;
use firelu::{ArgValue, BFloat16, DType, Element, Float16, Tensor, registry, with_element};
use firelu_test_support::levels::every_level;
use firelu_test_support::strategies::dtypes;
use proptest::prelude::*;

fn run(name: &str, inputs: &[&Tensor], alpha: f64) -> Tensor {
    let inputs: Vec<Option<&Tensor>> = inputs.iter().map(|tensor| Some(*tensor)).collect();
    registry::run(name, &inputs, [("alpha", ArgValue::Float(alpha))]).unwrap().remove(0)
}

/// Special and ordinary values; rounding to the dtype happens in `tensor`.
fn values(length: usize) -> impl Strategy<Value = Vec<f64>> {
    let special = prop::sample::select(vec![
        0.0,
        -0.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e-310,
        -1e-45,
        6e-8,
        65504.0,
        -65536.0,
    ]);
    prop::collection::vec(prop_oneof![3 => -100.0..100.0f64, 1 => special], length)
}

fn tensor(dtype: DType, values: &[f64]) -> Tensor {
    with_element!(dtype, T => {
        use firelu::core::dtype::Compute;
        let rounded = values.iter().map(|&v| T::from_compute(<T as Element>::Compute::from_f64(v))).collect();
        Tensor::from_vec([values.len()], rounded).unwrap()
    })
}

fn round(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::Float16 => Float16::from_f32(value as f32).to_f64(),
        DType::BFloat16 => BFloat16::from_f32(value as f32).to_f64(),
        DType::Float32 => value as f32 as f64,
        DType::Float64 => value,
    }
}

fn check(dtype: DType, sign: &[f64], value: &[f64], got: &[f64], alpha: f64) {
    let slope = if dtype == DType::Float64 { alpha } else { alpha as f32 as f64 };
    for ((&s, &v), &g) in sign.iter().zip(value).zip(got) {
        let expected = if s > 0.0 { v } else { round(DType::Float32.max(dtype), slope * v) };
        let expected = round(dtype, expected);
        assert!(g == expected || (g.is_nan() && expected.is_nan()), "{dtype}: {s}, {v} -> {g}, not {expected}");
    }
}

proptest! {
    #[test]
    fn both_operators_follow_the_reference(
        (sign, value) in (0usize..200).prop_flat_map(|n| (values(n), values(n))),
        alpha in prop_oneof![Just(0.0), Just(0.2), Just(-0.5), -3.0..3.0f64],
        dtype in dtypes(),
    ) {
        let (sign, value) = (tensor(dtype, &sign), tensor(dtype, &value));
        let (s, v) = (sign.to_f64_vec().unwrap(), value.to_f64_vec().unwrap());
        for _ in every_level() {
            check(dtype, &v, &v, &run("LeakyRelu", &[&value], alpha).to_f64_vec().unwrap(), alpha);
            check(dtype, &s, &v, &run("LeakyReluGradient", &[&sign, &value], alpha).to_f64_vec().unwrap(), alpha);
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let x = Tensor::from_vec([3, 1_000_003], (0..3_000_009).map(|i| (i as f32).sin()).collect()).unwrap();
    let expected = run("LeakyRelu", &[&x], 0.2).to_vec::<f32>().unwrap();
    for threads in [1, 2, 3, 8] {
        assert_eq!(with_threads(threads, || run("LeakyRelu", &[&x], 0.2)).to_vec::<f32>().unwrap(), expected);
    }
}
