//! A launch: what it may know, and what its workers share.

use super::counters::Counters;
use crate::memory::{AddressSpace, Earlier, NO_LINE, Span};
use crate::program::Program;
use crate::report::{Collector, Kind, Place};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// One kernel launch and all it may know.
pub struct Launch<'a> {
    /// The kernel.
    pub program: &'a Program,
    /// Blocks along each axis.
    pub grid: [u32; 3],
    /// Threads of a block along each axis.
    pub block: [u32; 3],
    /// The parameter buffer.
    pub parameters: &'a [u8],
    /// Bytes of shared memory beyond the static variables.
    pub dynamic_shared: u64,
    /// Ordinal of the device.
    pub device: usize,
    /// Every allocation.
    pub space: &'a AddressSpace,
    /// The source of span numbers.
    pub spans: &'a AtomicU32,
    /// The first span of this launch.
    pub first_span: Span,
    /// Spans of earlier operations that are not ordered before this launch.
    pub unordered: &'a [Range<Span>],
    /// Allocations whose stream-ordered birth is not ordered before this launch.
    pub unborn: &'a HashSet<u64>,
    /// Devices whose memory this launch may use besides its own.
    pub peers: &'a [usize],
    /// Names the operation a span of the past belongs to.
    pub history: &'a (dyn Fn(Span) -> String + Sync),
    /// Where findings go.
    pub reports: &'a Collector,
    /// Instructions a warp may issue before it counts as hung.
    pub watchdog: u64,
    /// Threads to run blocks on.
    pub workers: usize,
}

/// How a launch ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What it did.
    pub counters: Counters,
    /// The finding that ended it early, if one did.
    pub fault: Option<Kind>,
}

/// What the workers of a launch share.
pub(super) struct Shared<'a> {
    pub launch: &'a Launch<'a>,
    pub next_block: AtomicU64,
    pub stop: AtomicBool,
    pub fault: Mutex<Option<Kind>>,
    /// The block of each span, for reports.
    pub span_blocks: Mutex<Vec<(Span, u64)>>,
}

impl Launch<'_> {
    /// A linear index as coordinates.
    pub(super) fn coordinates(index: u64, extents: [u32; 3]) -> [u32; 3] {
        let [x, y, _] = extents.map(u64::from);
        [(index % x) as u32, (index / x % y) as u32, (index / (x * y)) as u32]
    }
}

impl Shared<'_> {
    /// A fresh span for a block.
    pub fn new_span(&self, block: u64) -> Span {
        let span = self.launch.spans.fetch_add(1, Ordering::Relaxed);
        assert!(span < Span::MAX / 2, "the emulator ran out of span numbers");
        self.span_blocks.lock().unwrap_or_else(PoisonError::into_inner).push((span, block));
        span
    }

    /// Ends the launch.
    pub fn abort(&self, kind: Kind) {
        self.stop.store(true, Ordering::Relaxed);
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(kind);
    }

    /// Reports a finding.
    pub fn report(&self, kind: Kind, step: u32, block: u64, thread: u32, detail: impl FnOnce() -> String) {
        let launch = self.launch;
        let place = Place {
            kernel: launch.program.name.clone(),
            line: launch.program.steps[step as usize].line,
            block: Launch::coordinates(block, launch.grid),
            thread: Launch::coordinates(thread.into(), launch.block),
        };
        launch.reports.add(kind, Some(place), detail);
    }

    /// Describes the other side of a conflict.
    pub fn describe(&self, earlier: Earlier) -> String {
        if earlier.span < self.launch.first_span {
            return (self.launch.history)(earlier.span);
        }
        let blocks = self.span_blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let block = blocks.iter().find(|(span, _)| *span == earlier.span).map(|&(_, block)| block);
        let block = block.map_or("another block".to_string(), |block| {
            format!("block {:?}", Launch::coordinates(block, self.launch.grid))
        });
        let thread = earlier.thread.map_or("several threads".to_string(), |thread| {
            format!("thread {:?}", Launch::coordinates(thread.into(), self.launch.block))
        });
        if earlier.step == NO_LINE {
            return format!("{thread} of {block}");
        }
        let line = self.launch.program.steps[usize::from(earlier.step) - 1].line;
        format!("{thread} of {block} at PTX line {line}")
    }
}
