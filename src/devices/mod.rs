//! Where kernels run: memory, threads and instruction sets of each device.

pub use firelu_cpu as cpu;
#[cfg(feature = "cuda")]
pub mod cuda;

use crate::core::device::Device;
#[cfg(not(feature = "cuda"))]
use crate::core::error::Error;
use crate::core::error::Result;
use crate::core::shape::Strides;
use crate::core::tensor::{Tensor, TensorType};
use crate::with_element;

/// A device that is current for the driver calls of one operator; the CPU needs no such thing.
#[derive(Default)]
pub struct Entered {
    #[cfg(feature = "cuda")]
    _context: Option<cuda::context::Entered>,
}

/// Makes a device current until the answer is dropped. No code of others may run meanwhile.
pub fn enter(device: Device) -> Result<Entered> {
    match device {
        Device::Cpu => Ok(Entered::default()),
        #[cfg(feature = "cuda")]
        Device::Cuda(ordinal) => Ok(Entered { _context: Some(cuda::context::context(ordinal)?.enter()?) }),
        #[cfg(not(feature = "cuda"))]
        Device::Cuda(_) => Ok(Entered::default()),
    }
}

/// Uninitialised memory for a dense tensor with these strides.
pub fn allocate(device: Device, kind: TensorType, strides: Strides) -> Result<Tensor> {
    match device {
        Device::Cpu => cpu::memory::allocate(kind, strides),
        #[cfg(feature = "cuda")]
        Device::Cuda(ordinal) => cuda::memory::allocate(ordinal, kind, strides),
        #[cfg(not(feature = "cuda"))]
        Device::Cuda(_) => {
            Err(Error::Device { device: device.to_string(), reason: "this build of firelu has no CUDA device".into() })
        }
    }
}

/// A copy in new memory of a device; dense tensors keep their memory order.
pub fn copy(tensor: &Tensor, device: Device) -> Result<Tensor> {
    match (tensor.device(), device) {
        (Device::Cpu, Device::Cpu) => {
            let strides = tensor.shape().strides_like(tensor.strides(), tensor.dtype());
            let mut copied = allocate(device, tensor.kind().clone(), strides)?;
            let target = copied.view_mut().expect("new memory has one owner");
            cpu::assign::assign(&target, &tensor.view())?;
            drop(target);
            Ok(copied)
        }
        #[cfg(feature = "cuda")]
        _ => cuda::memory::copy(tensor, device),
        #[cfg(not(feature = "cuda"))]
        (Device::Cpu, other) | (other, _) => {
            Err(Error::Device { device: other.to_string(), reason: "this build of firelu has no CUDA device".into() })
        }
    }
}

/// A row-major tensor with one value everywhere, written where it is: a device is not waited for.
pub fn filled(device: Device, kind: &TensorType, value: f64) -> Result<Tensor> {
    match device {
        Device::Cpu => filled_here(kind, value),
        #[cfg(feature = "cuda")]
        Device::Cuda(ordinal) => cuda::memory::filled(ordinal, kind, &filled_here(&one_of(kind), value)?),
        #[cfg(not(feature = "cuda"))]
        Device::Cuda(_) => allocate(device, kind.clone(), kind.shape.row_major_strides(kind.dtype)),
    }
}

/// A tensor of the same type on the same device that keeps no values: nothing may read it.
pub fn shape_only(tensor: &Tensor) -> Result<Tensor> {
    match tensor.device() {
        Device::Cpu => {
            let one = filled_here(&one_of(tensor.kind()), 0.0)?;
            let strides = tensor.shape().iter().map(|_| 0).collect();
            Tensor::from_storage(one.storage().clone(), 0, tensor.kind().clone(), strides)
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(ordinal) => cuda::memory::shape_only(ordinal, tensor.kind()),
        #[cfg(not(feature = "cuda"))]
        Device::Cuda(_) => allocate(tensor.device(), tensor.kind().clone(), tensor.strides().clone()),
    }
}

/// The type of one element alone.
fn one_of(kind: &TensorType) -> TensorType {
    TensorType::new([1], kind.dtype)
}

fn filled_here(kind: &TensorType, value: f64) -> Result<Tensor> {
    use crate::core::dtype::{Compute, Element};
    let tensor = with_element!(kind.dtype, T => {
        let value = T::from_compute(Compute::from_f64(value));
        Tensor::from_vec(kind.shape.clone(), cpu::memory::numbers(value, kind.shape.elements())?)
    })?;
    Ok(tensor)
}
