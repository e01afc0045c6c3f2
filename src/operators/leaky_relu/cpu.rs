//! The kernels of the CPU.

use super::LeakyReluArgs;
use super::formula::Leaky;
use crate::core::dtype::{Compute, Element};
use crate::core::error::Result;
use crate::core::operator::Call;
use crate::devices::cpu::elementwise;
use crate::with_element;

/// Y of X.
pub fn forward(call: &Call<'_>) -> Result<()> {
    let Some(y) = &call.outputs[0] else { return Ok(()) };
    with_element!(y.dtype(), T => {
        let alpha = <T as Element>::Compute::from_f64(LeakyReluArgs::from_args(call.args).alpha);
        elementwise::map::<T, 1>(&Leaky { alpha }, y, [call.input(0)])
    })
}

/// dX of a tensor with the sign of X, and dY.
pub fn gradient(call: &Call<'_>) -> Result<()> {
    let Some(dx) = &call.outputs[0] else { return Ok(()) };
    with_element!(dx.dtype(), T => {
        let alpha = <T as Element>::Compute::from_f64(LeakyReluArgs::from_args(call.args).alpha);
        elementwise::map::<T, 2>(&Leaky { alpha }, dx, [call.input(0), call.input(1)])
    })
}
