//! Ways to run an operator that the library has no function for.

use std::collections::HashMap;

use firelu::core::device::Stream;
use firelu::devices::cpu::parallel::with_threads;
use firelu::{ArgValue, Call, Device, OperatorDef, Result, Tensor, TensorView, TensorViewMut, registry, run_on_device};

/// Runs an operator into tensors the caller made, as the bridge to Python does.
pub fn run_into(
    name: &str,
    inputs: &[Option<&Tensor>],
    outputs: &mut [Option<&mut Tensor>],
    args: &[(&str, ArgValue)],
) -> Result<()> {
    let operator = registry::find(name)?;
    let args = operator.schema.resolve_args(args.iter().cloned())?;
    let views: Vec<Option<TensorView<'_>>> = inputs.iter().map(|input| input.map(Tensor::view)).collect();
    let targets: Vec<Option<TensorViewMut<'_>>> = outputs
        .iter_mut()
        .map(|output| output.as_mut().map(|tensor| tensor.view_mut().expect("nobody shares an output")))
        .collect();
    let parts: Vec<_> = views.iter().map(|view| view.as_deref()).collect();
    let target_parts: Vec<_> = targets.iter().map(|target| target.as_deref()).collect();
    operator.schema.check(&parts, &target_parts, &args)?;
    operator.kernel(Device::Cpu)?(&Call { inputs: &views, outputs: &targets, args: &args, stream: Stream::default() })
}

/// Runs an operator with default arguments whose input number `place` is also its first output.
pub fn run_in_place(
    name: &str,
    inputs: &[Option<&Tensor>],
    place: usize,
    changed: &mut Tensor,
    others: &mut [&mut Tensor],
) {
    let operator = registry::find(name).unwrap();
    let args = operator.schema.resolve_args([] as [(&str, ArgValue); 0]).unwrap();
    assert!(changed.view_mut().is_some(), "nobody shares the tensor that changes");
    let parts = (*changed.view()).clone();
    // SAFETY: the tensor outlives both views; the schema is asked below whether they may be the same memory.
    let (input, output) = unsafe { (TensorView::from_parts(parts.clone()), TensorViewMut::from_parts(parts)) };
    let mut views: Vec<Option<TensorView<'_>>> = inputs.iter().map(|input| input.map(Tensor::view)).collect();
    views[place] = Some(input);
    let mut outputs = vec![Some(output)];
    outputs.extend(others.iter_mut().map(|other| other.view_mut()));
    let parts: Vec<_> = views.iter().map(|view| view.as_deref()).collect();
    let target_parts: Vec<_> = outputs.iter().map(|output| output.as_deref()).collect();
    operator.schema.check(&parts, &target_parts, &args).unwrap();
    let call = Call { inputs: &views, outputs: &outputs, args: &args, stream: Stream::default() };
    operator.kernel(Device::Cpu).unwrap()(&call).unwrap();
}

/// The results of a body for 1, 2, 3 and 8 threads, which must be the same bits.
pub fn same_for_every_number_of_threads(body: impl Fn() -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let one = with_threads(1, &body);
    for threads in [2, 3, 8] {
        assert!(with_threads(threads, &body) == one, "{threads} threads give other bits than one");
    }
    one
}

/// Blobs by name, for nets without a workspace.
pub type Blobs = HashMap<String, Tensor>;

/// Runs definitions one after the other.
pub fn run_defs(defs: &[OperatorDef], blobs: &mut Blobs) {
    for def in defs {
        let operator = registry::find(&def.operator).unwrap();
        let args = operator.schema.resolve_args(def.args.iter().map(|(name, value)| (name, value.clone()))).unwrap();
        let inputs: Vec<Option<Tensor>> =
            def.inputs.iter().map(|name| if name.is_empty() { None } else { Some(blobs[name].clone()) }).collect();
        let borrowed: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
        let results = run_on_device(&operator, &borrowed, &args).unwrap_or_else(|error| panic!("{def:?}: {error}"));
        for (name, tensor) in def.outputs.iter().zip(results) {
            if !name.is_empty() {
                blobs.insert(name.clone(), tensor);
            }
        }
    }
}
