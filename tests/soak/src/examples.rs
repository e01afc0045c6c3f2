//! The examples of every operator's schema, also of one that has no reference here: in any type and layout, between
//! unmapped pages, every number of threads gives the same bits, and nothing but the outputs is written.

use std::sync::LazyLock;

use firelu::core::example::Example;
use firelu::{DType, TensorType, registry};
use firelu_test_support::levels::every_level;

use crate::choices::Choices;
use crate::generate;
use crate::memory::{Memory, Placed, Use};
use crate::outcome::Outcome;
use crate::{calls, signatures::SIGNATURES};

/// Every operator that is built in, with its examples.
static EXAMPLES: LazyLock<Vec<(String, Vec<Example>)>> = LazyLock::new(|| {
    let of = |name: String| registry::find(&name).ok().map(|operator| (name, operator.schema.examples.clone()));
    registry::names().into_iter().filter_map(of).filter(|(_, examples)| !examples.is_empty()).collect()
});

/// Whether cases call an operator.
pub fn calls_operator(name: &str) -> bool {
    SIGNATURES.iter().any(|signature| signature.operator == name) || EXAMPLES.iter().any(|(known, _)| known == name)
}

/// One example.
pub fn run(choices: &mut Choices<'_>, memory: &mut Memory) -> Result<Outcome, String> {
    let (name, examples) = &EXAMPLES[choices.below(EXAMPLES.len())];
    let example = &examples[choices.below(examples.len())];
    let schema = &registry::find(name).map_err(|error| error.to_string())?.schema;
    let dtype = choices.pick(&DType::ALL);
    // Where every input has one shape, that may be any.
    let shape = schema.identical.then(|| generate::shape(generate::size(choices), choices));
    let mut place = |own: &Vec<usize>| {
        let placed = memory.place(shape.as_ref().unwrap_or(own), dtype, Use::Read, choices);
        generate::fill_filter(&placed, choices);
        placed
    };
    let inputs: Vec<Option<Placed>> = example.inputs.iter().map(|input| input.as_ref().map(&mut place)).collect();
    let before: Vec<Option<Vec<u64>>> = inputs.iter().map(|input| input.as_ref().map(bits)).collect();
    let kinds: Vec<Option<TensorType>> =
        inputs.iter().map(|input| input.as_ref().map(|input| input.parts.kind.clone())).collect();
    let kinds: Vec<Option<&TensorType>> = kinds.iter().map(Option::as_ref).collect();
    let inferred = schema.resolve_args(example.args.iter().cloned()).and_then(|args| schema.infer(&kinds, &args));
    let inferred = inferred.map_err(|error| format!("an example was refused: {error}"))?;
    for level in every_level() {
        // The layout may decide the sign of a zero: both calls have the same.
        let outputs: Vec<Placed> =
            inferred.iter().map(|kind| memory.place(&kind.shape, kind.dtype, Use::Write, choices)).collect();
        let mut first: Option<Vec<Vec<u64>>> = None;
        for threads in [1, choices.pick(&[2, 3, 8])] {
            calls::call(name, example.args.iter().cloned(), &inputs, &outputs, threads)
                .map_err(|error| format!("an example was refused: {error}"))?;
            let found: Vec<Vec<u64>> = outputs.iter().map(bits).collect();
            if first.as_ref().is_some_and(|first| !calls::same_bits_but_for_nans(first, &found, &inferred)) {
                return Err(format!("{name}: {example:?} of {dtype}: 1 and {threads} threads differ, level {level}"));
            }
            first.get_or_insert(found);
        }
    }
    let changed = inputs.iter().map(|input| input.as_ref().map(bits)).zip(before).any(|(now, before)| now != before);
    if changed { Err(format!("{name}: {example:?}: an input was written")) } else { Ok(Outcome::Computed(name)) }
}

fn bits(placed: &Placed) -> Vec<u64> {
    (0..placed.offsets.len()).map(|index| placed.read_bits(index)).collect()
}
