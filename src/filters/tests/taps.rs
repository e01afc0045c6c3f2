//! Which kernels are separable.

use firelu_filters::plan::taps::factor;
use proptest::prelude::*;

fn rank_one(values: &[f32], columns: usize) -> Option<(Vec<f32>, Vec<f32>)> {
    let values: Vec<f64> = values.iter().map(|&value| value.into()).collect();
    factor::<f32>(&values, columns, 1.0).map(|(x, y)| (x.to_vec(), y.to_vec()))
}

proptest! {
    #[test]
    fn float32_outer_products_are_found(
        a in prop::collection::vec(-1f32..1.0, 1..14), b in prop::collection::vec(-1f32..1.0, 1..14),
    ) {
        let big = |v: &[f32]| v.iter().all(|x| x.abs() > 1e-3);
        prop_assume!(big(&a) && big(&b));
        let outer: Vec<f32> = a.iter().flat_map(|y| b.iter().map(move |x| x * y)).collect();
        let (x, y) = rank_one(&outer, b.len()).expect("an outer product has rank one");
        for (index, value) in outer.iter().enumerate() {
            let product = f64::from(x[index % b.len()]) * f64::from(y[index / b.len()]);
            prop_assert!((product - f64::from(*value)).abs() <= 6.0 * 2f64.powi(-24) * f64::from(value.abs()));
        }
    }

    #[test]
    fn one_wrong_tap_is_noticed(index in 0usize..16, up in any::<bool>()) {
        let taps = [1e-3f32, 3.0, 3.0, 1e-3];
        let mut outer: Vec<f32> = taps.iter().flat_map(|y| taps.iter().map(move |x| x * y)).collect();
        prop_assert!(rank_one(&outer, 4).is_some());
        outer[index] *= if up { 1.0 + 2e-6 } else { 1.0 - 2e-6 };
        prop_assert!(rank_one(&outer, 4).is_none());
    }
}

#[test]
fn one_row_keeps_its_taps() {
    assert_eq!(rank_one(&[0.1, 0.7, 0.2], 3), Some((vec![0.1, 0.7, 0.2], vec![1.0])));
    assert_eq!(rank_one(&[0.1, 0.7, 0.2], 1), Some((vec![1.0], vec![0.1, 0.7, 0.2])));
}

#[test]
fn what_cannot_be_factored_is_left() {
    assert_eq!(rank_one(&[0.0; 4], 2), None);
    assert_eq!(rank_one(&[1.0, 0.0, 0.0, 1.0], 2), None);
    assert_eq!(rank_one(&[1.0, f32::NAN, 1.0, 1.0], 2), None);
    assert_eq!(rank_one(&[f32::INFINITY; 4], 2), None);
    // The factor of the corner would be subnormal.
    assert_eq!(rank_one(&[1e30, 1e-9, 1e-9, 1e-48], 2), None);
    assert_eq!(rank_one(&[-2.0, 0.0, 4.0, 0.0], 2), Some((vec![1.0, 0.0], vec![-2.0, 4.0])));
}
