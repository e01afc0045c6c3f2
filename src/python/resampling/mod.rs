//! `resample_tile`, one or two filters over an array, and `new_array`, memory for what they make: as `firelu.resampling`
//! calls them.

mod layout;

use firelu_guarded::guarded;
use firelu_resampling::axis::Filter;
use firelu_resampling::{Pair, Request, Sample, Single, run};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyReadonlyArray1, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::errors::raise;
use super::{arrays, entry};
use crate::core::dtype::{BFloat16, Float16};
use crate::core::error::Result;
use crate::core::shape::may_self_overlap;
use firelu_filters::border::Border;
use layout::{memory, refuse, request};

/// An axis and its filter: up, down, the place of the first tap, the taps, the first input and the first output.
type AxisFilter<'py> = (usize, (usize, usize, isize), PyReadonlyArray1<'py, f64>, (isize, isize));

fn call<S: Pair<D>, D: Sample<Number = S::Number>>(request: &Request, pointers: [usize; 2]) -> Result<()> {
    // SAFETY: the request was made from the shapes and strides of two arrays that the caller holds; the caller promises
    // that they share no memory.
    unsafe { run::<S, D>(request, pointers[0] as *const S, pointers[1] as *mut D) }
}

/// Writes the outputs of one or two filters to `target`, an array without memory of `source`. `names` are both dtypes';
/// `filters` are in the order of their axes; a single one goes `along` the rows, or along the columns.
#[guarded]
#[pyfunction]
fn resample_tile(
    py: Python<'_>,
    source: &Bound<'_, PyUntypedArray>,
    target: &Bound<'_, PyUntypedArray>,
    names: (String, String),
    filters: Vec<AxisFilter<'_>>,
    border: &str,
    along: bool,
) -> PyResult<()> {
    let size = |name: &str| match name {
        "uint8" => 1,
        "float32" => 4,
        "float64" => 8,
        _ => 2,
    };
    let filters = filters.into_iter().map(|(axis, (up, down, first), taps, (origin, start))| {
        (axis, Filter { up, down, first, taps: taps.as_array().to_vec(), origin, start })
    });
    let filters: Vec<_> = filters.collect();
    let writeable = arrays::is_writeable(target);
    let made = || {
        let Some(border) = Border::ALL.into_iter().find(|rule| rule.name() == border) else {
            return Err(refuse("border", border, "a rule's name"));
        };
        let (source, target) = (memory("source", source, size(&names.0))?, memory("target", target, size(&names.1))?);
        if !writeable {
            return Err(refuse("target", "a read-only array", "one that can be written to"));
        }
        Ok((request(&source, &target, filters, border, along)?, [source.pointer, target.pointer]))
    };
    let (request, pointers) = made().map_err(raise)?;
    let compute = || match (names.0.as_str(), names.1.as_str()) {
        ("uint8", "uint8") => call::<u8, u8>(&request, pointers),
        ("uint8", "float32") => call::<u8, f32>(&request, pointers),
        ("float32", "uint8") => call::<f32, u8>(&request, pointers),
        ("uint16", "uint16") => call::<u16, u16>(&request, pointers),
        ("uint16", "float32") => call::<u16, f32>(&request, pointers),
        ("float32", "uint16") => call::<f32, u16>(&request, pointers),
        ("float16", "float16") => call::<Float16, Float16>(&request, pointers),
        ("float16", "float32") => call::<Float16, f32>(&request, pointers),
        ("float32", "float16") => call::<f32, Float16>(&request, pointers),
        ("bfloat16", "bfloat16") => call::<BFloat16, BFloat16>(&request, pointers),
        ("bfloat16", "float32") => call::<BFloat16, f32>(&request, pointers),
        ("float32", "bfloat16") => call::<f32, BFloat16>(&request, pointers),
        ("float32", "float32") => call::<Single, Single>(&request, pointers),
        ("float32", "float64") => call::<Single, f64>(&request, pointers),
        ("float64", "float32") => call::<f64, Single>(&request, pointers),
        ("float64", "float64") => call::<f64, f64>(&request, pointers),
        _ => Err(refuse("names", format!("{} and {}", names.0, names.1), "a dtype and itself, or float32")),
    };
    entry::detach(py, compute).map_err(raise)
}

/// An uninitialised array for a result, from the pool where it is large.
#[guarded]
#[pyfunction]
fn new_array<'py>(shape: Vec<usize>, dtype: Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyUntypedArray>> {
    if dtype.has_object() {
        return Err(raise(refuse("dtype", dtype, "numbers")));
    }
    arrays::new_array_of(dtype, &shape)
}

/// Whether two elements of an array may share memory.
#[guarded]
#[pyfunction]
fn may_share_elements(array: &Bound<'_, PyUntypedArray>) -> bool {
    may_self_overlap(array.shape(), array.strides(), array.dtype().itemsize())
}

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(new_array, module)?)?;
    module.add_function(wrap_pyfunction!(may_share_elements, module)?)?;
    module.add_function(wrap_pyfunction!(resample_tile, module)?)
}
