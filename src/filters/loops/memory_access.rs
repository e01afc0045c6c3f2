//! How rows are read and written: how far apart they are, by which kind of store, and what is prefetched meanwhile.

use super::register::Register;

/// The bytes of a cache line.
pub const LINE: usize = 64;

/// By which kind of store values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// Into the caches; sources are read at the summed places alone.
    Cached,
    /// As `Cached`, and source rows that will be read soon are prefetched.
    CachedPrefetchingSources(Prefetch),
    /// As `Cached`, and the target's next row is prefetched.
    CachedPrefetchingTarget,
    /// Non-temporal stores of whole lines. Sources must be readable one register past the end.
    NonTemporal,
}

/// Which rows to prefetch, counted from the last source row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefetch {
    /// Bytes from the last source to the first of them.
    pub first: isize,
    /// Bytes from each to the next.
    pub step: isize,
    /// Whether each starts where the one before ends.
    pub gapless: bool,
    /// How many of them at a time are read for the first time.
    pub count: usize,
}

/// How many bytes ahead of their use rows are prefetched.
const DISTANCE_BYTES: usize = 8192;

impl Prefetch {
    /// The line at hand, which is in the cache already: a branch would cost more.
    pub const NONE: Prefetch = Prefetch { first: 0, step: 0, gapless: false, count: 1 };

    /// Rows of so many bytes, `step` bytes apart, of which `count` at a time are read for the first time.
    pub fn rows(step: isize, bytes: usize, count: usize) -> Self {
        Prefetch { step, gapless: step > 0 && step as usize == bytes, ..Prefetch::NONE }.of(count)
    }

    /// The same rows, where `count` at a time are read for the first time.
    #[inline(always)]
    pub fn of(self, count: usize) -> Self {
        let turns = DISTANCE_BYTES.div_ceil((self.step.unsigned_abs() * count).max(1)).min(64);
        Prefetch { first: self.step.wrapping_mul((1 + turns * count) as isize), count, ..self }
    }

    /// Prefetches what each of `rows` rows has at the place of these bytes in the last source. Rows without gaps are
    /// prefetched as one long row: the processor's own prefetcher recognises memory that is read in order.
    #[inline(always)]
    pub fn lines<R: Register>(&self, last: *const u8, (from, bytes): (isize, usize), rows: usize) {
        let soon = last.wrapping_offset(self.first);
        if self.gapless {
            return prefetch_lines::<R>(soon.wrapping_offset(from.wrapping_mul(rows as isize)), bytes * rows);
        }
        for row in 0..rows as isize {
            prefetch_lines::<R>(soon.wrapping_offset(from.wrapping_add(self.step.wrapping_mul(row))), bytes);
        }
    }
}

/// Prefetches the lines of some memory into the second-level cache.
#[inline(always)]
pub fn prefetch_lines<R: Register>(start: *const u8, bytes: usize) {
    for line in 0..bytes.div_ceil(LINE) {
        R::prefetch_l2(start.wrapping_add(line * LINE));
    }
}

/// How many rows a loop writes with the same taps, and how far apart they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
