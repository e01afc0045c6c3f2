//! One primary context a device, shared with every other CUDA library of the process.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::driver::sys;

use crate::core::device::{Device, Stream};
use crate::core::error::{Error, Result};
use crate::devices::cuda::calls::{self, Answer};
use crate::devices::cuda::modules::{CAPABILITY_NEEDED, Modules};
use crate::devices::cuda::{available, driver_error};

/// A device that is ready for work.
pub struct Context {
    /// The device's number.
    pub ordinal: u32,
    /// Whether it has stream-ordered allocation.
    pub pools: bool,
    /// Where its memory comes from; `None` is the device's default pool, of which nothing is kept.
    pub(super) pool: OnceLock<Option<Pool>>,
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
// SAFETY: as above; modules, event and what was left behind have their own locks, and a pool is one for all threads.
unsafe impl Sync for Context {}

/// An event of the driver.
pub(super) struct Event(pub sys::CUevent);

// SAFETY: a handle, which the driver takes from any thread.
unsafe impl Send for Event {}

/// A memory pool of the driver.
pub(super) struct Pool(pub sys::CUmemoryPool);

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
    let mut raw = std::ptr::null_mut();
    // SAFETY: the device was just obtained; the reference taken here is never released, so the handle stays valid.
    unsafe { calls::cuDevicePrimaryCtxRetain(&mut raw, device) }.map_err(failed)?;
    let context = Box::leak(Box::new(Context {
        ordinal,
        pools,
        pool: OnceLock::new(),
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
fn open(ordinal: u32) -> Result<(i32, (i32, i32))> {
    let failed = |failed| driver_error(ordinal, "opening the device", failed);
    let mut device = 0;
    // SAFETY: the driver writes one number to the address, which outlives the call.
    unsafe { calls::cuDeviceGet(&mut device, ordinal as i32) }.map_err(failed)?;
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
    let (mut memory, mut name) = (0, [0; 256]);
    // SAFETY: the device is one that the driver gave; it writes one number, and a text no longer than the array.
    unsafe {
        calls::cuDeviceTotalMem_v2(&mut memory, device).map_err(failed)?;
        calls::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32 - 1, device).map_err(failed)?;
    }
    let name: Vec<u8> = name.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8).collect();
    Ok(Description { name: String::from_utf8_lossy(&name).into_owned(), capability, memory })
}

fn attribute(device: i32, number: i32) -> Answer<i32> {
    let mut value = 0;
    // SAFETY: the device is one that the driver gave; it writes one number to the address.
    unsafe { calls::cuDeviceGetAttribute(&mut value, number, device) }?;
    Ok(value)
}

fn capability(device: i32) -> Answer<(i32, i32)> {
    Ok((attribute(device, calls::CAPABILITY_MAJOR)?, attribute(device, calls::CAPABILITY_MINOR)?))
}

fn has_pools(device: i32) -> Answer<bool> {
    match attribute(device, calls::HAS_POOLS) {
        // A driver older than the attribute.
        Err(failed) if failed.code == calls::INVALID_VALUE => Ok(false),
        answer => answer.map(|answer| answer == 1),
    }
}

thread_local! {
    /// The device whose context this thread has made current for the length of an operator's call.
    static ENTERED: Cell<Option<u32>> = const { Cell::new(None) };
}

/// What is done whenever a thread has left its device: set where memory was borrowed, so that it is given back.
pub(super) static SETTLE: OnceLock<fn()> = OnceLock::new();

/// A context that is current for several driver calls; the thread gets back the one it had when this is dropped.
pub struct Entered {
    context: &'static Context,
    /// What was current, if that was another; null is none.
    before: Option<sys::CUcontext>,
    outer: Option<u32>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        ENTERED.set(self.outer);
        if let Some(before) = self.before {
            // SAFETY: the handle was current on this thread when this was made; null means none.
            if let Err(failed) = unsafe { calls::cuCtxSetCurrent(before) } {
                let error = driver_error(self.context.ordinal, "leaving the device", failed);
                self.context.leave_behind(None, error);
            }
        }
        if let (None, Some(settle)) = (self.outer, SETTLE.get()) {
            settle();
        }
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
        if ENTERED.get() == Some(self.ordinal) {
            return calls().map_err(failed(false));
        }
        let before = self.make_current().map_err(failed(false))?;
        let answer = calls();
        if let Some(before) = before {
            // SAFETY: the handle was current on this thread a moment ago; null means none.
            unsafe { calls::cuCtxSetCurrent(before) }.map_err(failed(answer.is_ok()))?;
        }
        answer.map_err(failed(false))
    }

    /// Makes this context current, and gives what was if that was another; null is none.
    fn make_current(&self) -> Answer<Option<sys::CUcontext>> {
        let mut before = std::ptr::null_mut();
        // SAFETY: the driver writes one handle to the address; this context is retained for the life of the process.
        unsafe {
            calls::cuCtxGetCurrent(&mut before)?;
            if before == self.raw {
                return Ok(None);
            }
            calls::cuCtxSetCurrent(self.raw)?;
        }
        Ok(Some(before))
    }

    /// Makes this context current until the answer is dropped, so that the driver calls in between need not each do so.
    /// No code of others may run meanwhile: it would take this for its own current device.
    pub fn enter(&'static self) -> Result<Entered> {
        if self.untidy.load(Ordering::Relaxed) {
            self.tidy()?;
        }
        let outer = ENTERED.get();
        let before = match outer == Some(self.ordinal) {
            true => None,
            false => self.make_current().map_err(|failed| driver_error(self.ordinal, "entering the device", failed))?,
        };
        ENTERED.set(Some(self.ordinal));
        Ok(Entered { context: self, before, outer })
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
            // SAFETY: takes nothing; waits for the context that is current.
            unsafe { calls::cuCtxSynchronize() }?;
            while let Some(&address) = addresses.last() {
                // SAFETY: memory that this crate allocated and could not free; nothing on the device uses it any more.
                unsafe { calls::cuMemFree_v2(address) }?;
                addresses.pop();
            }
            Ok(())
        });
        self.untidy.store(!addresses.is_empty(), Ordering::Relaxed);
        untold.take().map_or(Ok(()), Err)?;
        done.map_err(|not_done| not_done.error)
    }

    /// The driver's handle, which lives as long as the process.
    pub(super) fn raw(&self) -> sys::CUcontext {
        self.raw
    }

    /// The device of this context.
    pub fn device(&self) -> Device {
        Device::Cuda(self.ordinal)
    }

    /// Waits until the stream has done everything put on it so far.
    pub fn synchronize(&self, stream: Stream) -> Result<()> {
        self.with("waiting for the stream", || {
            // SAFETY: the stream is the default one or one that its owner keeps alive for the call.
            unsafe { calls::cuStreamSynchronize(handle(stream)) }
        })
    }
}

/// The driver's form of a stream; 0 is the default stream.
pub(super) fn handle(stream: Stream) -> sys::CUstream {
    stream.0 as sys::CUstream
}
