//! Leaky ReLU: `y = x` where `x > 0`, else `alpha · x`.
//!
//! The derivative at zero is `alpha`. The gradient needs only the sign of x, which y has where
//! `alpha ≥ 0`; with a negative slope it is taken from x itself.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
pub mod formula;

use crate::core::error::{Error, Result};
use crate::core::gradient::{Gradient, GradientDefs, GradientMaker, GradientRequest};
use crate::core::operator::Operator;
use crate::core::schema::{InputSpec, OpCost, OpSchema, Signature};
use crate::core::tensor::TensorType;
use crate::core::{arguments, example};

family!(leaky_relu, leaky_relu_gradient);

arguments! {
    /// The arguments of both operators.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct LeakyReluArgs {
        alpha { alpha: f64 = 0.01, "The slope where x is not positive."; }
    }
}

const COST: &str = "2 flops an element (compare, multiply); each input is read once and the output written once";

/// Compare and multiply.
fn two_flops_an_element(schema: &OpSchema) -> impl Fn(&Signature<'_>, &[TensorType]) -> Result<OpCost> + use<> {
    let schema = schema.clone();
    move |signature, outputs| {
        let flops = (outputs[0].shape.elements() as u64).saturating_mul(2);
        Ok(OpCost { flops, ..schema.traffic(signature.inputs, outputs) })
    }
}

/// The operator `LeakyRelu`.
pub fn leaky_relu() -> Operator {
    let schema = OpSchema::new("LeakyRelu", "Y = X where X > 0, else alpha * X, element by element.")
        .input(InputSpec::new("X", "Any shape."))
        .output("Y", "The shape and type of X.")
        .examples([example!([2, 3, 4]; alpha = 0.2), example!([5]; alpha = -0.5)])
        .args(LeakyReluArgs::specs())
        .allow_inplace(&[(0, 0)])
        .identical_type_and_shape()
        .inherit_onnx_schema("LeakyRelu")
        .cost_formula(COST);
    let cost = two_flops_an_element(&schema);
    let operator = Operator::new(schema.cost_inference_function(cost), cpu::forward);
    with_cuda!(operator, cuda::forward).with_gradient(Gradient::defined(GetLeakyReluGradient))
}

/// The operator `LeakyReluGradient`.
pub fn leaky_relu_gradient() -> Operator {
    let doc = "dX = dY where Y > 0, else alpha * dY. Y may be any tensor with the sign of the forward input.";
    let schema = OpSchema::new("LeakyReluGradient", doc)
        .input(InputSpec::new("Y", "Any shape; only its sign counts."))
        .input(InputSpec::new("dY", "The shape and type of Y."))
        .output("dX", "The shape and type of Y.")
        .examples([example!([2, 3], [2, 3]; alpha = 0.2)])
        .args(LeakyReluArgs::specs())
        .allow_inplace(&[(1, 0)])
        .identical_type_and_shape()
        .cost_formula(COST);
    let cost = two_flops_an_element(&schema);
    let operator = Operator::new(schema.cost_inference_function(cost), cpu::gradient);
    with_cuda!(operator, cuda::gradient).with_gradient(Gradient::defined(get_leaky_relu_gradient_gradient))
}

/// Makes `LeakyReluGradient` definitions of `LeakyRelu` definitions.
#[derive(Debug, Clone, Copy, Default)]
pub struct GetLeakyReluGradient;

impl GradientMaker for GetLeakyReluGradient {
    fn get_gradient_defs(&self, request: &GradientRequest<'_>) -> Result<GradientDefs> {
        let dy = request.output_gradient(0);
        if dy.is_empty() {
            return Ok(GradientDefs { operators: vec![], input_gradients: vec![None] });
        }
        let LeakyReluArgs { alpha } = LeakyReluArgs::from_args(request.args);
        if alpha < 0.0 && request.is_inplace(0, 0) {
            let got = format!("{alpha} in place on {:?}", request.input(0));
            let takes = "alpha >= 0 in place: with a negative slope the output has lost the input's sign";
            return Err(Error::argument(&request.def.operator, "alpha", got, takes));
        }
        let sign = if alpha >= 0.0 { request.output(0) } else { request.input(0) };
        let dx = request.input_gradient(0);
        let def = request.def.derive("LeakyReluGradient", &[sign, dy], &[&dx]);
        Ok(GradientDefs { operators: vec![def], input_gradients: vec![Some(dx)] })
    }
}

/// Linear in dY and flat in Y: its own derivative.
fn get_leaky_relu_gradient_gradient(request: &GradientRequest<'_>) -> Result<GradientDefs> {
    let ddx = request.output_gradient(0);
    if ddx.is_empty() {
        return Ok(GradientDefs { operators: vec![], input_gradients: vec![None, None] });
    }
    let ddy = request.input_gradient(1);
    let def = request.def.derive("LeakyReluGradient", &[request.input(0), ddx], &[&ddy]);
    Ok(GradientDefs { operators: vec![def], input_gradients: vec![None, Some(ddy)] })
}

operator_object!(
    /// `LeakyRelu` as an object: `run(&[&x], &mut [&mut y])`.
    LeakyReluOp(LeakyReluArgs),
    leaky_relu
);
operator_object!(
    /// `LeakyReluGradient` as an object: `run(&[&y, &dy], &mut [&mut dx])`.
    LeakyReluGradientOp(LeakyReluArgs),
    leaky_relu_gradient
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::args::ArgValue;
    use crate::core::blob::Blob;
    use crate::core::definition::OperatorDef;
    use crate::core::tensor::Tensor;

    fn blob(values: &[f32]) -> Blob {
        Tensor::from_vec([values.len()], values.to_vec()).unwrap().into()
    }

    #[test]
    fn the_operator_object_follows_the_formula() {
        let (x, mut y) = (blob(&[-1.0, 0.0, 1.0, 2.0]), Blob::create());
        LeakyReluOp::new(Default::default()).run(&[&x], &mut [&mut y]).unwrap();
        assert_eq!(y.read::<f32>().unwrap(), [-0.01, 0.0, 1.0, 2.0]);
    }

    #[test]
    fn the_derivative_at_zero_is_the_slope() {
        let (y, dy, mut dx) = (blob(&[-1.0, 0.0, -0.0, 2.0]), blob(&[1.0; 4]), Blob::create());
        LeakyReluGradientOp::new(LeakyReluArgs { alpha: 0.1 }).run(&[&y, &dy], &mut [&mut dx]).unwrap();
        assert_eq!(dx.read::<f32>().unwrap(), [0.1, 0.1, 0.1, 1.0]);
    }

    fn gradient(def: &OperatorDef) -> Result<GradientDefs> {
        crate::registry::get_gradient_defs(def, &[Some("dY".into())])
    }

    #[test]
    fn the_sign_comes_from_the_output_or_from_the_input() {
        let def = OperatorDef::new("LeakyRelu", &["X"], &["Y"]);
        let of = |alpha: f64| {
            gradient(&def.clone().arg("alpha", ArgValue::Float(alpha))).unwrap().operators[0].inputs.clone()
        };
        assert_eq!(of(0.2), ["Y", "dY"]);
        assert_eq!(of(0.0), ["Y", "dY"]);
        assert_eq!(of(-0.2), ["X", "dY"]);
    }

    #[test]
    fn in_place_with_a_negative_slope_is_refused() {
        let def = OperatorDef::new("LeakyRelu", &["X"], &["X"]);
        assert!(gradient(&def.clone().arg("alpha", ArgValue::Float(0.2))).is_ok());
        let refused = gradient(&def.arg("alpha", ArgValue::Float(-0.2)));
        assert!(matches!(refused, Err(Error::Argument(_))));
    }
}
