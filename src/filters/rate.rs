//! The processor's own rate of multiply-adds, beside which benchmarks print that of filters.

use std::time::Instant;

use crate::levels::FilterElement;
use crate::loops::rate::SUMS;
use firelu_core::error::Result;
use firelu_cpu::features::Level;
use firelu_cpu::parallel;

/// Rounds of a thread: about a third of a millisecond.
const ROUNDS: usize = 250_000;
/// Turns, of which the fastest counts: others may have met other work on the machine.
const TURNS: usize = 16;

/// How many multiply-adds of element type `T` all threads do in a second, in registers of the current level.
pub fn multiply_adds_per_second<T: FilterElement>() -> Result<f64> {
    let (loops, threads) = (T::loops(Level::current()), parallel::threads());
    let mut fastest = f64::INFINITY;
    for _ in 0..TURNS {
        let start = Instant::now();
        parallel::for_each(threads, usize::MAX, |_| {
            // SAFETY: a level is current only where it was detected.
            unsafe { (loops.multiply_adds)(ROUNDS) }
        })?;
        fastest = fastest.min(start.elapsed().as_secs_f64());
    }
    Ok((ROUNDS * SUMS * loops.lanes * threads) as f64 / fastest)
}
