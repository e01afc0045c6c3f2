//! `firelu.schema(name)`: what an operator takes and gives, and inference without computing.

use std::sync::Arc;

use firelu_guarded::guarded;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use smallvec::SmallVec;

use super::definitions::arg_to_python;
use super::errors::{self, raise};
use super::tensor::tensor_like;
use super::{arrays, run};
use crate::core::args::ArgSpec;
use crate::core::example::Example;
use crate::core::operator::Operator;
use crate::core::schema::{InputSpec, OutputSpec};
use crate::core::tensor::{Tensor, TensorType};
use crate::registry;

/// One input of an operator.
#[pyclass(frozen, get_all, module = "firelu", name = "Input")]
struct PyInput {
    name: String,
    doc: String,
    optional: bool,
    shape_only: bool,
    dtype: &'static str,
}

/// One output of an operator.
#[pyclass(frozen, get_all, module = "firelu", name = "Output")]
struct PyOutput {
    name: String,
    doc: String,
}

/// One argument of an operator.
#[pyclass(frozen, module = "firelu", name = "Argument")]
struct PyArgument(ArgSpec);

/// What a call does: floating-point operations, bytes read, bytes written.
#[pyclass(frozen, get_all, eq, module = "firelu", name = "OpCost")]
#[derive(PartialEq)]
struct PyOpCost {
    flops: u64,
    bytes_read: u64,
    bytes_written: u64,
}

/// A call as Python sees it: the shapes of the inputs, None for an omitted one, and the arguments.
type ExampleCall<'py> = (Vec<Option<Bound<'py, PyTuple>>>, Bound<'py, PyDict>);

/// The inputs, outputs, arguments and element types of an operator.
#[pyclass(frozen, module = "firelu", name = "OpSchema")]
struct PyOpSchema(Arc<Operator>);

#[guarded]
#[pymethods]
impl PyInput {
    fn __repr__(&self) -> String {
        let optional = if self.optional { ", optional" } else { "" };
        let shape_only = if self.shape_only { ", only its shape and dtype count" } else { "" };
        format!("Input({}{optional}{shape_only}: {})", self.name, self.doc)
    }
}

#[guarded]
#[pymethods]
impl PyOutput {
    fn __repr__(&self) -> String {
        format!("Output({}: {})", self.name, self.doc)
    }
}

#[guarded]
#[pymethods]
impl PyArgument {
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }
    #[getter]
    fn r#type(&self) -> &str {
        self.0.kind.name()
    }
    #[getter]
    fn default<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.default.as_ref().map(|value| arg_to_python(py, value)).transpose()
    }
    #[getter]
    fn range(&self) -> Option<(f64, f64)> {
        self.0.range
    }
    #[getter]
    fn choices(&self) -> Option<Vec<&'static str>> {
        let names = self.0.choices.iter().map(|names| names[0]);
        (!self.0.choices.is_empty()).then(|| names.collect())
    }
    #[getter]
    fn doc(&self) -> &str {
        &self.0.doc
    }
    fn __repr__(&self) -> String {
        let default = self.0.default.as_ref().map_or(String::new(), |value| format!(" = {value}"));
        format!("Argument({}: {}{default}: {})", self.0.name, self.0.kind.name(), self.0.doc)
    }
}

#[guarded]
#[pymethods]
impl PyOpCost {
    fn __repr__(&self) -> String {
        let PyOpCost { flops, bytes_read, bytes_written } = self;
        format!("OpCost(flops={flops}, bytes_read={bytes_read}, bytes_written={bytes_written})")
    }
}

#[guarded]
#[pymethods]
impl PyOpSchema {
    #[getter]
    fn name(&self) -> &str {
        &self.0.schema.name
    }
    #[getter]
    fn doc(&self) -> &str {
        &self.0.schema.doc
    }
    #[getter]
    fn inputs(&self) -> Vec<PyInput> {
        let make = |input: &InputSpec| PyInput {
            name: input.name.clone(),
            doc: input.doc.clone(),
            optional: input.optional,
            shape_only: input.shape_only,
            dtype: input.dtype.name(),
        };
        self.0.schema.inputs.iter().map(make).collect()
    }
    /// Whether the last input may be repeated.
    #[getter]
    fn variadic(&self) -> bool {
        self.0.schema.variadic
    }
    #[getter]
    fn outputs(&self) -> Vec<PyOutput> {
        let make = |output: &OutputSpec| PyOutput { name: output.name.clone(), doc: output.doc.clone() };
        self.0.schema.outputs.iter().map(make).collect()
    }
    #[getter]
    fn args(&self) -> Vec<PyArgument> {
        self.0.schema.args.iter().cloned().map(PyArgument).collect()
    }
    /// Pairs of an input's and an output's name that may be the same array.
    #[getter]
    fn allow_inplace(&self) -> Vec<(String, String)> {
        let schema = &self.0.schema;
        let names = |&(input, output): &(usize, usize)| {
            (schema.inputs[input].name.clone(), schema.outputs[output].name.clone())
        };
        schema.inplace.iter().map(names).collect()
    }
    /// The input whose memory order the outputs keep, or None where they are row-major.
    #[getter]
    fn layout_of(&self) -> Option<&str> {
        let schema = &self.0.schema;
        schema.layout_of.and_then(|index| schema.inputs.get(index)).map(|input| input.name.as_str())
    }
    #[getter]
    fn identical_type_and_shape(&self) -> bool {
        self.0.schema.identical
    }
    /// The ONNX operator of the same meaning, or None.
    #[getter]
    fn onnx(&self) -> Option<&str> {
        self.0.schema.onnx.as_deref()
    }
    #[getter]
    fn devices(&self) -> Vec<&'static str> {
        self.0.devices()
    }
    #[getter]
    fn dtypes(&self) -> Vec<&'static str> {
        self.0.schema.dtypes.iter().map(|dtype| dtype.name()).collect()
    }
    /// Calls that show what it does, each the shapes of the inputs (None for an omitted one) and the arguments.
    #[getter]
    fn examples<'py>(&self, py: Python<'py>) -> PyResult<Vec<ExampleCall<'py>>> {
        let call = |example: &Example| {
            let shape = |shape: &Option<Vec<usize>>| shape.as_ref().map(|shape| PyTuple::new(py, shape)).transpose();
            let args = PyDict::new(py);
            for (name, value) in &example.args {
                args.set_item(name, arg_to_python(py, value)?)?;
            }
            Ok((example.inputs.iter().map(shape).collect::<PyResult<_>>()?, args))
        };
        self.0.schema.examples.iter().map(call).collect()
    }
    /// What a call costs, in words; `cost` computes it.
    #[getter]
    fn cost_formula(&self) -> &str {
        self.0.schema.cost_in_words()
    }
    /// One of "defined", "not needed" and "not written", or "forbidden" and the reason.
    #[getter]
    fn gradient(&self) -> String {
        self.0.gradient.to_string()
    }

    /// The (shape, dtype) of each output; nothing is computed.
    #[pyo3(signature = (inputs, **args))]
    fn infer<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyAny>,
        args: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let types = self.parse_types(inputs)?;
        let args = run::named_args(&self.0, args)?;
        let types: SmallVec<[Option<&TensorType>; 4]> = types.iter().map(Option::as_ref).collect();
        let outputs = self.0.schema.infer(&types, &args).map_err(raise)?;
        let pairs = outputs.iter().map(|kind| {
            let shape = PyTuple::new(py, kind.shape.iter())?.into_any();
            let dtype = match arrays::descriptor(py, kind.dtype) {
                Ok(dtype) => dtype.into_any(),
                // Without ml_dtypes numpy has no bfloat16: its name serves as well.
                Err(_) => PyString::new(py, kind.dtype.name()).into_any(),
            };
            PyTuple::new(py, [shape, dtype])
        });
        PyList::new(py, pairs.collect::<PyResult<Vec<_>>>()?)
    }

    /// What a call costs; nothing is computed.
    #[pyo3(signature = (inputs, **args))]
    fn cost(&self, inputs: &Bound<'_, PyAny>, args: Option<&Bound<'_, PyDict>>) -> PyResult<PyOpCost> {
        let types = self.parse_types(inputs)?;
        let args = run::named_args(&self.0, args)?;
        let types: SmallVec<[Option<&TensorType>; 4]> = types.iter().map(Option::as_ref).collect();
        let cost = self.0.schema.cost(&types, &args).map_err(raise)?;
        Ok(PyOpCost { flops: cost.flops, bytes_read: cost.bytes_read, bytes_written: cost.bytes_written })
    }

    /// Which path the CPU takes for a call on these arrays, in a sentence; None where there is only one. Nothing is computed.
    #[pyo3(signature = (*inputs, **args))]
    fn explain(&self, inputs: &Bound<'_, PyTuple>, args: Option<&Bound<'_, PyDict>>) -> PyResult<Option<String>> {
        let schema = &self.0.schema;
        let args = run::named_args(&self.0, args)?;
        let mut tensors: SmallVec<[Option<Tensor>; 4]> = SmallVec::new();
        for (index, input) in inputs.iter().enumerate() {
            let name = schema.inputs.get(index).map_or("inputs", |input| input.name.as_str());
            let tensor = (!input.is_none()).then(|| tensor_like(&schema.name, name, &input)).transpose()?;
            tensors.push(tensor);
        }
        let tensors: SmallVec<[Option<&Tensor>; 4]> = tensors.iter().map(Option::as_ref).collect();
        registry::explain(&self.0, &tensors, &args).map_err(raise)
    }

    fn __repr__(&self) -> String {
        let schema = &self.0.schema;
        let names = |names: Vec<&str>| names.join(", ");
        let inputs = names(schema.inputs.iter().map(|input| input.name.as_str()).collect());
        let outputs = names(schema.outputs.iter().map(|output| output.name.as_str()).collect());
        let args = names(schema.args.iter().map(|arg| arg.name.as_str()).collect());
        format!("OpSchema({}({inputs}; {args}) -> {outputs})", schema.name)
    }
}

impl PyOpSchema {
    fn parse_types(&self, inputs: &Bound<'_, PyAny>) -> PyResult<SmallVec<[Option<TensorType>; 4]>> {
        let name = &self.0.schema.name;
        let mut types = SmallVec::new();
        for item in inputs.try_iter()? {
            let item = item?;
            if item.is_none() {
                types.push(None);
                continue;
            }
            let Ok((shape, dtype)) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() else {
                let message =
                    format!("{name}: inputs: got {item}, takes (shape, dtype) pairs, None where one is omitted");
                return Err(errors::new(inputs.py(), "ArgumentError", message));
            };
            types.push(Some(TensorType::new(arrays::parse_shape(name, &shape)?, arrays::parse_dtype(name, &dtype)?)));
        }
        Ok(types)
    }
}

/// The schema of an operator.
#[guarded]
#[pyfunction]
fn schema(name: &str) -> PyResult<PyOpSchema> {
    registry::find(name).map(PyOpSchema).map_err(raise)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyInput>()?;
    module.add_class::<PyOutput>()?;
    module.add_class::<PyArgument>()?;
    module.add_class::<PyOpCost>()?;
    module.add_class::<PyOpSchema>()?;
    module.add_function(wrap_pyfunction!(schema, module)?)
}
