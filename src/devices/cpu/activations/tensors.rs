//! Activations of whole tensors: bias, activation, gain and clamp in one pass, and their gradients in another.

use super::curves::with_curve;
use super::{Activation, Pointwise};
use crate::elementwise;
use crate::reduce::{self, Sums};
use firelu_core::dtype::{Compute, Element};
use firelu_core::error::Result;
use firelu_core::tensor::{TensorView, TensorViewMut};
use firelu_core::with_element;

/// What an activation is called with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Which one.
    pub activation: Activation,
    /// The slope of lrelu.
    pub alpha: f64,
    /// What the result is multiplied by.
    pub gain: f64,
    /// How large the result may be.
    pub clamp: Option<f64>,
}

impl Settings {
    /// For rows, with the order of the derivative that is wanted.
    pub fn pointwise<C: Compute>(&self, order: usize) -> Pointwise<C> {
        Pointwise::new(self.activation, self.alpha, self.gain, self.clamp, order)
    }
}

/// `clip(gain · f(x + bias))`; the bias is broadcast to the shape of x.
pub fn apply(settings: &Settings, output: &TensorViewMut<'_>, x: &TensorView<'_>, bias: &TensorView<'_>) -> Result<()> {
    with_element!(output.dtype(), T => {
        let pointwise = settings.pointwise::<<T as Element>::Compute>(1);
        with_curve!(settings.activation, pointwise.alpha, curve => {
            elementwise::map::<T, 2>(&pointwise.value_of(curve), output, [x, bias])
        })
    })
}

/// The derivative of order n at x + bias times dy, and its sums where they are wanted.
///
/// # Safety
/// As [`reduce::sum`].
pub unsafe fn gradient(
    settings: &Settings,
    order: usize,
    target: Option<&TensorViewMut<'_>>,
    inputs: [&TensorView<'_>; 3],
    sums: Option<&Sums>,
) -> Result<()> {
    with_element!(inputs[0].dtype(), T => {
        let pointwise = settings.pointwise::<<T as Element>::Compute>(order);
        with_curve!(settings.activation, pointwise.alpha, curve => {
            let formula = pointwise.derivative_of(curve);
            match (target, sums) {
                // SAFETY: the caller's promise.
                (_, Some(sums)) => unsafe { reduce::sum::<T, 3>(&formula, inputs, target, sums) },
                (Some(target), None) => elementwise::map::<T, 3>(&formula, target, inputs),
                (None, None) => Ok(()),
            }
        })
    })
}
