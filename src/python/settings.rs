//! Threads, instruction-set level, pooled memory and devices, as Python sees them.

use std::num::NonZeroUsize;

use firelu_guarded::guarded;
use numpy::PyUntypedArray;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::errors::{self, raise};
use super::{arrays, entry};
use crate::core::error::Error;
use crate::devices::cpu::copy::{Method, copy};
use crate::devices::cpu::features::Level;
use crate::devices::cpu::memory::caches;
use crate::devices::cpu::{environment, memory, parallel};
use crate::registry;

/// A value as an error message shows it: its `repr`, cut short.
pub fn short_repr(value: &Bound<'_, PyAny>) -> String {
    let text = value.repr().map_or_else(|_| "an object without a repr".to_string(), |text| text.to_string());
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The sorted names of all registered operators.
#[guarded]
#[pyfunction]
fn operators() -> Vec<String> {
    registry::names()
}

/// How many threads a call uses at most.
#[guarded]
#[pyfunction]
fn get_num_threads() -> usize {
    parallel::threads()
}

/// Set how many threads calls use at most, for the whole process.
#[guarded]
#[pyfunction]
fn set_num_threads(threads: &Bound<'_, PyAny>) -> PyResult<()> {
    let takes = format!("1 to {}", environment::MOST_THREADS);
    parallel::set_threads(whole_number("set_num_threads", "threads", threads, &takes)?).map_err(raise)
}

/// A number that is neither negative nor beyond 64 bits.
fn whole_number(function: &str, argument: &str, value: &Bound<'_, PyAny>, takes: &str) -> PyResult<usize> {
    value.extract().map_err(|_| {
        let message = format!("{function}: {argument}: got {}, takes {takes}", short_repr(value));
        errors::new(value.py(), "ArgumentError", message)
    })
}

/// Call a function with so many threads for what this thread calls meanwhile, whatever the process has.
#[guarded]
#[pyfunction]
fn call_with_threads<'py>(threads: &Bound<'py, PyAny>, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let takes = format!("1 to {}", environment::MOST_THREADS);
    let threads = whole_number("call_with_threads", "threads", threads, &takes)?.clamp(1, environment::MOST_THREADS);
    parallel::with_threads(threads, || entry::call(function, &PyTuple::empty(function.py()), None))
}

/// What the number of threads comes from: "set_num_threads", an environment variable's name, or
/// "affinity and cgroup limits".
#[guarded]
#[pyfunction]
fn num_threads_source() -> &'static str {
    parallel::threads_source()
}

/// What is wrong with firelu's environment variables, a line for each; importing firelu warns of them.
#[guarded]
#[pyfunction]
fn environment_problems() -> Vec<String> {
    environment::problems()
}

/// Warns of environment variables that are not understood: no call could fail for them.
pub fn warn_of_environment(py: Python<'_>) -> PyResult<()> {
    for problem in environment::problems() {
        let message = std::ffi::CString::new(problem.replace('\0', "?"))?;
        PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &message, 1)?;
    }
    Ok(())
}

/// The instruction-set level that kernels use: "native", "avx2", "avx512" or "neon".
#[guarded]
#[pyfunction]
fn get_cpu_level() -> String {
    Level::current().to_string()
}

/// Make kernels use another level, for the whole process; one that the processor lacks is refused.
#[guarded]
#[pyfunction]
fn set_cpu_level(level: &str) -> PyResult<()> {
    level.parse().and_then(Level::set_current).map_err(raise)
}

/// Every level this processor has, lowest first.
#[guarded]
#[pyfunction]
fn cpu_levels() -> Vec<String> {
    Level::available().iter().map(ToString::to_string).collect()
}

/// From how many bytes read and written on stores bypass the caches.
#[guarded]
#[pyfunction]
fn get_non_temporal_bytes() -> usize {
    caches::threshold().bytes
}

/// The same as a sentence with its reason, for reports.
#[guarded]
#[pyfunction]
fn non_temporal_reason() -> String {
    caches::threshold().to_string()
}

/// Make stores bypass the caches from so many bytes on; None for what is found out about this machine. Results have the
/// same bits either way.
#[guarded]
#[pyfunction]
fn set_non_temporal_bytes(bytes: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let takes = "a number of bytes from 1 on, or None";
    let bytes = bytes.map(|bytes| whole_number("set_non_temporal_bytes", "bytes", bytes, takes)).transpose()?;
    let refuse = || raise(Error::argument("set_non_temporal_bytes", "bytes", 0, takes));
    caches::pin(bytes.map(|bytes| NonZeroUsize::new(bytes).ok_or_else(refuse)).transpose()?);
    Ok(())
}

/// What the pool of output memory holds and has done, in bytes and blocks.
#[guarded]
#[pyfunction]
fn memory_stats(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let stats = memory::stats();
    let dict = PyDict::new(py);
    dict.set_item("in_use", stats.in_use)?;
    dict.set_item("cached", stats.cached)?;
    dict.set_item("limit", stats.limit)?;
    dict.set_item("recycled", stats.recycled)?;
    dict.set_item("mapped", stats.mapped)?;
    Ok(dict)
}

/// Return every cached block of output memory to the system.
#[guarded]
#[pyfunction]
fn empty_cache() {
    memory::empty_cache();
}

/// Set how many bytes of freed output memory are kept for later calls.
#[guarded]
#[pyfunction]
fn set_cache_limit(bytes: &Bound<'_, PyAny>) -> PyResult<()> {
    memory::set_cache_limit(whole_number("set_cache_limit", "bytes", bytes, "a number of bytes, 0 or more")?);
    Ok(())
}

/// Copy one array's bytes to another, as fast as possible: the yardstick of the benchmarks.
#[guarded]
#[pyfunction]
#[pyo3(signature = (source, target, streaming))]
fn copy_bytes(
    py: Python<'_>,
    source: &Bound<'_, PyUntypedArray>,
    target: &Bound<'_, PyUntypedArray>,
    streaming: bool,
) -> PyResult<()> {
    let refuse = |takes: &str| errors::new(py, "ArgumentError", format!("copy_bytes: got other arrays, takes {takes}"));
    let (from, from_type) = arrays::as_float_array("copy_bytes", "source", source.as_any())?;
    let (to, to_type) = arrays::as_float_array("copy_bytes", "target", target.as_any())?;
    let (from, to) = (arrays::parts_of(&from, from_type), arrays::parts_of(&to, to_type));
    if from.kind != to.kind || !from.is_row_major() || !to.is_row_major() || from.may_overlap(&to) {
        return Err(refuse("two row-major arrays of one shape and dtype that do not overlap"));
    }
    if !arrays::is_writeable(target) || !to.is_same_memory(&arrays::parts_of(target, to_type)) {
        return Err(refuse("a target that can be written to, in the machine's byte order"));
    }
    let method = if streaming { Method::Streaming } else { Method::Plain };
    let (bytes, source, target) = (from.kind.bytes(), from.pointer as usize, to.pointer as usize);
    // SAFETY: both arrays are dense, as large as that, apart from each other, and alive during the call.
    entry::detach(py, || unsafe { copy(source as *const u8, target as *mut u8, bytes, method) }).map_err(raise)
}

/// How many float32 multiply-adds the threads do in a second at the current level: the yardstick of filters.
#[guarded]
#[pyfunction]
fn multiply_adds_per_second(py: Python<'_>) -> PyResult<f64> {
    entry::detach(py, firelu_filters::rate::multiply_adds_per_second::<f32>).map_err(raise)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(operators, module)?)?;
    module.add_function(wrap_pyfunction!(get_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(set_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(call_with_threads, module)?)?;
    module.add_function(wrap_pyfunction!(num_threads_source, module)?)?;
    module.add_function(wrap_pyfunction!(environment_problems, module)?)?;
    module.add_function(wrap_pyfunction!(get_cpu_level, module)?)?;
    module.add_function(wrap_pyfunction!(set_cpu_level, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_levels, module)?)?;
    module.add_function(wrap_pyfunction!(get_non_temporal_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(non_temporal_reason, module)?)?;
    module.add_function(wrap_pyfunction!(set_non_temporal_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(copy_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(multiply_adds_per_second, module)?)?;
    module.add_function(wrap_pyfunction!(memory_stats, module)?)?;
    module.add_function(wrap_pyfunction!(empty_cache, module)?)?;
    module.add_function(wrap_pyfunction!(set_cache_limit, module)?)
}
