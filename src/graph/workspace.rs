//! Named blobs, and nets run on them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::core::args::Args;
use crate::core::blob::Blob;
use crate::core::definition::OperatorDef;
use crate::core::device::Device;
use crate::core::error::{Error, Result};
use crate::core::names;
use crate::core::operator::Operator;
use crate::core::tensor::Tensor;
use crate::devices;
use crate::graph::net::{step_name, step_with_blobs};
use crate::graph::plan::Use;
use crate::graph::tape::check_gradient;
use crate::operators::execute::{Reuse, execute};
use crate::registry;

/// Named tensors. A run that fails leaves every one as it was, and memory that was fed or fetched is
/// never written to.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    blobs: HashMap<String, Tensor>,
}

impl Workspace {
    /// A workspace without blobs.
    pub fn new() -> Self {
        Workspace::default()
    }

    /// Puts a tensor under a name, replacing what was there.
    pub fn feed(&mut self, name: &str, tensor: Tensor) -> Result<()> {
        if name.is_empty() {
            return Err(Error::argument("Workspace", "name", "\"\"", "a name: the empty one stands for no blob"));
        }
        self.blobs.insert(name.into(), tensor);
        Ok(())
    }

    /// As [`Workspace::feed`], from a blob.
    pub fn feed_blob(&mut self, name: &str, blob: &Blob) -> Result<()> {
        match blob.tensor() {
            Some(tensor) => self.feed(name, tensor.clone()),
            None => Err(Error::argument("Workspace", name, "an empty blob", "one that holds a tensor")),
        }
    }

    /// The tensor of a name. It shares its memory with the workspace, which never writes to it.
    pub fn fetch(&self, name: &str) -> Result<Tensor> {
        self.blobs.get(name).cloned().ok_or_else(|| unknown("Workspace", name, self.blobs.keys()))
    }

    /// The names, sorted.
    pub fn blobs(&self) -> Vec<String> {
        let mut names: Vec<String> = self.blobs.keys().cloned().collect();
        names.sort();
        names
    }

    /// Forgets a blob; whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        self.blobs.remove(name).is_some()
    }

    /// Runs a net. All of it takes effect, or nothing.
    pub fn run(&mut self, net: &[OperatorDef]) -> Result<()> {
        self.run_keeping(net, None)
    }

    /// As [`Workspace::run`]; of the blobs that the net writes, only those in `keep` stay. The others are
    /// let go after their last use, and keep no values where later steps look at their shape alone.
    pub fn run_keeping(&mut self, net: &[OperatorDef], keep: Option<&HashSet<String>>) -> Result<()> {
        let written = self.compute(net, keep)?;
        self.commit(written);
        Ok(())
    }

    /// Writes what [`Workspace::compute`] gave.
    pub fn commit(&mut self, written: HashMap<String, Tensor>) {
        self.blobs.extend(written);
    }

    /// What a run would write, without writing it.
    pub fn compute(&self, net: &[OperatorDef], keep: Option<&HashSet<String>>) -> Result<HashMap<String, Tensor>> {
        let named = |(index, def)| Step::new(def, index).map_err(|error| at(index, def, error));
        let steps = net.iter().enumerate().map(named).collect::<Result<Vec<_>>>()?;
        if let Some(keep) = keep {
            let written: HashSet<&String> = net.iter().flat_map(|def| &def.outputs).collect();
            if let Some(name) = keep.iter().find(|name| !written.contains(name)) {
                return Err(unknown("Workspace.run, keep", name, written.into_iter()));
            }
        }
        let mut run = Run { before: &self.blobs, written: HashMap::new() };
        let later = if keep.is_some() { later_uses(&steps) } else { Vec::new() };
        for (index, step) in steps.iter().enumerate() {
            run.step(step).map_err(|error| at(index, step.def, error))?;
            if let Some(keep) = keep {
                for &(name, later) in later[index].iter().filter(|(name, _)| !keep.contains(*name)) {
                    run.let_go(name, later)?;
                }
            }
        }
        Ok(run.written)
    }
}

/// An error of one step, with the step and its blobs.
#[cold]
fn at(index: usize, def: &OperatorDef, error: Error) -> Error {
    error.at(&def.operator, &step_with_blobs(index, def))
}

/// One step of a net, looked up and checked as far as names and arguments go.
struct Step<'a> {
    def: &'a OperatorDef,
    operator: Arc<Operator>,
    args: Args,
    device: Option<Device>,
    name: String,
}

impl<'a> Step<'a> {
    fn new(def: &'a OperatorDef, index: usize) -> Result<Self> {
        let operator = registry::find(&def.operator)?;
        registry::check_names(&operator.schema, def)?;
        check_in_place(&operator, def)?;
        let args = operator.schema.resolve_args(def.args.iter().map(|(name, value)| (name, value.clone())))?;
        let device = def.device.as_deref().map(str::parse).transpose()?;
        Ok(Step { def, operator, args, device, name: step_name(index, def) })
    }
}

/// Refuses outputs that share a name with each other, or with an input that cannot be overwritten.
pub(super) fn check_in_place(operator: &Operator, def: &OperatorDef) -> Result<()> {
    let schema = &operator.schema;
    for (place, name) in def.outputs.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        let output = &schema.outputs[place].name;
        if def.outputs[..place].contains(name) {
            return Err(Error::argument(&def.operator, output, format!("{name:?} again"), "a blob of its own"));
        }
        for (index, _) in def.inputs.iter().enumerate().filter(|(_, input)| *input == name) {
            let spec = schema.input_spec(index);
            // Where a blob is read at two places, one of them in place is enough: memory is then new.
            let allowed = spec.shape_only
                || def.inputs.iter().enumerate().any(|(i, n)| n == name && schema.inplace.contains(&(i, place)));
            if !allowed {
                let got = format!("{name:?}, the blob of the input {}", spec.name);
                return Err(Error::argument(&def.operator, output, got, "a blob of its own: not computed in place"));
            }
        }
    }
    Ok(())
}

/// A run under way: what it wrote so far, on top of what was there before.
struct Run<'a> {
    before: &'a HashMap<String, Tensor>,
    written: HashMap<String, Tensor>,
}

impl Run<'_> {
    fn step(&mut self, step: &Step<'_>) -> Result<()> {
        let def = step.def;
        for (index, name) in def.inputs.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let Some(tensor) = self.find(name) else {
                let place = format!("{}, input {}", step.name, step.operator.schema.input_spec(index).name);
                return Err(unknown(&place, name, self.before.keys().chain(self.written.keys())));
            };
            if let Some(device) = step.device.filter(|device| *device != tensor.device()) {
                let reason = format!("{} runs there, the blob {name:?} is on {}", step.name, tensor.device());
                return Err(Error::Device { device: device.to_string(), reason });
            }
        }
        let reuse = self.take_in_place(step);
        let inputs: Vec<Option<&Tensor>> = def.inputs.iter().map(|name| self.find(name)).collect();
        let wanted: Vec<bool> = def.outputs.iter().map(|name| !name.is_empty()).collect();
        let outputs = execute(&step.operator, &inputs, &step.args, &wanted, reuse)?;
        for (place, (name, output)) in def.outputs.iter().zip(outputs).enumerate() {
            if let Some(output) = output {
                self.check_same_type(step, place, &output)?;
                self.written.insert(name.clone(), output);
            }
        }
        for (name, like) in &def.like {
            let (Some(tensor), Some(like)) = (self.find(name), self.find(like)) else {
                return Err(unknown(&step.name, name, self.before.keys().chain(self.written.keys())));
            };
            check_gradient(&step.name, name, tensor, like.kind())?;
        }
        Ok(())
    }

    /// In place means the same shape and type, whether or not the memory was reused.
    fn check_same_type(&self, step: &Step<'_>, place: usize, output: &Tensor) -> Result<()> {
        let name = &step.def.outputs[place];
        for (index, _) in step.def.inputs.iter().enumerate().filter(|(_, input)| *input == name) {
            let pair = (index, place);
            if let Some(input) = self.find(name).filter(|_| step.operator.schema.inplace.contains(&pair))
                && input.kind() != output.kind()
            {
                let takes = format!("{}, the type of the blob that it overwrites", input.kind());
                return Err(Error::shape(&step.name, name, output.kind(), takes));
            }
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&Tensor> {
        self.written.get(name).or_else(|| self.before.get(name))
    }

    /// The memory of an in-place input that this run made itself and nobody else holds. Anything else
    /// must outlive a failure, so its output gets new memory.
    fn take_in_place(&mut self, step: &Step<'_>) -> Option<Reuse> {
        let (inputs, outputs) = (&step.def.inputs, &step.def.outputs);
        let &(input, output) = step.operator.schema.inplace.iter().find(|&&(input, output)| {
            let name = inputs.get(input).filter(|name| !name.is_empty());
            name.is_some_and(|name| {
                outputs.get(output) == Some(name) && inputs.iter().filter(|other| *other == name).count() == 1
            })
        })?;
        let name = &inputs[input];
        self.written.get_mut(name)?.view_mut()?;
        let tensor = self.written.remove(name)?;
        Some(Reuse { input, output, tensor })
    }

    /// Drops a blob that later steps do not read, or the values of one whose shape alone they look at.
    fn let_go(&mut self, name: &str, later: Option<Use>) -> Result<()> {
        let Some(tensor) = self.written.get_mut(name) else { return Ok(()) };
        match later {
            Some(Use::Values) => {}
            Some(Use::Shape) => *tensor = devices::shape_only(tensor)?,
            None => drop(self.written.remove(name)),
        }
        Ok(())
    }
}

/// For each step the blobs that it touches, and what the steps after it still look at of them.
fn later_uses<'a>(steps: &'a [Step<'_>]) -> Vec<Vec<(&'a str, Option<Use>)>> {
    let mut later: HashMap<&str, Use> = HashMap::new();
    let mut uses = Vec::with_capacity(steps.len());
    for step in steps.iter().rev() {
        let like = step.def.like.iter().flat_map(|(name, like)| [name, like]);
        let touched = step.def.inputs.iter().chain(&step.def.outputs).chain(like.clone()).map(String::as_str);
        uses.push(touched.map(|name| (name, later.get(name).copied())).collect());
        let like: Vec<&str> =
            like.map(String::as_str).filter(|name| !step.def.outputs.iter().any(|o| o == name)).collect();
        for name in &step.def.outputs {
            later.remove(name.as_str());
        }
        for (index, name) in step.def.inputs.iter().enumerate() {
            let kept = if step.operator.schema.input_spec(index).shape_only { Use::Shape } else { Use::Values };
            let known = later.entry(name).or_insert(kept);
            *known = kept.max(*known);
        }
        for name in like {
            later.entry(name).or_insert(Use::Shape);
        }
    }
    uses.reverse();
    uses
}

#[cold]
fn unknown<'a>(place: &str, name: &str, known: impl Iterator<Item = &'a String>) -> Error {
    let nearest = names::nearest(name, known.map(String::as_str));
    Error::argument(place, name, "an unknown blob", format!("one that was fed or written{}", names::hint(&nearest)))
}
