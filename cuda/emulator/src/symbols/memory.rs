//! Memory, on the device and pinned on the host.

use super::arguments::{Host, Out};
use super::functions;
use crate::driver::pools::RELEASE_THRESHOLD;
use crate::driver::{Driver, Handle, HostRange, Result, code::Code};
use std::ffi::c_void;

impl Driver {
    /// The default pool of a device.
    pub(crate) fn default_pool(&mut self, device: i32) -> Result<Handle> {
        if let Some(pool) = self.device(device)?.pool {
            return Ok(pool);
        }
        let pool = self.new_handle();
        self.pools.insert(pool, device as usize);
        self.device(device)?.pool = Some(pool);
        Ok(pool)
    }

    fn pointer_attribute(&mut self, number: i32, pointer: u64, value: Out<u64>) -> Result<()> {
        let narrow = |value: Out<u64>, word: u32| -> Result<()> { value.narrow().set(word) };
        if let Ok(allocation) = self.find(pointer, 1) {
            let (device, base, size) = (allocation.device, allocation.base, allocation.size);
            let context = self.devices[device].primary.map_or(0, |(handle, _)| handle);
            return match number {
                1 => value.set(context as u64),
                2 => narrow(value, 2),
                3 => value.set(pointer),
                8 => narrow(value, 0),
                9 => narrow(value, device as u32),
                11 => value.set(base),
                12 => value.set(size),
                13 => narrow(value, 1),
                _ => Err(Code::INVALID_VALUE),
            };
        }
        if self.is_pinned(&HostRange { address: pointer as usize, bytes: 1 }) {
            return match number {
                2 => narrow(value, 1),
                4 => value.set(pointer),
                8 => narrow(value, 0),
                _ => Err(Code::INVALID_VALUE),
            };
        }
        Err(Code::INVALID_VALUE)
    }
}

functions! {
    /// Allocates memory.
    fn cuMemAlloc_v2(pointer: Out<u64>, bytes: usize) |driver| {
        let base = driver.allocate(bytes as u64)?;
        pointer.set(base)
    }

    /// Frees memory.
    fn cuMemFree_v2(pointer: u64) |driver| { driver.free(pointer) }

    /// Allocates memory in the order of a stream.
    fn cuMemAllocAsync(pointer: Out<u64>, bytes: usize, stream: Handle) |driver| {
        let stream = driver.stream(stream)?;
        let base = driver.allocate_ordered(bytes as u64, None, stream)?;
        pointer.set(base)
    }

    /// Allocates memory of a pool in the order of a stream.
    fn cuMemAllocFromPoolAsync(pointer: Out<u64>, bytes: usize, pool: Handle, stream: Handle) |driver| {
        if !driver.pools.contains_key(&pool) {
            return Err(Code::INVALID_VALUE);
        }
        let stream = driver.stream(stream)?;
        let base = driver.allocate_ordered(bytes as u64, Some(pool), stream)?;
        pointer.set(base)
    }

    /// Frees memory in the order of a stream.
    fn cuMemFreeAsync(pointer: u64, stream: Handle) |driver| {
        let stream = driver.stream(stream)?;
        driver.free_ordered(pointer, stream)
    }

    /// Free and total memory of the current device.
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) |driver| {
        let device = driver.current_device()?;
        let all = driver.settings.memory;
        free.set((all - driver.devices[device].used) as usize)?;
        total.set(all as usize)
    }

    /// The allocation an address belongs to.
    fn cuMemGetAddressRange_v2(base: Out<u64>, bytes: Out<usize>, pointer: u64) |driver| {
        driver.context()?;
        let allocation = driver.find(pointer, 1).map_err(|_| Code::NOT_FOUND)?;
        base.set_if_wanted(allocation.base);
        bytes.set_if_wanted(allocation.size as usize);
        Ok(())
    }

    /// Allocates pinned host memory.
    fn cuMemHostAlloc(pointer: Out<usize>, bytes: usize, _flags: u32) |driver| {
        let address = driver.allocate_pinned(bytes)?;
        pointer.set(address)
    }

    /// Allocates pinned host memory.
    fn cuMemAllocHost_v2(pointer: Out<usize>, bytes: usize) |driver| {
        let address = driver.allocate_pinned(bytes)?;
        pointer.set(address)
    }

    /// Frees pinned host memory.
    fn cuMemFreeHost(pointer: Host) |driver| { driver.free_pinned(pointer.address()) }

    /// Pins memory of the program.
    fn cuMemHostRegister_v2(pointer: Host, bytes: usize, _flags: u32) |driver| {
        driver.register_host(pointer.address(), bytes)
    }

    /// Ends the pinning.
    fn cuMemHostUnregister(pointer: Host) |driver| { driver.unregister_host(pointer.address()) }

    /// Flags of pinned memory.
    fn cuMemHostGetFlags(flags: Out<u32>, pointer: Host) |driver| {
        let range = pointer.range(1)?;
        if driver.is_pinned(&range) { flags.set(0) } else { Err(Code::INVALID_VALUE) }
    }

    /// What an address is.
    fn cuPointerGetAttribute(value: Out<u64>, number: i32, pointer: u64) |driver| {
        driver.pointer_attribute(number, pointer, value)
    }

    /// Makes a pool, which shares the memory of its device.
    fn cuMemPoolCreate(pool: Out<Handle>, properties: *const c_void) |driver| {
        if properties.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let device = driver.current_device()?;
        let handle = driver.new_handle();
        driver.pools.insert(handle, device);
        pool.set(handle)
    }

    /// Ends a pool.
    fn cuMemPoolDestroy(pool: Handle) |driver| {
        if driver.devices.iter().any(|device| device.pool == Some(pool)) {
            return Err(Code::INVALID_VALUE);
        }
        driver.pools.remove(&pool).map(|_| ()).ok_or(Code::INVALID_VALUE)
    }

    /// Pools keep nothing back, so there is nothing to trim.
    fn cuMemPoolTrimTo(pool: Handle, _bytes: usize) |driver| {
        driver.pools.get(&pool).map(|_| ()).ok_or(Code::INVALID_VALUE)
    }

    /// What a pool keeps; its other settings change nothing here.
    fn cuMemPoolSetAttribute(pool: Handle, number: i32, value: Out<u64>) |driver| {
        driver.pools.get(&pool).ok_or(Code::INVALID_VALUE)?;
        if number == RELEASE_THRESHOLD {
            driver.keeping.entry(pool).or_default().threshold = value.read()?;
        }
        Ok(())
    }

    /// An attribute of a pool: memory in use, or zero.
    fn cuMemPoolGetAttribute(pool: Handle, number: i32, value: Out<u64>) |driver| {
        let &device = driver.pools.get(&pool).ok_or(Code::INVALID_VALUE)?;
        match number {
            1..=3 => value.narrow().set(1),
            5..=8 => value.set(driver.devices[device].used),
            RELEASE_THRESHOLD => value.set(driver.keeping.get(&pool).map_or(0, |keeping| keeping.threshold)),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}
