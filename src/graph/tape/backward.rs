//! Runs recorded calls backward, last first, without recursion.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::node::{Change, Edge, Node, Operation, SavedValues};
use super::{Variable, apply_operator};
use crate::core::error::{Error, Result};
use crate::core::tensor::{Tensor, TensorType};
use crate::graph::context::{self, Context, with_context};
use crate::graph::plan::{Ref, Step};
use crate::operators::execute::execute;
use crate::{devices, registry};

/// How a backward pass treats the graph.
#[derive(Debug, Clone, Copy, Default)]
pub struct BackwardOptions {
    /// Keep what was saved, so that another pass can follow. Otherwise it is freed on the way.
    pub retain_graph: bool,
    /// Record the pass itself, so that its results can be differentiated. Keeps the graph.
    pub create_graph: bool,
}

/// Gradients that wait to be added are added once there are this many: few passes, little memory.
const WAITING: usize = 8;

type Key = (u64, usize);

/// Refuses a gradient that is not of its tensor's type.
pub fn check_gradient(operator: &str, argument: &str, gradient: &Tensor, kind: &TensorType) -> Result<()> {
    if gradient.shape() != &kind.shape {
        return Err(Error::shape(operator, argument, gradient.shape(), &kind.shape));
    }
    if gradient.dtype() != kind.dtype {
        return Err(Error::dtype(operator, argument, gradient.dtype(), kind.dtype));
    }
    Ok(())
}

fn ones_like(tensor: &Tensor) -> Result<Tensor> {
    devices::filled(tensor.device(), tensor.kind(), 1.0)
}

/// The gradients of several outputs with respect to several inputs; `None` where an output does not
/// depend on an input. `grad_outputs` start from ones where absent.
pub fn grad(
    outputs: &[Variable],
    inputs: &[Variable],
    grad_outputs: &[Option<Variable>],
    options: BackwardOptions,
) -> Result<Vec<Option<Variable>>> {
    if !grad_outputs.is_empty() && grad_outputs.len() != outputs.len() {
        let takes = format!("{}, one for each output", outputs.len());
        return Err(Error::argument("grad", "grad_outputs", grad_outputs.len(), takes));
    }
    let mut keys = Vec::with_capacity(inputs.len());
    for (index, input) in inputs.iter().enumerate() {
        let key = input.edge.as_ref().map(Edge::key);
        keys.push(key.ok_or_else(|| {
            let takes = "tensors that require a gradient";
            Error::argument("grad", format!("inputs[{index}]"), "a tensor that requires no gradient", takes)
        })?);
    }
    let mut roots = Vec::with_capacity(outputs.len());
    for (index, output) in outputs.iter().enumerate() {
        let gradient = match grad_outputs.get(index).and_then(Option::as_ref) {
            Some(gradient) => gradient.clone(),
            None => Variable::constant(ones_like(output.value())?),
        };
        check_gradient("grad", &format!("grad_outputs[{index}]"), gradient.value(), output.value().kind())?;
        if let Some(edge) = &output.edge {
            roots.push((edge.clone(), gradient));
        }
    }
    let targets: HashSet<Key> = keys.iter().copied().collect();
    let mut found = Pass::new(options, Some(&targets)).run(roots)?;
    if !options.create_graph {
        for (edge, gradient) in std::mem::take(&mut found).into_values() {
            let gradient = Variable::constant(own(&gradient.value)?);
            found.insert(edge.key(), (edge, gradient));
        }
    }
    Ok(keys.iter().map(|key| found.get(key).map(|(_, gradient)| gradient.clone())).collect())
}

/// See [`Variable::backward`].
pub fn backward(root: &Variable, gradient: Option<Tensor>, options: BackwardOptions) -> Result<()> {
    let Some(edge) = &root.edge else {
        let takes = "the result of a recorded operator, or a leaf that requires a gradient";
        return Err(Error::argument("backward", "tensor", "one that requires no gradient", takes));
    };
    let gradient = match gradient {
        Some(gradient) => gradient,
        None => ones_like(root.value())?,
    };
    check_gradient("backward", "gradient", &gradient, root.value().kind())?;
    let roots = vec![(edge.clone(), Variable::constant(gradient))];
    let found = Pass::new(options, None).run(roots)?;
    accumulate(found.into_values().map(|(edge, gradient)| (edge.node, gradient.value)))
}

/// Adds gradients to those of their leaves. Sums are computed without a lock, and all take effect in one step; where
/// another thread was faster with a leaf, that leaf's sum is computed again.
fn accumulate(found: impl Iterator<Item = (Arc<Node>, Tensor)>) -> Result<()> {
    let mut changes = Vec::new();
    for (leaf, gradient) in found {
        let before = leaf.gradient();
        let total = total(before.as_ref(), &gradient)?;
        changes.push(Change { leaf, gradient, before, total, is_stale: false });
    }
    while !Change::commit(&mut changes) {
        for change in changes.iter_mut().filter(|change| change.is_stale) {
            change.before = change.leaf.gradient();
            change.total = total(change.before.as_ref(), &change.gradient)?;
        }
    }
    Ok(())
}

fn total(before: Option<&Tensor>, gradient: &Tensor) -> Result<Tensor> {
    match before {
        Some(before) => run_plain("Sum", &[before, gradient]),
        None => own(gradient),
    }
}

/// The tensor, or a copy where its memory is somebody else's or another gradient's.
fn own(tensor: &Tensor) -> Result<Tensor> {
    if Arc::strong_count(tensor.storage()) == 1 { Ok(tensor.clone()) } else { run_plain("Sum", &[tensor]) }
}

fn run_plain(operator: &str, inputs: &[&Tensor]) -> Result<Tensor> {
    let operator = registry::find(operator)?;
    let args = operator.schema.resolve_args(std::iter::empty::<(&str, _)>())?;
    let inputs: Vec<Option<&Tensor>> = inputs.iter().copied().map(Some).collect();
    let output = execute(&operator, &inputs, &args, &[true], None)?.swap_remove(0);
    Ok(output.expect("a wanted output"))
}

/// A backward pass under way.
struct Pass<'a> {
    options: BackwardOptions,
    /// The variables whose gradients are asked for; `None` stands for every leaf.
    targets: Option<&'a HashSet<Key>>,
    /// The nodes through which a gradient reaches a target; `None` stands for all.
    needed: Option<HashSet<u64>>,
    /// Gradients that have reached a variable and are not yet added.
    waiting: HashMap<Key, Vec<Variable>>,
    found: HashMap<Key, (Edge, Variable)>,
}

impl<'a> Pass<'a> {
    fn new(options: BackwardOptions, targets: Option<&'a HashSet<Key>>) -> Self {
        Pass { options, targets, needed: None, waiting: HashMap::new(), found: HashMap::new() }
    }

    /// The gradients of the targets.
    fn run(mut self, roots: Vec<(Edge, Variable)>) -> Result<HashMap<Key, (Edge, Variable)>> {
        let mut nodes = reachable(roots.iter().map(|(edge, _)| &edge.node));
        if let Some(targets) = self.targets {
            let needed = leading_to(&nodes, targets);
            nodes.retain(|node| needed.contains(&node.id));
            self.needed = Some(needed);
        }
        for operation in nodes.iter().filter_map(|node| node.operation()) {
            operation.check()?;
        }
        let context = Context { recording: self.options.create_graph, ..context::current() };
        with_context(context, || {
            for (edge, gradient) in roots {
                self.add(&edge, gradient)?;
            }
            // The highest number first; a node is let go as soon as it has run.
            while let Some(node) = nodes.pop() {
                self.node(node)?;
            }
            Ok(self.found)
        })
    }

    fn needs(&self, node: &Node) -> bool {
        self.needed.as_ref().is_none_or(|needed| needed.contains(&node.id))
    }

    fn add(&mut self, edge: &Edge, gradient: Variable) -> Result<()> {
        let waiting = self.waiting.entry(edge.key()).or_default();
        waiting.push(gradient);
        if waiting.len() == WAITING {
            let total = sum(std::mem::take(waiting))?;
            waiting.push(total);
        }
        Ok(())
    }

    fn node(&mut self, node: Arc<Node>) -> Result<()> {
        let mut gradients: Vec<Option<Variable>> = Vec::with_capacity(node.kinds.len());
        for output in 0..node.kinds.len() {
            let edge = Edge { node: node.clone(), output };
            let total = self.waiting.remove(&edge.key()).map(sum).transpose()?;
            let target = self.targets.map_or(node.operation().is_none(), |targets| targets.contains(&edge.key()));
            if let Some(total) = total.as_ref().filter(|_| target) {
                self.found.insert(edge.key(), (edge, total.clone()));
            }
            gradients.push(total);
        }
        let Some(operation) = node.operation() else { return Ok(()) };
        if gradients.iter().all(Option::is_none) {
            return Ok(());
        }
        let present: Vec<bool> = gradients.iter().map(Option::is_some).collect();
        let wanted: Vec<bool> =
            operation.edges.iter().map(|edge| edge.as_ref().is_some_and(|edge| self.needs(&edge.node))).collect();
        if !wanted.contains(&true) {
            return Ok(());
        }
        let plan = operation.plan(&present, &wanted)?;
        let saved = operation.saved(self.options.retain_graph || self.options.create_graph)?;
        let mut values = Values { node: &node, operation, saved, gradients, made: HashMap::new() };
        for step in &plan.steps {
            values.run(step)?;
        }
        let mut results = Vec::new();
        for (index, (edge, place)) in operation.edges.iter().zip(&plan.input_gradients).enumerate() {
            let (Some(edge), Some(place)) = (edge, place) else { continue };
            let gradient = values.get(*place)?;
            if let Some(kind) = &edge.node.kinds[edge.output] {
                let argument = format!("the gradient of input {index}");
                check_gradient(&operation.def.operator, &argument, gradient.value(), kind)?;
            }
            results.push((edge, gradient));
        }
        // What was saved for this call goes before the next one runs.
        drop(values);
        for (edge, gradient) in results {
            self.add(edge, gradient)?;
        }
        Ok(())
    }
}

/// What the backward steps of one call can read.
struct Values<'a> {
    node: &'a Arc<Node>,
    operation: &'a Operation,
    saved: SavedValues,
    gradients: Vec<Option<Variable>>,
    made: HashMap<usize, Variable>,
}

impl Values<'_> {
    fn get(&self, place: Ref) -> Result<Variable> {
        let edge = match place {
            Ref::OutputGradient(output) => return Ok(self.gradients[output].clone().expect("present in the plan")),
            Ref::Made(number) => return Ok(self.made[&number].clone()),
            Ref::Input(input) => self.operation.edges[input].clone(),
            Ref::Output(output) => Some(Edge { node: self.node.clone(), output }),
        };
        let saved = self.saved.get(&place).ok_or_else(|| Error::NoGradient {
            operator: self.operation.def.operator.clone(),
            reason: format!(
                "its definition reads {place:?}, which was not kept: override the gradient before the call"
            ),
        })?;
        Ok(Variable { value: saved.value.clone(), saves: saved.saves.clone(), edge })
    }

    fn run(&mut self, step: &Step) -> Result<()> {
        let inputs = step
            .inputs
            .iter()
            .map(|place| place.map(|place| self.get(place)).transpose())
            .collect::<Result<Vec<_>>>()?;
        let inputs: Vec<Option<&Variable>> = inputs.iter().map(Option::as_ref).collect();
        let wanted: Vec<bool> = step.outputs.iter().map(Option::is_some).collect();
        let outputs = apply_operator(&step.operator, &inputs, &step.args, &wanted)?;
        for (number, output) in step.outputs.iter().zip(outputs) {
            if let (Some(number), Some(output)) = (number, output) {
                self.made.insert(*number, output);
            }
        }
        Ok(())
    }
}

/// Adds gradients of one variable; one alone is itself.
fn sum(mut gradients: Vec<Variable>) -> Result<Variable> {
    if gradients.len() == 1 {
        return Ok(gradients.swap_remove(0));
    }
    let operator = registry::find("Sum")?;
    let args = operator.schema.resolve_args(std::iter::empty::<(&str, _)>())?;
    let inputs: Vec<Option<&Variable>> = gradients.iter().map(Some).collect();
    let output = apply_operator(&operator, &inputs, &args, &[true])?.swap_remove(0);
    Ok(output.expect("a wanted output"))
}

/// Every node that these depend on, and themselves, in the order they were made.
fn reachable<'a>(roots: impl Iterator<Item = &'a Arc<Node>>) -> Vec<Arc<Node>> {
    let mut seen: HashMap<u64, Arc<Node>> = HashMap::new();
    let mut open: Vec<Arc<Node>> = roots.cloned().collect();
    while let Some(node) = open.pop() {
        if seen.insert(node.id, node.clone()).is_none() {
            open.extend(node.edges().map(|edge| edge.node.clone()));
        }
    }
    let mut nodes: Vec<Arc<Node>> = seen.into_values().collect();
    nodes.sort_unstable_by_key(|node| node.id);
    nodes
}

/// Those of the nodes, in the order they were made, through which a gradient reaches a target.
fn leading_to(nodes: &[Arc<Node>], targets: &HashSet<Key>) -> HashSet<u64> {
    let mut needed: HashSet<u64> = HashSet::new();
    for node in nodes {
        let is_target = (0..node.kinds.len()).any(|output| targets.contains(&(node.id, output)));
        if is_target || node.edges().any(|edge| needed.contains(&edge.node.id)) {
            needed.insert(node.id);
        }
    }
    needed
}
