//! Loads and stores of a warp: addresses, alignment, and the choice of the memory.

use super::block::State;
use super::shared::waves;
use super::warp::Warp;
use crate::memory::{Accessor, Conflict};
use crate::program::{Access, AddressBase, Lanes, SHARED_WINDOW, WARP};
use crate::ptx::Space;
use crate::report::Kind;

/// The launch must end.
pub(super) struct Abort;

/// The active lanes and their addresses.
#[derive(Clone, Copy)]
pub(super) struct Addresses {
    items: [(usize, u64); WARP],
    count: usize,
}

impl Addresses {
    const NONE: Self = Self { items: [(0, 0); WARP], count: 0 };

    fn push(&mut self, lane: usize, address: u64) {
        self.items[self.count] = (lane, address);
        self.count += 1;
    }
}

impl std::ops::Deref for Addresses {
    type Target = [(usize, u64)];
    fn deref(&self) -> &[(usize, u64)] {
        &self.items[..self.count]
    }
}

/// One access of a warp.
pub(super) struct Request<'r> {
    pub access: &'r Access,
    pub step: u32,
    pub active: u32,
    pub store: bool,
    /// Elements by lane: filled for a store, to be filled for a load.
    pub values: [Lanes; 4],
}

impl<'a> State<'a> {
    /// Performs a load or store for the active lanes.
    pub fn access(
        &mut self,
        warp: &mut Warp,
        access: &Access,
        step: u32,
        active: u32,
        store: bool,
    ) -> Result<(), Abort> {
        let count = usize::from(access.count);
        let mut request = Request { access, step, active, store, values: [[0; WARP]; 4] };
        if store {
            for (values, slot) in request.values.iter_mut().zip(access.registers).take(count) {
                if let Some(slot) = slot {
                    *values = *warp.register(slot);
                }
            }
        }
        match access.space {
            Space::Param => self.load_parameter(&mut request),
            Space::Shared => {
                let addresses = self.addresses(warp, &request)?;
                self.shared_access(warp, &mut request, &addresses)?;
            }
            Space::Global | Space::Const => {
                let addresses = self.addresses(warp, &request)?;
                self.global_access(warp, &mut request, &addresses)?;
            }
            Space::Generic => {
                let addresses = self.addresses(warp, &request)?;
                let window = SHARED_WINDOW..SHARED_WINDOW + (1 << 32);
                let (mut shared, mut global) = (Addresses::NONE, Addresses::NONE);
                for &(lane, address) in addresses.iter() {
                    if window.contains(&address) {
                        shared.push(lane, address - SHARED_WINDOW);
                    } else {
                        global.push(lane, address);
                    }
                }
                if !shared.is_empty() {
                    self.shared_access(warp, &mut request, &shared)?;
                }
                if !global.is_empty() {
                    self.global_access(warp, &mut request, &global)?;
                }
            }
        }
        if !store {
            for index in 0..count {
                let Some(slot) = access.registers[index] else { continue };
                if access.kind.is_signed() {
                    let shift = 64 - 8 * access.kind.bytes() as u32;
                    for value in &mut request.values[index] {
                        *value = ((*value << shift) as i64 >> shift) as u64;
                    }
                }
                warp.write(slot, active, access.masks[index], &request.values[index]);
            }
        }
        Ok(())
    }

    fn load_parameter(&self, request: &mut Request<'_>) {
        let bytes = request.access.kind.bytes();
        let parameters = self.shared.launch.parameters;
        for index in 0..usize::from(request.access.count) {
            let offset = request.access.offset as usize + index * bytes;
            let mut value = [0; 8];
            value[..bytes].copy_from_slice(&parameters[offset..offset + bytes]);
            request.values[index] = [u64::from_le_bytes(value); WARP];
        }
    }

    /// Addresses of the active lanes, all aligned.
    fn addresses(&mut self, warp: &Warp, request: &Request<'_>) -> Result<Addresses, Abort> {
        let access = request.access;
        let bytes = access.bytes() as u64;
        let mut addresses = Addresses::NONE;
        for lane in (0..WARP).filter(|lane| request.active >> lane & 1 == 1) {
            let base = match access.base {
                AddressBase::Register(slot) => warp.register(slot)[lane],
                AddressBase::Absolute => 0,
            };
            let address = base.wrapping_add(access.offset);
            if address % bytes != 0 {
                self.fail(Kind::Misaligned, request.step, warp.index * 32 + lane as u32, || {
                    format!(
                        "{} of {bytes} bytes at {address:#x}, which is not a multiple of {bytes}",
                        verb(request.store)
                    )
                });
                return Err(Abort);
            }
            addresses.push(lane, address);
        }
        Ok(addresses)
    }

    fn shared_access(&mut self, warp: &Warp, request: &mut Request<'_>, addresses: &Addresses) -> Result<(), Abort> {
        let bytes = request.access.bytes();
        let (passes, ideal, worst) = waves(addresses, bytes);
        self.counters.shared_waves += passes;
        self.counters.ideal_shared_waves += ideal;
        self.counters.worst_bank_conflict = self.counters.worst_bank_conflict.max(worst);
        let launch = self.shared.launch;
        let mut findings = Vec::new();
        let mut by = Accessor {
            span: self.spans[self.spans.len() - 1],
            first_span: launch.first_span,
            own_spans: &self.spans,
            unordered: &[],
            warp: warp.index,
            lane: 0,
            clocks: warp.clocks(),
            step: (request.step + 1).min(u32::from(u16::MAX)) as u16,
        };
        for &(lane, address) in addresses.iter() {
            if !self.memory.contains(address, bytes as u64) {
                self.fail(Kind::SharedOutOfBounds, request.step, warp.index * 32 + lane as u32, || {
                    format!(
                        "{} of {bytes} bytes at shared address {address:#x}, inside no variable",
                        verb(request.store)
                    )
                });
                return Err(Abort);
            }
            by.lane = lane as u32;
            let at = address as usize;
            let conflict = if request.store {
                self.memory.shadow.write(at, bytes, &by)
            } else {
                self.memory.shadow.read(at, bytes, &by, false)
            };
            request.transfer(lane, &mut self.memory.bytes[at..at + bytes]);
            if let Some(conflict) = conflict {
                findings.push((lane, address, conflict));
            }
        }
        for (lane, address, conflict) in findings {
            let thread = warp.index * 32 + lane as u32;
            self.conflict(Kind::SharedRace, request, thread, &format!("shared address {address:#x}"), conflict);
        }
        Ok(())
    }

    /// Reports a conflict found by a shadow.
    #[cold]
    pub fn conflict(&mut self, race: Kind, request: &Request<'_>, thread: u32, target: &str, conflict: Conflict) {
        let (bytes, access) = (request.access.bytes(), verb(request.store));
        let shared = self.shared;
        let kind =
            match conflict {
                Conflict::Uninitialised => Kind::UninitialisedRead,
                Conflict::Noncoherent(_) => Kind::NoncoherentLoad,
                Conflict::AfterWrite(earlier) | Conflict::AfterRead(earlier) => {
                    if earlier.span < shared.launch.first_span { Kind::StreamRace } else { race }
                }
            };
        // In words only once per line of the kernel: the other side takes a search.
        self.report(kind, request.step, thread, || {
            let what = format!("{access} of {bytes} bytes at {target}");
            match conflict {
                Conflict::Uninitialised => format!("{what} that were never written"),
                Conflict::AfterWrite(earlier) => {
                    format!("{what}, written by {} with no order between them", shared.describe(earlier))
                }
                Conflict::AfterRead(earlier) => {
                    format!("{what}, read by {} with no order between them", shared.describe(earlier))
                }
                Conflict::Noncoherent(earlier) => {
                    let other = shared.describe(earlier);
                    format!("{what}: `ld.global.nc` and a store in one launch, the other by {other}")
                }
            }
        });
    }
}

impl Request<'_> {
    /// Moves one lane's elements between its values and memory.
    #[inline]
    pub fn transfer(&mut self, lane: usize, memory: &mut [u8]) {
        match self.access.kind.bytes() {
            1 => self.transfer_as::<1>(lane, memory),
            2 => self.transfer_as::<2>(lane, memory),
            4 => self.transfer_as::<4>(lane, memory),
            _ => self.transfer_as::<8>(lane, memory),
        }
    }

    #[inline(always)]
    fn transfer_as<const SIZE: usize>(&mut self, lane: usize, memory: &mut [u8]) {
        for (values, bytes) in self.values.iter_mut().zip(memory.chunks_exact_mut(SIZE)) {
            let mut word = [0; 8];
            if self.store {
                word = values[lane].to_le_bytes();
                bytes.copy_from_slice(&word[..SIZE]);
            } else {
                word[..SIZE].copy_from_slice(bytes);
                values[lane] = u64::from_le_bytes(word);
            }
        }
    }
}

pub(super) fn verb(store: bool) -> &'static str {
    if store { "write" } else { "read" }
}
