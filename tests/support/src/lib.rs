//! What the Rust tests share, each once: numbers that look random, ways to lie in memory, instruction-set levels, memory
//! between pages that must not be touched, ways to run an operator, and references.

pub mod gradients;
#[cfg(unix)]
pub mod guarded;
pub mod layouts;
pub mod levels;
pub mod numbers;
pub mod references;
pub mod run;
#[cfg(feature = "proptest")]
pub mod strategies;
pub mod tensors;
