//! Threads, instruction-set level, pooled memory and devices, as Python sees them.

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arrays;
use super::errors::{self, raise};
use crate::devices::cpu::copy::{Method, copy};
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

/// Copy one array's bytes to another, as fast as possible: the yardstick of the benchmarks.
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
    py.detach(|| unsafe { copy(source as *const u8, target as *mut u8, bytes, method) }).map_err(raise)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(operators, module)?)?;
    module.add_function(wrap_pyfunction!(get_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(set_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(get_cpu_level, module)?)?;
    module.add_function(wrap_pyfunction!(set_cpu_level, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_levels, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_cache_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(copy_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(memory_stats, module)?)?;
    module.add_function(wrap_pyfunction!(empty_cache, module)?)?;
    module.add_function(wrap_pyfunction!(set_cache_limit, module)?)
}
