//! Memory of a device: for tensors, and for the moment of one call. Ordered by a stream where the device has pools.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::core::device::{Device, Stream};
use crate::core::error::{Error, Result};
use crate::core::shape::{Strides, may_self_overlap};
use crate::core::tensor::{Storage, Tensor, TensorType};
use crate::devices::cuda::context::{Context, NotDone, context, handle};
use crate::devices::cuda::map::broadcast;
use crate::devices::cuda::{available, calls, copy, pool};
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
        // An allocation of nothing is refused by the driver, and every tensor has an address.
        let size = bytes.max(1);
        let memory = context.with(&format!("allocating {size} bytes"), || {
            match pool::allocate(context, size, stream) {
                Err(failed) if failed.code == calls::OUT_OF_MEMORY => Ok(None),
                // Owned before anything else can fail, so that nothing is left behind.
                address => address.map(|address| Some(Memory { context, address, bytes, stream })),
            }
        })?;
        memory.ok_or_else(|| Error::OutOfMemory { device: context.device().to_string(), bytes })
    }

    /// The first byte's address on the device.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // It is the parent's, which frees it.
        if available::lost_by_fork() {
            return;
        }
        let freed = self.context.with_current("freeing memory", || {
            let stream = handle(self.stream);
            // SAFETY: `new` allocated this address and nobody else frees it; work that uses it is on the same stream,
            // which is waited for where the driver cannot free in its order.
            unsafe {
                if self.context.pools {
                    return calls::cuMemFreeAsync(self.address, stream);
                }
                calls::cuStreamSynchronize(stream)?;
                calls::cuMemFree_v2(self.address)
            }
        });
        // Nobody can be told here: the next call to the device tells it, and tries again.
        if let Err(NotDone { error, ran }) = freed {
            self.context.leave_behind((!ran).then_some(self.address), error);
        }
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

/// A row-major tensor with the value of `one` everywhere, written by the device in the order of its stream.
pub fn filled(ordinal: u32, kind: &TensorType, one: &Tensor) -> Result<Tensor> {
    let tensor = allocate(ordinal, kind.clone(), kind.shape.row_major_strides(kind.dtype))?;
    let (count, size) = (kind.shape.elements(), kind.dtype.size());
    if count == 0 {
        return Ok(tensor);
    }
    // SAFETY: `one` is a tensor of the host with at least one element of this type.
    let element = unsafe { std::slice::from_raw_parts(one.view().pointer.cast_const(), size) };
    let context = context(ordinal)?;
    let address = tensor.view().pointer as u64;
    let words: SmallVec<[u32; 2]> =
        element.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect();
    match (element, words.as_slice()) {
        (&[low, high], _) => fill(context, address, Fill::Halves(u16::from_le_bytes([low, high])), count)?,
        (_, &[word]) => fill(context, address, Fill::Words(word), count)?,
        (_, &[low, high]) if low == high => fill(context, address, Fill::Words(low), 2 * count)?,
        (_, &[low, high]) if count == 1 => {
            fill(context, address, Fill::Words(low), 1)?;
            fill(context, address + 4, Fill::Words(high), 1)?;
        }
        // The driver has no fill of eight bytes: one element is filled, and read by all.
        _ => {
            let single = filled(ordinal, &TensorType::new([1], kind.dtype), one)?;
            copy::copy(context, &tensor.view(), &broadcast(&single.view(), &kind.shape), Stream::default())?;
        }
    }
    Ok(tensor)
}

/// What memory is filled with.
enum Fill {
    Halves(u16),
    Words(u32),
}

fn fill(context: &Context, address: u64, value: Fill, count: usize) -> Result<()> {
    context.with("filling memory", || {
        let stream = handle(Stream::default());
        // SAFETY: the caller has just allocated memory of so many values at this address, on the same stream.
        unsafe {
            match value {
                Fill::Halves(value) => calls::cuMemsetD16Async(address, value, count, stream),
                Fill::Words(value) => calls::cuMemsetD32Async(address, value, count, stream),
            }
        }
    })
}

/// What stands for memory where only the shape of a tensor counts.
struct Nowhere {
    ordinal: u32,
    bytes: usize,
}

impl Storage for Nowhere {
    fn pointer(&self) -> *mut u8 {
        std::ptr::dangling_mut::<u64>().cast()
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn device(&self) -> Device {
        Device::Cuda(self.ordinal)
    }
}

/// A tensor without memory: it lends its shape, and no kernel may look for its elements.
pub fn shape_only(ordinal: u32, kind: &TensorType) -> Result<Tensor> {
    let storage = Nowhere { ordinal, bytes: kind.dtype.size() };
    let strides = kind.shape.iter().map(|_| 0).collect();
    Tensor::from_storage(Arc::new(storage), 0, kind.clone(), strides)
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
        context.with("copying to the device", || {
            // SAFETY: the target was just allocated with that many bytes, on the default stream.
            unsafe { calls::cuMemcpyHtoD_v2(target.pointer as u64, source.as_ptr().cast(), bytes) }
        })?;
        // The call returns when the host's bytes are read; streams of others may use the tensor at once.
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
        context.with("copying from the device", || {
            // SAFETY: the source is dense, so its elements fill `bytes` bytes; the call returns when they are here.
            unsafe { calls::cuMemcpyDtoH_v2(target.as_mut_ptr().cast(), source.pointer as u64, bytes) }
        })?;
    }
    Ok(to)
}

fn on_device(tensor: &Tensor, strides: Strides, ordinal: u32) -> Result<Tensor> {
    let copied = allocate(ordinal, tensor.kind().clone(), strides)?;
    copy::copy(context(ordinal)?, &copied.view(), &tensor.view(), Stream::default())?;
    Ok(copied)
}
