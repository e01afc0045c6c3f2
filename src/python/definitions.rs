//! `OperatorDef`, `create_operator` and `get_gradient_defs`.

use std::collections::{BTreeMap, HashSet};

use firelu_guarded::guarded;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::arguments::arg_value;
use super::errors::{self, raise};
use crate::core::args::ArgValue;
use crate::core::definition::OperatorDef;
use crate::core::device::Device;
use crate::graph::plan::{self, Ref, Step, Use};
use crate::registry;

/// One step of a net: an operator, the blobs it reads and writes, its arguments.
#[pyclass(frozen, eq, module = "firelu", name = "OperatorDef")]
#[derive(Clone, PartialEq)]
pub struct PyOperatorDef(pub OperatorDef);

#[guarded]
#[pymethods]
impl PyOperatorDef {
    #[getter]
    fn operator(&self) -> &str {
        &self.0.operator
    }
    #[getter]
    fn inputs(&self) -> Vec<String> {
        self.0.inputs.clone()
    }
    #[getter]
    fn outputs(&self) -> Vec<String> {
        self.0.outputs.clone()
    }
    #[getter]
    fn args<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in &self.0.args {
            dict.set_item(name, arg_to_python(py, value)?)?;
        }
        Ok(dict)
    }
    #[getter]
    fn device(&self) -> Option<&str> {
        self.0.device.as_deref()
    }
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Blobs that must have another blob's shape and dtype once this step has run.
    #[getter]
    fn like(&self) -> BTreeMap<String, String> {
        self.0.like.clone()
    }

    /// The definition as JSON text.
    fn to_json(&self) -> PyResult<String> {
        self.0.to_json().map_err(raise)
    }

    /// Read a definition from JSON text.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        OperatorDef::from_json(text).map(PyOperatorDef).map_err(raise)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<PyOperatorDef>().getattr("from_json")?, (self.to_json()?,)))
    }

    fn __repr__(&self) -> String {
        let def = &self.0;
        let mut parts = vec![format!("{:?}", def.operator), format!("{:?}", def.inputs), format!("{:?}", def.outputs)];
        parts.extend(def.args.iter().map(|(name, value)| format!("{name}={value}")));
        parts.extend(def.device.iter().map(|device| format!("device={device:?}")));
        if !def.name.is_empty() {
            parts.push(format!("name={:?}", def.name));
        }
        parts.extend(def.like.iter().map(|(name, like)| format!("{name} like {like}")));
        format!("OperatorDef({})", parts.join(", "))
    }
}

/// An argument's value as Python knows it.
pub fn arg_to_python<'py>(py: Python<'py>, value: &ArgValue) -> PyResult<Bound<'py, PyAny>> {
    match value {
        ArgValue::None => Ok(py.None().into_bound(py)),
        ArgValue::Bool(value) => value.into_bound_py_any(py),
        ArgValue::Int(value) => value.into_bound_py_any(py),
        ArgValue::Float(value) => value.into_bound_py_any(py),
        ArgValue::String(value) => value.into_bound_py_any(py),
        ArgValue::Ints(values) => values.into_bound_py_any(py),
        ArgValue::Floats(values) => values.into_bound_py_any(py),
    }
}

/// Blob names; a single text is one name, `None` an omitted one.
fn blob_names(operator: &str, argument: &str, object: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if let Ok(name) = object.extract::<String>() {
        return Ok(vec![name]);
    }
    let names = object.extract::<Vec<Option<String>>>().map_err(|_| {
        let message =
            format!("{operator}: {argument}: got {object}, takes a list of blob names, None where one is omitted");
        errors::new(object.py(), "ArgumentError", message)
    })?;
    Ok(names.into_iter().map(Option::unwrap_or_default).collect())
}

/// Make an operator definition; its names and arguments are checked now.
#[guarded]
#[pyfunction]
#[pyo3(signature = (operator, inputs, outputs, *, device=None, name="", **args))]
fn create_operator(
    operator: &str,
    inputs: &Bound<'_, PyAny>,
    outputs: &Bound<'_, PyAny>,
    device: Option<&str>,
    name: &str,
    args: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyOperatorDef> {
    let found = registry::find(operator).map_err(raise)?;
    let mut def = OperatorDef::new(operator, &[], &[]);
    def.inputs = blob_names(operator, "inputs", inputs)?;
    def.outputs = blob_names(operator, "outputs", outputs)?;
    def.name = name.into();
    def.device =
        device.map(|device| device.parse::<Device>().map(|device| device.to_string())).transpose().map_err(raise)?;
    for (name, value) in args.into_iter().flatten() {
        let name: String = name.extract()?;
        let spec = found.schema.args.iter().find(|spec| spec.name == name);
        let value = arg_value(operator, &name, spec, &value)?;
        def.args.insert(name, value);
    }
    registry::check_names(&found.schema, &def).map_err(raise)?;
    found.schema.resolve_args(def.args.iter().map(|(name, value)| (name, value.clone()))).map_err(raise)?;
    Ok(PyOperatorDef(def))
}

/// The backward definitions of a definition, and the names of the input gradients (None where zero).
#[guarded]
#[pyfunction]
fn get_gradient_defs<'py>(
    py: Python<'py>,
    op_def: &Bound<'py, PyOperatorDef>,
    output_gradients: Vec<Option<String>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let gradients: Vec<Option<String>> =
        output_gradients.into_iter().map(|name| name.filter(|name| !name.is_empty())).collect();
    let defs = registry::get_gradient_defs(&op_def.get().0, &gradients).map_err(raise)?;
    let operators: Vec<PyOperatorDef> = defs.operators.into_iter().map(PyOperatorDef).collect();
    PyTuple::new(py, [operators.into_bound_py_any(py)?, defs.input_gradients.into_bound_py_any(py)?])
}

/// What torch's bridge runs of some definitions: those that the results need, without the names of outputs that nobody
/// reads, and of which of the known blobs they read the values, of which only the shape.
#[guarded]
#[pyfunction]
fn reduce_definitions(
    operator: &str,
    definitions: Vec<PyRef<'_, PyOperatorDef>>,
    known: Vec<String>,
    results: Vec<Option<String>>,
) -> PyResult<(Vec<PyOperatorDef>, HashSet<String>, HashSet<String>)> {
    let definitions = definitions.iter().map(|definition| definition.0.clone()).collect();
    let plan = plan::reduce(operator, definitions, &known, &results).map_err(raise)?;
    let (mut values, mut shapes) = (HashSet::new(), HashSet::new());
    for (place, used) in plan.uses() {
        if let Ref::Input(index) = place {
            match used {
                Use::Values => values.insert(known[index].clone()),
                Use::Shape => shapes.insert(known[index].clone()),
            };
        }
    }
    let needed = |step: Step| {
        let names = step.def.outputs.iter().zip(&step.outputs);
        let outputs = names.map(|(name, number)| if number.is_some() { name.clone() } else { String::new() }).collect();
        PyOperatorDef(OperatorDef { outputs, ..step.def })
    };
    Ok((plan.steps.into_iter().map(needed).collect(), values, shapes))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyOperatorDef>()?;
    module.add_function(wrap_pyfunction!(create_operator, module)?)?;
    module.add_function(wrap_pyfunction!(get_gradient_defs, module)?)?;
    module.add_function(wrap_pyfunction!(reduce_definitions, module)?)
}
