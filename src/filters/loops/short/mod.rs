//! Kernels of three or four taps, whole filters in registers: input rows are loaded, or summed along y, into registers,
//! which are then shifted into each other to be summed along x, so that no row is written in between.
//!
//! The path through rows in memory writes the vertical sum to a scratch row and reads it back at as many offsets as
//! there are taps; half of those loads cross a cache line, and on small planes each waits for the store before it. Both
//! paths add in the same order, so they give the same bits. Each [`Form`](rows::Form) is one compiled specialisation.

pub mod channels_last;
pub mod direct;
pub mod rows;
pub mod rows_together;
pub mod separable;
pub mod windows;
pub mod writer;
