//! One match from [`Error`] to the exception classes of `firelu.errors`.

use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;

use crate::core::device::Device;
use crate::core::error::Error;

/// Turns an [`Error`] into its Python exception; for `map_err`.
pub fn raise(error: Error) -> PyErr {
    Python::attach(|py| match &error {
        Error::Shape(_) => new(py, "ShapeError", &error),
        Error::DType(_) => new(py, "DTypeError", &error),
        Error::Argument(_) => new(py, "ArgumentError", &error),
        Error::UnknownOperator { .. } => new(py, "UnknownOperatorError", &error),
        Error::NoGradient { .. } => new(py, "NoGradientError", &error),
        Error::Device { .. } => new(py, "DeviceError", &error),
        Error::OutOfMemory { device, .. } if *device == Device::Cpu.to_string() => {
            PyMemoryError::new_err(error.to_string())
        }
        Error::OutOfMemory { .. } => new(py, "DeviceError", &error),
        // The signal's own exception where its handler raised one; it is pending in this thread.
        Error::Interrupted => PyErr::take(py).unwrap_or_else(|| PyKeyboardInterrupt::new_err(())),
        Error::Custom { .. } => PyErr::take(py).unwrap_or_else(|| new(py, "FireluError", &error)),
    })
}

/// An exception of one of the classes of `firelu.errors`.
pub fn new(py: Python<'_>, class: &str, message: impl std::fmt::Display) -> PyErr {
    static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let class = ERRORS
        .get_or_try_init(py, || py.import("firelu.errors").map(Bound::unbind))
        .and_then(|errors| errors.bind(py).getattr(class));
    match class.and_then(|class| class.call1((message.to_string(),))) {
        Ok(value) => PyErr::from_value(value),
        Err(failure) => failure,
    }
}
