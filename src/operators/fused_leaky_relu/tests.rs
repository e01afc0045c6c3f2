use super::*;
use crate::core::blob::Blob;
use crate::core::definition::OperatorDef;
use crate::core::dtype::{DType, Float16};
use crate::core::tensor::Tensor;

fn blob(shape: &[usize], values: &[f32]) -> Blob {
    Tensor::from_vec(shape, values.to_vec()).unwrap().into()
}

const PLAIN: FusedLeakyReluArgs = FusedLeakyReluArgs { alpha: 0.5, scale: 2.0, axis: 1 };

#[test]
fn the_operator_object_follows_the_formula() {
    let (x, b, mut y) = (blob(&[2, 2], &[-1.0, 0.0, 1.0, -2.0]), blob(&[2], &[0.5, 1.0]), Blob::create());
    FusedLeakyReluOp::new(PLAIN).run(&[&x, &b], &mut [&mut y]).unwrap();
    assert_eq!(y.read::<f32>().unwrap(), [-0.5, 2.0, 3.0, -1.0]);
    FusedLeakyReluOp::new(PLAIN).run(&[&x, &Blob::create()], &mut [&mut y]).unwrap();
    assert_eq!(y.read::<f32>().unwrap(), [-1.0, 0.0, 2.0, -2.0]);
    FusedLeakyReluOp::new(FusedLeakyReluArgs { axis: -2, ..PLAIN }).run(&[&x, &b], &mut [&mut y]).unwrap();
    assert_eq!(y.read::<f32>().unwrap(), [-0.5, 1.0, 4.0, -1.0]);
}

#[test]
fn the_gradient_gives_both_outputs_of_any_given_part() {
    let (y, dy, b) = (blob(&[2, 2], &[1.0, 0.0, -1.0, 3.0]), blob(&[2, 2], &[1.0; 4]), blob(&[2], &[1.0, 2.0]));
    let (mut dx, mut db) = (Blob::create(), Blob::create());
    let operator = FusedLeakyReluGradientOp::new(PLAIN);
    operator.run(&[&y, &dy], &mut [&mut dx, &mut db]).unwrap();
    assert_eq!(dx.read::<f32>().unwrap(), [2.0, 1.0, 1.0, 2.0]);
    assert_eq!(db.read::<f32>().unwrap(), [3.0, 3.0]);
    operator.run(&[&y, &dy, &b], &mut [&mut dx, &mut db]).unwrap();
    assert_eq!(dx.read::<f32>().unwrap(), [4.0, 3.0, 2.0, 6.0]);
    assert_eq!(db.read::<f32>().unwrap(), [6.0, 9.0]);
    operator.run(&[&y, &Blob::create(), &b], &mut [&mut dx, &mut db]).unwrap();
    assert_eq!(dx.read::<f32>().unwrap(), [2.0, 2.0, 1.0, 4.0]);
    assert_eq!(db.read::<f32>().unwrap(), [3.0, 6.0]);
    assert!(matches!(operator.run(&[&y], &mut [&mut dx, &mut db]), Err(Error::Argument(_))));
}

#[test]
fn omitting_the_bias_keeps_the_sign_of_zero() {
    let (x, mut y) = (blob(&[2], &[-0.0, 0.0]), Blob::create());
    FusedLeakyReluOp::new(PLAIN).run(&[&x], &mut [&mut y]).unwrap();
    assert_eq!(y.read::<f32>().unwrap().iter().map(|v| v.is_sign_negative()).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn the_bias_gradient_has_the_type_of_the_bias() {
    let schema = fused_leaky_relu_gradient().schema;
    let args = schema.resolve_args([("axis", ArgValue::Int(1))]).unwrap();
    let y = TensorType::new([2, 3], DType::Float16);
    let (half, single) = (TensorType::new([3], DType::Float16), TensorType::new([3], DType::Float32));
    let of = |b, like| schema.infer(&[Some(&y), Some(&y), b, like], &args).unwrap()[1].dtype;
    assert_eq!(of(None, None), DType::Float16);
    assert_eq!(of(None, Some(&single)), DType::Float32);
    assert_eq!(of(Some(&single), None), DType::Float32);
    assert_eq!(of(Some(&single), Some(&half)), DType::Float16);
    let typed = TensorType::new([0; 0], DType::Float32);
    assert_eq!(of(None, Some(&typed)), DType::Float32);
    assert!(schema.infer(&[Some(&y), Some(&y), Some(&typed), None], &args).is_err());
}

#[test]
fn wrong_biases_and_axes_are_refused_by_name() {
    let schema = fused_leaky_relu().schema;
    let refused = |shape: &[usize], bias: &[usize], axis: i64| {
        let args = schema.resolve_args([("axis", ArgValue::Int(axis))]).unwrap();
        let (x, b) = (TensorType::new(shape, DType::Float32), TensorType::new(bias, DType::Float32));
        schema.infer(&[Some(&x), Some(&b)], &args).unwrap_err().to_string()
    };
    assert_eq!(refused(&[2, 3], &[2], 1), "FusedLeakyRelu: B: got (2,), takes (3,), the length of axis 1 of (2, 3)");
    assert_eq!(refused(&[3], &[3], 1), "FusedLeakyRelu: axis: got 1, takes -1 to 0, an axis of (3,)");
    assert_eq!(
        refused(&[3], &[3], i64::MIN),
        format!("FusedLeakyRelu: axis: got {}, takes -1 to 0, an axis of (3,)", i64::MIN)
    );
    assert!(refused(&[], &[1], 0).contains("at least one dimension"));
    assert!(refused(&[2, 3], &[3, 1], 1).contains("B: got (3, 1)"));
}

#[test]
fn a_tensor_without_channels_needs_no_axis() {
    let (y, dy, mut dx) = (blob(&[2], &[1.0, -1.0]), blob(&[2], &[1.0; 2]), Blob::create());
    FusedLeakyReluGradientOp::new(PLAIN).run(&[&y, &dy], &mut [&mut dx]).unwrap();
    assert_eq!(dx.read::<f32>().unwrap(), [2.0, 1.0]);
}

fn gradient(def: &OperatorDef) -> Result<GradientDefs> {
    crate::registry::get_gradient_defs(def, &[Some("dY".into())])
}

#[test]
fn the_sign_comes_from_the_output_or_from_the_sum() {
    let def = OperatorDef::new("FusedLeakyRelu", &["X", "B"], &["Y"]);
    let of = |alpha: f64, scale: f64| {
        let def = def.clone().arg("alpha", ArgValue::Float(alpha)).arg("scale", ArgValue::Float(scale));
        gradient(&def).unwrap().operators
    };
    assert_eq!(of(0.0, 1.0).len(), 1);
    assert_eq!(of(0.0, 1.0)[0].inputs, ["Y", "dY", "", "B"]);
    for (alpha, scale) in [(-0.1, 1.0), (0.2, -1.0), (0.2, 0.0)] {
        let operators = of(alpha, scale);
        assert_eq!(operators[0].operator, "FusedLeakyRelu");
        assert_eq!(operators[0].outputs[0], operators[1].inputs[0]);
        assert_eq!(operators[1].args["scale"], ArgValue::Float(scale));
    }
    let without = OperatorDef::new("FusedLeakyRelu", &["X"], &["Y"]).arg("alpha", ArgValue::Float(-0.1));
    assert_eq!(gradient(&without).unwrap().operators[0].inputs, ["X", "dY"]);
}

#[test]
fn in_place_that_loses_the_sign_is_refused() {
    let def = OperatorDef::new("FusedLeakyRelu", &["X", "B"], &["X"]);
    assert!(gradient(&def).is_ok());
    assert!(matches!(gradient(&def.clone().arg("alpha", ArgValue::Float(-0.2))), Err(Error::Argument(_))));
    assert!(matches!(gradient(&def.arg("scale", ArgValue::Float(0.0))), Err(Error::Argument(_))));
}

#[test]
fn the_second_derivative_names_what_is_there() {
    let def = OperatorDef::new("FusedLeakyReluGradient", &["Y", "dY", "", "B"], &["dX", "dB"]);
    let defs = crate::registry::get_gradient_defs(&def, &[Some("ddX".into()), Some("ddB".into())]).unwrap();
    assert_eq!(defs.operators[0].inputs, ["Y", "ddX", "ddB", ""]);
    assert_eq!(defs.operators[0].outputs, ["dY_grad"]);
    assert_eq!(defs.input_gradients, [None, Some("dY_grad".into()), None, None]);
    let def = OperatorDef::new("FusedLeakyReluGradient", &["Y", "", "B"], &["dX", "dB"]);
    let defs = crate::registry::get_gradient_defs(&def, &[None, Some("ddB".into())]).unwrap();
    assert_eq!(defs.operators[0].inputs, ["Y", "", "ddB", "B"]);
    assert_eq!(defs.operators[0].outputs, ["", "B_grad"]);
}

#[test]
fn a_half_input_with_a_float32_bias_is_rounded_once() {
    // 1 + 2^-12 is no float16: rounding the bias before the sum would lose it.
    let x: Blob = Tensor::from_vec([1, 1], vec![Float16::from_f32(1.0)]).unwrap().into();
    let (b, mut y) = (blob(&[1], &[3.0 * 2f32.powi(-12)]), Blob::create());
    FusedLeakyReluOp::new(FusedLeakyReluArgs { scale: 1.0, ..PLAIN }).run(&[&x, &b], &mut [&mut y]).unwrap();
    assert_eq!(y.read::<Float16>().unwrap(), [Float16::from_f32(1.0 + 3.0 * 2f32.powi(-12))]);
}
