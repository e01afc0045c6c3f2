//! The driver's C functions: thin, each a translation of its arguments into a call of `driver`.
//!
//! Every function goes through [`enter`], which counts the call, injects failures, turns a panic into a result code
//! and publishes what was found.

mod arguments;
mod context;
mod control;
mod copy;
mod device;
mod error;
mod event;
mod graph;
mod launch;
mod lookup;
mod memory;
mod module;
mod stream;
mod unsupported;

use crate::driver::{Driver, Result, code::Code, lock};
use crate::report::Kind;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of one driver call.
fn enter(name: &'static str, body: impl FnOnce(&mut Driver) -> Result<()>) -> i32 {
    let mut driver = lock();
    let result = match driver.begin_call(name) {
        Err(code) => Err(code),
        Ok(()) => catch_unwind(AssertUnwindSafe(|| body(&mut driver))).unwrap_or_else(|_| {
            driver.report(Kind::Internal, || format!("the emulator itself failed in {name}"));
            Err(Code::UNKNOWN)
        }),
    };
    driver.publish();
    result.map_or_else(|Code(value)| value, |()| 0)
}

/// Declares exported driver functions.
macro_rules! functions {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) |$driver:ident| $body:block)*) => {
        $(
            $(#[$attribute])*
            ///
            /// # Safety
            /// As the CUDA driver API says: pointers are valid for what the function reads or writes, or null.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> i32 {
                $crate::symbols::enter(stringify!($name), |$driver| $body)
            }
        )*

        /// The functions of this file by name.
        pub(super) const TABLE: &[(&str, *const ())] = &[$((stringify!($name), $name as *const ()),)*];
    };
}
use functions;
