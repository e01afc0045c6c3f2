//! Kernels beside memory that must not be touched: each tensor starts or ends at an unmapped page.
#![cfg(unix)]

mod support;

use std::sync::Arc;

use firelu::core::tensor::Storage;
use firelu::devices::cpu::features::last_level_cache;
use firelu::{ArgValue, DType, Device, Element, Shape, Tensor, TensorType, registry, with_element};
use support::*;

/// Pages between two that may not be touched.
struct Guarded {
    base: *mut u8,
    bytes: usize,
    page: usize,
}

// SAFETY: the mapping is owned, and only its address is shared.
unsafe impl Send for Guarded {}
// SAFETY: as above.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn new(bytes: usize) -> Self {
        // SAFETY: a fresh mapping touches nobody's memory; the two outer pages lie inside it.
        unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let bytes = bytes.next_multiple_of(page).max(page);
            let (all, flags) = (bytes + 2 * page, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let base = libc::mmap(std::ptr::null_mut(), all, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(base, page, libc::PROT_NONE), 0);
            assert_eq!(libc::mprotect(base.byte_add(page + bytes), page, libc::PROT_NONE), 0);
            Guarded { base: base.byte_add(page).cast(), bytes, page }
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `new` made, whose last owner this is.
        unsafe { libc::munmap(self.base.sub(self.page).cast(), self.bytes + 2 * self.page) };
    }
}

impl Storage for Guarded {
    fn pointer(&self) -> *mut u8 {
        self.base
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn device(&self) -> Device {
        Device::Cpu
    }
}

/// A dense tensor at the lower or the upper end of guarded pages.
fn guarded(dtype: DType, shape: &[usize], at_end: bool, numbers: &mut Numbers) -> Tensor {
    let kind = TensorType::new(shape, dtype);
    let storage = Guarded::new(kind.bytes());
    let offset = if at_end { storage.bytes - kind.bytes() } else { 0 };
    with_element!(dtype, T => for i in 0..kind.shape.elements() {
        let value = T::from_compute(firelu::core::dtype::Compute::from_f64(numbers.next_number()));
        // SAFETY: the tensor lies inside the pages.
        unsafe { storage.base.add(offset).cast::<T>().add(i).write_unaligned(value) };
    });
    let strides = Shape::from(shape).row_major_strides(dtype);
    Tensor::from_storage(Arc::new(storage), offset, kind, strides).unwrap()
}

/// The bytes of a dense tensor as they lie.
fn dense_bytes(tensor: &Tensor) -> &[u8] {
    assert!(tensor.view().is_row_major());
    // SAFETY: a dense tensor's elements fill that many bytes from its first on, and outlive the borrow.
    unsafe { std::slice::from_raw_parts(tensor.view().pointer, tensor.kind().bytes()) }
}

/// Runs an operator on guarded tensors, and compares the bits with those of tensors at the other end.
fn check(name: &str, dtype: DType, shapes: &[&[usize]], args: &[(&str, ArgValue)], at_end: bool) {
    let tensors = |at_end: bool| -> Vec<Tensor> {
        let mut numbers = Numbers::new(17);
        shapes.iter().map(|shape| guarded(dtype, shape, at_end, &mut numbers)).collect()
    };
    let (inputs, copies) = (tensors(at_end), tensors(!at_end));
    let borrowed: Vec<Option<&Tensor>> = copies.iter().map(Some).collect();
    let expected = registry::run(name, &borrowed, args.iter().cloned()).unwrap();
    let mut numbers = Numbers::new(18);
    let mut outputs: Vec<Tensor> =
        expected.iter().map(|tensor| guarded(tensor.dtype(), tensor.shape(), at_end, &mut numbers)).collect();
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
    for_each_level(|_| {
        for dtype in DType::ALL {
            for at_end in [false, true] {
                for n in (0..=67).chain([127, 128, 129, 513]) {
                    let flat: &[usize] = &[n];
                    check("LeakyRelu", dtype, &[flat], &[], at_end);
                    check("LeakyReluGradient", dtype, &[flat, flat], &[], at_end);
                    check("Sum", dtype, &[flat, flat, flat], &[], at_end);
                    check("Mul", dtype, &[flat, &[]], &[], at_end);
                    check("ReduceSum", dtype, &[flat], &[], at_end);
                    let rows: &[usize] = &[3, n];
                    check("FusedLeakyRelu", dtype, &[rows, &[3]], &axis(0), at_end);
                    check("FusedLeakyRelu", dtype, &[rows, &[n]], &axis(1), at_end);
                    check("FusedLeakyRelu", dtype, &[&[9, n], &[n]], &axis(1), at_end);
                    check("FusedLeakyReluGradient", dtype, &[rows, rows, &[3]], &axis(0), at_end);
                    check("FusedLeakyReluGradient", dtype, &[rows, rows, &[n]], &axis(1), at_end);
                    check("ReduceSum", dtype, &[rows], &[("axes", ArgValue::Ints(vec![0]))], at_end);
                }
            }
        }
    });
}

#[test]
fn no_streaming_kernel_leaves_its_buffers() {
    for dtype in DType::ALL {
        for at_end in [false, true] {
            let n = last_level_cache() / 4 * 3 / dtype.size() / 2 + 13;
            check("LeakyRelu", dtype, &[&[n]], &[], at_end);
            let rows: &[usize] = &[2, n / 2];
            check("FusedLeakyRelu", dtype, &[rows, &[2]], &[("axis", ArgValue::Int(0))], at_end);
            check("FusedLeakyReluGradient", dtype, &[rows, rows], &[("axis", ArgValue::Int(0))], at_end);
        }
    }
}
