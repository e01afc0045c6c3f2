//! Runs one operator: only the outputs that are wanted, and in place where the caller offers memory.

use smallvec::SmallVec;

use crate::core::args::Args;
use crate::core::device::{Device, Stream};
use crate::core::error::Result;
use crate::core::operator::{Call, Operator};
use crate::core::tensor::{Parts, Tensor, TensorType, TensorView, TensorViewMut};
use crate::devices;

/// An input that becomes an output: its values may be overwritten.
pub struct Reuse {
    /// The input's place.
    pub input: usize,
    /// The output's place.
    pub output: usize,
    /// The memory, which nobody else holds.
    pub tensor: Tensor,
}

/// Runs an operator on the device its inputs are on; outputs that are not wanted are `None`. With
/// `reuse` the input at its place is taken from there.
pub fn execute(
    operator: &Operator,
    inputs: &[Option<&Tensor>],
    args: &Args,
    wanted: &[bool],
    mut reuse: Option<Reuse>,
) -> Result<Vec<Option<Tensor>>> {
    let (device, mut outputs) = prepare(operator, inputs, args, wanted, reuse.as_ref())?;
    let kernel = operator.kernel(device)?;
    let reused = reuse.as_ref().map(|reuse| (reuse.input, reuse.output));
    let mut targets: SmallVec<[Option<TensorViewMut<'_>>; 2]> =
        outputs.iter_mut().map(|output| output.as_mut().and_then(Tensor::view_mut)).collect();
    if let Some(reuse) = &mut reuse {
        targets[reuse.output] = Some(reuse.tensor.view_mut().expect("the caller checked that nobody else holds it"));
    }
    let views: SmallVec<[Option<TensorView<'_>>; 4]> = inputs
        .iter()
        .enumerate()
        .map(|(index, input)| match reused {
            Some((place, output)) if place == index => targets[output].as_ref().map(TensorViewMut::as_view),
            _ => input.map(Tensor::view),
        })
        .collect();
    kernel(&Call { inputs: &views, outputs: &targets, args, stream: Stream::default() })?;
    drop(views);
    drop(targets);
    if let Some(reuse) = reuse {
        outputs[reuse.output] = Some(reuse.tensor);
    }
    Ok(outputs)
}

/// Checks the whole call, then allocates what is wanted and not reused.
fn prepare(
    operator: &Operator,
    inputs: &[Option<&Tensor>],
    args: &Args,
    wanted: &[bool],
    reuse: Option<&Reuse>,
) -> Result<(Device, Vec<Option<Tensor>>)> {
    let views: SmallVec<[Option<TensorView<'_>>; 4]> = inputs
        .iter()
        .enumerate()
        .map(|(index, input)| match reuse {
            Some(reuse) if reuse.input == index => Some(reuse.tensor.view()),
            _ => input.map(Tensor::view),
        })
        .collect();
    let parts: SmallVec<[Option<&Parts>; 4]> = views.iter().map(|view| view.as_deref()).collect();
    let mut given: SmallVec<[Option<&Parts>; 2]> = SmallVec::new();
    if let Some(reuse) = reuse {
        given.resize(reuse.output + 1, None);
        given[reuse.output] = parts[reuse.input];
    }
    let (device, kinds) = operator.schema.check(&parts, &given, args)?;
    let allocate = |(place, kind): (usize, &TensorType)| {
        let reused = reuse.is_some_and(|reuse| reuse.output == place);
        if reused || !wanted.get(place).copied().unwrap_or(false) {
            return Ok(None);
        }
        let strides = operator.schema.output_strides(&parts, kind);
        devices::allocate(device, kind.clone(), strides).map(Some)
    };
    let outputs = kinds.iter().enumerate().map(allocate).collect::<Result<Vec<_>>>()?;
    Ok((device, outputs))
}

/// A tensor of the same type on the same device that keeps no values: one element stands for all.
pub fn shape_of(tensor: &Tensor) -> Result<Tensor> {
    let one = devices::filled(tensor.device(), &TensorType::new([1], tensor.dtype()), 0.0)?;
    let strides = SmallVec::from_elem(0, tensor.shape().len());
    Tensor::from_storage(one.storage().clone(), 0, tensor.kind().clone(), strides)
}
