//! Free blocks of memory, most recently freed last: the warmest is handed out first, and the coldest
//! leave where they would exceed a limit. Knows nothing of what a block is.

use crate::sync::{ATTEMPTS, Mutex, MutexGuard, TryLockError, spin_loop};

/// Blocks by their size. Never waits for its lock: after a fork its owner may be a thread that no
/// longer exists, and blocks are then refused or released instead of kept.
pub struct FreeList<T>(Mutex<Blocks<T>>);

/// What a list holds.
pub struct Blocks<T> {
    free: Vec<(T, usize)>,
    bytes: usize,
}

impl<T> Blocks<T> {
    /// None.
    pub const fn new() -> Self {
        Blocks { free: Vec::new(), bytes: 0 }
    }

    fn drop_coldest(&mut self, limit: usize, release: &mut impl FnMut(T, usize)) {
        while self.bytes > limit {
            let (block, size) = self.free.remove(0);
            self.bytes -= size;
            release(block, size);
        }
    }
}

impl<T> FreeList<T> {
    /// A list over a lock of its blocks.
    pub const fn new(blocks: Mutex<Blocks<T>>) -> Self {
        FreeList(blocks)
    }

    fn lock(&self) -> Option<MutexGuard<'_, Blocks<T>>> {
        for _ in 0..ATTEMPTS {
            match self.0.try_lock() {
                Ok(blocks) => return Some(blocks),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => spin_loop(),
            }
        }
        None
    }

    /// The warmest block of this very size.
    pub fn take(&self, size: usize) -> Option<T> {
        let mut blocks = self.lock()?;
        let index = blocks.free.iter().rposition(|&(_, other)| other == size)?;
        blocks.bytes -= size;
        Some(blocks.free.remove(index).0)
    }

    /// Keeps a block, and releases the coldest ones to stay below the limit; releases the block itself
    /// where it is too large or the lock is not to be had.
    pub fn put(&self, block: T, size: usize, limit: usize, mut release: impl FnMut(T, usize)) {
        match self.lock() {
            Some(mut blocks) if size <= limit => {
                blocks.drop_coldest(limit - size, &mut release);
                blocks.free.push((block, size));
                blocks.bytes += size;
            }
            _ => release(block, size),
        }
    }

    /// Releases the coldest blocks until the rest is within the limit.
    pub fn shrink(&self, limit: usize, mut release: impl FnMut(T, usize)) {
        if let Some(mut blocks) = self.lock() {
            blocks.drop_coldest(limit, &mut release);
        }
    }

    /// How many bytes are kept.
    pub fn bytes(&self) -> usize {
        self.lock().map_or(0, |blocks| blocks.bytes)
    }
}
