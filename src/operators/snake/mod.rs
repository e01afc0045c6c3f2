//! Snake: `y = x + sin²(p x) / (q + 1e-9)`, with a frequency p and a divisor q for each channel.
//!
//! The first derivatives by x and by the numbers are one pass, `SnakeGradient`. Any derivative, n times by x, i times by
//! alpha and j times by beta, is one formula, `SnakeDerivative`, whose own derivatives are again of that form.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod gradients;

use smallvec::smallvec;

use crate::core::error::{Error, Result};
use crate::core::gradient::Gradient;
use crate::core::operator::Operator;
use crate::core::schema::{InputDType, InputSpec, OpCost, OpSchema, OutputTypes, Signature};
use crate::core::tensor::TensorType;
use crate::core::{arguments, example};
use crate::devices::cpu::activations::Orders;
use crate::operators::fused_leaky_relu::check_channels;
pub use cpu::{of_channels, vector, write_sums};
pub use gradients::GetSnakeGradient;

family!(snake, snake_gradient, snake_derivative);

arguments! {
    /// The arguments of `Snake` and `SnakeGradient`.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct SnakeArgs {
        logscale { logscale: bool = false, "Whether exp(Alpha) and exp(Beta) are the frequencies and divisors."; }
        axis { axis: i64 = 1, "The axis of the channels; negative ones count from the end."; }
    }
}

arguments! {
    /// The arguments of `SnakeDerivative`.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct SnakeDerivativeArgs {
        logscale { logscale: bool = false, "Whether exp(Alpha) and exp(Beta) are the frequencies and divisors."; }
        axis { axis: i64 = 1, "The axis of the channels; negative ones count from the end."; }
        order_x { order_x: i64 = 1, in 0.0..=Orders::MOST as f64, "How often the derivative is taken by X."; }
        order_alpha { order_alpha: i64 = 0, in 0.0..=Orders::MOST as f64, "How often by Alpha."; }
        order_beta { order_beta: i64 = 0, in 0.0..=Orders::MOST as f64, "How often by Beta; without it, never."; }
    }
}

impl SnakeDerivativeArgs {
    /// The orders by each.
    pub fn orders(&self) -> Orders {
        let [x, alpha, beta] = [self.order_x, self.order_alpha, self.order_beta].map(|order| order as usize);
        Orders { x, alpha, beta }
    }
}

/// The places of the numbers of each channel among a forward's inputs, and among a gradient's.
const FORWARD: usize = 1;
const BACKWARD: usize = 2;

/// What a sine takes an element, by its polynomials.
const FLOPS: u64 = 40;

fn numbers(schema: OpSchema) -> OpSchema {
    let channel = |name: &str, doc: &str| InputSpec::new(name, doc).dtype(InputDType::CommonOrFloat32);
    schema
        .input(channel("Alpha", "The frequencies, the length of X's axis; float32 is taken beside a half-precision X."))
        .input(channel("Beta", "The divisors, the length of X's axis; Alpha where omitted.").optional())
}

/// Whether the numbers from a place on fit the first input, and dY does.
fn check(signature: &Signature<'_>, numbers: usize, axis: i64) -> Result<()> {
    let x = signature.input(0);
    if numbers == BACKWARD && signature.input(1).shape != x.shape {
        let takes = format!("{}, the shape of X", x.shape);
        return Err(Error::shape(signature.operator, "dY", &signature.input(1).shape, takes));
    }
    check_channels(signature, numbers, "Alpha", axis)?;
    check_channels(signature, numbers + 1, "Beta", axis)
}

fn with_cost(schema: OpSchema) -> OpSchema {
    let schema = schema
        .cost_formula("40 flops an element, those of a sine; every input is read once and every output written once");
    let plain = schema.clone();
    schema.cost_inference_function(move |signature, outputs| {
        let flops = FLOPS.saturating_mul(outputs[0].shape.elements() as u64);
        Ok(OpCost { flops, ..plain.traffic(signature.inputs, outputs) })
    })
}

/// The operator `Snake`.
pub fn snake() -> Operator {
    let doc = "Y = X + sin(p * X)^2 / (q + 1e-9), where p and q are Alpha and Beta, or their exponentials, one of each for \
               each channel.";
    let schema = OpSchema::new("Snake", doc).input(InputSpec::new("X", "Any shape, such as (B, C, T)."));
    let schema = numbers(schema)
        .output("Y", "The shape and type of X.")
        .examples([
            example!([2, 3, 4], [3], [3]; logscale = true),
            example!([2, 3, 4], [4], none; logscale = true, axis = -1),
        ])
        .args(SnakeArgs::specs())
        .allow_inplace(&[(0, 0)])
        .tensor_inference_function(|signature| {
            check(signature, FORWARD, SnakeArgs::from_args(signature.args).axis)?;
            Ok(smallvec![signature.input(0).clone()])
        });
    let operator = Operator::new(with_cost(schema), cpu::forward);
    with_cuda!(operator, cuda::forward).with_gradient(Gradient::defined(GetSnakeGradient))
}

fn backward(name: &str, doc: &str) -> OpSchema {
    numbers(
        OpSchema::new(name, doc)
            .input(InputSpec::new("X", "The forward's input."))
            .input(InputSpec::new("dY", "The shape and type of X.")),
    )
    .allow_inplace(&[(1, 0)])
}

/// The operator `SnakeGradient`.
pub fn snake_gradient() -> Operator {
    let doc = "dX = dY times the derivative of Snake by X; dAlpha and dBeta, the sums of dY times those by Alpha and Beta \
               over all axes but the channel's.";
    let schema = backward("SnakeGradient", doc)
        .output("dX", "The shape and type of X.")
        .output("dAlpha", "The shape and type of Alpha.")
        .output("dBeta", "The shape and type of Beta; of length zero without.")
        .examples([
            example!([2, 3, 4], [2, 3, 4], [3], [3]; logscale = true),
            example!([2, 3, 4], [2, 3, 4], [2], none; logscale = true, axis = 0),
        ])
        .args(SnakeArgs::specs())
        .tensor_inference_function(infer_gradient);
    let operator = Operator::new(with_cost(schema), cpu::gradient);
    with_cuda!(operator, cuda::gradient).with_gradient(Gradient::defined(gradients::of_gradient))
}

/// The operator `SnakeDerivative`.
pub fn snake_derivative() -> Operator {
    let doc = "Z = dY times the derivative of Snake, order_x times by X, order_alpha times by Alpha and order_beta times \
               by Beta. Without a Beta its place is Alpha's too.";
    let schema = backward("SnakeDerivative", doc)
        .output("Z", "The shape and type of X.")
        .examples([example!([2, 3, 2], [2, 3, 2], [3], [3]; logscale = true, order_beta = 1)])
        .args(SnakeDerivativeArgs::specs())
        .tensor_inference_function(infer_derivative);
    let operator = Operator::new(with_cost(schema), cpu::derivative);
    with_cuda!(operator, cuda::derivative).with_gradient(Gradient::defined(gradients::of_derivative))
}

fn infer_gradient(signature: &Signature<'_>) -> Result<OutputTypes> {
    check(signature, BACKWARD, SnakeArgs::from_args(signature.args).axis)?;
    let (x, alpha) = (signature.input(0), signature.input(BACKWARD));
    let beta = signature.inputs.get(BACKWARD + 1).copied().flatten();
    let dbeta = beta.cloned().unwrap_or_else(|| TensorType::new([0], x.dtype));
    Ok(smallvec![x.clone(), alpha.clone(), dbeta])
}

fn infer_derivative(signature: &Signature<'_>) -> Result<OutputTypes> {
    let args = SnakeDerivativeArgs::from_args(signature.args);
    check(signature, BACKWARD, args.axis)?;
    if args.order_beta > 0 && signature.inputs.get(BACKWARD + 1).copied().flatten().is_none() {
        let takes = "0 without Beta, which is Alpha then";
        return Err(Error::argument(signature.operator, "order_beta", args.order_beta, takes));
    }
    Ok(smallvec![signature.input(0).clone()])
}

operator_object!(
    /// `Snake` as an object: `run(&[&x, &alpha, &beta], &mut [&mut y])`.
    SnakeOp(SnakeArgs),
    snake
);
operator_object!(
    /// `SnakeGradient` as an object: `run(&[&x, &dy, &alpha, &beta], &mut [&mut dx, &mut dalpha, &mut dbeta])`.
    SnakeGradientOp(SnakeArgs),
    snake_gradient
);
operator_object!(
    /// `SnakeDerivative` as an object: `run(&[&x, &dy, &alpha, &beta], &mut [&mut z])`.
    SnakeDerivativeOp(SnakeDerivativeArgs),
    snake_derivative
);
