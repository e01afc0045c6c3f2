//! Random calls: mostly ones that fit, some with one thing changed, in sizes from nothing to threads.

mod filtered_act;

use firelu::{ArgValue, DType};

use crate::choices::Choices;
use crate::memory::Placed;
use crate::reference::upfirdn2d::Plan;
use crate::signatures::{Array, Request, SIGNATURES, Signature};

/// The most elements of a tensor that one thread computes; a larger one is worth several.
const SMALL: usize = 4096;
/// Enough elements for several tasks of every type.
pub const LARGE: usize = 700_000;

/// How many elements the largest tensor of a case has.
pub fn size(choices: &mut Choices<'_>) -> usize {
    match choices.below(64) {
        0 if choices.one_in(128) => LARGE,
        0 => SMALL,
        1..=9 => 600,
        _ => 40,
    }
}

/// A shape with at most so many elements.
pub fn shape(limit: usize, choices: &mut Choices<'_>) -> Vec<usize> {
    if limit == LARGE {
        let first = choices.pick(&[1, 2, 3, 17, 300]);
        let rest = LARGE / first;
        let second = choices.pick(&[1, 2, 5, 64]);
        return vec![first, second, rest / second];
    }
    if choices.one_in(4) {
        return vec![choices.below(limit + 1)];
    }
    let rank = choices.pick(&[0, 1, 2, 2, 3, 3, 4, 4, 5, 7]);
    let mut left = limit;
    let mut shape: Vec<usize> = (0..rank)
        .map(|_| {
            let length = choices.pick(&[1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33]).min(left);
            left = (left / length.max(1)).max(1);
            length
        })
        .collect();
    if !shape.is_empty() && choices.one_in(24) {
        let place = choices.below(shape.len());
        shape[place] = 0;
    }
    for i in (1..shape.len()).rev() {
        shape.swap(i, choices.below(i + 1));
    }
    shape
}

/// A request of a random operator.
pub fn request(choices: &mut Choices<'_>) -> Request {
    let signature = &SIGNATURES[choices.below(SIGNATURES.len())];
    let limit = size(choices);
    let mut request = fitting(signature, limit, choices);
    if choices.one_in(10) {
        change(&mut request, choices);
    }
    request
}

/// A request that its operator takes, unless a shape is against it.
pub fn fitting(signature: &'static Signature, limit: usize, choices: &mut Choices<'_>) -> Request {
    let dtype = choices.pick(&DType::ALL);
    let other = choices.pick(&DType::ALL);
    let array = |shape: &[usize], dtype| Some(Array::new(shape, dtype));
    let of_bias = |choices: &mut Choices<'_>| if choices.one_in(2) { dtype } else { dtype.compute() };
    let (mut inputs, mut args) = (Vec::new(), Vec::new());
    if signature.operator.starts_with("UpFirDn2d") {
        return upfirdn2d(signature, limit, dtype, other, choices);
    }
    if signature.operator.starts_with("FilteredAct") {
        return filtered_act::request(signature, limit, dtype, other, choices);
    }
    let shape = shape(limit, choices);
    match signature.operator {
        "LeakyRelu" | "LeakyReluGradient" => {
            inputs = vec![array(&shape, dtype); signature.inputs.len()];
            optional_arg(&mut args, "alpha", slope, choices);
        }
        "FusedLeakyRelu" | "FusedLeakyReluGradient" => {
            inputs.push(array(&shape, dtype));
            optional_arg(&mut args, "alpha", slope, choices);
            optional_arg(&mut args, "scale", slope, choices);
            let rank = shape.len() as i64;
            let mut axis = 1;
            if rank > 0 && (rank == 1 || choices.one_in(2)) {
                axis = choices.below(2 * shape.len()) as i64 - rank;
                args.push(("axis", ArgValue::Int(axis)));
            }
            let place = if axis < 0 { axis + rank } else { axis };
            let channels = shape.get(place as usize).copied();
            let bias = |choices: &mut Choices<'_>| match channels {
                Some(channels) if choices.one_in(2) => array(&[channels], of_bias(choices)),
                _ => None,
            };
            if signature.operator == "FusedLeakyRelu" {
                inputs.push(bias(choices));
            } else {
                let dy = if choices.one_in(4) { None } else { array(&shape, dtype) };
                inputs.extend([dy, bias(choices), bias(choices)]);
            }
            while inputs.last().is_some_and(Option::is_none) && choices.one_in(2) {
                inputs.pop();
            }
        }
        "BiasAct" | "BiasActGradient" => {
            inputs.push(array(&shape, dtype));
            if signature.operator == "BiasActGradient" {
                inputs.push(array(&shape, dtype));
                optional_arg(&mut args, "order", |choices| ArgValue::Int(1 + choices.below(3) as i64), choices);
            }
            let activation = choices.pick(&firelu::Activation::ALL);
            args.push(("act", ArgValue::String(activation.name().into())));
            optional_arg(&mut args, "alpha", |choices| ArgValue::Float(choices.between(-2.0, 2.0)), choices);
            optional_arg(&mut args, "gain", factor, choices);
            if choices.one_in(2) {
                args.push(("clamp", ArgValue::Float(choices.between(0.0, 2.0))));
            }
            if let Some(&channels) = shape.get(1)
                && choices.one_in(2)
            {
                inputs.push(array(&[channels], of_bias(choices)));
            }
        }
        "Snake" | "SnakeGradient" | "SnakeDerivative" => {
            inputs = vec![array(&shape, dtype); if signature.operator == "Snake" { 1 } else { 2 }];
            let rank = shape.len() as i64;
            let axis =
                if rank < 2 || choices.one_in(2) { choices.below(2 * rank.max(1) as usize) as i64 - rank } else { 1 };
            args.push(("axis", ArgValue::Int(axis)));
            let channels = shape.get(axis.rem_euclid(rank.max(1)) as usize).copied().unwrap_or(1);
            inputs.push(array(&[channels], of_bias(choices)));
            if choices.one_in(2) {
                inputs.push(array(&[channels], of_bias(choices)));
            }
            optional_arg(&mut args, "logscale", |choices| ArgValue::Bool(choices.one_in(2)), choices);
            if signature.operator == "SnakeDerivative" {
                let which = choices.below(if inputs.len() == 4 { 4 } else { 3 });
                for (place, name) in [(1, "order_x"), (2, "order_alpha"), (3, "order_beta")] {
                    args.push((name, ArgValue::Int(i64::from(which == place))));
                }
            }
        }
        "Sum" => inputs = vec![array(&shape, dtype); 1 + choices.below(6)],
        "Add" | "Sub" | "Mul" => {
            let (mut first, mut second) = (shape.clone(), shape.clone());
            if choices.one_in(2) {
                repeat_somewhere(if choices.one_in(2) { &mut first } else { &mut second }, choices);
            }
            inputs = vec![array(&first, dtype), array(&second, dtype)];
        }
        "ReduceSum" => {
            let axes = some_axes(shape.len(), choices);
            let keepdims = choices.one_in(2);
            inputs.push(array(&shape, dtype));
            if choices.one_in(2) {
                let mut like: Vec<usize> = (0..shape.len())
                    .filter(|d| keepdims || !axes.contains(&(*d as i64)))
                    .map(|d| if axes.contains(&(d as i64)) { 1 } else { shape[d] })
                    .collect();
                repeat_somewhere(&mut like, choices);
                inputs.push(array(&like, other));
            }
            args.push(("axes", ArgValue::Ints(some_negative(&axes, shape.len(), choices))));
            args.push(("keepdims", ArgValue::Bool(keepdims)));
            optional_arg(&mut args, "scale", factor, choices);
        }
        "BroadcastLike" => {
            let axes = some_axes(shape.len(), choices);
            let mut x: Vec<usize> =
                (0..shape.len()).filter(|d| !axes.contains(&(*d as i64))).map(|d| shape[d]).collect();
            repeat_somewhere(&mut x, choices);
            inputs = vec![array(&x, dtype), array(&shape, other)];
            args.push(("axes", ArgValue::Ints(some_negative(&axes, shape.len(), choices))));
            optional_arg(&mut args, "scale", factor, choices);
        }
        other => unreachable!("{other} has no generator"),
    }
    Request { operator: signature.operator, inputs, args }
}

const FACTORS: [&str; 4] = ["up_x", "up_y", "down_x", "down_y"];
const PADS: [&str; 4] = ["pad_x0", "pad_x1", "pad_y0", "pad_y1"];

fn upfirdn2d(
    signature: &'static Signature,
    limit: usize,
    dtype: DType,
    kernel_dtype: DType,
    choices: &mut Choices<'_>,
) -> Request {
    // Twelve taps have loops of their own, thirteen have not.
    let taps = |choices: &mut Choices<'_>| match choices.one_in(8) {
        true => choices.pick(&[12, 12, 13]),
        false => 1 + choices.below(8),
    };
    let taps = [taps(choices), taps(choices)];
    let is_large = limit == LARGE;
    let mut x: Vec<usize> = match choices.below(4) {
        0 => vec![],
        1 => vec![choices.below(4)],
        _ if is_large => vec![3],
        2 => vec![1 + choices.below(2), 1 + choices.below(4)],
        // Pixels of whole lines have loops of their own.
        _ => vec![1, choices.pick(&[3, 8, 9, 16, 17, 32])],
    };
    let side = |choices: &mut Choices<'_>| match limit {
        0..=40 => choices.below(9),
        41..=600 => choices.below(24),
        LARGE => 150 + choices.below(150),
        _ => choices.below(70),
    };
    x.extend([side(choices), side(choices)]);
    // Large outputs grow no larger: their definition takes its time.
    let factors: &[i64] = if is_large { &[1, 2, 2] } else { &[1, 2, 2, 3, 4, 5] };
    let mut args = Vec::new();
    for name in FACTORS {
        if choices.one_in(2) {
            args.push((name, ArgValue::Int(choices.pick(factors))));
        }
    }
    for name in PADS {
        if !choices.one_in(4) {
            let number = choices.below(9) as i64;
            args.push((name, ArgValue::Int(if choices.one_in(6) { -number } else { number })));
        }
    }
    if choices.one_in(2) {
        args.push(("flip_kernel", ArgValue::Bool(choices.one_in(2))));
    }
    if choices.one_in(2) {
        args.push(("gain", ArgValue::Float(choices.pick(&[1.0, 4.0, -0.5, 0.0, 1.7]))));
    }
    if choices.one_in(2) {
        let name = choices.pick(&[
            "constant",
            "edge",
            "reflect",
            "symmetric",
            "wrap",
            "edge",
            "reflect",
            "symmetric",
            "wrap",
            "replicate",
            "circular",
            "zeros",
        ]);
        args.push(("border", ArgValue::String(name.into())));
    }
    let mut request = Request { operator: signature.operator, inputs: Vec::new(), args };
    let plan = Plan::read(&request).expect("these arguments are in range");
    let y = plan.output(&x, &taps).unwrap_or_else(|_| x.clone());
    let (x, y, k) = (Array::new(&x, dtype), Array::new(&y, dtype), Array::new(&taps, kernel_dtype));
    request.inputs = match signature.operator {
        "UpFirDn2d" => vec![Some(x), Some(k)],
        "UpFirDn2dGradient" => vec![Some(y), Some(k), Some(x)],
        _ => vec![Some(x), Some(y), Some(k)],
    };
    request
}

fn optional_arg(
    args: &mut Vec<(&'static str, ArgValue)>,
    name: &'static str,
    value: impl Fn(&mut Choices<'_>) -> ArgValue,
    choices: &mut Choices<'_>,
) {
    if !choices.one_in(4) {
        let value = value(choices);
        args.push((name, value));
    }
}

/// A slope or a scale: usual ones, awkward ones, ones that leave float32.
fn slope(choices: &mut Choices<'_>) -> ArgValue {
    match choices.below(12) {
        0 => ArgValue::Int(choices.below(5) as i64 - 2),
        1 => ArgValue::Float(choices.pick(&[1e-40, -1e-300, 1e300, 3.4e38, 65504.0, -0.0, 1e-8])),
        2 => ArgValue::Float(0.0),
        _ => ArgValue::Float(choices.between(-2.0, 2.0)),
    }
}

fn factor(choices: &mut Choices<'_>) -> ArgValue {
    ArgValue::Float(choices.pick(&[1.0, 0.5, -2.0, 0.0, 1.0 / 3.0, 100.0]))
}

/// Some dimensions become one, or are left out at the front.
fn repeat_somewhere(shape: &mut Vec<usize>, choices: &mut Choices<'_>) {
    for n in shape.iter_mut() {
        if choices.one_in(3) {
            *n = 1;
        }
    }
    if !shape.is_empty() && choices.one_in(3) {
        shape.drain(..choices.below(shape.len() + 1));
    }
}

fn some_axes(rank: usize, choices: &mut Choices<'_>) -> Vec<i64> {
    let mut axes: Vec<i64> = (0..rank as i64).filter(|_| choices.one_in(3)).collect();
    if choices.one_in(2) {
        axes.reverse();
    }
    axes
}

fn some_negative(axes: &[i64], rank: usize, choices: &mut Choices<'_>) -> Vec<i64> {
    axes.iter().map(|&axis| if choices.one_in(2) { axis - rank as i64 } else { axis }).collect()
}

/// Changes one thing, so that most requests no longer fit.
fn change(request: &mut Request, choices: &mut Choices<'_>) {
    let place = choices.below(request.inputs.len().max(1));
    match (choices.below(7), request.inputs.get_mut(place)) {
        (0, Some(Some(input))) if !input.shape.is_empty() && input.elements() <= SMALL => {
            let d = choices.below(input.shape.len());
            input.shape[d] = choices.pick(&[0, 1, 2, input.shape[d] + 1]);
        }
        (1, Some(Some(input))) if input.shape.len() > 1 && choices.one_in(2) => {
            input.shape.pop();
        }
        // A long row against a column of the same length would be an output that no memory holds.
        (1, Some(Some(input))) if input.elements() <= 1000 => input.shape.push(1),
        (2, Some(Some(input))) => input.dtype = choices.pick(&DType::ALL),
        (3, Some(input)) => *input = None,
        (4, _) => request.inputs.push(Some(Array::new(&[2], DType::Float32))),
        (5, _) if !request.args.is_empty() => {
            let place = choices.below(request.args.len());
            let value = wild_value(choices);
            // A padding that could be computed would fill the memory.
            let is_large = matches!(value, ArgValue::Int(number) if number == 1 << 54);
            if !(is_large && request.args[place].0.contains("pad_")) {
                request.args[place].1 = value;
            }
        }
        (6, _) => {
            let value = wild_value(choices);
            let name = choices.pick(&["alpha", "axes", "slope", "scale", "axis", "keepdims", ""]);
            if request.args.iter().all(|(given, _)| *given != name) {
                request.args.push((name, value));
            }
        }
        _ => {}
    }
}

fn wild_value(choices: &mut Choices<'_>) -> ArgValue {
    match choices.below(7) {
        0 => ArgValue::Float(choices.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY])),
        1 => ArgValue::Int(choices.pick(&[i64::MAX, i64::MIN, -1, 0, 1, 7, 1 << 54])),
        2 => ArgValue::String("1".into()),
        3 => ArgValue::Ints(vec![0; choices.below(3)]),
        4 => ArgValue::Floats(vec![0.5; choices.below(3)]),
        5 => ArgValue::Bool(choices.one_in(2)),
        _ => ArgValue::Float(choices.between(-1.0, 1.0)),
    }
}

const SPECIAL: [f64; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1e-310,
    -1e-45,
    6e-8,
    65504.0,
    -65520.0,
    3.4e38,
    -1.7e308,
];

/// Fills an operand of UpFirDn2d: mostly numbers whose products stay far from every limit, infinities and
/// NaNs, and for a kernel (of two dimensions) often an outer product; sometimes any numbers.
pub fn fill_filter(placed: &Placed, choices: &mut Choices<'_>) {
    if choices.one_in(6) { fill(placed, choices) } else { fill_gently(placed, choices) }
}

/// As [`fill_filter`], without the last.
pub fn fill_gently(placed: &Placed, choices: &mut Choices<'_>) {
    let manner = choices.below(8);
    let columns = placed.parts.shape().last().map_or(1, |&n| n.max(1));
    let outer: Vec<f64> = (0..32).map(|_| choices.below(9) as f64 / 4.0 - 1.0).collect();
    for index in 0..placed.offsets.len() {
        placed.write(
            index,
            match manner {
                0 if choices.one_in(5) => choices.pick(&[0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]),
                1 | 2 => outer[index / columns % 16] * outer[16 + index % columns % 16],
                3 => choices.below(3) as f64 - 1.0,
                _ => choices.between(-4.0, 4.0),
            },
        );
    }
}

/// Fills a tensor: ordinary numbers, with special ones among them, any bits, or one value.
pub fn fill(placed: &Placed, choices: &mut Choices<'_>) {
    let manner = choices.below(8);
    let one = choices.between(-2.0, 2.0);
    for index in 0..placed.offsets.len() {
        match manner {
            0 => {
                placed.write(index, if choices.one_in(3) { choices.pick(&SPECIAL) } else { choices.between(-9.0, 9.0) })
            }
            1 => placed.write_bits(index, choices.bits()),
            2 => placed.write(index, one),
            3 => placed.write(index, choices.below(5) as f64 - 2.0),
            _ => placed.write(index, choices.between(-4.0, 4.0)),
        }
    }
}
