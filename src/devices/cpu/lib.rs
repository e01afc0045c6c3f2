//! The processor: its instruction-set level, its registers, its threads and its memory.

pub mod assign;
pub mod broadcast;
pub mod copy;
pub mod elementwise;
pub mod environment;
pub mod features;
pub mod float_mode;
pub mod fork;
pub mod lanes;
pub mod memory;
pub mod parallel;
pub mod reduce;
pub mod simd;
pub mod sources;
mod sync;
mod tasks;
mod variables;
pub mod walk;
