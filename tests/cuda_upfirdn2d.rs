//! UpFirDn2d on a CUDA device against the CPU and against itself: usual and unusual filters, and its gradients, within a
//! stated bound; the same bits in every memory layout.
#![cfg(all(feature = "cuda", unix))]

mod common;

use common::Cuda;
use common::operands::{
    GPU, LAYOUTS, assert_bits, assert_near, both, float, pair, run, same_bits, taps, tensor, values,
};
use firelu::devices::copy;
use firelu::{ArgValue, DType, Device};
use firelu_test_support::layouts::Layout;

struct Case {
    shape: &'static [usize],
    taps: (usize, usize),
    up: (i64, i64),
    down: (i64, i64),
    pad: (i64, i64, i64, i64),
}

fn check_upfirdn2d(case: &Case, dtype: DType, layout: Layout, separable: bool, flip: bool) {
    check_with_border(case, dtype, layout, (separable, flip), "constant");
}

fn check_with_border(case: &Case, dtype: DType, layout: Layout, (separable, flip): (bool, bool), border: &'static str) {
    let &Case { shape, taps: (rows, columns), up, down, pad } = case;
    let what = format!(
        "{dtype} {layout:?} {shape:?} taps {rows}x{columns} up {up:?} down {down:?} pad {pad:?} {separable} {flip} {border}"
    );
    let (x, k) = (pair(shape, layout, dtype, 1), taps(rows, columns, separable, DType::Float32));
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
        ("border", ArgValue::String(border.into())),
    ];
    let terms = (rows * columns) as f64;
    let forward = both("UpFirDn2d", &[Some(x.clone()), Some(k.clone())], &args);
    assert_near(&what, &forward[0], dtype.compute(), terms, 2.0 * 4.0 * 4.0 * 1.5);
    let out = run("UpFirDn2d", &[Some(&x[0]), Some(&k[0])], &args)[0].shape().to_vec();
    let dy = pair(&out, layout, dtype, 5);
    let backward = both("UpFirDn2dGradient", &[Some(dy.clone()), Some(k.clone()), Some(x.clone())], &args);
    // A sample of the input may stand for as many positions as were padded, in both directions.
    let folded = if border == "constant" { 1.0 } else { (1 + pad.0 + pad.1) as f64 * (1 + pad.2 + pad.3) as f64 };
    assert_near(&what, &backward[0], dtype.compute(), terms * folded, 2.0 * 4.0 * 4.0 * 1.5 * folded);
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
                for layout in LAYOUTS {
                    // Every shape, type, layout and factor meets half of the others; the rest appears with each of them.
                    if (shape.len() + shape[0] + dtype as usize + layout as usize + pad.0 as usize) % 2 == 0 {
                        continue;
                    }
                    let turn = (dtype as usize + layout as usize) % 4;
                    let case = Case {
                        shape,
                        taps: (4, 4),
                        up: (up, up),
                        down: (down, down),
                        pad: (pad.0, pad.1, pad.1, pad.0),
                    };
                    check_upfirdn2d(&case, dtype, layout, turn % 2 == 0, turn / 2 == 0);
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
        Case { shape: &[1, 4, 20, 150], taps: (12, 12), up: (2, 2), down: (1, 1), pad: (6, 5, 6, 5) },
        Case { shape: &[1, 16, 12, 150], taps: (5, 6), up: (1, 1), down: (2, 1), pad: (3, 3, 2, 2) },
        Case { shape: &[2, 2, 3, 1, 2, 5, 5], taps: (4, 4), up: (2, 2), down: (1, 1), pad: (2, 1, 2, 1) },
    ];
    for (turn, case) in cases.iter().enumerate() {
        for dtype in DType::ALL {
            for layout in [Layout::RowMajor, Layout::ChannelsLast, Layout::Sliced] {
                check_upfirdn2d(
                    case,
                    dtype,
                    layout,
                    (turn + layout as usize) % 2 == 0,
                    (turn + dtype as usize) % 2 == 0,
                );
            }
        }
    }
}

#[test]
fn border_rules_agree() {
    let _cuda = Cuda::take();
    let cases = [
        // A middle and a rim, a rim alone, padding beyond the length, single samples, cropped and far apart.
        Case { shape: &[2, 3, 17, 19], taps: (4, 4), up: (1, 1), down: (1, 1), pad: (2, 1, 1, 2) },
        Case { shape: &[1, 8, 20, 33], taps: (3, 4), up: (2, 2), down: (1, 1), pad: (2, 1, 2, 2) },
        Case { shape: &[1, 2, 24, 20], taps: (4, 4), up: (1, 1), down: (2, 2), pad: (1, 2, 2, 1) },
        Case { shape: &[2, 2, 5, 4], taps: (12, 12), up: (2, 2), down: (1, 2), pad: (6, 9, 7, 6) },
        Case { shape: &[2, 3, 2], taps: (1, 2), up: (1, 3), down: (1, 1), pad: (9, 11, 8, 7) },
        Case { shape: &[2, 1, 1], taps: (2, 2), up: (1, 1), down: (1, 2), pad: (3, 4, 5, 2) },
        Case { shape: &[3, 9, 11], taps: (4, 4), up: (1, 1), down: (1, 1), pad: (0, 3, 3, 0) },
        Case { shape: &[2, 6, 7], taps: (1, 2), up: (1, 1), down: (5, 3), pad: (12, 9, 4, 8) },
    ];
    for (turn, case) in cases.iter().enumerate() {
        for (rule, border) in ["edge", "reflect", "symmetric", "wrap"].into_iter().enumerate() {
            for dtype in DType::ALL {
                for layout in [Layout::RowMajor, Layout::ChannelsLast, Layout::Sliced] {
                    // Every case and rule meets every type and layout; half of the combinations stand for all.
                    if (turn + rule + dtype as usize + layout as usize) % 2 == 0 {
                        continue;
                    }
                    let forms = ((turn + layout as usize) % 2 == 0, (turn + dtype as usize) % 2 == 0);
                    check_with_border(case, dtype, layout, forms, border);
                }
            }
        }
    }
}

#[test]
fn kernels_larger_than_any_window_agree() {
    let _cuda = Cuda::take();
    let (x, k) = (pair(&[1, 1, 122, 124], Layout::RowMajor, DType::Float32, 1), taps(121, 123, false, DType::Float32));
    let terms = (121 * 123) as f64;
    let forward = both("UpFirDn2d", &[Some(x.clone()), Some(k.clone())], &[]);
    assert_near("UpFirDn2d", &forward[0], DType::Float32, terms.min(300.0), 4.0 * terms / 300.0);
    let dy = pair(&[1, 1, 2, 2], Layout::RowMajor, DType::Float32, 5);
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
                let result = |layout: Layout| {
                    let x = pair(&shape, layout, dtype, 1)[1].clone();
                    let same = copy(&x, Device::Cpu).unwrap().to_f64_vec().unwrap();
                    let row_major = copy(&tensor(&shape, &same, dtype), GPU).unwrap();
                    let [a, b] = [&x, &row_major].map(|x| run("UpFirDn2d", &[Some(x), Some(k)], &args).remove(0));
                    [a, b].map(|y| copy(&y, Device::Cpu).unwrap().to_f64_vec().unwrap())
                };
                for layout in LAYOUTS {
                    let [a, b] = result(layout);
                    assert_bits(&format!("{dtype} {layout:?} {separable} {up} {down}"), &(dtype, b, a));
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
    for layout in [Layout::RowMajor, Layout::ChannelsLast, Layout::Sliced] {
        let [host, x] = pair(&[1, 8, 6, 7], layout, DType::Float32, 1);
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
                assert!(same_bits(*a, *b) || (a - b).abs() < 1e-4, "{layout:?} up {up}: element {index}: {b}, not {a}");
            }
            assert!(expected.iter().any(|value| value.is_infinite()) && expected.iter().any(|value| value.is_finite()));
        }
    }
}
