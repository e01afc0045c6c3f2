//! Where kernels run: memory, threads and instruction sets of each device.

pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;

use crate::core::device::Device;
#[cfg(not(feature = "cuda"))]
use crate::core::error::Error;
use crate::core::error::Result;
use crate::core::shape::Strides;
use crate::core::tensor::{Tensor, TensorType};

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
