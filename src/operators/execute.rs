//! Runs one operator on tensors: only the outputs that are wanted, and in place where the caller offers memory.

use smallvec::SmallVec;

use crate::core::args::Args;
use crate::core::device::Stream;
use crate::core::error::Result;
use crate::core::operator::{Call, Operator};
use crate::core::tensor::{Parts, Tensor, TensorView, TensorViewMut};
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
    let reused = reuse.as_ref().map(|reuse| (reuse.input, reuse.output, (*reuse.tensor.view()).clone()));
    let views: SmallVec<[Option<TensorView<'_>>; 4]> = inputs.iter().map(|input| input.map(Tensor::view)).collect();
    let mut parts: SmallVec<[Option<&Parts>; 4]> = views.iter().map(|view| view.as_deref()).collect();
    let mut given: SmallVec<[Option<&Parts>; 2]> = SmallVec::new();
    if let Some((input, output, memory)) = &reused {
        parts[*input] = Some(memory);
        given.resize(output + 1, None);
        given[*output] = Some(memory);
    }
    let checked = operator.check(&parts, &given, args)?;
    let _entered = devices::enter(checked.device)?;
    let mut outputs: Vec<Option<Tensor>> = Vec::with_capacity(checked.outputs.len());
    for (place, kind) in checked.outputs.iter().enumerate() {
        let is_given = given.get(place).is_some_and(Option::is_some);
        outputs.push(match !is_given && wanted.get(place).copied().unwrap_or(false) {
            true => Some(devices::allocate(checked.device, kind.clone(), checked.strides(&parts, kind))?),
            false => None,
        });
    }
    drop((parts, given));

    let mut targets: SmallVec<[Option<TensorViewMut<'_>>; 2]> =
        outputs.iter_mut().map(|output| output.as_mut().and_then(Tensor::view_mut)).collect();
    if let Some(reuse) = &mut reuse {
        targets[reuse.output] = Some(reuse.tensor.view_mut().expect("the caller checked that nobody else holds it"));
    }
    let sources: SmallVec<[Option<TensorView<'_>>; 4]> = inputs
        .iter()
        .enumerate()
        .map(|(index, input)| match &reused {
            Some((place, output, _)) if *place == index => targets[*output].as_ref().map(TensorViewMut::as_view),
            _ => input.map(Tensor::view),
        })
        .collect();
    checked.run(&Call { inputs: &sources, outputs: &targets, args, stream: Stream::default() })?;
    drop(sources);
    drop(targets);
    if let Some(reuse) = reuse {
        outputs[reuse.output] = Some(reuse.tensor);
    }
    Ok(outputs)
}
