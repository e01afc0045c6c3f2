//! Loading modules and finding functions: each module once a device, on first use.

use std::ffi::CString;
use std::sync::PoisonError;

use cudarc::driver::{result, sys};

use crate::core::error::{Error, Result};
use crate::devices::cuda::context::Context;
use crate::devices::cuda::modules::{Module, Table, parameter_bytes};
use crate::devices::cuda::of;

impl Context {
    /// Loads modules, where that has not happened yet: whether this driver and device take them.
    pub fn load_all<'a>(&self, modules: impl IntoIterator<Item = &'a Module>) -> Result<()> {
        let mut table = self.modules.0.lock().unwrap_or_else(PoisonError::into_inner);
        modules.into_iter().try_for_each(|module| self.module(&mut table, module).map(drop))
    }

    fn module(&self, table: &mut Table, &Module { name, text }: &Module) -> Result<sys::CUmodule> {
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
    pub(super) fn function(&self, module: &Module, kernel: &str) -> Result<(sys::CUfunction, usize)> {
        let mut table = self.modules.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = table.functions.get(kernel) {
            return Ok(*found);
        }
        let broken = |what: String| Error::Device { device: self.device().to_string(), reason: what };
        let bytes = parameter_bytes(module.text, kernel)
            .ok_or_else(|| broken(format!("the module {} has no kernel {kernel}", module.name)))?;
        let loaded = self.module(&mut table, module)?;
        let symbol = CString::new(kernel).map_err(|_| broken(format!("{kernel:?} is no kernel's name")))?;
        let function = self.with(&format!("finding {kernel}"), || {
            // SAFETY: the module was loaded in this context and is never unloaded.
            unsafe { result::module::get_function(loaded, symbol) }.map_err(of("cuModuleGetFunction"))
        })?;
        table.functions.insert(kernel.to_string(), (function, bytes));
        Ok((function, bytes))
    }
}
