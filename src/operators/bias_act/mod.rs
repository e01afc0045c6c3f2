//! Bias, activation, gain and clamp in one step: `y = clip(gain · f(x + b), -clamp, clamp)`, with one bias for each
//! channel.
//!
//! `dx = dy · gain · f'(x + b)` inside the clamp, and `db`, the sum of `dx` over all axes but the channel's. The gradient
//! takes the order n of the derivative: by dy it is itself, by x and b it is that of order n + 1 with one more factor.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;

use smallvec::smallvec;

use crate::core::args::ArgValue;
use crate::core::error::{Error, Result};
use crate::core::gradient::{Gradient, GradientDefs, GradientMaker, GradientRequest};
use crate::core::operator::Operator;
use crate::core::schema::{InputDType, InputSpec, OpCost, OpSchema, OutputTypes, Signature};
use crate::core::tensor::TensorType;
use crate::core::{arguments, example};
use crate::devices::cpu::activations::{Activation, MOST_ORDER, Settings};
use crate::operators::fused_leaky_relu::{check_channels, existing_axis};
use crate::operators::per_channel::{added, bare};

family!(bias_act, bias_act_gradient);

arguments! {
    /// The arguments of `BiasAct`.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct BiasActArgs {
        act { act: Activation = Activation::Linear, "The activation."; }
        alpha { alpha: f64 = Activation::ALPHA, "The slope of lrelu where X + B is not positive; no other reads it."; }
        gain {
            gain: Option<f64> = None,
            "What the activation is multiplied by; None is sqrt 2 for relu, lrelu and swish, else 1.";
        }
        clamp { clamp: Option<f64> = None, in 0.0..=f64::MAX, "How large the result may be; None means any size."; }
        axis {
            axis: i64 = 1,
            "The axis of the channels; negative ones count from the end. Without a bias it is not looked at.";
        }
    }
}

arguments! {
    /// The arguments of `BiasActGradient`.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct BiasActGradientArgs {
        act { act: Activation = Activation::Linear, "The activation."; }
        alpha { alpha: f64 = Activation::ALPHA, "The slope of lrelu where X + B is not positive; no other reads it."; }
        gain {
            gain: Option<f64> = None,
            "What the activation is multiplied by; None is sqrt 2 for relu, lrelu and swish, else 1.";
        }
        clamp {
            clamp: Option<f64> = None, in 0.0..=f64::MAX,
            "How large the forward's result may be; None means any size.";
        }
        axis { axis: i64 = 1, "The axis of the channels; negative ones count from the end."; }
        order { order: i64 = 1, in 1.0..=MOST_ORDER as f64, "The order of the derivative."; }
    }
}

impl BiasActArgs {
    /// What the kernels take.
    pub fn settings(&self) -> Settings {
        let gain = self.gain.unwrap_or(self.act.default_gain());
        Settings { activation: self.act, alpha: self.alpha, gain, clamp: self.clamp }
    }
}

impl BiasActGradientArgs {
    /// The forward's arguments.
    pub fn forward(&self) -> BiasActArgs {
        let BiasActGradientArgs { act, alpha, gain, clamp, axis, .. } = *self;
        BiasActArgs { act, alpha, gain, clamp, axis }
    }
}

/// How many operations an activation takes, where a division counts as one; what the polynomials have.
fn flops(activation: Activation) -> u64 {
    match activation {
        Activation::Linear => 1,
        Activation::Relu | Activation::LeakyRelu => 3,
        Activation::Elu | Activation::Selu => 30,
        Activation::Tanh | Activation::Sigmoid | Activation::Softplus | Activation::Swish => 50,
    }
}

/// What the activation takes, the sum with a bias at its place, and the sum that is dB.
fn cost(
    schema: &OpSchema,
    bias: usize,
    activation: fn(&Signature<'_>) -> Activation,
) -> impl Fn(&Signature<'_>, &[TensorType]) -> Result<OpCost> + use<> {
    let schema = schema.clone();
    move |signature, outputs| {
        let biased = u64::from(signature.inputs.get(bias).is_some_and(Option::is_some));
        let an_element = flops(activation(signature)) + biased + outputs.len() as u64 - 1;
        let flops = an_element.saturating_mul(outputs[0].shape.elements() as u64);
        Ok(OpCost { flops, ..schema.traffic(signature.inputs, outputs) })
    }
}

/// The operator `BiasAct`.
pub fn bias_act() -> Operator {
    let doc =
        "Y = clip(gain * f(X + B), -clamp, clamp), where f is the activation and B has one number for each channel.";
    let bias = InputSpec::new("B", "The length of X's axis; float32 is taken beside a half-precision X.");
    let schema = OpSchema::new("BiasAct", doc)
        .input(InputSpec::new("X", "Any shape, such as (N, C, H, W) or (N, C)."))
        .input(bias.optional().dtype(InputDType::CommonOrFloat32))
        .output("Y", "The shape and type of X.")
        .examples(Activation::ALL.map(|activation| example!([2, 3, 4], [3]; act = activation.name(), clamp = 0.7)))
        .examples([example!([2, 3, 2, 2], none; act = "swish", gain = 2.0)])
        .args(BiasActArgs::specs())
        .allow_inplace(&[(0, 0)])
        .tensor_inference_function(|signature| {
            check_channels(signature, 1, "B", BiasActArgs::from_args(signature.args).axis)?;
            Ok(smallvec![signature.input(0).clone()])
        })
        .cost_formula(
            "what the activation takes an element, one more with a bias; X and B are read once and Y written once",
        );
    let cost = cost(&schema, 1, |signature| BiasActArgs::from_args(signature.args).act);
    let operator = Operator::new(schema.cost_inference_function(cost), cpu::forward);
    with_cuda!(operator, cuda::forward).with_gradient(Gradient::defined(GetBiasActGradient))
}

/// The operator `BiasActGradient`.
pub fn bias_act_gradient() -> Operator {
    let doc = "dX = dY * gain * the derivative of the activation at X + B, of the given order, where gain * f(X + B) is \
               inside the clamp, else 0; and dB, the sum of dX over all axes but the channel's.";
    let bias = InputSpec::new("B", "The forward's bias, the length of X's axis.");
    let schema = OpSchema::new("BiasActGradient", doc)
        .input(InputSpec::new("X", "The forward's input."))
        .input(InputSpec::new("dY", "The shape and type of X."))
        .input(bias.optional().dtype(InputDType::CommonOrFloat32))
        .output("dX", "The shape and type of X.")
        .output("dB", "The length of X's axis, and the type of B; absent where X has no such axis.")
        .examples([example!([2, 3, 2], [2, 3, 2], [3]; act = "softplus", clamp = 1.1), example!([2, 3, 2], [2, 3, 2], none; act = "tanh", order = 2, axis = 2)])
        .args(BiasActGradientArgs::specs())
        .allow_inplace(&[(1, 0)])
        .tensor_inference_function(infer_gradient)
        .cost_formula(
            "what the activation takes an element, one more with a bias and one for dB; X, dY and B are read once, dX and \
             dB written once",
        );
    let cost = cost(&schema, 2, |signature| BiasActGradientArgs::from_args(signature.args).act);
    let operator = Operator::new(schema.cost_inference_function(cost), cpu::gradient);
    with_cuda!(operator, cuda::gradient).with_gradient(Gradient::defined(get_bias_act_gradient_gradient))
}

fn infer_gradient(signature: &Signature<'_>) -> Result<OutputTypes> {
    let (x, dy, bias) = (signature.input(0), signature.input(1), signature.inputs.get(2).copied().flatten());
    if dy.shape != x.shape {
        let takes = format!("{}, the shape of X", x.shape);
        return Err(Error::shape(signature.operator, "dY", &dy.shape, takes));
    }
    let axis = BiasActGradientArgs::from_args(signature.args).axis;
    check_channels(signature, 2, "B", axis)?;
    let mut outputs: OutputTypes = smallvec![x.clone()];
    if let Some(axis) = existing_axis(axis, x.shape.len()) {
        outputs.push(TensorType::new([x.shape[axis]], bias.unwrap_or(x).dtype));
    }
    Ok(outputs)
}

/// Makes `BiasActGradient` definitions of `BiasAct` definitions.
#[derive(Debug, Clone, Copy, Default)]
pub struct GetBiasActGradient;

impl GradientMaker for GetBiasActGradient {
    fn get_gradient_defs(&self, request: &GradientRequest<'_>) -> Result<GradientDefs> {
        let (x, bias, dy) = (request.input(0), request.input(1), request.output_gradient(0));
        let mut input_gradients = vec![None; request.def.inputs.len()];
        if dy.is_empty() {
            return Ok(GradientDefs { operators: vec![], input_gradients });
        }
        if request.is_inplace(0, 0) {
            let takes = "an output of its own: the gradient needs X";
            return Err(Error::argument(&request.def.operator, "Y", format!("{x:?} in place"), takes));
        }
        let (dx, db) = (request.input_gradient(0), request.input_gradient(1));
        let def = match bias {
            "" => request.def.derive("BiasActGradient", &[x, dy], &[&dx]),
            _ => request.def.derive("BiasActGradient", &[x, dy, bias], &[&dx, &db]),
        };
        input_gradients[0] = Some(dx);
        if !bias.is_empty() {
            input_gradients[1] = Some(db);
        }
        Ok(GradientDefs { operators: vec![def], input_gradients })
    }
}

/// Linear in dY, and the derivative of the next order in X and B.
fn get_bias_act_gradient_gradient(request: &GradientRequest<'_>) -> Result<GradientDefs> {
    let (x, dy, bias) = (request.input(0), request.input(1), request.input(2));
    let (ddx, ddb) = (request.output_gradient(0), request.output_gradient(1));
    let mut input_gradients = vec![None; request.def.inputs.len()];
    if ddx.is_empty() && ddb.is_empty() {
        return Ok(GradientDefs { operators: vec![], input_gradients });
    }
    let args = BiasActGradientArgs::from_args(request.args);
    let (mut operators, of_dy) = (Vec::new(), request.input_gradient(1));
    // What flows back to dX and, by way of dB, to all elements of a channel.
    let both = format!("{of_dy}_both");
    let direction = match (ddx, ddb) {
        (ddx, "") => ddx,
        (ddx, ddb) => {
            operators.push(added(request, ddx, ddb, args.axis, &both));
            &both
        }
    };
    let given: &[&str] = if bias.is_empty() { &[] } else { &[bias] };
    operators.push(request.def.derive("BiasActGradient", &[&[x, direction], given].concat(), &[&of_dy]));
    input_gradients[1] = Some(of_dy.clone());
    if !args.act.is_piecewise_linear() {
        let (product, of_x, of_bias) = (format!("{of_dy}_times"), request.input_gradient(0), request.input_gradient(2));
        operators.push(bare(request, "Mul", &[dy, direction], &[&product]));
        let outputs: &[&str] = if bias.is_empty() { &[&of_x] } else { &[&of_x, &of_bias] };
        let def = request.def.derive("BiasActGradient", &[&[x, &product], given].concat(), outputs);
        operators.push(def.arg("order", ArgValue::Int(args.order + 1)));
        input_gradients[0] = Some(of_x.clone());
        if !bias.is_empty() {
            input_gradients[2] = Some(of_bias.clone());
        }
    }
    Ok(GradientDefs { operators, input_gradients })
}

operator_object!(
    /// `BiasAct` as an object: `run(&[&x, &bias], &mut [&mut y])`.
    BiasActOp(BiasActArgs),
    bias_act
);
operator_object!(
    /// `BiasActGradient` as an object: `run(&[&x, &dy, &bias], &mut [&mut dx, &mut dbias])`.
    BiasActGradientOp(BiasActGradientArgs),
    bias_act_gradient
);
