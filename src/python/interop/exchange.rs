//! DLPack's table of C functions, where a library has one: its tensors described without calls into Python.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::dlpack::{self, DLTensor, VERSION};
use crate::core::tensor::Parts;

/// The table as DLPack 1 lays it out.
#[repr(C)]
struct Table {
    major: u32,
    minor: u32,
    previous: *const c_void,
    allocate: *const c_void,
    export: *const c_void,
    import: *const c_void,
    describe: Option<unsafe extern "C" fn(*mut c_void, *mut DLTensor) -> c_int>,
    current_stream: *const c_void,
}

/// Describes tensors of one library.
pub struct Exchange(unsafe extern "C" fn(*mut c_void, *mut DLTensor) -> c_int);

impl Exchange {
    /// The functions of a class; `None` where it has none that are understood here.
    pub fn of(class: &Bound<'_, PyType>) -> Option<Exchange> {
        let capsule = class.getattr("__dlpack_c_exchange_api__").ok()?;
        let name = c"dlpack_exchange_api".as_ptr();
        // SAFETY: a valid capsule of this name holds the table, which lives as long as the process.
        unsafe {
            if ffi::PyCapsule_IsValid(capsule.as_ptr(), name) != 1 {
                return None;
            }
            let table: *const Table = ffi::PyCapsule_GetPointer(capsule.as_ptr(), name).cast();
            if (*table).major != VERSION.0 { None } else { (*table).describe.map(Exchange) }
        }
    }

    /// Where a tensor in memory of the CPU or of a CUDA device is; `None` where the library cannot say, or it is elsewhere.
    ///
    /// # Safety
    /// The object is of the class that these functions were found on.
    pub unsafe fn parts(&self, object: &Bound<'_, PyAny>) -> Option<Parts> {
        let mut described = MaybeUninit::<DLTensor>::zeroed();
        // SAFETY: the caller's promise; the function fills the description or fails with an exception.
        let described = unsafe {
            if (self.0)(object.as_ptr().cast(), described.as_mut_ptr()) != 0 {
                PyErr::take(object.py());
                return None;
            }
            described.assume_init()
        };
        if !described.has_memory() {
            return None;
        }
        let (kind, strides, pointer, device) = dlpack::read(&described).ok()?;
        Some(Parts { pointer, kind, strides, device })
    }
}
