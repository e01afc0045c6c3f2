//! Calls large enough for many tasks: the same bits for every number of threads, every run, and every
//! memory layout and instruction-set level for which the documentation promises it.
#![cfg(unix)]

use firelu::{ArgValue, DType};
use firelu_soak::cases::call;
use firelu_soak::choices::Choices;
use firelu_soak::memory::{Memory, Placed, Use};
use firelu_soak::signatures::SIGNATURES;
use firelu_test_support::levels::every_level;

/// Shapes of inputs and outputs that take several tasks of every operator.
fn shapes(operator: &str) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
    let (picture, channels, kernel) = (vec![1, 5, 217, 301], vec![5], vec![4, 3]);
    let filtered = vec![1, 5, 217, 301];
    match operator {
        "LeakyRelu" => (vec![picture.clone()], vec![picture]),
        "LeakyReluGradient" | "Add" | "Sub" | "Mul" => (vec![picture.clone(); 2], vec![picture]),
        "BiasAct" => (vec![picture.clone(), channels], vec![picture]),
        "BiasActGradient" => (vec![picture.clone(), picture.clone(), channels.clone()], vec![picture, channels]),
        "FusedLeakyRelu" => (vec![picture.clone(), channels], vec![picture]),
        "FusedLeakyReluGradient" => (vec![picture.clone(), picture.clone(), channels.clone()], vec![picture, channels]),
        "Sum" => (vec![picture.clone(); 4], vec![picture]),
        "ReduceSum" => (vec![picture], vec![vec![5, 301]]),
        "BroadcastLike" => (vec![vec![5, 301], picture.clone()], vec![picture]),
        "UpFirDn2d" => (vec![picture, kernel], vec![filtered]),
        "UpFirDn2dGradient" => (vec![filtered, kernel, picture.clone()], vec![picture]),
        "UpFirDn2dKernelGradient" => (vec![picture, filtered, kernel.clone()], vec![kernel]),
        "Snake" => (vec![picture.clone(), channels.clone(), channels], vec![picture]),
        "SnakeGradient" => (
            vec![picture.clone(), picture.clone(), channels.clone(), channels.clone()],
            vec![picture, channels.clone(), channels],
        ),
        "SnakeDerivative" => (vec![picture.clone(), picture.clone(), channels.clone(), channels], vec![picture]),
        "FilteredAct" | "FilteredActGradient" => {
            let mut inputs = vec![picture.clone(), kernel.clone(), kernel];
            inputs.extend(vec![channels.clone(); 3]);
            if operator == "FilteredAct" {
                return (inputs, vec![vec![1, 5, 217, 300]]);
            }
            inputs.push(vec![1, 5, 217, 300]);
            (inputs, vec![picture, channels.clone(), channels.clone(), channels])
        }
        other => unreachable!("{other} has no shapes here"),
    }
}

fn arguments(operator: &str) -> Vec<(&'static str, ArgValue)> {
    match operator {
        "ReduceSum" | "BroadcastLike" => vec![("axes", ArgValue::Ints(vec![0, 2]))],
        name if name.starts_with("UpFirDn2d") => {
            [("up_x", 2), ("down_x", 2), ("pad_x0", 1), ("pad_y0", 2), ("pad_y1", 1)]
                .map(|(name, n)| (name, ArgValue::Int(n)))
                .into()
        }
        name if name.starts_with("FilteredAct") => {
            let numbers = [("up_x", 2), ("down_x", 2), ("pad_x0", 1), ("pad_y0", 2), ("pad_y1", 1)];
            let more = [("down_pad_y0", 2), ("down_pad_y1", 1)];
            let numbers = numbers.into_iter().chain(more).map(|(name, n)| (name, ArgValue::Int(n)));
            numbers.chain([("act", ArgValue::String("snake".into()))]).collect()
        }
        _ => vec![],
    }
}

fn bits(outputs: &[Placed]) -> Vec<u64> {
    outputs.iter().flat_map(|output| (0..output.offsets.len()).map(|index| output.read_bits(index))).collect()
}

#[test]
fn bits_depend_on_nothing_but_the_call() {
    let (mut memory, mut choices) = (Memory::new(), Choices::from_seed(7));
    for signature in SIGNATURES {
        let operator = signature.operator;
        for dtype in DType::ALL {
            memory.reset();
            let (inputs, outputs) = shapes(operator);
            let plain: Vec<Option<Placed>> = inputs
                .iter()
                .map(|shape| {
                    let placed = memory.place(shape, dtype, Use::Dense, &mut choices);
                    (0..placed.offsets.len()).for_each(|index| placed.write(index, choices.between(-1.0, 1.0)));
                    Some(placed)
                })
                .collect();
            let outputs: Vec<Placed> =
                outputs.iter().map(|shape| memory.place(shape, dtype, Use::Dense, &mut choices)).collect();
            let strided: Vec<Option<Placed>> = plain
                .iter()
                .flatten()
                .map(|plain| {
                    let placed = memory.place(plain.parts.shape(), dtype, Use::Write, &mut choices);
                    (0..placed.offsets.len()).for_each(|index| placed.write_bits(index, plain.read_bits(index)));
                    Some(placed)
                })
                .collect();
            let mut of_levels = Vec::new();
            for level in every_level() {
                let run = |inputs: &[Option<Placed>], threads: usize| {
                    call(operator, arguments(operator), inputs, &outputs, threads)
                        .unwrap_or_else(|error| panic!("{operator}, {dtype}, {level}: {error}"));
                    bits(&outputs)
                };
                let first = run(&plain, 1);
                for threads in [1, 2, 3, 8] {
                    assert!(run(&plain, threads) == first, "{operator}, {dtype}, {level}, {threads} threads");
                }
                if signature.any_layout {
                    // No number here is zero, whose sign may differ.
                    assert!(run(&strided, 2) == first, "{operator}, {dtype}, {level}, another layout");
                }
                of_levels.push(first);
            }
            if signature.same_bits {
                assert!(of_levels.iter().all(|bits| *bits == of_levels[0]), "{operator}, {dtype}: levels differ");
            }
        }
    }
}
