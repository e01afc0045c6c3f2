//! Contexts.

use super::arguments::Out;
use super::functions;
use crate::driver::{Handle, Result, code::Code, current_context, with_context_stack};
use std::ffi::c_void;

fn create(driver: &mut crate::driver::Driver, context: Out<Handle>, device: i32) -> Result<()> {
    let handle = driver.new_context(device)?;
    with_context_stack(|stack| stack.push(handle));
    context.set(handle)
}

functions! {
    /// Retains the primary context of a device.
    fn cuDevicePrimaryCtxRetain(context: Out<Handle>, device: i32) |driver| {
        let handle = match driver.device(device)?.primary {
            Some((handle, _)) => handle,
            None => driver.new_context(device)?,
        };
        let primary = &mut driver.device(device)?.primary;
        *primary = Some((handle, primary.map_or(1, |(_, count)| count + 1)));
        context.set(handle)
    }

    /// Releases the primary context; the last release ends it.
    fn cuDevicePrimaryCtxRelease_v2(device: i32) |driver| {
        let primary = &mut driver.device(device)?.primary;
        match *primary {
            None => Err(Code::INVALID_CONTEXT),
            Some((handle, 1)) => {
                *primary = None;
                driver.end_context(handle)
            }
            Some((handle, count)) => {
                *primary = Some((handle, count - 1));
                Ok(())
            }
        }
    }

    /// Ends the primary context whatever its count.
    fn cuDevicePrimaryCtxReset_v2(device: i32) |driver| {
        match driver.device(device)?.primary.take() {
            Some((handle, _)) => driver.end_context(handle),
            None => Ok(()),
        }
    }

    /// State of the primary context.
    fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, active: Out<i32>) |driver| {
        let retained = driver.device(device)?.primary.is_some();
        flags.set(0)?;
        active.set(retained.into())
    }

    /// Flags of the primary context, none of which change anything here.
    fn cuDevicePrimaryCtxSetFlags_v2(device: i32, _flags: u32) |driver| {
        driver.device(device).map(|_| ())
    }

    /// Makes a context.
    fn cuCtxCreate_v2(context: Out<Handle>, _flags: u32, device: i32) |driver| { create(driver, context, device) }

    /// Makes a context.
    fn cuCtxCreate_v3(context: Out<Handle>, _affinity: *mut c_void, count: i32, _flags: u32, device: i32) |driver| {
        if count != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        create(driver, context, device)
    }

    /// Makes a context.
    fn cuCtxCreate_v4(context: Out<Handle>, parameters: *mut c_void, _flags: u32, device: i32) |driver| {
        if !parameters.is_null() {
            return Err(Code::NOT_SUPPORTED);
        }
        create(driver, context, device)
    }

    /// Ends a context.
    fn cuCtxDestroy_v2(context: Handle) |driver| {
        if driver.devices.iter().any(|device| device.primary.is_some_and(|(handle, _)| handle == context)) {
            return Err(Code::INVALID_CONTEXT);
        }
        driver.end_context(context)?;
        with_context_stack(|stack| stack.retain(|&handle| handle != context));
        Ok(())
    }

    /// Makes a context current; null leaves none.
    fn cuCtxSetCurrent(context: Handle) |driver| {
        if context != 0 && !driver.contexts.contains_key(&context) {
            return Err(Code::INVALID_CONTEXT);
        }
        with_context_stack(|stack| {
            stack.pop();
            if context != 0 {
                stack.push(context);
            }
        });
        Ok(())
    }

    /// The current context, or null.
    fn cuCtxGetCurrent(context: Out<Handle>) |driver| {
        if !driver.initialised {
            return Err(Code::NOT_INITIALIZED);
        }
        context.set(current_context().unwrap_or(0))
    }

    /// Makes a context current above the one before.
    fn cuCtxPushCurrent_v2(context: Handle) |driver| {
        if !driver.contexts.contains_key(&context) {
            return Err(Code::INVALID_CONTEXT);
        }
        with_context_stack(|stack| stack.push(context));
        Ok(())
    }

    /// Returns to the context before.
    fn cuCtxPopCurrent_v2(context: Out<Handle>) |_driver| {
        let top = with_context_stack(Vec::pop).ok_or(Code::INVALID_CONTEXT)?;
        context.set_if_wanted(top);
        Ok(())
    }

    /// Device of the current context.
    fn cuCtxGetDevice(device: Out<i32>) |driver| {
        let ordinal = driver.current_device()?;
        device.set(ordinal as i32)
    }

    /// Waits for everything in the current context.
    fn cuCtxSynchronize() |driver| {
        let (context, _) = driver.context()?;
        driver.synchronise_context(context)
    }

    /// Scheduling flags change nothing here.
    fn cuCtxSetFlags(_flags: u32) |driver| { driver.context().map(|_| ()) }

    /// Flags of the current context.
    fn cuCtxGetFlags(flags: Out<u32>) |driver| {
        driver.context()?;
        flags.set(0)
    }

    /// Version of the interface of a context.
    fn cuCtxGetApiVersion(_context: Handle, version: Out<u32>) |_driver| { version.set(3020) }

    /// A limit of the current context; only the stack of a thread has one here.
    fn cuCtxGetLimit(value: Out<usize>, limit: i32) |driver| {
        driver.context()?;
        match limit {
            0 => value.set(1024),
            1 | 2 => value.set(8 << 20),
            _ => Err(Code::UNSUPPORTED_LIMIT),
        }
    }

    /// Limits change nothing: no supported kernel uses a stack, printf or a heap.
    fn cuCtxSetLimit(limit: i32, _value: usize) |driver| {
        driver.context()?;
        if (0..=2).contains(&limit) { Ok(()) } else { Err(Code::UNSUPPORTED_LIMIT) }
    }

    /// Preference between cache and shared memory, which changes nothing here.
    fn cuCtxGetCacheConfig(config: Out<i32>) |driver| {
        driver.context()?;
        config.set(0)
    }

    /// Preference between cache and shared memory, which changes nothing here.
    fn cuCtxSetCacheConfig(_config: i32) |driver| { driver.context().map(|_| ()) }

    /// Range of stream priorities.
    fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) |driver| {
        driver.context()?;
        least.set_if_wanted(0);
        greatest.set_if_wanted(-5);
        Ok(())
    }

    /// Lets kernels of the current context use the memory of another device.
    fn cuCtxEnablePeerAccess(peer: Handle, flags: u32) |driver| {
        let (handle, context) = driver.context()?;
        let other = driver.contexts.get(&peer).ok_or(Code::INVALID_CONTEXT)?.device;
        if flags != 0 || other == context.device {
            return Err(Code::INVALID_VALUE);
        }
        let Some(context) = driver.contexts.get_mut(&handle) else { return Err(Code::INVALID_CONTEXT) };
        if context.peers.contains(&other) {
            return Err(Code::PEER_ACCESS_ALREADY_ENABLED);
        }
        context.peers.push(other);
        Ok(())
    }

    /// Takes the permission back.
    fn cuCtxDisablePeerAccess(peer: Handle) |driver| {
        let (handle, _) = driver.context()?;
        let other = driver.contexts.get(&peer).ok_or(Code::INVALID_CONTEXT)?.device;
        let Some(context) = driver.contexts.get_mut(&handle) else { return Err(Code::INVALID_CONTEXT) };
        if !context.peers.contains(&other) {
            return Err(Code::PEER_ACCESS_NOT_ENABLED);
        }
        context.peers.retain(|&device| device != other);
        Ok(())
    }
}
