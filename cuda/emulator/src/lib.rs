//! A stand-in for the CUDA driver that interprets PTX and checks every access.
//!
//! How a launch flows: `symbols` (the driver's C functions) → `driver` (handles, streams of deferred work) →
//! `machine` (blocks of warps) → `program` (decoded kernels, what each instruction means) ← `ptx` (text to syntax).
//! `memory` is the device's private address range with its shadow; `report` is what the checks found.

pub mod driver;
pub mod machine;
pub mod memory;
pub mod program;
pub mod ptx;
pub mod report;
pub mod symbols;
