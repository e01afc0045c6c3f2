//! One operator's gradient in places instead of names, reduced to what is wanted: what nets, the tape and torch's
//! bridge make of the registry's definitions.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::core::args::Args;
use crate::core::definition::OperatorDef;
use crate::core::error::{Error, Result};
use crate::core::gradient::Gradient;
use crate::core::operator::Operator;
use crate::registry;

/// Where a value of a backward step comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ref {
    /// An input of the forward operator.
    Input(usize),
    /// An output of the forward operator.
    Output(usize),
    /// The gradient of an output.
    OutputGradient(usize),
    /// The result of an earlier backward step.
    Made(usize),
}

/// One backward step.
#[derive(Clone)]
pub struct Step {
    /// What to run.
    pub operator: Arc<Operator>,
    /// Its checked arguments.
    pub args: Args,
    /// The definition as the maker wrote it: its names mean nothing outside the plan.
    pub def: OperatorDef,
    /// Where its inputs come from.
    pub inputs: Vec<Option<Ref>>,
    /// The numbers of its results; `None` where nobody needs one.
    pub outputs: Vec<Option<usize>>,
}

/// The backward steps of one forward definition.
#[derive(Clone)]
pub struct Plan {
    /// What to run, in order.
    pub steps: Vec<Step>,
    /// For each forward input its gradient; `None` where it is zero or not wanted.
    pub input_gradients: Vec<Option<Ref>>,
}

/// What of a value must be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Its shape and type.
    Shape,
    /// Its values too.
    Values,
}

/// The plan for a definition: `present` says which outputs have a gradient, `wanted` which inputs need
/// one, `instead` replaces the registered gradient.
///
/// Makers see names that are unique in the request, so that an operator that reads one blob twice, or
/// whose blobs are gradients themselves, is no special case. An in-place output keeps its input's name.
pub fn plan(def: &OperatorDef, present: &[bool], wanted: &[bool], instead: Option<&Gradient>) -> Result<Plan> {
    let unique = |name: &String, tag: String| if name.is_empty() { String::new() } else { format!("{name}@{tag}") };
    let mut request = def.clone();
    for (index, name) in request.inputs.iter_mut().enumerate() {
        *name = unique(name, index.to_string());
    }
    for (index, name) in request.outputs.iter_mut().enumerate() {
        let shared = def.inputs.iter().position(|input| !name.is_empty() && input == name);
        *name = match shared {
            Some(input) => request.inputs[input].clone(),
            None => unique(name, format!("out{index}")),
        };
    }
    let gradients: Vec<Option<String>> = def
        .outputs
        .iter()
        .enumerate()
        .map(|(index, name)| present[index].then(|| format!("{name}@gradient{index}")))
        .collect();
    let defs = registry::gradient_of(&request, &gradients, instead)?;

    let mut known: HashMap<String, Ref> = HashMap::new();
    let numbered = |names: &[String], place: fn(usize) -> Ref| {
        names.iter().cloned().enumerate().map(move |(index, name)| (name, place(index))).collect::<Vec<_>>()
    };
    known.extend(numbered(&request.inputs, Ref::Input));
    // What was overwritten in place is the output now.
    known.extend(numbered(&request.outputs, Ref::Output));
    known.extend(
        gradients.into_iter().enumerate().filter_map(|(index, name)| Some((name?, Ref::OutputGradient(index)))),
    );
    known.remove("");

    Plan::of(&def.operator, defs.operators, known, |known| {
        let wanted = defs.input_gradients.iter().zip(wanted).map(|(name, wanted)| name.as_deref().filter(|_| *wanted));
        wanted.map(|name| place_of(&def.operator, known, name)).collect()
    })
}

/// What a wanted gradient's name stands for; no name is no gradient.
fn place_of(operator: &str, known: &HashMap<String, Ref>, name: Option<&str>) -> Result<Option<Ref>> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(None) };
    known.get(name).copied().map(Some).ok_or_else(|| {
        let takes = "a blob that the gradient definitions write, or one of the operator's own";
        Error::argument(operator, "input gradients", format!("{name:?}"), takes)
    })
}

/// Reduces definitions to those that `results` depend on. `known` are the names of what is there before the first one:
/// inputs, in this order, of the plan.
pub fn reduce(operator: &str, defs: Vec<OperatorDef>, known: &[String], results: &[Option<String>]) -> Result<Plan> {
    let places = known.iter().cloned().enumerate().map(|(index, name)| (name, Ref::Input(index))).collect();
    Plan::of(operator, defs, places, |known| {
        results.iter().map(|name| place_of(operator, known, name.as_deref())).collect()
    })
}

/// Turns the names of one backward definition into places.
fn resolve(forward: &str, def: OperatorDef, known: &mut HashMap<String, Ref>, made: &mut usize) -> Result<Step> {
    let operator = registry::find(&def.operator)?;
    registry::check_names(&operator.schema, &def)?;
    let args = operator.schema.resolve_args(def.args.iter().map(|(name, value)| (name, value.clone())))?;
    let complain = |name: &str, takes: &str| {
        let argument = format!("gradient definition {}", def.operator);
        Err(Error::argument(forward, argument, format!("the blob {name:?}"), takes))
    };
    let mut inputs = Vec::with_capacity(def.inputs.len());
    for name in &def.inputs {
        inputs.push(match (name.as_str(), known.get(name)) {
            ("", _) => None,
            (_, Some(&place)) => Some(place),
            (_, None) => {
                return complain(
                    name,
                    "inputs, outputs and output gradients of the operator, or what was made of them",
                );
            }
        });
    }
    let mut outputs = Vec::with_capacity(def.outputs.len());
    for name in &def.outputs {
        if name.is_empty() {
            outputs.push(None);
            continue;
        }
        if known.insert(name.clone(), Ref::Made(*made)).is_some() {
            return complain(name, "a new name for each output: gradients are never computed in place");
        }
        outputs.push(Some(*made));
        *made += 1;
    }
    Ok(Step { operator, args, def, inputs, outputs })
}

impl Plan {
    /// The plan of definitions, with the places of what is there before the first one; `results` looks its own up.
    fn of(
        operator: &str,
        defs: Vec<OperatorDef>,
        mut known: HashMap<String, Ref>,
        results: impl FnOnce(&HashMap<String, Ref>) -> Result<Vec<Option<Ref>>>,
    ) -> Result<Plan> {
        let mut made = 0;
        let mut steps = Vec::with_capacity(defs.len());
        for step in defs {
            steps.push(resolve(operator, step, &mut known, &mut made)?);
        }
        let mut plan = Plan { steps, input_gradients: results(&known)? };
        plan.drop_unneeded();
        Ok(plan)
    }

    /// Drops steps and results that no wanted gradient depends on.
    fn drop_unneeded(&mut self) {
        let mut needed: HashSet<usize> = HashSet::new();
        let need = |place: &Option<Ref>, needed: &mut HashSet<usize>| {
            if let Some(Ref::Made(number)) = place {
                needed.insert(*number);
            }
        };
        self.input_gradients.iter().for_each(|place| need(place, &mut needed));
        for step in self.steps.iter_mut().rev() {
            for output in &mut step.outputs {
                *output = output.filter(|number| needed.contains(number));
            }
            if step.outputs.iter().any(Option::is_some) {
                step.inputs.iter().for_each(|place| need(place, &mut needed));
            }
        }
        self.steps.retain(|step| step.outputs.iter().any(Option::is_some));
    }

    /// Which inputs and outputs of the forward operator are read, and whether by more than their shape.
    pub fn uses(&self) -> BTreeMap<Ref, Use> {
        let mut uses = BTreeMap::new();
        let mut note = |place: &Option<Ref>, kept: Use| {
            if let Some(place @ (Ref::Input(_) | Ref::Output(_))) = place {
                let known = uses.entry(*place).or_insert(kept);
                *known = kept.max(*known);
            }
        };
        for step in &self.steps {
            for (index, place) in step.inputs.iter().enumerate() {
                note(place, step.use_of(index));
            }
        }
        self.input_gradients.iter().for_each(|place| note(place, Use::Values));
        uses
    }
}

impl Step {
    /// What the step looks at of an input.
    pub fn use_of(&self, input: usize) -> Use {
        if self.operator.schema.input_spec(input).shape_only { Use::Shape } else { Use::Values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::args::ArgValue;
    use crate::core::gradient::{GradientDefs, GradientRequest};

    fn instead(defs: GradientDefs) -> Gradient {
        Gradient::defined(move |_: &GradientRequest<'_>| Ok(defs.clone()))
    }

    #[test]
    fn places_follow_the_sign_rule() {
        let def = OperatorDef::new("LeakyRelu", &["X"], &["Y"]);
        let of = |alpha: f64, outputs: &str| {
            let mut def = def.clone().arg("alpha", ArgValue::Float(alpha));
            def.outputs[0] = outputs.into();
            plan(&def, &[true], &[true], None).unwrap()
        };
        assert_eq!(of(0.2, "Y").steps[0].inputs, [Some(Ref::Output(0)), Some(Ref::OutputGradient(0))]);
        assert_eq!(of(0.2, "X").steps[0].inputs, [Some(Ref::Output(0)), Some(Ref::OutputGradient(0))]);
        assert_eq!(of(-0.2, "Y").steps[0].inputs, [Some(Ref::Input(0)), Some(Ref::OutputGradient(0))]);
        assert_eq!(of(0.2, "Y").uses(), BTreeMap::from([(Ref::Output(0), Use::Values)]));
    }

    #[test]
    fn what_nobody_wants_is_dropped() {
        let def = OperatorDef::new("LeakyReluGradient", &["Y", "dY"], &["dX"]);
        let steps = |wanted: [bool; 2]| plan(&def, &[true], &wanted, None).unwrap().steps.len();
        assert_eq!((steps([true, true]), steps([true, false])), (1, 0));
    }

    #[test]
    fn makers_that_speak_of_other_blobs_or_overwrite_are_refused() {
        let def = OperatorDef::new("LeakyRelu", &["X"], &["Y"]);
        let wrong = [
            (OperatorDef::new("LeakyRelu", &["elsewhere"], &["dX"]), "dX"),
            (OperatorDef::new("LeakyRelu", &["X@0"], &["X@0"]), "X@0"),
            (OperatorDef::new("LeakyRelu", &["X@0"], &["dX"]), "nothing writes this"),
        ];
        for (step, gradient) in wrong {
            let defs = GradientDefs { operators: vec![step], input_gradients: vec![Some(gradient.into())] };
            let refused = plan(&def, &[true], &[true], Some(&instead(defs)));
            assert!(matches!(refused, Err(Error::Argument(_))), "{gradient}");
        }
    }
}
