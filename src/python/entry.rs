//! The door between Python and firelu, in both directions.
//!
//! - Python calls in through [`enter`], by way of `#[guarded]`: a panic becomes a `FireluError`.
//! - firelu calls functions of the user's through [`call`], takes the interpreter with [`attach`] and lets go of it with
//!   [`detach`].
//!
//! Each of them keeps a thread that Python ends. While the interpreter shuts down, a daemon thread that asks for it is
//! ended on the spot (by `pthread_exit` up to Python 3.13): its stack is unwound, and unwinding that passes a
//! `catch_unwind`, or a destructor that needs the interpreter, aborts the process. So such a thread stops where it is and
//! stays there, as later versions of Python do themselves, until the process has ended.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::errors;

/// Holds a thread that unwinds without a panic.
struct Stay;

impl Stay {
    /// Runs `body`; if Python ends the thread inside, it gets no further than here.
    #[inline]
    fn around<T>(body: impl FnOnce() -> T) -> T {
        let stay = Stay;
        let result = body();
        std::mem::forget(stay);
        result
    }
}

impl Drop for Stay {
    /// Runs only where `body` did not return.
    #[cold]
    fn drop(&mut self) {
        while !std::thread::panicking() {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
}

/// Runs what Python called. No panic reaches Python, whose users would not catch it: it is an ordinary exception.
#[inline]
pub fn enter<T>(name: &str, body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(|| Stay::around(body))).unwrap_or_else(|panic| Err(internal_error(name, &*panic)))
}

/// A defect of firelu's own.
#[cold]
fn internal_error(name: &str, panic: &(dyn std::any::Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    let message = format!("{name}: internal error, please report it: {}", text.unwrap_or("unknown"));
    Python::attach(|py| errors::new(py, "FireluError", message))
}

/// As [`Python::attach`], for kernels and makers that run without the interpreter.
pub fn attach<T>(body: impl for<'py> FnOnce(Python<'py>) -> T) -> T {
    Stay::around(|| Python::attach(body))
}

/// As [`Python::try_attach`].
pub fn try_attach<T>(body: impl for<'py> FnOnce(Python<'py>) -> T) -> Option<T> {
    Stay::around(|| Python::try_attach(body))
}

/// As [`Python::detach`].
pub fn detach<T: Send>(py: Python<'_>, body: impl FnOnce() -> T + Send) -> T {
    // The inner one stands between what `body` does and the taking back of the interpreter, the outer one behind that.
    Stay::around(|| py.detach(|| Stay::around(body)))
}

/// Calls a function of the user's, which may let go of the interpreter.
pub fn call<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    type Call =
        unsafe extern "C-unwind" fn(*mut ffi::PyObject, *mut ffi::PyObject, *mut ffi::PyObject) -> *mut ffi::PyObject;
    // SAFETY: both types of pointer are called alike. This one says that the call may unwind, without which the
    // compiler would leave `Stay` out; hidden from it, because elsewhere the function is declared the other way.
    let call = black_box(unsafe {
        std::mem::transmute::<
            unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject, *mut ffi::PyObject) -> *mut ffi::PyObject,
            Call,
        >(ffi::PyObject_Call)
    });
    let (function_pointer, args) = (function.as_ptr(), args.as_ptr());
    let keywords = keywords.map_or(std::ptr::null_mut(), |keywords| keywords.as_ptr());
    // Nothing but `Stay` may stand in this frame: whatever else is dropped might be an object.
    // SAFETY: the caller holds a callable object, a tuple and a dictionary or none, and is attached.
    let result = Stay::around(|| unsafe { call(function_pointer, args, keywords) });
    // SAFETY: the result is a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(function.py(), result) }
}
