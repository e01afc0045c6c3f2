//! The kernels that `firelu.torch` registers with torch's dispatcher: torch tensors in, new ones out.
//!
//! A call is positional, in the order of the torch operator's declaration: the inputs (a shape and a
//! dtype for one that lends only those, a list for a repeated one), the arguments, and, where there are
//! several outputs, which of them are wanted. Trailing defaults may be missing: the dispatcher drops them.

use std::sync::Arc;

use firelu_guarded::guarded;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use pyo3::{IntoPyObjectExt, intern};
use smallvec::SmallVec;

use super::errors::{self, raise};
use super::foreign::{self, Setting};
use super::interop::exchange::Exchange;
use super::interop::export;
use super::run::RecentArgs;
use crate::core::args::Args;
use crate::core::device::{Device, Stream};
use crate::core::dtype::DType;
use crate::core::operator::Operator;
use crate::core::schema::OutputTypes;
use crate::core::shape::{Shape, Strides};
use crate::core::tensor::{Parts, TensorType};
use crate::devices;
use crate::devices::cpu::memory::POOLED_BYTES;
use crate::registry;

/// What is used of torch, looked up once.
struct Torch {
    tensor: Py<PyType>,
    parameter: Py<PyType>,
    /// How tensors are described; older versions have no such functions.
    exchange: Option<Exchange>,
    dtypes: [(DType, Py<PyAny>); 4],
    empty_like: Py<PyAny>,
    empty_strided: Py<PyAny>,
    from_dlpack: Py<PyAny>,
    get_num_threads: Py<PyAny>,
    current_stream: Py<PyAny>,
    /// The same by a device's number, as a number: twenty times as quick, but not promised by torch.
    current_raw_stream: Option<Py<PyAny>>,
    is_rocm: bool,
}

impl Torch {
    fn get(py: Python<'_>) -> PyResult<&Torch> {
        static TORCH: PyOnceLock<Torch> = PyOnceLock::new();
        TORCH.get_or_try_init(py, || {
            let torch = py.import("torch")?;
            let get = |name: &str| torch.getattr(name).map(Bound::unbind);
            let dtype = |dtype: DType| get(dtype.name()).map(|object| (dtype, object));
            let [a, b, c, d] = DType::ALL;
            let tensor = torch.getattr("Tensor")?.cast_into::<PyType>()?;
            Ok(Torch {
                exchange: Exchange::of(&tensor),
                tensor: tensor.unbind(),
                parameter: torch.getattr("nn")?.getattr("Parameter")?.cast_into::<PyType>()?.unbind(),
                dtypes: [dtype(a)?, dtype(b)?, dtype(c)?, dtype(d)?],
                empty_like: get("empty_like")?,
                empty_strided: get("empty_strided")?,
                from_dlpack: py.import("torch.utils.dlpack")?.getattr("from_dlpack")?.unbind(),
                get_num_threads: get("get_num_threads")?,
                current_stream: torch.getattr("cuda")?.getattr("current_stream")?.unbind(),
                current_raw_stream: py.import("torch._C")?.getattr("_cuda_getCurrentRawStream").ok().map(Bound::unbind),
                is_rocm: !torch.getattr("version")?.getattr("hip")?.is_none(),
            })
        })
    }

    fn dtype(&self, object: &Bound<'_, PyAny>) -> Option<DType> {
        self.dtypes.iter().find(|(_, known)| known.is(object)).map(|&(dtype, _)| dtype)
    }

    fn dtype_object<'py>(&self, py: Python<'py>, dtype: DType) -> Bound<'py, PyAny> {
        let known = self.dtypes.iter().find(|&&(known, _)| known == dtype);
        known.expect("the list names every dtype").1.bind(py).clone()
    }
}

/// An operator as a kernel of torch's dispatcher.
#[pyclass(frozen, module = "firelu._firelu", name = "TorchOperator")]
pub struct TorchOperator {
    operator: Arc<Operator>,
    recent: RecentArgs,
}

/// A call as the schema sees it.
struct Bindings<'py> {
    inputs: SmallVec<[Option<Parts>; 4]>,
    args: Arc<Args>,
    wanted: SmallVec<[bool; 2]>,
    /// The first tensor and its place among the inputs.
    first: Option<(usize, Bound<'py, PyAny>)>,
}

impl<'py> Bindings<'py> {
    fn parts(&self) -> SmallVec<[Option<&Parts>; 4]> {
        self.inputs.iter().map(Option::as_ref).collect()
    }

    /// The dtype that outputs without a type of their own get.
    fn dtype(&self) -> DType {
        self.inputs.iter().flatten().next().map_or(DType::Float32, Parts::dtype)
    }

    /// The device as torch names it.
    fn torch_device(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.first {
            Some((_, tensor)) => tensor.getattr(intern!(py, "device")),
            None => "cpu".into_bound_py_any(py),
        }
    }

    /// The first tensor, if a new one like it is what is planned.
    fn model(&self, kind: &TensorType, strides: &Strides) -> Option<&Bound<'py, PyAny>> {
        let (place, tensor) = self.first.as_ref()?;
        let parts = self.inputs[*place].as_ref()?;
        (parts.kind == *kind && parts.strides == *strides).then_some(tensor)
    }

    /// The first tensor, if what is planned is of its dtype and in row-major order.
    fn dense_model(&self, kind: &TensorType, strides: &Strides) -> Option<&Bound<'py, PyAny>> {
        let (place, tensor) = self.first.as_ref()?;
        let alike = self.inputs[*place].as_ref()?.dtype() == kind.dtype;
        (alike && *strides == kind.shape.row_major_strides(kind.dtype)).then_some(tensor)
    }
}

/// What an output is: a type and strides, or nothing where it is unwanted.
type Planned = Option<(TensorType, Strides)>;

#[guarded]
#[pymethods]
impl TorchOperator {
    /// Look an operator up by name.
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        let operator = registry::find(name).map_err(raise)?;
        Ok(TorchOperator { operator, recent: RecentArgs::default() })
    }

    /// Run on torch tensors of the CPU or of a CUDA device, on torch's current stream.
    #[pyo3(signature = (*arguments))]
    fn __call__<'py>(&self, arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = arguments.py();
        let torch = Torch::get(py)?;
        let bound = self.bind(torch, arguments, true)?;
        let parts = bound.parts();
        let checked = self.operator.check(&parts, &[], &bound.args).map_err(raise)?;
        let device = checked.device;
        let setting = setting(py, torch, device, &bound)?;

        let mut results: SmallVec<[Bound<'py, PyAny>; 2]> = SmallVec::new();
        let mut targets: SmallVec<[Option<Parts>; 2]> = SmallVec::new();
        for (place, planned) in self.plan(&bound, &checked.outputs).into_iter().enumerate() {
            let (result, target) = allocate(py, torch, device, &bound, planned)?;
            results.push(result);
            if place < checked.outputs.len() {
                targets.push(target);
            }
        }
        let outputs: SmallVec<[Option<&Parts>; 2]> = targets.iter().map(Option::as_ref).collect();
        // SAFETY: `arguments` holds the input tensors and `results` the new ones to the end of this call;
        // torch keeps memory of a CUDA device for the current stream, on which the kernel is queued.
        unsafe { foreign::compute(py, &checked, &parts, &outputs, &bound.args, setting)? };
        match results.len() {
            1 => Ok(results.pop().expect("one result")),
            _ => Ok(PyTuple::new(py, results)?.into_any()),
        }
    }

    /// The (shape, strides, dtype) of each output; nothing is computed and no memory is looked at.
    #[pyo3(signature = (*arguments))]
    fn infer<'py>(&self, arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyList>> {
        let py = arguments.py();
        let torch = Torch::get(py)?;
        let bound = self.bind(torch, arguments, false)?;
        let (_, kinds) = self.operator.schema.check(&bound.parts(), &[], &bound.args).map_err(raise)?;
        let described = self.plan(&bound, &kinds).into_iter().map(|planned| {
            let (kind, strides) = planned.unwrap_or_else(|| nothing(bound.dtype()));
            let steps = strides.iter().map(|stride| stride / kind.dtype.size() as isize);
            let shape = PyTuple::new(py, kind.shape.iter())?.into_any();
            let strides = PyTuple::new(py, steps.collect::<Vec<_>>())?.into_any();
            PyTuple::new(py, [shape, strides, torch.dtype_object(py, kind.dtype)])
        });
        PyList::new(py, described.collect::<PyResult<Vec<_>>>()?)
    }
}

impl TorchOperator {
    fn refuse(&self, py: Python<'_>, class: &str, argument: &str, got: &str, takes: &str) -> PyErr {
        errors::new(py, class, format!("{}: {argument}: got {got}, takes {takes}", self.operator.schema.name))
    }

    /// Reads a positional call; `memory` tells whether addresses are asked for.
    fn bind<'py>(&self, torch: &Torch, arguments: &Bound<'py, PyTuple>, memory: bool) -> PyResult<Bindings<'py>> {
        let schema = &self.operator.schema;
        // What converts a number may be a user's, and change a tensor: addresses are taken after it.
        let taken = schema.inputs.iter().map(|spec| 1 + usize::from(spec.shape_only)).sum();
        let mut rest = arguments.iter().skip(taken);
        let given: SmallVec<[Bound<'py, PyAny>; 10]> = rest.by_ref().take(schema.args.len()).collect();
        let args = self.recent.check(schema, &given)?;
        let mut wanted = SmallVec::from_elem(true, schema.outputs.len());
        if let Some(list) = rest.next() {
            for (place, item) in wanted.iter_mut().zip(list.try_iter()?) {
                *place = item?.is_truthy()?;
            }
        }
        let mut items = arguments.iter();
        let mut first = None;
        let mut inputs: SmallVec<[Option<Parts>; 4]> = SmallVec::new();
        for (index, spec) in schema.inputs.iter().enumerate() {
            let item = items.next().filter(|item| !item.is_none());
            if spec.shape_only {
                let dtype = items.next().filter(|item| !item.is_none());
                inputs.push(match (item, dtype) {
                    (Some(shape), Some(dtype)) => Some(self.lent(torch, &spec.name, &shape, &dtype)?),
                    _ => None,
                });
                continue;
            }
            let tensors: SmallVec<[Option<Bound<'_, PyAny>>; 4]> = match item {
                Some(list) if schema.variadic && index + 1 == schema.inputs.len() => {
                    list.try_iter()?.map(|item| item.map(Some)).collect::<PyResult<_>>()?
                }
                item => std::iter::once(item).collect(),
            };
            for tensor in tensors {
                let Some(tensor) = tensor else {
                    inputs.push(None);
                    continue;
                };
                inputs.push(Some(self.tensor(torch, &spec.name, &tensor, memory)?));
                first.get_or_insert((inputs.len() - 1, tensor));
            }
        }
        let device = first.as_ref().and_then(|(place, _)| inputs[*place].as_ref()).map(|parts| parts.device);
        for (parts, spec) in inputs.iter_mut().zip(&schema.inputs) {
            if let (Some(parts), true) = (parts, spec.shape_only) {
                parts.device = device.unwrap_or_default();
            }
        }
        Ok(Bindings { inputs, args, wanted, first })
    }

    /// An input that lends its shape and dtype: it has no memory, and no kernel looks for it.
    fn lent(&self, torch: &Torch, name: &str, shape: &Bound<'_, PyAny>, dtype: &Bound<'_, PyAny>) -> PyResult<Parts> {
        let dtype = self.dtype(torch, name, dtype)?;
        let shape: Shape = shape.extract::<Vec<usize>>()?.into();
        let strides = shape.row_major_strides(dtype);
        let pointer = std::ptr::dangling_mut::<u64>().cast();
        Ok(Parts { pointer, kind: TensorType { shape, dtype }, strides, device: Device::Cpu })
    }

    fn dtype(&self, torch: &Torch, name: &str, object: &Bound<'_, PyAny>) -> PyResult<DType> {
        torch.dtype(object).ok_or_else(|| {
            let names: Vec<&str> = self.operator.schema.dtypes.iter().map(|dtype| dtype.name()).collect();
            let got = object.to_string();
            self.refuse(object.py(), "DTypeError", name, got.trim_start_matches("torch."), &names.join(", "))
        })
    }

    fn tensor(&self, torch: &Torch, name: &str, tensor: &Bound<'_, PyAny>, memory: bool) -> PyResult<Parts> {
        let py = tensor.py();
        let class = tensor.get_type();
        if let (true, Some(exchange)) = (memory, &torch.exchange)
            && (class.is(&torch.tensor) || class.is(&torch.parameter))
            // SAFETY: the class is the one that the functions belong to, or a parameter, which is one of it.
            && let Some(parts) = unsafe { exchange.parts(tensor) }
        {
            return Ok(parts);
        }
        if !tensor.is_instance(torch.tensor.bind(py))? {
            let got = tensor.get_type().name()?.to_string();
            return Err(self.refuse(py, "DTypeError", name, &got, "a torch.Tensor"));
        }
        let dtype = self.dtype(torch, name, &tensor.getattr(intern!(py, "dtype"))?)?;
        let size = dtype.size() as isize;
        let shape = tensor.getattr(intern!(py, "shape"))?;
        let shape: Shape = shape.cast::<PyTuple>()?.iter().map(|n| n.extract()).collect::<PyResult<_>>()?;
        let strides = tensor.call_method0(intern!(py, "stride"))?;
        let strides: Strides = strides
            .cast::<PyTuple>()?
            .iter()
            .map(|stride| stride.extract::<isize>().map(|stride| stride * size))
            .collect::<PyResult<_>>()?;
        let kind = TensorType { shape, dtype };
        if !memory {
            return Ok(Parts { pointer: std::ptr::dangling_mut::<u64>().cast(), kind, strides, device: Device::Cpu });
        }
        let device = if tensor.getattr(intern!(py, "is_cpu"))?.is_truthy()? {
            Device::Cpu
        } else {
            self.cuda_device(torch, name, tensor)?
        };
        let address: usize = tensor.call_method0(intern!(py, "data_ptr"))?.extract()?;
        let pointer = match address {
            0 if kind.shape.contains(&0) => std::ptr::dangling_mut::<u64>().cast(),
            0 => {
                let got = "a tensor whose storage was freed or resized to nothing";
                return Err(self.refuse(py, "ArgumentError", name, got, "one with memory"));
            }
            address => std::ptr::with_exposed_provenance_mut(address),
        };
        Ok(Parts { pointer, kind, strides, device })
    }

    fn cuda_device(&self, torch: &Torch, name: &str, tensor: &Bound<'_, PyAny>) -> PyResult<Device> {
        let py = tensor.py();
        let device = tensor.getattr(intern!(py, "device"))?;
        if torch.is_rocm {
            let takes = "a CPU tensor: this torch is built for ROCm, and firelu's GPU kernels are CUDA's";
            return Err(self.refuse(py, "DeviceError", name, &format!("a tensor on {device}"), takes));
        }
        if !tensor.getattr(intern!(py, "is_cuda"))?.is_truthy()? {
            let got = format!("a tensor on {device}");
            return Err(self.refuse(py, "DeviceError", name, &got, "one on the cpu or on a cuda device"));
        }
        Ok(Device::Cuda(device.getattr(intern!(py, "index"))?.extract()?))
    }

    /// One entry for each declared output.
    fn plan(&self, bound: &Bindings<'_>, kinds: &OutputTypes) -> SmallVec<[Planned; 2]> {
        let parts = bound.parts();
        let schema = &self.operator.schema;
        let planned = |place: usize| {
            let kind = kinds.get(place).filter(|_| bound.wanted[place])?;
            Some((kind.clone(), schema.output_strides(&parts, kind)))
        };
        (0..schema.outputs.len()).map(planned).collect()
    }
}

/// What stands for an output that is not there: no elements.
fn nothing(dtype: DType) -> (TensorType, Strides) {
    (TensorType::new([0], dtype), SmallVec::from_slice(&[dtype.size() as isize]))
}

fn setting<'py>(py: Python<'py>, torch: &Torch, device: Device, bound: &Bindings<'py>) -> PyResult<Setting> {
    Ok(match device {
        Device::Cpu => {
            let threads = torch.get_num_threads.bind(py).call0()?.extract()?;
            Setting { threads: Some(threads), ..Setting::default() }
        }
        Device::Cuda(index) => {
            let stream = match &torch.current_raw_stream {
                Some(current) => current.bind(py).call1((index,))?,
                None => {
                    let stream = torch.current_stream.bind(py).call1((bound.torch_device(py)?,))?;
                    stream.getattr(intern!(py, "cuda_stream"))?
                }
            };
            Setting { stream: Stream(stream.extract()?), ..Setting::default() }
        }
    })
}

/// A new torch tensor and where it is: from the pool where it is large, else torch's own.
fn allocate<'py>(
    py: Python<'py>,
    torch: &Torch,
    device: Device,
    bound: &Bindings<'py>,
    planned: Planned,
) -> PyResult<(Bound<'py, PyAny>, Option<Parts>)> {
    let is_wanted = planned.is_some();
    let (kind, strides) = planned.unwrap_or_else(|| nothing(bound.dtype()));
    if device == Device::Cpu && kind.bytes() >= POOLED_BYTES {
        let tensor = devices::allocate(device, kind, strides).map_err(raise)?;
        let parts = (*tensor.view()).clone();
        return Ok((torch.from_dlpack.bind(py).call1((export::hand_over(py, tensor, 0, false)?,))?, Some(parts)));
    }
    let result = match (bound.model(&kind, &strides), bound.dense_model(&kind, &strides)) {
        (Some(tensor), _) => torch.empty_like.bind(py).call1((tensor,))?,
        (None, Some(tensor)) => {
            tensor.call_method1(intern!(py, "new_empty"), (PyTuple::new(py, kind.shape.iter())?,))?
        }
        (None, None) => {
            let size = kind.dtype.size() as isize;
            let shape = PyTuple::new(py, kind.shape.iter())?;
            let steps = PyTuple::new(py, strides.iter().map(|stride| stride / size))?;
            let options = PyDict::new(py);
            options.set_item(intern!(py, "dtype"), torch.dtype_object(py, kind.dtype))?;
            options.set_item(intern!(py, "device"), bound.torch_device(py)?)?;
            torch.empty_strided.bind(py).call((shape, steps), Some(&options))?
        }
    };
    if !is_wanted {
        return Ok((result, None));
    }
    let address: usize = result.call_method0(intern!(py, "data_ptr"))?.extract()?;
    let pointer = match address {
        0 => std::ptr::dangling_mut::<u64>().cast(),
        address => std::ptr::with_exposed_provenance_mut(address),
    };
    Ok((result, Some(Parts { pointer, kind, strides, device })))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TorchOperator>()
}
