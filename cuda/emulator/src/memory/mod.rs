//! Device memory: a private address range, never host pointers, with a shadow that remembers who wrote and read.

mod allocation;
mod clocks;
mod shadow;
mod space;

pub use allocation::{Allocation, PAGE, Page};
pub use clocks::Clocks;
pub use shadow::{Accessor, Conflict, Earlier, NO_LINE, Shadow, Span};
pub use space::{AddressSpace, Fault};
