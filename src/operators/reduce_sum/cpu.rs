//! The kernels of the CPU.

use super::{BroadcastLikeArgs, ReduceSumArgs, axis_mask, source_dimensions};
use crate::core::dtype::Compute;
use crate::core::error::Result;
use crate::core::operator::Call;
use crate::devices::cpu::{broadcast, elementwise, reduce};
use crate::operators::arithmetic::formula::{Scaled, Sum};
use crate::with_element;

/// The sum of X over axes, and then to the shape of Like.
pub fn reduce_sum(call: &Call<'_>) -> Result<()> {
    let Some(output) = &call.outputs[0] else { return Ok(()) };
    let x = call.input(0);
    let ReduceSumArgs { axes, keepdims: keeps, scale } = ReduceSumArgs::from_args(call.args);
    let to_like = call.inputs.get(1).is_some_and(Option::is_some);
    let rank = x.shape().len();
    let summed = axis_mask(&axes, rank, to_like).expect("inference has checked the axes");
    let kept_dims = (0..rank).filter(|&d| keeps || !summed[d]).count();
    // The output's dimensions are those that the axes leave, from the last.
    let mut place = output.shape().len() as isize - kept_dims as isize;
    let mut strides = smallvec::SmallVec::<[Option<isize>; 6]>::new();
    for d in 0..rank {
        let mut of_output = None;
        if keeps || !summed[d] {
            of_output = usize::try_from(place).ok().filter(|&o| !summed[d] && output.shape()[o] == x.shape()[d]);
            place += 1;
        }
        strides.push(of_output.map(|o| output.strides[o]));
    }
    with_element!(x.dtype(), T => {
        if strides.iter().all(Option::is_some) && output.shape() == x.shape() {
            return match scale {
                1.0 => elementwise::map::<T, 1>(&Sum, output, [x]),
                _ => elementwise::map::<T, 1>(&Scaled(Compute::from_f64(scale)), output, [x]),
            };
        }
        let sums = reduce::Sums { pointer: output.pointer, dtype: output.dtype(), strides, scale };
        // SAFETY: every dimension with a stride is one of the output's, of the same length, and the schema
        // has checked that the output shares memory with nothing.
        unsafe { reduce::sum::<T, 1>(&Sum, [x], None, &sums) }
    })
}

/// X repeated to the shape of Like.
pub fn broadcast_like(call: &Call<'_>) -> Result<()> {
    let Some(output) = &call.outputs[0] else { return Ok(()) };
    let x = call.input(0);
    let BroadcastLikeArgs { axes, scale } = BroadcastLikeArgs::from_args(call.args);
    let sources = source_dimensions(x.shape(), output.shape(), &axes);
    let sources = sources.expect("inference has matched the shapes");
    let repeated = broadcast::repeat(x, output.shape(), |d| sources[d]);
    with_element!(output.dtype(), T => match scale {
        1.0 => elementwise::map::<T, 1>(&Sum, output, [&repeated]),
        _ => elementwise::map::<T, 1>(&Scaled(Compute::from_f64(scale)), output, [&repeated]),
    })
}
