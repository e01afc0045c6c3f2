//! The methods of `firelu.Tensor`.

use std::sync::PoisonError;

use firelu_guarded::guarded;
use numpy::PyUntypedArray;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::{PyTensor, array_of, copied, on_device, tensor_from};
use crate::core::args::ArgValue;
use crate::core::device::Device;
use crate::core::dtype::DType;
use crate::graph::tape::Variable;
use crate::python::errors::{self, raise};
use crate::python::interop::{device, export};
use crate::python::{arrays, autograd};

impl PyTensor {
    fn binary<'py>(&self, name: &str, other: &Bound<'py, PyAny>, reflected: bool) -> PyResult<Bound<'py, PyAny>> {
        match autograd::binary(name, self, other, reflected)? {
            Some(result) => result.into_bound_py_any(other.py()),
            None => Ok(other.py().NotImplemented().into_bound(other.py())),
        }
    }
}

#[guarded]
#[pymethods]
impl PyTensor {
    /// Copy data into a new tensor; lists and numbers become float32 unless a dtype is given.
    #[new]
    #[pyo3(signature = (data, dtype=None, device="cpu", *, requires_grad=false))]
    fn new(
        data: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        device: &str,
        requires_grad: bool,
    ) -> PyResult<Self> {
        let device: Device = device.parse().map_err(raise)?;
        let dtype = dtype.map(|dtype| arrays::parse_dtype("Tensor", dtype)).transpose()?;
        let variable = Variable::constant(on_device(data.py(), tensor_from("Tensor", "data", data, dtype)?, device)?);
        Ok(if requires_grad { variable.requiring_gradient() } else { variable }.into())
    }

    /// The lengths of the dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor().shape().iter())
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.tensor().shape().len()
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.tensor().shape().elements()
    }

    /// The element type's name.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.tensor().dtype().name()
    }

    /// The name of the device that has the memory, such as "cpu".
    #[getter]
    fn device(&self) -> String {
        self.tensor().device().to_string()
    }

    /// Whether a gradient flows to or through it. Can be set on leaves.
    #[getter]
    fn requires_grad(&self) -> bool {
        self.variable().requires_gradient()
    }

    #[setter]
    fn set_requires_grad(&self, py: Python<'_>, requires_grad: bool) -> PyResult<()> {
        // While the lock is held no exception is made, and no gradient let go that other libraries may own: either runs
        // Python code, and with it other threads.
        let (is_leaf, _before) = {
            let mut variable = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let is_leaf = variable.is_leaf();
            let before = (is_leaf && variable.requires_gradient() != requires_grad).then(|| {
                let changed = if requires_grad { variable.requiring_gradient() } else { variable.detach() };
                std::mem::replace(&mut *variable, changed)
            });
            (is_leaf, before)
        };
        if !is_leaf {
            let message =
                "Tensor: requires_grad: got the result of a recorded operator, takes a leaf: use detach() first";
            return Err(errors::new(py, "ArgumentError", message));
        }
        Ok(())
    }

    /// Whether no recorded operator computed it.
    #[getter]
    fn is_leaf(&self) -> bool {
        self.variable().is_leaf()
    }

    /// The recorded operator that computed it, or None.
    #[getter]
    fn grad_operator(&self) -> Option<String> {
        self.variable().operator().map(String::from)
    }

    /// The gradient that backward passes have added up in this leaf, or None. Set it to None to start again.
    #[getter]
    fn grad(&self) -> Option<PyTensor> {
        self.variable().gradient().map(PyTensor::from)
    }

    #[setter]
    fn set_grad(&self, gradient: Option<&Bound<'_, PyTensor>>) -> PyResult<()> {
        let gradient = gradient.map(|gradient| gradient.get().tensor());
        if gradient.is_none() && !self.variable().requires_gradient() {
            return Ok(());
        }
        self.variable().set_gradient(gradient).map_err(raise)
    }

    /// Compute gradients of this tensor and add them to `.grad` of the leaves that it depends on.
    ///
    /// Starts from `gradient`, or from ones. What the graph has saved is freed on the way unless
    /// `retain_graph`; where it fails, every `.grad` is as it was.
    #[pyo3(signature = (gradient=None, *, retain_graph=false))]
    fn backward(&self, py: Python<'_>, gradient: Option<&Bound<'_, PyAny>>, retain_graph: bool) -> PyResult<()> {
        autograd::backward(self, py, gradient, retain_graph)
    }

    /// The same memory without a history.
    fn detach(&self) -> PyTensor {
        self.variable().detach().into()
    }

    /// The tensor on a device: itself where it is there, else a copy without a history.
    fn to<'py>(slf: Bound<'py, Self>, device: &str) -> PyResult<Bound<'py, Self>> {
        let device: Device = device.parse().map_err(raise)?;
        let tensor = slf.get().tensor();
        if tensor.device() == device {
            return Ok(slf);
        }
        Bound::new(slf.py(), PyTensor::from(on_device(slf.py(), tensor, device)?))
    }

    /// The values as a numpy array over the same memory; read-only while the graph holds that memory.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyUntypedArray>> {
        let variable = self.variable();
        array_of(py, variable.value().clone(), !variable.is_saved())
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = self.numpy(py)?.into_any();
        let dtype = dtype.filter(|dtype| array.getattr("dtype").and_then(|own| own.eq(dtype)).is_ok_and(|same| !same));
        match (dtype, copy) {
            (Some(dtype), Some(false)) => {
                let message = format!("Tensor: copy: got False with another dtype ({dtype}), takes None or True");
                Err(errors::new(py, "ArgumentError", message))
            }
            (Some(dtype), _) => array.call_method("astype", (dtype,), None),
            (None, Some(true)) => array.call_method0("copy"),
            (None, _) => Ok(array),
        }
    }

    /// The one value of a tensor with one element.
    fn item(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.numpy(py)?.call_method0("item")?.unbind())
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        self.item(py)?.extract(py)
    }

    /// The sum over `axis` (an int, a tuple, or None for all).
    #[pyo3(signature = (axis=None, keepdims=false))]
    fn sum(&self, py: Python<'_>, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<PyTensor> {
        let args = [("axes", axes(axis)?), ("keepdims", ArgValue::Bool(keepdims))];
        autograd::apply_one(py, "ReduceSum", vec![self.variable()], args)
    }

    /// The mean over `axis` (an int, a tuple, or None for all).
    #[pyo3(signature = (axis=None, keepdims=false))]
    fn mean(&self, py: Python<'_>, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<PyTensor> {
        let (axes, tensor) = (axes(axis)?, self.tensor());
        let shape = tensor.shape();
        let length = |&axis: &i64| {
            let place = if axis < 0 { axis + shape.len() as i64 } else { axis };
            usize::try_from(place).ok().and_then(|place| shape.get(place)).copied().unwrap_or(1)
        };
        // An axis that does not exist is refused by the operator itself.
        let count: usize = match &axes {
            ArgValue::Ints(axes) if !axes.is_empty() => axes.iter().map(length).product(),
            _ => shape.elements(),
        };
        if count == 0 {
            let message = format!("ReduceSum: mean: got no elements along the axes of {shape}, takes at least one");
            return Err(errors::new(py, "ArgumentError", message));
        }
        let scale = ArgValue::Float(1.0 / count as f64);
        let args = [("axes", axes), ("keepdims", ArgValue::Bool(keepdims)), ("scale", scale)];
        autograd::apply_one(py, "ReduceSum", vec![self.variable()], args)
    }

    fn __add__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("Add", other, false)
    }

    fn __radd__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("Add", other, true)
    }

    fn __sub__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("Sub", other, false)
    }

    fn __rsub__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("Sub", other, true)
    }

    fn __mul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("Mul", other, false)
    }

    fn __rmul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.binary("Mul", other, true)
    }

    fn __truediv__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        if !arrays::is_number(other) {
            return Ok(py.NotImplemented().into_bound(py));
        }
        let variable = self.variable();
        let share = autograd::scalar(1.0 / other.extract::<f64>()?, &variable)?;
        autograd::apply_one(py, "Mul", vec![variable, share], [])?.into_bound_py_any(py)
    }

    fn __neg__(&self, py: Python<'_>) -> PyResult<PyTensor> {
        let variable = self.variable();
        let minus = autograd::scalar(-1.0, &variable)?;
        autograd::apply_one(py, "Mul", vec![variable, minus], [])
    }

    /// Makes `array + tensor` ask the tensor.
    #[classattr]
    fn __array_priority__() -> f64 {
        1000.0
    }

    /// Export the memory by DLPack; a copy where the graph holds it, because consumers may write.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        export::export(py, &self.variable(), stream, max_version, dl_device, copy)
    }

    /// The DLPack device: (1, 0) for the CPU, (2, ordinal) for CUDA.
    fn __dlpack_device__(&self) -> (i32, i32) {
        export::dlpack_device(self.tensor().device())
    }

    /// The description of device memory that CuPy, Numba and PyTorch read; absent on the cpu.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        device::describe(py, &self.variable())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let variable = self.variable();
        let tensor = variable.value();
        let mut parts = vec![match tensor.device() {
            Device::Cpu => {
                let values = array_of(py, tensor.clone(), false)?;
                let arguments = (values, py.None(), py.None(), py.None(), ", ");
                py.import("numpy")?.call_method1("array2string", arguments)?.to_string()
            }
            device => {
                let values = array_of(py, copied(py, tensor, Device::Cpu)?, false)?;
                let arguments = (values, py.None(), py.None(), py.None(), ", ");
                let text = py.import("numpy")?.call_method1("array2string", arguments)?;
                format!("{text}, device={device}")
            }
        }];
        if tensor.dtype() != DType::Float32 {
            parts.push(format!("dtype={}", tensor.dtype()));
        }
        match variable.operator() {
            Some(operator) => parts.push(format!("grad_operator={operator}")),
            None if variable.requires_gradient() => parts.push("requires_grad=True".into()),
            None => {}
        }
        Ok(format!("Tensor({})", parts.join(", ")))
    }

    fn __len__(&self) -> PyResult<usize> {
        let tensor = self.tensor();
        tensor.shape().first().copied().ok_or_else(|| PyTypeError::new_err("len() of a 0-d Tensor"))
    }
}

fn axes(axis: Option<&Bound<'_, PyAny>>) -> PyResult<ArgValue> {
    let Some(axis) = axis.filter(|axis| !axis.is_none()) else { return Ok(ArgValue::Ints(Vec::new())) };
    let numbers = axis.extract::<i64>().map(|one| vec![one]).or_else(|_| axis.extract::<Vec<i64>>());
    let refuse = |_| {
        let message = format!("ReduceSum: axis: got {axis}, takes an int, a tuple of ints or None");
        errors::new(axis.py(), "ArgumentError", message)
    };
    numbers.map(ArgValue::Ints).map_err(refuse)
}
