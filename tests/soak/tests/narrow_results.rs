//! UpFirDn2d with few output columns, for every pair of factors: strips too narrow for a whole period of
//! phases take other paths than wide ones, and random cases meet each of them only now and then.
#![cfg(unix)]

use firelu::{ArgValue, DType};
use firelu_soak::cases::call;
use firelu_soak::choices::Choices;
use firelu_soak::memory::{Memory, Placed, Use};
use firelu_soak::reference::expect;
use firelu_soak::signatures::{Array, Request};
use firelu_test_support::levels::every_level;

/// Runs a request on plain tensors at every level and compares it with the definition.
fn check(request: &mut Request, memory: &mut Memory, choices: &mut Choices<'_>) {
    memory.reset();
    let mut inputs: Vec<Option<Placed>> = Vec::new();
    for (place, array) in request.inputs.iter_mut().flatten().enumerate() {
        let placed = memory.place(&array.shape, array.dtype, Use::Dense, choices);
        // Every other kernel is an outer product.
        let (is_rank_one, columns) = (place == 1 && choices.one_in(2), array.shape.last().copied().unwrap_or(1));
        for index in 0..placed.offsets.len() {
            let product = ((1 + index / columns) * (2 + index % columns)) as f64 / 8.0;
            placed.write(index, if is_rank_one { product } else { choices.between(-1.0, 1.0) });
        }
        array.values = placed.values();
        inputs.push(Some(placed));
    }
    let Ok(expected) = expect(request) else { return };
    for level in every_level() {
        let output = memory.place(&expected[0].shape, expected[0].dtype, Use::Dense, choices);
        let outputs = std::slice::from_ref(&output);
        call(request.operator, request.args.clone(), &inputs, outputs, 1).unwrap();
        for (index, got) in output.values().into_iter().enumerate() {
            let (value, bound) = (expected[0].values[index], expected[0].bounds[index]);
            assert!(
                bound.allows(got, value, expected[0].dtype),
                "{} at {level}: output {index} of {:?} is {got}, not {value}: {request:?}",
                request.operator,
                expected[0].shape
            );
        }
    }
}

#[test]
fn narrow_results_are_right_for_every_pair_of_factors() {
    let (mut memory, mut choices) = (Memory::new(), Choices::from_seed(3));
    for up in 1..=5 {
        for down in 1..=5 {
            for taps in (1..=6).chain([8, 12, 13]) {
                for width in 1..=5 {
                    for (before, after) in [(0, 0), (taps as i64 - 1, 0), (2, 1), (4, 5)] {
                        let dtype = choices.pick(&DType::ALL);
                        let x = Array::new(&[2, 6, width], dtype); // As high as the largest kernel and more.
                        let k = Array::new(&[choices.pick(&[1, 2, 4]), taps], DType::Float32);
                        let args =
                            [("up_x", up), ("down_x", down), ("pad_x0", before), ("pad_x1", after), ("pad_y0", 3)];
                        let args = args.map(|(name, number)| (name, ArgValue::Int(number))).to_vec();
                        let mut request = Request { operator: "UpFirDn2d", inputs: vec![Some(x), Some(k)], args };
                        check(&mut request, &mut memory, &mut choices);
                        let Ok(mut forward) = expect(&request) else { continue };
                        let dy = Array::new(&forward.remove(0).shape, dtype);
                        let [x, k] = [request.inputs.remove(0), request.inputs.remove(0)];
                        let inputs = vec![Some(dy.clone()), k.clone(), x.clone()];
                        let mut request = Request { operator: "UpFirDn2dGradient", inputs, args: request.args };
                        check(&mut request, &mut memory, &mut choices);
                        let inputs = vec![x, Some(dy), k];
                        let mut request = Request { operator: "UpFirDn2dKernelGradient", inputs, args: request.args };
                        check(&mut request, &mut memory, &mut choices);
                    }
                }
            }
        }
    }
}
