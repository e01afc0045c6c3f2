//! Every built-in operator's gradient against central differences in float64, of first, second and third
//! order, on dense and strided inputs, and in place.

use std::collections::{BTreeMap, BTreeSet};

use firelu::core::example::Example;
use firelu::*;
use firelu_test_support::layouts::Layout::{self, RowMajor, Transposed};
use firelu_test_support::numbers::Numbers;
use firelu_test_support::tensors::place;

const STEP: f64 = 1e-4;
const TOLERANCE: f64 = 1e-6;

fn numbers(count: usize, seed: u64) -> Vec<f64> {
    Numbers::new(seed).list(count, Numbers::next_away_from_zero)
}

fn tensor(shape: &[usize], values: &[f64], layout: Layout) -> Tensor {
    place(DType::Float64, shape, layout, values, &mut Numbers::new(0))
}

/// One operator with its inputs; `None` is an omitted one.
#[derive(Clone)]
struct Case {
    operator: String,
    inputs: Vec<Option<Vec<usize>>>,
    args: Vec<(&'static str, ArgValue)>,
}

fn case(operator: &'static str, inputs: &[&[usize]], args: &[(&'static str, ArgValue)]) -> Case {
    // An empty list stands for an omitted input: no case needs an input without dimensions.
    let inputs = inputs.iter().map(|shape| (!shape.is_empty()).then(|| shape.to_vec())).collect();
    Case { operator: operator.into(), inputs, args: args.to_vec() }
}

/// What the schemas show of every operator.
fn examples() -> impl Iterator<Item = Case> {
    registry::names().into_iter().flat_map(|operator| {
        let examples = registry::find(&operator).unwrap().schema.examples.clone();
        let of =
            move |example: Example| Case { operator: operator.clone(), inputs: example.inputs, args: example.args };
        examples.into_iter().map(of)
    })
}

/// The examples, and more where an operator has more ways.
fn cases() -> Vec<Case> {
    use ArgValue::{Bool, Float, Int, Ints};
    let x: &[usize] = &[2, 3, 4];
    let mut cases = vec![
        case("Add", &[x, &[4]], &[]),
        case("Add", &[&[3, 1], x], &[]),
        case("Sub", &[x, &[3, 1]], &[]),
        case("Sub", &[&[1], x], &[]),
        case("Mul", &[x, x], &[]),
        case("Mul", &[&[2, 1, 4], &[3, 1]], &[]),
        case("ReduceSum", &[x], &[]),
        case("ReduceSum", &[x], &[("axes", Ints(vec![0, -1])), ("scale", Float(0.5))]),
        case("ReduceSum", &[x], &[("axes", Ints(vec![1])), ("keepdims", Bool(true))]),
        case("ReduceSum", &[x, &[3, 1]], &[]),
        case("BroadcastLike", &[&[3, 1], x], &[("scale", Float(2.0))]),
        case("BroadcastLike", &[&[3], x], &[("axes", Ints(vec![0, 2]))]),
    ];
    for alpha in [0.2, 0.0, -0.3, 1.5] {
        let args = [("alpha", Float(alpha))];
        cases.push(case("LeakyRelu", &[x], &args));
        cases.push(case("LeakyReluGradient", &[x, x], &args));
        for (scale, axis, channels) in [(1.4, 1, 3), (-0.7, 2, 4), (2.0, 0, 2)] {
            let args = [("alpha", Float(alpha)), ("scale", Float(scale)), ("axis", Int(axis))];
            let bias: &[usize] = &[channels];
            cases.push(case("FusedLeakyRelu", &[x, bias], &args));
            cases.push(case("FusedLeakyRelu", &[x, &[]], &args));
            cases.push(case("FusedLeakyReluGradient", &[x, x, bias], &args));
            cases.push(case("FusedLeakyReluGradient", &[x, x, &[]], &args));
            cases.push(case("FusedLeakyReluGradient", &[x, &[], bias], &args));
        }
    }
    for activation in Activation::ALL {
        let act = || ("act", ArgValue::String(activation.name().into()));
        for (clamp, axis, channels) in [(ArgValue::None, 1, 3), (Float(0.45), 2, 4)] {
            let args = [act(), ("clamp", clamp), ("axis", Int(axis)), ("gain", Float(1.2))];
            cases.push(case("BiasAct", &[x, &[channels]], &args));
            cases.push(case("BiasAct", &[x, &[]], &args));
            cases.push(case("BiasActGradient", &[x, x, &[channels]], &args));
            cases.push(case("BiasActGradient", &[x, x, &[]], &args));
        }
        cases.push(case("BiasActGradient", &[x, x, &[3]], &[act(), ("order", Int(3))]));
    }
    for (beta, axis, channels) in [(&[3][..], 1, 3), (&[], 2, 4)] {
        let args = [("logscale", Bool(true)), ("axis", Int(axis))];
        cases.push(case("Snake", &[x, &[channels], beta], &args));
        cases.push(case("SnakeGradient", &[x, x, &[channels], beta], &args));
        let more = [&args[..], &[("order_x", Int(1)), ("order_alpha", Int(1))]].concat();
        cases.push(case("SnakeDerivative", &[x, x, &[channels], beta], &more));
    }
    // up, down, paddings of x and y, kernel, flip, gain.
    type Filter = (i64, i64, [i64; 4], [usize; 2], bool, f64);
    let filters: [Filter; 6] = [
        (1, 1, [0, 0, 0, 0], [2, 3], false, 1.0),
        (2, 1, [2, 1, 1, 2], [3, 2], true, 4.0),
        (1, 2, [1, 1, 2, 0], [3, 3], false, 0.5),
        (3, 2, [1, 2, 3, 1], [4, 3], true, 1.0),
        (2, 3, [-1, 2, 1, -1], [2, 2], false, 2.0),
        (1, 1, [-1, -1, 0, 1], [1, 2], false, 1.0),
    ];
    for (up, down, [x0, x1, y0, y1], [kh, kw], flip, gain) in filters {
        let args = [
            ("up_x", Int(up)),
            ("up_y", Int(up)),
            ("down_x", Int(down)),
            ("down_y", Int(down)),
            ("pad_x0", Int(x0)),
            ("pad_x1", Int(x1)),
            ("pad_y0", Int(y0)),
            ("pad_y1", Int(y1)),
            ("flip_kernel", Bool(flip)),
            ("gain", Float(gain)),
        ];
        let out = |n: i64, p0: i64, p1: i64, taps: usize| ((n * up + p0 + p1 - taps as i64) / down + 1) as usize;
        let (image, kernel) = (&[1, 2, 5, 4][..], &[kh, kw][..]);
        let result = &[1, 2, out(5, y0, y1, kh), out(4, x0, x1, kw)][..];
        cases.push(case("UpFirDn2d", &[image, kernel], &args));
        cases.push(case("UpFirDn2dGradient", &[result, kernel, image], &args));
        cases.push(case("UpFirDn2dKernelGradient", &[image, result, kernel], &args));
    }
    let filtered = |act: &'static str| {
        let text = |value: &'static str| ArgValue::String(value.into());
        vec![
            ("act", text(act)),
            ("up_x", Int(2)),
            ("down_x", Int(2)),
            ("down_y", Int(2)),
            ("pad_x0", Int(2)),
            ("pad_x1", Int(1)),
            ("border", text("reflect")),
            ("down_pad_x0", Int(1)),
            ("down_border", text("edge")),
            ("up_gain", Float(1.5)),
        ]
    };
    let (image, up, down, result): (&[usize], &[usize], &[usize], &[usize]) =
        (&[1, 2, 4, 3], &[2, 3], &[1, 2], &[1, 2, 2, 4]);
    for act in ["swish", "softplus"] {
        cases.push(case("FilteredAct", &[image, up, down, &[2]], &filtered(act)));
        cases.push(case("FilteredActGradient", &[image, up, down, &[2], &[], &[], result], &filtered(act)));
    }
    let snake = [&filtered("snake")[..], &[("logscale", Bool(true))]].concat();
    cases.push(case("FilteredAct", &[image, up, down, &[2], &[2], &[2]], &snake));
    cases.push(case("FilteredActGradient", &[image, up, down, &[2], &[2], &[2], result], &snake));
    cases.extend(examples());
    cases
}

/// A scalar whose derivatives of every order depend on every input: half the square of a weighted sum.
fn scalar(case: &Case, inputs: &[Option<Variable>]) -> Variable {
    let inputs: Vec<Option<&Variable>> = inputs.iter().map(Option::as_ref).collect();
    let outputs = apply(&case.operator, &inputs, case.args.iter().cloned()).unwrap();
    let total = outputs.iter().enumerate().map(|(index, output)| dot(output, 100 + index as u64));
    let total = total.reduce(|a, b| one("Add", &[&a, &b])).unwrap();
    one("Mul", &[&total, &total])
}

fn one(name: &str, inputs: &[&Variable]) -> Variable {
    let inputs: Vec<Option<&Variable>> = inputs.iter().map(|input| Some(*input)).collect();
    apply(name, &inputs, [] as [(&str, ArgValue); 0]).unwrap().swap_remove(0)
}

/// The sum of a variable times fixed weights.
fn dot(variable: &Variable, seed: u64) -> Variable {
    let shape = variable.value().shape();
    let weights = Variable::constant(tensor(shape, &numbers(shape.elements(), seed), RowMajor));
    one("ReduceSum", &[&one("Mul", &[variable, &weights])])
}

/// The scalar that is differentiated once more at each order: a weighted sum of the gradients before.
fn differentiated(case: &Case, inputs: &[Option<Variable>], order: usize) -> Option<Variable> {
    let leaves: Vec<Variable> = inputs.iter().flatten().cloned().collect();
    let mut value = scalar(case, inputs);
    for order in 1..order {
        let keep = BackwardOptions { create_graph: true, ..Default::default() };
        let found = grad(&[value], &leaves, &[], keep).unwrap();
        let parts = found.iter().flatten().enumerate().map(|(i, g)| dot(g, (10 * order + i) as u64));
        value = parts.reduce(|a, b| one("Add", &[&a, &b]))?;
    }
    Some(value)
}

fn inputs_of(case: &Case, values: &[Vec<f64>], layout: Layout) -> Vec<Option<Variable>> {
    let make = |(shape, values): (&Option<Vec<usize>>, &Vec<f64>)| {
        shape.as_ref().map(|shape| Variable::leaf(tensor(shape, values, layout)))
    };
    case.inputs.iter().zip(values).map(make).collect()
}

fn check(case: &Case, order: usize, layout: Layout) {
    let mut values: Vec<Vec<f64>> = case
        .inputs
        .iter()
        .enumerate()
        .map(|(index, shape)| {
            let count = shape.as_ref().map_or(0, |shape| shape.iter().product());
            // A bias smaller than any x keeps sums away from the corner as well.
            let factor = if case.operator == "FusedLeakyRelu" && index == 1 { 0.1 } else { 1.0 };
            numbers(count, 7 + index as u64).into_iter().map(|value| value * factor).collect()
        })
        .collect();
    let label = format!("{} {:?} {:?} order {order} {layout:?}", case.operator, case.inputs, case.args);
    let variables = inputs_of(case, &values, layout);
    let Some(value) = differentiated(case, &variables, order) else { return };
    let leaves: Vec<Variable> = variables.iter().flatten().cloned().collect();
    let found = grad(&[value], &leaves, &[], Default::default()).unwrap();
    let mut found = found.into_iter();
    for input in 0..values.len() {
        if case.inputs[input].is_none() {
            continue;
        }
        let gradient = found.next().unwrap();
        let count = values[input].len();
        let gradient = gradient.map_or(vec![0.0; count], |gradient| gradient.value().to_f64_vec().unwrap());
        // Every element at first order; at higher ones, which run the operator often, about eight of each input.
        let stride = if order == 1 { 1 } else { count.div_ceil(8) };
        for element in (0..count).step_by(stride) {
            let kept = values[input][element];
            let mut at = |value: f64| {
                values[input][element] = value;
                let value = differentiated(case, &inputs_of(case, &values, layout), order);
                value.map_or(0.0, |value| value.value().to_f64_vec().unwrap()[0])
            };
            let numeric = (at(kept + STEP) - at(kept - STEP)) / (2.0 * STEP);
            values[input][element] = kept;
            let analytic = gradient[element];
            let scale = 1.0 + analytic.abs().max(numeric.abs());
            assert!(
                (analytic - numeric).abs() <= TOLERANCE * scale,
                "{label}: input {input} element {element}: {analytic} is not {numeric}"
            );
        }
    }
}

#[test]
fn every_operator_has_a_case() {
    let covered: BTreeSet<String> = cases().iter().map(|case| case.operator.to_string()).collect();
    assert_eq!(covered, registry::names().into_iter().collect());
}

#[test]
fn first_order() {
    cases().iter().for_each(|case| check(case, 1, RowMajor));
}

#[test]
fn second_order() {
    cases().iter().for_each(|case| check(case, 2, RowMajor));
}

#[test]
fn third_order() {
    cases().iter().for_each(|case| check(case, 3, RowMajor));
}

#[test]
fn strided_inputs() {
    cases().iter().for_each(|case| check(case, 1, Transposed));
    cases().iter().step_by(5).for_each(|case| check(case, 2, Transposed));
}

/// In place, first and second order, through nets: the gradient of the gradient is a net as well.
#[test]
fn in_place_forms_in_nets() {
    let leaky = OperatorDef::new("LeakyRelu", &["X"], &["X"]).arg("alpha", ArgValue::Float(0.3));
    let fused = OperatorDef::new("FusedLeakyRelu", &["X", "B"], &["X"]).arg("axis", ArgValue::Int(0));
    let add = OperatorDef::new("Add", &["X", "W"], &["X"]);
    let sub = OperatorDef::new("Sub", &["W", "X"], &["X"]);
    let sum = OperatorDef::new("Sum", &["X", "W"], &["X"]);
    let square = |name: &str| OperatorDef::new("Mul", &[name, name], &["Y"]);
    let gradient = OperatorDef::new("LeakyReluGradient", &["W", "X"], &["X"]);
    for first in [leaky, fused, add, sub, sum, gradient] {
        let net = vec![first.clone(), square("X")];
        let given = BTreeMap::from([("Y".to_string(), "dY".to_string())]);
        let backward = add_gradient_operators(&net, &given, None).unwrap();
        let all: Vec<OperatorDef> = net.iter().chain(&backward.operators).cloned().collect();
        let given = BTreeMap::from([("X_grad".to_string(), "V".to_string())]);
        let wanted = ["X".to_string()];
        let second = add_gradient_operators(&all, &given, Some(&wanted)).unwrap();
        let all: Vec<OperatorDef> = all.iter().chain(&second.operators).cloned().collect();
        let run = |x: &[f64]| {
            let mut workspace = Workspace::new();
            for (seed, name) in ["W", "dY", "V", "B"].iter().enumerate() {
                let mut values = numbers(4, 40 + seed as u64);
                if *name == "B" {
                    values.iter_mut().for_each(|value| *value *= 0.1);
                }
                workspace.feed(name, tensor(&[4], &values, RowMajor)).unwrap();
            }
            workspace.feed("X", tensor(&[4], x, RowMajor)).unwrap();
            workspace.run(&all).unwrap();
            workspace
        };
        let x = numbers(4, 3);
        let workspace = run(&x);
        let fetch = |workspace: &Workspace, name: &str| workspace.fetch(name).unwrap().to_f64_vec().unwrap();
        let weighted = |workspace: &Workspace, blob: &str, weights: &str| -> f64 {
            fetch(workspace, blob).iter().zip(fetch(workspace, weights)).map(|(a, b)| a * b).sum()
        };
        let once = fetch(&workspace, "X_grad");
        let twice = second.gradients.get("X").map_or(vec![0.0; 4], |name| fetch(&workspace, name));
        for element in 0..4 {
            let at = |step: f64| {
                let mut moved = x.clone();
                moved[element] += step;
                let workspace = run(&moved);
                (weighted(&workspace, "Y", "dY"), weighted(&workspace, "X_grad", "V"))
            };
            let (high, low) = (at(STEP), at(-STEP));
            let close = |analytic: f64, numeric: f64| (analytic - numeric).abs() <= TOLERANCE * (1.0 + numeric.abs());
            assert!(close(once[element], (high.0 - low.0) / (2.0 * STEP)), "{first:?}");
            assert!(close(twice[element], (high.1 - low.1) / (2.0 * STEP)), "{first:?}");
        }
    }
}
