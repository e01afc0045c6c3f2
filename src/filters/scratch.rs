//! Memory that a thread keeps from call to call for rows on their way; small, and never given away.

use std::cell::RefCell;

use firelu_core::error::Result;
use firelu_cpu::memory;

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A thread's memory.
#[derive(Default)]
pub struct Scratch {
    lines: Vec<Line>,
}

/// More than this is given back after a task.
const KEPT_LINES: usize = (1 << 20) / size_of::<Line>();

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
    static WINDOWS: RefCell<Windows> = RefCell::default();
}

/// Memory for what a filter on a part of the border reads and writes, beside that which it works in.
#[derive(Default)]
pub struct Windows {
    /// Inputs, and outputs that are yet to be added up.
    pub window: Scratch,
    /// What they add up to.
    pub sums: Scratch,
}

impl Windows {
    /// Runs the body with this thread's windows, or with fresh ones where the thread's are in use.
    pub fn with<R>(body: impl FnOnce(&mut Windows) -> R) -> R {
        WINDOWS.with(|windows| match windows.try_borrow_mut() {
            Ok(mut windows) => {
                let result = body(&mut windows);
                windows.window.give_back();
                windows.sums.give_back();
                result
            }
            Err(_) => body(&mut Windows::default()),
        })
    }
}

impl Scratch {
    /// Runs the body with this thread's memory, or with fresh memory where the thread's is in use.
    pub fn with<R>(body: impl FnOnce(&mut Scratch) -> R) -> R {
        SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
            Ok(mut scratch) => {
                let result = body(&mut scratch);
                scratch.give_back();
                result
            }
            Err(_) => body(&mut Scratch::default()),
        })
    }

    fn give_back(&mut self) {
        if self.lines.len() > KEPT_LINES {
            self.lines = Vec::new();
        }
    }

    /// Room for so many numbers each, at the start of cache lines, with values of an earlier use. What
    /// the last call gave is gone.
    pub fn numbers<C: Copy, const N: usize>(&mut self, lengths: [usize; N]) -> Result<[*mut C; N]> {
        let mut end = 0;
        let starts = lengths.map(|length| {
            let start = end;
            end += (length * size_of::<C>()).div_ceil(size_of::<Line>());
            start
        });
        if self.lines.len() < end {
            let missing = end - self.lines.len();
            memory::reserve(&mut self.lines, missing)?;
            self.lines.resize(end, Line([0; 64]));
        }
        let base = self.lines.as_mut_ptr();
        Ok(starts.map(|start| base.wrapping_add(start).cast()))
    }
}
