//! Devices, contexts, streams and events.

use super::clock::{StreamId, VectorClock};
use super::code::Code;
use super::schedule::Queued;
use super::{Driver, Handle, Result, current_context};
use std::collections::{HashMap, VecDeque};
use std::thread::ThreadId;
use std::time::Instant;

/// Handle of the legacy default stream besides null.
const LEGACY: Handle = 1;
/// Handle of the calling thread's default stream.
const PER_THREAD: Handle = 2;

/// One device.
pub struct Device {
    /// Compute capability times ten.
    pub architecture: u32,
    /// Bytes in use.
    pub used: u64,
    /// The primary context and how often it is retained.
    pub primary: Option<(Handle, u32)>,
    /// Handle of the default pool, once asked for.
    pub pool: Option<Handle>,
}

impl Device {
    pub fn new(architecture: u32) -> Self {
        Self { architecture, used: 0, primary: None, pool: None }
    }
}

/// One context.
pub struct Context {
    /// Ordinal of its device.
    pub device: usize,
    /// The error that ended it; every later call answers with it.
    pub error: Option<Code>,
    /// Devices whose memory it may use.
    pub peers: Vec<usize>,
    legacy: StreamId,
    per_thread: HashMap<ThreadId, StreamId>,
}

/// One stream and the work queued on it.
pub struct Stream {
    /// The context it belongs to.
    pub context: Handle,
    /// Whether it waits for the legacy default stream and the other way round.
    pub blocking: bool,
    /// Made by `cuStreamCreate` and not destroyed.
    owned: bool,
    /// Whether its handle is still valid.
    pub alive: bool,
    pub(super) queue: VecDeque<Queued>,
    /// Operations queued so far.
    pub(super) issued: u64,
    /// Operations executed so far.
    pub(super) executed: u64,
    /// What the next operation comes after.
    pub(super) clock: VectorClock,
}

impl Stream {
    fn new(context: Handle, blocking: bool, owned: bool, clock: VectorClock) -> Self {
        Self { context, blocking, owned, alive: true, queue: VecDeque::new(), issued: 0, executed: 0, clock }
    }

    /// Made by the program and not destroyed yet.
    pub fn is_owned(&self) -> bool {
        self.owned && self.alive
    }

    /// What is queued, in words.
    pub fn pending_labels(&self) -> impl Iterator<Item = String> {
        self.queue.iter().filter(|queued| queued.work.has_effect()).map(|queued| queued.label.clone())
    }
}

/// One event.
pub struct Event {
    /// The context it belongs to.
    pub context: Handle,
    /// Whether it may be used to measure time.
    pub timing: bool,
    /// The stream and number of its record, and what comes before it.
    pub(super) recorded: Option<(StreamId, u64, VectorClock)>,
    /// When the record was executed.
    pub(super) time: Option<Instant>,
}

impl Event {
    /// An event that was never recorded.
    pub fn new(context: Handle, timing: bool) -> Self {
        Self { context, timing, recorded: None, time: None }
    }
}

impl Driver {
    /// The device of an ordinal.
    pub fn device(&mut self, ordinal: i32) -> Result<&mut Device> {
        if !self.initialised {
            return Err(Code::NOT_INITIALIZED);
        }
        usize::try_from(ordinal).ok().and_then(|index| self.devices.get_mut(index)).ok_or(Code::INVALID_DEVICE)
    }

    /// Makes a context on a device.
    pub fn new_context(&mut self, ordinal: i32) -> Result<Handle> {
        self.device(ordinal)?;
        let handle = self.new_handle();
        let legacy = self.new_handle();
        self.streams.insert(legacy, Stream::new(handle, true, false, self.host.clone()));
        let device = ordinal as usize;
        let context = Context { device, error: None, peers: Vec::new(), legacy, per_thread: HashMap::new() };
        self.contexts.insert(handle, context);
        Ok(handle)
    }

    /// Ends a context with everything in it.
    pub fn end_context(&mut self, handle: Handle) -> Result<()> {
        let context = self.contexts.get(&handle).ok_or(Code::INVALID_CONTEXT)?;
        let device = context.device;
        // Destruction waits for the device, but nobody can learn any more that the work is done. A context that
        // failed has nothing left to run.
        if context.error.is_none() {
            self.report_abandoned(Some(handle));
            let _ = self.synchronise_context(handle);
        }
        self.contexts.remove(&handle);
        self.streams.retain(|_, stream| stream.context != handle);
        self.events.retain(|_, event| event.context != handle);
        let modules: Vec<Handle> =
            self.modules.iter().filter(|(_, module)| module.context == handle).map(|(&handle, _)| handle).collect();
        for module in modules {
            self.unload_module(module)?;
        }
        if !self.contexts.values().any(|other| other.device == device) {
            self.free_device_memory(device);
        }
        Ok(())
    }

    /// The current context, unless it has failed.
    pub fn context(&self) -> Result<(Handle, &Context)> {
        if !self.initialised {
            return Err(Code::NOT_INITIALIZED);
        }
        let handle = current_context().ok_or(Code::INVALID_CONTEXT)?;
        let context = self.contexts.get(&handle).ok_or(Code::CONTEXT_IS_DESTROYED)?;
        context.error.map_or(Ok((handle, context)), Err)
    }

    /// Ordinal of the current device.
    pub fn current_device(&self) -> Result<usize> {
        self.context().map(|(_, context)| context.device)
    }

    /// The stream a handle names for the calling thread.
    pub fn stream(&mut self, handle: Handle) -> Result<StreamId> {
        let (context_handle, context) = self.context()?;
        match handle {
            0 | LEGACY => Ok(context.legacy),
            PER_THREAD => {
                let thread = std::thread::current().id();
                if let Some(&stream) = context.per_thread.get(&thread) {
                    return Ok(stream);
                }
                let stream = self.new_handle();
                let clock = self.host.clone();
                self.streams.insert(stream, Stream::new(context_handle, true, false, clock));
                if let Some(context) = self.contexts.get_mut(&context_handle) {
                    context.per_thread.insert(thread, stream);
                }
                Ok(stream)
            }
            _ => match self.streams.get(&handle) {
                Some(stream) if stream.is_owned() => Ok(handle),
                _ => Err(Code::INVALID_HANDLE),
            },
        }
    }

    /// The legacy default stream of a context.
    pub fn legacy_stream(&self, context: Handle) -> Option<StreamId> {
        self.contexts.get(&context).map(|context| context.legacy)
    }

    /// Makes a stream in the current context.
    pub fn new_stream(&mut self, blocking: bool) -> Result<Handle> {
        let (context, _) = self.context()?;
        let handle = self.new_handle();
        self.streams.insert(handle, Stream::new(context, blocking, true, self.host.clone()));
        Ok(handle)
    }
}
