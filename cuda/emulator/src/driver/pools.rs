//! What pools keep: memory that is freed stays with its pool until something is waited for, and then goes back to the
//! system beyond the pool's threshold. Getting it anew is what costs, so that is counted.

use super::{Driver, Handle};

/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`.
pub const RELEASE_THRESHOLD: i32 = 4;

/// One pool.
#[derive(Debug, Default)]
pub struct Keeping {
    /// Bytes that it keeps when something is waited for.
    pub threshold: u64,
    used: u64,
    reserved: u64,
}

impl Driver {
    /// Memory of a pool is in use.
    pub(super) fn take_from_pool(&mut self, pool: Handle, base: u64, size: u64) {
        let keeping = self.keeping.entry(pool).or_default();
        keeping.used += size;
        if keeping.used > keeping.reserved {
            keeping.reserved = keeping.used;
            self.maps += 1;
        }
        self.pool_of.insert(base, (pool, size));
    }

    /// Memory that came from a pool is free.
    pub(super) fn give_to_pool(&mut self, base: u64) {
        if let Some((pool, size)) = self.pool_of.remove(&base)
            && let Some(keeping) = self.keeping.get_mut(&pool)
        {
            keeping.used = keeping.used.saturating_sub(size);
        }
    }

    /// Something was waited for.
    pub(super) fn trim_pools(&mut self) {
        for keeping in self.keeping.values_mut() {
            keeping.reserved = keeping.reserved.min(keeping.used.max(keeping.threshold));
        }
    }
}
