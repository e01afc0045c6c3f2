//! The execution of queued work.

use super::clock::{StreamId, VectorClock};
use super::code::Code;
use super::host::{HostRange, POISON, digest};
use super::schedule::{Executed, Queued, Source, Work};
use super::{Driver, Handle};
use crate::machine::{Launch, Outcome, describe_fault};
use crate::memory::{Accessor, Clocks, Conflict, NO_LINE, Span};
use crate::program::Program;
use crate::report::Kind;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// An operation while it runs.
struct Running<'a> {
    context: Handle,
    device: usize,
    clock: &'a VectorClock,
    label: &'a str,
    span: Span,
    unordered: Vec<Range<Span>>,
}

static NO_CLOCKS: Clocks = Clocks::START;

impl Running<'_> {
    /// A copy, fill or free as an access.
    fn accessor(&self) -> Accessor<'_> {
        Accessor {
            span: self.span,
            first_span: self.span,
            own_spans: std::slice::from_ref(&self.span),
            unordered: &self.unordered,
            warp: 0,
            lane: 0,
            clocks: &NO_CLOCKS,
            step: NO_LINE,
        }
    }
}

impl Driver {
    pub(super) fn execute(&mut self, stream: StreamId, context: Handle, queued: Queued) {
        let device = self.contexts.get(&context).map_or(0, |context| context.device);
        let span = self.spans.fetch_add(1, Ordering::Relaxed);
        let unordered = self.unordered(&queued.clock);
        let running = Running { context, device, clock: &queued.clock, label: &queued.label, span, unordered };
        let before = self.published();
        match queued.work {
            Work::ToDevice { target, source } => self.copy_to_device(&running, target, source),
            Work::ToHost { source, target, untouched } => self.copy_to_host(&running, source, target, untouched),
            Work::OnDevice { source, target, bytes } => self.copy_on_device(&running, source, target, bytes),
            Work::Fill { target, pattern, count } => {
                let bytes = pattern.repeat(count as usize);
                self.write_device(&running, target, &bytes);
            }
            Work::Launch { program, grid, block, parameters, dynamic_shared } => {
                self.launch(&running, &program, grid, block, &parameters, dynamic_shared);
            }
            Work::Allocate => {}
            Work::Free { base } => {
                if let Some(allocation) = self.release(base)
                    && !running.unordered.is_empty()
                {
                    let conflict = allocation.release(&running.accessor());
                    self.conflict(&running, base, conflict);
                }
            }
            Work::Record { event } => {
                if let Some(event) = self.events.get_mut(&event)
                    && event.recorded.as_ref().is_some_and(|(at, number, _)| (*at, *number) == (stream, queued.number))
                {
                    event.time = Some(Instant::now());
                }
            }
            // SAFETY: the program gave this function with this argument to be called when the stream reaches it.
            Work::HostCall { function, data } => unsafe { function(data as *mut _) },
        }
        let end = self.spans.load(Ordering::Relaxed);
        self.executed.push(Executed { stream, number: queued.number, spans: span..end, label: queued.label });
        if self.published() > before {
            self.fail_context(context, Code::LAUNCH_FAILED);
        }
    }

    /// Fills a module's variable before anything can use it.
    pub(super) fn initialise(&mut self, address: u64, bytes: &[u8]) {
        let span = self.spans.fetch_add(1, Ordering::Relaxed);
        let clock = VectorClock::default();
        let running = Running { context: 0, device: 0, clock: &clock, label: "", span, unordered: Vec::new() };
        if let Ok(allocation) = self.find(address, bytes.len() as u64) {
            allocation.write(0, bytes, &running.accessor());
        }
    }

    /// Reports so far, after printing new ones.
    fn published(&mut self) -> usize {
        self.publish();
        self.reports.len()
    }

    /// Ends a context: a fault always, other findings only where the settings are strict.
    fn fail_context(&mut self, context: Handle, code: Code) {
        let strict = self.settings.strict || code != Code::LAUNCH_FAILED;
        if let Some(context) = self.contexts.get_mut(&context)
            && strict
        {
            context.error.get_or_insert(code);
        }
    }

    /// Names the operation a span belongs to.
    fn history(executed: &[Executed], span: Span) -> String {
        let found = executed.iter().find(|past| past.spans.contains(&span));
        found.map_or("an earlier operation".to_string(), |past| past.label.clone())
    }

    fn conflict(&mut self, running: &Running<'_>, address: u64, conflict: Option<Conflict>) {
        let Some(conflict) = conflict else { return };
        let (label, at) = (running.label, format!("memory at {address:#x}"));
        let (kind, detail) = match conflict {
            Conflict::Uninitialised => {
                (Kind::UninitialisedRead, format!("{label} reads {at}, part of which was never written"))
            }
            Conflict::AfterWrite(earlier) | Conflict::AfterRead(earlier) | Conflict::Noncoherent(earlier) => {
                let did = if matches!(conflict, Conflict::AfterWrite(_)) { "written" } else { "read" };
                let other = Self::history(&self.executed, earlier.span);
                (Kind::StreamRace, format!("{label} uses {at}, {did} by {other} with no order between them"))
            }
        };
        self.report(kind, || detail);
    }

    /// Checks the birth of the memory an operation uses.
    fn check_birth(&mut self, running: &Running<'_>, address: u64) {
        let unborn = self.unborn(running.clock);
        if let Ok(allocation) = self.find(address, 1)
            && unborn.contains(&allocation.base)
        {
            let label = running.label;
            self.report(Kind::UnorderedUse, || {
                format!("{label} uses memory at {address:#x}, allocated by a stream it is not ordered after")
            });
        }
    }

    fn fault(&mut self, running: &Running<'_>, address: u64, bytes: u64) {
        if let Err(fault) = self.find(address, bytes) {
            let (kind, detail) = describe_fault(fault, address, &format!("{} at {address:#x}", running.label));
            self.report(kind, || detail);
            self.publish();
            self.fail_context(running.context, Code::ILLEGAL_ADDRESS);
        }
    }

    fn write_device(&mut self, running: &Running<'_>, target: u64, bytes: &[u8]) {
        let Ok(allocation) = self.find(target, bytes.len() as u64).cloned() else {
            return self.fault(running, target, bytes.len() as u64);
        };
        self.check_birth(running, target);
        let conflict = allocation.write(target - allocation.base, bytes, &running.accessor());
        self.conflict(running, target, conflict);
    }

    fn copy_to_device(&mut self, running: &Running<'_>, target: u64, source: Source) {
        let bytes = match source {
            Source::Staged(bytes) => bytes,
            Source::Pinned(range, before) => {
                let label = running.label;
                match range.read() {
                    Some(bytes) => {
                        if digest(&bytes) != before {
                            self.report(Kind::HostBufferChanged, || {
                                format!("the source of {label} changed before the copy was waited for")
                            });
                        }
                        bytes
                    }
                    None => {
                        return self.report(Kind::HostBufferChanged, || format!("the source of {label} is gone"));
                    }
                }
            }
        };
        self.write_device(running, target, &bytes);
    }

    fn copy_to_host(&mut self, running: &Running<'_>, source: u64, target: HostRange, untouched: bool) {
        let Ok(allocation) = self.find(source, target.bytes as u64).cloned() else {
            return self.fault(running, source, target.bytes as u64);
        };
        self.check_birth(running, source);
        let mut bytes = vec![0; target.bytes];
        let conflict = allocation.read(source - allocation.base, &mut bytes, &running.accessor(), false);
        self.conflict(running, source, conflict);
        let label = running.label;
        if untouched {
            match target.read() {
                None => return self.report(Kind::HostBufferChanged, || format!("the target of {label} is gone")),
                Some(found) if found.iter().any(|&byte| byte != POISON) => {
                    // Writing now could overwrite what the memory has become since.
                    return self.report(Kind::HostBufferChanged, || {
                        format!("the target of {label} was freed or written before the copy was waited for")
                    });
                }
                Some(_) => {}
            }
        }
        if !target.write(&bytes) {
            self.report(Kind::HostBufferChanged, || format!("the target of {label} is gone"));
        }
        self.mark_touched(&target);
    }

    /// Other pending copies into the same host memory will not find their poison.
    fn mark_touched(&mut self, range: &HostRange) {
        for stream in self.streams.values_mut() {
            for queued in &mut stream.queue {
                if let Work::ToHost { target, untouched, .. } = &mut queued.work
                    && target.overlaps(range)
                {
                    *untouched = false;
                }
            }
        }
    }

    fn copy_on_device(&mut self, running: &Running<'_>, source: u64, target: u64, bytes: u64) {
        for address in [source, target] {
            if self.find(address, bytes).is_err() {
                return self.fault(running, address, bytes);
            }
            self.check_birth(running, address);
        }
        let (Ok(from), Ok(to)) = (self.find(source, bytes).cloned(), self.find(target, bytes).cloned()) else {
            return;
        };
        let mut buffer = vec![0; bytes as usize];
        let initialised = from.initialised(source - from.base, bytes);
        // Copies keep unwritten bytes unwritten; reading them is an error only where a value is wanted.
        let conflict = from.read(source - from.base, &mut buffer, &running.accessor(), true);
        self.conflict(running, source, conflict);
        let conflict = to.write(target - to.base, &buffer, &running.accessor());
        self.conflict(running, target, conflict);
        to.forget_writes(target - to.base, &initialised);
    }

    fn launch(
        &mut self,
        running: &Running<'_>,
        program: &Program,
        grid: [u32; 3],
        block: [u32; 3],
        parameters: &[u8],
        dynamic_shared: u64,
    ) {
        let unborn = self.unborn(running.clock);
        let peers = self.contexts.get(&running.context).map(|context| context.peers.clone()).unwrap_or_default();
        let executed = &self.executed;
        let outcome = Launch {
            program,
            grid,
            block,
            parameters,
            dynamic_shared,
            device: running.device,
            space: &self.space,
            spans: &self.spans,
            first_span: running.span + 1,
            unordered: &running.unordered,
            unborn: &unborn,
            peers: &peers,
            history: &|span| Self::history(executed, span),
            reports: &self.found,
            watchdog: self.settings.watchdog,
            workers: self.settings.workers,
        }
        .run();
        let Outcome { counters, fault } = outcome;
        self.launches.push(format!(
            "{{\"kernel\": \"{}\", \"grid\": {grid:?}, \"block\": {block:?}, \"shared_bytes\": {}, {}}}",
            program.name,
            program.static_shared + dynamic_shared,
            counters.json_members()
        ));
        self.publish();
        if let Some(kind) = fault {
            let code = match kind {
                Kind::Misaligned => Code::MISALIGNED_ADDRESS,
                Kind::Watchdog => Code::LAUNCH_TIMEOUT,
                Kind::DivergentBarrier | Kind::MissingBarrier => Code::LAUNCH_FAILED,
                _ => Code::ILLEGAL_ADDRESS,
            };
            if let Some(context) = self.contexts.get_mut(&running.context) {
                context.error.get_or_insert(code);
            }
        }
    }
}
