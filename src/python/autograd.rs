//! Operators on tensors: run, recorded where a gradient is needed, and run backward.

use std::sync::Arc;

use firelu_guarded::guarded;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use super::errors::{self, raise};
use super::foreign::HELD_BYTES;
use super::tensor::{PyTensor, tensor_from};
use super::{arrays, custom, entry};
use crate::core::args::{ArgValue, Args};
use crate::core::device::Device;
use crate::core::dtype::DType;
use crate::core::error::Result;
use crate::core::operator::Operator;
use crate::core::tensor::TensorType;
use crate::graph::context::{Context, with_context};
use crate::graph::tape::{self, BackwardOptions, Variable};
use crate::{devices, registry};

/// What holds for the calls of one thread or task: recording, and overridden gradients.
#[pyclass(frozen, module = "firelu._firelu", name = "Context")]
pub struct PyContext(Context);

#[guarded]
#[pymethods]
impl PyContext {
    #[new]
    fn new() -> Self {
        PyContext(Context::default())
    }

    /// Whether operators on tensors are recorded.
    #[getter]
    fn recording(&self) -> bool {
        self.0.recording
    }

    /// The same with another answer to whether operators are recorded.
    fn with_recording(&self, recording: bool) -> Self {
        PyContext(Context { recording, ..self.0.clone() })
    }

    /// The same with further gradient makers: operator name to callable, or None for no gradient.
    fn with_gradients(&self, makers: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut context = self.0.clone();
        let overrides = Arc::make_mut(&mut context.overrides);
        for (name, maker) in makers {
            let name: String = name.extract()?;
            registry::find(&name).map_err(raise)?;
            let gradient = custom::gradient(&name, &maker)?;
            overrides.insert(name, gradient);
        }
        Ok(PyContext(context))
    }
}

static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The context of this thread and task.
fn current(py: Python<'_>) -> PyResult<Context> {
    let variable = VARIABLE.get(py).expect("set when the module was made");
    let context = variable.bind(py).call_method0(pyo3::intern!(py, "get"))?;
    Ok(context.cast::<PyContext>()?.get().0.clone())
}

/// Runs `body` in the caller's context, without the interpreter where `bytes` of work are worth it.
pub fn compute<T: Send>(py: Python<'_>, bytes: usize, body: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let context = current(py)?;
    let run = || with_context(context, body);
    if bytes <= HELD_BYTES { run() } else { entry::detach(py, run) }.map_err(raise)
}

/// Runs a looked-up operator on tensors; arrays among them become constants.
pub fn run<'py>(operator: &Operator, inputs: &Bound<'py, PyTuple>, args: &Args) -> PyResult<Bound<'py, PyAny>> {
    let py = inputs.py();
    let mut variables: Vec<Option<Variable>> = Vec::with_capacity(inputs.len());
    for (index, object) in inputs.iter().enumerate() {
        let schema = &operator.schema;
        let argument = if schema.inputs.is_empty() { "inputs" } else { &schema.input_spec(index).name };
        variables.push(match object.cast::<PyTensor>() {
            Ok(tensor) => Some(tensor.get().variable()),
            Err(_) if object.is_none() => None,
            Err(_) => Some(Variable::constant(tensor_from(&schema.name, argument, &object, None)?)),
        });
    }
    let mut outputs = apply(py, operator, &variables, args)?;
    if outputs.len() == 1 {
        return Ok(Bound::new(py, PyTensor::from(outputs.swap_remove(0)))?.into_any());
    }
    let outputs = outputs.into_iter().map(|output| Bound::new(py, PyTensor::from(output)));
    Ok(PyTuple::new(py, outputs.collect::<PyResult<Vec<_>>>()?)?.into_any())
}

fn apply(py: Python<'_>, operator: &Operator, inputs: &[Option<Variable>], args: &Args) -> PyResult<Vec<Variable>> {
    // A device may be waited for, and its kernels compiled on first use.
    let here = inputs.iter().flatten().all(|input| input.value().device() == Device::Cpu);
    let bytes = inputs.iter().flatten().map(|input| input.value().kind().bytes()).sum();
    let bytes = if here { bytes } else { usize::MAX };
    let outputs = compute(py, bytes, || {
        let inputs: Vec<Option<&Variable>> = inputs.iter().map(Option::as_ref).collect();
        tape::apply_operator(operator, &inputs, args, &vec![true; operator.schema.outputs.len()])
    })?;
    Ok(outputs.into_iter().map(|output| output.expect("every output is wanted")).collect())
}

/// Runs an operator with one output by name.
pub fn apply_one(
    py: Python<'_>,
    name: &str,
    inputs: Vec<Variable>,
    args: impl IntoIterator<Item = (&'static str, ArgValue)>,
) -> PyResult<PyTensor> {
    let operator = registry::find(name).map_err(raise)?;
    let args = operator.schema.resolve_args(args).map_err(raise)?;
    let inputs: Vec<Option<Variable>> = inputs.into_iter().map(Some).collect();
    Ok(PyTensor::from(apply(py, &operator, &inputs, &args)?.swap_remove(0)))
}

/// A number as a tensor without dimensions beside another tensor.
pub fn scalar(value: f64, beside: &Variable) -> PyResult<Variable> {
    let kind = TensorType::new([], beside.value().dtype());
    devices::filled(beside.value().device(), &kind, value).map(Variable::constant).map_err(raise)
}

/// `left op right`, where one is a tensor and the other a tensor, a number, an array or a list; `None`
/// where Python should ask the other object.
pub fn binary(name: &str, tensor: &PyTensor, other: &Bound<'_, PyAny>, reflected: bool) -> PyResult<Option<PyTensor>> {
    let py = other.py();
    let this = tensor.variable();
    let other = match other.cast::<PyTensor>() {
        Ok(other) => other.get().variable(),
        Err(_) if arrays::is_number(other) => scalar(other.extract()?, &this)?,
        Err(_) if is_array_like(other)? => {
            let dtype: Option<DType> = (!other.hasattr("dtype")?).then(|| this.value().dtype());
            Variable::constant(tensor_from(name, "other", other, dtype)?)
        }
        Err(_) => return Ok(None),
    };
    let inputs = if reflected { vec![other, this] } else { vec![this, other] };
    apply_one(py, name, inputs, []).map(Some)
}

fn is_array_like(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.hasattr("__array__")?
        || object.is_instance_of::<pyo3::types::PyList>()
        || object.is_instance_of::<PyTuple>())
}

/// See `firelu.grad`: the gradient of each input, zeros where no output depends on it.
#[guarded]
#[pyfunction]
#[pyo3(signature = (outputs, inputs, grad_outputs, retain_graph, create_graph))]
fn grad(
    py: Python<'_>,
    outputs: Vec<Bound<'_, PyTensor>>,
    inputs: Vec<Bound<'_, PyTensor>>,
    grad_outputs: Vec<Option<Bound<'_, PyTensor>>>,
    retain_graph: bool,
    create_graph: bool,
) -> PyResult<Vec<PyTensor>> {
    let variables = |tensors: &[Bound<'_, PyTensor>]| tensors.iter().map(|t| t.get().variable()).collect::<Vec<_>>();
    let (outputs, inputs) = (variables(&outputs), variables(&inputs));
    let starts: Vec<Option<Variable>> =
        grad_outputs.iter().map(|start| start.as_ref().map(|start| start.get().variable())).collect();
    let options = BackwardOptions { retain_graph, create_graph };
    let found: PyResult<Vec<Variable>> = compute(py, usize::MAX, || {
        let found = tape::grad(&outputs, &inputs, &starts, options)?;
        let zeros = |input: &Variable| devices::filled(input.value().device(), input.value().kind(), 0.0);
        let filled = found.into_iter().zip(&inputs);
        filled.map(|(gradient, input)| gradient.map_or_else(|| zeros(input).map(Variable::constant), Ok)).collect()
    });
    Ok(found?.into_iter().map(PyTensor::from).collect())
}

/// See `Tensor.backward`.
pub fn backward(
    tensor: &PyTensor,
    py: Python<'_>,
    gradient: Option<&Bound<'_, PyAny>>,
    retain_graph: bool,
) -> PyResult<()> {
    let variable = tensor.variable();
    let gradient = match gradient {
        None => None,
        Some(gradient) => match gradient.cast::<PyTensor>() {
            Ok(gradient) => Some(gradient.get().variable().value().clone()),
            Err(_) if arrays::is_number(gradient) && variable.value().shape().is_empty() => {
                Some(scalar(gradient.extract()?, &variable)?.value().clone())
            }
            Err(_) => {
                let dtype: Option<DType> = (!gradient.hasattr("dtype")?).then(|| variable.value().dtype());
                Some(tensor_from("backward", "gradient", gradient, dtype)?)
            }
        },
    };
    let options = BackwardOptions { retain_graph, create_graph: false };
    compute(py, usize::MAX, || variable.backward(gradient, options))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let default = PyDict::new(py);
    default.set_item("default", Bound::new(py, PyContext(Context::default()))?)?;
    let variable = py.import("contextvars")?.getattr("ContextVar")?.call(("firelu_context",), Some(&default))?;
    module.add("context_variable", VARIABLE.get_or_init(py, || variable.unbind()))?;
    module.add_class::<PyContext>()?;
    module.add_function(wrap_pyfunction!(grad, module)?)
}

/// Refuses a call with an output of the caller's that would have to be recorded.
pub fn refuse_recording(operator: &str, inputs: &Bound<'_, PyTuple>) -> PyResult<()> {
    let py = inputs.py();
    let requires =
        |input: Borrowed<'_, '_, PyAny>| input.cast::<PyTensor>().is_ok_and(|t| t.get().variable().requires_gradient());
    if current(py)?.recording && inputs.iter_borrowed().any(requires) {
        let message = format!(
            "{operator}: out: got an output beside inputs that require a gradient, takes None: recorded results have memory of their own"
        );
        return Err(errors::new(py, "ArgumentError", message));
    }
    Ok(())
}

/// Refuses to write to memory that the tape holds or that takes part in a graph.
pub fn check_writable(operator: &str, tensor: &PyTensor, py: Python<'_>) -> PyResult<()> {
    let variable = tensor.variable();
    if variable.is_saved() || variable.requires_gradient() {
        let message =
            format!("{operator}: out: got a Tensor that takes part in a graph, takes a detached one of its own");
        return Err(errors::new(py, "ArgumentError", message));
    }
    Ok(())
}
