//! How rows are written: how many, how far apart, and by which kind of store.

use super::registers::Register;

/// The bytes of a cache line.
pub const LINE: usize = 64;

/// Where values go and how.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// Into the caches; sources are read at the summed places alone.
    Cached,
    /// As `Cached`, and rows that will be read soon are asked for meanwhile.
    CachedAhead(Ahead),
    /// As `Cached`, and the target's next row is asked for meanwhile.
    CachedSoon,
    /// Whole lines past the caches. Sources must be readable one register past the end.
    Streamed,
}

/// Rows that will be read soon.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    /// Bytes from the last source to the first of them.
    pub first: isize,
    /// Bytes from each to the next.
    pub step: isize,
}

/// How far ahead of its use memory is asked for.
const AHEAD_BYTES: usize = 4096;

impl Ahead {
    /// None: what is asked for is there already.
    pub const NONE: Ahead = Ahead { first: 0, step: 0 };

    /// Asks for the line that each of `rows` rows has at the place that `last` has in the last source.
    #[inline(always)]
    pub fn ask<R: Register>(&self, last: *const u8, rows: usize) {
        for row in 0..rows as isize {
            R::prefetch(last.wrapping_offset(self.first).wrapping_offset(self.step.wrapping_mul(row)));
        }
    }

    /// Rows so many bytes apart, of which `count` at a time are read for the first time.
    pub fn rows(step: isize, count: usize) -> Self {
        let turns = AHEAD_BYTES.div_ceil((step.unsigned_abs() * count).max(1)).min(64);
        let first = step.wrapping_mul((1 + (turns - 1) * count) as isize);
        Ahead { first, step }
    }
}

/// Sums of several rows at once, with the same taps.
#[derive(Clone, Copy)]
pub struct Rows {
    /// How many.
    pub count: usize,
    /// Bytes from row to row of every source.
    pub source: isize,
    /// Bytes from row to row of the target.
    pub target: isize,
}

impl Rows {
    /// A single row.
    pub const ONE: Rows = Rows { count: 1, source: 0, target: 0 };
}
