//! The last small calls of a thread, prepared: most calls repeat one of them, and preparing takes longer than
//! computing a small picture does.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

use super::factor::Taps;
use super::layout::Layout;
use super::plan::Plan;
use super::scratch::Scratch;
use super::tile::Worker;
use crate::core::dtype::{Compute, DType};
use crate::core::error::Result;
use crate::core::shape::{Shape, Strides};
use crate::core::tensor::{Parts, TensorType, TensorView};
use crate::devices::cpu::features::Level;
use crate::operators::upfirdn2d::params::{Geometry, UpFirDn2dArgs};

/// How many calls a thread keeps.
const KEPT: usize = 4;

/// Larger calls, in bytes of memory traffic or multiplications, are not kept: there preparing does not show.
const KEPT_WORK: usize = 1 << 16;

/// Calls with larger kernels are not kept.
pub const KERNEL_BYTES: usize = 1024;

/// What a call is asked to do.
pub struct Request<'a> {
    /// The arguments of the forward call.
    pub args: UpFirDn2dArgs,
    /// Whether it is that call's adjoint.
    pub adjoint: bool,
    /// The kernel.
    pub kernel: &'a TensorView<'a>,
    /// What is filtered.
    pub input: &'a Parts,
    /// What is written.
    pub output: &'a Parts,
}

impl Request<'_> {
    /// The geometry that the schema has checked.
    pub fn geometry(&self) -> Result<Geometry> {
        let (x, k) = (if self.adjoint { self.output } else { self.input }.shape(), self.kernel.shape());
        let geometry = Geometry::new("UpFirDn2d", &self.args, x, k)?;
        Ok(if self.adjoint { geometry.transposed() } else { geometry })
    }

    /// Whether the kernel is the other way round in memory than it meets the input.
    pub fn reverse(&self) -> bool {
        self.args.flip_kernel == self.adjoint
    }
}

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
    args: UpFirDn2dArgs,
    adjoint: bool,
    level: Level,
    dtype: DType,
    kernel: (TensorType, Vec<u8>),
    input: (Shape, Strides),
    output: (Shape, Strides),
}

impl KeptKey {
    fn new(key: &Key<'_>) -> Self {
        let Request { args, adjoint, kernel, input, output } = key.request;
        let place = |parts: &Parts| (parts.shape().clone(), parts.strides.clone());
        KeptKey {
            args: *args,
            adjoint: *adjoint,
            level: key.level,
            dtype: output.dtype(),
            kernel: (kernel.kind.clone(), key.kernel.to_vec()),
            input: place(input),
            output: place(output),
        }
    }

    fn fits(&self, key: &Key<'_>) -> bool {
        let Request { args, adjoint, kernel, input, output } = key.request;
        let same = |kept: &(Shape, Strides), parts: &Parts| kept.0 == *parts.shape() && kept.1 == parts.strides;
        same(&self.input, input)
            && same(&self.output, output)
            && self.kernel.1 == key.kernel
            && self.kernel.0 == kernel.kind
            && self.args == *args
            // The sign of a gain of zero is that of the results.
            && self.args.gain.to_bits() == args.gain.to_bits()
            && (self.adjoint, self.level, self.dtype) == (*adjoint, key.level, output.dtype())
    }
}

/// A small call, ready to run.
pub struct Prepared<C> {
    key: KeptKey,
    /// How it is cut.
    pub plan: Plan,
    /// Where its elements are; the pointers are those of the last call.
    pub layout: Layout,
    /// What computes it.
    pub worker: Worker<C>,
    /// The worker's memory.
    _scratch: Scratch,
}

thread_local! {
    /// Of any compute type, the one used last at the end.
    static RECENT: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

impl<C: Compute> Prepared<C> {
    /// Prepares a call that has a single strip.
    pub fn new(key: &Key<'_>, plan: Plan, layout: Layout, taps: &Arc<Taps<C>>) -> Result<Box<Self>> {
        let mut scratch = Scratch::default();
        let worker = Worker::new(&plan, taps, 0, &mut scratch)?;
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
                if recent.len() == KEPT {
                    recent.remove(0);
                }
                recent.push(self);
            }
        });
    }
}

/// Whether a call is so small that preparing it shows.
pub fn is_worth_keeping(plan: &Plan) -> bool {
    plan.strips == 1 && plan.work <= KEPT_WORK
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::blob::Blob;
    use crate::core::tensor::Tensor;
    use crate::operators::upfirdn2d::UpFirDn2dOp;

    fn blob(shape: &[usize], values: &[f32]) -> Blob {
        Tensor::from_vec(shape, values.to_vec()).unwrap().into()
    }

    fn run(gain: f64) -> Vec<f32> {
        let (x, k, mut y) = (blob(&[1, 3], &[1., 2., 3.]), blob(&[1, 2], &[1., 10.]), Blob::create());
        let args = UpFirDn2dArgs { gain, ..Default::default() };
        UpFirDn2dOp::new(args).run(&[&x, &k], &mut [&mut y]).unwrap();
        y.read::<f32>().unwrap()
    }

    fn kept() -> usize {
        RECENT.with_borrow(Vec::len)
    }

    #[test]
    fn a_thread_keeps_a_few_calls() {
        for _ in 0..3 {
            assert_eq!(run(1.0), [12., 23.]);
            assert_eq!(kept(), 1);
        }
        for gain in 0..2 * KEPT {
            run(gain as f64);
            assert!(kept() <= KEPT);
        }
        assert_eq!(kept(), KEPT);
        assert_eq!(std::thread::spawn(kept).join().unwrap(), 0);
    }

    #[test]
    fn a_call_within_another_prepares_its_own() {
        run(1.0);
        RECENT.with(|recent| {
            let _in_use = recent.borrow_mut();
            assert_eq!(run(1.0), [12., 23.]);
        });
        assert_eq!(kept(), 1);
    }
}
