//! How often a warp waits for memory: the round trips that depend on one another.
//!
//! A warp issues in order. Loads from global memory that are under way together share one round trip; it ends where a
//! value that one of them brings is used, and what is loaded after that use begins the next. A `mov` is no use: the
//! assembler gives both names one register.

use crate::program::{AddressBase, Kind, Operation, Slot, Step};
use crate::ptx::Space;

/// The loads of one warp and what was waited for.
pub struct Trips {
    /// By register, the trip that brings its value, counted from 1; 0 where none did.
    arrivals: Vec<u32>,
    /// Trips waited for.
    waited: u32,
    /// Whether a load was issued since.
    under_way: bool,
}

impl Trips {
    pub fn new(registers: usize) -> Self {
        Self { arrivals: vec![0; registers], waited: 0, under_way: false }
    }

    /// Readies the count for a block.
    pub fn start(&mut self) {
        self.arrivals.fill(0);
        (self.waited, self.under_way) = (0, false);
    }

    /// Trips that the warp has waited for.
    pub fn waited(&self) -> u32 {
        self.waited
    }

    /// At a barrier all warps wait for the slowest.
    pub fn wait_for(&mut self, slowest: u32) {
        if slowest > self.waited {
            (self.waited, self.under_way) = (slowest, false);
        }
    }

    /// Takes note of an instruction before it runs.
    #[inline]
    pub fn issue(&mut self, step: &Step) {
        if self.under_way && !self.passes_on(step) && self.is_waited_for(&step.operation) {
            (self.waited, self.under_way) = (self.waited + 1, false);
        }
        if let Operation::Load(access) = &step.operation
            && matches!(access.space, Space::Global | Space::Generic | Space::Const)
        {
            self.under_way = true;
            for slot in access.registers.iter().flatten() {
                self.arrivals[usize::from(*slot)] = self.waited + 1;
            }
        }
    }

    /// A copy of a register brings its value when the original does.
    fn passes_on(&mut self, step: &Step) -> bool {
        match step.operation {
            Operation::Arithmetic { destination, sources, .. } if step.kind == Kind::Move => {
                let arrival = self.arrivals[usize::from(sources[0])];
                let own = &mut self.arrivals[usize::from(destination)];
                *own = arrival.max(*own);
                true
            }
            _ => false,
        }
    }

    fn is_waited_for(&self, operation: &Operation) -> bool {
        let mut waits = false;
        operation.for_each_read(|slot| waits |= self.arrivals[usize::from(slot)] > self.waited);
        waits
    }
}

impl Operation {
    /// Calls the body with each register that the operation reads.
    fn for_each_read(&self, mut body: impl FnMut(Slot)) {
        match *self {
            Operation::Arithmetic { sources, .. } => sources.into_iter().for_each(body),
            Operation::Compare { sources, .. } | Operation::Set { sources, .. } | Operation::Select { sources, .. } => {
                sources.into_iter().for_each(body)
            }
            Operation::Pack { sources, count, .. } => sources.into_iter().take(usize::from(count)).for_each(body),
            Operation::Unpack { source, .. } => body(source),
            Operation::Load(access) | Operation::Store(access) => {
                if let AddressBase::Register(slot) = access.base {
                    body(slot);
                }
                if matches!(self, Operation::Store(_)) {
                    access.registers.into_iter().flatten().for_each(body);
                }
            }
            Operation::Shuffle { value, lane, clamp, members, .. } => {
                [value, lane, clamp, members].into_iter().for_each(body);
            }
            Operation::Vote { members, .. } | Operation::WarpBarrier { members } => body(members),
            Operation::Predicate { .. }
            | Operation::ActiveMask { .. }
            | Operation::Barrier
            | Operation::Fence
            | Operation::Branch { .. }
            | Operation::Exit => {}
        }
    }
}
