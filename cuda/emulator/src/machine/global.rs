//! Global memory as a warp sees it.

use super::access::{Abort, Addresses, Request, verb};
use super::block::State;
use super::warp::Warp;
use crate::memory::{Accessor, Allocation, Fault, PAGE};
use crate::report::Kind;

/// Bytes of the unit in which memory is fetched.
const SECTOR: u64 = 32;

impl<'a> State<'a> {
    pub fn global_access(
        &mut self,
        warp: &Warp,
        request: &mut Request<'_>,
        addresses: &Addresses,
    ) -> Result<(), Abort> {
        let bytes = request.access.bytes() as u64;
        let (sectors, ideal) = sectors(addresses, bytes);
        self.counters.sectors += sectors;
        self.counters.ideal_sectors += ideal;
        let launch = self.shared.launch;
        // The spans are lent out while `self` finds allocations.
        let spans = std::mem::take(&mut self.spans);
        let mut by = Accessor {
            span: spans[spans.len() - 1],
            first_span: launch.first_span,
            own_spans: &spans,
            unordered: launch.unordered,
            warp: warp.index,
            lane: 0,
            clocks: warp.clocks(),
            step: (request.step + 1).min(u32::from(u16::MAX)) as u16,
        };
        let mut held = None;
        let mut findings = Vec::new();
        let mut outcome = Ok(());
        for &(lane, address) in addresses.iter() {
            let allocation = match self.locate(warp, request, lane, address, bytes) {
                Ok(allocation) => allocation,
                Err(abort) => {
                    outcome = Err(abort);
                    break;
                }
            };
            let offset = address - allocation.base;
            let page = (allocation.base, offset / PAGE as u64);
            let guard = match &mut held {
                Some((key, guard)) if *key == page => guard,
                _ => {
                    // The old page is released before the next one is taken.
                    held = None;
                    &mut held.insert((page, allocation.page(offset))).1
                }
            };
            by.lane = lane as u32;
            let inside = offset as usize % PAGE;
            let conflict = if request.store {
                guard.shadow.write(inside, bytes as usize, &by)
            } else {
                guard.shadow.read(inside, bytes as usize, &by, request.access.noncoherent)
            };
            request.transfer(lane, &mut guard.bytes()[inside..inside + bytes as usize]);
            if let Some(conflict) = conflict {
                findings.push((lane, address, conflict));
            }
        }
        drop(held);
        self.spans = spans;
        for (lane, address, conflict) in findings {
            let thread = warp.index * 32 + lane as u32;
            self.conflict(Kind::GlobalRace, request, thread, &format!("{address:#x}"), conflict);
        }
        outcome
    }

    /// The allocation of an address, which must lie in it as a whole.
    #[inline]
    fn locate(
        &mut self,
        warp: &Warp,
        request: &Request<'_>,
        lane: usize,
        address: u64,
        bytes: u64,
    ) -> Result<&'a Allocation, Abort> {
        if let Some(allocation) = self.allocations[request.step as usize]
            && address >= allocation.base
            && address.checked_add(bytes).is_some_and(|end| end <= allocation.base + allocation.size)
        {
            return Ok(allocation);
        }
        let launch = self.shared.launch;
        let thread = warp.index * 32 + lane as u32;
        let found = launch.space.find(address, bytes).and_then(|allocation| {
            let device = allocation.device;
            if device == launch.device || launch.peers.contains(&device) {
                Ok(&**allocation)
            } else {
                Err(Fault::Foreign { device })
            }
        });
        match found {
            Ok(allocation) => {
                if launch.unborn.contains(&allocation.base) {
                    self.report(Kind::UnorderedUse, request.step, thread, || {
                        format!(
                            "{} at {address:#x}, allocated by a stream that this launch is not ordered after",
                            verb(request.store)
                        )
                    });
                }
                self.allocations[request.step as usize] = Some(allocation);
                Ok(allocation)
            }
            Err(fault) => {
                let access = format!("{} of {bytes} bytes at {address:#x}", verb(request.store));
                let (kind, detail) = describe_fault(fault, address, &access);
                self.fail(kind, request.step, thread, || detail);
                Err(Abort)
            }
        }
    }
}

/// A fault in words, and its kind.
pub(crate) fn describe_fault(fault: Fault, address: u64, access: &str) -> (Kind, String) {
    match fault {
        Fault::Unknown => (Kind::OutOfBounds, format!("{access}, where no allocation is")),
        Fault::OutOfBounds { base, size } => {
            let offset = address - base;
            (Kind::OutOfBounds, format!("{access}, byte {offset} of the allocation at {base:#x} of {size} bytes"))
        }
        Fault::Freed { base, size } => {
            let offset = address - base;
            (
                Kind::UseAfterFree,
                format!("{access}, byte {offset} of the freed allocation at {base:#x} of {size} bytes"),
            )
        }
        Fault::Foreign { device } => {
            (Kind::ForeignAddress, format!("{access}, which belongs to device {device} without peer access"))
        }
    }
}

/// Sectors a warp touches, and the fewest that could hold the same bytes.
fn sectors(addresses: &[(usize, u64)], bytes: u64) -> (u64, u64) {
    let ascending = addresses.windows(2).all(|pair| pair[0].1 <= pair[1].1);
    let distinct = |values: &mut dyn Iterator<Item = u64>| {
        let mut last = None;
        values.fold(0, |count, value| count + u64::from(last.replace(value) != Some(value)))
    };
    let (touched, elements) = if ascending {
        let mut units = addresses.iter().map(|(_, address)| address / SECTOR);
        (distinct(&mut units), distinct(&mut addresses.iter().map(|&(_, address)| address)))
    } else {
        let mut sorted: Vec<u64> = addresses.iter().map(|&(_, address)| address).collect();
        sorted.sort_unstable();
        let mut units = sorted.iter().map(|address| address / SECTOR);
        (distinct(&mut units), distinct(&mut sorted.iter().copied()))
    };
    (touched, (elements * bytes).div_ceil(SECTOR))
}
