//! The processor: its instruction-set level, its registers, its threads and its memory.

pub mod activations;
pub mod assign;
pub mod broadcast;
pub mod copy;
pub mod elementwise;
pub mod environment;
pub mod features;
pub mod float_mode;
pub mod fork;
pub mod functions;
pub mod lanes;
pub mod memory;
pub mod parallel;
pub mod reduce;
pub mod simd;
pub mod sources;
pub mod staged;
mod sync;
mod tasks;
mod variables;
pub mod walk;
