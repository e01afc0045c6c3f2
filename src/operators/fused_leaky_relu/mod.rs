//! Bias, leaky ReLU and scale in one step: `y = scale · lrelu(x + b)`, with one bias for each channel.
//!
//! `dx = scale · mask · (dy + b')` and `db`, the sum of `dx` over all axes but the channel's, are linear
//! in `dy` and `b'`, so that the gradient is its own derivative. The mask needs only the sign of x + b,
//! which y has where `alpha ≥ 0` and `scale > 0`; with other arguments x + b is computed once more.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
pub mod formula;

pub use cpu::channels;

use smallvec::smallvec;

use crate::core::args::ArgValue;
use crate::core::error::{Error, Result};
use crate::core::gradient::{Gradient, GradientDefs, GradientMaker, GradientRequest};
use crate::core::operator::Operator;
use crate::core::schema::{InputDType, InputSpec, OpCost, OpSchema, OutputTypes, Signature};
use crate::core::tensor::TensorType;
use crate::core::{arguments, example};

family!(fused_leaky_relu, fused_leaky_relu_gradient);

/// The place of the gradient's input that lends only its type.
const LIKE: usize = 3;

arguments! {
    /// The arguments of both operators.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct FusedLeakyReluArgs {
        alpha { alpha: f64 = 0.2, "The slope where X + B is not positive."; }
        scale { scale: f64 = std::f64::consts::SQRT_2, "What the result is multiplied by."; }
        axis {
            axis: i64 = 1,
            "The axis of the channels; negative ones count from the end. Without a bias it is not looked at.";
        }
    }
}

/// The axis counted from the start, if a tensor of this rank has it.
pub fn existing_axis(axis: i64, rank: usize) -> Option<usize> {
    let from_start = if axis < 0 { axis.checked_add(rank as i64)? } else { axis };
    usize::try_from(from_start).ok().filter(|&axis| axis < rank)
}

fn check_bias(signature: &Signature<'_>, place: usize, name: &str) -> Result<()> {
    let bias = signature.inputs.get(place).copied().flatten();
    // What lends only its type may come without a length, which a part of the channels does not have.
    let has_length = !(place == LIKE && bias.is_some_and(|bias| bias.shape.is_empty()));
    let axis = FusedLeakyReluArgs::from_args(signature.args).axis;
    if has_length { check_channels(signature, place, name, axis) } else { check_axis(signature, axis).map(|_| ()) }
}

/// The axis of the channels of the first input.
fn check_axis(signature: &Signature<'_>, axis: i64) -> Result<usize> {
    let (of, rank) = (signature.input(0), signature.input(0).shape.len());
    let Some(channel) = existing_axis(axis, rank) else {
        let takes = match rank {
            0 => "an input with at least one dimension beside a bias".to_string(),
            _ => format!("{} to {}, an axis of {}", -(rank as i64), rank - 1, of.shape),
        };
        return Err(Error::argument(signature.operator, "axis", axis, takes));
    };
    Ok(channel)
}

/// Whether an optional input is a vector with one number for each channel of the first input.
pub fn check_channels(signature: &Signature<'_>, place: usize, name: &str, axis: i64) -> Result<()> {
    let (Some(bias), of) = (signature.inputs.get(place).copied().flatten(), signature.input(0)) else { return Ok(()) };
    let channel = check_axis(signature, axis)?;
    if bias.shape[..] != [of.shape[channel]] {
        let takes = format!("({},), the length of axis {axis} of {}", of.shape[channel], of.shape);
        return Err(Error::shape(signature.operator, name, &bias.shape, takes));
    }
    Ok(())
}

/// Compare and two products for each element, the sum of two given operands, and the sum that is dB.
fn cost(schema: &OpSchema, added: [usize; 2]) -> impl Fn(&Signature<'_>, &[TensorType]) -> Result<OpCost> + use<> {
    let schema = schema.clone();
    move |signature, outputs| {
        let is_given = |&place: &usize| signature.inputs.get(place).is_some_and(Option::is_some);
        let sums = usize::from(added.iter().all(is_given)) + outputs.len() - 1;
        let flops = (3 + sums as u64).saturating_mul(outputs[0].shape.elements() as u64);
        Ok(OpCost { flops, ..schema.traffic(signature.inputs, outputs) })
    }
}

/// The operator `FusedLeakyRelu`.
pub fn fused_leaky_relu() -> Operator {
    let doc = "Y = scale * lrelu(X + B), where lrelu(t) = t where t > 0, else alpha * t, and B has one number \
               for each channel.";
    let bias = InputSpec::new("B", "The length of X's axis; float32 is taken beside a half-precision X.");
    let schema = OpSchema::new("FusedLeakyRelu", doc)
        .input(InputSpec::new("X", "Any shape, such as (N, C, H, W) or (N, C)."))
        .input(bias.optional().dtype(InputDType::CommonOrFloat32))
        .output("Y", "The shape and type of X.")
        .examples([
            example!([2, 3, 4], [3]),
            example!([2, 3, 2, 2], none; scale = 2.0),
            example!([2, 3], [2]; axis = 0, scale = -1.0),
        ]);
    let schema =
        schema.args(FusedLeakyReluArgs::specs()).allow_inplace(&[(0, 0)]).tensor_inference_function(|signature| {
            check_bias(signature, 1, "B")?;
            Ok(smallvec![signature.input(0).clone()])
        });
    let schema = schema.cost_formula(
        "3 flops an element (compare, two products), one more with a bias; X and B are read once and Y written once",
    );
    let cost = cost(&schema, [0, 1]);
    let operator = Operator::new(schema.cost_inference_function(cost), cpu::forward);
    with_cuda!(operator, cuda::forward).with_gradient(Gradient::defined(GetFusedLeakyReluGradient))
}

/// The operator `FusedLeakyReluGradient`.
pub fn fused_leaky_relu_gradient() -> Operator {
    let doc = "dX = scale * (dY + B) where Y > 0, else scale * alpha * (dY + B), and dB, the sum of dX over all axes \
               but the channel's. Y may be any tensor with the sign of the forward X + B. An omitted dY or B counts \
               as zero; one of them must be given.";
    let bias = InputSpec::new("B", "The length of Y's axis; added to dY.");
    let like =
        InputSpec::new("Like", "The forward bias, or a scalar; lends only its type to dB, which else has B's, or Y's.");
    let schema = OpSchema::new("FusedLeakyReluGradient", doc)
        .input(InputSpec::new("Y", "Any shape; only its sign counts."))
        .input(InputSpec::new("dY", "The shape and type of Y.").optional())
        .input(bias.optional().dtype(InputDType::CommonOrFloat32))
        .input(like.optional().shape_only().dtype(InputDType::CommonOrFloat32))
        .output("dX", "The shape and type of Y.")
        .output("dB", "The length of Y's axis; absent where Y has no such axis.")
        .examples([example!([2, 3, 2], [2, 3, 2], [3], [3]), example!([2, 3, 2], [2, 3, 2], none, [3]; alpha = 0.1)]);
    let schema =
        schema.args(FusedLeakyReluArgs::specs()).allow_inplace(&[(1, 0)]).tensor_inference_function(infer_gradient);
    let schema = schema.cost_formula(
        "3 flops an element (compare, two products), one more where dY and B are both given, one more for dB; Y, dY and \
         B are read once, dX and dB written once",
    );
    let cost = cost(&schema, [1, 2]);
    let operator = Operator::new(schema.cost_inference_function(cost), cpu::gradient);
    with_cuda!(operator, cuda::gradient).with_gradient(Gradient::defined(get_fused_leaky_relu_gradient_gradient))
}

fn infer_gradient(signature: &Signature<'_>) -> Result<OutputTypes> {
    let input = |place: usize| signature.inputs.get(place).copied().flatten();
    let y = signature.input(0);
    match input(1) {
        Some(dy) if dy.shape != y.shape => {
            let takes = format!("{}, the shape of Y", y.shape);
            return Err(Error::shape(signature.operator, "dY", &dy.shape, takes));
        }
        None if input(2).is_none() => {
            return Err(Error::argument(signature.operator, "dY", "neither dY nor B", "at least one of them"));
        }
        _ => {}
    }
    check_bias(signature, 2, "B")?;
    check_bias(signature, LIKE, "Like")?;
    let mut outputs: OutputTypes = smallvec![y.clone()];
    if let Some(axis) = existing_axis(FusedLeakyReluArgs::from_args(signature.args).axis, y.shape.len()) {
        let dtype = input(LIKE).or(input(2)).unwrap_or(y).dtype;
        outputs.push(TensorType::new([y.shape[axis]], dtype));
    }
    Ok(outputs)
}

/// Makes `FusedLeakyReluGradient` definitions of `FusedLeakyRelu` definitions.
#[derive(Debug, Clone, Copy, Default)]
pub struct GetFusedLeakyReluGradient;

impl GradientMaker for GetFusedLeakyReluGradient {
    fn get_gradient_defs(&self, request: &GradientRequest<'_>) -> Result<GradientDefs> {
        let (x, bias, dy) = (request.input(0), request.input(1), request.output_gradient(0));
        if dy.is_empty() {
            return Ok(GradientDefs { operators: vec![], input_gradients: vec![None; request.def.inputs.len()] });
        }
        let FusedLeakyReluArgs { alpha, scale, .. } = FusedLeakyReluArgs::from_args(request.args);
        let keeps_sign = alpha >= 0.0 && scale > 0.0;
        if !keeps_sign && request.is_inplace(0, 0) {
            let (argument, got) = if alpha < 0.0 { ("alpha", alpha) } else { ("scale", scale) };
            let got = format!("{got} in place on {x:?}");
            let takes = "alpha >= 0 and scale > 0 in place: else the output has lost the sign of X + B";
            return Err(Error::argument(&request.def.operator, argument, got, takes));
        }
        let mut operators = Vec::new();
        let sum = format!("{}_before_activation", request.output(0));
        let sign = match (keeps_sign, bias) {
            (true, _) => request.output(0),
            (false, "") => x,
            (false, _) => {
                // With a slope and a scale of one the operator itself gives X + B.
                let def = request.def.derive("FusedLeakyRelu", &[x, bias], &[&sum]);
                operators.push(def.arg("alpha", ArgValue::Float(1.0)).arg("scale", ArgValue::Float(1.0)));
                &sum
            }
        };
        let dx = request.input_gradient(0);
        let db = (!bias.is_empty()).then(|| request.input_gradient(1));
        operators.push(match &db {
            Some(db) => request.def.derive("FusedLeakyReluGradient", &[sign, dy, "", bias], &[&dx, db]),
            None => request.def.derive("FusedLeakyReluGradient", &[sign, dy], &[&dx]),
        });
        let mut input_gradients = vec![Some(dx), db];
        input_gradients.truncate(request.def.inputs.len());
        Ok(GradientDefs { operators, input_gradients })
    }
}

/// Linear in dY and B and flat in Y: its own derivative.
fn get_fused_leaky_relu_gradient_gradient(request: &GradientRequest<'_>) -> Result<GradientDefs> {
    let (y, dy, bias) = (request.input(0), request.input(1), request.input(2));
    let (ddx, ddb) = (request.output_gradient(0), request.output_gradient(1));
    let mut input_gradients = vec![None; request.def.inputs.len()];
    if ddx.is_empty() && ddb.is_empty() {
        return Ok(GradientDefs { operators: vec![], input_gradients });
    }
    let mut outputs = vec![""; 2];
    let (of_dy, of_bias) = (request.input_gradient(1), request.input_gradient(2));
    if !dy.is_empty() {
        outputs[0] = &of_dy;
        input_gradients[1] = Some(of_dy.clone());
    }
    if bias.is_empty() {
        outputs.pop();
    } else {
        outputs[1] = &of_bias;
        input_gradients[2] = Some(of_bias.clone());
    }
    let def = request.def.derive("FusedLeakyReluGradient", &[y, ddx, ddb, bias], &outputs);
    Ok(GradientDefs { operators: vec![def], input_gradients })
}

operator_object!(
    /// `FusedLeakyRelu` as an object: `run(&[&x, &bias], &mut [&mut y])`.
    FusedLeakyReluOp(FusedLeakyReluArgs),
    fused_leaky_relu
);
operator_object!(
    /// `FusedLeakyReluGradient` as an object: `run(&[&y, &dy], &mut [&mut dx, &mut dbias])`.
    FusedLeakyReluGradientOp(FusedLeakyReluArgs),
    fused_leaky_relu_gradient
);

#[cfg(test)]
mod tests;
