//! The kernels of the CPU.

use super::{BiasActArgs, BiasActGradientArgs, existing_axis};
use crate::core::error::Result;
use crate::core::operator::Call;
use crate::devices::cpu::{activations, reduce};
use crate::operators::fused_leaky_relu::channels;

/// Y of X and B.
pub fn forward(call: &Call<'_>) -> Result<()> {
    let Some(y) = &call.outputs[0] else { return Ok(()) };
    let args = BiasActArgs::from_args(call.args);
    activations::apply(&args.settings(), y, call.input(0), &channels(call, 1, y.shape(), args.axis))
}

/// dX and dB of X, dY and B.
pub fn gradient(call: &Call<'_>) -> Result<()> {
    let args = BiasActGradientArgs::from_args(call.args);
    let (x, dy) = (call.input(0), call.input(1));
    let bias = channels(call, 2, x.shape(), args.axis);
    let sums = call.outputs.get(1).and_then(Option::as_ref).map(|db| {
        let axis = existing_axis(args.axis, x.shape().len()).expect("inference has found the axis");
        let strides = (0..x.shape().len()).map(|d| (d == axis).then_some(db.strides[0])).collect();
        reduce::Sums { pointer: db.pointer, dtype: db.dtype(), strides, scale: 1.0 }
    });
    let (settings, order) = (args.forward().settings(), args.order as usize);
    // SAFETY: dB has one element for each index of the channel axis and shares memory with nothing: the schema has
    // checked both.
    unsafe { activations::gradient(&settings, order, call.outputs[0].as_ref(), [x, dy, &bias], sums.as_ref()) }
}
