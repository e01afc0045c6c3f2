//! The processor: its instruction-set level, its registers, its threads and its memory.

pub mod copy;
pub mod elementwise;
pub mod features;
pub mod memory;
pub mod parallel;
pub mod simd;
pub mod walk;
