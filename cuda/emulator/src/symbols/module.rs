//! Modules, functions and their attributes.

use super::arguments::{Out, Text};
use super::functions;
use crate::driver::{Driver, Handle, Result, code::Code};
use crate::machine::{SHARED_LIMIT, SHARED_LIMIT_OPT_IN};
use std::ffi::c_void;

impl Driver {
    fn load(&mut self, module: Out<Handle>, image: &Text) -> Result<()> {
        // Compiled code (ELF, fat binaries) has no text to interpret.
        if image.starts_with(b"\x7fELF") || image.starts_with(&0xba55_ed50u32.to_le_bytes()) {
            return Err(Code::NO_BINARY_FOR_GPU);
        }
        let handle = self.load_module(&image.read()?)?;
        module.set(handle)
    }

    fn function_attribute(&mut self, number: i32, function: Handle) -> Result<i32> {
        let found = self.function(function)?;
        let (program, limit, module) = (found.program.clone(), found.dynamic_limit, found.module);
        let module = self.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
        Ok(match number {
            0 => program.maximum_threads.unwrap_or(1024) as i32,
            1 => program.static_shared as i32,
            2 | 3 | 7 => 0,
            4 => 32,
            5 => module.version,
            6 => module.target as i32,
            8 => limit.unwrap_or(SHARED_LIMIT.saturating_sub(program.static_shared)) as i32,
            9 => -1,
            _ => return Err(Code::INVALID_VALUE),
        })
    }
}

functions! {
    /// Loads a module from memory.
    fn cuModuleLoadData(module: Out<Handle>, image: Text) |driver| { driver.load(module, &image) }

    /// Loads a module from memory; the options speak of a compiler that is not here.
    fn cuModuleLoadDataEx(
        module: Out<Handle>, image: Text, _count: u32, _options: *mut i32, _values: *mut *mut c_void,
    ) |driver| {
        driver.load(module, &image)
    }

    /// Loads a module from a file.
    fn cuModuleLoad(module: Out<Handle>, path: Text) |driver| {
        let text = std::fs::read_to_string(path.read()?).map_err(|_| Code::FILE_NOT_FOUND)?;
        let handle = driver.load_module(&text)?;
        module.set(handle)
    }

    /// Ends a module.
    fn cuModuleUnload(module: Handle) |driver| {
        driver.context()?;
        driver.unload_module(module)
    }

    /// Finds a kernel.
    fn cuModuleGetFunction(function: Out<Handle>, module: Handle, name: Text) |driver| {
        driver.context()?;
        let handle = driver.find_function(module, &name.read()?)?;
        function.set(handle)
    }

    /// Finds a variable.
    fn cuModuleGetGlobal_v2(pointer: Out<u64>, bytes: Out<usize>, module: Handle, name: Text) |driver| {
        driver.context()?;
        let (address, size) = driver.find_variable(module, &name.read()?)?;
        pointer.set_if_wanted(address);
        bytes.set_if_wanted(size as usize);
        Ok(())
    }

    /// The module of a function.
    fn cuFuncGetModule(module: Out<Handle>, function: Handle) |driver| {
        let handle = driver.function(function)?.module;
        module.set(handle)
    }

    /// An attribute of a function.
    fn cuFuncGetAttribute(value: Out<i32>, number: i32, function: Handle) |driver| {
        let found = driver.function_attribute(number, function)?;
        value.set(found)
    }

    /// Raises the dynamic shared memory a function may use.
    fn cuFuncSetAttribute(function: Handle, number: i32, value: i32) |driver| {
        driver.context()?;
        let found = driver.function(function)?;
        match number {
            8 => {
                let allowed = SHARED_LIMIT_OPT_IN - found.program.static_shared;
                let bytes = u64::try_from(value).ok().filter(|&bytes| bytes <= allowed);
                found.dynamic_limit = Some(bytes.ok_or(Code::INVALID_VALUE)?);
                Ok(())
            }
            9 if (-1..=100).contains(&value) => Ok(()),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// Preference between cache and shared memory, which changes nothing here.
    fn cuFuncSetCacheConfig(function: Handle, _config: i32) |driver| { driver.function(function).map(|_| ()) }
}
