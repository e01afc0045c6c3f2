//! One case: a request with memory, called at every level, compared with the reference.

use std::panic::{AssertUnwindSafe, catch_unwind};

use firelu::{Error, TensorType, registry};
use firelu_test_support::levels::every_level;

pub use crate::calls::call;
use crate::calls::{describe, magnitude, same_numbers};
use crate::choices::Choices;
use crate::memory::{Memory, Placed, Use};
use crate::outcome::Outcome;
use crate::reference::{Expected, expect};
use crate::signatures::{Request, Signature, signature_of};
use crate::{derivatives, examples, generate, modes, sharing};

/// Runs one case; the error says what was wrong.
pub fn run(choices: &mut Choices<'_>, memory: &mut Memory) -> Result<Outcome, String> {
    memory.reset();
    let case = AssertUnwindSafe(|| match choices.below(32) {
        0..4 => derivatives::run(choices),
        4 => sizes(choices),
        5 if choices.one_in(4) => modes::run(choices, memory),
        6 if choices.one_in(32) => sharing::run(choices),
        7 => examples::run(choices, memory),
        _ => values(choices, memory),
    });
    catch_unwind(case).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("unknown")))
    })
}

/// Shapes of any size, of which nothing is computed: an answer or a refusal.
fn sizes(choices: &mut Choices<'_>) -> Result<Outcome, String> {
    let mut request = generate::request(choices);
    for input in request.inputs.iter_mut().flatten() {
        for n in &mut input.shape {
            if choices.one_in(2) {
                *n = choices.pick(&[0, 1, 1 << 20, 1 << 31, 1 << 40, usize::MAX, isize::MAX as usize]);
            }
        }
    }
    let operator = registry::find(request.operator).map_err(|error| error.to_string())?;
    let types: Vec<Option<TensorType>> = request
        .inputs
        .iter()
        .map(|input| input.as_ref().map(|input| TensorType::new(input.shape.clone(), input.dtype)))
        .collect();
    let types: Vec<Option<&TensorType>> = types.iter().map(Option::as_ref).collect();
    let named = request.args.iter().map(|(name, value)| (*name, value.clone()));
    let inferred = operator.schema.resolve_args(named).and_then(|args| {
        let outputs = operator.schema.infer(&types, &args)?;
        operator.schema.cost(&types, &args)?;
        Ok(outputs)
    });
    match inferred {
        Ok(outputs) if outputs.iter().any(|output| output.shape.checked_elements(output.dtype).is_none()) => {
            Err(format!("{request:?}: an output too large for memory was promised: {outputs:?}"))
        }
        Ok(_) => Ok(Outcome::Computed(request.operator)),
        Err(error) => named_by(&error, request.operator).map(|()| Outcome::Refused(request.operator)),
    }
}

fn named_by(error: &Error, operator: &str) -> Result<(), String> {
    let text = error.to_string();
    if text.starts_with(operator) { Ok(()) } else { Err(format!("a refusal does not name {operator}: {text}")) }
}

/// Where outputs go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Targets {
    /// Memory of their own.
    Own,
    /// The first output is an input's memory.
    InPlace(usize),
    /// The first output shares part of an input's memory.
    Shifted(usize),
}

fn values(choices: &mut Choices<'_>, memory: &mut Memory) -> Result<Outcome, String> {
    let mut request = generate::request(choices);
    let signature = signature_of(&request);
    let mut inputs: Vec<Option<Placed>> = Vec::with_capacity(request.inputs.len());
    for input in &mut request.inputs {
        let Some(array) = input else {
            inputs.push(None);
            continue;
        };
        let placed = memory.place(&array.shape, array.dtype, Use::Read, choices);
        let is_filter = signature.operator.starts_with("UpFirDn2d") || signature.operator.starts_with("FilteredAct");
        match is_filter {
            true => generate::fill_filter(&placed, choices),
            false => generate::fill(&placed, choices),
        }
        array.values = placed.values();
        inputs.push(Some(placed));
    }
    let expected = expect(&request);
    let named = request.args.iter().map(|(name, value)| (*name, value.clone()));
    let Ok(expected) = expected else {
        return match call(request.operator, named, &inputs, &[], 1) {
            Ok(()) => Err(format!("taken but wrong: {}", describe(&request))),
            Err(error) => named_by(&error, request.operator).map(|()| Outcome::Refused(request.operator)),
        };
    };
    let targets = targets(signature, &expected, &inputs, choices);
    let threads = choices.pick(&[1, 2, 3, 8]);
    let mut first: Option<Vec<Vec<u64>>> = None;
    for level in every_level() {
        let outputs = place_outputs(targets, &expected, &inputs, memory, choices);
        let bits = match one_level(&request, targets, &expected, &inputs, &outputs, threads) {
            Ok(Some(bits)) => bits,
            Ok(None) => return Ok(Outcome::Refused(request.operator)),
            Err(wrong) => {
                return Err(format!(
                    "{wrong}\n  level {level}, {threads} threads, {targets:?}, {}",
                    describe(&request)
                ));
            }
        };
        let differs = first.as_ref().is_some_and(|first| !same_numbers(first, &bits, &expected));
        if signature.same_bits && differs {
            return Err(format!("levels differ: {}", describe(&request)));
        }
        if targets == Targets::Own && choices.one_in(4) {
            let inputs = if signature.any_layout { elsewhere(&inputs, memory, choices) } else { inputs.clone() };
            let outputs = place_outputs(targets, &expected, &inputs, memory, choices);
            let others = choices.pick(&[1, 2, 3, 8]);
            let again = one_level(&request, targets, &expected, &inputs, &outputs, others)?;
            let same = if signature.same_bits { same_numbers } else { same_but_for_zeros };
            let decided = |outputs: &[Vec<u64>]| leave_out_undecided(outputs, &expected);
            if again.as_ref().is_none_or(|again| !same(&decided(&bits), &decided(again), &expected)) {
                let pairs = again.iter().flatten().flatten().zip(bits.iter().flatten());
                let first = pairs.enumerate().find(|(_, (again, bits))| again != bits);
                let threads = format!("{threads} and {others} threads, the first bits at {first:x?}");
                return Err(format!("layouts or threads differ: level {level}, {threads}, {}", describe(&request)));
            }
        }
        first.get_or_insert(bits);
    }
    Ok(Outcome::Computed(request.operator))
}

/// The same numbers in other layouts and places.
fn elsewhere(inputs: &[Option<Placed>], memory: &mut Memory, choices: &mut Choices<'_>) -> Vec<Option<Placed>> {
    let mut copy = |input: &Placed| {
        let copy = memory.place(input.parts.shape(), input.parts.dtype(), Use::Write, choices);
        (0..input.offsets.len()).for_each(|index| copy.write_bits(index, input.read_bits(index)));
        copy
    };
    inputs.iter().map(|input| input.as_ref().map(&mut copy)).collect()
}

/// Chooses where outputs go; only where the outcome is certain.
fn targets(
    signature: &Signature,
    expected: &[Expected],
    inputs: &[Option<Placed>],
    choices: &mut Choices<'_>,
) -> Targets {
    let fits = |place: usize| {
        let Some(input) = inputs.get(place).and_then(Option::as_ref) else { return false };
        input.parts.shape()[..] == expected[0].shape && input.parts.dtype() == expected[0].dtype
    };
    if choices.one_in(8)
        && let Some(&(input, _)) = signature.inplace.first()
        && fits(input)
    {
        return Targets::InPlace(input);
    }
    let dense = |placed: &Placed| placed.parts.is_row_major() && placed.offsets.len() > 1;
    if choices.one_in(32) && fits(0) && inputs[0].as_ref().is_some_and(dense) && !shape_only(signature, 0) {
        return Targets::Shifted(0);
    }
    Targets::Own
}

fn shape_only(signature: &Signature, place: usize) -> bool {
    matches!((signature.operator, place), ("UpFirDn2dGradient", 2) | ("UpFirDn2dKernelGradient", 2))
}

fn place_outputs(
    targets: Targets,
    expected: &[Expected],
    inputs: &[Option<Placed>],
    memory: &mut Memory,
    choices: &mut Choices<'_>,
) -> Vec<Placed> {
    let mut outputs: Vec<Placed> =
        expected.iter().map(|output| memory.place(&output.shape, output.dtype, Use::Write, choices)).collect();
    let of = |place: usize| inputs[place].as_ref().expect("chosen among the given");
    match targets {
        Targets::Own => {}
        // Every level starts from the input's own values: the output is a copy of it in its place.
        Targets::InPlace(place) => outputs[0] = of(place).clone(),
        Targets::Shifted(place) => {
            let mut shifted = of(place).clone();
            // Inwards from the guard page, whichever side it is on.
            let size = shifted.parts.dtype().size() as isize;
            shifted.parts.kind.shape = expected[0].shape.as_slice().into();
            shifted.parts.pointer = shifted.parts.pointer.wrapping_offset(size);
            outputs[0] = shifted;
        }
    }
    outputs
}

/// The outputs' bits; `None` where outputs that share memory were refused, as they must be.
fn one_level(
    request: &Request,
    targets: Targets,
    expected: &[Expected],
    inputs: &[Option<Placed>],
    outputs: &[Placed],
    threads: usize,
) -> Result<Option<Vec<Vec<u64>>>, String> {
    let read = |placed: &Placed| (0..placed.offsets.len()).map(|i| placed.read_bits(i)).collect::<Vec<u64>>();
    let before: Vec<Option<Vec<u8>>> = inputs.iter().map(|input| input.as_ref().map(Placed::snapshot)).collect();
    let unwritten = if matches!(targets, Targets::Shifted(_)) { &outputs[1..] } else { outputs };
    let outside: Vec<(Vec<u8>, Vec<u64>)> = unwritten.iter().map(|output| (output.snapshot(), read(output))).collect();
    let named = request.args.iter().map(|(name, value)| (*name, value.clone()));
    let result = call(request.operator, named, inputs, outputs, threads);
    let must_refuse = match targets {
        Targets::Own => false,
        Targets::InPlace(_) => outputs[0].shares_memory(),
        Targets::Shifted(_) => true,
    };
    if let Err(error) = &result {
        named_by(error, request.operator)?;
    }
    let changed = || {
        inputs.iter().zip(&before).any(|(input, before)| match (input, before) {
            (Some(input), Some(before)) => input.differs_from(before),
            _ => false,
        })
    };
    match (result, must_refuse) {
        (Ok(()), true) => return Err("outputs that share memory were taken".into()),
        // Two numbers may be judged to share memory by their layout alone.
        (Err(Error::Argument(_)), _) if matches!(targets, Targets::InPlace(_)) => {
            return if changed() { Err("a refused call has written".into()) } else { Ok(None) };
        }
        (Err(_), true) => {
            return if changed() { Err("a refused call has written".into()) } else { Ok(None) };
        }
        (Err(error), false) => return Err(format!("refused but right: {error}")),
        (Ok(()), false) => {}
    }
    let bits: Vec<Vec<u64>> = outputs.iter().map(read).collect();
    for (place, (output, expected)) in outputs.iter().zip(expected).enumerate() {
        compare(&output.values(), expected).map_err(|wrong| format!("output {place}: {wrong}"))?;
    }
    for (output, (snapshot, old)) in unwritten.iter().zip(&outside) {
        output.restore_elements(old);
        if output.differs_from(snapshot) {
            return Err("memory between the output's elements was written".into());
        }
    }
    // In place the input is the output, whose elements are back.
    if changed() { Err("an input was written".into()) } else { Ok(Some(bits)) }
}

fn compare(got: &[f64], expected: &Expected) -> Result<(), String> {
    for (index, (&got, &value)) in got.iter().zip(&expected.values).enumerate() {
        let bound = expected.bounds.get(index);
        let right = match bound {
            None => got.to_bits() == value.to_bits() || (got.is_nan() && value.is_nan()),
            Some(bound) => bound.allows(got, value, expected.dtype),
        };
        if !right {
            let within = bound.map_or("exactly".into(), |bound| format!("within {bound:?}"));
            return Err(format!("element {index} of {:?} is {got:e}, not {value:e} {within}", expected.shape));
        }
    }
    Ok(())
}

/// The bits without those of results that may be NaN beside their value: the layout may decide which.
fn leave_out_undecided(outputs: &[Vec<u64>], expected: &[Expected]) -> Vec<Vec<u64>> {
    let output = |(bits, expected): (&Vec<u64>, &Expected)| {
        let may_be_nan = |place: usize| expected.bounds.get(place).is_some_and(|bound| bound.nan);
        bits.iter().enumerate().map(|(place, &bits)| if may_be_nan(place) { 0 } else { bits }).collect()
    };
    outputs.iter().zip(expected).map(output).collect()
}

/// As [`same_numbers`], but also for the sign of a zero.
fn same_but_for_zeros(first: &[Vec<u64>], second: &[Vec<u64>], expected: &[Expected]) -> bool {
    let positive = |outputs: &[Vec<u64>]| -> Vec<Vec<u64>> {
        let zero = |bits: u64, expected: &Expected| if magnitude(bits, expected.dtype) == 0 { 0 } else { bits };
        let output =
            |(output, expected): (&Vec<u64>, &Expected)| output.iter().map(|&bits| zero(bits, expected)).collect();
        outputs.iter().zip(expected).map(output).collect()
    };
    same_numbers(&positive(first), &positive(second), expected)
}
