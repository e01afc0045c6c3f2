//! Gradient definitions that run. Everything here asks the registry and has no derivative of its own:
//!
//! - [`net`]: lists of operator definitions, JSON both ways
//! - [`workspace`]: named blobs, and nets run on them
//! - [`backward`]: forward definitions in, backward definitions out
//! - [`tape`]: variables that remember how they were computed
//! - [`gradcheck`]: gradients against differences
//! - [`context`]: whether the tape records, and gradients used instead of the registered ones
//!
//! [`plan`] turns one definition's gradient into places instead of names, for both [`backward`] and
//! [`tape`].

pub mod backward;
pub mod context;
pub mod gradcheck;
pub mod net;
pub mod plan;
pub mod tape;
pub mod workspace;
