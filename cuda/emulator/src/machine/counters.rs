//! What a launch did, counted.

use crate::program::Kind;
use std::fmt::Write;

/// Sums over all warps of a launch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Instructions issued for a warp, by kind.
    pub warp_instructions: [u64; Kind::ALL.len()],
    /// Lanes that executed them, by kind.
    pub thread_instructions: [u64; Kind::ALL.len()],
    /// 32-byte sectors touched by global loads and stores.
    pub sectors: u64,
    /// Sectors that would hold the same bytes if packed.
    pub ideal_sectors: u64,
    /// Passes over the banks of shared memory.
    pub shared_waves: u64,
    /// Passes if no two lanes met in a bank.
    pub ideal_shared_waves: u64,
    /// The most passes that one access took for each it needed.
    pub worst_bank_conflict: u64,
    /// Block-wide barriers passed.
    pub barriers: u64,
    /// Warp synchronisations, shuffles and votes included.
    pub warp_barriers: u64,
    /// Branches whose lanes disagreed.
    pub divergent_branches: u64,
    /// Round trips to global memory that depend on one another, of each block's slowest warp.
    pub round_trips: u64,
    /// The most of any block.
    pub most_round_trips: u64,
}

impl Counters {
    /// Adds the sums of another worker.
    pub fn add(&mut self, other: &Self) {
        for index in 0..Kind::ALL.len() {
            self.warp_instructions[index] += other.warp_instructions[index];
            self.thread_instructions[index] += other.thread_instructions[index];
        }
        self.sectors += other.sectors;
        self.ideal_sectors += other.ideal_sectors;
        self.shared_waves += other.shared_waves;
        self.ideal_shared_waves += other.ideal_shared_waves;
        self.worst_bank_conflict = self.worst_bank_conflict.max(other.worst_bank_conflict);
        self.barriers += other.barriers;
        self.warp_barriers += other.warp_barriers;
        self.divergent_branches += other.divergent_branches;
        self.round_trips += other.round_trips;
        self.most_round_trips = self.most_round_trips.max(other.most_round_trips);
    }

    /// All lanes' instructions of every kind.
    pub fn total_thread_instructions(&self) -> u64 {
        self.thread_instructions.iter().sum()
    }

    /// The fields as members of a JSON object, without its braces.
    pub fn json_members(&self) -> String {
        let mut text = String::new();
        for (name, values) in
            [("warp_instructions", &self.warp_instructions), ("thread_instructions", &self.thread_instructions)]
        {
            let kinds: Vec<String> =
                Kind::ALL.iter().map(|&(kind, label)| format!("\"{label}\": {}", values[kind as usize])).collect();
            let _ = write!(text, "\"{name}\": {{{}}}, ", kinds.join(", "));
        }
        let scalars = [
            ("sectors", self.sectors),
            ("ideal_sectors", self.ideal_sectors),
            ("shared_waves", self.shared_waves),
            ("ideal_shared_waves", self.ideal_shared_waves),
            ("worst_bank_conflict", self.worst_bank_conflict),
            ("barriers", self.barriers),
            ("warp_barriers", self.warp_barriers),
            ("divergent_branches", self.divergent_branches),
            ("round_trips", self.round_trips),
            ("most_round_trips", self.most_round_trips),
        ];
        let scalars: Vec<String> = scalars.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        text + &scalars.join(", ")
    }
}
