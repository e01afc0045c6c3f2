//! `firelu.Tensor`: a tensor that owns its memory and remembers how it was computed.

use std::sync::{Mutex, PoisonError};

use firelu_guarded::guarded;
use numpy::PyUntypedArray;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::errors::{self, raise};
use super::{arrays, autograd, device, interop};
use crate::core::args::ArgValue;
use crate::core::device::Device;
use crate::core::dtype::DType;
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
        let variable = Variable::constant(on_device(tensor_from("Tensor", "data", data, dtype)?, device)?);
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

    /// Where the memory is: "cpu" or "cuda:0".
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
        // No exception is made while the lock is held: making one runs Python code, and with it other threads.
        let is_leaf = {
            let mut variable = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let is_leaf = variable.is_leaf();
            if is_leaf && variable.requires_gradient() != requires_grad {
                *variable = if requires_grad { variable.requiring_gradient() } else { variable.detach() };
            }
            is_leaf
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
        Bound::new(slf.py(), PyTensor::from(on_device(tensor, device)?))
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
        if !autograd::is_number(other) {
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
        interop::export(py, &self.variable(), stream, max_version, dl_device, copy)
    }

    /// The DLPack device: (1, 0) for the CPU, (2, ordinal) for CUDA.
    fn __dlpack_device__(&self) -> (i32, i32) {
        interop::dlpack_device(self.tensor().device())
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
                let values = array_of(py, devices::copy(tensor, Device::Cpu).map_err(raise)?, false)?;
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

fn axes(axis: Option<&Bound<'_, PyAny>>) -> PyResult<ArgValue> {
    let Some(axis) = axis.filter(|axis| !axis.is_none()) else { return Ok(ArgValue::Ints(Vec::new())) };
    let numbers = axis.extract::<i64>().map(|one| vec![one]).or_else(|_| axis.extract::<Vec<i64>>());
    let refuse = |_| {
        let message = format!("ReduceSum: axis: got {axis}, takes an int, a tuple of ints or None");
        errors::new(axis.py(), "ArgumentError", message)
    };
    numbers.map(ArgValue::Ints).map_err(refuse)
}

/// A new tensor with the values of anything numpy understands; lists and numbers become float32 unless
/// a dtype is given.
pub fn tensor_from(operator: &str, argument: &str, data: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Tensor> {
    let py = data.py();
    if let Ok(tensor) = data.cast::<PyTensor>()
        && dtype.is_none_or(|dtype| dtype == tensor.get().tensor().dtype())
    {
        let tensor = tensor.get().tensor();
        return devices::copy(&tensor, tensor.device()).map_err(raise);
    }
    if !data.is_instance_of::<PyUntypedArray>()
        && let Some(foreign) = device::import(data)?
        && dtype.is_none_or(|dtype| dtype == foreign.dtype())
    {
        return devices::copy(&foreign, foreign.device()).map_err(raise);
    }
    // A list has no element type of its own.
    let plain = data.is_instance_of::<PyList>() || data.is_instance_of::<PyTuple>() || autograd::is_number(data);
    let source = match dtype.or(plain.then_some(DType::Float32)) {
        Some(dtype) => {
            let wanted = arrays::descriptor(py, dtype)?;
            let array = py.import("numpy")?.call_method1("asarray", (data,))?;
            // Integers and texts are converted only because the caller named a dtype, or gave a list.
            array.call_method1("astype", (wanted,)).map_err(|failure| {
                let got = super::settings::short_repr(data);
                let error =
                    errors::new(py, "ArgumentError", format!("{operator}: {argument}: got {got}, takes numbers"));
                error.set_cause(py, Some(failure));
                error
            })?
        }
        None => data.clone(),
    };
    let (array, dtype) = arrays::as_float_array(operator, argument, &source)?;
    let parts = arrays::parts_of(&array, dtype);
    let strides = parts.kind.shape.row_major_strides(dtype);
    let mut tensor = devices::allocate(Device::Cpu, parts.kind.clone(), strides).map_err(raise)?;
    let target = tensor.view_mut().expect("new memory has one owner");
    // SAFETY: the array object owns this memory and lives to the end of this function.
    let view = unsafe { TensorView::from_parts(parts) };
    devices::cpu::assign::assign(&target, &view).map_err(raise)?;
    drop(target);
    Ok(tensor)
}

fn on_device(tensor: Tensor, device: Device) -> PyResult<Tensor> {
    if tensor.device() == device { Ok(tensor) } else { devices::copy(&tensor, device).map_err(raise) }
}

/// The object itself where it is on the device, else a copy of it there.
pub fn to_device<'py>(object: &Bound<'py, PyAny>, device: Device) -> PyResult<Bound<'py, PyAny>> {
    let tensor = match object.cast::<PyTensor>() {
        Ok(tensor) if tensor.get().tensor().device() == device => return Ok(object.clone()),
        Ok(tensor) => tensor.get().tensor(),
        Err(_) if device == Device::Cpu => return Ok(object.clone()),
        Err(_) => tensor_from("run_operator", "inputs", object, None)?,
    };
    Ok(Bound::new(object.py(), PyTensor::from(on_device(tensor, device)?))?.into_any())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyTensor>()
}
