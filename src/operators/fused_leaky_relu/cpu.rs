//! The kernels of the CPU.

use super::formula::{Fused, OfBias};
use super::{FusedLeakyReluArgs, existing_axis};
use crate::core::dtype::{Compute, Element};
use crate::core::error::Result;
use crate::core::operator::Call;
use crate::core::shape::Shape;
use crate::core::tensor::TensorView;
use crate::devices::cpu::sources::SimdElement;
use crate::devices::cpu::{broadcast, elementwise, reduce};
use crate::with_element;

/// What an omitted bias is: the one number that changes nothing it is added to, zeros of either sign included.
static NOTHING: f64 = -0.0;

fn fused<T: Element>(call: &Call<'_>) -> Fused<T::Compute> {
    let FusedLeakyReluArgs { alpha, scale, .. } = FusedLeakyReluArgs::from_args(call.args);
    Fused { alpha: T::Compute::from_f64(alpha), scale: T::Compute::from_f64(scale) }
}

fn channel_axis(call: &Call<'_>, rank: usize) -> usize {
    existing_axis(FusedLeakyReluArgs::from_args(call.args).axis, rank).expect("inference has found the axis")
}

fn bias<'a>(call: &'a Call<'_>, place: usize, shape: &Shape) -> TensorView<'a> {
    channels(call, place, shape, FusedLeakyReluArgs::from_args(call.args).axis)
}

/// The optional input number `place`, one number for each index of the channel axis.
pub fn channels<'a>(call: &'a Call<'_>, place: usize, shape: &Shape, axis: i64) -> TensorView<'a> {
    match call.inputs.get(place).and_then(Option::as_ref) {
        Some(bias) => {
            let axis = existing_axis(axis, shape.len()).expect("inference has found the axis");
            broadcast::repeat(bias, shape, |d| (d == axis).then_some(0))
        }
        None => broadcast::constant(&NOTHING, shape),
    }
}

/// Y of X and B.
pub fn forward(call: &Call<'_>) -> Result<()> {
    let Some(y) = &call.outputs[0] else { return Ok(()) };
    let bias = bias(call, 1, y.shape());
    with_element!(y.dtype(), T => elementwise::map::<T, 2>(&fused::<T>(call), y, [call.input(0), &bias]))
}

/// dX and dB of a tensor with the sign of X + B, of dY and of an added bias.
pub fn gradient(call: &Call<'_>) -> Result<()> {
    with_element!(call.input(0).dtype(), T => gradient_of::<T>(call))
}

fn gradient_of<T: SimdElement>(call: &Call<'_>) -> Result<()> {
    let sign = call.input(0);
    let added = bias(call, 2, sign.shape());
    let formula = fused::<T>(call);
    let dx = call.outputs[0].as_ref();
    let dy = call.inputs.get(1).and_then(Option::as_ref);
    let Some(db) = call.outputs.get(1).and_then(Option::as_ref) else {
        return match (dx, dy) {
            (None, _) => Ok(()),
            (Some(dx), Some(dy)) => elementwise::map::<T, 3>(&formula, dx, [sign, dy, &added]),
            (Some(dx), None) => elementwise::map::<T, 2>(&OfBias(formula), dx, [sign, &added]),
        };
    };
    let axis = channel_axis(call, sign.shape().len());
    let sums = reduce::Sums {
        pointer: db.pointer,
        dtype: db.dtype(),
        strides: (0..sign.shape().len()).map(|d| (d == axis).then_some(db.strides[0])).collect(),
        scale: 1.0,
    };
    // SAFETY: dB has one element for each index of the channel axis and shares memory with nothing: the
    // schema has checked both.
    unsafe {
        match dy {
            Some(dy) => reduce::sum::<T, 3>(&formula, [sign, dy, &added], dx, &sums),
            None => reduce::sum::<T, 2>(&OfBias(formula), [sign, &added], dx, &sums),
        }
    }
}
