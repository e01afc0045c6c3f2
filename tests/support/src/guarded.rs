//! Memory between pages that must not be touched: one byte too far ends the test.

use std::sync::{Arc, OnceLock};

use firelu::core::tensor::Storage;
use firelu::{DType, Device, Tensor, TensorType};

use crate::layouts::{Layout, Placement};
use crate::numbers::Numbers;

/// The size of a page, which guards are made of.
fn page() -> usize {
    static PAGE: OnceLock<usize> = OnceLock::new();
    // SAFETY: asks the system for a number.
    *PAGE.get_or_init(|| usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096))
}

/// Which untouchable page a tensor stands against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The one before it.
    Start,
    /// The one after it.
    End,
}

/// Readable and writable pages between two that are neither.
pub struct Guarded {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and only its address is shared.
unsafe impl Send for Guarded {}
// SAFETY: as above.
unsafe impl Sync for Guarded {}

impl Guarded {
    /// Whole pages for so many bytes, at least one; `None` where the system has no such space. Only pages that are
    /// touched cost memory.
    pub fn new(bytes: usize) -> Option<Self> {
        let bytes = bytes.max(1).next_multiple_of(page());
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address the kernel chooses touches nobody's memory; the
        // pages made accessible are inside it.
        unsafe {
            let whole = libc::mmap(std::ptr::null_mut(), bytes + 2 * page(), libc::PROT_NONE, flags, -1, 0);
            if whole == libc::MAP_FAILED {
                return None;
            }
            let base = whole.cast::<u8>().add(page());
            if libc::mprotect(base.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                libc::munmap(whole, bytes + 2 * page());
                return None;
            }
            Some(Guarded { base, bytes })
        }
    }

    /// Where so many bytes begin that stand against a side.
    pub fn offset(&self, bytes: usize, side: Side) -> usize {
        match side {
            Side::Start => 0,
            Side::End => self.bytes - bytes,
        }
    }

    /// Gives touched pages back; what they held is lost.
    pub fn forget(&self) {
        // SAFETY: the range is this value's own, and the caller needs nothing of it.
        unsafe { libc::madvise(self.base.cast(), self.bytes, libc::MADV_DONTNEED) };
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: `new` made exactly this mapping, whose last owner this is.
        unsafe { libc::munmap(self.base.sub(page()).cast(), self.bytes + 2 * page()) };
    }
}

impl Storage for Guarded {
    fn pointer(&self) -> *mut u8 {
        self.base
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn device(&self) -> Device {
        Device::Cpu
    }
}

/// A tensor against an untouchable page, of small positive numbers: every byte is 0x3c.
pub fn guarded(dtype: DType, shape: &[usize], layout: Layout, side: Side) -> Tensor {
    let Placement { strides, first, bytes } = layout.placement(shape, dtype, &mut Numbers::new(0));
    let memory = Guarded::new(bytes).expect("the system has the space");
    let start = memory.offset(bytes, side);
    // SAFETY: `offset` gives a place at which so many bytes lie inside the pages.
    unsafe { memory.base.add(start).write_bytes(0x3c, bytes) };
    Tensor::from_storage(Arc::new(memory), start + first, TensorType::new(shape, dtype), strides).unwrap()
}
