//! Every operator with every operand directly against an unmapped page, on either side, for every
//! level, element type and tail length: one byte too far ends the test.
#![cfg(unix)]

use firelu::{ArgValue, DType};
use firelu_soak::cases::call;
use firelu_soak::choices::Choices;
use firelu_soak::memory::{Memory, Placed};
use firelu_test_support::guarded::Side;
use firelu_test_support::levels::every_level;

type Shapes = (Vec<Vec<usize>>, Vec<Vec<usize>>);

/// The shapes of inputs and outputs for a tail of so many elements.
fn shapes(operator: &str, n: usize) -> Shapes {
    let row = vec![2, n];
    let kernel = vec![2, 3];
    match operator {
        "LeakyRelu" => (vec![row.clone()], vec![row]),
        "LeakyReluGradient" | "Add" | "Sub" | "Mul" => (vec![row.clone(); 2], vec![row]),
        "BiasAct" => (vec![row.clone(), vec![n]], vec![row]),
        "BiasActGradient" => (vec![row.clone(), row.clone(), vec![n]], vec![row, vec![n]]),
        "FusedLeakyRelu" => (vec![row.clone(), vec![n]], vec![row]),
        "FusedLeakyReluGradient" => (vec![row.clone(), row.clone(), vec![n]], vec![row, vec![n]]),
        "Sum" => (vec![row.clone(); 6], vec![row]),
        "ReduceSum" => (vec![row], vec![vec![n]]),
        "BroadcastLike" => (vec![vec![n], row.clone()], vec![row]),
        "UpFirDn2d" => (vec![row.clone(), kernel], vec![vec![3, n]]),
        "UpFirDn2dGradient" => (vec![vec![3, n], kernel, row.clone()], vec![row]),
        "UpFirDn2dKernelGradient" => (vec![row, vec![3, n], kernel.clone()], vec![kernel]),
        "Snake" => (vec![row.clone(), vec![n], vec![n]], vec![row]),
        "SnakeGradient" => (vec![row.clone(), row.clone(), vec![n], vec![n]], vec![row, vec![n], vec![n]]),
        "SnakeDerivative" => (vec![row.clone(), row.clone(), vec![n], vec![n]], vec![row]),
        "FilteredAct" | "FilteredActGradient" => filtered(operator, [2, 2, n], [2, 4, n]),
        other => unreachable!("{other} has no shapes here"),
    }
}

/// A picture of two channels between two filters, with numbers for each channel.
fn filtered(operator: &str, x: [usize; 3], y: [usize; 3]) -> Shapes {
    let mut inputs: Vec<Vec<usize>> = vec![x.into(), vec![2, 3], vec![2, 3], vec![2], vec![2], vec![2]];
    if operator == "FilteredAct" {
        return (inputs, vec![y.into()]);
    }
    inputs.push(y.into());
    (inputs, vec![x.into(), vec![2], vec![2], vec![2]])
}

fn arguments(operator: &str) -> Vec<(&'static str, ArgValue)> {
    match operator {
        "ReduceSum" => vec![("axes", ArgValue::Ints(vec![0]))],
        name if name.starts_with("UpFirDn2d") => [("pad_x0", 1), ("pad_x1", 1), ("pad_y0", 1), ("pad_y1", 1)]
            .map(|(name, n)| (name, ArgValue::Int(n)))
            .into(),
        name if name.starts_with("FilteredAct") => {
            let pads = ["pad_x0", "pad_x1", "pad_y0", "pad_y1"];
            let more = ["down_pad_x0", "down_pad_x1", "down_pad_y0", "down_pad_y1"];
            let mut args: Vec<_> = pads.into_iter().chain(more).map(|name| (name, ArgValue::Int(1))).collect();
            args.extend([("act", ArgValue::String("snake".into())), ("axis", ArgValue::Int(0))]);
            args
        }
        _ => vec![],
    }
}

#[test]
fn no_operator_reaches_past_its_operands() {
    let mut memory = Memory::new();
    let mut choices = Choices::from_seed(0);
    let operators = firelu_soak::signatures::SIGNATURES.iter().map(|signature| signature.operator);
    for operator in operators {
        for dtype in DType::ALL {
            for n in (1..=67).chain([127, 128, 129, 1023, 1025]) {
                for side in [Side::Start, Side::End] {
                    memory.reset();
                    let (inputs, outputs) = shapes(operator, n);
                    let mut place = |shape: &Vec<usize>| {
                        let placed = memory.place_against(shape, dtype, side);
                        firelu_soak::generate::fill_gently(&placed, &mut choices);
                        placed
                    };
                    let inputs: Vec<Option<Placed>> = inputs.iter().map(|shape| Some(place(shape))).collect();
                    let outputs: Vec<Placed> = outputs.iter().map(place).collect();
                    for _ in every_level() {
                        call(operator, arguments(operator), &inputs, &outputs, 1)
                            .unwrap_or_else(|error| panic!("{operator}, {dtype}, {n}: {error}"));
                    }
                }
            }
        }
    }
}
