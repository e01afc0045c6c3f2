//! The registers that every processor has. Too few to keep the terms of two sums in, and without shifts of whole
//! registers: short kernels and pairs of rows go through rows in memory.

use crate::loops::memory_access::{Prefetch, Rows, Stores};
use crate::loops::products::{Pairs, Part};
use crate::loops::register::{Access, Register};
use crate::loops::short::rows::ShortLoops;
use crate::loops::split::Columns;
use crate::loops::{self, Loops, PairsLoop, PhaseTerms, Reading, RunningLoop, Writing};
use firelu_core::dtype::Element;

compile_loops!();
