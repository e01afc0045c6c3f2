//! Work is queued per stream and executed only when the program asks for its effect.
//!
//! The order the program asked for is a vector clock on each operation. An operation runs after everything its clock
//! covers and is free to run before everything else; two operations whose clocks do not cover each other and that
//! touch the same bytes are a race, in whatever order they happened to run.

use super::clock::{StreamId, VectorClock};
use super::code::Code;
use super::host::{HostRange, digest};
use super::{Driver, Handle, Result};
use crate::memory::Span;
use crate::program::Program;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Bytes that a copy brings to the device.
#[derive(Clone)]
pub enum Source {
    /// Taken when the copy was queued, as a driver stages pageable memory.
    Staged(Vec<u8>),
    /// Read when the copy runs, with a digest of what it was when queued.
    Pinned(HostRange, u64),
}

impl Source {
    /// Pinned memory and what it holds now.
    pub fn pinned(range: HostRange, content: &[u8]) -> Self {
        Self::Pinned(range, digest(content))
    }
}

/// One queued operation.
#[derive(Clone)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub enum Work {
    /// A copy from the host.
    ToDevice { target: u64, source: Source },
    /// A copy to the host; `untouched`: the target was poisoned and nothing of ours has written there since.
    ToHost { source: u64, target: HostRange, untouched: bool },
    /// A copy on the device.
    OnDevice { source: u64, target: u64, bytes: u64 },
    /// A fill with a repeated pattern.
    Fill { target: u64, pattern: Vec<u8>, count: u64 },
    /// A kernel launch.
    Launch { program: Arc<Program>, grid: [u32; 3], block: [u32; 3], parameters: Vec<u8>, dynamic_shared: u64 },
    /// Stream-ordered birth of an allocation.
    Allocate,
    /// Stream-ordered end of an allocation.
    Free { base: u64 },
    /// The record of an event.
    Record { event: Handle },
    /// A function of the program.
    HostCall { function: unsafe extern "C" fn(*mut c_void), data: usize },
}

impl Work {
    /// Whether somebody would miss it if it never ran.
    pub fn has_effect(&self) -> bool {
        matches!(self, Self::ToHost { .. } | Self::HostCall { .. })
    }
}

/// An operation in a queue.
pub struct Queued {
    pub number: u64,
    pub clock: VectorClock,
    pub work: Work,
    /// What it is, for reports.
    pub label: String,
}

/// An operation that ran.
pub struct Executed {
    pub stream: StreamId,
    pub number: u64,
    pub spans: Range<Span>,
    pub label: String,
}

impl Driver {
    /// Queues work on a stream and returns its number.
    pub fn enqueue(&mut self, stream: StreamId, work: Work, label: String) -> Result<u64> {
        let (context, blocking) = match self.streams.get(&stream) {
            Some(found) => (found.context, found.blocking),
            None => return Err(Code::INVALID_HANDLE),
        };
        let Some((work, label)) = self.captured(stream, work, label)? else { return Ok(0) };
        let mut clock = self.host.clone();
        let legacy = self.legacy_stream(context);
        if legacy == Some(stream) {
            // The legacy stream waits for all blocking streams of its context …
            for other in self.streams.values().filter(|other| other.blocking && other.context == context) {
                clock.join(&other.clock);
            }
        } else if blocking && let Some(legacy) = legacy.and_then(|legacy| self.streams.get(&legacy)) {
            // … and they wait for it.
            clock.join(&legacy.clock);
        }
        let target = self.streams.get_mut(&stream).ok_or(Code::INVALID_HANDLE)?;
        clock.join(&target.clock);
        target.issued += 1;
        let number = target.issued;
        clock.raise(stream, number);
        target.clock = clock.clone();
        target.queue.push_back(Queued { number, clock, work, label });
        Ok(number)
    }

    /// Runs a stream up to an operation, with everything that comes before it.
    fn run_until(&mut self, stream: StreamId, number: u64) {
        loop {
            let Some(found) = self.streams.get_mut(&stream) else { return };
            if found.executed >= number {
                return;
            }
            let context = found.context;
            let Some(next) = found.queue.pop_front() else {
                found.executed = found.issued;
                return;
            };
            let before: Vec<(StreamId, u64)> = next.clock.entries().filter(|&(other, _)| other != stream).collect();
            for (other, other_number) in before {
                self.run_until(other, other_number);
            }
            let failed = self.contexts.get(&context).is_none_or(|context| context.error.is_some());
            let done = next.number;
            match next.work {
                // Memory comes back even where nothing runs any more.
                Work::Free { base } if failed => drop(self.release(base)),
                _ if failed => {}
                _ => self.execute(stream, context, next),
            }
            if let Some(found) = self.streams.get_mut(&stream) {
                found.executed = found.executed.max(done);
            }
        }
    }

    fn context_error(&self, context: Handle) -> Result<()> {
        self.contexts.get(&context).and_then(|context| context.error).map_or(Ok(()), Err)
    }

    /// The host waits for everything on a stream.
    pub fn synchronise_stream(&mut self, stream: StreamId) -> Result<()> {
        self.refuse_waiting(stream)?;
        let Some(found) = self.streams.get(&stream) else { return Err(Code::INVALID_HANDLE) };
        let (issued, clock, context) = (found.issued, found.clock.clone(), found.context);
        self.run_until(stream, issued);
        self.host.join(&clock);
        self.trim_pools();
        self.forget_settled();
        self.context_error(context)
    }

    /// The host waits for everything in a context.
    pub fn synchronise_context(&mut self, context: Handle) -> Result<()> {
        let streams: Vec<StreamId> =
            self.streams.iter().filter(|(_, stream)| stream.context == context).map(|(&id, _)| id).collect();
        for stream in streams {
            self.synchronise_stream(stream)?;
        }
        self.context_error(context)
    }

    /// Records an event on a stream.
    pub fn record_event(&mut self, event: Handle, stream: StreamId) -> Result<()> {
        let context = self.events.get(&event).ok_or(Code::INVALID_HANDLE)?.context;
        if self.streams.get(&stream).is_none_or(|stream| stream.context != context) {
            return Err(Code::INVALID_HANDLE);
        }
        let number = self.enqueue(stream, Work::Record { event }, "an event record".to_string())?;
        let clock = self.streams.get(&stream).map(|stream| stream.clock.clone()).unwrap_or_default();
        if let Some(event) = self.events.get_mut(&event) {
            (event.recorded, event.time) = (Some((stream, number, clock)), None);
        }
        Ok(())
    }

    /// Records an event for all streams of a context.
    pub fn record_context(&mut self, event: Handle, context: Handle) -> Result<()> {
        let streams: Vec<StreamId> =
            self.streams.iter().filter(|(_, stream)| stream.context == context).map(|(&id, _)| id).collect();
        if streams.iter().any(|stream| self.refuse_waiting(*stream).is_err()) {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        let legacy = self.legacy_stream(context).ok_or(Code::INVALID_CONTEXT)?;
        self.record_event(event, legacy)?;
        for stream in streams {
            let clock = self.streams.get(&stream).map(|stream| stream.clock.clone()).unwrap_or_default();
            if let Some((_, _, recorded)) = self.events.get_mut(&event).and_then(|event| event.recorded.as_mut()) {
                recorded.join(&clock);
            }
        }
        Ok(())
    }

    /// A stream waits for an event; one that was never recorded is complete.
    pub fn wait_event(&mut self, stream: StreamId, event: Handle) -> Result<()> {
        let event = self.events.get(&event).ok_or(Code::INVALID_HANDLE)?;
        if let Some((_, _, clock)) = &event.recorded {
            let clock = clock.clone();
            self.streams.get_mut(&stream).ok_or(Code::INVALID_HANDLE)?.clock.join(&clock);
        }
        Ok(())
    }

    /// The host waits for an event.
    pub fn synchronise_event(&mut self, event: Handle) -> Result<()> {
        let event = self.events.get(&event).ok_or(Code::INVALID_HANDLE)?;
        let context = event.context;
        if let Some((stream, number, clock)) = event.recorded.clone() {
            self.run_until(stream, number);
            for (other, before) in clock.entries() {
                self.run_until(other, before);
            }
            self.host.join(&clock);
            self.trim_pools();
            self.forget_settled();
        }
        self.context_error(context)
    }

    /// Milliseconds between two events that were recorded and reached.
    pub fn elapsed(&self, start: Handle, end: Handle) -> Result<f32> {
        let time = |handle: Handle| -> Result<Instant> {
            let event = self.events.get(&handle).ok_or(Code::INVALID_HANDLE)?;
            match (&event.recorded, event.timing) {
                (Some(_), true) => event.time.ok_or(Code::NOT_READY),
                _ => Err(Code::INVALID_HANDLE),
            }
        };
        let (start, end) = (time(start)?, time(end)?);
        Ok(end.saturating_duration_since(start).as_secs_f32() * 1e3)
    }

    /// Spans of executed operations that a clock does not cover.
    pub(super) fn unordered(&self, clock: &VectorClock) -> Vec<Range<Span>> {
        let unknown = self.executed.iter().filter(|past| !clock.covers(past.stream, past.number));
        unknown.map(|past| past.spans.clone()).collect()
    }

    /// Drops the memory of operations that everything to come is ordered after.
    fn forget_settled(&mut self) {
        if self.streams.values().all(|stream| stream.queue.is_empty()) {
            let host = &self.host;
            self.executed.retain(|past| !host.covers(past.stream, past.number));
            self.settle_births();
        }
    }
}
