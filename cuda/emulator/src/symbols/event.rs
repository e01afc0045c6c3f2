//! Events.

use super::arguments::Out;
use super::functions;
use crate::driver::{Event, Handle, code::Code};

/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: u32 = 2;

functions! {
    /// Makes an event.
    fn cuEventCreate(event: Out<Handle>, flags: u32) |driver| {
        let (context, _) = driver.context()?;
        let handle = driver.new_handle();
        driver.events.insert(handle, Event::new(context, flags & DISABLE_TIMING == 0));
        event.set(handle)
    }

    /// Ends an event.
    fn cuEventDestroy_v2(event: Handle) |driver| {
        driver.context()?;
        driver.events.remove(&event).map(|_| ()).ok_or(Code::INVALID_HANDLE)
    }

    /// Records the work so far of a stream.
    fn cuEventRecord(event: Handle, stream: Handle) |driver| {
        let stream = driver.stream(stream)?;
        driver.record_event(event, stream)
    }

    /// Records the work so far of a stream.
    fn cuEventRecordWithFlags(event: Handle, stream: Handle, _flags: u32) |driver| {
        let stream = driver.stream(stream)?;
        driver.record_event(event, stream)
    }

    /// Records the work so far of all streams of a context.
    fn cuCtxRecordEvent(context: Handle, event: Handle) |driver| { driver.record_context(event, context) }

    /// Waits for an event.
    fn cuEventSynchronize(event: Handle) |driver| {
        driver.context()?;
        driver.synchronise_event(event)
    }

    /// Whether an event was reached. The question itself lets the work proceed, so that polling ends.
    fn cuEventQuery(event: Handle) |driver| {
        driver.context()?;
        driver.synchronise_event(event)
    }

    /// Milliseconds between two events, of the emulator's own time.
    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) |driver| {
        driver.context()?;
        let time = driver.elapsed(start, end)?;
        milliseconds.set(time)
    }

    /// Milliseconds between two events, of the emulator's own time.
    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: Handle, end: Handle) |driver| {
        driver.context()?;
        let time = driver.elapsed(start, end)?;
        milliseconds.set(time)
    }
}
