//! Memory handed to other libraries by DLPack, versioned and not.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::device;
use super::dlpack::{
    BFLOAT, CPU, CUDA, DLTensor, FLOAT, IS_COPIED, LEGACY_STREAM, Managed, ManagedVersioned, PLAIN, VERSION, VERSIONED,
};
use crate::core::device::{Device, Stream};
use crate::core::dtype::DType;
use crate::core::tensor::Tensor;
use crate::devices;
use crate::graph::tape::Variable;
use crate::python::entry;
use crate::python::errors::raise;

/// DLPack's name of a device.
pub fn dlpack_device(device: Device) -> (i32, i32) {
    match device {
        Device::Cpu => (CPU, 0),
        Device::Cuda(ordinal) => (CUDA, ordinal as i32),
    }
}

/// What an exported tensor keeps alive: the memory, and the arrays that the consumer reads.
struct Export {
    tensor: Tensor,
    /// Whether the consumer uses it on another stream than firelu.
    elsewhere: bool,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Drop for Export {
    fn drop(&mut self) {
        let (Device::Cuda(ordinal), true) = (self.tensor.device(), self.elsewhere) else { return };
        // An older driver waits here, and other threads may have to go on for that to end.
        Python::try_attach(|py| entry::detach(py, || device::take_back(ordinal)));
    }
}

/// The stream that a consumer names and that has to be told of firelu's: none for the default one.
fn consumer_stream(stream: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Stream>> {
    let number = match stream.filter(|stream| !stream.is_none()) {
        Some(stream) => stream.extract::<i64>()?,
        None => LEGACY_STREAM,
    };
    match number {
        // The consumer uses the default stream itself, or orders the streams in its own way.
        LEGACY_STREAM | -1 => Ok(None),
        0 | ..-1 => {
            let message = format!("Tensor.__dlpack__: stream: got {number}, takes -1, 1, 2 or a stream's handle");
            Err(PyBufferError::new_err(message))
        }
        handle => Ok(Some(Stream(handle as usize))),
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
    let consumer = if device == Device::Cpu { None } else { consumer_stream(stream)? };
    let mut flags = 0;
    if copy == Some(true) || variable.is_saved() {
        if copy == Some(false) {
            let message = "Tensor.__dlpack__: copy: got False, takes None or True: a graph holds this memory";
            return Err(PyBufferError::new_err(message));
        }
        tensor = entry::detach(py, || devices::copy(&tensor, device)).map_err(raise)?;
        flags |= IS_COPIED;
    }
    let size = tensor.dtype().size() as isize;
    if tensor.strides().iter().any(|stride| stride % size != 0) {
        tensor = entry::detach(py, || devices::copy(&tensor, device)).map_err(raise)?;
        flags |= IS_COPIED;
    }
    // The copies above are on firelu's stream: what the consumer's waits for comes after the last of them.
    if let (Device::Cuda(ordinal), Some(consumer)) = (device, consumer) {
        device::order(ordinal, Stream::default(), consumer).map_err(raise)?;
    }
    hand_over_to(py, tensor, consumer.is_some(), flags, max_version.is_some_and(|(major, _)| major >= 1))
}

/// A capsule that owns a share of a tensor's memory, in the form of either protocol. The strides must be whole
/// elements.
pub fn hand_over(py: Python<'_>, tensor: Tensor, flags: u64, versioned: bool) -> PyResult<Bound<'_, PyAny>> {
    hand_over_to(py, tensor, false, flags, versioned)
}

/// The same; `elsewhere`: the consumer uses the memory on a stream of its own.
fn hand_over_to(
    py: Python<'_>,
    tensor: Tensor,
    elsewhere: bool,
    flags: u64,
    versioned: bool,
) -> PyResult<Bound<'_, PyAny>> {
    let size = tensor.dtype().size() as isize;
    let export = Box::new(Export {
        shape: tensor.shape().iter().map(|&n| n as i64).collect(),
        strides: tensor.strides().iter().map(|&stride| (stride / size) as i64).collect(),
        tensor: tensor.clone(),
        elsewhere,
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
