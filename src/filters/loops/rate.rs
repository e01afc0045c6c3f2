//! Multiply-adds that wait for nothing but each other: how many the processor does is what a filter can reach at most.
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use std::hint::black_box;

use super::register::Register;
use firelu_core::dtype::Compute;

/// Sums that are added to in turn: more than are under way at once on any processor, and as many as AVX2 has registers for.
pub const SUMS: usize = 12;

/// Adds to each of [`SUMS`] registers so many times.
///
/// # Safety
/// The register's level was detected.
#[inline(always)]
pub unsafe fn run<R: Register>(rounds: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let number = |value: f64| R::splat(black_box(R::Number::from_f64(value)));
        let (factor, mut sums) = (number(0.5), [number(0.25); SUMS]);
        for _ in 0..rounds {
            for k in 0..SUMS {
                sums[k] = sums[k].multiply_add(factor, factor);
            }
        }
        black_box(sums);
    }
}
