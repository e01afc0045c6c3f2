//! Tests of the filter engine. They stand outside the library, so that its loops are compiled once.

mod axis;
mod layout;
mod loops;
mod registers;
mod taps;
