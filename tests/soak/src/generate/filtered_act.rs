//! Random calls of FilteredAct and its gradient.

use firelu::{Activation, ArgValue, DType};

use super::{LARGE, factor, optional_arg};
use crate::choices::Choices;
use crate::reference::filtered_act::output_shape;
use crate::signatures::{Array, Request, Signature};

const FACTORS: [&str; 4] = ["up_x", "up_y", "down_x", "down_y"];
const PADS: [&str; 8] =
    ["pad_x0", "pad_x1", "pad_y0", "pad_y1", "down_pad_x0", "down_pad_x1", "down_pad_y0", "down_pad_y1"];
const BORDERS: [&str; 7] = ["constant", "edge", "reflect", "symmetric", "wrap", "zeros", "replicate"];

/// A request that its operator takes, unless padding and cropping leave nothing.
pub fn request(
    signature: &'static Signature,
    limit: usize,
    dtype: DType,
    kernel_dtype: DType,
    choices: &mut Choices<'_>,
) -> Request {
    let channels = 1 + choices.below(3);
    let mut x: Vec<usize> = match choices.below(4) {
        0 => vec![],
        1 => vec![channels],
        _ => vec![1 + choices.below(2), channels],
    };
    // Both filters are sums of sums for the definition: large ones take it seconds.
    let side = |choices: &mut Choices<'_>| match limit {
        0..=40 => 1 + choices.below(8),
        LARGE => 20 + choices.below(60),
        _ => 1 + choices.below(24),
    };
    x.extend([side(choices), side(choices)]);
    let taps = |choices: &mut Choices<'_>| match choices.below(8) {
        0 => [1, 1],
        1 => [1, 1 + choices.below(12)],
        _ => [1 + choices.below(6), 1 + choices.below(6)],
    };
    let [up, down] = [taps(choices), taps(choices)].map(|shape| Some(Array::new(&shape, kernel_dtype)));
    let mut args = Vec::new();
    for name in FACTORS {
        if choices.one_in(2) {
            args.push((name, ArgValue::Int(choices.pick(&[1, 2, 2, 3, 4]))));
        }
    }
    for name in PADS {
        if !choices.one_in(3) {
            let number = choices.below(7) as i64;
            args.push((name, ArgValue::Int(if choices.one_in(8) { -number } else { number })));
        }
    }
    for name in ["border", "down_border"] {
        if choices.one_in(2) {
            args.push((name, ArgValue::String(choices.pick(&BORDERS).into())));
        }
    }
    let of_channels = |choices: &mut Choices<'_>| {
        let dtype = if choices.one_in(2) { dtype } else { dtype.compute() };
        Some(Array::new(&[channels], dtype))
    };
    // Without an axis of channels nothing has numbers for them.
    let axis = x.len().checked_sub(3);
    if let Some(axis) = axis
        && (axis != 1 || choices.one_in(3))
    {
        let negative = choices.one_in(2);
        args.push(("axis", ArgValue::Int(axis as i64 - if negative { x.len() as i64 } else { 0 })));
    }
    let is_snake = axis.is_some() && choices.one_in(4);
    let act = if is_snake { "snake" } else { choices.pick(&Activation::ALL).name() };
    if act != "lrelu" || choices.one_in(2) {
        args.push(("act", ArgValue::String(act.into())));
    }
    optional_arg(&mut args, "alpha", |choices| ArgValue::Float(choices.between(-2.0, 2.0)), choices);
    optional_arg(&mut args, "gain", factor, choices);
    optional_arg(&mut args, "up_gain", factor, choices);
    if choices.one_in(3) {
        args.push(("clamp", ArgValue::Float(choices.between(0.0, 2.0))));
    }
    for name in ["flip_kernel", "logscale"] {
        if choices.one_in(2) {
            args.push((name, ArgValue::Bool(choices.one_in(2))));
        }
    }
    let has_bias = axis.is_some() && choices.one_in(2);
    let bias = if has_bias { of_channels(choices) } else { None };
    let alpha = if is_snake { of_channels(choices) } else { None };
    let beta = if is_snake && choices.one_in(2) { of_channels(choices) } else { None };
    let x = Some(Array::new(&x, dtype));
    let mut request = Request { operator: signature.operator, inputs: vec![x, up, down, bias, alpha, beta], args };
    if signature.operator == "FilteredActGradient" {
        let shape = with_numbers(&request, output_shape).unwrap_or_else(|_| vec![1, 1]);
        request.inputs.push(Some(Array::new(&shape, dtype)));
    }
    request
}

/// Asks a definition that looks at the numbers of each channel.
fn with_numbers<R>(request: &Request, ask: impl FnOnce(&Request) -> R) -> R {
    let mut filled = request.clone();
    for array in filled.inputs.iter_mut().flatten() {
        array.values = vec![1.0; array.elements()];
    }
    ask(&filled)
}
