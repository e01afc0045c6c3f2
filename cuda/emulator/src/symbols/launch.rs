//! Launches and occupancy.

use super::arguments::{Out, Pointers};
use super::functions;
use crate::driver::{Driver, Handle, Result, Work, code::Code};
use crate::program::Program;
use std::ffi::c_void;

/// Threads a multiprocessor holds.
const THREADS: i32 = 1024;

fn parameters(program: &Program, pointers: &Pointers, extra: &Pointers) -> Result<Vec<u8>> {
    let size = program.parameter_bytes();
    if !extra.is_null() {
        let buffer = extra.packed_buffer()?;
        return if pointers.is_null() && buffer.len() >= size { Ok(buffer) } else { Err(Code::INVALID_VALUE) };
    }
    if pointers.is_null() && size > 0 {
        return Err(Code::INVALID_VALUE);
    }
    let mut buffer = vec![0; size];
    for (index, parameter) in program.parameters.iter().enumerate() {
        pointers.read(index, &mut buffer[parameter.offset..parameter.offset + parameter.size])?;
    }
    Ok(buffer)
}

impl Driver {
    fn blocks_per_multiprocessor(&mut self, function: Handle, threads: i32, shared: usize) -> Result<i32> {
        let program = self.function(function)?.program.clone();
        if threads <= 0 || threads > THREADS {
            return Err(Code::INVALID_VALUE);
        }
        let bytes = (program.static_shared as usize + shared).max(1);
        let by_shared = (crate::machine::SHARED_LIMIT_OPT_IN as usize / bytes) as i32;
        Ok((THREADS / threads).min(16).min(by_shared))
    }
}

functions! {
    /// Launches a kernel.
    fn cuLaunchKernel(
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: Handle, pointers: Pointers, extra: Pointers,
    ) |driver| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let parameters = |program: &Program| parameters(program, &pointers, &extra);
        driver.queue_launch(function, grid, block, shared.into(), stream, parameters)
    }

    /// Launches a kernel whose blocks may wait for each other, which no supported instruction does.
    fn cuLaunchCooperativeKernel(
        function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
        stream: Handle, pointers: Pointers,
    ) |driver| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let parameters = |program: &Program| parameters(program, &pointers, &Pointers::NONE);
        driver.queue_launch(function, grid, block, shared.into(), stream, parameters)
    }

    /// Calls a function of the program when the stream reaches it.
    fn cuLaunchHostFunc(
        stream: Handle, function: Option<unsafe extern "C" fn(*mut c_void)>, data: *mut c_void,
    ) |driver| {
        let stream = driver.stream(stream)?;
        let function = function.ok_or(Code::INVALID_VALUE)?;
        driver.enqueue(stream, Work::HostCall { function, data: data as usize }, "a host function".to_string())?;
        Ok(())
    }

    /// Blocks of a kernel that fit a multiprocessor.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: Out<i32>, function: Handle, threads: i32, shared: usize,
    ) |driver| {
        let count = driver.blocks_per_multiprocessor(function, threads, shared)?;
        blocks.set(count)
    }

    /// Blocks of a kernel that fit a multiprocessor.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: Out<i32>, function: Handle, threads: i32, shared: usize, _flags: u32,
    ) |driver| {
        let count = driver.blocks_per_multiprocessor(function, threads, shared)?;
        blocks.set(count)
    }
}
