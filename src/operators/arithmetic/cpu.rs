//! The kernels of the CPU.

use super::formula::{Difference, Product, Sum};
use crate::core::dtype::Element;
use crate::core::error::Result;
use crate::core::operator::Call;
use crate::core::tensor::{TensorType, TensorView, TensorViewMut};
use crate::devices::cpu::simd::Formula;
use crate::devices::cpu::sources::SimdElement;
use crate::devices::cpu::{broadcast, elementwise, memory};
use crate::with_element;

/// A + B.
pub fn add(call: &Call<'_>) -> Result<()> {
    binary(call, &Sum, &Sum)
}

/// A - B.
pub fn sub(call: &Call<'_>) -> Result<()> {
    binary(call, &Difference::<false>, &Difference::<true>)
}

/// A * B.
pub fn mul(call: &Call<'_>) -> Result<()> {
    binary(call, &Product, &Product)
}

trait Binary: Formula<f32, 2> + Formula<f64, 2> {}
impl<F: Formula<f32, 2> + Formula<f64, 2>> Binary for F {}

/// `reversed` takes the operands in the other order: the repeated one comes last, where it is read once
/// for a whole run.
fn binary(call: &Call<'_>, formula: &impl Binary, reversed: &impl Binary) -> Result<()> {
    let Some(output) = &call.outputs[0] else { return Ok(()) };
    let first = broadcast::to_shape(call.input(0), output.shape());
    let second = broadcast::to_shape(call.input(1), output.shape());
    let is_repeated = call.input(0).shape().elements() < output.shape().elements();
    with_element!(output.dtype(), T => match is_repeated {
        true => elementwise::map::<T, 2>(reversed, output, [&second, &first]),
        false => elementwise::map::<T, 2>(formula, output, [&first, &second]),
    })
}

/// The sum of any number of inputs.
pub fn sum(call: &Call<'_>) -> Result<()> {
    let Some(output) = &call.outputs[0] else { return Ok(()) };
    let inputs: Vec<&TensorView<'_>> = call.inputs.iter().flatten().collect();
    with_element!(output.dtype(), T => sum_of::<T>(output, &inputs))
}

fn sum_of<T: SimdElement>(output: &TensorViewMut<'_>, inputs: &[&TensorView<'_>]) -> Result<()> {
    match *inputs {
        [a] => return elementwise::map::<T, 1>(&Sum, output, [a]),
        [a, b] => return elementwise::map::<T, 2>(&Sum, output, [a, b]),
        [a, b, c] => return elementwise::map::<T, 3>(&Sum, output, [a, b, c]),
        [a, b, c, d] => return elementwise::map::<T, 4>(&Sum, output, [a, b, c, d]),
        _ => {}
    }
    if T::DTYPE == T::Compute::DTYPE {
        elementwise::map::<T, 4>(&Sum, output, std::array::from_fn(|i| inputs[i]))?;
        for input in &inputs[4..] {
            elementwise::map::<T, 2>(&Sum, output, [&output.as_view(), input])?;
        }
        return Ok(());
    }
    // A half type is rounded once, so that many of them are added up in the compute type beside the output.
    let wide = TensorType { shape: output.shape().clone(), dtype: T::Compute::DTYPE };
    let strides = wide.shape.strides_like(&output.strides, wide.dtype);
    let mut total = memory::allocate(wide, strides)?;
    with_element!(T::Compute::DTYPE, C => {
        let total = total.view_mut().expect("the tensor was made here");
        elementwise::map::<C, 1>(&Sum, &total, [inputs[0]])?;
        for input in &inputs[1..] {
            elementwise::map::<C, 2>(&Sum, &total, [&total.as_view(), input])?;
        }
    });
    elementwise::map::<T, 1>(&Sum, output, [&total.view()])
}
