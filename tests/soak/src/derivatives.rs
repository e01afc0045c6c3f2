//! Gradient definitions, run by name, against differences of the reference: every operator is linear in
//! each of its inputs as long as no sign changes, so that a central difference is exact. Curves have none that is: of the
//! activations straight ones are taken here.

use std::collections::HashMap;

use firelu::{ArgValue, DType, OperatorDef, Tensor, get_gradient_defs, registry};

use crate::choices::Choices;
use crate::generate;
use crate::outcome::Outcome;
use crate::reference::expect;
use crate::signatures::{Array, Request, SIGNATURES};

/// Numbers stay so far from zero that no step changes a sign, also of a number and a bias.
const STEP: f64 = 0.25;

fn fill(array: &mut Array, is_bias: bool, choices: &mut Choices<'_>) {
    let value = |choices: &mut Choices<'_>| {
        let magnitude = if is_bias { choices.between(0.0, 1.0) } else { choices.between(2.0, 4.0) };
        if choices.one_in(2) { -magnitude } else { magnitude }
    };
    array.dtype = DType::Float64;
    array.values = (0..array.elements()).map(|_| value(choices)).collect();
}

fn tensor(array: &Array) -> Tensor {
    Tensor::from_vec(array.shape.clone(), array.values.clone()).expect("as many values as elements")
}

fn inner(first: &[f64], second: &[f64]) -> f64 {
    first.iter().zip(second).map(|(a, b)| a * b).sum()
}

/// Runs definitions on named tensors, as a net is run.
fn run_definitions(definitions: &[OperatorDef], blobs: &mut HashMap<String, Tensor>) -> Result<(), String> {
    for definition in definitions {
        let inputs: Vec<Option<&Tensor>> = definition
            .inputs
            .iter()
            .map(|name| match name.as_str() {
                "" => Ok(None),
                name => blobs.get(name).map(Some).ok_or(format!("{definition:?} reads {name}, which nobody made")),
            })
            .collect::<Result<_, _>>()?;
        let named = definition.args.iter().map(|(name, value)| (name, value.clone()));
        let results = registry::run(&definition.operator, &inputs, named)
            .map_err(|error| format!("{definition:?} was refused: {error}"))?;
        for (name, tensor) in definition.outputs.iter().zip(results) {
            if !name.is_empty() {
                blobs.insert(name.clone(), tensor);
            }
        }
    }
    Ok(())
}

/// Leaves of the activations those that a difference is exact for: lines, bent at zero at most where no filter mixes
/// samples of either sign.
fn straighten(request: &mut Request, choices: &mut Choices<'_>) {
    let acts: &[&str] = match request.operator {
        "BiasAct" | "BiasActGradient" => &["linear", "relu", "lrelu"],
        "FilteredAct" | "FilteredActGradient" => &["linear"],
        _ => return,
    };
    request.args.retain(|(name, _)| !matches!(*name, "act" | "clamp"));
    request.args.push(("act", ArgValue::String(choices.pick(acts).into())));
    if request.operator.starts_with("FilteredAct") {
        // The numbers of a snake.
        request.inputs[4..6].fill(None);
    }
}

/// One operator, its gradient definitions and a direction for each of its inputs.
pub fn run(choices: &mut Choices<'_>) -> Result<Outcome, String> {
    // A sine is nowhere a line: the tests of gradients have it.
    let lines: Vec<_> = SIGNATURES.iter().filter(|signature| !signature.operator.starts_with("Snake")).collect();
    let signature = lines[choices.below(lines.len())];
    let limit = choices.pick(&[6, 12, 12, 24, 100]);
    let mut request = generate::fitting(signature, limit, choices);
    straighten(&mut request, choices);
    // Beyond float32 the differences themselves overflow.
    for (_, value) in &mut request.args {
        if let ArgValue::Float(number) = value
            && number.abs() > 1e6
        {
            *number = 0.5;
        }
    }
    for (place, input) in request.inputs.iter_mut().enumerate() {
        if let Some(array) = input {
            let has_bias = request.operator.starts_with("Fused") || request.operator.starts_with("BiasAct");
            fill(array, place > 0 && has_bias && array.shape.len() == 1, choices);
        }
    }
    let Ok(outputs) = expect(&request) else { return Ok(Outcome::Refused(request.operator)) };

    let name = |prefix: &str, place: usize| format!("{prefix}{place}");
    let mut definition = OperatorDef::new(request.operator, &[], &[]);
    definition.args = request.args.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    let mut blobs = HashMap::new();
    for (place, input) in request.inputs.iter().enumerate() {
        definition.inputs.push(if input.is_some() { name("input", place) } else { String::new() });
        if let Some(array) = input {
            blobs.insert(name("input", place), tensor(array));
        }
    }
    definition.outputs = (0..outputs.len()).map(|place| name("output", place)).collect();
    let mut gradients: Vec<Option<Array>> = Vec::new();
    for output in &outputs {
        let mut gradient = Array::new(&output.shape, DType::Float64);
        fill(&mut gradient, false, choices);
        gradients.push(if choices.one_in(6) { None } else { Some(gradient) });
    }
    let mut names = Vec::new();
    for (place, gradient) in gradients.iter().enumerate() {
        names.push(gradient.as_ref().map(|_| name("gradient", place)));
        if let Some(gradient) = gradient {
            blobs.insert(name("gradient", place), tensor(gradient));
        }
    }
    run_definitions(std::slice::from_ref(&definition), &mut blobs)?;
    let backward = get_gradient_defs(&definition, &names).map_err(|error| format!("{definition:?}: {error}"))?;
    run_definitions(&backward.operators, &mut blobs)?;
    for (place, input_gradient) in backward.input_gradients.iter().enumerate() {
        let Some(input) = request.input(place) else { continue };
        let direction: Vec<f64> = input.values.iter().map(|_| choices.between(-1.0, 1.0)).collect();
        let (difference, size) = difference(&request, &gradients, place, &direction);
        let along = match input_gradient {
            None => 0.0,
            Some(name) => {
                let gradient = blobs.get(name).ok_or(format!("{backward:?}: nobody made {name}"))?;
                if gradient.shape()[..] != input.shape {
                    return Err(format!("{definition:?}: the gradient of input {place} is {gradient:?}"));
                }
                inner(&gradient.to_f64_vec().map_err(|error| error.to_string())?, &direction)
            }
        };
        if (along - difference).abs() > 1e-9 * (size + 1.0) {
            return Err(format!(
                "{definition:?}: along input {place} the gradient gives {along:e}, the difference {difference:e}\n  {request:?}"
            ));
        }
    }
    Ok(Outcome::Derivative(request.operator))
}

/// The central difference of all outputs' products with their gradients, and the size of its terms.
fn difference(request: &Request, gradients: &[Option<Array>], place: usize, direction: &[f64]) -> (f64, f64) {
    let (mut total, mut size) = (0.0, 0.0);
    for sign in [1.0, -1.0] {
        let mut moved = request.clone();
        let input = moved.inputs[place].as_mut().expect("given");
        for (value, step) in input.values.iter_mut().zip(direction) {
            *value += sign * STEP * step;
        }
        let outputs = expect(&moved).expect("only values have changed");
        for (output, gradient) in outputs.iter().zip(gradients) {
            let Some(gradient) = gradient else { continue };
            total += sign * inner(&output.values, &gradient.values) / (2.0 * STEP);
            size += output.values.iter().zip(&gradient.values).map(|(a, b)| (a * b).abs()).sum::<f64>() / STEP;
        }
    }
    (total, size)
}
