//! Random calls of every operator, checked against slow float64 definitions.
//!
//! A case is a function of a [`Choices`](choices::Choices): a seed (the soak driver, property tests) or
//! a fuzzer's bytes. Each case places its tensors between unmapped pages, in any layout, calls the
//! operator by name at every instruction-set level, and compares values, untouched memory and refusals
//! with [`reference`]. [`examples`] does so with the calls that schemas show, without values.

#![cfg(unix)]

pub mod arguments;
pub mod calls;
pub mod cases;
pub mod choices;
pub mod derivatives;
pub mod examples;
pub mod generate;
pub mod memory;
pub mod modes;
pub mod outcome;
pub mod reference;
pub mod rounding;
pub mod sharing;
pub mod signatures;
