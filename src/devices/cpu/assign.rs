//! Copies the elements of one tensor to the places of another, bit by bit.

use crate::walk::Walk;
use firelu_core::error::Result;
use firelu_core::tensor::{TensorView, TensorViewMut};

/// Copies every element. Both have the same shape and element type, and share no memory.
pub fn assign(target: &TensorViewMut<'_>, source: &TensorView<'_>) -> Result<()> {
    let size = target.dtype().size();
    let walk =
        Walk::new(target.shape(), (target.pointer, target.strides.clone()), [(source.pointer, source.strides.clone())]);
    let (to_step, [from_step]) = walk.run_strides();
    let dense = to_step == size as isize && from_step == size as isize;
    let run = |to: *mut u8, [from]: [*mut u8; 1], count: usize| {
        // SAFETY: the views promise every element of the walk, and an output shares memory with nothing.
        unsafe {
            match size {
                _ if dense || count == 1 => std::ptr::copy_nonoverlapping(from, to, count * size),
                2 => strided::<u16>(to, to_step, from, from_step, count),
                4 => strided::<u32>(to, to_step, from, from_step, count),
                _ => strided::<u64>(to, to_step, from, from_step, count),
            }
        }
    };
    // SAFETY: as above; runs are of different elements.
    unsafe { walk.for_each_run(2 * size, run, || {}) }
}

/// # Safety
/// `count` elements must be readable and writable at the given strides.
unsafe fn strided<T: Copy>(to: *mut u8, to_step: isize, from: *const u8, from_step: isize, count: usize) {
    for i in 0..count as isize {
        // SAFETY: the caller's promise; elements may be unaligned.
        unsafe {
            let value = from.offset(i * from_step).cast::<T>().read_unaligned();
            to.offset(i * to_step).cast::<T>().write_unaligned(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::assign;
    use crate::memory::allocate;
    use firelu_core::dtype::DType;
    use firelu_core::shape::Strides;
    use firelu_core::tensor::{Tensor, TensorType};

    #[test]
    fn strided_and_broadcast_tensors_are_copied() {
        let values: Vec<f32> = (0..24).map(|value| value as f32).collect();
        let whole = Tensor::from_vec([24], values).unwrap();
        for (shape, strides) in [([2, 3, 4], [48, 16, 4]), ([4, 3, 2], [4, 16, 48]), ([2, 2, 3], [0, -8, 16])] {
            let offset = 16;
            let kind = TensorType::new(shape, DType::Float32);
            let end = if strides[0] == 48 || strides[2] == 48 { 0 } else { offset };
            let view = Tensor::from_storage(whole.storage().clone(), end, kind, Strides::from_slice(&strides)).unwrap();
            let strides = view.shape().strides_like(view.strides(), view.dtype());
            let mut copied = allocate(view.kind().clone(), strides).unwrap();
            assign(&copied.view_mut().unwrap(), &view.view()).unwrap();
            assert_eq!(copied.to_vec::<f32>().unwrap(), view.to_vec::<f32>().unwrap());
        }
    }
}
