//! Arguments of C functions, with the few accesses through raw pointers in one place.

use crate::driver::{HostRange, Result, code::Code};
use std::ffi::{CStr, c_char};

/// A pointer the caller wants a result in.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Stores the result; null is an invalid value.
    pub fn set(self, value: T) -> Result<()> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the driver API requires result pointers to be valid for one write of their type; null was excluded.
        // Callers may pass pointers into packed C structures, so alignment is not assumed.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Stores the result if the caller wants it.
    pub fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            let _ = self.set(value);
        }
    }

    /// What the caller has put there.
    pub fn read(&self) -> Result<T>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: where the driver API says that a pointer is read, it is valid for one value of its type; null was
        // excluded, and alignment is not assumed.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Takes what the caller has put there and stores what `exchange` makes of it.
    pub fn exchange(self, exchange: impl FnOnce(T) -> T) -> Result<()>
    where
        T: Copy,
    {
        let given = self.read()?;
        self.set(exchange(given))
    }

    /// Stores several values.
    pub fn set_all(self, values: &[T]) -> Result<()>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller named a buffer of at least this many elements (a length argument or a fixed-size
        // structure of the API); it cannot overlap `values`, which the emulator owns.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.0, values.len()) };
        Ok(())
    }
}

/// A C string argument.
#[repr(transparent)]
pub struct Text(*const c_char);

impl Text {
    /// The text up to its null byte.
    pub fn read(&self) -> Result<String> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the API requires a null-terminated string that lives for the call; null was excluded.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_string).map_err(|_| Code::INVALID_VALUE)
    }

    /// The first bytes, to tell text from a binary image.
    pub fn starts_with(&self, prefix: &[u8]) -> bool {
        // SAFETY: a module image has at least four bytes; the caller passes one or null, which is excluded.
        !self.0.is_null() && unsafe { std::slice::from_raw_parts(self.0.cast::<u8>(), prefix.len()) } == prefix
    }
}

/// A pointer to memory of the program, of a size another argument gives.
#[repr(transparent)]
pub struct Host(*mut std::ffi::c_void);

impl Host {
    /// The address as a number.
    pub fn address(&self) -> usize {
        self.0 as usize
    }

    /// The range the call names; null only where nothing is copied.
    pub fn range(&self, bytes: usize) -> Result<HostRange> {
        if self.0.is_null() && bytes > 0 {
            return Err(Code::INVALID_VALUE);
        }
        Ok(HostRange { address: self.address(), bytes })
    }
}

/// The `kernelParams` of a launch: one pointer per parameter.
#[repr(transparent)]
pub struct Pointers(*const *const u8);

impl Pointers {
    /// Whether the caller gave any.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Copies `bytes` from what the pointer at `index` points to.
    pub fn read(&self, index: usize, target: &mut [u8]) -> Result<()> {
        // SAFETY: `kernelParams` has one pointer per parameter of the kernel, and `index` is below their number.
        let pointer = unsafe { *self.0.add(index) };
        if pointer.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: each pointer is valid for the size the kernel declares for that parameter, which `target` has.
        unsafe { std::ptr::copy_nonoverlapping(pointer, target.as_mut_ptr(), target.len()) };
        Ok(())
    }

    /// Reads `extra`: pairs of a key and a value, ended by key zero. Returns the packed buffer.
    pub fn packed_buffer(&self) -> Result<Vec<u8>> {
        let (mut pointer, mut size) = (std::ptr::null::<u8>(), 0);
        for index in (0..).step_by(2) {
            // SAFETY: the list is ended by a null key, and nothing after that key is read.
            let key = unsafe { *self.0.add(index) } as usize;
            if key == 0 {
                break;
            }
            // SAFETY: every key but the last is followed by its value.
            let value = unsafe { *self.0.add(index + 1) };
            match key {
                1 => pointer = value,
                // SAFETY: the value of the size key points to a `size_t` that lives for the call.
                2 => size = unsafe { value.cast::<usize>().read_unaligned() },
                _ => return Err(Code::INVALID_VALUE),
            }
        }
        if pointer.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the two values describe one buffer of the caller that lives for the call.
        Ok(unsafe { std::slice::from_raw_parts(pointer, size) }.to_vec())
    }
}

impl Out<u64> {
    /// The same pointer for a value of four bytes: what some attributes are.
    pub fn narrow(self) -> Out<u32> {
        Out(self.0.cast())
    }
}

impl Pointers {
    /// No pointers.
    pub const NONE: Self = Self(std::ptr::null());
}

impl Host {
    /// The pointer of an address that came as a number.
    pub fn from_address(address: u64) -> Self {
        Self(address as usize as *mut _)
    }
}
