//! One match from [`Error`] to the exception classes of `firelu.errors`.

use std::cell::Cell;

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
        Error::Gradcheck(_) => new(py, "GradcheckError", &error),
        Error::Device { .. } => new(py, "DeviceError", &error),
        Error::OutOfMemory { device, .. } if *device == Device::Cpu.to_string() => {
            PyMemoryError::new_err(error.to_string())
        }
        Error::OutOfMemory { .. } => new(py, "DeviceError", &error),
        // The signal's own exception where its handler raised one; it is pending in this thread.
        Error::Interrupted => PyErr::take(py).unwrap_or_else(|| PyKeyboardInterrupt::new_err(())),
        Error::Custom { message, operator } => match CUSTOM.take().filter(|(text, _)| text == message) {
            Some((_, exception)) => noted(py, exception, operator),
            None => new(py, "FireluError", &error),
        },
    })
}

/// A user's exception, which keeps its class and text, with a note on where it was raised (from Python 3.11 on).
fn noted(py: Python<'_>, exception: PyErr, operator: &str) -> PyErr {
    let value = exception.value(py);
    if let Ok(Some(add_note)) = value.getattr_opt("add_note") {
        // A note is a courtesy: an exception whose class refuses it is raised without.
        let _ = add_note.call1((format!("raised in the operator {operator}"),));
    }
    exception
}

thread_local! {
    /// The last exception that a user's function raised in this thread, and its text in the [`Error`].
    static CUSTOM: Cell<Option<(String, PyErr)>> = const { Cell::new(None) };
}

/// An exception of a user's function as an [`Error`]; [`raise`] gives the exception itself back.
pub fn custom(py: Python<'_>, operator: &str, exception: PyErr) -> Error {
    let class = exception.get_type(py).name().map_or_else(|_| "exception".into(), |name| name.to_string());
    let message = format!("{class}: {}", exception.value(py));
    CUSTOM.set(Some((message.clone(), exception)));
    Error::Custom { operator: operator.into(), message }
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
