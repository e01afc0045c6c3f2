//! Calls on memory that other libraries own: pointers in, pointers out.

use std::cell::RefCell;

use pyo3::prelude::*;
use smallvec::SmallVec;

use super::errors::raise;
use super::{arrays, entry};
use crate::core::args::Args;
use crate::core::device::{Device, Stream};
use crate::core::operator::{Call, Checked};
use crate::core::tensor::{Parts, TensorView, TensorViewMut};
use crate::devices;
use crate::devices::cpu::parallel;

/// Below so many bytes of output, releasing and taking the interpreter again costs more than the work.
pub const HELD_BYTES: usize = 32 << 10;

/// How a call runs, beside its device.
#[derive(Clone, Copy, Default)]
pub struct Setting {
    /// The device's queue.
    pub stream: Stream,
    /// How many threads the CPU uses; `None` leaves it to firelu's own setting.
    pub threads: Option<usize>,
}

/// Runs a checked call, with the interpreter released where the work is worth it.
///
/// # Safety
/// The parts must be those that passed the check, beside new outputs; the memory they describe must stay allocated
/// until the call returns (on a CUDA device, until the stream has got to it), and outputs must be writable.
pub unsafe fn compute(
    py: Python<'_>,
    checked: &Checked<'_>,
    inputs: &[Option<&Parts>],
    outputs: &[Option<&Parts>],
    args: &Args,
    setting: Setting,
) -> PyResult<()> {
    // SAFETY: the caller keeps the memory, and the check has seen to bounds and overlaps.
    let read = |parts: &Parts| unsafe { TensorView::from_parts(parts.clone()) };
    // SAFETY: as above; outputs are writable.
    let write = |parts: &Parts| unsafe { TensorViewMut::from_parts(parts.clone()) };
    // Pushed one by one: for so few, collecting takes longer.
    let mut sources: SmallVec<[Option<TensorView<'_>>; 4]> = SmallVec::new();
    for parts in inputs {
        sources.push(parts.map(read));
    }
    let mut targets: SmallVec<[Option<TensorViewMut<'_>>; 2]> = SmallVec::new();
    for parts in outputs {
        targets.push(parts.map(write));
    }
    let call = Call { inputs: &sources, outputs: &targets, args, stream: setting.stream };
    let bytes: usize = outputs.iter().flatten().map(|parts| parts.kind.bytes()).sum();
    let run = || {
        let _entered = devices::enter(checked.device)?;
        match setting.threads {
            Some(threads) => parallel::with_threads(threads, || checked.run(&call)),
            None => checked.run(&call),
        }
    };
    // A device may be waited for, and its kernels compiled on first use.
    let held = bytes <= HELD_BYTES && checked.device == Device::Cpu;
    if held { run() } else { entry::detach(py, run) }.map_err(raise)
}

thread_local! {
    /// Arrays that calls of this thread write to, and where they were; the innermost call's come last.
    static GIVEN: RefCell<Vec<(Py<PyAny>, Parts)>> = const { RefCell::new(Vec::new()) };
}

/// Keeps the arrays that a call writes to on the list while it runs.
pub struct Given(usize);

impl Given {
    /// Puts arrays on the list, with where they are.
    pub fn new(arrays: impl Iterator<Item = (Py<PyAny>, Parts)>) -> Self {
        GIVEN.with_borrow_mut(|given| {
            let before = given.len();
            given.extend(arrays);
            Given(before)
        })
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        // What is dropped may run Python code: not while the list is borrowed.
        drop(GIVEN.with_borrow_mut(|given| given.split_off(self.0)));
    }
}

/// Whether the array that a target of this thread's innermost call belongs to still is where it was. A kernel in Python
/// may have resized it.
pub fn is_still_there(py: Python<'_>, target: &Parts) -> bool {
    GIVEN.with_borrow(|given| match given.iter().rev().find(|(_, parts)| parts.pointer == target.pointer) {
        Some((array, parts)) => array.bind(py).cast().is_ok_and(|array| arrays::is_at(array, parts)),
        None => true,
    })
}
