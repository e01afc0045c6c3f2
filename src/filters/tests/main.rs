//! Tests of the filter engine. They stand outside the library, so that its loops are compiled once.

mod axis;
mod border;
mod layout;
mod loops;
mod pipeline;
mod registers;
mod taps;
