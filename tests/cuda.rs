//! Element-wise operators and sums on a CUDA device against the CPU: all element types and memory layouts, bit for bit
//! where both do the same operations in the same order, else within a stated bound.
#![cfg(all(feature = "cuda", unix))]

mod common;

use common::Cuda;
use common::operands::{GPU, LAYOUTS, assert_bits, assert_near, both, float, pair, tensor};
use firelu::devices::copy;
use firelu::devices::cpu::features::Level;
use firelu::{Activation, ArgValue, DType, Device, Float16, Strides, Tensor, TensorType, registry};
use firelu_test_support::layouts::Layout;

const SHAPES: [&[usize]; 9] =
    [&[], &[1], &[7], &[0, 3], &[1030], &[3, 5], &[2, 3, 4, 5], &[2, 8, 5, 6], &[1, 2, 33, 65]];

#[test]
fn leaky_relu_and_its_gradient_are_the_same_bits() {
    let _cuda = Cuda::take();
    for dtype in DType::ALL {
        for shape in SHAPES {
            for layout in LAYOUTS {
                for alpha in [0.2, 0.0, -0.5] {
                    let what = format!("{dtype} {shape:?} {layout:?} {alpha}");
                    let (x, dy) = (pair(shape, layout, dtype, 1), pair(shape, layout, dtype, 2));
                    let args = [("alpha", float(alpha))];
                    assert_bits(&what, &both("LeakyRelu", &[Some(x.clone())], &args)[0]);
                    assert_bits(&what, &both("LeakyReluGradient", &[Some(x), Some(dy)], &args)[0]);
                }
            }
        }
    }
}

/// What the schemas show of every operator that has kernels, whoever added it; the tests below say where bits agree.
#[test]
fn examples_agree_with_the_cpu() {
    let _cuda = Cuda::take();
    for name in registry::names() {
        let operator = registry::find(&name).unwrap();
        if !operator.devices().contains(&"cuda") {
            continue;
        }
        for example in &operator.schema.examples {
            for (dtype, layout) in DType::ALL.into_iter().flat_map(|dtype| LAYOUTS.map(|layout| (dtype, layout))) {
                let what = format!("{name} {example:?} {dtype} {layout:?}");
                let shapes = example.inputs.iter().enumerate();
                let place = |(seed, shape): (usize, &Option<Vec<usize>>)| {
                    shape.as_ref().map(|shape| pair(shape, layout, dtype, seed as u64 + 1))
                };
                let inputs: Vec<_> = shapes.map(place).collect();
                for output in both(&name, &inputs, &example.args) {
                    // No sum of an example has more terms.
                    assert_near(&what, &output, dtype.compute(), 64.0, 4.0);
                }
            }
        }
    }
}

#[test]
fn special_values_pass_as_on_the_cpu() {
    let _cuda = Cuda::take();
    let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-45, -1e-45, 65504.0, -6e-8, 3e38];
    for dtype in DType::ALL {
        let host = tensor(&[special.len()], &special, dtype);
        let x = [host.clone(), copy(&host, GPU).unwrap()];
        assert_bits("LeakyRelu", &both("LeakyRelu", &[Some(x.clone())], &[("alpha", float(0.3))])[0]);
        let args = [("alpha", float(0.3)), ("scale", float(1.5)), ("axis", ArgValue::Int(0))];
        assert_bits("FusedLeakyRelu", &both("FusedLeakyRelu", &[Some(x.clone()), None], &args)[0]);
        assert_bits("FusedLeakyRelu", &both("FusedLeakyRelu", &[Some(x.clone()), Some(x.clone())], &args)[0]);
        assert_bits("Add", &both("Add", &[Some(x.clone()), Some(x)], &[])[0]);
    }
}

#[test]
fn copies_keep_every_bit() {
    let _cuda = Cuda::take();
    // Numbers that are none have bits too: quiet, signalling, of either sign.
    let bits = [0x7fc0_0000u32, 0x7f80_0001, 0xffc1_2345, 0xff80_0002, 0x8000_0000, 1, 0x3f80_0000, 0xff7f_ffff];
    let host = Tensor::from_vec([bits.len()], bits.map(f32::from_bits).to_vec()).unwrap();
    let device = copy(&host, GPU).unwrap();
    // Every second element, which only the device can gather.
    let (kind, strides) = (TensorType::new([4], DType::Float32), Strides::from_slice(&[8]));
    let gathered = Tensor::from_storage(device.storage().clone(), 0, kind, strides).unwrap();
    let found = copy(&gathered, Device::Cpu).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(found.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), [bits[0], bits[2], bits[4], bits[6]]);
    let bits = [0x7e00u16, 0x7c01, 0xfe12, 0xfc02, 0x8000, 1, 0x3c00, 0xfbff];
    let host = Tensor::from_vec([bits.len()], bits.map(Float16::from_bits).to_vec()).unwrap();
    let device = copy(&host, GPU).unwrap();
    let (kind, strides) = (TensorType::new([8], DType::Float16), Strides::from_slice(&[-2]));
    let reversed = Tensor::from_storage(device.storage().clone(), 14, kind, strides).unwrap();
    let found = copy(&reversed, Device::Cpu).unwrap().to_vec::<Float16>().unwrap();
    assert!(found.iter().rev().map(|value| value.to_bits()).eq(bits));
}

#[test]
fn layouts_that_differ_between_operands_agree() {
    let _cuda = Cuda::take();
    let shape = [2, 8, 5, 6];
    for dtype in [DType::Float16, DType::Float32] {
        for first in LAYOUTS {
            for second in LAYOUTS {
                let (y, dy) = (pair(&shape, first, dtype, 1), pair(&shape, second, dtype, 2));
                let inputs = [Some(y), Some(dy)];
                let what = format!("{dtype} {first:?} {second:?}");
                assert_bits(&what, &both("LeakyReluGradient", &inputs, &[])[0]);
                assert_bits(&what, &both("FusedLeakyReluGradient", &inputs, &[])[0]);
                assert_bits(&what, &both("Sum", &inputs, &[])[0]);
            }
        }
    }
}

#[test]
fn more_dimensions_than_a_kernel_takes() {
    let _cuda = Cuda::take();
    let shape = [2usize; 11];
    let (x, dy) = (pair(&shape, Layout::Sliced, DType::Float32, 1), pair(&shape, Layout::Sliced, DType::Float32, 2));
    assert_bits("LeakyRelu", &both("LeakyRelu", &[Some(x.clone())], &[])[0]);
    let results = both("FusedLeakyReluGradient", &[Some(x.clone()), Some(dy)], &[("axis", ArgValue::Int(4))]);
    assert_bits("dX", &results[0]);
    assert_near("dB", &results[1], DType::Float32, 1024.0, 6.0);
    let args = [("axes", ArgValue::Ints(vec![0, 2, 5, 7, 8]))];
    assert_near("ReduceSum", &both("ReduceSum", &[Some(x)], &args)[0], DType::Float32, 32.0, 2.0);
}

#[test]
fn fused_leaky_relu_is_the_same_bits() {
    let _cuda = Cuda::take();
    let shapes: [(&[usize], i64); 9] = [
        (&[5], 0),
        (&[3, 5], 1),
        (&[40, 16], 1),
        (&[2, 3, 4, 5], 1),
        (&[2, 8, 5, 6], 1),
        (&[2, 8, 5, 6], -1),
        (&[1, 2, 33, 65], 1),
        (&[2, 3, 32, 64], 1),
        (&[0, 3, 4, 4], 1),
    ];
    for dtype in DType::ALL {
        for (shape, axis) in shapes {
            for layout in LAYOUTS {
                let channels = shape[axis.rem_euclid(shape.len() as i64) as usize];
                let x = pair(shape, layout, dtype, 1);
                let mut kinds = vec![None, Some(dtype)];
                if dtype.size() == 2 {
                    kinds.push(Some(DType::Float32));
                }
                for kind in kinds {
                    let what = format!("{dtype} {shape:?} {layout:?} {axis} {kind:?}");
                    let bias = kind.map(|kind| {
                        pair(&[channels], if layout == Layout::Sliced { layout } else { Layout::RowMajor }, kind, 3)
                    });
                    let args = [("axis", ArgValue::Int(axis)), ("alpha", float(0.2)), ("scale", float(1.4))];
                    assert_bits(&what, &both("FusedLeakyRelu", &[Some(x.clone()), bias.clone()], &args)[0]);

                    let dy = pair(shape, layout, dtype, 2);
                    let terms = (shape.iter().product::<usize>() / channels.max(1)) as f64;
                    for dy in [Some(dy), None] {
                        if dy.is_none() && bias.is_none() {
                            continue;
                        }
                        let results = both("FusedLeakyReluGradient", &[Some(x.clone()), dy, bias.clone()], &args);
                        assert_bits(&what, &results[0]);
                        // Threads add up to 32 numbers in the compute type, then float64; the CPU up to 1024 in lanes.
                        assert_near(
                            &what,
                            &results[1],
                            dtype.compute(),
                            terms.min(1100.0),
                            terms.max(1.0) * 6.0 / terms.clamp(1.0, 1100.0),
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn activations_are_the_same_bits() {
    let _cuda = Cuda::take();
    if !Level::available().contains(&Level::Avx2) {
        eprintln!("left out: this processor does not fuse multiply and add, as the device does");
        return;
    }
    let shapes: [(&[usize], i64); 4] = [(&[5], 0), (&[3, 5], 1), (&[2, 8, 5, 6], -1), (&[0, 3, 4, 4], 1)];
    for dtype in DType::ALL {
        for ((shape, axis), layout) in shapes.into_iter().flat_map(|shape| LAYOUTS.map(|layout| (shape, layout))) {
            let channels = shape[axis.rem_euclid(shape.len() as i64) as usize];
            let (x, dy) = (pair(shape, layout, dtype, 1), pair(shape, layout, dtype, 2));
            let biases = [None, Some(pair(&[channels], Layout::RowMajor, dtype.compute(), 3))];
            for (bias, activation) in biases.iter().flat_map(|bias| Activation::ALL.map(|act| (bias.clone(), act))) {
                let act = ("act", ArgValue::String(activation.name().into()));
                let what = format!("{dtype} {shape:?} {layout:?} {axis} {act:?}");
                let args = [act, ("axis", ArgValue::Int(axis)), ("clamp", float(0.8))];
                assert_bits(&what, &both("BiasAct", &[Some(x.clone()), bias.clone()], &args)[0]);
                for order in [1, 2, 5] {
                    let args = [args[0].clone(), args[1].clone(), ("order", ArgValue::Int(order))];
                    let inputs = [Some(x.clone()), Some(dy.clone()), bias.clone()];
                    let results = both("BiasActGradient", &inputs, &args);
                    assert_bits(&what, &results[0]);
                    assert_near(&what, &results[1], dtype.compute(), 64.0, 300.0);
                }
            }
        }
    }
}

#[test]
fn snakes_are_the_same_bits() {
    let _cuda = Cuda::take();
    if !Level::available().contains(&Level::Avx2) {
        eprintln!("left out: this processor does not fuse multiply and add, as the device does");
        return;
    }
    let shapes: [(&[usize], i64); 4] = [(&[5], 0), (&[3, 5], 1), (&[2, 8, 5, 6], -1), (&[0, 3, 4, 4], 1)];
    for dtype in DType::ALL {
        for ((shape, axis), layout) in shapes.into_iter().flat_map(|shape| LAYOUTS.map(|layout| (shape, layout))) {
            let channels = shape[axis.rem_euclid(shape.len() as i64) as usize];
            let (x, dy) = (pair(shape, layout, dtype, 1), pair(shape, layout, dtype, 2));
            let alpha = pair(&[channels], Layout::Sliced, dtype.compute(), 3);
            for (beta, logscale) in [(None, true), (Some(pair(&[channels], Layout::RowMajor, dtype, 4)), false)] {
                let args = [("logscale", ArgValue::Bool(logscale)), ("axis", ArgValue::Int(axis))];
                let what = format!("{dtype} {shape:?} {layout:?} {axis} {logscale}");
                let numbers = [Some(alpha.clone()), beta.clone()];
                let forward = [&[Some(x.clone())], &numbers[..]].concat();
                assert_bits(&what, &both("Snake", &forward, &args)[0]);
                let backward = [&[Some(x.clone()), Some(dy.clone())], &numbers[..]].concat();
                assert_bits(&what, &both("SnakeGradient", &backward, &args)[0]);
                for (order_x, order_alpha) in [(0, 0), (1, 1), (3, 2)] {
                    let orders = [("order_x", ArgValue::Int(order_x)), ("order_alpha", ArgValue::Int(order_alpha))];
                    let args = [&args[..], &orders].concat();
                    assert_bits(&what, &both("SnakeDerivative", &backward, &args)[0]);
                }
            }
        }
    }
}

#[test]
fn activations_of_special_values_are_those_of_the_cpu() {
    let _cuda = Cuda::take();
    if !Level::available().contains(&Level::Avx2) {
        eprintln!("left out: this processor does not fuse multiply and add, as the device does");
        return;
    }
    let special =
        [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-45, -1e-45, 65504.0, -6e-8, 3e38, -88.5, 2e5];
    for dtype in DType::ALL {
        let host = tensor(&[special.len()], &special, dtype);
        let x = [host.clone(), copy(&host, GPU).unwrap()];
        for activation in Activation::ALL {
            let args = [("act", ArgValue::String(activation.name().into())), ("axis", ArgValue::Int(0))];
            assert_bits(activation.name(), &both("BiasAct", &[Some(x.clone()), None], &args)[0]);
            let gradient = both("BiasActGradient", &[Some(x.clone()), Some(x.clone())], &args);
            assert_bits(activation.name(), &gradient[0]);
        }
        let alpha = pair(&[special.len()], Layout::RowMajor, dtype, 1);
        let args = [("axis", ArgValue::Int(0)), ("logscale", ArgValue::Bool(true))];
        assert_bits("snake", &both("Snake", &[Some(x.clone()), Some(alpha.clone())], &args)[0]);
        assert_bits("snake", &both("SnakeGradient", &[Some(x.clone()), Some(x), Some(alpha)], &args)[0]);
    }
}

#[test]
fn many_rows_of_channels_are_the_same_bits() {
    let _cuda = Cuda::take();
    // So large that blocks keep to a group of channels and go down the rows; the last group is not full.
    let shape = [2, 24, 128, 256];
    for dtype in DType::ALL {
        let inputs =
            [Some(pair(&shape, Layout::ChannelsLast, dtype, 1)), Some(pair(&[24], Layout::RowMajor, dtype, 3))];
        assert_bits(&format!("{dtype}"), &both("FusedLeakyRelu", &inputs, &[("scale", float(1.4))])[0]);
    }
}

#[test]
fn arithmetic_is_the_same_bits() {
    let _cuda = Cuda::take();
    let shapes: [(&[usize], &[usize]); 6] =
        [(&[7], &[7]), (&[3, 5], &[5]), (&[3, 1, 4], &[2, 1]), (&[], &[2, 3]), (&[1030], &[1]), (&[0, 2], &[1, 2])];
    for dtype in DType::ALL {
        for (a, b) in shapes {
            for layout in [Layout::RowMajor, Layout::Sliced, Layout::Reversed, Layout::Shifted] {
                let inputs = [Some(pair(a, layout, dtype, 1)), Some(pair(b, layout, dtype, 2))];
                for name in ["Add", "Sub", "Mul"] {
                    assert_bits(&format!("{name} {dtype} {a:?} {b:?} {layout:?}"), &both(name, &inputs, &[])[0]);
                }
            }
        }
        for count in [1, 2, 3, 8, 9, 20] {
            for layout in LAYOUTS {
                let inputs: Vec<_> = (0..count).map(|k| Some(pair(&[3, 8, 5], layout, dtype, k))).collect();
                assert_bits(&format!("Sum of {count} {dtype} {layout:?}"), &both("Sum", &inputs, &[])[0]);
            }
        }
    }
}

#[test]
fn sums_and_broadcasts_agree() {
    let _cuda = Cuda::take();
    for dtype in DType::ALL {
        for shape in [&[5][..], &[3, 700], &[9, 100], &[40, 3, 5], &[2, 3, 4, 5], &[20000], &[0, 3], &[3, 0]] {
            for layout in LAYOUTS {
                let x = pair(shape, layout, dtype, 1);
                let rank = shape.len() as i64;
                for axes in [vec![], vec![0], vec![rank - 1], (0..rank).step_by(2).collect()] {
                    for keepdims in [false, true] {
                        let args = [
                            ("axes", ArgValue::Ints(axes.clone())),
                            ("keepdims", ArgValue::Bool(keepdims)),
                            ("scale", float(0.75)),
                        ];
                        let what = format!("{dtype} {shape:?} {layout:?} {axes:?} {keepdims}");
                        let elements = shape.iter().product::<usize>() as f64;
                        // The device adds eight numbers in the compute type, their sums in float64; the CPU up to 1024
                        // numbers in lanes of the compute type.
                        let result = &both("ReduceSum", &[Some(x.clone())], &args)[0];
                        assert_near(
                            &what,
                            result,
                            dtype.compute(),
                            elements.min(1100.0),
                            2.0 * (elements / 1100.0).max(1.0),
                        );
                    }
                }
                let like = pair(&[&[4], shape].concat(), Layout::RowMajor, DType::Float32, 1);
                assert_bits(
                    "BroadcastLike",
                    &both("BroadcastLike", &[Some(x), Some(like)], &[("scale", float(0.5))])[0],
                );
            }
        }
    }
}
