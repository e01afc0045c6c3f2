//! Memory of other libraries, used where it is: by `__cuda_array_interface__`, or by DLPack.

use std::sync::Arc;

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyCapsule, PyDict};

use super::device::{self, Foreign};
use super::dlpack::{
    CUDA, LEGACY_STREAM, Managed, ManagedVersioned, PLAIN, PLAIN_USED, READ_ONLY, VERSION, VERSIONED, VERSIONED_USED,
    read,
};
use crate::core::device::Device;
use crate::core::error::Error;
use crate::core::shape::extent;
use crate::core::tensor::{Storage, Tensor};
use crate::python::errors::{self, raise};

/// Device memory of an object of another library; `None` for an object that has none.
///
/// An interface that names no stream leaves open on which the memory is ready. Where the object knows DLPack too, that
/// is asked instead: it makes the object's library order its stream before firelu's.
pub fn foreign(object: &Bound<'_, PyAny>) -> PyResult<Option<Foreign>> {
    let Some(described) = device::interface_of(object)? else { return Ok(None) };
    if !described.contains("stream")? && object.hasattr("__dlpack__")? && object.hasattr("__dlpack_device__")? {
        return by_dlpack(object).map(Some);
    }
    device::by_interface(object, &described).map(Some)
}

/// A tensor that another library manages: the memory is its, until its deleter is called.
enum Owner {
    Plain(*mut Managed),
    Versioned(*mut ManagedVersioned),
}

struct Imported {
    /// Taken when this is dropped.
    owner: Option<Owner>,
    first: *mut u8,
    bytes: usize,
    device: Device,
}

// SAFETY: DLPack memory is tied to no thread; the deleter is called by a thread that has the interpreter.
unsafe impl Send for Owner {}
// SAFETY: as above; sharing shares only the address.
unsafe impl Sync for Owner {}
// SAFETY: as above.
unsafe impl Send for Imported {}
// SAFETY: as above.
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

impl Drop for Imported {
    fn drop(&mut self) {
        // The library may use the memory for something else at once, on a stream of its own.
        if let (Device::Cuda(ordinal), Some(owner)) = (self.device, self.owner.take()) {
            device::give_back(ordinal, Box::new(owner));
        }
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

/// The memory of an object with `__dlpack__`, ready on the stream that firelu uses.
pub fn by_dlpack(object: &Bound<'_, PyAny>) -> PyResult<Foreign> {
    let py = object.py();
    device::settle();
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
    let capsule = capsule.cast_into::<PyCapsule>()?;
    // An object may give one capsule to two threads: one of them has it.
    let (owner, read_only) = with_critical_section(&capsule, || take(&capsule))?;
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
    let storage = Imported { owner: Some(owner), first, bytes: high.abs_diff(low), device };
    let tensor = Tensor::from_storage(Arc::new(storage), low.unsigned_abs(), kind, strides).map_err(raise)?;
    Ok(Foreign { tensor, read_only, stream: None })
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
