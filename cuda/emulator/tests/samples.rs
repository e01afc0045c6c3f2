//! The compiled sample kernels, from the toolchain of the product and from the newest one, against the same formulas
//! in Rust.

mod common;

use common::{Emulator, Kernel};
use cudarc::driver::{LaunchConfig, PushKernelArg};
use half::{bf16, f16};

const TOOLCHAINS: [[&str; 2]; 2] = [
    [include_str!("kernels/elementwise.ptx"), include_str!("kernels/arithmetic.ptx")],
    [include_str!("kernels/elementwise_cuda13.ptx"), include_str!("kernels/arithmetic_cuda13.ptx")],
];

fn emulator() -> Emulator {
    Emulator::with(&[("DRIVER_VERSION", "13000")])
}

fn shape(elements: usize) -> LaunchConfig {
    LaunchConfig { grid_dim: (elements.div_ceil(128) as u32, 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 0 }
}

/// Runs `name(input, output, length, slope)` over 16-bit patterns.
fn run_sixteen_bits(ptx: &str, name: &str, input: &[u16], slope: f32) -> Vec<u16> {
    let kernel = Kernel::load(ptx, name);
    let source = kernel.stream.clone_htod(input).expect("copy");
    let mut target = kernel.stream.alloc_zeros::<u16>(input.len()).expect("allocation");
    // SAFETY: the arguments are what the kernel declares.
    unsafe {
        kernel
            .stream
            .launch_builder(&kernel.function)
            .arg(&source)
            .arg(&mut target)
            .arg(&(input.len() as i64))
            .arg(&slope)
            .launch(shape(input.len()))
    }
    .expect("launch");
    let output = kernel.stream.clone_dtoh(&target).expect("copy");
    kernel.stream.synchronize().expect("wait");
    output
}

#[test]
fn every_half_and_every_bfloat_goes_through_the_kernels() {
    let emulator = emulator();
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let leaky = |x: f32| if x > 0.0 { x } else { x * 0.2 };
    for [elementwise, _] in TOOLCHAINS {
        let halves = run_sixteen_bits(elementwise, "leaky_f16", &all, 0.2);
        let bfloats = run_sixteen_bits(elementwise, "leaky_bf16", &all, 0.2);
        for &bits in &all {
            let (half, bfloat) = (f16::from_bits(bits), bf16::from_bits(bits));
            let found = f16::from_bits(halves[usize::from(bits)]);
            let expected = f16::from_f32(leaky(half.to_f32()));
            assert!(found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()), "half {bits:#x}");
            let found = bf16::from_bits(bfloats[usize::from(bits)]);
            let expected = bf16::from_f32(leaky(bfloat.to_f32()));
            assert!(found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()), "bfloat {bits:#x}");
        }
    }
    assert_eq!(emulator.reports(), [""; 0]);
}

#[test]
fn doubles_with_64_bit_division_of_the_index() {
    let emulator = emulator();
    let (inner, channels, length) = (7i32, 3i32, 1000usize);
    let input: Vec<f64> = (0..length).map(|i| (i as f64 - 500.0) * 0.37).collect();
    let bias = [0.125f64, -3.5, 1e-3];
    for [elementwise, _] in TOOLCHAINS {
        let kernel = Kernel::load(elementwise, "bias_f64");
        let source = kernel.stream.clone_htod(&input).expect("copy");
        let biases = kernel.stream.clone_htod(&bias).expect("copy");
        let mut target = kernel.stream.alloc_zeros::<f64>(length).expect("allocation");
        // SAFETY: the arguments are what the kernel declares.
        unsafe {
            kernel
                .stream
                .launch_builder(&kernel.function)
                .arg(&source)
                .arg(&biases)
                .arg(&mut target)
                .arg(&(length as i64))
                .arg(&inner)
                .arg(&channels)
                .arg(&0.2f64)
                .arg(&1.5f64)
                .launch(shape(length))
        }
        .expect("launch");
        let output = kernel.stream.clone_dtoh(&target).expect("copy");
        kernel.stream.synchronize().expect("wait");
        for (i, &found) in output.iter().enumerate() {
            let x = input[i] + bias[i / inner as usize % channels as usize];
            assert_eq!(found, (if x > 0.0 { x } else { x * 0.2 }) * 1.5, "element {i}");
        }
    }
    assert_eq!(emulator.reports(), [""; 0]);
}

#[test]
fn integer_arithmetic_of_a_compiled_kernel() {
    let emulator = emulator();
    let a: Vec<i32> = (0..500).map(|i: i32| i.wrapping_mul(0x3c6e_f35f).wrapping_sub(77)).collect();
    let b: Vec<i32> = (0..500).map(|i: i32| i.wrapping_mul(0x19d6_99a5) >> (i % 20) | 1).collect();
    for [_, arithmetic] in TOOLCHAINS {
        let kernel = Kernel::load(arithmetic, "integers");
        let (left, right) = (kernel.stream.clone_htod(&a).expect("copy"), kernel.stream.clone_htod(&b).expect("copy"));
        let mut target = kernel.stream.alloc_zeros::<i64>(500 * 16).expect("allocation");
        // SAFETY: the arguments are what the kernel declares.
        unsafe {
            let mut launch = kernel.stream.launch_builder(&kernel.function);
            launch.arg(&left).arg(&right).arg(&mut target).arg(&500i32).launch(shape(500))
        }
        .expect("launch");
        let output = kernel.stream.clone_dtoh(&target).expect("copy");
        kernel.stream.synchronize().expect("wait");
        for i in 0..500 {
            let (x, y) = (a[i], b[i]);
            let (ux, uy) = (x as u32, y as u32);
            let bytes = (u64::from(uy) << 32 | u64::from(ux)).to_le_bytes();
            let permuted = u32::from_le_bytes([bytes[5], bytes[1], bytes[7], bytes[3]]);
            let shift = uy & 31;
            let expected = [
                i64::from(x / y),
                i64::from(x % y),
                i64::from(ux / uy),
                i64::from(ux % uy),
                i64::from(x) / i64::from(y),
                (u64::from(ux) * u64::from(uy)) as i64,
                (i64::from(x) * i64::from(y)) >> 32,
                ((u64::from(ux) * u64::from(uy)) >> 32) as i64,
                i64::from(x.min(y)),
                i64::from(ux.max(uy)),
                i64::from(x.wrapping_abs()),
                i64::from(permuted),
                i64::from((((u64::from(uy) << 32 | u64::from(ux)) << (x & 31)) >> 32) as u32),
                i64::from((x >> shift) as u32 ^ (ux << shift)),
                i64::from(ux.count_ones() + 100 * uy.leading_zeros()),
                ((((i128::from(x) << 20) * (i128::from(y) << 25)) >> 64) as i64)
                    .wrapping_add(i64::from(ux.reverse_bits())),
            ];
            assert_eq!(output[i * 16..i * 16 + 16], expected, "{x} and {y}");
        }
    }
    assert_eq!(emulator.reports(), [""; 0]);
}

#[test]
fn float_arithmetic_of_a_compiled_kernel() {
    let emulator = emulator();
    let special = [0.0, -0.0, 1.0, -1.5, 2.5, 1e-40, -3.4e38, 1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.1];
    let pairs: Vec<(f32, f32)> = special.iter().flat_map(|&x| special.iter().map(move |&y| (x, y))).collect();
    let (a, b): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
    let count = pairs.len();
    for [_, arithmetic] in TOOLCHAINS {
        let kernel = Kernel::load(arithmetic, "floats");
        let (left, right) = (kernel.stream.clone_htod(&a).expect("copy"), kernel.stream.clone_htod(&b).expect("copy"));
        let mut target = kernel.stream.alloc_zeros::<f32>(count * 16).expect("allocation");
        // SAFETY: the arguments are what the kernel declares.
        unsafe {
            let mut launch = kernel.stream.launch_builder(&kernel.function);
            launch.arg(&left).arg(&right).arg(&mut target).arg(&(count as i32)).launch(shape(count))
        }
        .expect("launch");
        let output = kernel.stream.clone_dtoh(&target).expect("copy");
        kernel.stream.synchronize().expect("wait");
        for (i, &(x, y)) in pairs.iter().enumerate() {
            let expected = [
                x / y,
                x.abs().sqrt(),
                x.mul_add(y, x),
                if y.is_nan() || x < y || (x == y && x.is_sign_negative()) { x } else { y },
                if y.is_nan() || x > y || (x == y && x.is_sign_positive()) { x } else { y },
                x.floor(),
                x.ceil(),
                x.trunc(),
                x.round_ties_even(),
                x as i32 as f32,
                y.abs() as u32 as f32,
                (f64::from(x) * f64::from(y)) as f32,
                x as i64 as f32,
                1.0 / y,
                if x.is_nan() { 1.0 } else { -x },
                if x > 0.0 { x.min(1.0) } else { 0.0 },
            ];
            for (slot, (&found, wanted)) in output[i * 16..].iter().zip(expected).enumerate() {
                let same = found.to_bits() == wanted.to_bits() || (found.is_nan() && wanted.is_nan());
                assert!(same, "formula {slot} of {x} and {y}: {found}, not {wanted}");
            }
        }
    }
    assert_eq!(emulator.reports(), [""; 0]);
}
