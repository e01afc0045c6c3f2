//! `ReduceSum`, and `BroadcastLike`, which repeats what it has summed: each the other's gradient.
//!
//! Definitions carry no shapes, so both take an input that lends only its shape: the shape to sum to, or
//! to repeat to. A mean is `ReduceSum` with a `scale` of one over the number of elements.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;

use smallvec::{SmallVec, smallvec};

use crate::core::args::ArgValue;
use crate::core::error::{Error, Result};
use crate::core::gradient::{Gradient, GradientDefs, GradientRequest};
use crate::core::operator::Operator;
use crate::core::schema::{InputDType, InputSpec, OpCost, OpSchema, OutputTypes, Signature};
use crate::core::shape::Shape;
use crate::core::tensor::TensorType;
use crate::core::{arguments, example};
use crate::operators::arithmetic::broadcast_shapes;

family!(reduce_sum, broadcast_like);

/// Axes, few enough to stand in place.
type Axes = SmallVec<[i64; 6]>;

arguments! {
    /// The arguments of `ReduceSum`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ReduceSumArgs {
        axes {
            axes: Axes = Axes::new(),
            "The axes to sum over; negative ones count from the end. Empty means all, or, with Like, those that \
             Like's shape asks for.";
        }
        keepdims { keepdims: bool = false, "Whether axes stay, with length one."; }
        scale { scale: f64 = 1.0, "What the result is multiplied by."; }
    }
}

arguments! {
    /// The arguments of `BroadcastLike`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct BroadcastLikeArgs {
        axes {
            axes: Axes = Axes::new(),
            "The axes of Like that X lacks; negative ones count from the end. Empty means that X is matched to \
             Like from the last axis on.";
        }
        scale { scale: f64 = 1.0, "What the result is multiplied by."; }
    }
}

/// One operation for each element of the larger side.
fn cost(schema: &OpSchema) -> impl Fn(&Signature<'_>, &[TensorType]) -> Result<OpCost> + use<> {
    let schema = schema.clone();
    move |signature, outputs| {
        let flops = signature.input(0).shape.elements().max(outputs[0].shape.elements()) as u64;
        Ok(OpCost { flops, ..schema.traffic(signature.inputs, outputs) })
    }
}

/// The operator `ReduceSum`.
pub fn reduce_sum() -> Operator {
    let doc = "Y = scale * the sum of X over axes. With Like, what is left is summed to the shape of Like, as if X had \
               been broadcast from it. Summed in float64 blocks, in an order that no number of threads changes.";
    let schema = OpSchema::new("ReduceSum", doc)
        .input(InputSpec::new("X", "Any shape."))
        .input(
            InputSpec::new("Like", "A shape that broadcasts to X's; lends only that shape.")
                .optional()
                .shape_only()
                .dtype(InputDType::Any),
        )
        .output("Y", "X's shape without the axes, or Like's shape; the type of X.")
        .examples([
            example!([2, 3, 4], none; axes = vec![0, -1], keepdims = true),
            example!([2, 3, 4], [3, 1]; scale = 0.5),
        ])
        .args(ReduceSumArgs::specs())
        .keeps_layout_of(None)
        .tensor_inference_function(infer_reduce_sum)
        .cost_formula("1 flop an element of X; X is read once and Y written once");
    let cost = cost(&schema);
    let operator = Operator::new(schema.cost_inference_function(cost), cpu::reduce_sum);
    with_cuda!(operator, cuda::reduce_sum).with_gradient(Gradient::defined(get_reduce_sum_gradient))
}

/// The operator `BroadcastLike`.
pub fn broadcast_like() -> Operator {
    let doc = "Y = scale * X, repeated to the shape of Like as numpy broadcasts. The gradient of ReduceSum.";
    let schema = OpSchema::new("BroadcastLike", doc)
        .input(InputSpec::new("X", "A shape that broadcasts to Like's."))
        .input(InputSpec::new("Like", "Any shape; lends only that.").shape_only().dtype(InputDType::Any))
        .output("Y", "The shape of Like and the type of X.")
        .examples([example!([3, 1], [2, 3, 4]; scale = 2.0)])
        .args(BroadcastLikeArgs::specs())
        .keeps_layout_of(Some(1))
        .tensor_inference_function(infer_broadcast_like)
        .cost_formula("1 flop an element of Y; X is read once and Y written once");
    let cost = cost(&schema);
    let operator = Operator::new(schema.cost_inference_function(cost), cpu::broadcast_like);
    with_cuda!(operator, cuda::broadcast_like).with_gradient(Gradient::defined(get_broadcast_like_gradient))
}

/// For each dimension whether it is among the axes; `None` where an axis is missing or named twice.
/// No axes mean every dimension, unless the shape to sum to says which.
fn axis_mask(axes: &[i64], rank: usize, to_like: bool) -> Option<SmallVec<[bool; 6]>> {
    let mut mask = SmallVec::from_elem(axes.is_empty() && !to_like, rank);
    for &axis in axes {
        let from_start = if axis < 0 { axis.checked_add(rank as i64)? } else { axis };
        let place = mask.get_mut(usize::try_from(from_start).ok()?)?;
        if std::mem::replace(place, true) {
            return None;
        }
    }
    Some(mask)
}

fn refuse_axes(operator: &str, axes: &[i64], shape: &Shape) -> Error {
    let takes = format!("different axes of {shape}");
    Error::argument(operator, "axes", ArgValue::Ints(axes.to_vec()), takes)
}

/// For each dimension of `shape` the one of `from` that is repeated along it, if any; `None` where the
/// shapes do not match.
fn source_dimensions(from: &Shape, shape: &Shape, axes: &[i64]) -> Option<SmallVec<[Option<usize>; 6]>> {
    let lacking = axis_mask(axes, shape.len(), true)?;
    let present: SmallVec<[usize; 6]> = (0..shape.len()).filter(|&d| !lacking[d]).collect();
    let missing = present.len().checked_sub(from.len())?;
    let mut sources = SmallVec::from_elem(None, shape.len());
    for (source, &d) in present[missing..].iter().enumerate() {
        if from[source] != shape[d] && from[source] != 1 {
            return None;
        }
        sources[d] = Some(source);
    }
    Some(sources)
}

fn infer_reduce_sum(signature: &Signature<'_>) -> Result<OutputTypes> {
    let (x, like) = (signature.input(0), signature.inputs.get(1).copied().flatten());
    let ReduceSumArgs { axes, keepdims, .. } = ReduceSumArgs::from_args(signature.args);
    let Some(summed) = axis_mask(&axes, x.shape.len(), like.is_some()) else {
        return Err(refuse_axes(signature.operator, &axes, &x.shape));
    };
    let left = |d: usize| match (summed[d], keepdims) {
        (false, _) => Some(x.shape[d]),
        (true, true) => Some(1),
        (true, false) => None,
    };
    let mut shape: Shape = (0..x.shape.len()).filter_map(left).collect();
    if let Some(like) = like {
        if like.shape.len() > shape.len() || broadcast_shapes(&like.shape, &shape).as_ref() != Some(&shape) {
            let takes = format!("a shape that broadcasts to {shape}");
            return Err(Error::shape(signature.operator, "Like", &like.shape, takes));
        }
        shape = like.shape.clone();
    }
    Ok(smallvec![TensorType { shape, dtype: x.dtype }])
}

fn infer_broadcast_like(signature: &Signature<'_>) -> Result<OutputTypes> {
    let (x, like) = (signature.input(0), signature.input(1));
    let BroadcastLikeArgs { axes, .. } = BroadcastLikeArgs::from_args(signature.args);
    if axis_mask(&axes, like.shape.len(), true).is_none() {
        return Err(refuse_axes(signature.operator, &axes, &like.shape));
    }
    if source_dimensions(&x.shape, &like.shape, &axes).is_none() {
        let takes = match &axes[..] {
            [] => format!("a shape that broadcasts to {}", like.shape),
            axes => format!("a shape that broadcasts to {} without the axes {axes:?}", like.shape),
        };
        return Err(Error::shape(signature.operator, "X", &x.shape, takes));
    }
    Ok(smallvec![TensorType { shape: like.shape.clone(), dtype: x.dtype }])
}

/// Every element of X had its part in one sum: that sum's gradient, repeated.
fn get_reduce_sum_gradient(request: &GradientRequest<'_>) -> Result<GradientDefs> {
    let mut input_gradients = vec![None; request.def.inputs.len()];
    let dy = request.output_gradient(0);
    if dy.is_empty() {
        return Ok(GradientDefs { operators: vec![], input_gradients });
    }
    let dx = request.input_gradient(0);
    let mut def = request.def.derive("BroadcastLike", &[dy, request.input(0)], &[&dx]);
    def.args.remove("keepdims");
    if ReduceSumArgs::from_args(request.args).keepdims {
        def.args.remove("axes");
    }
    input_gradients[0] = Some(dx);
    Ok(GradientDefs { operators: vec![def], input_gradients })
}

/// Every element of X was repeated: the sum of the gradients of its repetitions.
fn get_broadcast_like_gradient(request: &GradientRequest<'_>) -> Result<GradientDefs> {
    let dy = request.output_gradient(0);
    if dy.is_empty() {
        return Ok(GradientDefs { operators: vec![], input_gradients: vec![None, None] });
    }
    let dx = request.input_gradient(0);
    let def = request.def.derive("ReduceSum", &[dy, request.input(0)], &[&dx]);
    Ok(GradientDefs { operators: vec![def], input_gradients: vec![Some(dx), None] })
}
