//! Loading kernels: each once a device, when it is first used, and alone: the driver compiles what it loads, and a module
//! as a whole takes it seconds.

use std::ffi::{CString, c_void};
use std::sync::PoisonError;

use cudarc::driver::sys;

use crate::core::error::{Error, Result};
use crate::devices::cuda::calls::{self, Answer, Failed};
use crate::devices::cuda::context::Context;
use crate::devices::cuda::modules::{Module, Table, alone, parameter_bytes};

impl Context {
    /// Loads whole modules, where that has not happened yet: whether this driver and device take them.
    pub fn load_all<'a>(&self, modules: impl IntoIterator<Item = &'a Module>) -> Result<()> {
        let mut table = self.modules.0.lock().unwrap_or_else(PoisonError::into_inner);
        modules.into_iter().try_for_each(|module| self.whole(&mut table, module))
    }

    fn whole(&self, table: &mut Table, &Module { name, text }: &Module) -> Result<()> {
        if table.modules.contains_key(name) {
            return Ok(());
        }
        let image = self.image(name, text)?;
        self.with(&format!("loading the kernels of {name}"), || {
            // Remembered before anything else can fail, so that no module is loaded twice.
            table.modules.insert(name, load(&image)?);
            Ok(())
        })
    }

    fn image(&self, name: &str, text: &str) -> Result<CString> {
        CString::new(text).map_err(|_| Error::Device {
            device: self.device().to_string(),
            reason: format!("the PTX of {name} holds a zero byte"),
        })
    }

    /// A kernel and the size of its parameters.
    pub(super) fn function(&self, module: &Module, kernel: &str) -> Result<(sys::CUfunction, usize)> {
        let mut table = self.modules.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = table.functions.get(kernel) {
            return Ok(*found);
        }
        let broken = |what: String| Error::Device { device: self.device().to_string(), reason: what };
        let missing = || broken(format!("the module {} has no kernel {kernel}", module.name));
        let bytes = parameter_bytes(module.text, kernel).ok_or_else(missing)?;
        let text = self.image(kernel, &alone(module.text, kernel).ok_or_else(missing)?)?;
        let symbol = CString::new(kernel).map_err(|_| broken(format!("{kernel:?} is no kernel's name")))?;
        let Table { modules, functions } = &mut *table;
        self.with(&format!("loading {kernel}"), || {
            let loaded = match modules.get(module.name) {
                Some(whole) => *whole,
                None => load(&text)?,
            };
            let mut function = std::ptr::null_mut();
            // SAFETY: the module was loaded in this context; the driver writes one handle.
            let found = unsafe { calls::cuModuleGetFunction(&mut function, loaded, symbol.as_ptr()) };
            if found.is_err() && !modules.contains_key(module.name) {
                // SAFETY: it was loaded above, and nobody else knows of it.
                unsafe { calls::cuModuleUnload(loaded) }?;
            }
            found?;
            functions.insert(kernel.to_string(), (function, bytes));
            Ok((function, bytes))
        })
    }
}

/// Loads a module into the context that is current: no part of a graph that is being captured.
fn load(image: &CString) -> Answer<sys::CUmodule> {
    let mut module = std::ptr::null_mut();
    // SAFETY: the image is a text that ends in zero, of which the driver copies what it keeps; it writes one handle.
    relaxed(|| unsafe { calls::cuModuleLoadData(&mut module, image.as_ptr().cast::<c_void>()) }).inspect_err(|_| {
        if !module.is_null() {
            // SAFETY: loaded above, and nobody else knows of it. That the mode was not restored is what is told.
            let _ = unsafe { calls::cuModuleUnload(module) };
        }
    })?;
    Ok(module)
}

/// Runs a call after which a capture of a stream, on whatever thread, goes on.
pub(super) fn relaxed<R>(call: impl FnOnce() -> Answer<R>) -> Answer<R> {
    let mut mode = calls::RELAXED;
    // SAFETY: the mode is this thread's own, and gets back the value that the driver gave for it.
    let exchanged = match unsafe { calls::cuThreadExchangeStreamCaptureMode(&mut mode) } {
        // A driver from before graphs.
        Err(Failed { code: calls::NOT_FOUND, .. }) => false,
        answer => answer.map(|()| true)?,
    };
    let answer = call();
    if exchanged {
        // SAFETY: as above.
        let restored = unsafe { calls::cuThreadExchangeStreamCaptureMode(&mut mode) };
        return answer.and_then(|done| restored.map(|()| done));
    }
    answer
}
