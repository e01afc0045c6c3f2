//! Streams that are captured: what is put on them becomes a graph, and what a driver refuses meanwhile is refused.
//!
//! A call that may need the device at once, such as the loading of a module, is refused to the thread that captures, and
//! to every other one while a capture is of the global mode and so is the thread, unless it has asked for the relaxed mode;
//! and it breaks those captures. Memory that a graph allocates stays its own for good.

use super::clock::StreamId;
use super::code::Code;
use super::schedule::Work;
use super::{Driver, Handle, Result};
use std::cell::Cell;
use std::thread::{self, ThreadId};

/// `CU_STREAM_CAPTURE_MODE_GLOBAL`.
const GLOBAL: i32 = 0;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: i32 = 2;
/// Calls that break a capture.
const UNSAFE: [&str; 10] = [
    "cuCtxSynchronize",
    "cuEventQuery",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoD_v2",
    "cuModuleLoadData",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuStreamQuery",
];

thread_local! {
    static MODE: Cell<i32> = const { Cell::new(0) };
}

/// Operations in their order, each with its label.
pub type Graph = Vec<(Work, String)>;

/// A stream that is being captured.
pub struct Capture {
    graph: Graph,
    broken: bool,
    mode: i32,
    /// Which thread has begun it.
    thread: ThreadId,
}

impl Capture {
    /// Whether the calling thread may make no call that needs the device at once.
    fn forbids(&self) -> bool {
        let own = self.thread == thread::current().id();
        self.mode != RELAXED && MODE.get() != RELAXED && (own || self.mode == GLOBAL && MODE.get() == GLOBAL)
    }
}

/// Gives the calling thread another mode; answers the one before.
pub fn exchange_mode(mode: i32) -> i32 {
    MODE.replace(mode)
}

impl Driver {
    /// Refuses a call that a capture does not allow, and breaks it.
    pub(super) fn check_capture(&mut self, name: &str) -> Result<()> {
        if !UNSAFE.contains(&name) {
            return Ok(());
        }
        let mut refused = false;
        for capture in self.captures.values_mut().filter(|capture| capture.forbids()) {
            (capture.broken, refused) = (true, true);
        }
        if refused { Err(Code::STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    fn break_captures(&mut self) {
        for capture in self.captures.values_mut() {
            capture.broken = true;
        }
    }

    /// Whether a stream is being captured; then nothing may wait for it.
    pub(super) fn refuse_waiting(&mut self, stream: StreamId) -> Result<()> {
        match self.captures.get_mut(&stream) {
            Some(capture) => {
                capture.broken = true;
                Err(Code::STREAM_CAPTURE_UNSUPPORTED)
            }
            None => Ok(()),
        }
    }

    /// Takes work into the graph of a captured stream; gives it back for any other.
    pub(super) fn captured(&mut self, stream: StreamId, work: Work, label: String) -> Result<Option<(Work, String)>> {
        if let Some(capture) = self.captures.get_mut(&stream) {
            capture.graph.push((work, label));
            return Ok(None);
        }
        let context = self.streams.get(&stream).map(|stream| stream.context);
        let is_legacy = context.and_then(|context| self.legacy_stream(context)) == Some(stream);
        let waits = |id: &StreamId| self.streams.get(id).is_some_and(|found| found.blocking);
        if is_legacy && self.captures.keys().any(waits) {
            self.break_captures();
            return Err(Code::STREAM_CAPTURE_IMPLICIT);
        }
        Ok(Some((work, label)))
    }

    /// 0 for a stream that is not captured, 1 for one that is, 2 where that was broken.
    pub fn capture_status(&self, stream: StreamId) -> i32 {
        self.captures.get(&stream).map_or(0, |capture| if capture.broken { 2 } else { 1 })
    }

    /// `cuStreamBeginCapture`.
    pub fn begin_capture(&mut self, stream: StreamId, mode: i32) -> Result<()> {
        let context = self.streams.get(&stream).ok_or(Code::INVALID_HANDLE)?.context;
        if self.legacy_stream(context) == Some(stream) {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        if self.captures.contains_key(&stream) {
            return Err(Code::ILLEGAL_STATE);
        }
        let thread = thread::current().id();
        self.captures.insert(stream, Capture { graph: Graph::new(), broken: false, mode, thread });
        Ok(())
    }

    /// `cuStreamEndCapture`.
    pub fn end_capture(&mut self, stream: StreamId) -> Result<Handle> {
        let capture = self.captures.get(&stream).ok_or(Code::ILLEGAL_STATE)?;
        if capture.mode != RELAXED && capture.thread != thread::current().id() {
            return Err(Code::STREAM_CAPTURE_WRONG_THREAD);
        }
        let capture = self.captures.remove(&stream).ok_or(Code::ILLEGAL_STATE)?;
        if capture.broken {
            return Err(Code::STREAM_CAPTURE_INVALIDATED);
        }
        let handle = self.new_handle();
        self.graphs.insert(handle, capture.graph);
        Ok(handle)
    }

    /// `cuGraphInstantiateWithFlags`: a copy that can be launched.
    pub fn instantiate(&mut self, graph: Handle) -> Result<Handle> {
        let copy = self.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?.clone();
        let handle = self.new_handle();
        self.graphs.insert(handle, copy);
        Ok(handle)
    }

    /// `cuGraphLaunch`: its operations, one after the other.
    pub fn launch_graph(&mut self, graph: Handle, stream: StreamId) -> Result<()> {
        for (work, label) in self.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?.clone() {
            self.enqueue(stream, work, label)?;
        }
        Ok(())
    }
}
