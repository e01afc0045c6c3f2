//! The blocks of a launch, spread over the cores.

use super::block::Block;
use super::counters::Counters;
use super::launch::{Launch, Outcome, Shared};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Blocks below which starting another thread costs more than it saves.
const BLOCKS_PER_WORKER: u64 = 4;

impl Launch<'_> {
    /// Runs every block.
    pub fn run(&self) -> Outcome {
        let blocks: u64 = self.grid.iter().map(|&extent| u64::from(extent)).product();
        let shared = Shared {
            launch: self,
            next_block: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            fault: Mutex::new(None),
            span_blocks: Mutex::new(Vec::new()),
        };
        let workers = (self.workers as u64).min(blocks.div_ceil(BLOCKS_PER_WORKER)).max(1);
        let mut counters = Counters::default();
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..workers).map(|_| scope.spawn(|| shared.work(blocks))).collect();
            counters.add(&shared.work(blocks));
            for other in others {
                match other.join() {
                    Ok(sums) => counters.add(&sums),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        Outcome { counters, fault: shared.fault.into_inner().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Shared<'_> {
    fn work(&self, blocks: u64) -> Counters {
        let mut block = Block::new(self);
        while !self.stop.load(Ordering::Relaxed) {
            let index = self.next_block.fetch_add(1, Ordering::Relaxed);
            if index >= blocks {
                break;
            }
            block.run(index);
        }
        block.into_counters()
    }
}
