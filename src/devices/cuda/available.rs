//! Whether there is a driver that can be used, asked before any call that could panic.
//!
//! cudarc panics where the library or one of its functions is missing; so both are looked for here first.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use cudarc::driver::{result, sys};

use crate::core::device::Device;
use crate::core::error::{Error, Result};

/// Every function of the driver that this crate calls, by the name that cudarc looks up.
const REQUIRED: [&str; 26] = [
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
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuPointerGetAttribute",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventDestroy_v2",
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

/// The driver, or the reason why there is none. Asked once; never panics.
pub fn driver() -> std::result::Result<Driver, &'static str> {
    static DRIVER: OnceLock<std::result::Result<Driver, String>> = OnceLock::new();
    let asked = DRIVER.get_or_init(|| {
        // The symbols are checked below; this is for a library that lies about itself while it is loaded.
        catch_unwind(AssertUnwindSafe(find)).unwrap_or_else(|_| Err("the CUDA driver library cannot be used".into()))
    });
    asked.as_ref().copied().map_err(String::as_str)
}

/// As [`driver`], with a device that must be among its devices.
pub fn require(ordinal: u32) -> Result<Driver> {
    let refuse = |reason: String| Error::Device { device: Device::Cuda(ordinal).to_string(), reason };
    let driver = driver().map_err(|reason| refuse(reason.into()))?;
    if ordinal >= driver.devices {
        return Err(refuse(format!("there are {} CUDA devices, numbered from 0", driver.devices)));
    }
    Ok(driver)
}

fn find() -> std::result::Result<Driver, String> {
    // SAFETY: loads the system's CUDA driver library, whose initialisers are the vendor's; the answer is a flag.
    if !unsafe { sys::is_culib_present() } {
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
    let words = |doing: &str, error| match super::driver_error(0, doing, error) {
        Error::Device { reason, .. } => reason,
        other => other.to_string(),
    };
    result::init().map_err(|error| words("starting the driver", error))?;
    let devices = result::device::get_count().map_err(|error| words("counting devices", error))?;
    if devices <= 0 {
        return Err("the CUDA driver has no device".into());
    }
    let mut version = 0;
    // SAFETY: the driver writes one integer to the address, which outlives the call.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(|error| words("asking its version", error))?;
    Ok(Driver { devices: devices as u32, version, pools: missing(&POOLS).is_empty() })
}
