//! What the tape remembers of one operator call.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Saved, Variable};
use crate::core::definition::OperatorDef;
use crate::core::error::{Error, Result};
use crate::core::gradient::Gradient;
use crate::core::tensor::{Tensor, TensorType};
use crate::devices;
use crate::devices::cpu::fork;
use crate::graph::context;
use crate::graph::plan::{Plan, Ref, Use, plan};

/// The place of a variable in the graph.
#[derive(Clone)]
pub struct Edge {
    /// The leaf, or what computed it.
    pub node: Arc<Node>,
    /// Which of the node's outputs.
    pub output: usize,
}

impl Edge {
    /// What tells variables apart.
    pub fn key(&self) -> (u64, usize) {
        (self.node.id, self.output)
    }
}

/// A leaf, or an operator call.
pub struct Node {
    /// Inputs are made before outputs, so the order of numbers is an order to run backward in.
    pub id: u64,
    /// The types of its outputs; `None` where one is unwanted.
    pub kinds: Vec<Option<TensorType>>,
    content: Content,
}

enum Content {
    Leaf(Mutex<Option<Tensor>>),
    Operation(Operation),
}

/// A recorded operator call.
pub struct Operation {
    /// Its definition; the names are the schema's.
    pub def: OperatorDef,
    /// Where the gradients of its inputs go; `None` where none is needed.
    pub edges: Vec<Option<Edge>>,
    /// Its gradient with every output gradient present, or why there is none.
    plan: Result<Plan>,
    /// The gradient that was used instead of the registered one when it was recorded.
    overridden: Option<Gradient>,
    /// What the plan reads; `None` once a backward pass has freed it.
    saved: Mutex<Option<SavedValues>>,
}

/// Inputs and outputs of an operator call that its gradient reads.
pub type SavedValues = BTreeMap<Ref, Saved>;

static NEXT: AtomicU64 = AtomicU64::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every write is one assignment, so a panic elsewhere leaves nothing half-done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks at or changes what a lock guards: for a moment, and not while the process forks. What goes is handed out,
/// because freeing foreign memory may wait for the interpreter.
fn held<T, R>(mutex: &Mutex<T>, section: impl FnOnce(&mut T) -> R) -> R {
    fork::steady(|| section(&mut lock(mutex)))
}

/// A leaf's gradient before a backward pass and after it.
pub struct Change {
    /// The leaf.
    pub leaf: Arc<Node>,
    /// What is added.
    pub gradient: Tensor,
    /// What the total was computed from.
    pub before: Option<Tensor>,
    /// The sum of both.
    pub total: Tensor,
    /// Whether the leaf's gradient is no longer `before`.
    pub is_stale: bool,
}

impl Change {
    /// Gives every leaf its total in one step, or none of them where the gradient of one is no longer what its total
    /// was computed from: those are marked.
    pub fn commit(changes: &mut [Change]) -> bool {
        // One order for all threads, so that none waits for a lock of another that waits for its own.
        changes.sort_unstable_by_key(|change| change.leaf.id);
        fork::steady(|| {
            let mut places: Vec<MutexGuard<'_, Option<Tensor>>> = Vec::with_capacity(changes.len());
            let mut updates = Vec::with_capacity(changes.len());
            for Change { leaf, before, total, is_stale, .. } in changes.iter_mut() {
                let Content::Leaf(gradient) = &leaf.content else { continue };
                let place = lock(gradient);
                *is_stale = match (place.as_ref(), before.as_ref()) {
                    (None, None) => false,
                    (Some(now), Some(before)) => !Arc::ptr_eq(now.storage(), before.storage()),
                    _ => true,
                };
                updates.push((total, *is_stale));
                places.push(place);
            }
            if updates.iter().any(|(_, is_stale)| *is_stale) {
                return false;
            }
            // `before` holds what is replaced, so that nothing is freed here.
            for (place, (total, _)) in places.iter_mut().zip(updates) {
                **place = Some(total.clone());
            }
            true
        })
    }
}

impl Node {
    fn new(kinds: Vec<Option<TensorType>>, content: Content) -> Self {
        Node { id: NEXT.fetch_add(1, Ordering::Relaxed), kinds, content }
    }

    /// A leaf without a gradient yet.
    pub fn leaf(kind: TensorType) -> Self {
        Node::new(vec![Some(kind)], Content::Leaf(Mutex::new(None)))
    }

    /// The recorded call; `None` for a leaf.
    pub fn operation(&self) -> Option<&Operation> {
        match &self.content {
            Content::Leaf(_) => None,
            Content::Operation(operation) => Some(operation),
        }
    }

    /// A leaf's gradient.
    pub fn gradient(&self) -> Option<Tensor> {
        match &self.content {
            Content::Leaf(gradient) => held(gradient, |gradient| gradient.clone()),
            Content::Operation(_) => None,
        }
    }

    /// Replaces a leaf's gradient; false where this is no leaf.
    pub fn set_gradient(&self, gradient: Option<Tensor>) -> bool {
        match &self.content {
            Content::Leaf(place) => {
                drop(held(place, |place| std::mem::replace(place, gradient)));
                true
            }
            Content::Operation(_) => false,
        }
    }

    /// The nodes that its gradients go to.
    pub fn edges(&self) -> impl Iterator<Item = &Edge> {
        self.operation().into_iter().flat_map(|operation| operation.edges.iter().flatten())
    }
}

impl Drop for Node {
    /// Frees a chain of any length without recursion.
    fn drop(&mut self) {
        let take = |node: &mut Node| match &mut node.content {
            Content::Operation(operation) => std::mem::take(&mut operation.edges),
            Content::Leaf(_) => Vec::new(),
        };
        let mut waiting = take(self);
        while let Some(edge) = waiting.pop() {
            if let Some(mut node) = edge.and_then(|edge| Arc::into_inner(edge.node)) {
                waiting.append(&mut take(&mut node));
            }
        }
    }
}

impl Operation {
    /// The gradient for these output gradients and inputs: a gradient override in force now, else the one
    /// in force when the call was recorded, else the registered one.
    pub fn plan(&self, present: &[bool], wanted: &[bool]) -> Result<Cow<'_, Plan>> {
        let now = context::overridden(&self.def.operator);
        let all = present.iter().all(|&present| present)
            && self.edges.iter().zip(wanted).all(|(edge, wanted)| edge.is_some() == *wanted);
        if let (Ok(recorded), None, true) = (&self.plan, &now, all) {
            return Ok(Cow::Borrowed(recorded));
        }
        // Where there was no gradient at the time of the call there may be one by now.
        plan(&self.def, present, wanted, now.as_ref().or(self.overridden.as_ref())).map(Cow::Owned)
    }

    /// Why there is no gradient, if there is none: asked before a pass frees anything.
    pub fn check(&self) -> Result<()> {
        match &self.plan {
            Ok(_) => return Ok(()),
            // What the gradient reads could not be kept: no gradient of later has it either.
            Err(error @ (Error::Device { .. } | Error::OutOfMemory { .. })) => return Err(error.clone()),
            Err(_) => {}
        }
        let wanted: Vec<bool> = self.edges.iter().map(Option::is_some).collect();
        self.plan(&vec![true; self.def.outputs.len()], &wanted).map(drop)
    }

    /// What the gradient reads: shared where the graph is kept, else handed over for good.
    pub fn saved(&self, keep: bool) -> Result<SavedValues> {
        let values = held(&self.saved, |saved| {
            // A call that saved nothing has nothing to free and may be run again.
            let keep = keep || saved.as_ref().is_some_and(BTreeMap::is_empty);
            if keep { saved.clone() } else { saved.take() }
        });
        values.ok_or_else(|| Error::NoGradient {
            operator: self.def.operator.clone(),
            reason: "an earlier backward pass has freed what it needs: let that one retain the graph".into(),
        })
    }
}

/// Puts an operator call on the tape and makes its outputs depend on it.
pub fn record(
    def: OperatorDef,
    inputs: &[Option<&Variable>],
    outputs: &mut [Option<Variable>],
    overridden: Option<&Gradient>,
) {
    let mut edges: Vec<Option<Edge>> = inputs.iter().map(|input| input.and_then(|input| input.edge.clone())).collect();
    let wanted: Vec<bool> = edges.iter().map(Option::is_some).collect();
    let present: Vec<bool> = outputs.iter().map(Option::is_some).collect();
    let plan_of = |present: &[bool]| plan(&def, present, &wanted, overridden);
    let full = plan_of(&present);
    let mut saved = SavedValues::new();
    let mut failed = None;
    if let Ok(full) = &full {
        // No edge where no gradient flows, so that nothing is kept alive in vain.
        for (edge, gradient) in edges.iter_mut().zip(&full.input_gradients) {
            *edge = edge.take().filter(|_| gradient.is_some());
        }
        if edges.iter().all(Option::is_none) {
            return;
        }
        let mut uses = full.uses();
        // With some output gradients absent a maker may read other values: keep those as well.
        for output in (0..present.len()).filter(|&output| present[output] && present.len() > 1) {
            let alone: Vec<bool> = (0..present.len()).map(|other| other == output).collect();
            for (place, used) in plan_of(&alone).map(|plan| plan.uses()).unwrap_or_default() {
                let known = uses.entry(place).or_insert(used);
                *known = used.max(*known);
            }
        }
        for (place, used) in uses {
            let variable = match place {
                Ref::Input(index) => inputs[index],
                Ref::Output(index) => outputs[index].as_ref(),
                Ref::OutputGradient(_) | Ref::Made(_) => None,
            };
            let Some(variable) = variable else { continue };
            match used {
                Use::Values => drop(saved.insert(place, Saved::new(variable))),
                Use::Shape => match devices::shape_only(variable.value()) {
                    Ok(shape) => drop(saved.insert(place, Saved::new(&Variable::constant(shape)))),
                    Err(error) => failed = Some(error),
                },
            }
        }
    }
    let operation = Operation {
        plan: failed.map_or(full, Err),
        overridden: overridden.cloned(),
        saved: Mutex::new(Some(saved)),
        edges,
        def,
    };
    let kinds = outputs.iter().map(|output| output.as_ref().map(|output| output.value.kind().clone())).collect();
    let node = Arc::new(Node::new(kinds, Content::Operation(operation)));
    for (output, variable) in outputs.iter_mut().enumerate() {
        if let Some(variable) = variable {
            variable.edge = Some(Edge { node: node.clone(), output });
        }
    }
}
