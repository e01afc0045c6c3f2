//! Threads, instruction-set level, pooled memory and devices, as Python sees them.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::errors::raise;
use crate::devices::cpu::features::{Level, last_level_cache};
use crate::devices::cpu::{memory, parallel};
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
#[pyfunction]
fn operators() -> Vec<String> {
    registry::names()
}

/// How many threads a call uses at most.
#[pyfunction]
fn get_num_threads() -> usize {
    parallel::threads()
}

/// Set how many threads calls use at most, for the whole process.
#[pyfunction]
fn set_num_threads(threads: usize) -> PyResult<()> {
    parallel::set_threads(threads).map_err(raise)
}

/// The instruction-set level that kernels use: "native" or "avx2".
#[pyfunction]
fn get_cpu_level() -> String {
    Level::current().to_string()
}

/// Make kernels use another level, for the whole process; one that the processor lacks is refused.
#[pyfunction]
fn set_cpu_level(level: &str) -> PyResult<()> {
    level.parse().and_then(Level::set_current).map_err(raise)
}

/// Every level this processor has, lowest first.
#[pyfunction]
fn cpu_levels() -> Vec<String> {
    Level::available().iter().map(ToString::to_string).collect()
}

/// The size of the last-level cache in bytes.
#[pyfunction]
fn cpu_cache_bytes() -> usize {
    last_level_cache()
}

/// What the pool of output memory holds and has done, in bytes and blocks.
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
#[pyfunction]
fn empty_cache() {
    memory::empty_cache();
}

/// Set how many bytes of freed output memory are kept for later calls.
#[pyfunction]
fn set_cache_limit(bytes: usize) {
    memory::set_cache_limit(bytes);
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(operators, module)?)?;
    module.add_function(wrap_pyfunction!(get_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(set_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(get_cpu_level, module)?)?;
    module.add_function(wrap_pyfunction!(set_cpu_level, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_levels, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_cache_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(memory_stats, module)?)?;
    module.add_function(wrap_pyfunction!(empty_cache, module)?)?;
    module.add_function(wrap_pyfunction!(set_cache_limit, module)?)
}
