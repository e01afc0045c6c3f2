//! PTX text to a syntax tree. Names are resolved here; what an instruction means is decided in `program`.

mod directive;
mod lexer;
mod parser;
mod syntax;

pub use parser::parse;
pub use syntax::{Base, Instruction, Kernel, Literal, Module, Operand, Parameter, ParseError, Space, Type, Variable};
