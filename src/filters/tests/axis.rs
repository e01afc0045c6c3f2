//! The geometry against the definition of the operation, on random numbers.

use firelu_filters::axis::{Axis, Refusal, Support};
use proptest::prelude::*;

/// The definition, step by step: insert zeros, pad or crop, correlate, keep every down-th.
fn definition(x: &[i64], k: &[i64], up: i64, down: i64, pad: (i64, i64)) -> Option<Vec<i64>> {
    let stretched: Vec<i64> =
        x.iter().flat_map(|&value| std::iter::once(value).chain(std::iter::repeat_n(0, up as usize - 1))).collect();
    let span = stretched.len() as i64 + pad.0 + pad.1;
    if span < k.len() as i64 {
        return None;
    }
    let padded = (0..span).map(|i| usize::try_from(i - pad.0).ok().and_then(|i| stretched.get(i)).unwrap_or(&0));
    let padded: Vec<i64> = padded.copied().collect();
    let full = padded.windows(k.len()).map(|window| window.iter().zip(k).map(|(a, b)| a * b).sum());
    Some(full.step_by(down as usize).collect())
}

fn by_support(axis: &Axis, x: &[i64], k: &[i64]) -> Vec<i64> {
    let sample = |o: i64| {
        let Support { start, tap, count } = axis.support(o);
        let term = |m: i64| {
            let value = usize::try_from(start + m).ok().and_then(|i| x.get(i)).copied().unwrap_or(0);
            value * k[(tap + m * axis.up) as usize]
        };
        (0..count).map(term).sum()
    };
    (0..axis.output).map(sample).collect()
}

proptest! {
    #[test]
    fn supports_give_the_definition(
        x in prop::collection::vec(-9i64..10, 0..20), k in prop::collection::vec(-9i64..10, 1..9),
        up in 1i64..6, down in 1i64..6, pad in (-9i64..10, -9i64..10),
    ) {
        let axis = Axis::new(x.len(), k.len(), up, down, pad).ok();
        prop_assert_eq!(axis.map(|axis| by_support(&axis, &x, &k)), definition(&x, &k, up, down, pad));
    }

    #[test]
    fn the_transposed_axis_is_the_adjoint(
        x in prop::collection::vec(-9i64..10, 0..20), k in prop::collection::vec(-9i64..10, 1..9),
        up in 1i64..6, down in 1i64..6, pad in (-9i64..10, -9i64..10), seed in any::<u64>(),
    ) {
        if let Ok(axis) = Axis::new(x.len(), k.len(), up, down, pad) {
            let dy: Vec<i64> = (0..axis.output).map(|o| (seed.rotate_left(o as u32 * 7) % 19) as i64 - 9).collect();
            let reversed: Vec<i64> = k.iter().rev().copied().collect();
            let dx = by_support(&axis.transposed(), &dy, &reversed);
            let dot = |a: &[i64], b: &[i64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<i64>();
            prop_assert_eq!(dot(&by_support(&axis, &x, &k), &dy), dot(&x, &dx));
            prop_assert_eq!(axis.transposed().transposed(), axis);
        }
    }

    #[test]
    fn supports_repeat_with_the_period(up in 1i64..9, down in 1i64..9, pad in -20i64..20, o in 0i64..50, taps in 1i64..20) {
        let axis = Axis { input: 100, output: 100, up, down, pad, taps };
        let ((outputs, inputs), here) = (axis.period(), axis.support(o));
        prop_assert_eq!(axis.support(o + outputs), Support { start: here.start + inputs, ..here });
        prop_assert!(here.count <= axis.most_taps());
        let inside = |o: i64| { let s = axis.support(o); s.start >= 0 && s.start + s.count <= axis.input };
        if taps >= up {
            let interior = axis.interior();
            prop_assert!((0..axis.output).all(|o| interior.contains(&o) == inside(o)));
        }
        let stepped: Vec<Support> = axis.supports(o).take(30).collect();
        let each: Vec<Support> = (o..o + 30).map(|o| axis.support(o)).collect();
        prop_assert_eq!(stepped, each);
    }

    #[test]
    fn any_numbers_are_refused_or_fit(
        input in any::<u32>(), taps in 1usize..1 << 40, up in 1i64..1 << 31, down in 1i64..1 << 31, pad in any::<(i64, i64)>(),
    ) {
        if let Ok(axis) = Axis::new(input as usize, taps, up, down, pad) {
            prop_assert!(axis.output >= 1);
            axis.support(axis.output - 1);
            axis.transposed().support((axis.input - 1).max(0));
        }
    }
}

#[test]
fn zero_size_inputs_with_padding_have_outputs() {
    assert_eq!(Axis::new(0, 4, 1, 1, (2, 2)).unwrap().output, 1);
    assert_eq!(Axis::new(0, 4, 1, 1, (2, 1)), Err(Refusal::Empty { span: 3 }));
}
