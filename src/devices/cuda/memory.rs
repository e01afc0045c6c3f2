//! Memory of a device: for tensors, and for the moment of one call. Ordered by a stream where the device has pools.

use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{DriverError, result};

use crate::core::device::{Device, Stream};
use crate::core::error::{Error, Result};
use crate::core::shape::{Strides, may_self_overlap};
use crate::core::tensor::{Storage, Tensor, TensorType};
use crate::devices::cuda::context::{Context, context, handle};
use crate::devices::cuda::map;
use crate::devices::{self, cpu};

/// Memory that this crate allocated; freed when dropped, in the order of its stream.
pub struct Memory {
    context: &'static Context,
    address: u64,
    bytes: usize,
    stream: Stream,
}

impl Memory {
    /// Uninitialised memory, usable by work put on `stream` from now on.
    pub fn new(context: &'static Context, bytes: usize, stream: Stream) -> Result<Self> {
        let allocate = |size: usize| {
            let call = || {
                // SAFETY: asks for memory of the current context; the stream is the default one or kept by its owner.
                let address = unsafe {
                    match context.pools {
                        true => result::malloc_async(handle(stream), size),
                        false => result::malloc_sync(size),
                    }
                };
                match address {
                    Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Ok(None),
                    other => other.map(Some),
                }
            };
            context.with(&format!("allocating {size} bytes"), call)
        };
        // An allocation of nothing is refused by the driver, and every tensor has an address.
        let address = allocate(bytes.max(1))?;
        let address = address.ok_or_else(|| Error::OutOfMemory { device: context.device().to_string(), bytes })?;
        Ok(Memory { context, address, bytes, stream })
    }

    /// The first byte's address on the device.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // An error here is one of earlier work, which its own caller is told, or of a process that is ending.
        // SAFETY: `new` allocated this address and nobody else frees it; work that uses it was put on the same stream.
        let _ = self.context.with("freeing memory", || unsafe {
            match self.context.pools {
                true => result::free_async(self.address, handle(self.stream)),
                false => result::free_sync(self.address),
            }
        });
    }
}

impl Storage for Memory {
    fn pointer(&self) -> *mut u8 {
        self.address as *mut u8
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn device(&self) -> Device {
        self.context.device()
    }
}

/// Uninitialised memory for a dense tensor with these strides.
pub fn allocate(ordinal: u32, kind: TensorType, strides: Strides) -> Result<Tensor> {
    let memory = Memory::new(context(ordinal)?, kind.bytes(), Stream::default())?;
    Tensor::from_storage(Arc::new(memory), 0, kind, strides)
}

/// Whether the elements fill their memory from the first to the last, in whatever order.
fn is_dense(kind: &TensorType, strides: &[isize]) -> bool {
    let reach = kind.shape.iter().zip(strides).map(|(&n, &stride)| (n as isize - 1) * stride).sum::<isize>();
    !kind.shape.contains(&0)
        && strides.iter().zip(kind.shape.iter()).all(|(&stride, &n)| n == 1 || stride > 0)
        && !may_self_overlap(&kind.shape, strides, kind.dtype.size())
        && reach as usize + kind.dtype.size() == kind.bytes()
}

/// A copy from or to a device's memory. Dense tensors keep their memory order; others come out row-major.
pub fn copy(tensor: &Tensor, device: Device) -> Result<Tensor> {
    let kind = tensor.kind().clone();
    let dense = is_dense(&kind, tensor.strides());
    let strides = if dense { tensor.strides().clone() } else { kind.shape.row_major_strides(kind.dtype) };
    match (tensor.device(), device) {
        (Device::Cpu, Device::Cpu) => devices::copy(tensor, device),
        (Device::Cpu, Device::Cuda(ordinal)) => {
            // Memory of the other device is asked for first: where there is none, its reason is the answer.
            let target = allocate(ordinal, kind.clone(), strides.clone())?;
            let gathered = if dense { tensor.clone() } else { gather(tensor, strides)? };
            upload(&gathered, target, ordinal)
        }
        (Device::Cuda(ordinal), Device::Cpu) => {
            let gathered = if dense { tensor.clone() } else { on_device(tensor, strides, ordinal)? };
            download(&gathered, ordinal)
        }
        (Device::Cuda(from), Device::Cuda(to)) if from == to => on_device(tensor, strides, from),
        (Device::Cuda(_), Device::Cuda(_)) => copy(&copy(tensor, Device::Cpu)?, device),
    }
}

fn gather(tensor: &Tensor, strides: Strides) -> Result<Tensor> {
    let mut gathered = cpu::memory::allocate(tensor.kind().clone(), strides)?;
    let target = gathered.view_mut().expect("new memory has one owner");
    cpu::assign::assign(&target, &tensor.view())?;
    drop(target);
    Ok(gathered)
}

/// Host to device, waited for: the host's memory may be freed as soon as this returns.
fn upload(from: &Tensor, to: Tensor, ordinal: u32) -> Result<Tensor> {
    let bytes = from.kind().bytes();
    if bytes > 0 {
        let context = context(ordinal)?;
        let (source, target) = (from.view(), to.view());
        // SAFETY: a dense tensor's elements fill `bytes` bytes from its first element, on either side.
        let source = unsafe { std::slice::from_raw_parts(source.pointer.cast_const(), bytes) };
        context.with("copying to the device", || unsafe {
            // SAFETY: the target was just allocated with that many bytes, on the default stream.
            result::memcpy_htod_async(target.pointer as u64, source, handle(Stream::default()))
        })?;
        context.synchronize(Stream::default())?;
    }
    Ok(to)
}

fn download(from: &Tensor, ordinal: u32) -> Result<Tensor> {
    let kind = from.kind().clone();
    let bytes = kind.bytes();
    let to = cpu::memory::allocate(kind, from.strides().clone())?;
    if bytes > 0 {
        let context = context(ordinal)?;
        let source = from.view();
        // SAFETY: the target was just allocated with that many bytes; they are only written through this slice.
        let target = unsafe { std::slice::from_raw_parts_mut(to.view().pointer, bytes) };
        context.with("copying from the device", || unsafe {
            // SAFETY: the source is dense, so its elements fill `bytes` bytes; its storage outlives the wait below.
            result::memcpy_dtoh_async(target, source.pointer as u64, handle(Stream::default()))
        })?;
        context.synchronize(Stream::default())?;
    }
    Ok(to)
}

fn on_device(tensor: &Tensor, strides: Strides, ordinal: u32) -> Result<Tensor> {
    let copied = allocate(ordinal, tensor.kind().clone(), strides)?;
    map::copy(context(ordinal)?, &copied.view(), &tensor.view(), Stream::default())?;
    Ok(copied)
}
