//! One block: its warps in turn, from barrier to barrier.

use super::counters::Counters;
use super::launch::{Launch, Shared};
use super::shared::SharedMemory;
use super::warp::{Pause, Warp};
use crate::memory::{Allocation, Span};
use crate::program::{Special, WARP};
use crate::report::Kind;

/// A block of threads; one per worker, used for one block after another.
pub(super) struct Block<'a> {
    warps: Vec<Warp>,
    state: State<'a>,
}

/// Everything of a block but its warps.
pub(super) struct State<'a> {
    pub shared: &'a Shared<'a>,
    pub memory: SharedMemory,
    /// The spans of this block, the current one last.
    pub spans: Vec<Span>,
    /// Linear index of the block.
    pub index: u64,
    pub counters: Counters,
    /// The allocation each step used last.
    pub allocations: Vec<Option<&'a Allocation>>,
    /// Instructions the running warp may still issue.
    pub budget: u64,
}

impl<'a> Block<'a> {
    pub fn new(shared: &'a Shared<'a>) -> Self {
        let launch = shared.launch;
        let threads: u32 = launch.block.iter().product();
        let warps = (0..threads.div_ceil(WARP as u32)).map(|index| Warp::new(launch.program, index)).collect();
        let state = State {
            shared,
            memory: SharedMemory::new(launch.program, launch.dynamic_shared),
            spans: Vec::new(),
            index: 0,
            counters: Counters::default(),
            allocations: vec![None; launch.program.steps.len()],
            budget: 0,
        };
        Self { warps, state }
    }

    pub fn into_counters(self) -> Counters {
        self.state.counters
    }

    /// Runs one block to its end.
    pub fn run(&mut self, index: u64) {
        let launch = self.state.shared.launch;
        let state = &mut self.state;
        state.index = index;
        state.memory.clear();
        state.spans.clear();
        state.spans.push(state.shared.new_span(index));
        let threads: u32 = launch.block.iter().product();
        let place = Launch::coordinates(index, launch.grid);
        for warp in &mut self.warps {
            let first = warp.index * WARP as u32;
            let count = (threads - first).min(WARP as u32);
            let lanes = u32::MAX >> (WARP as u32 - count);
            warp.start(launch.program, state.spans[0], lanes, |special, lane| match special {
                Special::Thread(axis) => Launch::coordinates((first + lane).into(), launch.block)[axis],
                Special::BlockExtent(axis) => launch.block[axis],
                Special::Block(axis) => place[axis],
                Special::GridExtent(axis) => launch.grid[axis],
                Special::Lane => lane,
                Special::Warp => first / WARP as u32,
                Special::LaneMask(mask) => mask(lane),
            });
        }
        while self.phase() {}
        let trips = self.slowest();
        self.state.counters.round_trips += u64::from(trips);
        self.state.counters.most_round_trips = self.state.counters.most_round_trips.max(trips.into());
    }

    /// Round trips that the slowest warp has waited for.
    fn slowest(&self) -> u32 {
        self.warps.iter().map(|warp| warp.trips.waited()).max().unwrap_or(0)
    }

    /// Runs every warp to its next barrier; false when the block has ended.
    fn phase(&mut self) -> bool {
        let state = &mut self.state;
        let mut waiting: Option<(u32, u32)> = None;
        let mut done: Option<u32> = None;
        for warp in &mut self.warps {
            state.budget = state.shared.launch.watchdog;
            match state.run(warp) {
                Pause::Abort => return false,
                Pause::Done => done = Some(warp.index),
                Pause::Barrier(step) => match waiting {
                    None => waiting = Some((step, warp.index)),
                    Some((first, other)) if first != step => {
                        let line = state.shared.launch.program.steps[first as usize].line;
                        state.fail(Kind::DivergentBarrier, step, warp.index * 32, || {
                            format!("waits at this barrier while warp {other} waits at the one at PTX line {line}")
                        });
                        return false;
                    }
                    Some(_) => {}
                },
            }
        }
        let Some((step, warp)) = waiting else { return false };
        if let Some(ended) = done {
            state.fail(Kind::MissingBarrier, step, warp * 32, || {
                format!("waits at a barrier that the threads of warp {ended} never reach: they have ended")
            });
            return false;
        }
        state.counters.barriers += 1;
        let span = state.shared.new_span(state.index);
        state.spans.push(span);
        let slowest = self.slowest();
        for warp in &mut self.warps {
            warp.new_span();
            warp.trips.wait_for(slowest);
        }
        true
    }
}

impl State<'_> {
    /// Reports a finding that ends the launch.
    pub fn fail(&mut self, kind: Kind, step: u32, thread: u32, detail: impl FnOnce() -> String) {
        self.report(kind, step, thread, detail);
        self.shared.abort(kind);
    }

    /// Reports a finding.
    pub fn report(&mut self, kind: Kind, step: u32, thread: u32, detail: impl FnOnce() -> String) {
        self.shared.report(kind, step, self.index, thread, detail);
    }
}
