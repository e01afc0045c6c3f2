//! Calls on memory that other libraries own: pointers in, pointers out.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;
use smallvec::SmallVec;

use super::errors::{self, raise};
use crate::core::args::Args;
use crate::core::device::{Device, Stream};
use crate::core::operator::{Call, Operator};
use crate::core::tensor::{Parts, TensorView, TensorViewMut};
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

/// Runs the kernel of a checked call, with the interpreter released where the work is worth it.
///
/// # Safety
/// The parts must have passed the schema's check together; the memory they describe must stay allocated
/// until the call returns (on a CUDA device, until the stream has got to it), and outputs must be writable.
pub unsafe fn compute(
    py: Python<'_>,
    operator: &Operator,
    device: Device,
    inputs: &[Option<&Parts>],
    outputs: &[Option<&Parts>],
    args: &Args,
    setting: Setting,
) -> PyResult<()> {
    let kernel = operator.kernel(device).map_err(raise)?;
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
    let run = || match setting.threads {
        Some(threads) => parallel::with_threads(threads, || kernel(&call)),
        None => kernel(&call),
    };
    let guarded = || catch_unwind(AssertUnwindSafe(run));
    let outcome = if bytes <= HELD_BYTES { guarded() } else { py.detach(guarded) };
    match outcome {
        Ok(result) => result.map_err(raise),
        Err(panic) => Err(internal_error(py, &operator.schema.name, panic.as_ref())),
    }
}

/// A defect of firelu's own, as an ordinary exception: no panic reaches Python.
#[cold]
pub fn internal_error(py: Python<'_>, operator: &str, panic: &(dyn std::any::Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    let message = format!("{operator}: internal error, please report it: {}", text.unwrap_or("unknown"));
    errors::new(py, "FireluError", message)
}
