//! One primary context a device, shared with every other CUDA library of the process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{result, sys};

use crate::core::device::{Device, Stream};
use crate::core::error::{Error, Result};
use crate::devices::cuda::modules::{CAPABILITY_NEEDED, Modules};
use crate::devices::cuda::{Answer, available, driver_error, of};

/// A device that is ready for work.
pub struct Context {
    /// The device's number.
    pub ordinal: u32,
    /// Whether it has stream-ordered allocation.
    pub pools: bool,
    /// The kernels loaded so far.
    pub(super) modules: Modules,
    /// For ordering streams; made on first use and kept.
    pub(super) event: Mutex<Option<Event>>,
    left_behind: Mutex<LeftBehind>,
    /// Whether anything was left behind: all that a call usually looks at.
    untidy: AtomicBool,
    raw: sys::CUcontext,
}

// SAFETY: a primary context's handle may be used from any thread; it is retained for the life of the process.
unsafe impl Send for Context {}
// SAFETY: as above; modules, event and what was left behind have their own locks.
unsafe impl Sync for Context {}

/// An event of the driver.
pub(super) struct Event(pub sys::CUevent);

/// What dropping memory could not do, and has told nobody yet.
#[derive(Default)]
struct LeftBehind {
    addresses: Vec<u64>,
    untold: Option<Error>,
}

/// Driver calls that failed; `ran` where they were done all the same, and only what came after went wrong.
pub(super) struct NotDone {
    pub error: Error,
    pub ran: bool,
}

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
    let failed = |failed| driver_error(ordinal, "opening the device", failed);
    let (device, _) = open(ordinal)?;
    let pools = driver.pools && has_pools(device).map_err(failed)?;
    // SAFETY: the device was just obtained; the reference taken here is never released, so the handle stays valid.
    let raw = unsafe { result::primary_ctx::retain(device) }.map_err(of("cuDevicePrimaryCtxRetain")).map_err(failed)?;
    let context = Box::leak(Box::new(Context {
        ordinal,
        pools,
        modules: Modules::default(),
        event: Mutex::default(),
        left_behind: Mutex::default(),
        untidy: AtomicBool::new(false),
        raw,
    }));
    contexts.insert(ordinal, context);
    Ok(context)
}

/// A device with its compute capability, which must be one that the kernels run on.
fn open(ordinal: u32) -> Result<(sys::CUdevice, (i32, i32))> {
    let failed = |failed| driver_error(ordinal, "opening the device", failed);
    let device = result::device::get(ordinal as i32).map_err(of("cuDeviceGet")).map_err(failed)?;
    let (major, minor) = capability(device).map_err(failed)?;
    if (major, minor) < CAPABILITY_NEEDED {
        let (needed, minor_needed) = CAPABILITY_NEEDED;
        let reason = format!(
            "its compute capability is {major}.{minor}, and the kernels need {needed}.{minor_needed} (Maxwell) or later"
        );
        return Err(Error::Device { device: Device::Cuda(ordinal).to_string(), reason });
    }
    Ok((device, (major, minor)))
}

/// Name, capability and memory of a device, for which it is not started: no context is made.
pub fn describe(ordinal: u32) -> Result<Description> {
    available::require(ordinal)?;
    let (device, capability) = open(ordinal)?;
    let failed = |failed| driver_error(ordinal, "asking the device", failed);
    // SAFETY: the device is one that the driver gave.
    let memory = unsafe { result::device::total_mem(device) }.map_err(of("cuDeviceTotalMem")).map_err(failed)?;
    let name = result::device::get_name(device).map_err(of("cuDeviceGetName")).map_err(failed)?;
    Ok(Description { name, capability, memory })
}

fn attribute(device: sys::CUdevice, attribute: sys::CUdevice_attribute) -> Answer<i32> {
    // SAFETY: the device is one that the driver gave; the answer is a number.
    unsafe { result::device::get_attribute(device, attribute) }.map_err(of("cuDeviceGetAttribute"))
}

fn capability(device: sys::CUdevice) -> Answer<(i32, i32)> {
    use sys::CUdevice_attribute_enum::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    };
    Ok((attribute(device, MAJOR)?, attribute(device, MINOR)?))
}

fn has_pools(device: sys::CUdevice) -> Answer<bool> {
    match attribute(device, sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) {
        // A driver older than the attribute.
        Err(failed) if failed.error.0 == sys::CUresult::CUDA_ERROR_INVALID_VALUE => Ok(false),
        answer => answer.map(|answer| answer == 1),
    }
}

/// The context of a tensor's device.
pub fn context_of(device: Device) -> Result<&'static Context> {
    match device {
        Device::Cuda(ordinal) => context(ordinal),
        Device::Cpu => Err(Error::Device { device: device.to_string(), reason: "this is no CUDA device".into() }),
    }
}

impl Context {
    /// Runs driver calls with this context current, after tidying up what earlier calls have left behind. What `calls`
    /// gives must free itself when dropped: it is dropped where something after the calls fails.
    pub(super) fn with<R>(&self, doing: &str, calls: impl FnOnce() -> Answer<R>) -> Result<R> {
        if self.untidy.load(Ordering::Relaxed) {
            self.tidy()?;
        }
        self.with_current(doing, calls).map_err(|not_done| not_done.error)
    }

    /// Runs driver calls with this context current, and gives the thread back the one it had: other libraries take the
    /// current context for their current device.
    pub(super) fn with_current<R>(
        &self,
        doing: &str,
        calls: impl FnOnce() -> Answer<R>,
    ) -> std::result::Result<R, NotDone> {
        let failed = |ran| move |failed| NotDone { error: driver_error(self.ordinal, doing, failed), ran };
        let before = result::ctx::get_current().map_err(of("cuCtxGetCurrent")).map_err(failed(false))?;
        let other = before != Some(self.raw);
        if other {
            // SAFETY: the handle is retained for the life of the process.
            unsafe { result::ctx::set_current(self.raw) }.map_err(of("cuCtxSetCurrent")).map_err(failed(false))?;
        }
        let answer = calls();
        if other {
            // SAFETY: the handle was current on this thread a moment ago; null means none.
            let restored = unsafe { result::ctx::set_current(before.unwrap_or(std::ptr::null_mut())) };
            restored.map_err(of("cuCtxSetCurrent")).map_err(failed(answer.is_ok()))?;
        }
        answer.map_err(failed(false))
    }

    /// Remembers memory that could not be freed, and an error that nobody was told.
    pub(super) fn leave_behind(&self, address: Option<u64>, error: Error) {
        let mut left_behind = self.left_behind.lock().unwrap_or_else(PoisonError::into_inner);
        left_behind.addresses.extend(address);
        left_behind.untold = Some(error);
        self.untidy.store(true, Ordering::Relaxed);
    }

    /// Frees what was left behind and tells the error of then, once; what cannot be freed now either stays.
    fn tidy(&self) -> Result<()> {
        let mut left_behind = self.left_behind.lock().unwrap_or_else(PoisonError::into_inner);
        let LeftBehind { addresses, untold } = &mut *left_behind;
        let done = self.with_current("freeing memory", || {
            // The streams that used the memory may be gone, so everything is waited for.
            result::ctx::synchronize().map_err(of("cuCtxSynchronize"))?;
            while let Some(&address) = addresses.last() {
                // SAFETY: memory that this crate allocated and could not free; nothing on the device uses it any more.
                unsafe { result::free_sync(address) }.map_err(of("cuMemFree"))?;
                addresses.pop();
            }
            Ok(())
        });
        self.untidy.store(!addresses.is_empty(), Ordering::Relaxed);
        untold.take().map_or(Ok(()), Err)?;
        done.map_err(|not_done| not_done.error)
    }

    /// The device of this context.
    pub fn device(&self) -> Device {
        Device::Cuda(self.ordinal)
    }

    /// Waits until the stream has done everything put on it so far.
    pub fn synchronize(&self, stream: Stream) -> Result<()> {
        self.with("waiting for the stream", || {
            // SAFETY: the stream is the default one or one that its owner keeps alive for the call.
            unsafe { result::stream::synchronize(handle(stream)) }.map_err(of("cuStreamSynchronize"))
        })
    }
}

/// The driver's form of a stream; 0 is the default stream.
pub(super) fn handle(stream: Stream) -> sys::CUstream {
    stream.0 as sys::CUstream
}
