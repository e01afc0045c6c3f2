//! The kernels of a CUDA device.

use super::LeakyReluArgs;
use crate::core::error::Result;
use crate::core::operator::Call;
use crate::devices::cuda::context::context_of;
use crate::devices::cuda::map;
use crate::devices::cuda::modules::Module;

/// The kernels.
pub static MODULE: Module = Module { name: "leaky_relu", text: include_str!("../../../cuda/ptx/leaky_relu.ptx") };

/// Y of X.
pub fn forward(call: &Call<'_>) -> Result<()> {
    let Some(y) = &call.outputs[0] else { return Ok(()) };
    let LeakyReluArgs { alpha } = LeakyReluArgs::from_args(call.args);
    map::launch(context_of(y.device)?, (&MODULE, "leaky_relu"), y, [call.input(0)], [alpha, 0.0], call.stream)
}

/// dX of a tensor with the sign of X, and dY.
pub fn gradient(call: &Call<'_>) -> Result<()> {
    let Some(dx) = &call.outputs[0] else { return Ok(()) };
    let LeakyReluArgs { alpha } = LeakyReluArgs::from_args(call.args);
    let inputs = [&**call.input(0), call.input(1)];
    map::launch(context_of(dx.device)?, (&MODULE, "leaky_relu_gradient"), dx, inputs, [alpha, 0.0], call.stream)
}
