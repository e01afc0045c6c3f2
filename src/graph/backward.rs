//! Forward definitions in, backward definitions out.
//!
//! A blob that is written twice has versions; gradients belong to versions, and backward definitions
//! may read a blob only where its last version is the one they mean.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::core::definition::OperatorDef;
use crate::core::error::{Error, Result};
use crate::core::names;
use crate::graph::context;
use crate::graph::net::{step_name, step_with_blobs};
use crate::graph::plan::{Plan, Ref, Use, plan};
use crate::graph::workspace::check_in_place;
use crate::registry;

/// The backward half of a net.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Backward {
    /// What to run after the net, in order.
    pub operators: Vec<OperatorDef>,
    /// For each blob that has one, the blob that then holds its gradient: with respect to the value it
    /// had before the net for blobs that the net is fed, else to the last value.
    pub gradients: BTreeMap<String, String>,
}

/// The definitions that compute gradients of a net's blobs, given the blobs that hold the gradients of
/// its outputs. `wanted` limits them to what those blobs need; `None` stands for all.
///
/// Blobs that the net is fed get `<name>_grad`, unless that name is taken.
pub fn add_gradient_operators(
    net: &[OperatorDef],
    output_gradients: &BTreeMap<String, String>,
    wanted: Option<&[String]>,
) -> Result<Backward> {
    let versions = Versions::of(net)?;
    let mut builder = Builder::new(net, &versions, wanted)?;
    for (blob, gradient) in output_gradients {
        if gradient.is_empty() {
            return Err(Error::argument(
                "add_gradient_operators",
                blob,
                "\"\"",
                "the name of a blob with its gradient",
            ));
        }
        let last = versions.last(blob).ok_or_else(|| unknown(blob, &versions))?;
        builder.contributions.entry((blob, last)).or_default().push(Name::Given(gradient.clone()));
        builder.taken.0.insert(gradient.clone(), 0);
    }
    for index in (0..net.len()).rev() {
        builder.step(index)?;
    }
    builder.finish()
}

#[cold]
fn unknown(blob: &str, versions: &Versions<'_>) -> Error {
    let nearest = names::nearest(blob, versions.writes.keys().copied());
    let takes = format!("a blob of the net{}", names::hint(&nearest));
    Error::argument("add_gradient_operators", blob, "an unknown blob", takes)
}

/// One value that a blob has had: its name and how often it was written before.
type Value<'a> = (&'a str, usize);

/// Who wrote a version of a blob.
#[derive(Clone, Copy)]
struct Write {
    step: usize,
    /// Whether it took the place of the version before, and so has its shape.
    in_place: bool,
}

/// The versions of every blob of a net.
struct Versions<'a> {
    writes: HashMap<&'a str, Vec<Write>>,
    reads: Vec<Vec<usize>>,
    written: Vec<Vec<usize>>,
    /// Blobs that are read before any step writes them.
    fed: HashSet<&'a str>,
}

impl<'a> Versions<'a> {
    fn of(net: &'a [OperatorDef]) -> Result<Self> {
        let mut versions =
            Versions { writes: HashMap::new(), reads: Vec::new(), written: Vec::new(), fed: HashSet::new() };
        for (step, def) in net.iter().enumerate() {
            let operator = registry::find(&def.operator)?;
            registry::check_names(&operator.schema, def)
                .and_then(|()| check_in_place(&operator, def))
                .map_err(|error| error.at(&def.operator, &step_with_blobs(step, def)))?;
            let mut reads = Vec::with_capacity(def.inputs.len());
            for name in &def.inputs {
                let version = versions.writes.entry(name).or_default().len();
                if version == 0 && !name.is_empty() {
                    versions.fed.insert(name);
                }
                reads.push(version);
            }
            let mut written = Vec::with_capacity(def.outputs.len());
            for (place, name) in def.outputs.iter().enumerate() {
                let same = |(index, input): (usize, &String)| {
                    input == name && operator.schema.inplace.contains(&(index, place))
                };
                let in_place = def.inputs.iter().enumerate().any(same);
                let writes = versions.writes.entry(name).or_default();
                writes.push(Write { step, in_place });
                written.push(writes.len());
            }
            versions.reads.push(reads);
            versions.written.push(written);
        }
        versions.writes.remove("");
        Ok(versions)
    }

    /// The last version of a blob of the net.
    fn last(&self, blob: &str) -> Option<usize> {
        self.writes.get(blob).map(Vec::len)
    }

    /// The version that `<name>_grad` speaks of.
    fn principal(&self, blob: &str) -> usize {
        if self.fed.contains(blob) { 0 } else { self.last(blob).unwrap_or(0) }
    }

    /// Who has overwritten a version, so far that it no longer serves this use.
    fn overwritten(&self, (blob, version): Value<'_>, used: Use) -> Option<usize> {
        let since = &self.writes[blob][version..];
        since.iter().find(|write| used == Use::Values || !write.in_place).map(|write| write.step)
    }
}

/// A blob of the backward definitions before it has a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Name {
    Given(String),
    Made(usize),
}

/// `None` stands for an omitted input or an unneeded output.
type Names = Vec<Option<Name>>;

struct Builder<'a> {
    net: &'a [OperatorDef],
    versions: &'a Versions<'a>,
    /// The values that need a gradient; `None` stands for all.
    required: Option<HashSet<Value<'a>>>,
    contributions: HashMap<Value<'a>, Vec<Name>>,
    totals: HashMap<Value<'a>, Name>,
    /// Definitions without blobs, their inputs and their outputs.
    operators: Vec<(OperatorDef, Names, Names)>,
    /// For each made blob the name that it would like.
    likes: Vec<String>,
    /// Gradients that must be like a blob, and the step after which they are there.
    checks: Vec<(usize, Name, String)>,
    taken: Taken,
}

impl<'a> Builder<'a> {
    fn new(net: &'a [OperatorDef], versions: &'a Versions<'a>, wanted: Option<&'a [String]>) -> Result<Self> {
        let required = match wanted {
            None => None,
            Some(wanted) => {
                let mut required: HashSet<Value<'a>> = HashSet::new();
                for blob in wanted {
                    versions.last(blob).ok_or_else(|| unknown(blob, versions))?;
                    required.insert((blob, versions.principal(blob)));
                }
                for (step, def) in net.iter().enumerate() {
                    let schema = &registry::find(&def.operator)?.schema;
                    let reads = def.inputs.iter().zip(&versions.reads[step]).enumerate();
                    let depends = reads
                        .filter(|(index, _)| !schema.input_spec(*index).shape_only)
                        .any(|(_, (name, &version))| required.contains(&(name.as_str(), version)));
                    if depends {
                        let outputs = def.outputs.iter().zip(&versions.written[step]);
                        required.extend(outputs.map(|(name, &version)| (name.as_str(), version)));
                    }
                }
                Some(required)
            }
        };
        Ok(Builder {
            net,
            versions,
            required,
            contributions: HashMap::new(),
            totals: HashMap::new(),
            operators: Vec::new(),
            likes: Vec::new(),
            checks: Vec::new(),
            taken: Taken(versions.writes.keys().map(|name| (name.to_string(), 0)).collect()),
        })
    }

    fn requires(&self, value: Value<'a>) -> bool {
        !value.0.is_empty() && self.required.as_ref().is_none_or(|required| required.contains(&value))
    }

    fn make(&mut self, like: String) -> Name {
        self.likes.push(like);
        Name::Made(self.likes.len() - 1)
    }

    /// The whole gradient of a value, summed where it is used more than once.
    fn total(&mut self, value: Value<'a>) -> Option<Name> {
        if let Some(total) = self.totals.get(&value) {
            return Some(total.clone());
        }
        let parts = self.contributions.remove(&value)?;
        let total = match parts.as_slice() {
            [one] => one.clone(),
            _ => self.sum(parts, value.0),
        };
        self.totals.insert(value, total.clone());
        Some(total)
    }

    fn sum(&mut self, parts: Vec<Name>, blob: &str) -> Name {
        let total = self.make(format!("{blob}_grad"));
        let inputs = parts.into_iter().map(Some).collect();
        self.operators.push((OperatorDef::new("Sum", &[], &[]), inputs, vec![Some(total.clone())]));
        total
    }

    /// Adds the gradient of one step.
    fn step(&mut self, index: usize) -> Result<()> {
        let (net, versions) = (self.net, self.versions);
        let def = &net[index];
        let reads: Vec<Value<'a>> =
            def.inputs.iter().map(String::as_str).zip(versions.reads[index].iter().copied()).collect();
        let written: Vec<Value<'a>> =
            def.outputs.iter().map(String::as_str).zip(versions.written[index].iter().copied()).collect();
        let gradients: Vec<Option<Name>> = written.iter().map(|&value| self.total(value)).collect();
        let wanted: Vec<bool> = reads.iter().map(|&value| self.requires(value)).collect();
        if !wanted.contains(&true) || gradients.iter().all(Option::is_none) {
            return Ok(());
        }
        let present: Vec<bool> = gradients.iter().map(Option::is_some).collect();
        let plan = plan(def, &present, &wanted, context::overridden(&def.operator).as_ref())
            .map_err(|error| error.at(&def.operator, &step_with_blobs(index, def)))?;
        self.check_overwritten(index, &plan, &reads, &written)?;

        let mut made: HashMap<usize, Name> = HashMap::new();
        for (place, &(blob, _)) in plan.input_gradients.iter().zip(&reads) {
            if let Some(Ref::Made(number)) = place
                && !made.contains_key(number)
            {
                made.insert(*number, self.make(format!("{blob}_grad")));
            }
        }
        let resolve = |place: &Ref, made: &HashMap<usize, Name>| match *place {
            Ref::Input(input) => Name::Given(def.inputs[input].clone()),
            Ref::Output(output) => Name::Given(def.outputs[output].clone()),
            Ref::OutputGradient(output) => gradients[output].clone().expect("present where the plan uses it"),
            Ref::Made(number) => made[&number].clone(),
        };
        for step in &plan.steps {
            let inputs = step.inputs.iter().map(|place| place.as_ref().map(|place| resolve(place, &made))).collect();
            let mut outputs = Vec::with_capacity(step.outputs.len());
            for output in &step.outputs {
                outputs.push(output.map(|number| match made.get(&number) {
                    Some(name) => name.clone(),
                    None => {
                        let name = self.make(format!("{}_backward", written[0].0));
                        made.insert(number, name.clone());
                        name
                    }
                }));
            }
            let mut bare = step.def.derive(&step.def.operator, &[], &[]);
            bare.name = step.def.name.clone();
            self.operators.push((bare, inputs, outputs));
        }
        // Makers of ours give gradients of the right shape; a user's may not, and only a run can tell.
        let by_user = context::overridden(&def.operator).is_some() || !registry::is_built_in(&def.operator);
        for (place, &value) in plan.input_gradients.iter().zip(&reads) {
            if let Some(place) = place {
                let name = resolve(place, &made);
                if by_user && self.versions.overwritten(value, Use::Shape).is_none() {
                    self.checks.push((self.operators.len().saturating_sub(1), name.clone(), value.0.to_string()));
                }
                self.contributions.entry(value).or_default().push(name);
            }
        }
        Ok(())
    }

    fn check_overwritten(&self, index: usize, plan: &Plan, reads: &[Value<'a>], written: &[Value<'a>]) -> Result<()> {
        for (place, used) in plan.uses() {
            let value = match place {
                Ref::Input(input) => reads[input],
                Ref::Output(output) => written[output],
                _ => continue,
            };
            if let Some(step) = self.versions.overwritten(value, used) {
                let by = step_name(step, &self.net[step]);
                let got = format!("the blob {:?}, overwritten since by {by}", value.0);
                let takes = "the value it had here: write to another blob";
                return Err(Error::argument(step_name(index, &self.net[index]), "gradient", got, takes));
            }
        }
        Ok(())
    }

    /// Sums what reached the values that no step wrote, and gives names to everything.
    fn finish(mut self) -> Result<Backward> {
        let mut rest: Vec<Value<'a>> = self.contributions.keys().copied().collect();
        rest.sort_unstable();
        for value in rest {
            self.total(value);
        }
        let mut totals: Vec<(Value<'a>, Name)> = self.totals.drain().collect();
        // Principal versions first, so that they get the plain names.
        totals.sort_by_key(|&((blob, version), _)| (version != self.versions.principal(blob), blob, version));
        let mut named: HashMap<usize, String> = HashMap::new();
        let mut gradients = BTreeMap::new();
        for ((blob, version), mut total) in totals {
            let principal = version == self.versions.principal(blob);
            let like = if principal { format!("{blob}_grad") } else { format!("{blob}_grad_v{version}") };
            let alias = match &total {
                Name::Given(name) => *name != like,
                Name::Made(number) => named.contains_key(number),
            };
            let wanted = self.required.is_none() || self.requires((blob, version));
            // A fed blob's gradient is found under its own name even where it equals another's.
            if alias && principal && wanted && self.versions.fed.contains(blob) {
                total = self.sum(vec![total], blob);
            }
            let name = match total {
                Name::Given(name) => name,
                Name::Made(number) => named.entry(number).or_insert_with(|| self.taken.fresh(like)).clone(),
            };
            if principal {
                gradients.insert(blob.to_string(), name);
            }
        }
        for (number, like) in self.likes.into_iter().enumerate() {
            named.entry(number).or_insert_with(|| self.taken.fresh(like));
        }
        let text = |name: Option<Name>| match name {
            None => String::new(),
            Some(Name::Given(name)) => name,
            Some(Name::Made(number)) => named[&number].clone(),
        };
        let operators = self.operators.into_iter().map(|(bare, inputs, outputs)| OperatorDef {
            inputs: inputs.into_iter().map(&text).collect(),
            outputs: outputs.into_iter().map(&text).collect(),
            ..bare
        });
        let mut operators: Vec<OperatorDef> = operators.collect();
        for (step, gradient, blob) in self.checks {
            if let Some(step) = operators.get_mut(step) {
                step.like.insert(text(Some(gradient)), blob);
            }
        }
        Ok(Backward { operators, gradients })
    }
}

/// The names that are in use, and how often each was asked for again.
struct Taken(HashMap<String, usize>);

impl Taken {
    /// A name that nothing else has.
    fn fresh(&mut self, like: String) -> String {
        let Some(asked) = self.0.get_mut(&like) else {
            self.0.insert(like.clone(), 0);
            return like;
        };
        let start = *asked + 1;
        let number = (start..).find(|number| !self.0.contains_key(&format!("{like}_{number}")));
        let number = number.expect("there are more numbers than names");
        let name = format!("{like}_{number}");
        self.0.insert(like, number);
        self.0.insert(name.clone(), 0);
        name
    }
}
