//! One primary context a device, shared with every other CUDA library of the process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{result, sys};

use crate::core::device::{Device, Stream};
use crate::core::error::{Error, Result};
use crate::devices::cuda::modules::Modules;
use crate::devices::cuda::{available, driver_error};

/// A device that is ready for work.
pub struct Context {
    /// The device's number.
    pub ordinal: u32,
    /// Whether it has stream-ordered allocation.
    pub pools: bool,
    /// The kernels loaded so far.
    pub(super) modules: Modules,
    raw: sys::CUcontext,
    device: sys::CUdevice,
}

// SAFETY: a primary context's handle may be used from any thread; it is retained for the life of the process.
unsafe impl Send for Context {}
// SAFETY: as above; the table of modules has its own lock.
unsafe impl Sync for Context {}

/// What a device says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The vendor's name.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// Its memory in bytes.
    pub memory: usize,
}

/// The context of a device, made on first use and kept for the life of the process.
pub fn context(ordinal: u32) -> Result<&'static Context> {
    static CONTEXTS: Mutex<Option<HashMap<u32, &'static Context>>> = Mutex::new(None);
    let driver = available::require(ordinal)?;
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let contexts = contexts.get_or_insert_default();
    if let Some(context) = contexts.get(&ordinal) {
        return Ok(context);
    }
    let failed = |error| driver_error(ordinal, "opening the device", error);
    let device = result::device::get(ordinal as i32).map_err(failed)?;
    // SAFETY: the device was just obtained; the reference taken here is never released, so the handle stays valid.
    let raw = unsafe { result::primary_ctx::retain(device) }.map_err(failed)?;
    let attribute = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    // SAFETY: the device was just obtained. Drivers older than the attribute refuse it: then there are no pools.
    let pools = driver.pools && unsafe { result::device::get_attribute(device, attribute) }.unwrap_or(0) == 1;
    let context = Box::leak(Box::new(Context { ordinal, pools, modules: Modules::default(), raw, device }));
    contexts.insert(ordinal, context);
    Ok(context)
}

/// The context of a tensor's device.
pub fn context_of(device: Device) -> Result<&'static Context> {
    match device {
        Device::Cuda(ordinal) => context(ordinal),
        Device::Cpu => Err(Error::Device { device: device.to_string(), reason: "this is no CUDA device".into() }),
    }
}

impl Context {
    /// Runs driver calls with this context current, and gives the thread back the one it had: other libraries take the
    /// current context for their current device.
    pub fn with<R>(
        &self,
        doing: &str,
        calls: impl FnOnce() -> std::result::Result<R, cudarc::driver::DriverError>,
    ) -> Result<R> {
        let failed = |error| driver_error(self.ordinal, doing, error);
        let before = result::ctx::get_current().map_err(failed)?;
        let other = before != Some(self.raw);
        if other {
            // SAFETY: the handle is retained for the life of the process.
            unsafe { result::ctx::set_current(self.raw) }.map_err(failed)?;
        }
        let answer = calls();
        if other {
            // SAFETY: the handle was current on this thread a moment ago; null means none.
            unsafe { result::ctx::set_current(before.unwrap_or(std::ptr::null_mut())) }.map_err(failed)?;
        }
        answer.map_err(failed)
    }

    /// The device of this context.
    pub fn device(&self) -> Device {
        Device::Cuda(self.ordinal)
    }

    /// Waits until the stream has done everything put on it so far.
    pub fn synchronize(&self, stream: Stream) -> Result<()> {
        // SAFETY: the stream is the default one or one that its owner keeps alive for the call.
        self.with("waiting for the stream", || unsafe { result::stream::synchronize(handle(stream)) })
    }

    /// Name, capability and memory.
    pub fn describe(&self) -> Result<Description> {
        use sys::CUdevice_attribute_enum::{
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
        };
        self.with("asking the device", || {
            // SAFETY: the device handle is valid for the life of the process.
            let (major, minor, memory) = unsafe {
                (
                    result::device::get_attribute(self.device, MAJOR)?,
                    result::device::get_attribute(self.device, MINOR)?,
                    result::device::total_mem(self.device)?,
                )
            };
            Ok(Description { name: result::device::get_name(self.device)?, capability: (major, minor), memory })
        })
    }
}

/// The driver's form of a stream; 0 is the default stream.
pub(super) fn handle(stream: Stream) -> sys::CUstream {
    stream.0 as sys::CUstream
}
