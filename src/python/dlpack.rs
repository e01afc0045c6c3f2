//! DLPack: a tensor handed to another library together with the duty to free it.

use std::ffi::{CStr, c_void};

use pyo3::ffi;
use pyo3::prelude::*;

use crate::core::device::Device;
use crate::core::dtype::DType;
use crate::core::tensor::Tensor;

/// The name of a capsule that nobody has consumed yet.
const UNUSED: &CStr = c"dltensor";

const CPU: i32 = 1;
const CUDA: i32 = 2;
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;

// The layout that dlpack.h fixes for exchange between libraries, version 0.
#[repr(C)]
struct DlDevice {
    kind: i32,
    ordinal: i32,
}

#[repr(C)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    dimensions: i32,
    dtype: DlDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlManagedTensor {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
}

/// What stays alive until the consumer is done.
struct Exported {
    managed: DlManagedTensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
    _tensor: Tensor,
}

/// A capsule that owns the tensor, for a consumer that takes it over.
pub fn export<'py>(py: Python<'py>, tensor: Tensor) -> PyResult<Bound<'py, PyAny>> {
    let parts = (*tensor.view()).clone();
    let size = parts.dtype().size() as isize;
    let (kind, ordinal) = match parts.device {
        Device::Cpu => (CPU, 0),
        Device::Cuda(ordinal) => (CUDA, ordinal as i32),
    };
    let code = if parts.dtype() == DType::BFloat16 { BFLOAT } else { FLOAT };
    let mut exported = Box::new(Exported {
        managed: DlManagedTensor {
            tensor: DlTensor {
                data: parts.pointer.cast(),
                device: DlDevice { kind, ordinal },
                dimensions: parts.shape().len() as i32,
                dtype: DlDataType { code, bits: (size * 8) as u8, lanes: 1 },
                shape: std::ptr::null_mut(),
                strides: std::ptr::null_mut(),
                byte_offset: 0,
            },
            context: std::ptr::null_mut(),
            deleter: Some(free),
        },
        shape: parts.shape().iter().map(|&n| n as i64).collect(),
        strides: parts.strides.iter().map(|&stride| (stride / size) as i64).collect(),
        _tensor: tensor,
    });
    exported.managed.tensor.shape = exported.shape.as_mut_ptr();
    exported.managed.tensor.strides = exported.strides.as_mut_ptr();
    let exported = Box::into_raw(exported);
    // SAFETY: `exported` was allocated just now; its address is the context by which `free` finds it, and
    // the managed tensor inside it stays where it is until then.
    let capsule = unsafe {
        (*exported).managed.context = exported.cast();
        ffi::PyCapsule_New((&raw mut (*exported).managed).cast(), UNUSED.as_ptr(), Some(drop_unused))
    };
    // SAFETY: `PyCapsule_New` gave a new reference, or null with an exception set.
    match unsafe { Bound::from_owned_ptr_or_err(py, capsule) } {
        Ok(capsule) => Ok(capsule),
        Err(failure) => {
            // SAFETY: no capsule has taken the box over.
            drop(unsafe { Box::from_raw(exported) });
            Err(failure)
        }
    }
}

/// The consumer's last word; may come from any thread, with or without the interpreter.
unsafe extern "C" fn free(managed: *mut DlManagedTensor) {
    // SAFETY: DLPack calls this once with the pointer that `export` gave away, whose context is the box.
    drop(unsafe { Box::from_raw((*managed).context.cast::<Exported>()) });
}

/// A capsule that nobody consumed still owns its tensor; a consumer renames it.
unsafe extern "C" fn drop_unused(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with a capsule that `export` made; its name tells whether it was consumed,
    // and only then has it no pointer of ours.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, UNUSED.as_ptr()) == 1 {
            free(ffi::PyCapsule_GetPointer(capsule, UNUSED.as_ptr()).cast());
        }
    }
}
