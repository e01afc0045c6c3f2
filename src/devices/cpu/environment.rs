//! Settings from environment variables. One that is not understood counts as absent; what is wrong with it is told by
//! [`problems`], since there is no call that could fail.

use std::sync::OnceLock;

use crate::features::Level;
use crate::fork;
use crate::memory::caches;
use crate::variables::{Setting, setting};

/// The most threads that can be asked for.
pub const MOST_THREADS: usize = 1024;

fn threads() -> Setting<usize> {
    let takes = format!("a number of threads from 1 to {MOST_THREADS}");
    setting("FIRELU_NUM_THREADS", &takes, |text| text.parse().ok().filter(|n| (1..=MOST_THREADS).contains(n)))
}

/// How many bytes of free blocks `FIRELU_CACHE_BYTES` lets the pool keep.
pub fn cache_bytes() -> Setting<usize> {
    setting("FIRELU_CACHE_BYTES", "a whole number of bytes", |text| text.parse().ok())
}

/// What is wrong with firelu's environment variables: one line each.
pub fn problems() -> Vec<String> {
    let problems = [threads().err(), Level::named().err(), cache_bytes().err(), caches::variable().err()];
    problems.into_iter().flatten().collect()
}

/// How many threads calls use where nobody set a number, and what says so. Read once: a narrower affinity later on is
/// not followed.
pub fn default_threads() -> (usize, &'static str) {
    static DEFAULT: OnceLock<(usize, &str)> = OnceLock::new();
    *fork::once(&DEFAULT, || {
        if let Ok(Some(threads)) = threads() {
            return (threads, "FIRELU_NUM_THREADS");
        }
        // OpenMP has a list for nested levels, of which the first is ours, and its runtime complains of rubbish.
        let openmp = std::env::var("OMP_NUM_THREADS").ok();
        let openmp = openmp.and_then(|text| text.split(',').next()?.trim().parse::<usize>().ok());
        match openmp.filter(|&threads| threads > 0) {
            Some(threads) => (threads.min(MOST_THREADS), "OMP_NUM_THREADS"),
            None => {
                let processors = std::thread::available_parallelism().map_or(1, usize::from);
                (processors.min(MOST_THREADS), "affinity and cgroup limits")
            }
        }
    })
}
