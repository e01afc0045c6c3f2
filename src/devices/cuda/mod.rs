//! CUDA devices: the driver is found at run time, kernels are the PTX in `cuda/ptx`, and nothing is compiled on the
//! user's machine beyond what the driver does when it loads a module.
//!
//! Work is put on a stream and not waited for; only copies to the host wait. A tensor that firelu owns is used on the
//! device's default stream unless a call names another.

pub mod available;
pub mod context;
pub mod copy;
pub mod dense;
pub mod external;
pub mod launch;
pub mod layout;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod library;
mod loading;
pub mod map;
pub mod memory;
pub mod modules;
pub mod parameters;

use cudarc::driver::DriverError;

use crate::core::device::Device;
use crate::core::error::Error;

/// A call of the driver that failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failed {
    call: &'static str,
    error: DriverError,
}

/// What a call of the driver answers.
pub(crate) type Answer<R> = std::result::Result<R, Failed>;

/// Names the call whose error this is.
pub(crate) fn of(call: &'static str) -> impl Fn(DriverError) -> Failed {
    move |error| Failed { call, error }
}

/// An error of the driver: what was attempted, the call, and the driver's own words.
#[cold]
pub(crate) fn driver_error(ordinal: u32, doing: &str, Failed { call, error }: Failed) -> Error {
    let words = |text: Result<&std::ffi::CStr, DriverError>| match text {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => format!("error {}", error.0 as u32),
    };
    let reason = format!("{doing}: {call}: {}: {}", words(error.error_name()), words(error.error_string()));
    Error::Device { device: Device::Cuda(ordinal).to_string(), reason }
}
