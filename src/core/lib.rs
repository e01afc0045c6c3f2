//! Values and contracts: what a tensor, an argument, a schema and an operator are. No kernels, no I/O.

pub mod args;
pub mod arguments;
pub mod blob;
pub mod definition;
pub mod device;
pub mod dtype;
pub mod error;
pub mod example;
pub mod gradient;
pub mod names;
pub mod operator;
pub mod schema;
pub mod shape;
pub mod tensor;
