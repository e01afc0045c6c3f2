//! One warp: registers, the stack of diverged paths, and what its lanes know of each other.

use super::trips::Trips;
use crate::memory::Clocks;
use crate::program::{Guard, Lanes, Program, Slot, Special, WARP};

/// Lanes on one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Path {
    step: u32,
    /// The path ends here and joins the one below it.
    meet: u32,
    lanes: u32,
}

/// Why a warp stopped running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// Waits at the barrier at this step.
    Barrier(u32),
    /// Every lane has ended.
    Done,
    /// The launch must end.
    Abort,
}

/// The state of a warp.
pub struct Warp {
    /// Index within the block.
    pub index: u32,
    registers: Vec<Lanes>,
    predicates: Vec<u32>,
    paths: Vec<Path>,
    /// Lanes that have not ended.
    pub live: u32,
    /// Lanes that exist in the block.
    started: u32,
    clocks: Clocks,
    /// What it waits for.
    pub trips: Trips,
}

impl Warp {
    /// A warp with its constants in place.
    pub fn new(program: &Program, index: u32) -> Self {
        let mut registers = vec![[0; WARP]; program.registers];
        registers.extend(program.constants.iter().map(|&value| [value; WARP]));
        registers.extend(program.specials.iter().map(|_| [0; WARP]));
        Self {
            index,
            registers,
            predicates: vec![0; program.predicates],
            paths: Vec::new(),
            live: 0,
            started: 0,
            clocks: Clocks::START,
            trips: Trips::new(program.registers + program.constants.len() + program.specials.len()),
        }
    }

    /// Readies the warp for a block: the given lanes start at the first step.
    /// What a kernel has not written holds noise, another for every block, as on a device.
    pub fn start(&mut self, program: &Program, seed: u32, lanes: u32, special: impl Fn(Special, u32) -> u32) {
        for (slot, (register, &width)) in self.registers.iter_mut().zip(&program.widths).enumerate() {
            register.fill(noise(seed, slot) & width);
        }
        for (slot, predicate) in self.predicates.iter_mut().enumerate() {
            *predicate = noise(!seed, slot) as u32;
        }
        let first = program.registers + program.constants.len();
        for (register, &kind) in self.registers[first..].iter_mut().zip(&program.specials) {
            for (lane, value) in register.iter_mut().enumerate() {
                *value = special(kind, lane as u32).into();
            }
        }
        let end = program.steps.len() as u32;
        self.paths.clear();
        self.paths.push(Path { step: 0, meet: end, lanes });
        self.live = lanes;
        self.started = lanes;
        self.clocks = Clocks::START;
        self.trips.start();
    }

    /// The step to run and the lanes on it; `None` when every lane has ended.
    #[inline]
    pub fn current(&mut self) -> Option<(u32, u32)> {
        loop {
            let top = self.paths.last()?;
            if top.lanes == 0 || (top.step == top.meet && self.paths.len() > 1) {
                self.paths.pop();
            } else {
                return Some((top.step, top.lanes));
            }
        }
    }

    /// Moves the current path to a step.
    #[inline]
    pub fn go(&mut self, step: u32) {
        if let Some(top) = self.paths.last_mut() {
            top.step = step;
        }
    }

    /// Splits the current path; both sides run to the meeting point.
    pub fn diverge(&mut self, taken: u32, target: u32, next: u32, meet: u32) {
        let Some(top) = self.paths.last_mut() else { return };
        let (lanes, outer) = (top.lanes, top.meet);
        if meet == outer {
            // The sides meet where this path itself ends: no path needs to wait in between.
            self.paths.pop();
        } else {
            top.step = meet;
        }
        self.paths.push(Path { step: next, meet, lanes: lanes & !taken });
        self.paths.push(Path { step: target, meet, lanes: taken });
    }

    /// Ends some lanes on every path.
    pub fn end(&mut self, lanes: u32) {
        self.live &= !lanes;
        for path in &mut self.paths {
            path.lanes &= !lanes;
        }
    }

    /// A lane that existed and has ended.
    pub fn ended(&self) -> Option<u32> {
        let ended = self.started & !self.live;
        (ended != 0).then(|| ended.trailing_zeros())
    }

    #[inline]
    pub fn register(&self, slot: Slot) -> &Lanes {
        &self.registers[usize::from(slot)]
    }

    /// Writes the active lanes of a register.
    #[inline]
    pub fn write(&mut self, slot: Slot, active: u32, mask: u64, values: &Lanes) {
        let register = &mut self.registers[usize::from(slot)];
        if active == u32::MAX {
            for lane in 0..WARP {
                register[lane] = values[lane] & mask;
            }
        } else {
            for lane in 0..WARP {
                let keep = u64::from(active >> lane & 1).wrapping_neg();
                register[lane] = (register[lane] & !keep) | (values[lane] & mask & keep);
            }
        }
    }

    /// The lanes where a predicate, or its negation, holds.
    #[inline]
    pub fn holds(&self, guard: Guard) -> u32 {
        let bits = self.predicates[usize::from(guard.predicate)];
        if guard.negated { !bits } else { bits }
    }

    #[inline]
    pub fn write_predicate(&mut self, slot: Slot, active: u32, bits: u32) {
        let predicate = &mut self.predicates[usize::from(slot)];
        *predicate = (*predicate & !active) | (bits & active);
    }

    /// Orders the members' accesses so far before their accesses from now on.
    pub fn synchronise(&mut self, members: u32) {
        self.clocks.synchronise(members & self.live, self.started);
    }

    /// A new span starts: the barrier has ordered everything.
    pub fn new_span(&mut self) {
        self.clocks = Clocks::START;
    }

    pub fn clocks(&self) -> &Clocks {
        &self.clocks
    }
}

/// Bits that mean nothing, of a register and a block (a step of SplitMix64).
fn noise(seed: u32, slot: usize) -> u64 {
    let mixed = (u64::from(seed) << 32 | slot as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}
