//! Python values as arguments of operators.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::{errors, settings};
use crate::core::args::{ArgKind, ArgSpec, ArgValue};

/// A Python value as an argument; the schema's type decides where Python leaves it open.
pub fn arg_value(operator: &str, name: &str, spec: Option<&ArgSpec>, value: &Bound<'_, PyAny>) -> PyResult<ArgValue> {
    let refuse = || {
        let takes = spec.map_or("a bool, int, float, str or a list of numbers", |spec| spec.kind.name());
        let message = format!("{operator}: {name}: got {}, takes {takes}", settings::short_repr(value));
        errors::new(value.py(), "ArgumentError", message)
    };
    if let Ok(value) = value.cast_exact::<PyFloat>() {
        return Ok(ArgValue::Float(value.extract()?));
    }
    if value.is_none() && spec.is_some_and(|spec| spec.kind == ArgKind::OptionalFloat) {
        return Ok(ArgValue::None);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(ArgValue::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        return value.extract().map(ArgValue::Int).map_err(|_| refuse());
    }
    if value.is_instance_of::<PyString>() {
        return Ok(ArgValue::String(value.extract::<String>()?.into()));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        if let Ok(values) = value.extract::<Vec<i64>>() {
            return Ok(ArgValue::Ints(values));
        }
        return value.extract().map(ArgValue::Floats).map_err(|_| refuse());
    }
    // An array without dimensions is the number in it.
    if let Ok(array) = value.cast::<PyUntypedArray>()
        && array.ndim() == 0
    {
        return arg_value(operator, name, spec, &array.call_method0("item")?);
    }
    // numpy's scalars and other numbers say what they are by what they convert to; a truth value is no number.
    let class = value.get_type();
    if class.name().is_ok_and(|n| n == "bool" || n == "bool_") && class.module().is_ok_and(|m| m == "numpy") {
        return value.is_truthy().map(ArgValue::Bool);
    }
    if value.hasattr("__index__")? {
        return value.extract().map(ArgValue::Int).map_err(|_| refuse());
    }
    if value.hasattr("__float__")? && !value.hasattr("__len__")? {
        return value.extract().map(ArgValue::Float).map_err(|_| refuse());
    }
    Err(refuse())
}
