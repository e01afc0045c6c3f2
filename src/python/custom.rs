//! Operators and gradients that a user writes in Python.

use firelu_guarded::guarded;
use numpy::PyUntypedArray;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::arguments::arg_value;
use super::definitions::{PyOperatorDef, arg_to_python};
use super::errors::{self, custom, raise};
use super::{arrays, entry, foreign};
use crate::core::args::{ArgSpec, Args};
use crate::core::dtype::DType;
use crate::core::error::{Error, Result};
use crate::core::gradient::{Gradient, GradientDefs, GradientRequest};
use crate::core::operator::{Call, Operator};
use crate::core::schema::{InputSpec, OpSchema, OutputTypes, Signature};
use crate::core::tensor::{Parts, TensorType, TensorView, TensorViewMut};
use crate::devices::cpu::assign::assign;
use crate::registry;

/// Register an operator whose kernel is a Python function; see `firelu.register_operator`.
#[guarded]
#[pyfunction]
#[pyo3(signature = (
    name, kernel, inputs, outputs, args, doc, optional, shape_only, variadic, inplace, infer, gradient, replace=false
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
    replace: bool,
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
            let (infer, count, results, specs) = (infer.unbind(), inputs.len(), outputs.len(), schema.args.clone());
            schema.tensor_inference_function(move |signature| {
                entry::attach(|py| {
                    let types = infer_types(infer.bind(py), (count, results), &specs, signature);
                    types.map_err(|e| custom(py, signature.operator, e))
                })
            })
        }
    };
    let (kernel, run_schema) = (kernel.unbind(), schema.clone());
    let mut operator = Operator::new(schema, move |call| {
        entry::attach(|py| run_kernel(kernel.bind(py), &run_schema, call).map_err(|e| custom(py, &run_schema.name, e)))
    });
    if let Some(maker) = gradient {
        operator.gradient = self::gradient(name, &maker)?;
    }
    if replace { registry::replace(operator) } else { registry::register(operator) }.map_err(raise)
}

/// Give a registered operator its gradient; see `firelu.register_gradient`.
#[guarded]
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
        entry::attach(|py| make(maker.bind(py), request).map_err(|failure| custom(py, &request.def.operator, failure)))
    }))
}

fn make(maker: &Bound<'_, PyAny>, request: &GradientRequest<'_>) -> PyResult<GradientDefs> {
    let py = maker.py();
    let gradients = request.output_gradients.to_vec();
    let arguments = (PyOperatorDef(request.def.clone()), gradients).into_pyobject(py)?;
    let answer = entry::call(maker, &arguments, None)?;
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
    (inputs, outputs): (usize, usize),
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
    let (types, keywords) = (PyTuple::new(py, [types])?, keywords(py, specs, signature.args)?);
    let answer = entry::call(infer, &types, Some(&keywords))?;
    let name = signature.operator;
    let pairs: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = answer.extract().map_err(|_| {
        let got = super::settings::short_repr(&answer);
        let message = format!("{name}: infer: got {got}, takes a list of (shape, dtype), one for each output");
        errors::new(py, "ArgumentError", message)
    })?;
    if pairs.len() != outputs {
        let message = format!("{name}: infer: got {} types, takes {outputs}, one for each output", pairs.len());
        return Err(errors::new(py, "ArgumentError", message));
    }
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
    let answer = entry::call(kernel, &inputs, Some(&keywords(py, &schema.args, call.args)?))?;
    let answers = match answer.cast::<PyTuple>() {
        Ok(tuple) => tuple.clone(),
        Err(_) => PyTuple::new(py, [answer])?,
    };
    if answers.len() != schema.outputs.len() {
        let (name, got, count) = (&schema.name, answers.len(), schema.outputs.len());
        return Err(errors::new(py, "ArgumentError", format!("{name}: kernel: got {got} results, takes {count}")));
    }
    // All results are converted before the address of one is taken, and checked before the first output is written.
    let mut converted = Vec::new();
    for (index, answer) in answers.iter().enumerate() {
        let Some(target) = &call.outputs[index] else { continue };
        converted.push((index, target, arrays::as_float_array(&schema.name, &schema.outputs[index].name, &answer)?));
    }
    let mut results = Vec::new();
    for (index, target, (array, dtype)) in &converted {
        results.push((*target, checked_parts(schema, *index, array, *dtype, target).map_err(raise)?));
    }
    for (target, _) in &results {
        if !foreign::is_still_there(py, target) {
            let got = "an array that its kernel has resized";
            let message = format!("{}: out: got {got}, takes arrays that stay as they are", schema.name);
            return Err(errors::new(py, "ArgumentError", message));
        }
    }
    for (target, parts) in results {
        // SAFETY: the array in `converted` owns this memory, lives to the end of this function, and has not changed since:
        // no Python code runs in between.
        let view = unsafe { TensorView::from_parts(parts) };
        assign(target, &view).map_err(raise)?;
    }
    Ok(())
}

/// Where a result of the user's kernel is; refused where it is not of the output's type.
fn checked_parts(
    schema: &OpSchema,
    index: usize,
    array: &Bound<'_, PyUntypedArray>,
    dtype: DType,
    target: &TensorViewMut<'_>,
) -> Result<Parts> {
    let output = &schema.outputs[index].name;
    let parts = arrays::parts_of(array, dtype);
    if parts.kind.shape != target.kind.shape {
        let takes = format!("{}: register the operator with infer= where a shape differs", target.kind.shape);
        return Err(Error::shape(&schema.name, output, &parts.kind.shape, takes));
    }
    if dtype != target.dtype() {
        return Err(Error::dtype(&schema.name, output, dtype, target.dtype()));
    }
    Ok(parts)
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
