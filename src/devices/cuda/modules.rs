//! The PTX that ships, and the functions loaded from it: each module once a device, on first use.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{result, sys};

use crate::core::error::{Error, Result};
use crate::devices::cuda::context::Context;
use crate::devices::cuda::of;

/// One module an operator folder: its name and its text.
pub const MODULES: [(&str, &str); 5] = [
    ("arithmetic", include_str!("../../../cuda/ptx/arithmetic.ptx")),
    ("fused_leaky_relu", include_str!("../../../cuda/ptx/fused_leaky_relu.ptx")),
    ("leaky_relu", include_str!("../../../cuda/ptx/leaky_relu.ptx")),
    ("reduce_sum", include_str!("../../../cuda/ptx/reduce_sum.ptx")),
    ("upfirdn2d", include_str!("../../../cuda/ptx/upfirdn2d.ptx")),
];

/// The version that every module declares.
pub const PTX_VERSION: &str = "6.0";
/// The oldest driver that reads this version, as the driver counts: CUDA 9.0.
pub const DRIVER_NEEDED: i32 = 9000;
/// The compute capability that every module is written for; newer devices run it too.
pub const CAPABILITY_NEEDED: (i32, i32) = (5, 0);

#[derive(Default)]
struct Table {
    modules: HashMap<&'static str, sys::CUmodule>,
    functions: HashMap<String, (sys::CUfunction, usize)>,
}

/// What a context has loaded.
#[derive(Default)]
pub(super) struct Modules(Mutex<Table>);

/// The size of a kernel's one parameter struct, as its PTX declares it.
pub fn parameter_bytes(text: &str, kernel: &str) -> Option<usize> {
    let declaration = format!("{kernel}_param_0[");
    let start = text.find(&format!(".b8 {declaration}"))? + 4 + declaration.len();
    text[start..].split_once(']')?.0.parse().ok()
}

impl Context {
    /// Loads every module that ships, where that has not happened yet: whether this driver and device take them.
    pub fn load_all(&self) -> Result<()> {
        let mut table = self.modules.0.lock().unwrap_or_else(PoisonError::into_inner);
        MODULES.iter().try_for_each(|&(name, text)| self.module(&mut table, name, text).map(drop))
    }

    fn module(&self, table: &mut Table, name: &'static str, text: &str) -> Result<sys::CUmodule> {
        if let Some(loaded) = table.modules.get(name) {
            return Ok(*loaded);
        }
        let image = CString::new(text).map_err(|_| Error::Device {
            device: self.device().to_string(),
            reason: format!("the PTX of {name} holds a zero byte"),
        })?;
        self.with(&format!("loading the kernels of {name}"), || {
            // SAFETY: the image is a text that ends in zero; the driver copies what it keeps.
            let loaded = unsafe { result::module::load_data(image.as_ptr().cast()) }.map_err(of("cuModuleLoadData"))?;
            // Remembered before anything else can fail, so that no module is loaded twice.
            table.modules.insert(name, loaded);
            Ok(loaded)
        })
    }

    /// A kernel and the size of its parameters.
    pub(super) fn function(&self, module: &str, kernel: &str) -> Result<(sys::CUfunction, usize)> {
        let mut table = self.modules.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = table.functions.get(kernel) {
            return Ok(*found);
        }
        let broken = |what: String| Error::Device { device: self.device().to_string(), reason: what };
        let &(name, text) = MODULES
            .iter()
            .find(|(name, _)| *name == module)
            .ok_or_else(|| broken(format!("this build has no CUDA module {module}")))?;
        let bytes = parameter_bytes(text, kernel)
            .ok_or_else(|| broken(format!("the module {module} has no kernel {kernel}")))?;
        let loaded = self.module(&mut table, name, text)?;
        let symbol = CString::new(kernel).map_err(|_| broken(format!("{kernel:?} is no kernel's name")))?;
        let function = self.with(&format!("finding {kernel}"), || {
            // SAFETY: the module was loaded in this context and is never unloaded.
            unsafe { result::module::get_function(loaded, symbol) }.map_err(of("cuModuleGetFunction"))
        })?;
        table.functions.insert(kernel.to_string(), (function, bytes));
        Ok((function, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::{CAPABILITY_NEEDED, MODULES, PTX_VERSION};

    #[test]
    fn every_module_declares_what_drivers_and_devices_are_asked_for() {
        let (major, minor) = CAPABILITY_NEEDED;
        let header = format!(".version {PTX_VERSION}\n.target sm_{major}{minor}\n");
        for (name, text) in MODULES {
            assert!(text.starts_with(&header), "{name}");
        }
    }
}
