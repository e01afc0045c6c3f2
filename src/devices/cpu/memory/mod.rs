//! Output memory. A fresh page costs more than the arithmetic done on it, so large blocks come as
//! huge pages and are recycled when the array that held them dies, up to a limit.

mod available;
pub mod caches;
mod free_list;

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::{environment, fork};
use firelu_core::device::Device;
use firelu_core::error::{Error, Result};
use firelu_core::shape::Strides;
use firelu_core::tensor::{Storage, Tensor, TensorType};
use free_list::{Blocks, FreeList};

/// Smaller blocks are left to the allocator, which recycles them well.
pub const POOLED_BYTES: usize = 1 << 20;
/// The alignment of pooled blocks: one huge page.
const HUGE_PAGE: usize = 2 << 20;
/// The alignment of small blocks: one cache line.
const LINE: usize = 64;
/// How many bytes of free blocks are kept unless `FIRELU_CACHE_BYTES` says otherwise.
const DEFAULT_CACHE_BYTES: usize = 1 << 30;

/// Uninitialised memory for a dense tensor with these strides.
pub fn allocate(kind: TensorType, strides: Strides) -> Result<Tensor> {
    let bytes = kind.bytes();
    Tensor::from_storage(Arc::new(Block::new(bytes)?), 0, kind, strides)
}

/// `count` copies of a number, for sums on the way: an error, not an abort, where there is no memory.
pub fn numbers<T: Copy>(number: T, count: usize) -> Result<Vec<T>> {
    let mut numbers = Vec::new();
    reserve(&mut numbers, count)?;
    numbers.resize(count, number);
    Ok(numbers)
}

/// Makes room for `count` more elements, or says that there is none.
pub fn reserve<T>(vector: &mut Vec<T>, count: usize) -> Result<()> {
    let bytes = count.saturating_mul(size_of::<T>());
    let reserved = available::affords(bytes) && vector.try_reserve_exact(count).is_ok();
    if reserved { Ok(()) } else { Err(Error::OutOfMemory { device: Device::Cpu.to_string(), bytes }) }
}

/// Memory of the CPU: pooled where large. Returned to the pool, or freed, when dropped.
pub struct Block {
    pointer: NonNull<u8>,
    /// What the owner asked for.
    bytes: usize,
    /// What the pool or the allocator gave.
    capacity: usize,
}

// SAFETY: a block owns its memory alone, and that memory may be freed by any thread.
unsafe impl Send for Block {}
// SAFETY: sharing a block shares only its address.
unsafe impl Sync for Block {}

impl Block {
    /// Uninitialised memory; at least one byte, so that the address is always real.
    pub fn new(bytes: usize) -> Result<Self> {
        let out_of_memory = || Error::OutOfMemory { device: Device::Cpu.to_string(), bytes };
        if bytes < POOLED_BYTES {
            // SAFETY: the layout's size is at least one.
            let pointer = unsafe { alloc(small_layout(bytes)) };
            let pointer = NonNull::new(pointer).ok_or_else(out_of_memory)?;
            return Ok(Block { pointer, bytes, capacity: bytes });
        }
        let capacity = size_class(bytes).ok_or_else(out_of_memory)?;
        let pointer = match fork::steady(|| POOL.take(capacity)) {
            Some(Address(pointer)) => {
                RECYCLED.fetch_add(1, Ordering::Relaxed);
                pointer
            }
            // The cache itself may hold what is missing: empty it and ask once more.
            None => map(capacity)
                .or_else(|| {
                    empty_cache();
                    map(capacity)
                })
                .ok_or_else(out_of_memory)?,
        };
        IN_USE.fetch_add(capacity, Ordering::Relaxed);
        Ok(Block { pointer, bytes, capacity })
    }

    /// The first byte's address.
    pub fn pointer(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.bytes < POOLED_BYTES {
            // SAFETY: `new` allocated this address with this very layout.
            unsafe { dealloc(self.pointer(), small_layout(self.bytes)) };
            return;
        }
        IN_USE.fetch_sub(self.capacity, Ordering::Relaxed);
        let limit = cache_limit();
        fork::steady(|| POOL.put(Address(self.pointer), self.capacity, limit, unmap));
    }
}

impl Storage for Block {
    fn pointer(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn device(&self) -> Device {
        Device::Cpu
    }
}

fn small_layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes.max(1), LINE).expect("a small size rounds up without overflow")
}

/// Rounds up so that at most an eighth is wasted and blocks of nearly one size serve each other.
fn size_class(bytes: usize) -> Option<usize> {
    let step = (bytes.checked_next_power_of_two()? / 16).max(HUGE_PAGE);
    bytes.checked_next_multiple_of(step).filter(|&size| size <= isize::MAX as usize)
}

/// The address of a free block, owned by the list it is in.
struct Address(NonNull<u8>);

// SAFETY: whoever holds the address of a free block owns its memory, which is not tied to a thread.
unsafe impl Send for Address {}

static POOL: FreeList<Address> = FreeList::new(Mutex::new(Blocks::new()));
static IN_USE: AtomicUsize = AtomicUsize::new(0);
static RECYCLED: AtomicU64 = AtomicU64::new(0);
static MAPPED: AtomicU64 = AtomicU64::new(0);
static LIMIT: OnceLock<AtomicUsize> = OnceLock::new();

fn limit() -> &'static AtomicUsize {
    fork::once(&LIMIT, || {
        let asked = environment::cache_bytes().ok().flatten();
        AtomicUsize::new(asked.unwrap_or(DEFAULT_CACHE_BYTES))
    })
}

/// How many bytes of free blocks are kept at most.
pub fn cache_limit() -> usize {
    limit().load(Ordering::Relaxed)
}

/// Changes that limit; what exceeds it is returned to the system now.
pub fn set_cache_limit(bytes: usize) {
    limit().store(bytes, Ordering::Relaxed);
    fork::steady(|| POOL.shrink(bytes, unmap));
}

/// Returns every free block to the system.
pub fn empty_cache() {
    fork::steady(|| POOL.shrink(0, unmap));
}

/// What the pool holds and has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of pooled blocks that arrays hold now.
    pub in_use: usize,
    /// Bytes of free blocks kept for the next call.
    pub cached: usize,
    /// The limit of `cached`.
    pub limit: usize,
    /// How many blocks were taken from the cache so far.
    pub recycled: u64,
    /// How many blocks were taken from the system so far.
    pub mapped: u64,
}

/// A snapshot of the pool.
pub fn stats() -> Stats {
    Stats {
        in_use: IN_USE.load(Ordering::Relaxed),
        cached: fork::steady(|| POOL.bytes()),
        limit: cache_limit(),
        recycled: RECYCLED.load(Ordering::Relaxed),
        mapped: MAPPED.load(Ordering::Relaxed),
    }
}

/// Fresh memory, or `None`, before a page of it is touched: pages that the system has promised and cannot give end
/// the process. So the mapping counts towards the system's own limit, and a large one is asked for beforehand, since
/// a system may promise everything.
#[cfg(target_os = "linux")]
fn map(capacity: usize) -> Option<NonNull<u8>> {
    if !available::affords(capacity) {
        return None;
    }
    let reserved = capacity.checked_add(HUGE_PAGE)?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a fresh anonymous mapping at an address the kernel chooses touches nobody's memory.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), reserved, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return None;
    }
    let start = (base as usize).next_multiple_of(HUGE_PAGE);
    let (before, after) = (start - base as usize, base as usize + reserved - start - capacity);
    // SAFETY: both ranges are the unused ends of the mapping just made; advice changes no contents.
    unsafe {
        if before > 0 {
            libc::munmap(base, before);
        }
        if after > 0 {
            libc::munmap((start + capacity) as *mut libc::c_void, after);
        }
        libc::madvise(start as *mut libc::c_void, capacity, libc::MADV_HUGEPAGE);
    }
    MAPPED.fetch_add(1, Ordering::Relaxed);
    NonNull::new(start as *mut u8)
}

#[cfg(target_os = "linux")]
fn unmap(Address(pointer): Address, capacity: usize) {
    // SAFETY: `map` made exactly this range, and its last owner has given it up.
    unsafe { libc::munmap(pointer.as_ptr().cast(), capacity) };
}

#[cfg(not(target_os = "linux"))]
fn map(capacity: usize) -> Option<NonNull<u8>> {
    MAPPED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the capacity is a non-zero multiple of the alignment.
    NonNull::new(unsafe { alloc(Layout::from_size_align(capacity, HUGE_PAGE).ok()?) })
}

#[cfg(not(target_os = "linux"))]
fn unmap(Address(pointer): Address, capacity: usize) {
    // SAFETY: `map` allocated this address with this very layout.
    unsafe { dealloc(pointer.as_ptr(), Layout::from_size_align_unchecked(capacity, HUGE_PAGE)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_waste_at_most_an_eighth() {
        for bytes in [POOLED_BYTES, HUGE_PAGE, HUGE_PAGE + 1, 100 << 20, (100 << 20) + 1, 1 << 40] {
            let class = size_class(bytes).unwrap();
            assert!(class >= bytes && class.is_multiple_of(HUGE_PAGE));
            assert!(class - bytes < HUGE_PAGE.max(bytes / 8 + 1), "{bytes} -> {class}");
        }
        assert_eq!(size_class(usize::MAX), None);
        assert_eq!(size_class(isize::MAX as usize + 2), None);
    }

    #[test]
    fn memory_is_aligned_and_writable() {
        for bytes in [0, 1, 100, POOLED_BYTES - 1, POOLED_BYTES, 5 << 20] {
            let block = Block::new(bytes).unwrap();
            assert_eq!(block.pointer() as usize % LINE, 0);
            // SAFETY: the block owns that many bytes.
            unsafe { block.pointer().write_bytes(7, bytes) };
        }
    }

    #[test]
    fn the_impossible_is_refused() {
        assert!(matches!(Block::new(1 << 62), Err(Error::OutOfMemory { .. })));
        assert!(matches!(Block::new(usize::MAX), Err(Error::OutOfMemory { .. })));
        // More than any machine has, and little enough for a mapping without pages.
        assert!(matches!(Block::new(1 << 42), Err(Error::OutOfMemory { .. })));
        assert!(matches!(numbers(0u8, 1 << 42), Err(Error::OutOfMemory { .. })));
    }

    #[test]
    fn a_freed_block_serves_the_next_call_of_its_size() {
        // A size no other test uses, since the pool is the process's.
        let bytes = 37 << 20;
        let first = Block::new(bytes).unwrap().pointer() as usize;
        assert_eq!(Block::new(bytes).unwrap().pointer() as usize, first);
    }
}
