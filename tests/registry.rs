//! Registration of a user's own operator, and the answers about gradients.

use firelu::core::operator::Operator;
use firelu::{
    Call, Error, Gradient, GradientDefs, GradientRequest, InputSpec, OpSchema, OperatorDef, Result, Tensor,
    get_gradient_defs, register_cpu_operator, register_gradient, registry,
};

fn double(call: &Call<'_>) -> Result<()> {
    let (x, y) = (call.input(0), call.outputs[0].as_ref().expect("wanted"));
    for i in 0..x.shape().elements() {
        // SAFETY: the schema gave both the same shape; new tensors of this test are dense float32.
        unsafe { y.pointer.cast::<f32>().add(i).write(2.0 * x.pointer.cast::<f32>().add(i).read()) };
    }
    Ok(())
}

fn schema(name: &str) -> OpSchema {
    OpSchema::new(name, "Y = 2 X.")
        .input(InputSpec::new("X", "Any shape."))
        .output("Y", "The shape of X.")
        .identical_type_and_shape()
}

fn gradient(def: &OperatorDef) -> Result<GradientDefs> {
    get_gradient_defs(def, &[Some("Y_grad".into())])
}

#[test]
fn an_operator_of_the_users_own_runs_and_gets_a_gradient() {
    register_cpu_operator(schema("TestDouble"), double).unwrap();
    let x = Tensor::from_vec([2], vec![1.0f32, -3.0]).unwrap();
    let y = registry::run("TestDouble", &[Some(&x)], [] as [(&str, _); 0]).unwrap().remove(0);
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0, -6.0]);

    let def = OperatorDef::new("TestDouble", &["X"], &["Y"]);
    assert!(matches!(gradient(&def), Err(Error::NoGradient { reason, .. }) if reason.contains("not written")));
    register_gradient("TestDouble", |request: &GradientRequest<'_>| {
        let dx = request.input_gradient(0);
        let def = request.def.derive("TestDouble", &[request.output_gradient(0)], &[&dx]);
        Ok(GradientDefs { operators: vec![def], input_gradients: vec![Some(dx)] })
    })
    .unwrap();
    assert_eq!(gradient(&def).unwrap().input_gradients, [Some("X_grad".to_string())]);
    let again = register_gradient("TestDouble", |_: &GradientRequest<'_>| Ok(GradientDefs::default()));
    assert!(matches!(again, Err(Error::Argument(_))));
}

#[test]
fn three_answers_where_there_is_no_gradient() {
    let answers = [Gradient::NotNeeded, Gradient::Forbidden("it counts".into()), Gradient::NotWritten];
    for (name, answer) in ["TestNotNeeded", "TestForbidden", "TestNotWritten"].into_iter().zip(answers) {
        registry::register(Operator::new(schema(name), double).with_gradient(answer)).unwrap();
    }
    let ask = |name: &str| gradient(&OperatorDef::new(name, &["X"], &["Y"]));
    assert_eq!(ask("TestNotNeeded").unwrap().input_gradients, [None]);
    assert!(ask("TestForbidden").unwrap_err().to_string().contains("forbidden: it counts"));
    assert!(ask("TestNotWritten").unwrap_err().to_string().contains("not written"));
}

#[test]
fn taken_unknown_and_unfit_names_are_refused() {
    let taken = register_cpu_operator(schema("LeakyRelu"), double);
    assert!(taken.unwrap_err().to_string().contains("registered already"));
    let unknown = registry::find("LeekyRelu").err().unwrap();
    assert!(unknown.to_string().contains("did you mean LeakyRelu"), "{unknown}");
    assert!(register_cpu_operator(schema("bad name"), double).is_err());
    let no_inference = OpSchema::new("TestNoInference", "No way to know.").output("Y", "Something.");
    assert!(register_cpu_operator(no_inference, double).is_err());
}

#[test]
fn an_operator_of_the_users_own_can_be_replaced() {
    let negate = |call: &Call<'_>| {
        let (x, y) = (call.input(0), call.outputs[0].as_ref().expect("wanted"));
        for i in 0..x.shape().elements() {
            // SAFETY: as in `double`.
            unsafe { y.pointer.cast::<f32>().add(i).write(-x.pointer.cast::<f32>().add(i).read()) };
        }
        Ok(())
    };
    let run = || {
        let x = Tensor::from_vec([1], vec![3.0f32]).unwrap();
        registry::run("TestReplace", &[Some(&x)], [] as [(&str, _); 0]).unwrap().remove(0).to_vec::<f32>().unwrap()
    };
    registry::replace(Operator::new(schema("TestReplace"), double)).unwrap();
    assert_eq!(run(), [6.0]);
    registry::replace(Operator::new(schema("TestReplace"), negate)).unwrap();
    assert_eq!(run(), [-3.0]);
    let refused = registry::replace(Operator::new(schema("LeakyRelu"), double));
    assert!(refused.unwrap_err().to_string().contains("built-in"));
}

#[test]
fn a_maker_is_not_asked_where_no_gradient_comes_in() {
    let asked = |_: &GradientRequest<'_>| -> Result<GradientDefs> { panic!("asked without a gradient") };
    registry::register(Operator::new(schema("TestAbsent"), double).with_gradient(Gradient::defined(asked))).unwrap();
    let defs = get_gradient_defs(&OperatorDef::new("TestAbsent", &["X"], &["Y"]), &[None]).unwrap();
    assert_eq!(defs, GradientDefs { operators: vec![], input_gradients: vec![None] });
}
