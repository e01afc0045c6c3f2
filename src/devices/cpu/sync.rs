//! What `tasks` and the memory's free list need of the standard library. They name it through this module so that a
//! model checker can give them its own.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub use std::sync::{Mutex, MutexGuard, TryLockError};

/// How often a lock is tried: its holders keep it for less than a microsecond.
pub const ATTEMPTS: usize = 1000;
