//! `firelu.Tensor`: a tensor that owns its memory and remembers how it was computed.

mod methods;

use std::sync::{Mutex, PoisonError};

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::errors::{self, raise};
use super::interop::import;
use super::{arrays, entry, settings};
use crate::core::device::Device;
use crate::core::dtype::DType;
use crate::core::shape::Strides;
use crate::core::tensor::{Parts, Tensor, TensorView};
use crate::devices;
use crate::graph::tape::Variable;

/// A tensor with memory of its own on a device.
///
/// Operators on tensors that require a gradient are recorded; `backward` and `firelu.grad` run the
/// gradient definitions of the registry.
#[pyclass(frozen, module = "firelu", name = "Tensor")]
pub struct PyTensor(Mutex<Variable>);

impl From<Tensor> for PyTensor {
    fn from(tensor: Tensor) -> Self {
        Variable::constant(tensor).into()
    }
}

impl From<Variable> for PyTensor {
    fn from(variable: Variable) -> Self {
        PyTensor(Mutex::new(variable))
    }
}

impl PyTensor {
    /// The variable that it is now.
    pub fn variable(&self) -> Variable {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tensor, sharing its memory.
    pub fn tensor(&self) -> Tensor {
        self.variable().value().clone()
    }

    /// Where its elements are; valid while the object lives, which never changes its memory.
    pub fn parts(&self) -> Parts {
        (*self.tensor().view()).clone()
    }
}

/// Keeps a tensor's memory alive as the base of an array, and nothing of its graph.
#[pyclass(frozen, module = "firelu._firelu", name = "TensorMemory")]
struct TensorMemory(#[allow(dead_code)] Tensor);

/// An array over a tensor's memory. Once read-only, numpy gives nobody the right to write back.
pub fn array_of(py: Python<'_>, tensor: Tensor, writable: bool) -> PyResult<Bound<'_, PyUntypedArray>> {
    if tensor.device() != Device::Cpu {
        let message = format!("{}: Tensor.numpy: the values are there: use .to(\"cpu\") first", tensor.device());
        return Err(errors::new(py, "DeviceError", message));
    }
    let parts = (*tensor.view()).clone();
    let array = arrays::array_over(&parts, Bound::new(py, TensorMemory(tensor))?.into_any())?;
    if !writable {
        array.call_method1("setflags", (false,))?;
    }
    Ok(array)
}

/// A new tensor with the values of anything numpy understands; lists and numbers become float32 unless
/// a dtype is given.
pub fn tensor_from(operator: &str, argument: &str, data: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Tensor> {
    let py = data.py();
    if let Ok(tensor) = data.cast::<PyTensor>()
        && dtype.is_none_or(|dtype| dtype == tensor.get().tensor().dtype())
    {
        let tensor = tensor.get().tensor();
        return copied(py, &tensor, tensor.device());
    }
    if !data.is_instance_of::<PyUntypedArray>()
        && let Some(foreign) = import::foreign(data)?
        && dtype.is_none_or(|dtype| dtype == foreign.tensor.dtype())
    {
        let copied = copied(py, &foreign.tensor, foreign.tensor.device());
        foreign.give_back().map_err(raise)?;
        return copied;
    }
    // A list or a number of Python's has no element type of its own; a scalar of numpy's has.
    let plain = data.is_instance_of::<PyList>()
        || data.is_instance_of::<PyTuple>()
        || arrays::is_number(data) && !data.hasattr("dtype")?;
    let source = match dtype.or(plain.then_some(DType::Float32)) {
        Some(dtype) => {
            let wanted = arrays::descriptor(py, dtype)?;
            let array = py.import("numpy")?.call_method1("asarray", (data,))?;
            // Integers and texts are converted only because the caller named a dtype, or gave a list.
            array.call_method1("astype", (wanted,)).map_err(|failure| {
                let got = settings::short_repr(data);
                let error =
                    errors::new(py, "ArgumentError", format!("{operator}: {argument}: got {got}, takes numbers"));
                error.set_cause(py, Some(failure));
                error
            })?
        }
        None => data.clone(),
    };
    let (array, dtype) = arrays::as_float_array(operator, argument, &source)?;
    let row_major = arrays::parts_of(&array, dtype).shape().row_major_strides(dtype);
    copy_of(&array, dtype, row_major)
}

/// A new tensor with the values and the memory order of an array.
pub fn tensor_like(operator: &str, argument: &str, data: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let (array, dtype) = arrays::as_float_array(operator, argument, data)?;
    let parts = arrays::parts_of(&array, dtype);
    let same_order = parts.shape().strides_like(&parts.strides, dtype);
    copy_of(&array, dtype, same_order)
}

fn copy_of(array: &Bound<'_, PyUntypedArray>, dtype: DType, strides: Strides) -> PyResult<Tensor> {
    let parts = arrays::parts_of(array, dtype);
    let mut tensor = devices::allocate(Device::Cpu, parts.kind.clone(), strides).map_err(raise)?;
    let target = tensor.view_mut().expect("new memory has one owner");
    // SAFETY: the array object owns this memory and lives to the end of this function.
    let view = unsafe { TensorView::from_parts(parts) };
    devices::cpu::assign::assign(&target, &view).map_err(raise)?;
    drop(target);
    Ok(tensor)
}

/// A copy in new memory of a device. Other threads of Python's run meanwhile: a device is waited for.
fn copied(py: Python<'_>, tensor: &Tensor, device: Device) -> PyResult<Tensor> {
    entry::detach(py, || devices::copy(tensor, device)).map_err(raise)
}

fn on_device(py: Python<'_>, tensor: Tensor, device: Device) -> PyResult<Tensor> {
    if tensor.device() == device { Ok(tensor) } else { copied(py, &tensor, device) }
}

/// The object itself where it is on the device, else a copy of it there.
pub fn to_device<'py>(object: &Bound<'py, PyAny>, device: Device) -> PyResult<Bound<'py, PyAny>> {
    let tensor = match object.cast::<PyTensor>() {
        Ok(tensor) if tensor.get().tensor().device() == device => return Ok(object.clone()),
        Ok(tensor) => tensor.get().tensor(),
        Err(_) if device == Device::Cpu => return Ok(object.clone()),
        Err(_) => tensor_from("run_operator", "inputs", object, None)?,
    };
    Ok(Bound::new(object.py(), PyTensor::from(on_device(object.py(), tensor, device)?))?.into_any())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyTensor>()
}
