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
    /// Whether each starts where the one before ends.
    pub gapless: bool,
    /// How many of them at a time are read for the first time.
    pub count: usize,
}

/// How far ahead of its use memory is asked for.
const AHEAD_BYTES: usize = 8192;

impl Ahead {
    /// None: what is asked for is there already.
    pub const NONE: Ahead = Ahead { first: 0, step: 0, gapless: false, count: 1 };

    /// Rows of so many bytes, `step` bytes apart, of which `count` at a time are read for the first time.
    pub fn rows(step: isize, bytes: usize, count: usize) -> Self {
        Ahead { step, gapless: step > 0 && step as usize == bytes, ..Ahead::NONE }.of(count)
    }

    /// The same rows, where `count` at a time are read for the first time.
    #[inline(always)]
    pub fn of(self, count: usize) -> Self {
        let turns = AHEAD_BYTES.div_ceil((self.step.unsigned_abs() * count).max(1)).min(64);
        Ahead { first: self.step.wrapping_mul((1 + turns * count) as isize), count, ..self }
    }

    /// Asks for what each of `rows` rows has at the place of these bytes in the last source. Rows without gaps are asked
    /// for as one long row: the processor sees memory coming that is read in its order.
    #[inline(always)]
    pub fn ask<R: Register>(&self, last: *const u8, (from, bytes): (isize, usize), rows: usize) {
        let soon = last.wrapping_offset(self.first);
        if self.gapless {
            return ask_for_lines::<R>(soon.wrapping_offset(from.wrapping_mul(rows as isize)), bytes * rows);
        }
        for row in 0..rows as isize {
            ask_for_lines::<R>(soon.wrapping_offset(from.wrapping_add(self.step.wrapping_mul(row))), bytes);
        }
    }
}

/// Asks for the lines of some memory.
#[inline(always)]
pub fn ask_for_lines<R: Register>(start: *const u8, bytes: usize) {
    for line in 0..bytes.div_ceil(LINE) {
        R::prefetch_later(start.wrapping_add(line * LINE));
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
