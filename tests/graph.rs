//! Nets, the workspace and backward construction.

use std::collections::{BTreeMap, HashSet};
use std::sync::Once;

use firelu::graph::net;
use firelu::*;

fn vector(values: &[f64]) -> Tensor {
    Tensor::from_vec([values.len()], values.to_vec()).unwrap()
}

fn leaky(input: &str, output: &str, alpha: f64) -> OperatorDef {
    OperatorDef::new("LeakyRelu", &[input], &[output]).arg("alpha", ArgValue::Float(alpha))
}

fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(blob, gradient)| (blob.to_string(), gradient.to_string())).collect()
}

/// Registers what the tests need: an operator without a gradient, one that fails, one with two outputs.
fn test_operators() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let schema = |name: &str| {
            OpSchema::new(name, "For tests.")
                .input(InputSpec::new("X", "Any shape."))
                .output("Y", "The shape of X.")
                .identical_type_and_shape()
                .allow_inplace(&[(0, 0)])
        };
        let copy = |call: &Call<'_>| {
            for output in call.outputs.iter().flatten() {
                let (from, to) = (call.input(0), output);
                // SAFETY: both views are row-major and of one type, or the very same memory.
                unsafe { std::ptr::copy(from.pointer, to.pointer, to.kind.bytes()) };
            }
            Ok(())
        };
        registry::register_cpu_operator(schema("TestOpaque"), copy).unwrap();
        registry::register_cpu_operator(schema("TestFails"), |_| {
            Err(Error::Custom { operator: "TestFails".into(), message: "as it should".into() })
        })
        .unwrap();
        let split = schema("TestSplit").output("Z", "The shape of X.");
        registry::register_cpu_operator(split, copy).unwrap();
        registry::register_gradient("TestSplit", |request: &GradientRequest<'_>| {
            let parts: Vec<&str> =
                (0..2).map(|index| request.output_gradient(index)).filter(|name| !name.is_empty()).collect();
            let dx = request.input_gradient(0);
            let operators = vec![OperatorDef::new("Sum", &parts, &[&dx])];
            Ok(GradientDefs { operators, input_gradients: vec![Some(dx)] })
        })
        .unwrap();
    });
}

fn run(feeds: &[(&str, &Tensor)], net: &[OperatorDef]) -> Result<Workspace> {
    let mut workspace = Workspace::new();
    for (name, tensor) in feeds {
        workspace.feed(name, (*tensor).clone())?;
    }
    workspace.run(net)?;
    Ok(workspace)
}

fn fetch(workspace: &Workspace, name: &str) -> Vec<f64> {
    workspace.fetch(name).unwrap().to_f64_vec().unwrap()
}

#[test]
fn a_net_runs_and_survives_json() {
    let steps = net::from_json(&net::to_json(&[leaky("X", "Y", 0.5), leaky("Y", "Y", 0.5)]).unwrap()).unwrap();
    let workspace = run(&[("X", &vector(&[-4.0, 1.0]))], &steps).unwrap();
    assert_eq!(fetch(&workspace, "Y"), [-1.0, 1.0]);
    assert_eq!(fetch(&workspace, "X"), [-4.0, 1.0]);
    assert_eq!(workspace.blobs(), ["X", "Y"]);
}

#[test]
fn a_failed_run_leaves_every_blob_as_it_was() {
    test_operators();
    let x = vector(&[-4.0, 1.0]);
    let mut workspace = run(&[("X", &x)], &[leaky("X", "Y", 0.5)]).unwrap();
    let failing = [
        vec![
            leaky("X", "X", 0.5),
            leaky("Y", "Y", 0.5),
            leaky("X", "Z", 0.5),
            OperatorDef::new("TestFails", &["X"], &["X"]),
        ],
        vec![leaky("X", "X", 0.5), leaky("missing", "Z", 0.5)],
        vec![leaky("X", "X", 0.5), leaky("X", "X", f64::NAN)],
        vec![leaky("X", "X", 0.5), OperatorDef::new("Unknown", &["X"], &["X"])],
        vec![leaky("X", "X", 0.5), OperatorDef { device: Some("cuda:0".into()), ..leaky("X", "X", 0.5) }],
    ];
    for steps in failing {
        assert!(workspace.run(&steps).is_err());
        assert_eq!(workspace.blobs(), ["X", "Y"]);
        assert_eq!((fetch(&workspace, "X"), fetch(&workspace, "Y")), (vec![-4.0, 1.0], vec![-2.0, 1.0]));
    }
    assert_eq!(x.to_f64_vec().unwrap(), [-4.0, 1.0], "memory that was fed is not written to");
}

#[test]
fn what_was_fetched_stays_and_in_place_memory_is_reused() {
    let mut workspace = run(&[("X", &vector(&[-4.0, 1.0]))], &[leaky("X", "Y", 0.5)]).unwrap();
    let before = workspace.fetch("Y").unwrap();
    workspace.run(&[leaky("Y", "Y", 0.5), leaky("Y", "Y", 0.5)]).unwrap();
    assert_eq!(fetch(&workspace, "Y"), [-0.5, 1.0]);
    assert_eq!(before.to_f64_vec().unwrap(), [-2.0, 1.0]);
}

#[test]
fn errors_name_the_step_and_the_nearest_blob() {
    let error = run(&[("Xyz", &vector(&[1.0]))], &[leaky("Xyz", "Y", 0.1), leaky("Xys", "Z", 0.1)]).unwrap_err();
    let expected = "LeakyRelu (step 1), input X: Xys: got an unknown blob, takes one that was fed or written; \
                    did you mean Xyz?";
    assert_eq!(error.to_string(), expected);
    let fed = [("X", &vector(&[1.0])), ("Y", &vector(&[1.0, 2.0, 3.0]))];
    let net = [leaky("X", "A", 0.1), OperatorDef::new("Sum", &["A", "Y"], &["Z"])];
    let error = run(&fed, &net).unwrap_err().to_string();
    assert!(error.starts_with("Sum (step 1: A, Y -> Z): "), "{error}");
    let error = Workspace::new().fetch("Q").unwrap_err().to_string();
    assert_eq!(error, "Workspace: Q: got an unknown blob, takes one that was fed or written");
    assert!(Workspace::new().feed("", vector(&[1.0])).is_err());
}

#[test]
fn outputs_that_cannot_share_a_blob_are_refused() {
    test_operators();
    let x = vector(&[1.0, 2.0]);
    for def in [
        OperatorDef::new("LeakyReluGradient", &["X", "D"], &["X"]),
        OperatorDef::new("TestSplit", &["X"], &["Y", "Y"]),
        OperatorDef::new("ReduceSum", &["X"], &["X"]),
    ] {
        assert!(matches!(run(&[("X", &x), ("D", &x)], std::slice::from_ref(&def)), Err(Error::Argument(_))), "{def:?}");
    }
    // Read twice, once in place: right, with memory of its own.
    let def = OperatorDef::new("LeakyReluGradient", &["X", "X"], &["X"]).arg("alpha", ArgValue::Float(0.5));
    let workspace = run(&[("X", &vector(&[-2.0, 3.0]))], &[def]).unwrap();
    assert_eq!(fetch(&workspace, "X"), [-1.0, 3.0]);
}

#[test]
fn in_place_means_the_same_shape_wherever_the_memory_comes_from() {
    let wider = OperatorDef::new("Add", &["X", "W"], &["X"]);
    let feeds = [("X", &vector(&[1.0])), ("W", &vector(&[1.0, 2.0]))];
    for net in [vec![wider.clone()], vec![leaky("X", "X", 0.5), wider]] {
        assert!(matches!(run(&feeds, &net), Err(Error::Shape(_))));
    }
}

#[test]
fn only_what_is_kept_stays() {
    let mut workspace = Workspace::new();
    workspace.feed("X", vector(&[-4.0, 1.0])).unwrap();
    let net = [leaky("X", "A", 0.5), leaky("A", "B", 0.5), leaky("B", "Y", 0.5)];
    let keep = |name: &str| HashSet::from([name.to_string()]);
    workspace.run_keeping(&net, Some(&keep("Y"))).unwrap();
    assert_eq!(workspace.blobs(), ["X", "Y"]);
    assert_eq!(fetch(&workspace, "Y"), [-0.5, 1.0]);
    assert!(workspace.run_keeping(&net, Some(&keep("Z"))).is_err());
}

#[test]
fn a_blob_used_twice_gets_a_sum() {
    let net = [leaky("X", "A", 0.5), leaky("X", "B", 0.25), OperatorDef::new("Sum", &["A", "B", "X"], &["Y"])];
    let backward = add_gradient_operators(&net, &given(&[("Y", "dY")]), None).unwrap();
    let all: Vec<OperatorDef> = net.iter().chain(&backward.operators).cloned().collect();
    let workspace = run(&[("X", &vector(&[-1.0, 2.0])), ("dY", &vector(&[1.0, 10.0]))], &all).unwrap();
    assert_eq!(backward.gradients["X"], "X_grad");
    assert_eq!(fetch(&workspace, "X_grad"), [1.75, 30.0]);
    // One blob at two inputs of one operator.
    let square = [OperatorDef::new("Mul", &["X", "X"], &["Y"])];
    let backward = add_gradient_operators(&square, &given(&[("Y", "dY")]), None).unwrap();
    let all: Vec<OperatorDef> = square.iter().chain(&backward.operators).cloned().collect();
    let workspace = run(&[("X", &vector(&[-1.0, 2.0])), ("dY", &vector(&[1.0, 10.0]))], &all).unwrap();
    assert_eq!(fetch(&workspace, "X_grad"), [-2.0, 40.0]);
}

#[test]
fn in_place_chains_have_versions() {
    let net = [leaky("X", "X", 0.5), leaky("X", "X", 0.5), leaky("X", "Y", 0.5), leaky("Y", "Y", 0.5)];
    let error = add_gradient_operators(&net[..2], &given(&[("X", "dX")]), None).unwrap_err().to_string();
    assert!(error.contains("overwritten since by LeakyRelu (step 1)"), "{error}");
    let net = [leaky("X", "X", 0.5), leaky("X", "Y", 0.5)];
    let backward = add_gradient_operators(&net, &given(&[("Y", "dY")]), None).unwrap();
    let all: Vec<OperatorDef> = net.iter().chain(&backward.operators).cloned().collect();
    let workspace = run(&[("X", &vector(&[-1.0, 2.0])), ("dY", &vector(&[1.0, 10.0]))], &all).unwrap();
    assert_eq!(fetch(&workspace, "X_grad"), [0.25, 10.0]);
    assert_eq!(fetch(&workspace, "X"), [-0.5, 2.0], "backward writes to no forward blob");
    let refused = add_gradient_operators(&[leaky("X", "X", -0.5)], &given(&[("X", "dX")]), None);
    assert!(matches!(refused, Err(Error::Argument(_))));
}

#[test]
fn blobs_that_need_no_gradient_are_skipped_and_missing_gradients_are_named() {
    test_operators();
    let opaque = OperatorDef::new("TestOpaque", &["C"], &["D"]);
    let net = [opaque, leaky("X", "A", 0.5), OperatorDef::new("Mul", &["A", "D"], &["Y"])];
    let refused = add_gradient_operators(&net, &given(&[("Y", "dY")]), None).unwrap_err();
    assert!(refused.to_string().starts_with("TestOpaque (step 0: C -> D): no gradient"), "{refused}");
    let wanted = ["X".to_string()];
    let backward = add_gradient_operators(&net, &given(&[("Y", "dY")]), Some(&wanted)).unwrap();
    assert!(!backward.gradients.contains_key("D") && !backward.gradients.contains_key("C"));
    // What no gradient reaches is skipped as well.
    let aside = [leaky("X", "Y", 0.5), OperatorDef::new("TestOpaque", &["Y"], &["Z"])];
    let backward = add_gradient_operators(&aside, &given(&[("Y", "dY")]), None).unwrap();
    assert_eq!(backward.operators.len(), 1);
    for (outputs, wanted) in [(given(&[("Q", "dQ")]), vec![]), (given(&[("Y", "dY")]), vec!["Q".to_string()])] {
        assert!(matches!(add_gradient_operators(&net, &outputs, Some(&wanted)), Err(Error::Argument(_))));
    }
}

#[test]
fn absent_output_gradients_are_left_out() {
    test_operators();
    let net = [OperatorDef::new("TestSplit", &["X"], &["A", "B"]), leaky("A", "Y", 0.5)];
    let backward = add_gradient_operators(&net, &given(&[("Y", "dY")]), None).unwrap();
    assert_eq!(backward.operators.last().unwrap().inputs.len(), 1);
    let all: Vec<OperatorDef> = net.iter().chain(&backward.operators).cloned().collect();
    let workspace = run(&[("X", &vector(&[-1.0, 2.0])), ("dY", &vector(&[1.0, 10.0]))], &all).unwrap();
    assert_eq!(fetch(&workspace, "X_grad"), [0.5, 10.0]);
}

#[test]
fn names_that_are_taken_are_avoided() {
    let net = [OperatorDef::new("Mul", &["X", "X_grad"], &["Y"])];
    let backward = add_gradient_operators(&net, &given(&[("Y", "Y_grad")]), None).unwrap();
    assert_eq!(backward.gradients["X"], "X_grad_1");
    assert_eq!(backward.gradients["X_grad"], "X_grad_grad");
    let all: Vec<OperatorDef> = net.iter().chain(&backward.operators).cloned().collect();
    let feeds = [("X", &vector(&[2.0])), ("X_grad", &vector(&[3.0])), ("Y_grad", &vector(&[1.0]))];
    let workspace = run(&feeds, &all).unwrap();
    assert_eq!((fetch(&workspace, "X_grad_1"), fetch(&workspace, "X_grad_grad")), (vec![3.0], vec![2.0]));
    assert_eq!(fetch(&workspace, "X_grad"), [3.0]);
}

#[test]
fn inputs_that_lend_their_shape_may_be_overwritten_in_place() {
    let filter = OperatorDef::new("UpFirDn2d", &["X", "K"], &["Y"]);
    let outputs = given(&[("Y", "dY")]);
    let x = ["X".to_string()];
    let in_place = [filter.clone(), leaky("X", "X", 0.5)];
    assert!(add_gradient_operators(&in_place, &outputs, Some(&x)).is_ok());
    let replaced = [filter.clone(), leaky("K", "X", 0.5)];
    assert!(matches!(add_gradient_operators(&replaced, &outputs, Some(&x)), Err(Error::Argument(_))));
    // The gradient of K reads the values of X.
    let k = ["K".to_string()];
    assert!(matches!(add_gradient_operators(&in_place, &outputs, Some(&k)), Err(Error::Argument(_))));
}

#[test]
fn gradients_can_be_replaced() {
    let straight = Gradient::defined(|request: &GradientRequest<'_>| {
        Ok(GradientDefs { operators: vec![], input_gradients: vec![request.output_gradients[0].clone()] })
    });
    let net = [leaky("X", "Y", 0.5)];
    let overrides = std::collections::HashMap::from([("LeakyRelu".to_string(), straight)]);
    let backward = gradient_override(overrides, || add_gradient_operators(&net, &given(&[("Y", "dY")]), None)).unwrap();
    let all: Vec<OperatorDef> = net.iter().chain(&backward.operators).cloned().collect();
    let workspace = run(&[("X", &vector(&[-1.0, 2.0])), ("dY", &vector(&[1.0, 10.0]))], &all).unwrap();
    assert_eq!(fetch(&workspace, "X_grad"), [1.0, 10.0]);
    let backward = add_gradient_operators(&net, &given(&[("Y", "dY")]), None).unwrap();
    assert_eq!(backward.operators[0].operator, "LeakyReluGradient");
}

#[test]
fn a_users_gradient_of_another_shape_is_refused_when_the_net_runs() {
    let schema = OpSchema::new("TestShapeless", "For tests.")
        .input(InputSpec::new("X", "Any shape."))
        .output("Y", "The shape of X.")
        .identical_type_and_shape();
    register_cpu_operator(schema, |_| Ok(())).unwrap();
    register_gradient("TestShapeless", |request: &GradientRequest<'_>| {
        let total = OperatorDef::new("ReduceSum", &[request.output_gradient(0)], &["dX"]);
        Ok(GradientDefs { operators: vec![total], input_gradients: vec![Some("dX".into())] })
    })
    .unwrap();
    let net = vec![OperatorDef::new("TestShapeless", &["X"], &["Y"])];
    let backward = add_gradient_operators(&net, &given(&[("Y", "dY")]), None).unwrap();
    let whole: Vec<OperatorDef> = net.iter().chain(&backward.operators).cloned().collect();
    assert_eq!(net::from_json(&net::to_json(&whole).unwrap()).unwrap(), whole);
    for keep in [None, Some(HashSet::from(["X_grad".to_string()]))] {
        let mut workspace = Workspace::new();
        workspace.feed("X", vector(&[1.0, 2.0])).unwrap();
        workspace.feed("dY", vector(&[1.0, 1.0])).unwrap();
        let refused = workspace.run_keeping(&whole, keep.as_ref());
        assert!(matches!(&refused, Err(Error::Shape(_))), "{refused:?}");
        assert!(workspace.fetch("X_grad").is_err());
    }
}
