//! Kernels beside memory that must not be touched: each tensor starts or ends at an unmapped page.
#![cfg(unix)]

use std::num::NonZeroUsize;

use firelu::devices::cpu::memory::caches;
use firelu::{ArgValue, DType, Tensor, registry};
use firelu_test_support::guarded::{Side, guarded};
use firelu_test_support::layouts::Layout;
use firelu_test_support::levels::every_level;
use firelu_test_support::numbers::Numbers;
use firelu_test_support::run::run_into;
use firelu_test_support::tensors::write;

/// A dense tensor of random numbers at the lower or the upper end of guarded pages.
fn random(dtype: DType, shape: &[usize], side: Side, numbers: &mut Numbers) -> Tensor {
    let mut tensor = guarded(dtype, shape, Layout::RowMajor, side);
    write(&mut tensor, &numbers.list(shape.iter().product(), Numbers::next_number));
    tensor
}

/// The bytes of a dense tensor as they lie.
fn dense_bytes(tensor: &Tensor) -> &[u8] {
    assert!(tensor.view().is_row_major());
    // SAFETY: a dense tensor's elements fill that many bytes from its first on, and outlive the borrow.
    unsafe { std::slice::from_raw_parts(tensor.view().pointer, tensor.kind().bytes()) }
}

/// Runs an operator on guarded tensors, and compares the bits with those of tensors at the other end.
fn check(name: &str, dtype: DType, shapes: &[&[usize]], args: &[(&str, ArgValue)], side: Side) {
    let tensors = |side: Side| -> Vec<Tensor> {
        let mut numbers = Numbers::new(17);
        shapes.iter().map(|shape| random(dtype, shape, side, &mut numbers)).collect()
    };
    let other = if side == Side::Start { Side::End } else { Side::Start };
    let (inputs, copies) = (tensors(side), tensors(other));
    let borrowed: Vec<Option<&Tensor>> = copies.iter().map(Some).collect();
    let expected = registry::run(name, &borrowed, args.iter().cloned()).unwrap();
    let mut numbers = Numbers::new(18);
    let mut outputs: Vec<Tensor> =
        expected.iter().map(|tensor| random(tensor.dtype(), tensor.shape(), side, &mut numbers)).collect();
    let borrowed: Vec<Option<&Tensor>> = inputs.iter().map(Some).collect();
    let mut targets: Vec<Option<&mut Tensor>> = outputs.iter_mut().map(Some).collect();
    run_into(name, &borrowed, &mut targets, args).unwrap();
    for (got, expected) in outputs.iter().zip(&expected) {
        assert!(dense_bytes(got) == dense_bytes(expected), "{name} {dtype} {shapes:?}");
    }
}

#[test]
fn no_kernel_leaves_its_buffers() {
    let axis = |axis: i64| [("axis", ArgValue::Int(axis))];
    for _ in every_level() {
        for dtype in DType::ALL {
            for side in [Side::Start, Side::End] {
                for n in (0..=67).chain([127, 128, 129, 513]) {
                    let flat: &[usize] = &[n];
                    check("LeakyRelu", dtype, &[flat], &[], side);
                    check("LeakyReluGradient", dtype, &[flat, flat], &[], side);
                    check("Sum", dtype, &[flat, flat, flat], &[], side);
                    check("Mul", dtype, &[flat, &[]], &[], side);
                    check("ReduceSum", dtype, &[flat], &[], side);
                    let rows: &[usize] = &[3, n];
                    check("FusedLeakyRelu", dtype, &[rows, &[3]], &axis(0), side);
                    check("FusedLeakyRelu", dtype, &[rows, &[n]], &axis(1), side);
                    check("FusedLeakyRelu", dtype, &[&[9, n], &[n]], &axis(1), side);
                    check("FusedLeakyReluGradient", dtype, &[rows, rows, &[3]], &axis(0), side);
                    check("FusedLeakyReluGradient", dtype, &[rows, rows, &[n]], &axis(1), side);
                    check("ReduceSum", dtype, &[rows], &[("axes", ArgValue::Ints(vec![0]))], side);
                }
            }
        }
    }
}

#[test]
fn no_streaming_kernel_leaves_its_buffers() {
    caches::pin(NonZeroUsize::new(1 << 20));
    for dtype in DType::ALL {
        for side in [Side::Start, Side::End] {
            let n = caches::threshold().bytes / dtype.size() / 2 + 13;
            check("LeakyRelu", dtype, &[&[n]], &[], side);
            let rows: &[usize] = &[2, n / 2];
            check("FusedLeakyRelu", dtype, &[rows, &[2]], &[("axis", ArgValue::Int(0))], side);
            check("FusedLeakyReluGradient", dtype, &[rows, rows], &[("axis", ArgValue::Int(0))], side);
        }
    }
}
