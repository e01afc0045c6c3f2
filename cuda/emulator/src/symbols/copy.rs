//! Copies and fills.

use super::arguments::Host;
use super::functions;
use crate::driver::{Driver, Handle, Result, Source, Work, clock::StreamId, code::Code};

/// Whether the call returns before the work is done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Asynchronous,
    Synchronous,
}

impl Driver {
    fn legacy(&mut self) -> Result<StreamId> {
        self.stream(0)
    }

    fn copy_in(&mut self, target: u64, source: &Host, bytes: usize, stream: StreamId, mode: Mode) -> Result<()> {
        let range = source.range(bytes)?;
        self.check_range("a copy from the host", target, bytes as u64)?;
        if bytes == 0 {
            return Ok(());
        }
        let content = range.read().ok_or(Code::INVALID_VALUE)?;
        let pinned = self.is_pinned(&range);
        let source = if pinned && mode == Mode::Asynchronous {
            Source::pinned(range, &content)
        } else {
            Source::Staged(content)
        };
        self.enqueue(stream, Work::ToDevice { target, source }, format!("a copy of {bytes} bytes from the host"))?;
        // From pageable memory even the synchronous copy only waits until the bytes are staged.
        if pinned && mode == Mode::Synchronous { self.synchronise_stream(stream) } else { Ok(()) }
    }

    fn copy_out(&mut self, target: &Host, source: u64, bytes: usize, stream: StreamId, mode: Mode) -> Result<()> {
        let range = target.range(bytes)?;
        self.check_range("a copy to the host", source, bytes as u64)?;
        if bytes == 0 {
            return Ok(());
        }
        let waits = mode == Mode::Synchronous || (self.settings.pageable_blocks && !self.is_pinned(&range));
        if !waits && !range.poison() {
            return Err(Code::INVALID_VALUE);
        }
        let label = format!("a copy of {bytes} bytes to the host");
        self.enqueue(stream, Work::ToHost { source, target: range, untouched: !waits }, label)?;
        if waits { self.synchronise_stream(stream) } else { Ok(()) }
    }

    fn copy_within(&mut self, target: u64, source: u64, bytes: usize, stream: StreamId) -> Result<()> {
        self.check_range("a copy on the device", source, bytes as u64)?;
        self.check_range("a copy on the device", target, bytes as u64)?;
        if bytes == 0 {
            return Ok(());
        }
        let label = format!("a copy of {bytes} bytes on the device");
        self.enqueue(stream, Work::OnDevice { source, target, bytes: bytes as u64 }, label)?;
        Ok(())
    }

    fn fill(&mut self, target: u64, pattern: &[u8], count: usize, stream: StreamId) -> Result<()> {
        let bytes = (count as u64).checked_mul(pattern.len() as u64).ok_or(Code::INVALID_VALUE)?;
        if !target.is_multiple_of(pattern.len() as u64) {
            return Err(Code::INVALID_VALUE);
        }
        self.check_range("a fill", target, bytes)?;
        if count == 0 {
            return Ok(());
        }
        let work = Work::Fill { target, pattern: pattern.to_vec(), count: count as u64 };
        self.enqueue(stream, work, format!("a fill of {bytes} bytes"))?;
        Ok(())
    }

    /// A copy between any two addresses, told apart by their ranges.
    fn any_copy(&mut self, target: u64, source: u64, bytes: usize, stream: StreamId, mode: Mode) -> Result<()> {
        match (self.find(target, 1).is_ok(), self.find(source, 1).is_ok()) {
            (true, true) => self.copy_within(target, source, bytes, stream),
            (true, false) => self.copy_in(target, &Host::from_address(source), bytes, stream, mode),
            (false, true) => self.copy_out(&Host::from_address(target), source, bytes, stream, mode),
            (false, false) => Err(Code::INVALID_VALUE),
        }
    }
}

functions! {
    /// Copies from the host; the order is that of the legacy default stream.
    fn cuMemcpyHtoD_v2(target: u64, source: Host, bytes: usize) |driver| {
        let stream = driver.legacy()?;
        driver.copy_in(target, &source, bytes, stream, Mode::Synchronous)
    }

    /// Copies from the host in the order of a stream.
    fn cuMemcpyHtoDAsync_v2(target: u64, source: Host, bytes: usize, stream: Handle) |driver| {
        let stream = driver.stream(stream)?;
        driver.copy_in(target, &source, bytes, stream, Mode::Asynchronous)
    }

    /// Copies to the host and waits.
    fn cuMemcpyDtoH_v2(target: Host, source: u64, bytes: usize) |driver| {
        let stream = driver.legacy()?;
        driver.copy_out(&target, source, bytes, stream, Mode::Synchronous)
    }

    /// Copies to the host in the order of a stream.
    fn cuMemcpyDtoHAsync_v2(target: Host, source: u64, bytes: usize, stream: Handle) |driver| {
        let stream = driver.stream(stream)?;
        driver.copy_out(&target, source, bytes, stream, Mode::Asynchronous)
    }

    /// Copies on the device; the host does not wait.
    fn cuMemcpyDtoD_v2(target: u64, source: u64, bytes: usize) |driver| {
        let stream = driver.legacy()?;
        driver.copy_within(target, source, bytes, stream)
    }

    /// Copies on the device in the order of a stream.
    fn cuMemcpyDtoDAsync_v2(target: u64, source: u64, bytes: usize, stream: Handle) |driver| {
        let stream = driver.stream(stream)?;
        driver.copy_within(target, source, bytes, stream)
    }

    /// Copies between any two addresses.
    fn cuMemcpy(target: u64, source: u64, bytes: usize) |driver| {
        let stream = driver.legacy()?;
        driver.any_copy(target, source, bytes, stream, Mode::Synchronous)
    }

    /// Copies between any two addresses in the order of a stream.
    fn cuMemcpyAsync(target: u64, source: u64, bytes: usize, stream: Handle) |driver| {
        let stream = driver.stream(stream)?;
        driver.any_copy(target, source, bytes, stream, Mode::Asynchronous)
    }

    /// Copies between devices.
    fn cuMemcpyPeer(target: u64, target_context: Handle, source: u64, source_context: Handle, bytes: usize) |driver| {
        if !driver.contexts.contains_key(&target_context) || !driver.contexts.contains_key(&source_context) {
            return Err(Code::INVALID_CONTEXT);
        }
        let stream = driver.legacy()?;
        driver.copy_within(target, source, bytes, stream)
    }

    /// Copies between devices in the order of a stream.
    fn cuMemcpyPeerAsync(
        target: u64, target_context: Handle, source: u64, source_context: Handle, bytes: usize, stream: Handle,
    ) |driver| {
        if !driver.contexts.contains_key(&target_context) || !driver.contexts.contains_key(&source_context) {
            return Err(Code::INVALID_CONTEXT);
        }
        let stream = driver.stream(stream)?;
        driver.copy_within(target, source, bytes, stream)
    }

    /// Fills bytes; the host does not wait.
    fn cuMemsetD8_v2(target: u64, value: u8, count: usize) |driver| {
        let stream = driver.legacy()?;
        driver.fill(target, &[value], count, stream)
    }

    /// Fills bytes in the order of a stream.
    fn cuMemsetD8Async(target: u64, value: u8, count: usize, stream: Handle) |driver| {
        let stream = driver.stream(stream)?;
        driver.fill(target, &[value], count, stream)
    }

    /// Fills 16-bit values.
    fn cuMemsetD16_v2(target: u64, value: u16, count: usize) |driver| {
        let stream = driver.legacy()?;
        driver.fill(target, &value.to_le_bytes(), count, stream)
    }

    /// Fills 16-bit values in the order of a stream.
    fn cuMemsetD16Async(target: u64, value: u16, count: usize, stream: Handle) |driver| {
        let stream = driver.stream(stream)?;
        driver.fill(target, &value.to_le_bytes(), count, stream)
    }

    /// Fills 32-bit values.
    fn cuMemsetD32_v2(target: u64, value: u32, count: usize) |driver| {
        let stream = driver.legacy()?;
        driver.fill(target, &value.to_le_bytes(), count, stream)
    }

    /// Fills 32-bit values in the order of a stream.
    fn cuMemsetD32Async(target: u64, value: u32, count: usize, stream: Handle) |driver| {
        let stream = driver.stream(stream)?;
        driver.fill(target, &value.to_le_bytes(), count, stream)
    }
}
