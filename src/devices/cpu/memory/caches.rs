//! When stores bypass the caches. Lines that are in no cache need not be fetched before they are overwritten, so that
//! non-temporal stores win where a call moves more than the caches keep, and lose where they keep it all.
//!
//! How much that is cannot be read from one file: a virtual machine is told the last-level cache of the whole socket, of
//! which it has a share, and a cache of hundreds of megabytes is slower to write through than memory is to stream to. So
//! the size that the system reports counts up to a share for each processor that this process may use.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fork;
use crate::variables::{Setting, setting};

/// What one processor is taken to keep of the last-level cache at most: that of two cores is then the 32 MiB that a group
/// of cores shares on AMD, and a tenth of what a Xeon reports, where non-temporal stores have been seen to win from 8 MiB
/// on.
const SHARE: usize = 16 << 20;

/// From how many bytes on, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// Calls that read and write more than this bypass the caches.
    pub bytes: usize,
    reason: Reason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// `set_non_temporal_bytes` was called.
    Pinned,
    /// `FIRELU_NON_TEMPORAL_BYTES` says so.
    Variable,
    /// The cache that the system reports.
    Reported(usize),
    /// A share for each of so many processors, which is less than what the system reports.
    Share(usize, usize),
}

impl fmt::Display for Threshold {
    /// As `firelu doctor` shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: usize| bytes as f64 / (1 << 20) as f64;
        write!(f, "above {} MiB", mebibytes(self.bytes))?;
        match self.reason {
            Reason::Pinned => f.write_str(" (set_non_temporal_bytes)"),
            Reason::Variable => f.write_str(" (FIRELU_NON_TEMPORAL_BYTES)"),
            Reason::Reported(cache) => write!(f, " (3/4 of the last-level cache of {} MiB)", mebibytes(cache)),
            Reason::Share(processors, cache) => {
                let (share, cache) = (mebibytes(SHARE), mebibytes(cache));
                write!(f, " (3/4 of {share} MiB for each of {processors} processors; the system reports {cache} MiB)")
            }
        }
    }
}

/// What [`pin`] was given; zero where nothing is pinned.
static PINNED: AtomicUsize = AtomicUsize::new(0);

/// Makes stores bypass the caches from so many bytes on, or as the machine decides. Results have the same bits either
/// way; with a small number every path is reached by small arrays.
pub fn pin(bytes: Option<NonZeroUsize>) {
    PINNED.store(bytes.map_or(0, NonZeroUsize::get), Ordering::Relaxed);
}

/// What `FIRELU_NON_TEMPORAL_BYTES` says.
pub fn variable() -> Setting<usize> {
    let takes = "a whole number of bytes from 1 on";
    setting("FIRELU_NON_TEMPORAL_BYTES", takes, |text| text.parse().ok().filter(|&bytes| bytes > 0))
}

/// From when on stores bypass the caches.
pub fn threshold() -> Threshold {
    match PINNED.load(Ordering::Relaxed) {
        0 => {
            static FOUND: OnceLock<Threshold> = OnceLock::new();
            *fork::once(&FOUND, find)
        }
        bytes => Threshold { bytes, reason: Reason::Pinned },
    }
}

/// Whether a call that reads and writes so many bytes should bypass the caches.
pub fn bypasses(bytes: usize) -> bool {
    bytes > threshold().bytes
}

fn find() -> Threshold {
    if let Ok(Some(bytes)) = variable() {
        return Threshold { bytes, reason: Reason::Variable };
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    of_machine(reported(), processors)
}

fn of_machine(cache: usize, processors: usize) -> Threshold {
    let share = SHARE.saturating_mul(processors);
    match cache <= share {
        true => Threshold { bytes: cache / 4 * 3, reason: Reason::Reported(cache) },
        false => Threshold { bytes: share / 4 * 3, reason: Reason::Share(processors, cache) },
    }
}

/// The size of the last-level cache that the system reports, in bytes.
fn reported() -> usize {
    let read = |index: u32| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = std::fs::read_to_string(path).ok()?;
        let text = text.trim();
        let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let factor = match unit {
            "K" => 1 << 10,
            "M" => 1 << 20,
            _ => 1,
        };
        Some(digits.parse::<usize>().ok()? * factor)
    };
    // Where the system does not tell (not Linux, or a sandbox): a usual desktop's.
    (0..5).filter_map(read).max().unwrap_or(32 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_counts_up_to_the_share_of_the_processors() {
        let mebibytes = |cache: usize, processors: usize| of_machine(cache << 20, processors).bytes >> 20;
        assert_eq!(mebibytes(32, 2), 24);
        assert_eq!(mebibytes(260, 2), 24);
        assert_eq!(mebibytes(260, 64), 195);
        assert_eq!(mebibytes(8, 4), 6);
        assert_eq!(mebibytes(32, 1), 12);
    }

    #[test]
    fn the_reason_is_told() {
        assert_eq!(of_machine(32 << 20, 8).to_string(), "above 24 MiB (3/4 of the last-level cache of 32 MiB)");
        let shared = "above 24 MiB (3/4 of 16 MiB for each of 2 processors; the system reports 260 MiB)";
        assert_eq!(of_machine(260 << 20, 2).to_string(), shared);
    }

    #[test]
    fn what_this_machine_reports_is_plausible() {
        assert!((1 << 18..1 << 34).contains(&reported()));
    }
}
