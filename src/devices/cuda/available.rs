//! Whether there is a driver that can be used, asked before any call that could panic.
//!
//! cudarc panics where the library or one of its functions is missing; so both are looked for here first. A file that is
//! cut short is not loaded at all.

use std::panic::catch_unwind;
use std::sync::OnceLock;

use cudarc::driver::sys;

use crate::core::device::Device;
use crate::core::error::{Error, Result};
use crate::devices::cpu::fork;
use crate::devices::cuda::calls::{self, Failed};
use crate::devices::cuda::modules::{DRIVER_NEEDED, PTX_VERSION};

/// Every function of the driver that this crate calls, by the name that cudarc looks up.
const REQUIRED: [&str; 27] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2",
    "cuDevicePrimaryCtxRetain",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuMemsetD16Async",
    "cuMemsetD32Async",
    "cuPointerGetAttribute",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventRecord",
];
/// Needed only where the device has memory pools.
const POOLS: [&str; 2] = ["cuMemAllocAsync", "cuMemFreeAsync"];

/// What the driver offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// How many devices it has; at least one.
    pub devices: u32,
    /// The newest CUDA version it serves, as in 12040 for 12.4.
    pub version: i32,
    /// Whether it knows stream-ordered allocation.
    pub pools: bool,
}

/// The driver that was started, and in which generation of forks.
static DRIVER: OnceLock<(Driver, u32)> = OnceLock::new();

/// Whether this process was forked from one that had started the driver. The driver answers such a process no more, and a
/// lock of its own, or one of this crate, may be held by a thread that is gone: so it is not called at all.
pub(super) fn lost_by_fork() -> bool {
    DRIVER.get().is_some_and(|(_, generation)| *generation != fork::generation())
}

/// The driver, or the reason why there is none; never panics. The library is looked for once; a driver that would not
/// start is asked again the next time.
pub fn driver() -> std::result::Result<Driver, String> {
    static LIBRARY: OnceLock<std::result::Result<bool, String>> = OnceLock::new();
    if lost_by_fork() {
        return Err("this process was forked from one that had started CUDA, which no fork survives: \
                    start processes with the method \"spawn\""
            .into());
    }
    if let Some((driver, _)) = DRIVER.get() {
        return Ok(*driver);
    }
    // The symbols are checked; this is for a library that lies about itself while it is loaded.
    let unusable = || "the CUDA driver library cannot be used".to_string();
    let pools = LIBRARY.get_or_init(|| catch_unwind(find).unwrap_or_else(|_| Err(unusable()))).clone()?;
    let driver = catch_unwind(|| start(pools)).unwrap_or_else(|_| Err(unusable()))?;
    let generation = fork::generation();
    Ok(fork::once(&DRIVER, || (driver, generation)).0)
}

/// As [`driver`], with a device that must be among its devices.
pub fn require(ordinal: u32) -> Result<Driver> {
    let refuse = |reason: String| Error::Device { device: Device::Cuda(ordinal).to_string(), reason };
    let driver = driver().map_err(refuse)?;
    if ordinal >= driver.devices {
        return Err(refuse(format!("there are {} CUDA devices, numbered from 0", driver.devices)));
    }
    Ok(driver)
}

/// Looks for the library and its functions; answers whether it knows stream-ordered allocation.
fn find() -> std::result::Result<bool, String> {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    if let Some(reason) = super::library::refusal() {
        return Err(reason);
    }
    // SAFETY: loads the system's CUDA driver library, whose initialisers are the vendor's; the answer is a flag.
    if !unsafe { sys::is_culib_present() } {
        #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
        if let Some(path) = super::library::first_of_the_name() {
            return Err(format!(
                "the CUDA driver library {} cannot be loaded: it is no library for this processor, or lacks others",
                path.display()
            ));
        }
        return Err("no CUDA driver library (libcuda) was found".into());
    }
    let missing = |names: &[&str]| -> Vec<String> {
        // SAFETY: the library is present, so `culib` gives it; a symbol is looked up, not called.
        let absent = |name: &&&str| unsafe { sys::culib().get::<unsafe extern "C" fn()>(name.as_bytes()).is_err() };
        names.iter().filter(absent).map(|name| name.to_string()).collect()
    };
    let absent = missing(&REQUIRED);
    if !absent.is_empty() {
        return Err(format!("the CUDA driver library lacks {}", absent.join(", ")));
    }
    Ok(missing(&POOLS).is_empty())
}

fn start(pools: bool) -> std::result::Result<Driver, String> {
    let words = |doing: &'static str| {
        move |failed: Failed| match super::driver_error(0, doing, failed) {
            _ if failed.code == calls::STUB => stub(),
            Error::Device { reason, .. } => reason,
            other => other.to_string(),
        }
    };
    let mut version = 0;
    // SAFETY: the driver writes one integer to the address, which outlives the call.
    unsafe { calls::cuDriverGetVersion(&mut version) }.map_err(words("asking the driver's version"))?;
    if version < DRIVER_NEEDED {
        let (found, needed) = (version_name(version), version_name(DRIVER_NEEDED));
        return Err(format!(
            "the CUDA driver is too old: it serves {found}, and PTX {PTX_VERSION}, as which the kernels ship, \
             needs one for {needed} or later"
        ));
    }
    // SAFETY: takes no flags; may be called more than once.
    unsafe { calls::cuInit(0) }.map_err(words("starting the driver"))?;
    let mut devices = 0;
    // SAFETY: the driver writes one integer to the address, which outlives the call.
    unsafe { calls::cuDeviceGetCount(&mut devices) }.map_err(words("counting devices"))?;
    match devices {
        1.. => Ok(Driver { devices: devices as u32, version, pools }),
        _ => Err("the CUDA driver has no device".into()),
    }
}

/// What a toolkit's stub is told by: programs are linked to it, and it answers every call with one code.
fn stub() -> String {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    let place = super::library::first_of_the_name().map(|path| format!(" {}", path.display())).unwrap_or_default();
    #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
    let place = "";
    format!(
        "the CUDA driver library{place} is a stub of the CUDA toolkit, for linking alone: take its folder out of \
         LD_LIBRARY_PATH, so that the driver's own library is found"
    )
}

/// A version as the driver counts it, in words: 12040 is CUDA 12.4.
pub fn version_name(version: i32) -> String {
    format!("CUDA {}.{}", version / 1000, version % 1000 / 10)
}
