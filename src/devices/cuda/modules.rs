//! Modules of PTX and the functions loaded from them: each module once a device, on first use. Which modules there are
//! their owners know: each stands beside the code that launches its kernels.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{result, sys};

use crate::core::error::{Error, Result};
use crate::devices::cuda::context::Context;
use crate::devices::cuda::of;

/// Kernels that ship together as one PTX text.
#[derive(Debug, Clone, Copy)]
pub struct Module {
    /// The stem of its file in `cuda/ptx`.
    pub name: &'static str,
    /// The PTX.
    pub text: &'static str,
}

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
