//! The machine: blocks of warps of 32 lanes that run a decoded kernel and check every access.

mod access;
mod block;
mod counters;
mod execute;
mod global;
mod launch;
mod shared;
mod trips;
mod warp;
mod workers;

pub use counters::Counters;
pub(crate) use global::describe_fault;
pub use launch::{Launch, Outcome};

/// Bytes of shared memory a block may use on any device.
pub const SHARED_LIMIT: u64 = 48 << 10;

/// Bytes of shared memory a block may use after asking for more.
pub const SHARED_LIMIT_OPT_IN: u64 = 96 << 10;
