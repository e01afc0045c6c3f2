//! `cuInit`, versions and error names.

use super::arguments::Out;
use super::{control, functions};
use crate::driver::code::{Code, describe};
use std::ffi::c_char;

functions! {
    /// Starts the driver.
    fn cuInit(flags: u32) |driver| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if driver.devices.is_empty() {
            return Err(Code::NO_DEVICE);
        }
        control::watch_exit();
        driver.initialised = true;
        Ok(())
    }

    /// Version of the driver.
    fn cuDriverGetVersion(version: Out<i32>) |driver| {
        version.set(driver.settings.driver_version)
    }

    /// Name of a result code.
    fn cuGetErrorName(code: i32, name: Out<*const c_char>) |_driver| {
        match describe(code) {
            Some((text, _)) => name.set(text.as_ptr().cast()),
            None => {
                name.set(std::ptr::null())?;
                Err(Code::INVALID_VALUE)
            }
        }
    }

    /// Description of a result code.
    fn cuGetErrorString(code: i32, text: Out<*const c_char>) |_driver| {
        match describe(code) {
            Some((_, description)) => text.set(description.as_ptr().cast()),
            None => {
                text.set(std::ptr::null())?;
                Err(Code::INVALID_VALUE)
            }
        }
    }
}
