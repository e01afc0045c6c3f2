//! What the checks found, in words and by kind.

use std::fmt;
use std::sync::{Mutex, PoisonError};

/// The kinds of reports. The name of each is part of the interface of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "`name` describes each")]
pub enum Kind {
    OutOfBounds,
    UseAfterFree,
    Misaligned,
    UninitialisedRead,
    ForeignAddress,
    SharedOutOfBounds,
    GlobalRace,
    SharedRace,
    NoncoherentLoad,
    DivergentBarrier,
    MissingBarrier,
    WrongMembers,
    ShuffleFromInactive,
    DivisionByZero,
    Watchdog,
    StreamRace,
    UnorderedUse,
    InvalidFree,
    HostBufferChanged,
    AbandonedWork,
    Leak,
    RefusedModule,
    InvalidLaunch,
    InvalidCopy,
    InvalidSetting,
    Internal,
}

impl Kind {
    /// The stable name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::OutOfBounds => "out-of-bounds",
            Self::UseAfterFree => "use-after-free",
            Self::Misaligned => "misaligned",
            Self::UninitialisedRead => "uninitialised-read",
            Self::ForeignAddress => "foreign-address",
            Self::SharedOutOfBounds => "shared-out-of-bounds",
            Self::GlobalRace => "global-race",
            Self::SharedRace => "shared-race",
            Self::NoncoherentLoad => "noncoherent-load",
            Self::DivergentBarrier => "divergent-barrier",
            Self::MissingBarrier => "missing-barrier",
            Self::WrongMembers => "wrong-members",
            Self::ShuffleFromInactive => "shuffle-from-inactive",
            Self::DivisionByZero => "division-by-zero",
            Self::Watchdog => "watchdog",
            Self::StreamRace => "stream-race",
            Self::UnorderedUse => "unordered-use",
            Self::InvalidFree => "invalid-free",
            Self::HostBufferChanged => "host-buffer-changed",
            Self::AbandonedWork => "abandoned-work",
            Self::Leak => "leak",
            Self::RefusedModule => "refused-module",
            Self::InvalidLaunch => "invalid-launch",
            Self::InvalidCopy => "invalid-copy",
            Self::InvalidSetting => "invalid-setting",
            Self::Internal => "internal",
        }
    }
}

/// A place in a running kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name of the kernel.
    pub kernel: String,
    /// Line of its PTX.
    pub line: u32,
    /// Block.
    pub block: [u32; 3],
    /// Thread.
    pub thread: [u32; 3],
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, line, block, thread } = self;
        write!(formatter, "kernel {kernel}, PTX line {line}, block {block:?}, thread {thread:?}")
    }
}

/// One finding; equal ones are counted, not repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Its kind.
    pub kind: Kind,
    /// Where, for findings inside a kernel.
    pub place: Option<Place>,
    /// What, in words.
    pub detail: String,
    /// How often the same kind was found at the same line.
    pub count: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.kind.name(), self.detail)?;
        if let Some(place) = &self.place {
            write!(formatter, " ({place})")?;
        }
        if self.count > 1 {
            write!(formatter, " [{} times]", self.count)?;
        }
        Ok(())
    }
}

/// Collects reports from any thread.
#[derive(Default)]
pub struct Collector {
    reports: Mutex<Vec<Report>>,
}

impl Collector {
    /// Adds a finding, or counts it if the same kind was found at the same line before.
    pub fn add(&self, kind: Kind, place: Option<Place>, detail: impl FnOnce() -> String) {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = &place
            && let Some(report) = reports.iter_mut().find(|report| {
                let same = |other: &Place| other.kernel == place.kernel && other.line == place.line;
                report.kind == kind && report.place.as_ref().is_some_and(same)
            })
        {
            report.count += 1;
            return;
        }
        reports.push(Report { kind, place, detail: detail(), count: 1 });
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Takes everything found so far.
    pub fn take(&self) -> Vec<Report> {
        std::mem::take(&mut *self.reports.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
