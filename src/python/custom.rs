//! Operators and gradients that a user writes in Python.

use numpy::PyUntypedArray;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::arrays;
use super::definitions::{PyOperatorDef, arg_to_python};
use super::errors::{self, custom, raise};
use super::run::arg_value;
use crate::core::args::{ArgSpec, Args};
use crate::core::error::{Error, Result};
use crate::core::gradient::{Gradient, GradientDefs, GradientRequest};
use crate::core::operator::{Call, Operator};
use crate::core::schema::{InputSpec, OpSchema, OutputTypes, Signature};
use crate::core::tensor::{TensorType, TensorView, TensorViewMut};
use crate::devices::cpu::assign::assign;
use crate::registry;

/// Register an operator whose kernel is a Python function; see `firelu.register_operator`.
#[pyfunction]
#[pyo3(signature = (
    name, kernel, inputs, outputs, args, doc, optional, shape_only, variadic, inplace, infer, gradient
))]
#[allow(clippy::too_many_arguments)]
fn register_operator(
    name: &str,
    kernel: Bound<'_, PyAny>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    args: &Bound<'_, PyDict>,
    doc: &str,
    optional: Vec<String>,
    shape_only: Vec<String>,
    variadic: bool,
    inplace: Vec<(String, String)>,
    infer: Option<Bound<'_, PyAny>>,
    gradient: Option<Bound<'_, PyAny>>,
) -> PyResult<()> {
    let py = kernel.py();
    let refuse = |argument: &str, got: String, takes: &str| {
        Err(errors::new(py, "ArgumentError", format!("{name}: {argument}: got {got}, takes {takes}")))
    };
    if let Some(callable) = [Some(&kernel), infer.as_ref()].into_iter().flatten().find(|object| !object.is_callable()) {
        return refuse("kernel", callable.to_string(), "a callable");
    }
    if let Some(wrong) = optional.iter().chain(&shape_only).find(|input| !inputs.contains(input)) {
        return refuse("optional, shape_only", format!("{wrong:?}"), "names of inputs");
    }
    let mut schema = OpSchema::new(name, doc);
    for input in &inputs {
        let mut spec = InputSpec::new(input, "");
        spec.optional = optional.contains(input);
        spec.shape_only = shape_only.contains(input);
        schema = schema.input(spec);
    }
    schema.variadic = variadic;
    for output in &outputs {
        schema = schema.output(output, "");
    }
    for (argument, default) in args {
        let argument: String = argument.extract()?;
        let default = arg_value(name, &argument, None, &default)?;
        schema = schema.arg(ArgSpec::new(&argument, default, ""));
    }
    let mut pairs = Vec::new();
    for (input, output) in &inplace {
        let (input, output) = (inputs.iter().position(|i| i == input), outputs.iter().position(|o| o == output));
        let (Some(input), Some(output)) = (input, output) else {
            return refuse("inplace", format!("{inplace:?}"), "pairs of an input's and an output's name");
        };
        pairs.push((input, output));
    }
    schema = schema.allow_inplace(&pairs);
    schema = match infer {
        None => schema.identical_type_and_shape(),
        Some(infer) => {
            let (infer, count, specs) = (infer.unbind(), inputs.len(), schema.args.clone());
            schema.tensor_inference_function(move |signature| {
                Python::attach(|py| {
                    infer_types(infer.bind(py), count, &specs, signature).map_err(|e| custom(py, signature.operator, e))
                })
            })
        }
    };
    let (kernel, run_schema) = (kernel.unbind(), schema.clone());
    let mut operator = Operator::new(schema, move |call| {
        Python::attach(|py| run_kernel(kernel.bind(py), &run_schema, call).map_err(|e| custom(py, &run_schema.name, e)))
    });
    if let Some(maker) = gradient {
        operator.gradient = self::gradient(name, &maker)?;
    }
    registry::register(operator).map_err(raise)
}

/// Give a registered operator its gradient; see `firelu.register_gradient`.
#[pyfunction]
fn register_gradient(name: &str, maker: &Bound<'_, PyAny>) -> PyResult<()> {
    registry::set_gradient(name, gradient(name, maker)?).map_err(raise)
}

/// A gradient from a callable `(op_def, output_gradients) -> (op_defs, input_gradients)`; `None` stands
/// for one that is zero everywhere.
pub fn gradient(name: &str, maker: &Bound<'_, PyAny>) -> PyResult<Gradient> {
    if maker.is_none() {
        return Ok(Gradient::NotNeeded);
    }
    if !maker.is_callable() {
        let got = super::settings::short_repr(maker);
        let message = format!("{name}: gradient: got {got}, takes a callable, or None for no gradient");
        return Err(errors::new(maker.py(), "ArgumentError", message));
    }
    let maker = maker.clone().unbind();
    Ok(Gradient::defined(move |request: &GradientRequest<'_>| {
        Python::attach(|py| make(maker.bind(py), request).map_err(|failure| custom(py, &request.def.operator, failure)))
    }))
}

fn make(maker: &Bound<'_, PyAny>, request: &GradientRequest<'_>) -> PyResult<GradientDefs> {
    let py = maker.py();
    let answer = maker.call1((PyOperatorDef(request.def.clone()), request.output_gradients.to_vec()))?;
    let refuse = || {
        let (name, got) = (&request.def.operator, super::settings::short_repr(&answer));
        let takes = "a list of OperatorDef and a list with the name of each input's gradient, None where it is zero";
        errors::new(py, "ArgumentError", format!("{name}: gradient: got {got}, takes {takes}"))
    };
    let (operators, gradients): (Bound<'_, PyAny>, Vec<Option<String>>) = answer.extract().map_err(|_| refuse())?;
    let operators: Vec<Bound<'_, PyOperatorDef>> = operators.extract().map_err(|_| refuse())?;
    Ok(GradientDefs {
        operators: operators.into_iter().map(|def| def.get().0.clone()).collect(),
        input_gradients: gradients.into_iter().map(|name| name.filter(|name| !name.is_empty())).collect(),
    })
}

fn keywords<'py>(py: Python<'py>, specs: &[ArgSpec], args: &Args) -> PyResult<Bound<'py, PyDict>> {
    let keywords = PyDict::new(py);
    for (spec, value) in specs.iter().zip(args.values()) {
        keywords.set_item(&spec.name, arg_to_python(py, value)?)?;
    }
    Ok(keywords)
}

/// Asks the user's function for the output types.
fn infer_types(
    infer: &Bound<'_, PyAny>,
    inputs: usize,
    specs: &[ArgSpec],
    signature: &Signature<'_>,
) -> PyResult<OutputTypes> {
    let py = infer.py();
    // Inputs left out at the end are omitted ones like any other.
    let types = (0..signature.inputs.len().max(inputs)).map(|index| match signature.inputs.get(index) {
        None | Some(None) => Ok(py.None().into_bound(py)),
        Some(Some(kind)) => {
            let shape = PyTuple::new(py, kind.shape.iter())?;
            (shape, kind.dtype.name()).into_bound_py_any(py)
        }
    });
    let types = PyList::new(py, types.collect::<PyResult<Vec<_>>>()?)?;
    let answer = infer.call((types,), Some(&keywords(py, specs, signature.args)?))?;
    let name = signature.operator;
    let pairs: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = answer.extract().map_err(|_| {
        let got = super::settings::short_repr(&answer);
        let message = format!("{name}: infer: got {got}, takes a list of (shape, dtype), one for each output");
        errors::new(py, "ArgumentError", message)
    })?;
    let parse = |(shape, dtype): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        Ok(TensorType::new(arrays::parse_shape(name, &shape)?, arrays::parse_dtype(name, &dtype)?))
    };
    pairs.into_iter().map(parse).collect()
}

/// Calls the user's kernel on copies, which it may keep, and copies its results into the outputs.
fn run_kernel(kernel: &Bound<'_, PyAny>, schema: &OpSchema, call: &Call<'_>) -> PyResult<()> {
    let py = kernel.py();
    let count = call.inputs.len().max(schema.inputs.len());
    let inputs = (0..count).map(|index| match call.inputs.get(index) {
        None | Some(None) => Ok(py.None().into_bound(py)),
        Some(Some(view)) => array_copy(py, view).map(Bound::into_any),
    });
    let inputs = PyTuple::new(py, inputs.collect::<PyResult<Vec<_>>>()?)?;
    let answer = kernel.call(inputs, Some(&keywords(py, &schema.args, call.args)?))?;
    let answers = match answer.cast::<PyTuple>() {
        Ok(tuple) => tuple.clone(),
        Err(_) => PyTuple::new(py, [answer])?,
    };
    if answers.len() != schema.outputs.len() {
        let (name, got, count) = (&schema.name, answers.len(), schema.outputs.len());
        return Err(errors::new(py, "ArgumentError", format!("{name}: kernel: got {got} results, takes {count}")));
    }
    // All results are checked before the first output is written.
    let mut results = Vec::new();
    for (index, answer) in answers.iter().enumerate() {
        let Some(target) = &call.outputs[index] else { continue };
        results.push((target, result(schema, index, &answer, target)?));
    }
    for (target, (array, parts)) in results {
        // SAFETY: the array object owns this memory and lives to the end of this step.
        let view = unsafe { TensorView::from_parts(parts) };
        assign(target, &view).map_err(raise)?;
        drop(array);
    }
    Ok(())
}

type Answer<'py> = (Bound<'py, PyUntypedArray>, crate::core::tensor::Parts);

fn result<'py>(
    schema: &OpSchema,
    index: usize,
    answer: &Bound<'py, PyAny>,
    target: &TensorViewMut<'_>,
) -> PyResult<Answer<'py>> {
    let output = &schema.outputs[index].name;
    let (array, dtype) = arrays::as_float_array(&schema.name, output, answer)?;
    let parts = arrays::parts_of(&array, dtype);
    let check: Result<()> = if parts.kind.shape != target.kind.shape {
        Err(Error::shape(&schema.name, output, &parts.kind.shape, &target.kind.shape))
    } else if dtype != target.dtype() {
        Err(Error::dtype(&schema.name, output, dtype, target.dtype()))
    } else {
        Ok(())
    };
    check.map_err(raise)?;
    Ok((array, parts))
}

fn array_copy<'py>(py: Python<'py>, view: &TensorView<'_>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let array = arrays::new_array(py, &view.kind, &view.kind.shape.row_major_strides(view.dtype()))?;
    // SAFETY: the array is new, its memory is its own, and it lives to the end of this function.
    let target = unsafe { TensorViewMut::from_parts(arrays::parts_of(&array, view.dtype())) };
    assign(&target, view).map_err(raise)?;
    Ok(array)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(register_operator, module)?)?;
    module.add_function(wrap_pyfunction!(register_gradient, module)?)
}
