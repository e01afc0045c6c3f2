//! Arithmetic that accumulation and losses need: `Sum` of equal shapes, and `Add`, `Sub` and `Mul` of
//! two tensors that are broadcast as numpy does it.
//!
//! Gradients are summed back to the shape of each input by `ReduceSum`, which takes that input for its
//! shape alone.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
pub mod formula;

use smallvec::smallvec;

use crate::core::args::ArgValue;
use crate::core::error::{Error, Result};
use crate::core::example;
use crate::core::gradient::{Gradient, GradientDefs, GradientRequest};
use crate::core::operator::{Call, Operator};
use crate::core::schema::{InputSpec, OpCost, OpSchema, OutputTypes, Signature};
use crate::core::shape::Shape;
use crate::core::tensor::TensorType;

family!(sum, add, sub, mul);

/// The shape of two tensors together: dimensions are matched from the last, and ones are repeated.
pub fn broadcast_shapes(first: &[usize], second: &[usize]) -> Option<Shape> {
    let rank = first.len().max(second.len());
    let length = |shape: &[usize], d: usize| (d + shape.len()).checked_sub(rank).map_or(1, |d| shape[d]);
    (0..rank)
        .map(|d| match (length(first, d), length(second, d)) {
            (a, b) if a == b => Some(a),
            (1, other) | (other, 1) => Some(other),
            _ => None,
        })
        .collect()
}

fn infer_broadcast(signature: &Signature<'_>) -> Result<OutputTypes> {
    let (a, b) = (signature.input(0), signature.input(1));
    let shape = broadcast_shapes(&a.shape, &b.shape).ok_or_else(|| {
        let takes = format!("a shape that broadcasts with {}, the shape of A", a.shape);
        Error::shape(signature.operator, "B", &b.shape, takes)
    })?;
    Ok(smallvec![TensorType { shape, dtype: a.dtype }])
}

/// One operation for each element and each operand beyond the first.
fn cost(schema: &OpSchema) -> impl Fn(&Signature<'_>, &[TensorType]) -> Result<OpCost> + use<> {
    let schema = schema.clone();
    move |signature, outputs| {
        let operations = signature.inputs.len() as u64 - 1;
        let flops = operations.saturating_mul(outputs[0].shape.elements() as u64);
        Ok(OpCost { flops, ..schema.traffic(signature.inputs, outputs) })
    }
}

fn binary(name: &str, doc: &str, kernel: fn(&Call<'_>) -> Result<()>, gradient: Gradient) -> Operator {
    let schema = OpSchema::new(name, doc)
        .input(InputSpec::new("A", "Any shape."))
        .input(InputSpec::new("B", "A shape that broadcasts with A's, as in numpy."))
        .output("C", "The broadcast shape, and the type of A.")
        .examples([example!([2, 1, 3], [4, 1])])
        .allow_inplace(&[(0, 0), (1, 0)])
        .inherit_onnx_schema(name)
        .tensor_inference_function(infer_broadcast)
        .cost_formula("1 flop an output element; each input is read once and the output written once");
    let cost = cost(&schema);
    Operator::new(schema.cost_inference_function(cost), kernel).with_gradient(gradient)
}

/// The operator `Add`.
pub fn add() -> Operator {
    let gradient = Gradient::defined(|request: &GradientRequest<'_>| get_additive_gradient(request, 1.0));
    with_cuda!(binary("Add", "C = A + B, broadcast.", cpu::add, gradient), cuda::add)
}

/// The operator `Sub`.
pub fn sub() -> Operator {
    let gradient = Gradient::defined(|request: &GradientRequest<'_>| get_additive_gradient(request, -1.0));
    with_cuda!(binary("Sub", "C = A - B, broadcast.", cpu::sub, gradient), cuda::sub)
}

/// The operator `Mul`.
pub fn mul() -> Operator {
    let operator = binary("Mul", "C = A * B, broadcast.", cpu::mul, Gradient::defined(get_mul_gradient));
    with_cuda!(operator, cuda::mul)
}

/// The operator `Sum`.
pub fn sum() -> Operator {
    let schema = OpSchema::new("Sum", "S = X + ..., the sum of one or more tensors of one shape, rounded once.")
        .input(InputSpec::new("X", "Any shape; every further input has the same."))
        .variadic()
        .output("S", "The shape and type of X.")
        .examples([example!([2, 3], [2, 3], [2, 3])])
        .allow_inplace(&[(0, 0)])
        .identical_type_and_shape()
        .inherit_onnx_schema("Sum")
        .cost_formula("(inputs - 1) flops an element; each input is read once and the output written once");
    let cost = cost(&schema);
    let operator = Operator::new(schema.cost_inference_function(cost), cpu::sum);
    with_cuda!(operator, cuda::sum).with_gradient(Gradient::defined(get_sum_gradient))
}

/// The gradient of the sum is that of each input: no operator at all.
fn get_sum_gradient(request: &GradientRequest<'_>) -> Result<GradientDefs> {
    let gradient = request.output_gradients.first().cloned().flatten();
    Ok(GradientDefs { operators: vec![], input_gradients: vec![gradient; request.def.inputs.len()] })
}

fn no_gradient() -> GradientDefs {
    GradientDefs { operators: vec![], input_gradients: vec![None, None] }
}

/// Both inputs get the output's gradient, the second with a sign, each summed to its input's shape.
fn get_additive_gradient(request: &GradientRequest<'_>, sign: f64) -> Result<GradientDefs> {
    let dc = request.output_gradient(0);
    if dc.is_empty() {
        return Ok(no_gradient());
    }
    let mut defs = no_gradient();
    for (index, scale) in [1.0, sign].into_iter().enumerate() {
        // An input that was overwritten had the output's shape.
        if request.is_inplace(index, 0) && scale == 1.0 {
            defs.input_gradients[index] = Some(dc.to_string());
            continue;
        }
        let like = if request.is_inplace(index, 0) { dc } else { request.input(index) };
        let gradient = request.input_gradient(index);
        let def = request.def.derive("ReduceSum", &[dc, like], &[&gradient]);
        defs.operators.push(if scale == 1.0 { def } else { def.arg("scale", ArgValue::Float(scale)) });
        defs.input_gradients[index] = Some(gradient);
    }
    Ok(defs)
}

/// Each input gets the output's gradient times the other input, summed to its own shape.
fn get_mul_gradient(request: &GradientRequest<'_>) -> Result<GradientDefs> {
    let dc = request.output_gradient(0);
    if dc.is_empty() {
        return Ok(no_gradient());
    }
    for index in [0, 1] {
        if request.is_inplace(index, 0) {
            let got = format!("{:?} in place", request.input(index));
            let takes = "an output of its own: the gradient of a product needs both factors";
            return Err(Error::argument(&request.def.operator, "C", got, takes));
        }
    }
    let mut defs = no_gradient();
    for (index, other) in [(0, 1), (1, 0)] {
        let gradient = request.input_gradient(index);
        let product = format!("{gradient}_broadcast");
        defs.operators.push(request.def.derive("Mul", &[dc, request.input(other)], &[&product]));
        defs.operators.push(request.def.derive("ReduceSum", &[&product, request.input(index)], &[&gradient]));
        defs.input_gradients[index] = Some(gradient);
    }
    Ok(defs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::definition::OperatorDef;
    use crate::core::dtype::DType;
    use crate::registry::get_gradient_defs;

    #[test]
    fn shapes_broadcast_as_in_numpy() {
        let of = |a: &[usize], b: &[usize]| broadcast_shapes(a, b).map(|shape| shape.to_vec());
        assert_eq!(of(&[2, 1, 4], &[3, 1]), Some(vec![2, 3, 4]));
        assert_eq!(of(&[], &[5]), Some(vec![5]));
        assert_eq!(of(&[1], &[0]), Some(vec![0]));
        assert_eq!(of(&[2], &[0]), None);
        assert_eq!(of(&[2, 3], &[2]), None);
    }

    #[test]
    fn a_shape_that_does_not_broadcast_is_refused_by_name() {
        let schema = add().schema;
        let args = schema.resolve_args([] as [(&str, ArgValue); 0]).unwrap();
        let kind = |shape: &[usize]| TensorType::new(shape, DType::Float32);
        let error = schema.infer(&[Some(&kind(&[2, 3])), Some(&kind(&[2]))], &args).unwrap_err();
        let expected = "Add: B: got (2,), takes a shape that broadcasts with (2, 3), the shape of A";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn the_gradient_of_a_sum_is_a_name() {
        let def = OperatorDef::new("Sum", &["A", "B", "A"], &["S"]);
        let defs = get_gradient_defs(&def, &[Some("dS".into())]).unwrap();
        assert!(defs.operators.is_empty());
        assert_eq!(defs.input_gradients, vec![Some("dS".to_string()); 3]);
    }

    #[test]
    fn a_square_has_two_gradients() {
        let def = OperatorDef::new("Mul", &["A", "A"], &["C"]);
        let defs = get_gradient_defs(&def, &[Some("dC".into())]).unwrap();
        assert_eq!(defs.input_gradients, [Some("A_grad".to_string()), Some("A_grad_1".to_string())]);
        let mut written: Vec<&str> = defs.operators.iter().map(|def| def.outputs[0].as_str()).collect();
        written.sort_unstable();
        written.dedup();
        assert_eq!(written.len(), 4);
    }

    #[test]
    fn in_place_forms_are_derived_or_refused() {
        let of = |operator: &str, inputs: &[&str]| {
            get_gradient_defs(&OperatorDef::new(operator, inputs, &["A"]), &[Some("dA".into())])
        };
        assert_eq!(of("Add", &["A", "B"]).unwrap().input_gradients, [Some("dA".into()), Some("B_grad".into())]);
        assert_eq!(of("Sub", &["B", "A"]).unwrap().operators[1].inputs, ["dA", "dA"]);
        assert!(matches!(of("Mul", &["A", "B"]), Err(Error::Argument(_))));
    }
}
