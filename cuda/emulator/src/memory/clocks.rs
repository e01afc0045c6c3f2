//! What the lanes of a warp know of each other.

use crate::program::WARP;

/// Happens-before between the lanes of a warp within a span.
pub struct Clocks {
    /// Counts warp synchronisations; an access carries the count at its time.
    now: u32,
    /// All lanes have seen all accesses up to here.
    all: u32,
    /// What lane `i` has seen of lane `j`, where only some lanes synchronised.
    pairs: Option<Box<[[u32; WARP]; WARP]>>,
}

impl Clocks {
    /// No synchronisation yet.
    pub const START: Self = Self { now: 1, all: 0, pairs: None };

    /// The members have met: what each did so far is ordered before what any of them does from now on.
    pub fn synchronise(&mut self, members: u32, started: u32) {
        if members == started {
            self.all = self.now;
            self.pairs = None;
        } else {
            let pairs = self.pairs.get_or_insert_with(|| Box::new([[0; WARP]; WARP]));
            let inside = |lane: usize| members >> lane & 1 == 1;
            let mut joined = [0; WARP];
            for lane in (0..WARP).filter(|&lane| inside(lane)) {
                for (joined, &seen) in joined.iter_mut().zip(&pairs[lane]) {
                    *joined = seen.max(*joined);
                }
            }
            for lane in (0..WARP).filter(|&lane| inside(lane)) {
                joined[lane] = self.now;
            }
            for lane in (0..WARP).filter(|&lane| inside(lane)) {
                pairs[lane] = joined;
            }
        }
        self.now += 1;
    }

    /// The time an access carries.
    pub fn now(&self) -> u32 {
        self.now
    }

    /// The latest clock of another lane that a lane has seen.
    pub fn seen(&self, lane: u32, other: u32) -> u32 {
        let pair = self.pairs.as_ref().map_or(0, |pairs| pairs[lane as usize][other as usize]);
        pair.max(self.all)
    }
}
