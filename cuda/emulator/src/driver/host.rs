//! The program's own memory: pinned or pageable, and never trusted to be still there when a copy finally runs.

use super::code::Code;
use super::{Driver, Result};
use std::alloc::{Layout, alloc, dealloc};
use std::hash::{DefaultHasher, Hasher};
use std::sync::OnceLock;

/// What the target of a pending copy holds: in floats a NaN, so that reading early never looks right.
pub const POISON: u8 = 0xff;

const PINNED_ALIGNMENT: usize = 4096;

/// A range of host memory that a call named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostRange {
    /// First byte.
    pub address: usize,
    /// Bytes.
    pub bytes: usize,
}

/// Pinned memory.
pub enum Pinned {
    /// Allocated by `cuMemHostAlloc`.
    Owned(Layout),
    /// Registered by `cuMemHostRegister`.
    Registered(usize),
}

impl Pinned {
    pub fn bytes(&self) -> usize {
        match self {
            Self::Owned(layout) => layout.size(),
            Self::Registered(bytes) => *bytes,
        }
    }
}

impl HostRange {
    /// Whether two ranges share a byte.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.address < other.address + other.bytes && other.address < self.address + self.bytes
    }

    /// The bytes, or `None` if the memory is gone.
    pub fn read(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.bytes];
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: self.bytes };
        transfer(local, self, false).then_some(bytes)
    }

    /// Makes the bytes look wrong until a copy arrives; false if the memory is gone.
    pub fn poison(&self) -> bool {
        self.write(&vec![POISON; self.bytes])
    }

    /// Replaces the bytes; false if the memory is gone.
    pub fn write(&self, bytes: &[u8]) -> bool {
        debug_assert_eq!(bytes.len(), self.bytes);
        let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        transfer(local, self, true)
    }
}

/// Copies between the emulator's buffer and the program's memory through the kernel, which answers with an error
/// where a direct access would end the process.
fn transfer(mut local: libc::iovec, range: &HostRange, write: bool) -> bool {
    let (mut address, mut left) = (range.address, range.bytes);
    while left > 0 {
        local.iov_len = left;
        let remote = libc::iovec { iov_base: address as *mut _, iov_len: left };
        // SAFETY: `local` describes a buffer of this function's caller that outlives the call and has at least
        // `left` bytes from `iov_base`; `remote` is only an address to the kernel, which checks it.
        let moved = unsafe {
            let process = libc::getpid();
            if write {
                libc::process_vm_writev(process, &local, 1, &remote, 1, 0)
            } else {
                libc::process_vm_readv(process, &local, 1, &remote, 1, 0)
            }
        };
        if moved <= 0 {
            return false;
        }
        // SAFETY: the kernel moved `moved` of the `left` bytes of the local buffer, so this stays inside it.
        local.iov_base = unsafe { local.iov_base.cast::<u8>().add(moved as usize).cast() };
        address += moved as usize;
        left -= moved as usize;
    }
    true
}

/// Whether the calling thread holds the interpreter of the Python that this process is, if it is one.
pub fn holds_interpreter() -> bool {
    static CHECK: OnceLock<Option<unsafe extern "C" fn() -> i32>> = OnceLock::new();
    // SAFETY: a name is looked up among those that the process has loaded; the function of this name takes nothing and
    // answers a flag, from any thread.
    unsafe {
        let check = CHECK.get_or_init(|| {
            let found = libc::dlsym(libc::RTLD_DEFAULT, c"PyGILState_Check".as_ptr());
            (!found.is_null()).then(|| std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn() -> i32>(found))
        });
        check.is_some_and(|check| check() == 1)
    }
}

/// A digest to notice that memory changed.
pub fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

impl Driver {
    /// `cuMemHostAlloc`.
    pub fn allocate_pinned(&mut self, bytes: usize) -> Result<usize> {
        self.context()?;
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let layout = Layout::from_size_align(bytes, PINNED_ALIGNMENT).map_err(|_| Code::INVALID_VALUE)?;
        // SAFETY: the size is not zero; the memory is owned by `pinned` until `free_pinned` returns it.
        let address = unsafe { alloc(layout) } as usize;
        if address == 0 {
            return Err(Code::OUT_OF_MEMORY);
        }
        self.pinned.insert(address, Pinned::Owned(layout));
        Ok(address)
    }

    /// `cuMemFreeHost`.
    pub fn free_pinned(&mut self, address: usize) -> Result<()> {
        match self.pinned.remove(&address) {
            Some(Pinned::Owned(layout)) => {
                // SAFETY: `address` came from `alloc` with this layout and leaves the map here, so once only.
                unsafe { dealloc(address as *mut u8, layout) };
                Ok(())
            }
            Some(registered) => {
                self.pinned.insert(address, registered);
                Err(Code::INVALID_VALUE)
            }
            None => Err(Code::INVALID_VALUE),
        }
    }

    /// `cuMemHostRegister`.
    pub fn register_host(&mut self, address: usize, bytes: usize) -> Result<()> {
        self.context()?;
        if address == 0 || bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        if self.is_pinned(&HostRange { address, bytes: 1 }) {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.pinned.insert(address, Pinned::Registered(bytes));
        Ok(())
    }

    /// `cuMemHostUnregister`.
    pub fn unregister_host(&mut self, address: usize) -> Result<()> {
        match self.pinned.get(&address) {
            Some(Pinned::Registered(_)) => {
                self.pinned.remove(&address);
                Ok(())
            }
            _ => Err(Code::HOST_MEMORY_NOT_REGISTERED),
        }
    }

    /// Whether a whole range is pinned.
    pub fn is_pinned(&self, range: &HostRange) -> bool {
        let below = self.pinned.range(..=range.address).next_back();
        below.is_some_and(|(&start, pinned)| range.address + range.bytes <= start + pinned.bytes())
    }
}
