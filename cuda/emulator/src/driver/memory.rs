//! Device memory as the driver hands it out.

use super::clock::{StreamId, VectorClock};
use super::code::Code;
use super::schedule::Work;
use super::{Driver, Handle, Result};
use crate::memory::{Allocation, Fault};
use crate::report::Kind;
use std::collections::HashSet;
use std::sync::Arc;

/// Where an allocation came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// `cuMemAlloc`.
    Plain,
    /// `cuMemAllocAsync`: its stream and number; settled once the host has waited for it.
    Ordered {
        /// The stream and the number of its birth.
        birth: Option<(StreamId, u64)>,
        /// Whether `cuMemFreeAsync` was called.
        freed: bool,
    },
    /// A variable of a module.
    Module,
}

impl Origin {
    pub fn describe(self) -> &'static str {
        match self {
            Self::Plain => "from cuMemAlloc",
            Self::Ordered { .. } => "from cuMemAllocAsync",
            Self::Module => "of a module",
        }
    }
}

impl Driver {
    fn take(&mut self, size: u64, device: usize, origin: Origin) -> Result<u64> {
        if size == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let total = self.settings.memory;
        let used = &mut self.devices[device].used;
        match used.checked_add(size) {
            Some(sum) if sum <= total => *used = sum,
            _ => return Err(Code::OUT_OF_MEMORY),
        }
        let base = self.space.allocate(size, device).base;
        self.allocations.insert(base, origin);
        Ok(base)
    }

    fn give_back(&mut self, base: u64) -> Option<Arc<Allocation>> {
        let allocation = self.space.free(base)?;
        self.allocations.remove(&base);
        self.give_to_pool(base);
        let used = &mut self.devices[allocation.device].used;
        *used = used.saturating_sub(allocation.size);
        Some(allocation)
    }

    /// `cuMemAlloc`.
    pub fn allocate(&mut self, size: u64) -> Result<u64> {
        let device = self.current_device()?;
        self.take(size, device, Origin::Plain)
    }

    /// Memory of a module's variable.
    pub(super) fn allocate_variable(&mut self, size: u64) -> Result<u64> {
        let device = self.current_device()?;
        self.take(size.max(1), device, Origin::Module)
    }

    /// `cuMemAllocAsync`.
    pub fn allocate_ordered(&mut self, size: u64, pool: Option<Handle>, stream: StreamId) -> Result<u64> {
        let device = self.current_device()?;
        if !self.settings.pools {
            return Err(Code::NOT_SUPPORTED);
        }
        let base = self.take(size, device, Origin::Ordered { birth: None, freed: false })?;
        let pool = match pool {
            Some(pool) => pool,
            None => self.default_pool(device as i32)?,
        };
        self.take_from_pool(pool, base, size);
        let is_captured = self.capture_status(stream) != 0;
        let number = self.enqueue(stream, Work::Allocate, format!("cuMemAllocAsync of {size} bytes"))?;
        // Memory of a graph is there before the graph is launched.
        let birth = (!is_captured).then_some((stream, number));
        self.allocations.insert(base, Origin::Ordered { birth, freed: false });
        Ok(base)
    }

    /// `cuMemFree`: at once, so that work still pending on the memory is found out.
    pub fn free(&mut self, base: u64) -> Result<()> {
        self.context()?;
        match self.allocations.get(&base) {
            Some(Origin::Plain | Origin::Ordered { freed: false, .. }) => {
                self.give_back(base);
                Ok(())
            }
            other => {
                let why = if other.is_some() { "already freed or not the program's" } else { self.why_not(base) };
                self.report(Kind::InvalidFree, || format!("cuMemFree of {base:#x}, which is {why}"));
                Err(Code::INVALID_VALUE)
            }
        }
    }

    /// `cuMemFreeAsync`.
    pub fn free_ordered(&mut self, base: u64, stream: StreamId) -> Result<()> {
        match self.allocations.get(&base).copied() {
            Some(Origin::Ordered { birth, freed: false }) => {
                if self.capture_status(stream) != 0 {
                    // The graph frees and allocates it in every launch: it stays the graph's.
                    return self.enqueue(stream, Work::Allocate, format!("cuMemFreeAsync of {base:#x}")).map(|_| ());
                }
                self.allocations.insert(base, Origin::Ordered { birth, freed: true });
                self.enqueue(stream, Work::Free { base }, format!("cuMemFreeAsync of {base:#x}"))?;
                Ok(())
            }
            // Plain memory may be freed in stream order too.
            Some(Origin::Plain) => {
                self.allocations.insert(base, Origin::Ordered { birth: None, freed: true });
                self.enqueue(stream, Work::Free { base }, format!("cuMemFreeAsync of {base:#x}"))?;
                Ok(())
            }
            other => {
                let why = if other.is_some() { "already freed or not the program's" } else { self.why_not(base) };
                self.report(Kind::InvalidFree, || format!("cuMemFreeAsync of {base:#x}, which is {why}"));
                Err(Code::INVALID_VALUE)
            }
        }
    }

    fn why_not(&self, address: u64) -> &'static str {
        match self.space.find(address, 1) {
            Ok(_) => "inside an allocation, not its start",
            Err(Fault::Freed { .. }) => "already freed",
            Err(_) => "no device address of this driver",
        }
    }

    /// Ends an allocation for good.
    pub(super) fn release(&mut self, base: u64) -> Option<Arc<Allocation>> {
        self.give_back(base)
    }

    /// Frees whatever a device still holds.
    pub(super) fn free_device_memory(&mut self, device: usize) {
        let bases: Vec<u64> =
            self.space.live().filter(|allocation| allocation.device == device).map(|found| found.base).collect();
        for base in bases {
            self.give_back(base);
        }
    }

    /// Allocations whose birth a clock does not cover.
    pub(super) fn unborn(&self, clock: &VectorClock) -> HashSet<u64> {
        let births = self.allocations.iter().filter_map(|(&base, origin)| match origin {
            Origin::Ordered { birth: Some((stream, number)), .. } => Some((base, *stream, *number)),
            _ => None,
        });
        births.filter(|&(_, stream, number)| !clock.covers(stream, number)).map(|(base, ..)| base).collect()
    }

    /// Births the host has waited for need no further check.
    pub(super) fn settle_births(&mut self) {
        let host = &self.host;
        for origin in self.allocations.values_mut() {
            if let Origin::Ordered { birth, .. } = origin
                && birth.is_some_and(|(stream, number)| host.covers(stream, number))
            {
                *birth = None;
            }
        }
    }

    /// The allocation that holds a range.
    pub fn find(&self, address: u64, bytes: u64) -> std::result::Result<&Arc<Allocation>, Fault> {
        self.space.find(address, bytes)
    }

    /// Checks a range of device memory when a copy is queued.
    pub fn check_range(&mut self, what: &str, address: u64, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        match self.space.find(address, bytes) {
            Ok(_) => Ok(()),
            Err(fault) => {
                let access = format!("{what} of {bytes} bytes at {address:#x}");
                let (_, detail) = crate::machine::describe_fault(fault, address, &access);
                self.report(Kind::InvalidCopy, || detail);
                Err(Code::INVALID_VALUE)
            }
        }
    }
}
