//! Memory and streams of CUDA devices as Python libraries hand them over: `__cuda_array_interface__` both ways.

use std::any::Any;

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::core::device::{Device, Stream};
use crate::core::dtype::DType;
use crate::core::error::{Error, Result};
use crate::core::shape::{Shape, Strides};
use crate::core::tensor::{Tensor, TensorType};
use crate::graph::tape::Variable;
use crate::python::errors::{self, raise};

const ATTRIBUTE: &str = "__cuda_array_interface__";
/// How the interface writes a device's default stream, which firelu uses.
const LEGACY_STREAM: usize = 1;

/// Device memory of another library.
pub struct Foreign {
    /// A tensor over the memory, which keeps its owner.
    pub tensor: Tensor,
    /// Whether the owner lets nobody write to it.
    pub read_only: bool,
    /// The stream that the owner uses it on, where that is another than firelu's.
    pub stream: Option<Stream>,
}

impl Foreign {
    /// Makes the owner's stream wait for what firelu has put on its own so far, so that the owner may read, overwrite or
    /// free the memory there.
    pub fn give_back(&self) -> Result<()> {
        match (self.tensor.device(), self.stream) {
            (Device::Cuda(ordinal), Some(stream)) => order(ordinal, Stream::default(), stream),
            _ => Ok(()),
        }
    }
}

/// The device, if there is one.
pub fn require(ordinal: u32) -> Result<Device> {
    #[cfg(feature = "cuda")]
    crate::devices::cuda::available::require(ordinal)?;
    #[cfg(not(feature = "cuda"))]
    return Err(no_cuda(ordinal));
    #[cfg(feature = "cuda")]
    Ok(Device::Cuda(ordinal))
}

#[cfg(not(feature = "cuda"))]
fn no_cuda(ordinal: u32) -> Error {
    let device = Device::Cuda(ordinal).to_string();
    Error::Device { device, reason: "this build of firelu has no CUDA device".into() }
}

/// Makes work put on `later` wait for what was put on `earlier` so far.
pub fn order(ordinal: u32, earlier: Stream, later: Stream) -> Result<()> {
    #[cfg(feature = "cuda")]
    {
        let context = crate::devices::cuda::context::context(ordinal)?;
        // SAFETY: both protocols oblige whoever names a stream to keep it alive for the call.
        unsafe { crate::devices::cuda::external::order(context, earlier, later) }
    }
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (earlier, later);
        Err(no_cuda(ordinal))
    }
}

/// Keeps the owner of a device's memory until firelu's work with it is done.
pub fn give_back(ordinal: u32, owner: Box<dyn Any + Send + Sync>) {
    #[cfg(feature = "cuda")]
    crate::devices::cuda::lending::give_back(ordinal, owner);
    #[cfg(not(feature = "cuda"))]
    drop((ordinal, owner));
}

/// Gives back what the devices are done with.
pub fn settle() {
    #[cfg(feature = "cuda")]
    crate::devices::cuda::lending::settle();
}

/// Makes firelu's stream wait for all that the device has to do.
pub fn take_back(ordinal: u32) {
    #[cfg(feature = "cuda")]
    crate::devices::cuda::lending::take_back(ordinal);
    #[cfg(not(feature = "cuda"))]
    let _ = ordinal;
}

/// Refuses device memory whose elements do not begin at multiples of their size: no kernel could read it.
pub fn check_alignment(device: Device, pointer: *mut u8, shape: &Shape, dtype: DType) -> Result<()> {
    if device == Device::Cpu || pointer as usize % dtype.size() == 0 || shape.contains(&0) {
        return Ok(());
    }
    let got = format!("the address {pointer:p}");
    Err(Error::argument("Tensor", "data", got, format!("a multiple of {} on {device}", dtype.size())))
}

/// The dictionary that describes a tensor's device memory; the attribute is absent elsewhere.
pub fn describe<'py>(py: Python<'py>, variable: &Variable) -> PyResult<Bound<'py, PyDict>> {
    let tensor = variable.value();
    let absent = |why: String| Err(PyAttributeError::new_err(format!("Tensor has no {ATTRIBUTE}: {why}")));
    if tensor.device() == Device::Cpu {
        return absent("its memory is on the cpu".into());
    }
    let typestr = match tensor.dtype() {
        DType::Float16 => "<f2",
        DType::Float32 => "<f4",
        DType::Float64 => "<f8",
        DType::BFloat16 => return absent("the interface has no bfloat16; use DLPack".into()),
    };
    let dict = PyDict::new(py);
    dict.set_item("version", 3)?;
    dict.set_item("shape", PyTuple::new(py, tensor.shape().iter())?)?;
    dict.set_item("typestr", typestr)?;
    // While the graph holds the memory nobody else may write to it.
    let empty = tensor.shape().contains(&0);
    let address = if empty { 0 } else { tensor.view().pointer as usize };
    dict.set_item("data", (address, variable.is_saved()))?;
    dict.set_item("strides", PyTuple::new(py, tensor.strides().iter())?)?;
    dict.set_item("stream", LEGACY_STREAM)?;
    Ok(dict)
}

/// The interface of an object; `None` where it has none.
pub fn interface_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    object.getattr_opt(ATTRIBUTE)?.map(|described| Ok(described.cast_into::<PyDict>()?)).transpose()
}

/// The memory of an object with this interface, ready on the stream that firelu uses.
pub fn by_interface(object: &Bound<'_, PyAny>, described: &Bound<'_, PyDict>) -> PyResult<Foreign> {
    let py = object.py();
    let refuse = |class: &str, what: &str, got: String, takes: &str| {
        errors::new(py, class, format!("{ATTRIBUTE}: {what}: got {got}, takes {takes}"))
    };
    let entry = |name: &str| {
        let missing = || refuse("ArgumentError", name, "nothing".into(), "an entry");
        described.get_item(name)?.ok_or_else(missing)
    };
    let typestr: String = entry("typestr")?.extract()?;
    let dtype = match typestr.as_str() {
        "<f2" | "=f2" => DType::Float16,
        "<f4" | "=f4" => DType::Float32,
        "<f8" | "=f8" => DType::Float64,
        _ => return Err(refuse("DTypeError", "typestr", format!("{typestr:?}"), "\"<f2\", \"<f4\" or \"<f8\"")),
    };
    let shape: Vec<usize> = entry("shape")?.extract()?;
    let (address, read_only): (usize, bool) = entry("data")?.extract()?;
    let kind = TensorType::new(shape, dtype);
    let optional = |name: &str| described.get_item(name).map(|entry| entry.filter(|entry| !entry.is_none()));
    if optional("mask")?.is_some() {
        return Err(refuse("ArgumentError", "mask", "a mask".into(), "None"));
    }
    let strides: Strides = match optional("strides")? {
        Some(strides) => strides.extract::<Vec<isize>>()?.into_iter().collect(),
        None => kind.shape.row_major_strides(dtype),
    };
    let stream = optional("stream")?.map(|stream| stream.extract::<usize>()).transpose()?;
    if stream == Some(0) {
        return Err(refuse("ArgumentError", "stream", "0".into(), "1, 2 or a stream's handle"));
    }
    let stream = stream.filter(|&stream| stream != LEGACY_STREAM).map(Stream);
    let tensor = external(address as u64, kind, strides, stream, object).map_err(raise)?;
    Ok(Foreign { tensor, read_only, stream })
}

#[cfg(feature = "cuda")]
fn external(
    address: u64,
    kind: TensorType,
    strides: Strides,
    stream: Option<Stream>,
    owner: &Bound<'_, PyAny>,
) -> Result<Tensor> {
    use crate::devices::cuda::external;
    // Nothing points to a tensor without elements.
    let ordinal = if kind.shape.contains(&0) { 0 } else { external::device_of(address)? };
    if let Some(stream) = stream {
        order(ordinal, stream, Stream::default())?;
    }
    // SAFETY: the interface's producer promises that the memory holds these elements while the object lives.
    unsafe { external::tensor(ordinal, address, kind, strides, Box::new(owner.clone().unbind())) }
}

#[cfg(not(feature = "cuda"))]
fn external(_: u64, _: TensorType, _: Strides, _: Option<Stream>, _: &Bound<'_, PyAny>) -> Result<Tensor> {
    Err(no_cuda(0))
}
