//! CUDA devices: the driver is found at run time, kernels are the PTX in `cuda/ptx`, and nothing is compiled on the
//! user's machine beyond what the driver does when it loads a module.
//!
//! Work is put on a stream and not waited for; only copies to the host wait. A tensor that firelu owns is used on the
//! device's default stream unless a call names another.

pub mod available;
mod calls;
pub mod context;
pub mod copy;
pub mod dense;
pub mod external;
pub mod launch;
pub mod layout;
pub mod lending;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod library;
mod loading;
pub mod map;
pub mod memory;
pub mod modules;
pub mod parameters;
mod pool;

use std::ffi::{CStr, c_char};

use crate::core::device::Device;
use crate::core::error::Error;
use calls::{Answer, Failed};

/// An error of the driver: what was attempted, the call, and the driver's own words; a code that it does not explain is
/// told as the number it is.
#[cold]
pub(crate) fn driver_error(ordinal: u32, doing: &str, Failed { call, code }: Failed) -> Error {
    let words = |explain: unsafe fn(u32, *mut *const c_char) -> Answer<()>| {
        let mut text = std::ptr::null();
        // SAFETY: the driver writes one address there: null, or a text of its own that ends in zero and stays.
        match unsafe { explain(code, &mut text) } {
            // SAFETY: as above.
            Ok(()) if !text.is_null() => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
            _ => format!("error {code}"),
        }
    };
    let call = call.trim_end_matches("_v2");
    let reason = format!("{doing}: {call}: {}: {}", words(calls::cuGetErrorName), words(calls::cuGetErrorString));
    Error::Device { device: Device::Cuda(ordinal).to_string(), reason }
}
