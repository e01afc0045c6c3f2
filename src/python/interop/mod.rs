//! Memory shared with other libraries: DLPack and `__cuda_array_interface__`, both ways.

pub mod device;
pub mod dlpack;
pub mod exchange;
pub mod export;
pub mod import;

use firelu_guarded::guarded;
use pyo3::prelude::*;

use super::errors;
use super::tensor::PyTensor;
use crate::graph::tape::Variable;

/// Share the memory of an object with `__dlpack__`; see `firelu.from_dlpack`.
#[guarded]
#[pyfunction]
fn from_dlpack(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    if !object.hasattr("__dlpack__")? || !object.hasattr("__dlpack_device__")? {
        let got = object.get_type().name()?;
        let message = format!("from_dlpack: object: got {got}, takes one with __dlpack__ and __dlpack_device__");
        return Err(errors::new(py, "ArgumentError", message));
    }
    let device::Foreign { tensor, read_only, .. } = import::by_dlpack(object)?;
    Ok(if read_only { Variable::read_only(tensor) } else { Variable::constant(tensor) }.into())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(from_dlpack, module)?)
}
