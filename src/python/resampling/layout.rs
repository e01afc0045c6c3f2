//! From numpy's shapes and strides to what the loops take.

use firelu_filters::border::Border;
use firelu_resampling::Request;
use firelu_resampling::axis::Filter;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::super::arrays;
use crate::core::error::{Error, Result};

/// An array as the engine sees it.
pub struct Memory {
    /// Where it begins.
    pub pointer: usize,
    shape: Vec<usize>,
    /// In samples.
    strides: Vec<isize>,
}

/// What is wrong with a call.
pub fn refuse(argument: &str, got: impl std::fmt::Display, takes: &str) -> Error {
    Error::argument("resample", argument, got, takes)
}

/// Where an array's samples are.
pub fn memory(argument: &str, array: &Bound<'_, PyUntypedArray>, itemsize: usize) -> Result<Memory> {
    let strides = array.strides().iter().map(|stride| stride / itemsize as isize).collect();
    if array.dtype().itemsize() != itemsize || array.strides().iter().any(|stride| stride % itemsize as isize != 0) {
        return Err(refuse(argument, "samples that lie between others", "strides of whole samples"));
    }
    let pointer = arrays::data_of(array) as usize;
    Ok(Memory { pointer, shape: array.shape().to_vec(), strides })
}

impl Memory {
    /// Whether the axes from this one on lie in memory as one.
    fn is_dense_from(&self, axis: usize) -> bool {
        let mut step = 1;
        self.shape[axis..].iter().zip(&self.strides[axis..]).rev().all(|(&length, &stride)| {
            let dense = length <= 1 || stride == step;
            step *= length as isize;
            dense
        })
    }
}

/// What is asked for, where the axes fit both arrays.
pub fn request(
    source: &Memory,
    target: &Memory,
    mut filters: Vec<(usize, Filter)>,
    border: Border,
    along: bool,
) -> Result<Request> {
    let ndim = source.shape.len();
    let fits = target.shape.len() == ndim
        && (1..=2).contains(&filters.len())
        && filters.is_sorted_by(|a, b| a.0 < b.0)
        && filters.iter().all(|(axis, _)| *axis < ndim)
        && (0..ndim).all(|axis| source.shape[axis] == target.shape[axis] || filters.iter().any(|each| each.0 == axis));
    if !fits {
        return Err(refuse("target", format!("{:?}", target.shape), "the source's shape but for the filtered axes"));
    }
    let (last, filter) = filters.pop().expect("one filter at least");
    // Columns are filtered where a second filter is, or where the one that there is goes along rows.
    let (row_axis, vertical, horizontal) = match filters.pop() {
        Some((axis, vertical)) => (Some(axis), vertical, Some(filter)),
        None if along => (last.checked_sub(1), Filter::default(), Some(filter)),
        None => (Some(last), filter, None),
    };
    let column_axis = if horizontal.is_some() { last } else { last + 1 };
    for (argument, array) in [("source", source), ("target", target)] {
        if !array.is_dense_from(column_axis) {
            return Err(refuse(argument, format!("the strides {:?}", array.strides), "rows without gaps"));
        }
    }
    let outer: Vec<usize> = (0..column_axis).filter(|&axis| Some(axis) != row_axis).collect();
    let strides = |array: &Memory| -> Vec<isize> {
        outer.iter().map(|&axis| array.strides[axis]).chain([row_axis.map_or(0, |axis| array.strides[axis])]).collect()
    };
    let pair = |axis: Option<usize>| axis.map_or([1, 1], |axis| [source.shape[axis], target.shape[axis]]);
    let inner: usize = source.shape[(column_axis + usize::from(horizontal.is_some())).min(ndim)..].iter().product();
    let (columns, channels) = if horizontal.is_some() { (pair(Some(last)), inner) } else { ([inner, inner], 1) };
    Ok(Request {
        outer: outer.iter().map(|&axis| source.shape[axis]).collect(),
        rows: pair(row_axis),
        columns,
        channels,
        source_strides: strides(source),
        target_strides: strides(target),
        vertical,
        horizontal,
        border,
    })
}
