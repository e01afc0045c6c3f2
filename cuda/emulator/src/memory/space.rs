//! The address space: which allocation an address belongs to, and what it was if it belongs to none now.

use super::allocation::Allocation;
use std::collections::BTreeMap;
use std::sync::Arc;

/// First device address: above what Linux gives a process on x86-64, so no host pointer can be taken for one.
const FIRST: u64 = 0x7_0000_0000_0000;

/// Alignment the driver promises; bases are kept at odd multiples so that nothing better can be relied on.
const ALIGNMENT: u64 = 256;

/// Bytes between allocations that belong to none.
const RED_ZONE: u64 = 1 << 16;

/// Why an address cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// No allocation was ever there.
    Unknown,
    /// Within or next to a live allocation, but the access leaves it.
    OutOfBounds {
        /// Base of the allocation nearest below.
        base: u64,
        /// Its size.
        size: u64,
    },
    /// The allocation was freed.
    Freed {
        /// Its base.
        base: u64,
        /// Its size.
        size: u64,
    },
    /// The allocation belongs to another device.
    Foreign {
        /// The owner.
        device: usize,
    },
}

/// Whether an allocation is in use.
#[derive(Clone)]
enum Life {
    /// In use.
    Live(Arc<Allocation>),
    /// Freed; addresses are never used again.
    Dead {
        /// Its size.
        size: u64,
    },
}

/// All allocations by base address.
pub struct AddressSpace {
    allocations: BTreeMap<u64, Life>,
    next: u64,
}

impl Default for AddressSpace {
    fn default() -> Self {
        Self { allocations: BTreeMap::new(), next: FIRST + ALIGNMENT }
    }
}

impl AddressSpace {
    /// An empty space whose addresses start where this one's ended.
    pub fn successor(&self) -> Self {
        Self { allocations: BTreeMap::new(), next: self.next }
    }

    /// Makes an allocation at an address never used before.
    pub fn allocate(&mut self, size: u64, device: usize) -> Arc<Allocation> {
        let base = self.next;
        self.next = (base + size + RED_ZONE).next_multiple_of(2 * ALIGNMENT) + ALIGNMENT;
        let allocation = Arc::new(Allocation::new(base, size, device));
        self.allocations.insert(base, Life::Live(allocation.clone()));
        allocation
    }

    /// Ends an allocation by its base address.
    pub fn free(&mut self, base: u64) -> Option<Arc<Allocation>> {
        let life = self.allocations.get_mut(&base)?;
        let Life::Live(allocation) = life.clone() else { return None };
        *life = Life::Dead { size: allocation.size };
        Some(allocation)
    }

    /// What stands at or below an address.
    fn below(&self, address: u64) -> Option<(u64, &Life)> {
        self.allocations.range(..=address).next_back().map(|(&base, life)| (base, life))
    }

    /// The allocation that holds a range of bytes.
    pub fn find(&self, address: u64, bytes: u64) -> Result<&Arc<Allocation>, Fault> {
        match self.below(address) {
            None => Err(Fault::Unknown),
            Some((base, Life::Live(allocation))) => {
                let end = address.checked_add(bytes);
                if end.is_some_and(|end| end <= base + allocation.size) {
                    Ok(allocation)
                } else if address < base + allocation.size + RED_ZONE {
                    Err(Fault::OutOfBounds { base, size: allocation.size })
                } else {
                    Err(Fault::Unknown)
                }
            }
            Some((base, &Life::Dead { size })) => {
                if address < base + size {
                    Err(Fault::Freed { base, size })
                } else {
                    Err(Fault::Unknown)
                }
            }
        }
    }

    /// Every live allocation.
    pub fn live(&self) -> impl Iterator<Item = &Arc<Allocation>> {
        self.allocations.values().filter_map(|life| match life {
            Life::Live(allocation) => Some(allocation),
            Life::Dead { .. } => None,
        })
    }
}
