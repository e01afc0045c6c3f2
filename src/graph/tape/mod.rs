//! Variables that remember how they were computed.
//!
//! [`apply`] runs a registered operator and, where an input needs a gradient, records its definition
//! together with the values that the registry's gradient definitions will read: nothing else is kept,
//! and of inputs that lend only their shape, only that. [`Variable::backward`] and [`grad`] run those
//! definitions; with `create_graph` they are recorded in turn, so that every order follows.

mod backward;
mod node;

pub(super) use backward::check_gradient;
pub use backward::{BackwardOptions, grad};

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::core::args::{ArgValue, Args};
use crate::core::definition::OperatorDef;
use crate::core::error::{Error, Result};
use crate::core::operator::Operator;
use crate::core::tensor::Tensor;
use crate::graph::context;
use crate::operators::execute::execute;
use crate::registry;
use node::{Edge, Node};

/// A tensor, and where its gradient goes. Clones are the same variable.
#[derive(Clone)]
pub struct Variable {
    value: Tensor,
    saves: Saves,
    edge: Option<Edge>,
}

/// How many times the tape holds a variable's memory; shared by every variable on that memory.
#[derive(Clone, Default)]
struct Saves(Arc<AtomicUsize>);

/// One count of [`Saves`].
struct Saved {
    value: Tensor,
    saves: Saves,
}

impl Saved {
    fn new(variable: &Variable) -> Self {
        variable.saves.0.fetch_add(1, Ordering::Relaxed);
        Saved { value: variable.value.clone(), saves: variable.saves.clone() }
    }
}

impl Clone for Saved {
    fn clone(&self) -> Self {
        self.saves.0.fetch_add(1, Ordering::Relaxed);
        Saved { value: self.value.clone(), saves: self.saves.clone() }
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        self.saves.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Variable {
    /// A variable that needs no gradient.
    pub fn constant(value: Tensor) -> Self {
        Variable { value, saves: Saves::default(), edge: None }
    }

    /// A variable whose gradient is collected in [`Variable::gradient`].
    pub fn leaf(value: Tensor) -> Self {
        Variable::constant(value).requiring_gradient()
    }

    /// A variable that needs no gradient, on memory that nobody may write to.
    pub fn read_only(value: Tensor) -> Self {
        let saves = Saves(Arc::new(AtomicUsize::new(1)));
        Variable { value, saves, edge: None }
    }

    /// The same memory as a leaf.
    pub fn requiring_gradient(&self) -> Self {
        let node = Arc::new(Node::leaf(self.value.kind().clone()));
        Variable { edge: Some(Edge { node, output: 0 }), ..self.clone() }
    }

    /// The same memory without a history.
    pub fn detach(&self) -> Self {
        Variable { edge: None, ..self.clone() }
    }

    /// The tensor.
    pub fn value(&self) -> &Tensor {
        &self.value
    }

    /// Whether a gradient flows to or through it.
    pub fn requires_gradient(&self) -> bool {
        self.edge.is_some()
    }

    /// Whether no operator that is recorded computed it.
    pub fn is_leaf(&self) -> bool {
        self.edge.as_ref().is_none_or(|edge| edge.node.operation().is_none())
    }

    /// The operator that computed it, if it is recorded.
    pub fn operator(&self) -> Option<&str> {
        Some(self.edge.as_ref()?.node.operation()?.def.operator.as_str())
    }

    /// Whether the tape holds its memory, so that nobody may write to it.
    pub fn is_saved(&self) -> bool {
        self.saves.0.load(Ordering::Relaxed) > 0
    }

    /// The gradient that backward passes have left in a leaf.
    pub fn gradient(&self) -> Option<Tensor> {
        self.edge.as_ref()?.node.gradient()
    }

    /// Replaces the gradient of a leaf: `None` clears it. Refused for what is not a leaf that needs one.
    pub fn set_gradient(&self, gradient: Option<Tensor>) -> Result<()> {
        let refuse = |got: &str| Err(Error::argument("Tensor", "grad", got, "a leaf that requires a gradient"));
        let Some(edge) = &self.edge else { return refuse("a tensor that requires no gradient") };
        if let Some(gradient) = &gradient {
            backward::check_gradient("Tensor", "grad", gradient, self.value.kind())?;
        }
        match edge.node.set_gradient(gradient) {
            true => Ok(()),
            false => refuse("the result of an operator"),
        }
    }

    /// Computes gradients of this variable, starting from `gradient` or from ones, and adds them to those
    /// of the leaves. Where it fails every leaf's gradient is as it was.
    pub fn backward(&self, gradient: Option<Tensor>, options: BackwardOptions) -> Result<()> {
        backward::backward(self, gradient, options)
    }
}

impl std::fmt::Debug for Variable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.requires_gradient() { "requires a gradient" } else { "constant" };
        write!(f, "Variable({:?}, {kind})", self.value)
    }
}

/// Runs an operator by name on the device its inputs are on, and records it where an input requires a
/// gradient and the [`context`] does not forbid it. Omitted inputs are `None`.
pub fn apply(
    name: &str,
    inputs: &[Option<&Variable>],
    args: impl IntoIterator<Item = (impl AsRef<str>, ArgValue)>,
) -> Result<Vec<Variable>> {
    let operator = registry::find(name)?;
    let args = operator.schema.resolve_args(args)?;
    let wanted = vec![true; operator.schema.outputs.len()];
    let outputs = apply_operator(&operator, inputs, &args, &wanted)?;
    Ok(outputs.into_iter().map(|output| output.expect("every output is wanted")).collect())
}

/// As [`apply`], looked up and checked already, with only the outputs that are wanted.
pub fn apply_operator(
    operator: &Operator,
    inputs: &[Option<&Variable>],
    args: &Args,
    wanted: &[bool],
) -> Result<Vec<Option<Variable>>> {
    let values: Vec<Option<&Tensor>> = inputs.iter().map(|input| input.map(Variable::value)).collect();
    let outputs = execute(operator, &values, args, wanted, None)?;
    let mut outputs: Vec<Option<Variable>> = outputs.into_iter().map(|output| output.map(Variable::constant)).collect();
    if inputs.iter().flatten().any(|input| input.requires_gradient()) {
        let context = context::current();
        if context.recording {
            let name = &operator.schema.name;
            node::record(
                definition(operator, inputs, args, &outputs),
                inputs,
                &mut outputs,
                context.overrides.get(name),
            );
        }
    }
    Ok(outputs)
}

/// The definition of a call. Names are the schema's; outputs get others than inputs, because the tape
/// never computes in place.
fn definition(
    operator: &Operator,
    inputs: &[Option<&Variable>],
    args: &Args,
    outputs: &[Option<Variable>],
) -> OperatorDef {
    let schema = &operator.schema;
    let input = |(index, input): (usize, &Option<&Variable>)| {
        input.map_or(String::new(), |_| schema.input_spec(index).name.clone())
    };
    let output = |(index, output): (usize, &Option<Variable>)| {
        output.as_ref().map_or(String::new(), |_| format!("{}@out", schema.outputs[index].name))
    };
    let args = schema.args.iter().map(|spec| spec.name.clone()).zip(args.values().iter().cloned());
    OperatorDef {
        inputs: inputs.iter().enumerate().map(input).collect(),
        outputs: outputs.iter().enumerate().map(output).collect(),
        args: args.collect(),
        ..OperatorDef::new(&schema.name, &[], &[])
    }
}
