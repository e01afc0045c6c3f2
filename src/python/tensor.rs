//! `firelu.Tensor`: a tensor that owns its memory.

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::arrays;
use super::errors::raise;
use crate::core::device::Device;
use crate::core::dtype::DType;
use crate::core::tensor::{Parts, Tensor};
use crate::devices;

/// A tensor with memory of its own on a device.
#[pyclass(frozen, module = "firelu", name = "Tensor")]
pub struct PyTensor(Tensor);

impl From<Tensor> for PyTensor {
    fn from(tensor: Tensor) -> Self {
        PyTensor(tensor)
    }
}

impl PyTensor {
    /// Where its elements are; valid while the object lives.
    pub fn parts(&self) -> Parts {
        (*self.0.view()).clone()
    }
}

#[pymethods]
impl PyTensor {
    /// Copy data into a new tensor; lists and numbers become float32 unless a dtype is given.
    #[new]
    #[pyo3(signature = (data, dtype=None, device="cpu"))]
    fn new(data: &Bound<'_, PyAny>, dtype: Option<&Bound<'_, PyAny>>, device: &str) -> PyResult<Self> {
        let device: Device = device.parse().map_err(raise)?;
        let tensor = match dtype {
            Some(dtype) => copy_of(data, Some(arrays::parse_dtype("Tensor", dtype)?))?,
            // A list has no element type of its own.
            None if data.is_instance_of::<PyList>()
                || data.is_instance_of::<PyTuple>()
                || data.extract::<f64>().is_ok() =>
            {
                copy_of(data, Some(DType::Float32))?
            }
            None => copy_of(data, None)?,
        };
        on_device(tensor, device).map(PyTensor)
    }

    /// The lengths of the dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.shape().iter())
    }

    /// The element type's name.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.0.dtype().name()
    }

    /// Where the memory is: "cpu" or "cuda:0".
    #[getter]
    fn device(&self) -> String {
        self.0.device().to_string()
    }

    /// The values as a numpy array over the same memory.
    fn numpy(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyUntypedArray>> {
        arrays::array_over(&slf.get().parts(), slf.into_any())
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = Self::numpy(slf)?.into_any();
        match dtype {
            Some(dtype) => array.call_method("astype", (dtype,), None),
            None if copy == Some(true) => array.call_method0("copy"),
            None => Ok(array),
        }
    }

    fn __repr__(slf: Bound<'_, Self>) -> PyResult<String> {
        let py = slf.py();
        let (dtype, device) = (slf.get().0.dtype(), slf.get().0.device());
        let values = py
            .import("numpy")?
            .call_method1("array2string", (Self::numpy(slf)?, py.None(), py.None(), py.None(), ", "))?;
        let dtype = if dtype == DType::Float32 { String::new() } else { format!(", dtype={dtype}") };
        let device = if device == Device::Cpu { String::new() } else { format!(", device={device}") };
        Ok(format!("Tensor({values}{dtype}{device})"))
    }

    fn __len__(&self) -> PyResult<usize> {
        let shape = self.0.shape();
        shape.first().copied().ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("len() of a 0-d Tensor"))
    }
}

/// A new tensor with the values of anything numpy understands.
fn copy_of(data: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Tensor> {
    let py = data.py();
    let source = match dtype {
        Some(dtype) => {
            let wanted = arrays::descriptor(py, dtype)?;
            let array = py.import("numpy")?.call_method1("asarray", (data,))?;
            // Integers and texts are converted only because the caller named a dtype.
            array.call_method1("astype", (wanted,))?
        }
        None => data.clone(),
    };
    let (array, dtype) = arrays::as_float_array("Tensor", "data", &source)?;
    let parts = arrays::parts_of(&array, dtype);
    let strides = parts.kind.shape.row_major_strides(dtype);
    let tensor = devices::allocate(Device::Cpu, parts.kind, strides).map_err(raise)?;
    let target = Bound::new(py, PyTensor(tensor))?;
    py.import("numpy")?.call_method1("copyto", (PyTensor::numpy(target.clone())?, array))?;
    Ok(target.get().0.clone())
}

fn on_device(tensor: Tensor, device: Device) -> PyResult<Tensor> {
    if tensor.device() == device {
        return Ok(tensor);
    }
    // Memory of the other device is asked for first: where there is none, its reason is the answer.
    devices::allocate(device, tensor.kind().clone(), tensor.strides().clone()).map_err(raise)
}

/// The object itself where it is on the device, else a copy of it there.
pub fn to_device<'py>(object: &Bound<'py, PyAny>, device: Device) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(tensor) = object.cast::<PyTensor>() {
        let moved = on_device(tensor.get().0.clone(), device)?;
        return Ok(Bound::new(object.py(), PyTensor(moved))?.into_any());
    }
    if device == Device::Cpu {
        return Ok(object.clone());
    }
    let moved = on_device(copy_of(object, None)?, device)?;
    Ok(Bound::new(object.py(), PyTensor(moved))?.into_any())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyTensor>()
}
