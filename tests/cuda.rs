//! Every operator on a CUDA device against the CPU: all element types and memory layouts, bit for bit where both do the
//! same operations in the same order, else within a stated bound.
#![cfg(all(feature = "cuda", unix))]

mod common;

use common::Cuda;
use firelu::core::dtype::Compute;
use firelu::devices::copy;
use firelu::{ArgValue, DType, Device, Element, Shape, Strides, Tensor, TensorType, registry, with_element};

const GPU: Device = Device::Cuda(0);

/// Numbers that look random, zeros of both signs among them, rounded to the type.
fn values(count: usize, seed: u64, dtype: DType) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match state >> 59 {
            0 => 0.0,
            1 => -0.0,
            _ => ((state >> 20) % (1 << 24)) as f64 / (1 << 22) as f64 - 2.0,
        }
    };
    with_element!(dtype, T => {
        let round = |value| T::from_compute(<T as Element>::Compute::from_f64(value)).to_compute().to_f64();
        (0..count).map(|_| round(next())).collect()
    })
}

fn tensor(shape: &[usize], values: &[f64], dtype: DType) -> Tensor {
    with_element!(dtype, T => {
        let of = |&value: &f64| T::from_compute(<T as Element>::Compute::from_f64(value));
        Tensor::from_vec(shape, values.iter().map(of).collect::<Vec<T>>()).unwrap()
    })
}

/// How a tensor lies in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lay {
    RowMajor,
    /// The second dimension innermost.
    ChannelsLast,
    /// Every second element of each dimension of a larger array.
    Sliced,
    /// Backwards along the last dimension.
    Reversed,
    /// One element after a vector's boundary.
    Shifted,
}

const LAYS: [Lay; 5] = [Lay::RowMajor, Lay::ChannelsLast, Lay::Sliced, Lay::Reversed, Lay::Shifted];

/// The same random tensor on the CPU and on the device.
fn pair(shape: &[usize], lay: Lay, dtype: DType, seed: u64) -> [Tensor; 2] {
    let size = dtype.size() as isize;
    let elements: usize = shape.iter().product();
    let kind = TensorType::new(shape, dtype);
    let row_major = kind.shape.row_major_strides(dtype);
    let (room, offset, strides): (usize, isize, Strides) = match lay {
        Lay::RowMajor => (elements, 0, row_major),
        Lay::Shifted => (elements + 1, size, row_major),
        Lay::ChannelsLast if shape.len() >= 3 => {
            let mut order: Vec<usize> = (0..shape.len()).collect();
            let channels = order.remove(1);
            order.push(channels);
            let mut strides = row_major;
            let mut step = size;
            for &d in order.iter().rev() {
                strides[d] = step;
                step *= shape[d] as isize;
            }
            (elements, 0, strides)
        }
        Lay::ChannelsLast => (elements, 0, row_major),
        Lay::Sliced => {
            let larger: Shape = shape.iter().map(|n| 2 * n).collect();
            let strides = larger.row_major_strides(dtype).iter().map(|stride| 2 * stride).collect();
            (larger.elements().max(1), 0, strides)
        }
        Lay::Reversed => {
            let mut strides = row_major;
            let last = shape.len().saturating_sub(1);
            let length = shape.last().copied().unwrap_or(1) as isize;
            if let Some(stride) = strides.get_mut(last) {
                *stride = -size;
            }
            (elements, if elements == 0 { 0 } else { (length - 1) * size }, strides)
        }
    };
    let flat = tensor(&[room], &values(room, seed, dtype), dtype);
    [flat.clone(), copy(&flat, GPU).unwrap()].map(|flat| {
        Tensor::from_storage(flat.storage().clone(), offset as usize, kind.clone(), strides.clone()).unwrap()
    })
}

fn run(name: &str, inputs: &[Option<&Tensor>], args: &[(&str, ArgValue)]) -> Vec<Tensor> {
    registry::run(name, inputs, args.iter().cloned()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Runs an operator on both devices and gives each output's values on the CPU and on the device.
fn both(name: &str, inputs: &[Option<[Tensor; 2]>], args: &[(&str, ArgValue)]) -> Vec<(DType, Vec<f64>, Vec<f64>)> {
    let on = |k: usize| -> Vec<Option<&Tensor>> { inputs.iter().map(|i| i.as_ref().map(|pair| &pair[k])).collect() };
    let (host, device) = (run(name, &on(0), args), run(name, &on(1), args));
    assert_eq!(host.len(), device.len());
    let compare = |(host, device): (&Tensor, &Tensor)| {
        assert_eq!((host.kind(), device.device()), (device.kind(), GPU));
        let strides = |tensor: &Tensor| {
            tensor.shape().iter().zip(tensor.strides()).filter(|(n, _)| **n > 1).map(|(_, s)| *s).collect::<Vec<_>>()
        };
        assert_eq!(strides(host), strides(device), "{name} keeps the layout");
        (host.dtype(), host.to_f64_vec().unwrap(), copy(device, Device::Cpu).unwrap().to_f64_vec().unwrap())
    };
    host.iter().zip(&device).map(compare).collect()
}

fn same_bits(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[track_caller]
fn assert_bits(what: &str, (_, host, device): &(DType, Vec<f64>, Vec<f64>)) {
    assert_eq!(host.len(), device.len(), "{what}");
    for (index, (a, b)) in host.iter().zip(device).enumerate() {
        assert!(same_bits(*a, *b), "{what}: element {index}: {a:e} on the CPU, {b:e} on the device");
    }
}

/// The distance of two sums of `terms` products, each of magnitude at most `size`, rounded to the type.
#[track_caller]
fn assert_near(what: &str, (dtype, host, device): &(DType, Vec<f64>, Vec<f64>), compute: DType, terms: f64, size: f64) {
    let unit = if compute == DType::Float64 { 2f64.powi(-53) } else { 2f64.powi(-24) };
    let last = match dtype {
        DType::Float16 => 2f64.powi(-10),
        DType::BFloat16 => 2f64.powi(-7),
        DType::Float32 => 2f64.powi(-23),
        DType::Float64 => 2f64.powi(-52),
    };
    for (index, (a, b)) in host.iter().zip(device).enumerate() {
        let bound = 2.0 * (terms + 4.0) * unit * terms * size + last * a.abs().max(b.abs()) + 1e-300;
        assert!(
            (a - b).abs() <= bound,
            "{what}: element {index}: {a:e} on the CPU, {b:e} on the device, bound {bound:e}"
        );
    }
}

fn float(value: f64) -> ArgValue {
    ArgValue::Float(value)
}

const SHAPES: [&[usize]; 9] =
    [&[], &[1], &[7], &[0, 3], &[1030], &[3, 5], &[2, 3, 4, 5], &[2, 8, 5, 6], &[1, 2, 33, 65]];

#[test]
fn leaky_relu_and_its_gradient_are_the_same_bits() {
    let _cuda = Cuda::take();
    for dtype in DType::ALL {
        for shape in SHAPES {
            for lay in LAYS {
                for alpha in [0.2, 0.0, -0.5] {
                    let what = format!("{dtype} {shape:?} {lay:?} {alpha}");
                    let (x, dy) = (pair(shape, lay, dtype, 1), pair(shape, lay, dtype, 2));
                    let args = [("alpha", float(alpha))];
                    assert_bits(&what, &both("LeakyRelu", &[Some(x.clone())], &args)[0]);
                    assert_bits(&what, &both("LeakyReluGradient", &[Some(x), Some(dy)], &args)[0]);
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
fn layouts_that_differ_between_operands_agree() {
    let _cuda = Cuda::take();
    let shape = [2, 8, 5, 6];
    for dtype in [DType::Float16, DType::Float32] {
        for first in LAYS {
            for second in LAYS {
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
    let (x, dy) = (pair(&shape, Lay::Sliced, DType::Float32, 1), pair(&shape, Lay::Sliced, DType::Float32, 2));
    assert_bits("LeakyRelu", &both("LeakyRelu", &[Some(x.clone())], &[])[0]);
    let results = both("FusedLeakyReluGradient", &[Some(x.clone()), Some(dy)], &[("axis", ArgValue::Int(4))]);
    assert_bits("dX", &results[0]);
    assert_near("dB", &results[1], DType::Float32, 1024.0, 6.0);
    let args = [("axes", ArgValue::Ints(vec![0, 2, 5, 7, 8]))];
    assert_near("ReduceSum", &both("ReduceSum", &[Some(x)], &args)[0], DType::Float64, 32.0, 2.0);
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
            for lay in LAYS {
                let channels = shape[axis.rem_euclid(shape.len() as i64) as usize];
                let x = pair(shape, lay, dtype, 1);
                let mut kinds = vec![None, Some(dtype)];
                if dtype.size() == 2 {
                    kinds.push(Some(DType::Float32));
                }
                for kind in kinds {
                    let what = format!("{dtype} {shape:?} {lay:?} {axis} {kind:?}");
                    let bias = kind
                        .map(|kind| pair(&[channels], if lay == Lay::Sliced { lay } else { Lay::RowMajor }, kind, 3));
                    let args = [("axis", ArgValue::Int(axis)), ("alpha", float(0.2)), ("scale", float(1.4))];
                    assert_bits(&what, &both("FusedLeakyRelu", &[Some(x.clone()), bias.clone()], &args)[0]);

                    let dy = pair(shape, lay, dtype, 2);
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
fn arithmetic_is_the_same_bits() {
    let _cuda = Cuda::take();
    let shapes: [(&[usize], &[usize]); 6] =
        [(&[7], &[7]), (&[3, 5], &[5]), (&[3, 1, 4], &[2, 1]), (&[], &[2, 3]), (&[1030], &[1]), (&[0, 2], &[1, 2])];
    for dtype in DType::ALL {
        for (a, b) in shapes {
            for lay in [Lay::RowMajor, Lay::Sliced, Lay::Reversed, Lay::Shifted] {
                let inputs = [Some(pair(a, lay, dtype, 1)), Some(pair(b, lay, dtype, 2))];
                for name in ["Add", "Sub", "Mul"] {
                    assert_bits(&format!("{name} {dtype} {a:?} {b:?} {lay:?}"), &both(name, &inputs, &[])[0]);
                }
            }
        }
        for count in [1, 2, 3, 8, 9, 20] {
            for lay in LAYS {
                let inputs: Vec<_> = (0..count).map(|k| Some(pair(&[3, 8, 5], lay, dtype, k))).collect();
                assert_bits(&format!("Sum of {count} {dtype} {lay:?}"), &both("Sum", &inputs, &[])[0]);
            }
        }
    }
}

#[test]
fn sums_and_broadcasts_agree() {
    let _cuda = Cuda::take();
    for dtype in DType::ALL {
        for shape in [&[5][..], &[3, 700], &[40, 3, 5], &[2, 3, 4, 5], &[20000], &[0, 3], &[3, 0]] {
            for lay in LAYS {
                let x = pair(shape, lay, dtype, 1);
                let rank = shape.len() as i64;
                for axes in [vec![], vec![0], vec![rank - 1], (0..rank).step_by(2).collect()] {
                    for keepdims in [false, true] {
                        let args = [
                            ("axes", ArgValue::Ints(axes.clone())),
                            ("keepdims", ArgValue::Bool(keepdims)),
                            ("scale", float(0.75)),
                        ];
                        let what = format!("{dtype} {shape:?} {lay:?} {axes:?} {keepdims}");
                        let elements = shape.iter().product::<usize>() as f64;
                        // The device adds in float64 throughout; the CPU up to 1024 numbers in lanes of the compute type.
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
                let like = pair(&[&[4], shape].concat(), Lay::RowMajor, DType::Float32, 1);
                assert_bits(
                    "BroadcastLike",
                    &both("BroadcastLike", &[Some(x), Some(like)], &[("scale", float(0.5))])[0],
                );
            }
        }
    }
}

/// A kernel of rank one, or not, on both devices.
fn taps(rows: usize, columns: usize, separable: bool, dtype: DType) -> [Tensor; 2] {
    let (a, b) = (values(rows, 11, DType::Float16), values(columns, 12, DType::Float16));
    let mut full: Vec<f64> = a.iter().flat_map(|y| b.iter().map(move |x| (y + 0.25) * (x + 0.5))).collect();
    if !separable {
        full = values(rows * columns, 13, DType::Float16);
    }
    let host = tensor(&[rows, columns], &full, dtype);
    [host.clone(), copy(&host, GPU).unwrap()]
}

struct Case {
    shape: &'static [usize],
    taps: (usize, usize),
    up: (i64, i64),
    down: (i64, i64),
    pad: (i64, i64, i64, i64),
}

fn check_upfirdn2d(case: &Case, dtype: DType, lay: Lay, separable: bool, flip: bool) {
    let &Case { shape, taps: (rows, columns), up, down, pad } = case;
    let what = format!(
        "{dtype} {lay:?} {shape:?} taps {rows}x{columns} up {up:?} down {down:?} pad {pad:?} {separable} {flip}"
    );
    let (x, k) = (pair(shape, lay, dtype, 1), taps(rows, columns, separable, DType::Float32));
    let args = [
        ("up_x", ArgValue::Int(up.0)),
        ("up_y", ArgValue::Int(up.1)),
        ("down_x", ArgValue::Int(down.0)),
        ("down_y", ArgValue::Int(down.1)),
        ("pad_x0", ArgValue::Int(pad.0)),
        ("pad_x1", ArgValue::Int(pad.1)),
        ("pad_y0", ArgValue::Int(pad.2)),
        ("pad_y1", ArgValue::Int(pad.3)),
        ("flip_kernel", ArgValue::Bool(flip)),
        ("gain", float(1.5)),
    ];
    let terms = (rows * columns) as f64;
    let forward = both("UpFirDn2d", &[Some(x.clone()), Some(k.clone())], &args);
    assert_near(&what, &forward[0], dtype.compute(), terms, 2.0 * 4.0 * 4.0 * 1.5);
    let out = run("UpFirDn2d", &[Some(&x[0]), Some(&k[0])], &args)[0].shape().to_vec();
    let dy = pair(&out, lay, dtype, 5);
    let backward = both("UpFirDn2dGradient", &[Some(dy.clone()), Some(k.clone()), Some(x.clone())], &args);
    assert_near(&what, &backward[0], dtype.compute(), terms, 2.0 * 4.0 * 4.0 * 1.5);
    let of_kernel = both("UpFirDn2dKernelGradient", &[Some(x), Some(dy), Some(k)], &args);
    let products = out.iter().product::<usize>() as f64;
    assert_near(&what, &of_kernel[0], dtype.compute(), products.min(1100.0), 6.0 * (products / 1100.0).max(1.0));
}

#[test]
fn the_usual_filters_agree() {
    let _cuda = Cuda::take();
    let shapes: [&[usize]; 7] =
        [&[2, 3, 4, 4], &[1, 5, 8, 8], &[2, 2, 17, 19], &[1, 1, 33, 130], &[3, 64, 9], &[5, 5], &[2, 8, 6, 20]];
    for shape in shapes {
        for (up, down, pad) in
            [(1, 1, (2, 1)), (1, 1, (1, 1)), (2, 1, (2, 1)), (2, 1, (1, 2)), (1, 2, (1, 1)), (1, 2, (2, 1))]
        {
            for dtype in DType::ALL {
                for lay in LAYS {
                    // Every shape, type, layout and factor meets half of the others; the rest appears with each of them.
                    if (shape.len() + shape[0] + dtype as usize + lay as usize + pad.0 as usize) % 2 == 0 {
                        continue;
                    }
                    let turn = (dtype as usize + lay as usize) % 4;
                    let case = Case {
                        shape,
                        taps: (4, 4),
                        up: (up, up),
                        down: (down, down),
                        pad: (pad.0, pad.1, pad.1, pad.0),
                    };
                    check_upfirdn2d(&case, dtype, lay, turn % 2 == 0, turn / 2 == 0);
                }
            }
        }
    }
}

#[test]
fn unusual_filters_agree() {
    let _cuda = Cuda::take();
    let cases = [
        Case { shape: &[2, 3, 9, 11], taps: (1, 1), up: (1, 1), down: (1, 1), pad: (0, 0, 0, 0) },
        Case { shape: &[2, 3, 9, 11], taps: (3, 5), up: (1, 2), down: (2, 1), pad: (2, 3, 1, 0) },
        Case { shape: &[1, 2, 20, 13], taps: (12, 12), up: (2, 2), down: (1, 1), pad: (6, 5, 5, 6) },
        Case { shape: &[1, 8, 20, 13], taps: (12, 12), up: (1, 1), down: (2, 2), pad: (5, 5, 5, 5) },
        Case { shape: &[2, 3, 9, 11], taps: (2, 7), up: (3, 2), down: (2, 3), pad: (4, 4, 4, 4) },
        Case { shape: &[2, 3, 9, 11], taps: (4, 4), up: (1, 1), down: (1, 1), pad: (-2, 3, 3, -2) },
        Case { shape: &[2, 3, 9, 11], taps: (4, 4), up: (2, 2), down: (1, 1), pad: (-3, 5, 7, -3) },
        Case { shape: &[1, 2, 20, 30], taps: (17, 29), up: (1, 1), down: (1, 1), pad: (14, 14, 8, 8) },
        Case { shape: &[2, 2, 5, 5], taps: (4, 4), up: (5, 5), down: (1, 1), pad: (9, 9, 9, 9) },
        Case { shape: &[2, 2, 3, 1, 2, 5, 5], taps: (4, 4), up: (2, 2), down: (1, 1), pad: (2, 1, 2, 1) },
    ];
    for (turn, case) in cases.iter().enumerate() {
        for dtype in DType::ALL {
            for lay in [Lay::RowMajor, Lay::ChannelsLast, Lay::Sliced] {
                check_upfirdn2d(case, dtype, lay, (turn + lay as usize) % 2 == 0, (turn + dtype as usize) % 2 == 0);
            }
        }
    }
}

#[test]
fn kernels_larger_than_any_window_agree() {
    let _cuda = Cuda::take();
    let (x, k) = (pair(&[1, 1, 122, 124], Lay::RowMajor, DType::Float32, 1), taps(121, 123, false, DType::Float32));
    let terms = (121 * 123) as f64;
    let forward = both("UpFirDn2d", &[Some(x.clone()), Some(k.clone())], &[]);
    assert_near("UpFirDn2d", &forward[0], DType::Float32, terms.min(300.0), 4.0 * terms / 300.0);
    let dy = pair(&[1, 1, 2, 2], Lay::RowMajor, DType::Float32, 5);
    let of_kernel = both("UpFirDn2dKernelGradient", &[Some(x), Some(dy), Some(k)], &[]);
    assert_near("UpFirDn2dKernelGradient", &of_kernel[0], DType::Float32, 4.0, 4.0);
}

#[test]
fn every_layout_gives_the_same_bits() {
    let _cuda = Cuda::take();
    for dtype in DType::ALL {
        for separable in [false, true] {
            for (up, down) in [(1, 1), (2, 1), (1, 2)] {
                let shape = [2, 8, 18, 21];
                let k = &taps(4, 4, separable, dtype)[1];
                let args: Vec<(&str, ArgValue)> = [("up", up), ("down", down)]
                    .iter()
                    .flat_map(|&(name, n)| [(name, 'x', n), (name, 'y', n)])
                    .map(|(name, axis, n)| match (name, axis) {
                        ("up", 'x') => ("up_x", ArgValue::Int(n)),
                        ("up", _) => ("up_y", ArgValue::Int(n)),
                        (_, 'x') => ("down_x", ArgValue::Int(n)),
                        _ => ("down_y", ArgValue::Int(n)),
                    })
                    .chain([("pad_x0", ArgValue::Int(2)), ("pad_y1", ArgValue::Int(1))])
                    .collect();
                let result = |lay: Lay| {
                    let x = pair(&shape, lay, dtype, 1)[1].clone();
                    let same = copy(&x, Device::Cpu).unwrap().to_f64_vec().unwrap();
                    let row_major = copy(&tensor(&shape, &same, dtype), GPU).unwrap();
                    let [a, b] = [&x, &row_major].map(|x| run("UpFirDn2d", &[Some(x), Some(k)], &args).remove(0));
                    [a, b].map(|y| copy(&y, Device::Cpu).unwrap().to_f64_vec().unwrap())
                };
                for lay in LAYS {
                    let [a, b] = result(lay);
                    assert_bits(&format!("{dtype} {lay:?} {separable} {up} {down}"), &(dtype, b, a));
                }
            }
        }
    }
}

/// One plane by the definition: what lies outside adds nothing.
fn by_definition(x: &[f64], (height, width): (usize, usize), k: &[f64], up: i64, pad: (i64, i64, i64)) -> Vec<f64> {
    let (pad_x0, pad_x1, pad_y0) = pad;
    let size = |n: usize, before: i64, after: i64| n as i64 * up + before + after - 4 + 1;
    let mut result = Vec::new();
    for oy in 0..size(height, pad_y0, 0) {
        for ox in 0..size(width, pad_x0, pad_x1) {
            let mut sum = 0.0;
            for ky in 0..4 {
                for kx in 0..4 {
                    let (y, x_place) = (oy + ky - pad_y0, ox + kx - pad_x0);
                    let inside = |place: i64, n: usize| place >= 0 && place % up == 0 && place / up < n as i64;
                    if inside(y, height) && inside(x_place, width) {
                        // A convolution: the last tap meets the first sample.
                        sum +=
                            x[((y / up) * width as i64 + x_place / up) as usize] * k[((3 - ky) * 4 + 3 - kx) as usize];
                    }
                }
            }
            result.push(sum);
        }
    }
    result
}

#[test]
fn taps_that_are_not_finite_leave_padding_out() {
    let _cuda = Cuda::take();
    let mut full = values(16, 13, DType::Float32);
    full[0] = f64::INFINITY;
    let k = copy(&tensor(&[4, 4], &full, DType::Float32), GPU).unwrap();
    for lay in [Lay::RowMajor, Lay::ChannelsLast, Lay::Sliced] {
        let [host, x] = pair(&[1, 8, 6, 7], lay, DType::Float32, 1);
        for (up, pad) in [(1, 2), (2, 3), (3, 2)] {
            let args: Vec<_> = [("up_x", up), ("up_y", up), ("pad_x0", pad), ("pad_x1", pad), ("pad_y0", pad)]
                .map(|(name, n)| (name, ArgValue::Int(n)))
                .to_vec();
            let device = run("UpFirDn2d", &[Some(&x), Some(&k)], &args).remove(0);
            let device = copy(&device, Device::Cpu).unwrap().to_f64_vec().unwrap();
            let host = host.to_f64_vec().unwrap();
            let expected: Vec<f64> =
                host.chunks(42).flat_map(|plane| by_definition(plane, (6, 7), &full, up, (pad, pad, pad))).collect();
            assert_eq!(device.len(), expected.len());
            for (index, (a, b)) in expected.iter().zip(&device).enumerate() {
                assert!(same_bits(*a, *b) || (a - b).abs() < 1e-4, "{lay:?} up {up}: element {index}: {b}, not {a}");
            }
            assert!(expected.iter().any(|value| value.is_infinite()) && expected.iter().any(|value| value.is_finite()));
        }
    }
}
