//! The last small calls of a thread, prepared: most calls repeat one of them, and for a picture of 8 by 8 pixels factoring
//! the kernel and cutting the work takes as long as the arithmetic. A call is known again by all that its preparation
//! depends on.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

use super::Request;
use super::worker::Worker;
use crate::axis::Geometry;
use crate::loops::Loops;
use crate::plan::layout::Layout;
use crate::plan::taps::Taps;
use crate::plan::tiles::Plan;
use crate::scratch::Scratch;
use firelu_core::dtype::{DType, Element};
use firelu_core::error::Result;
use firelu_core::shape::{Shape, Strides};
use firelu_core::tensor::{Parts, TensorType};
use firelu_cpu::features::Level;
use firelu_cpu::float_mode::FloatMode;

/// How many calls a thread keeps.
pub const MOST_KEPT: usize = 4;

/// Larger calls, in bytes of memory traffic or multiplications, are not kept: there preparing does not show.
const KEPT_WORK: usize = 1 << 16;

/// Calls with larger kernels are not kept.
pub const KERNEL_BYTES: usize = 1024;

/// All that a preparation depends on.
pub struct Key<'a> {
    /// Arguments, shapes, strides and types.
    pub request: &'a Request<'a>,
    /// The kernel's bytes in row-major order, copied before anything was made of them: others may write to it.
    pub kernel: &'a [u8],
    /// The processor's level: rows in memory are left as one level uses them.
    pub level: Level,
}

/// The same, to be kept.
struct KeptKey {
    geometry: Geometry,
    reverse: bool,
    /// The bits of the gain: the sign of a gain of zero is that of the results.
    gain: u64,
    level: Level,
    dtype: DType,
    kernel: (TensorType, Vec<u8>),
    input: (Shape, Strides),
    output: (Shape, Strides),
    /// How the taps were rounded.
    mode: FloatMode,
}

impl KeptKey {
    fn new(key: &Key<'_>) -> Self {
        let Request { geometry, reverse, gain, kernel, input, output, .. } = key.request;
        let place = |parts: &Parts| (parts.shape().clone(), parts.strides.clone());
        KeptKey {
            geometry: *geometry,
            reverse: *reverse,
            gain: gain.to_bits(),
            level: key.level,
            dtype: output.dtype(),
            kernel: (kernel.kind.clone(), key.kernel.to_vec()),
            input: place(input),
            output: place(output),
            mode: FloatMode::current(),
        }
    }

    fn fits(&self, key: &Key<'_>) -> bool {
        let Request { geometry, reverse, gain, kernel, input, output, .. } = key.request;
        let same = |kept: &(Shape, Strides), parts: &Parts| kept.0 == *parts.shape() && kept.1 == parts.strides;
        same(&self.input, input)
            && same(&self.output, output)
            && self.kernel.1 == key.kernel
            && self.kernel.0 == kernel.kind
            && self.geometry == *geometry
            && (self.reverse, self.gain) == (*reverse, gain.to_bits())
            && (self.level, self.dtype) == (key.level, output.dtype())
            && self.mode == FloatMode::current()
    }
}

/// A small call, ready to run.
pub struct Prepared<T: Element> {
    key: KeptKey,
    /// How it is cut.
    pub plan: Plan,
    /// Where its elements are; the pointers are those of the last call.
    pub layout: Layout,
    /// What computes it.
    pub worker: Worker<T>,
    /// The worker's memory.
    _scratch: Scratch,
}

thread_local! {
    /// Of any compute type, the one used last at the end.
    static RECENT: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

impl<T: Element> Prepared<T> {
    /// Prepares a call that has a single strip.
    pub fn new(
        key: &Key<'_>,
        plan: Plan,
        layout: Layout,
        loops: &'static Loops<T>,
        taps: &Arc<Taps<T::Compute>>,
    ) -> Result<Box<Self>> {
        let mut scratch = Scratch::default();
        let worker = Worker::new(&plan, loops, taps, 0, &mut scratch)?;
        Ok(Box::new(Prepared { key: KeptKey::new(key), plan, layout, worker, _scratch: scratch }))
    }

    /// Takes such a call from those that this thread has kept: whoever runs it has it alone.
    pub fn take(key: &Key<'_>) -> Option<Box<Self>> {
        let found = RECENT.try_with(|recent| {
            let mut recent = recent.try_borrow_mut().ok()?;
            let fits = |kept: &Box<dyn Any>| kept.downcast_ref::<Self>().is_some_and(|kept| kept.key.fits(key));
            let place = recent.iter().rposition(fits)?;
            recent.remove(place).downcast().ok()
        });
        found.ok().flatten()
    }

    /// Keeps the call for its next time, in place of that which was not used for longest.
    pub fn keep(self: Box<Self>) {
        // A thread that is ending keeps nothing.
        let _ = RECENT.try_with(|recent| {
            if let Ok(mut recent) = recent.try_borrow_mut() {
                if recent.len() == MOST_KEPT {
                    recent.remove(0);
                }
                recent.push(self);
            }
        });
    }
}

/// Whether a call is so small that preparing it shows. Non-temporal stores depend on the output's address, which may be
/// another next time.
pub fn is_worth_keeping(plan: &Plan) -> bool {
    plan.strips == 1 && plan.work <= KEPT_WORK && !plan.non_temporal
}

/// How many prepared calls this thread keeps, [`MOST_KEPT`] at most.
pub fn kept_calls() -> usize {
    RECENT.try_with(|recent| recent.try_borrow().map_or(0, |recent| recent.len())).unwrap_or(0)
}
