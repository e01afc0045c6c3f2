//! Streams.

use super::arguments::Out;
use super::functions;
use crate::driver::{Handle, code::Code};

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

functions! {
    /// Makes a stream.
    fn cuStreamCreate(stream: Out<Handle>, flags: u32) |driver| {
        if flags > NON_BLOCKING {
            return Err(Code::INVALID_VALUE);
        }
        let handle = driver.new_stream(flags != NON_BLOCKING)?;
        stream.set(handle)
    }

    /// Makes a stream; priorities change nothing here.
    fn cuStreamCreateWithPriority(stream: Out<Handle>, flags: u32, _priority: i32) |driver| {
        if flags > NON_BLOCKING {
            return Err(Code::INVALID_VALUE);
        }
        let handle = driver.new_stream(flags != NON_BLOCKING)?;
        stream.set(handle)
    }

    /// Ends a stream; what is queued still runs when something asks for it.
    fn cuStreamDestroy_v2(stream: Handle) |driver| {
        let id = driver.stream(stream)?;
        match driver.streams.get_mut(&id) {
            Some(found) if found.is_owned() => {
                found.alive = false;
                Ok(())
            }
            _ => Err(Code::INVALID_HANDLE),
        }
    }

    /// Waits for a stream.
    fn cuStreamSynchronize(stream: Handle) |driver| {
        let stream = driver.stream(stream)?;
        driver.synchronise_stream(stream)
    }

    /// Whether a stream is done. The question itself lets the work proceed, so that polling ends.
    fn cuStreamQuery(stream: Handle) |driver| {
        let stream = driver.stream(stream)?;
        driver.synchronise_stream(stream)
    }

    /// Makes a stream wait for an event.
    fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: u32) |driver| {
        let stream = driver.stream(stream)?;
        driver.wait_event(stream, event)
    }

    /// Context of a stream.
    fn cuStreamGetCtx(stream: Handle, context: Out<Handle>) |driver| {
        let id = driver.stream(stream)?;
        let found = driver.streams.get(&id).ok_or(Code::INVALID_HANDLE)?.context;
        context.set(found)
    }

    /// Flags of a stream.
    fn cuStreamGetFlags(stream: Handle, flags: Out<u32>) |driver| {
        let id = driver.stream(stream)?;
        let blocking = driver.streams.get(&id).ok_or(Code::INVALID_HANDLE)?.blocking;
        flags.set(u32::from(!blocking))
    }

    /// Priority of a stream.
    fn cuStreamGetPriority(stream: Handle, priority: Out<i32>) |driver| {
        driver.stream(stream)?;
        priority.set(0)
    }
}
