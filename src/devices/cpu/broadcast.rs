//! Views of a tensor as one of a larger shape: repeated dimensions get a stride of zero.

use firelu_core::dtype::DType;
use firelu_core::shape::{Shape, Strides};
use firelu_core::tensor::{Parts, TensorType, TensorView};

/// The view as one of `shape`, whose dimension `d` is the view's dimension `source(d)`, or a repetition
/// where that is `None` or of length one.
pub fn repeat<'a>(view: &'a TensorView<'_>, shape: &Shape, source: impl Fn(usize) -> Option<usize>) -> TensorView<'a> {
    let step = |d: usize| match source(d).filter(|&s| view.shape()[s] != 1) {
        Some(s) => {
            assert_eq!(view.shape()[s], shape[d], "inference has matched the lengths of dimension {d}");
            view.strides[s]
        }
        None => 0,
    };
    let strides: Strides = (0..shape.len()).map(step).collect();
    let kind = TensorType { shape: shape.clone(), dtype: view.dtype() };
    // SAFETY: every index of the new shape is one of the view's own elements: a dimension keeps its length
    // and its step, or does not move at all; an empty dimension has no index.
    unsafe { TensorView::from_parts(Parts { pointer: view.pointer, kind, strides, device: view.device }) }
}

/// As numpy broadcasts: dimensions are matched from the last.
pub fn to_shape<'a>(view: &'a TensorView<'_>, shape: &Shape) -> TensorView<'a> {
    let missing = shape.len() - view.shape().len();
    repeat(view, shape, |d| d.checked_sub(missing))
}

/// One number for every element of `shape`.
pub fn constant(number: &'static f64, shape: &Shape) -> TensorView<'static> {
    let kind = TensorType { shape: shape.clone(), dtype: DType::Float64 };
    let strides = Strides::from_elem(0, shape.len());
    let pointer = std::ptr::from_ref(number).cast_mut().cast();
    // SAFETY: every element is that one number, which lives for ever and is only read.
    unsafe { TensorView::from_parts(Parts { pointer, kind, strides, device: Default::default() }) }
}
