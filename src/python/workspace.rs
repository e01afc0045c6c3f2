//! `Workspace` and `add_gradient_operators`.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use firelu_guarded::guarded;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::autograd::compute;
use super::definitions::PyOperatorDef;
use super::entry;
use super::errors::{self, raise};
use super::tensor::{PyTensor, array_of, tensor_from};
use crate::core::definition::OperatorDef;
use crate::core::device::Device;
use crate::devices::cpu::fork::{Busy, Taken, Turn};
use crate::graph::workspace::Workspace;
use crate::graph::{backward, net};

/// Named blobs, and nets run on them.
///
/// A run that fails leaves every blob as it was. Several threads may use one workspace: what changes it (`run`, `feed`
/// and `remove`) is done one after the other, so that nothing is lost, and what reads it sees the blobs as they were
/// before a run that is under way, or all of what it wrote. A kernel that changes the workspace whose net runs it is
/// refused.
#[pyclass(frozen, module = "firelu", name = "Workspace")]
pub struct PyWorkspace {
    blobs: Mutex<Workspace>,
    /// Whose change is under way.
    turn: Turn,
}

/// How long a thread sleeps at most before it asks for its turn again.
const PAUSE: Duration = Duration::from_millis(1);

impl PyWorkspace {
    /// Looks at or changes the blobs: for a moment only, never while a kernel or Python runs.
    fn with<R>(&self, section: impl FnOnce(&mut Workspace) -> R) -> R {
        section(&mut self.blobs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until no other change is under way; a signal ends the wait.
    fn turn(&self, py: Python<'_>, function: &str) -> PyResult<Taken<'_>> {
        let mut pause = Duration::from_micros(10);
        loop {
            match self.turn.take() {
                Ok(taken) => return Ok(taken),
                Err(Busy::Mine) => {
                    let got = "a call from inside a run of this workspace";
                    let message = format!("{function}: workspace: got {got}, takes one that is not running");
                    return Err(errors::new(py, "ArgumentError", message));
                }
                Err(Busy::Others) => entry::detach(py, || std::thread::sleep(pause)),
            }
            py.check_signals()?;
            pause = PAUSE.min(pause * 2);
        }
    }
}

#[guarded]
#[pymethods]
impl PyWorkspace {
    #[new]
    fn new() -> Self {
        PyWorkspace { blobs: Mutex::default(), turn: Turn::default() }
    }

    /// Put a copy of an array, list or Tensor under a name.
    fn feed(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let tensor = tensor_from("Workspace.feed", name, value, None)?;
        let _turn = self.turn(py, "Workspace.feed")?;
        self.with(|workspace| workspace.feed(name, tensor)).map_err(raise)
    }

    /// The values of a blob: a read-only array without a copy, or a Tensor where they are on another device.
    fn fetch<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let tensor = self.with(|workspace| workspace.fetch(name)).map_err(raise)?;
        match tensor.device() {
            Device::Cpu => Ok(array_of(py, tensor, false)?.into_any()),
            Device::Cuda(_) => Ok(Bound::new(py, PyTensor::from(tensor))?.into_any()),
        }
    }

    /// The names of the blobs, sorted.
    fn blobs(&self) -> Vec<String> {
        self.with(|workspace| workspace.blobs())
    }

    /// Forget a blob; an unknown one is an error.
    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let _turn = self.turn(py, "Workspace.remove")?;
        self.with(|workspace| {
            workspace.fetch(name)?;
            workspace.remove(name);
            Ok(())
        })
        .map_err(raise)
    }

    /// Run a definition or a list of them: all takes effect, or nothing.
    ///
    /// With `keep`, only the named ones of the blobs that the net writes stay; the others are let go
    /// after their last use.
    #[pyo3(signature = (net, keep=None))]
    fn run(&self, py: Python<'_>, net: &Bound<'_, PyAny>, keep: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let net = definitions("Workspace.run", net)?;
        let keep = keep.map(names).transpose()?;
        let _turn = self.turn(py, "Workspace.run")?;
        let before = self.with(|workspace| workspace.clone());
        let written = compute(py, usize::MAX, || before.compute(&net, keep.as_ref()))?;
        self.with(|workspace| workspace.commit(written));
        Ok(())
    }

    fn __contains__(&self, name: &str) -> bool {
        self.with(|workspace| workspace.fetch(name).is_ok())
    }

    fn __len__(&self) -> usize {
        self.with(|workspace| workspace.blobs().len())
    }

    fn __repr__(&self) -> String {
        let blobs: Vec<String> = self.with(|workspace| {
            let describe = |name: String| match workspace.fetch(&name) {
                Ok(tensor) => format!("{name}: {}", tensor.kind()),
                Err(_) => name,
            };
            workspace.blobs().into_iter().map(describe).collect()
        });
        format!("Workspace({})", blobs.join(", "))
    }
}

/// A net from a definition or any iterable of them.
fn definitions(function: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<OperatorDef>> {
    if let Ok(one) = object.cast::<PyOperatorDef>() {
        return Ok(vec![one.get().0.clone()]);
    }
    let refuse = || {
        let got = super::settings::short_repr(object);
        let message = format!("{function}: net: got {got}, takes an OperatorDef or a list of them");
        errors::new(object.py(), "ArgumentError", message)
    };
    let mut net = Vec::new();
    for item in object.try_iter().map_err(|_| refuse())? {
        net.push(item?.cast::<PyOperatorDef>().map_err(|_| refuse())?.get().0.clone());
    }
    Ok(net)
}

/// Blob names from any iterable but a text.
fn names(object: &Bound<'_, PyAny>) -> PyResult<HashSet<String>> {
    let refuse = || {
        let got = super::settings::short_repr(object);
        errors::new(object.py(), "ArgumentError", format!("Workspace.run: keep: got {got}, takes a list of blob names"))
    };
    if object.is_instance_of::<PyString>() {
        return Err(refuse());
    }
    object.try_iter().map_err(|_| refuse())?.map(|name| name?.extract().map_err(|_| refuse())).collect()
}

/// The backward definitions of a net, and the gradient's name of each blob that has one.
#[guarded]
#[pyfunction]
fn add_gradient_operators(
    py: Python<'_>,
    net: &Bound<'_, PyAny>,
    output_gradients: BTreeMap<String, String>,
    inputs: Option<Vec<String>>,
) -> PyResult<(Vec<PyOperatorDef>, BTreeMap<String, String>)> {
    let net = definitions("add_gradient_operators", net)?;
    let built = compute(py, 0, || backward::add_gradient_operators(&net, &output_gradients, inputs.as_deref()))?;
    Ok((built.operators.into_iter().map(PyOperatorDef).collect(), built.gradients))
}

/// JSON text of a net.
#[guarded]
#[pyfunction]
fn net_to_json(net: &Bound<'_, PyAny>) -> PyResult<String> {
    net::to_json(&definitions("net_to_json", net)?).map_err(raise)
}

/// A net from JSON text.
#[guarded]
#[pyfunction]
fn net_from_json(text: &str) -> PyResult<Vec<PyOperatorDef>> {
    Ok(net::from_json(text).map_err(raise)?.into_iter().map(PyOperatorDef).collect())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyWorkspace>()?;
    module.add_function(wrap_pyfunction!(add_gradient_operators, module)?)?;
    module.add_function(wrap_pyfunction!(net_to_json, module)?)?;
    module.add_function(wrap_pyfunction!(net_from_json, module)?)
}
