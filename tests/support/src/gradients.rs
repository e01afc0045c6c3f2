//! Gradient definitions against differences.

use firelu::{DType, OperatorDef, Tensor, get_gradient_defs, registry};

use crate::layouts::Layout;
use crate::numbers::Numbers;
use crate::run::{Blobs, run_defs};
use crate::tensors::random;

/// Compares the gradient definitions of a float64 definition with differences of its outputs, and then
/// does the same with each of those definitions, `depth` times.
pub fn check_gradient(def: &OperatorDef, blobs: &Blobs, depth: usize, numbers: &mut Numbers) {
    let mut blobs = blobs.clone();
    run_defs(std::slice::from_ref(def), &mut blobs);
    let mut weights: Vec<Option<String>> = Vec::new();
    for (index, output) in def.outputs.iter().enumerate() {
        let name = format!("weight_{depth}_{index}");
        weights.push((!output.is_empty()).then(|| name.clone()));
        if !output.is_empty() {
            let shape = blobs[output].shape().clone();
            blobs.insert(name, random(DType::Float64, &shape, Layout::RowMajor, numbers));
        }
    }
    let weighted = |blobs: &mut Blobs| -> f64 {
        run_defs(std::slice::from_ref(def), blobs);
        let pairs = def.outputs.iter().zip(&weights).filter_map(|(o, w)| Some((o, w.as_ref()?)));
        let dot = |(output, weight): (&String, &String)| -> f64 {
            let (values, weights) = (blobs[output].to_f64_vec().unwrap(), blobs[weight].to_f64_vec().unwrap());
            values.iter().zip(weights).map(|(value, weight)| value * weight).sum()
        };
        pairs.map(dot).sum()
    };
    let gradient = get_gradient_defs(def, &weights).unwrap();
    run_defs(&gradient.operators, &mut blobs);
    let schema = registry::find(&def.operator).unwrap().schema.clone();
    let step = 1e-6;
    for (index, input) in def.inputs.iter().enumerate() {
        let spec = schema.input_spec(index);
        if input.is_empty() || def.inputs[..index].contains(input) {
            continue;
        }
        // A blob that is read twice has the sum of both gradients.
        let places = (0..def.inputs.len()).filter(|&other| def.inputs[other] == *input);
        let gradients: Vec<Vec<f64>> = places
            .filter_map(|place| gradient.input_gradients[place].as_ref())
            .map(|name| {
                assert_eq!(blobs[name].shape(), blobs[input].shape(), "{}: gradient of {input}", def.operator);
                assert_eq!(blobs[name].dtype(), blobs[input].dtype(), "{}: gradient of {input}", def.operator);
                blobs[name].to_f64_vec().unwrap()
            })
            .collect();
        assert!(!spec.shape_only || gradients.is_empty());
        let shape = blobs[input].shape().clone();
        let values = blobs[input].to_f64_vec().unwrap();
        for place in 0..shape.elements() {
            let moved = |by: f64| {
                let mut changed = blobs.clone();
                let mut values = values.clone();
                values[place] += by;
                changed.insert(input.clone(), Tensor::from_vec(shape.clone(), values).unwrap());
                weighted(&mut changed)
            };
            let expected = (moved(step) - moved(-step)) / (2.0 * step);
            let got: f64 = gradients.iter().map(|gradient| gradient[place]).sum();
            assert!((got - expected).abs() < 1e-7, "{def:?}: {input}[{place}]: got {got}, differences give {expected}");
        }
    }
    if depth > 1 {
        for def in &gradient.operators {
            check_gradient(def, &blobs, depth - 1, numbers);
        }
    }
}
