//! A kernel decoded once into the compact form the machine runs: registers resolved to slots, immediates to
//! constant registers, meanings to functions, branches to targets with their points of reconvergence.

mod decode;
mod flow;
mod forms;
mod memory_forms;
mod operands;
mod operation;

pub use decode::decode;
pub use forms::{Comparison, Form, Lanes, SHARED_WINDOW, Sources, WARP, arithmetic, comparison};
pub use operation::{
    Access, AddressBase, Combine, Guard, Kind, Logic, Operation, Program, SharedVariable, Shuffle, Slot, Special, Step,
    Vote,
};
