//! Memory and streams that belong to others.

use std::any::Any;
use std::sync::{Arc, PoisonError};

use cudarc::driver::sys;

use crate::core::device::{Device, Stream};
use crate::core::error::{Error, Result};
use crate::core::shape::{Strides, extent};
use crate::core::tensor::{Storage, Tensor, TensorType};
use crate::devices::cuda::calls::Answer;
use crate::devices::cuda::context::{Context, Event, handle};
use crate::devices::cuda::{available, calls, driver_error};

/// Foreign memory: its owner is kept alive, and only the owner frees it.
struct External {
    _owner: Box<dyn Any + Send + Sync>,
    address: u64,
    bytes: usize,
    ordinal: u32,
}

impl Storage for External {
    fn pointer(&self) -> *mut u8 {
        self.address as *mut u8
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn device(&self) -> Device {
        Device::Cuda(self.ordinal)
    }
}

/// A tensor over memory that `owner` keeps alive.
///
/// # Safety
/// `address` must be the tensor's first element, in memory of the device that holds every element that `kind` and
/// `strides` describe, and stays allocated while `owner` lives.
pub unsafe fn tensor(
    ordinal: u32,
    address: u64,
    kind: TensorType,
    strides: Strides,
    owner: Box<dyn Any + Send + Sync>,
) -> Result<Tensor> {
    let size = kind.dtype.size();
    let refuse = |what: &str, got: String, takes: &str| Err(Error::argument("Tensor", what, got, takes));
    if kind.shape.checked_elements(kind.dtype).is_none() {
        return refuse("shape", kind.to_string(), "a size below 2^63 bytes");
    }
    if address % size as u64 != 0 && !kind.shape.contains(&0) {
        return refuse("data", format!("the address {address:#x}"), "one that is a multiple of the element size");
    }
    if strides.len() != kind.shape.len() || strides.iter().any(|stride| stride % size as isize != 0) {
        return refuse(
            "strides",
            format!("{strides:?} bytes for {kind}"),
            "one multiple of the element size a dimension",
        );
    }
    let Some((low, high)) = extent(&kind.shape, &strides, size) else {
        return refuse("strides", format!("{strides:?}"), "elements within the address space");
    };
    let storage = External {
        _owner: owner,
        address: address.wrapping_add_signed(low as i64),
        bytes: (high - low) as usize,
        ordinal,
    };
    Tensor::from_storage(Arc::new(storage), low.unsigned_abs(), kind, strides)
}

/// The device that an address belongs to.
pub fn device_of(address: u64) -> Result<u32> {
    available::require(0)?;
    let mut ordinal = 0i32;
    // SAFETY: the driver writes one integer to the place given, and takes any address.
    unsafe { calls::cuPointerGetAttribute((&raw mut ordinal).cast(), calls::DEVICE_ORDINAL, address) }
        .map_err(|failed| driver_error(0, &format!("asking whose memory {address:#x} is"), failed))?;
    u32::try_from(ordinal).map_err(|_| Error::Device {
        device: "cuda".into(),
        reason: format!("the address {address:#x} is not memory of a CUDA device"),
    })
}

/// Makes `later` wait for everything put on `earlier` so far; nothing waits on the host.
///
/// # Safety
/// Both must be streams of this context's device that live through the call.
pub unsafe fn order(context: &Context, earlier: Stream, later: Stream) -> Result<()> {
    if earlier == later {
        return Ok(());
    }
    // A stream waits for what the event meant when it was told to, so one event serves all, one after the other.
    let mut event = context.event.lock().unwrap_or_else(PoisonError::into_inner);
    context.with("ordering two streams", || {
        let event = made(&mut event)?;
        // SAFETY: the event was made in this context and is never destroyed; the streams are the caller's promise.
        unsafe {
            calls::cuEventRecord(event, handle(earlier))?;
            calls::cuStreamWaitEvent(handle(later), event, 0)
        }
    })
}

/// The event of a context that is current, made on first use.
pub(super) fn made(event: &mut Option<Event>) -> Answer<sys::CUevent> {
    if let Some(Event(event)) = *event {
        return Ok(event);
    }
    let mut new = std::ptr::null_mut();
    // SAFETY: the driver writes one handle to the address.
    unsafe { calls::cuEventCreate(&mut new, calls::WITHOUT_TIMING) }?;
    *event = Some(Event(new));
    Ok(new)
}
