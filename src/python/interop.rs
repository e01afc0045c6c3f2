//! DLPack both ways: memory shared with other libraries, versioned and not.

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use firelu_guarded::guarded;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use super::device;
use super::errors::{self, raise};
use super::tensor::PyTensor;
use crate::core::device::{Device, Stream};
use crate::core::dtype::DType;
use crate::core::error::Error;
use crate::core::shape::{Shape, Strides, extent};
use crate::core::tensor::{Storage, Tensor, TensorType};
use crate::devices;
use crate::graph::tape::Variable;

/// How the protocol writes a device's default stream, which firelu uses.
const LEGACY_STREAM: i64 = 1;
const CPU: i32 = 1;
const CUDA: i32 = 2;
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;
/// The newest version of the protocol that is spoken here; another major version is another layout.
pub const VERSION: (u32, u32) = (1, 0);

/// The most dimensions that numpy knows: a larger number is rubbish, and its shape would not be there to read.
const MOST_DIMENSIONS: usize = 64;

const PLAIN: &CStr = c"dltensor";
const PLAIN_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

/// The layouts below are those of `dlpack.h`.
#[repr(C)]
pub struct DLTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

impl DLTensor {
    /// Whether it is in the CPU's memory and has some.
    pub fn is_cpu_memory(&self) -> bool {
        self.device_type == CPU && !self.data.is_null()
    }
}

#[repr(C)]
struct Managed {
    tensor: DLTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: DLTensor,
}

const _: () = assert!(size_of::<DLTensor>() == 48 && size_of::<Managed>() == 64 && size_of::<ManagedVersioned>() == 80);

/// DLPack's name of a device.
pub fn dlpack_device(device: Device) -> (i32, i32) {
    match device {
        Device::Cpu => (CPU, 0),
        Device::Cuda(ordinal) => (CUDA, ordinal as i32),
    }
}

/// What an exported tensor keeps alive: the memory, and the arrays that the consumer reads.
struct Export {
    _tensor: Tensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// Makes a consumer's stream wait for what was put on the tensor's stream so far, as the protocol asks a producer to.
fn order_for_consumer(tensor: &Tensor, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let Device::Cuda(ordinal) = tensor.device() else { return Ok(()) };
    let number = match stream.filter(|stream| !stream.is_none()) {
        Some(stream) => stream.extract::<i64>()?,
        None => LEGACY_STREAM,
    };
    match number {
        // The consumer uses the default stream itself, or orders the streams in its own way.
        LEGACY_STREAM | -1 => Ok(()),
        0 | ..-1 => {
            let message = format!("Tensor.__dlpack__: stream: got {number}, takes -1, 1, 2 or a stream's handle");
            Err(PyBufferError::new_err(message))
        }
        handle => device::order(ordinal, Stream::default(), Stream(handle as usize)).map_err(raise),
    }
}

/// A capsule over a variable's memory, or over a copy where the tape holds it or one is asked for.
pub fn export<'py>(
    py: Python<'py>,
    variable: &Variable,
    stream: Option<&Bound<'py, PyAny>>,
    max_version: Option<(u32, u32)>,
    dl_device: Option<(i32, i32)>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut tensor = variable.value().clone();
    let device = tensor.device();
    if device == Device::Cpu && stream.is_some_and(|stream| !stream.is_none()) {
        return Err(PyBufferError::new_err("Tensor.__dlpack__: stream: got a stream, takes None on the cpu"));
    }
    if dl_device.is_some_and(|wanted| wanted != dlpack_device(device)) {
        let message =
            format!("Tensor.__dlpack__: dl_device: got {dl_device:?}, takes that of {device}: use .to() first");
        return Err(PyBufferError::new_err(message));
    }
    order_for_consumer(&tensor, stream)?;
    let mut flags = 0;
    if copy == Some(true) || variable.is_saved() {
        if copy == Some(false) {
            let message = "Tensor.__dlpack__: copy: got False, takes None or True: a graph holds this memory";
            return Err(PyBufferError::new_err(message));
        }
        tensor = devices::copy(&tensor, device).map_err(raise)?;
        flags |= IS_COPIED;
    }
    let size = tensor.dtype().size() as isize;
    if tensor.strides().iter().any(|stride| stride % size != 0) {
        tensor = devices::copy(&tensor, device).map_err(raise)?;
        flags |= IS_COPIED;
    }
    hand_over(py, tensor, flags, max_version.is_some_and(|(major, _)| major >= 1))
}

/// A capsule that owns a share of a tensor's memory, in the form of either protocol. The strides must be whole
/// elements.
pub fn hand_over(py: Python<'_>, tensor: Tensor, flags: u64, versioned: bool) -> PyResult<Bound<'_, PyAny>> {
    let size = tensor.dtype().size() as isize;
    let export = Box::new(Export {
        shape: tensor.shape().iter().map(|&n| n as i64).collect(),
        strides: tensor.strides().iter().map(|&stride| (stride / size) as i64).collect(),
        _tensor: tensor.clone(),
    });
    let (device_type, device_id) = dlpack_device(tensor.device());
    let described = DLTensor {
        data: tensor.view().pointer.cast(),
        device_type,
        device_id,
        ndim: export.shape.len() as i32,
        code: if tensor.dtype() == DType::BFloat16 { BFLOAT } else { FLOAT },
        bits: 8 * size as u8,
        lanes: 1,
        shape: export.shape.as_ptr().cast_mut(),
        strides: export.strides.as_ptr().cast_mut(),
        byte_offset: 0,
    };
    let context = Box::into_raw(export).cast();
    if versioned {
        let (major, minor) = VERSION;
        let managed =
            ManagedVersioned { major, minor, context, deleter: Some(delete_versioned), flags, tensor: described };
        return capsule(py, Box::into_raw(Box::new(managed)).cast(), VERSIONED, destroy_versioned);
    }
    let managed = Managed { tensor: described, context, deleter: Some(delete) };
    capsule(py, Box::into_raw(Box::new(managed)).cast(), PLAIN, destroy)
}

fn capsule<'py>(
    py: Python<'py>,
    pointer: *mut c_void,
    name: &'static CStr,
    destructor: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the pointer is not null and owns the export; the name is static; the destructor frees the
    // export unless a consumer has renamed the capsule and so taken it over.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destructor))) }
}

unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: `export` made both boxes, and the protocol calls the deleter once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Export>()));
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: as in `delete`.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Export>()));
    }
}

unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the dying capsule; under its first name nobody has taken the export.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, PLAIN.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, PLAIN.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn destroy_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as in `destroy`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}

/// A tensor that another library manages: the memory is its, until its deleter is called.
enum Owner {
    Plain(*mut Managed),
    Versioned(*mut ManagedVersioned),
}

struct Imported {
    _owner: Owner,
    first: *mut u8,
    bytes: usize,
    device: Device,
}

// SAFETY: DLPack memory is tied to no thread; the deleter is called with the interpreter's lock held.
unsafe impl Send for Imported {}
// SAFETY: as above; sharing shares only the address.
unsafe impl Sync for Imported {}

impl Storage for Imported {
    fn pointer(&self) -> *mut u8 {
        self.first
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn device(&self) -> Device {
        self.device
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Deleters of Python libraries touch reference counts. At the interpreter's end memory stays.
        Python::try_attach(|_| {
            // SAFETY: the capsule handed this over, and it is given back once, here.
            unsafe {
                match *self {
                    Owner::Plain(managed) => {
                        if let Some(deleter) = (*managed).deleter {
                            deleter(managed);
                        }
                    }
                    Owner::Versioned(managed) => {
                        if let Some(deleter) = (*managed).deleter {
                            deleter(managed);
                        }
                    }
                }
            }
        });
    }
}

/// Share the memory of an object with `__dlpack__`; see `firelu.from_dlpack`.
#[guarded]
#[pyfunction]
fn from_dlpack(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
    if !object.hasattr("__dlpack__")? || !object.hasattr("__dlpack_device__")? {
        let got = object.get_type().name()?;
        let message = format!("from_dlpack: object: got {got}, takes one with __dlpack__ and __dlpack_device__");
        return Err(errors::new(py, "ArgumentError", message));
    }
    let keywords = PyDict::new(py);
    let (kind, _): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
    if kind == CUDA {
        // The producer makes the memory safe to use on the stream that firelu uses.
        keywords.set_item("stream", LEGACY_STREAM)?;
    }
    let older = keywords.copy()?;
    keywords.set_item("max_version", VERSION)?;
    let capsule = match object.call_method("__dlpack__", (), Some(&keywords)) {
        // Producers from before versions take no such argument.
        Err(failure) if failure.is_instance_of::<PyTypeError>(py) => {
            object.call_method("__dlpack__", (), Some(&older))?
        }
        other => other?,
    };
    let (owner, read_only) = take(&capsule.cast_into::<PyCapsule>()?)?;
    // SAFETY: the owner keeps the description alive.
    let described = unsafe {
        match owner {
            Owner::Plain(managed) => &(*managed).tensor,
            Owner::Versioned(managed) => &(*managed).tensor,
        }
    };
    let (kind, strides, pointer, device) = read(described).map_err(raise)?;
    let refuse = || Error::shape("from_dlpack", "object", &kind, "elements within the address space");
    let (low, high) = extent(&kind.shape, &strides, kind.dtype.size()).ok_or_else(refuse).map_err(raise)?;
    let first = pointer.wrapping_offset(low);
    let storage = Imported { _owner: owner, first, bytes: high.abs_diff(low), device };
    let tensor = Tensor::from_storage(Arc::new(storage), low.unsigned_abs(), kind, strides).map_err(raise)?;
    Ok(if read_only { Variable::read_only(tensor) } else { Variable::constant(tensor) }.into())
}

/// Takes the managed tensor out of its capsule, which then no longer owns it.
fn take(capsule: &Bound<'_, PyCapsule>) -> PyResult<(Owner, bool)> {
    let py = capsule.py();
    let object = capsule.as_ptr();
    // SAFETY: the object is a capsule; a name that matches says what the pointer is, and renaming it is
    // how the protocol hands it over.
    unsafe {
        if ffi::PyCapsule_IsValid(object, VERSIONED.as_ptr()) == 1 {
            let managed: *mut ManagedVersioned = ffi::PyCapsule_GetPointer(object, VERSIONED.as_ptr()).cast();
            if (*managed).major != VERSION.0 {
                let message = format!("from_dlpack: got DLPack version {}, takes {}", (*managed).major, VERSION.0);
                return Err(PyBufferError::new_err(message));
            }
            ffi::PyCapsule_SetName(object, VERSIONED_USED.as_ptr());
            return Ok((Owner::Versioned(managed), (*managed).flags & READ_ONLY != 0));
        }
        if ffi::PyCapsule_IsValid(object, PLAIN.as_ptr()) == 1 {
            let managed = ffi::PyCapsule_GetPointer(object, PLAIN.as_ptr()).cast();
            ffi::PyCapsule_SetName(object, PLAIN_USED.as_ptr());
            return Ok((Owner::Plain(managed), false));
        }
    }
    let message = "from_dlpack: object: got a capsule that is used or unknown, takes a new one from __dlpack__";
    Err(errors::new(py, "ArgumentError", message))
}

/// What a foreign description says, checked as far as it can be.
pub fn read(described: &DLTensor) -> Result<(TensorType, Strides, *mut u8, Device), Error> {
    let dtype = match (described.code, described.bits, described.lanes) {
        (FLOAT, 16, 1) => DType::Float16,
        (FLOAT, 32, 1) => DType::Float32,
        (FLOAT, 64, 1) => DType::Float64,
        (BFLOAT, 16, 1) => DType::BFloat16,
        (code, bits, lanes) => {
            let got = format!("type code {code} with {bits} bits and {lanes} lanes");
            return Err(Error::dtype("from_dlpack", "object", got, "float16, bfloat16, float32 or float64"));
        }
    };
    let device = match (described.device_type, u32::try_from(described.device_id)) {
        (CPU, _) => Device::Cpu,
        (CUDA, Ok(ordinal)) => device::require(ordinal)?,
        (kind, _) => {
            let device = format!("DLPack device ({kind}, {})", described.device_id);
            return Err(Error::Device {
                device,
                reason: "from_dlpack takes memory of the cpu or a CUDA device".into(),
            });
        }
    };
    let refuse = |got: String| Error::shape("from_dlpack", "object", got, "sizes that fit the address space");
    let rank = usize::try_from(described.ndim).ok().filter(|&rank| rank <= MOST_DIMENSIONS);
    let rank = rank.ok_or_else(|| refuse(format!("{} dimensions", described.ndim)))?;
    if rank > 0 && described.shape.is_null() {
        return Err(refuse(format!("{rank} dimensions without a shape")));
    }
    let list = |pointer: *mut i64| match rank {
        0 => &[][..],
        // SAFETY: the pointer is not null, and the protocol promises `ndim` numbers there.
        _ => unsafe { std::slice::from_raw_parts(pointer, rank) },
    };
    let sizes: Result<Vec<usize>, _> = list(described.shape).iter().map(|&n| usize::try_from(n)).collect();
    let shape = sizes.map(Shape::from).ok().filter(|shape| shape.checked_elements(dtype).is_some());
    let shape = shape.ok_or_else(|| refuse(format!("{:?}", list(described.shape))))?;
    let strides = match described.strides.is_null() {
        true => shape.row_major_strides(dtype),
        false => {
            let steps = list(described.strides).iter();
            let bytes: Option<Strides> =
                steps.map(|&step| isize::try_from(step).ok()?.checked_mul(dtype.size() as isize)).collect();
            bytes.ok_or_else(|| refuse(format!("strides {:?}", list(described.strides))))?
        }
    };
    let offset = usize::try_from(described.byte_offset).ok();
    if offset.and_then(|offset| described.data.addr().checked_add(offset)).is_none() {
        return Err(refuse(format!("an offset of {} bytes", described.byte_offset)));
    }
    let pointer = described.data.cast::<u8>().wrapping_add(described.byte_offset as usize);
    if pointer.is_null() && shape.elements() > 0 {
        return Err(refuse("elements without memory".into()));
    }
    device::check_alignment(device, pointer, &shape, dtype)?;
    Ok((TensorType { shape, dtype }, strides, pointer, device))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(from_dlpack, module)?)
}
