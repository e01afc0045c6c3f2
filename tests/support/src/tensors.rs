//! Tensors of given or random numbers, in any layout, on the heap.

use std::sync::Arc;

use firelu::core::dtype::Compute;
use firelu::core::tensor::Storage;
use firelu::{DType, Device, Element, Tensor, TensorType, with_element};

use crate::layouts::{Layout, Placement};
use crate::numbers::Numbers;

/// Memory on the heap, in words that align every element type.
struct Heap(Vec<u64>);

impl Storage for Heap {
    fn pointer(&self) -> *mut u8 {
        self.0.as_ptr() as *mut u8
    }
    fn bytes(&self) -> usize {
        self.0.len() * 8
    }
    fn device(&self) -> Device {
        Device::Cpu
    }
}

/// A tensor of random numbers; its values follow from the numbers alone where nothing is repeated.
pub fn random(dtype: DType, shape: &[usize], layout: Layout, numbers: &mut Numbers) -> Tensor {
    let values = numbers.list(shape.iter().product(), Numbers::next_number);
    place(dtype, shape, layout, &values, numbers)
}

/// A tensor with these row-major values; where a dimension is repeated, the last repetition's value holds. What lies
/// between the elements is not a number, which would show in any result that it reached.
pub fn place(dtype: DType, shape: &[usize], layout: Layout, values: &[f64], numbers: &mut Numbers) -> Tensor {
    let Placement { strides, first, bytes } = layout.placement(shape, dtype, numbers);
    let memory = Heap(vec![u64::MAX; bytes.div_ceil(8)]);
    let mut tensor = Tensor::from_storage(Arc::new(memory), first, TensorType::new(shape, dtype), strides).unwrap();
    write(&mut tensor, values);
    tensor
}

/// Writes row-major values, rounded to the type, to a tensor that nobody shares.
pub fn write(tensor: &mut Tensor, values: &[f64]) {
    let target = tensor.view_mut().expect("nobody shares the tensor");
    assert_eq!(target.shape().elements(), values.len());
    let (mut index, mut offset) = (vec![0; target.shape().len()], 0);
    with_element!(target.dtype(), T => for &value in values {
        let value = T::from_compute(<T as Element>::Compute::from_f64(value));
        // SAFETY: the offset is that of an element, and the view is the only one.
        unsafe { target.pointer.offset(offset).cast::<T>().write_unaligned(value) };
        for ((i, &length), &stride) in index.iter_mut().zip(target.shape().iter()).zip(&target.strides).rev() {
            *i += 1;
            offset += stride;
            if *i < length {
                break;
            }
            offset -= length as isize * stride;
            *i = 0;
        }
    });
}

/// The bytes of the elements in row-major order.
pub fn bits(tensor: &Tensor) -> Vec<u8> {
    with_element!(tensor.dtype(), T => {
        let values = tensor.to_vec::<T>().unwrap();
        // SAFETY: the four element types are plain numbers without padding.
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values.as_slice())) }.to_vec()
    })
}
