//! The filter engine: polyphase FIR filters over rows, used by every operator that filters.
//!
//! An operator says what is filtered ([`filter::Request`]: geometry, kernel, input, output); the engine decides how
//! ([`plan`]) and does it ([`filter`], [`kernel_gradient`]) with loops of the processor's level ([`loops`], [`levels`]).
//! The parts are of use alone, too: [`plan::strip`] and [`filter::horizontal`] filter rows into rows, and what lies
//! between two filters is rows of compute numbers in the first-level cache, on which any other loop may work.
//!
//! | room | holds | uses |
//! |---|---|---|
//! | [`axis`] | which inputs and taps an output is summed from | nothing |
//! | [`border`] | which sample a position outside a signal stands for | nothing |
//! | [`loops`] | the arithmetic, over rows; the table of loops | nothing |
//! | [`levels`] | registers and compiled loops of each instruction-set level | `loops` |
//! | [`plan`] | paths, tiles, strips, taps, layouts | `axis`, data types of `loops` |
//! | [`filter`] | forward filter and its adjoint, tile by tile | `plan`, `loops`, `levels` |
//! | [`kernel_gradient`] | the kernel's gradient | `plan`, `loops`, `levels`, `filter::horizontal` |
//! | [`pipeline`] | two filters with a loop of another's between them, row by row | `plan`, `loops`, `levels` |
//!
//! `README.md` beside this file says which call takes which path, and explains the words that are ours.

pub mod axis;
pub mod border;
pub mod filter;
pub mod kernel_gradient;
pub mod levels;
pub mod loops;
pub mod pipeline;
pub mod plan;
pub mod rate;
mod scratch;
mod window;
