//! The shadow of memory: for each granule the last write and the reads since, and whether an access is ordered
//! after them.
//!
//! Time is cut into *spans*. A span is one block of one launch between two block-wide barriers, or one copy or
//! fill. Span numbers only grow; a launch owns all numbers from its first one on while it runs. Within a span the
//! warps are unordered, and the lanes of a warp are ordered by warp synchronisations, which a clock counts.
//! A set of readers is summarised only where the summary loses no race:
//! readers in two blocks conflict with every writer of the launch, readers in two warps with every writer of the
//! span, and readers of one warp are kept as a mask of lanes at one clock, or lane by lane where clocks differ.

use super::clocks::Clocks;
use std::collections::HashMap;

/// A number that names one stretch of unordered execution; zero means never.
pub type Span = u32;

/// Stands for "no PTX line": a copy, a fill or a free.
pub const NO_LINE: u16 = 0;

/// What is remembered of one granule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cell {
    write_span: Span,
    /// Thread in the low 10 bits, clock above.
    write_tag: u32,
    read_span: Span,
    /// Lanes of the warp that read at the clock of the tag.
    read_lanes: u32,
    /// Warp in the low 5 bits, clock in the next 22, flags above.
    read_tag: u32,
    write_step: u16,
    read_step: u16,
}

const CLOCK_LIMIT: u32 = (1 << 22) - 1;
const MANY_BLOCKS: u32 = 1 << 27;
const MANY_WARPS: u32 = 1 << 28;
const MIXED_CLOCKS: u32 = 1 << 29;
const NONCOHERENT: u32 = 1 << 30;

impl Cell {
    /// Whether anything was ever written here.
    fn is_initialised(&self) -> bool {
        self.write_span != 0
    }
}

/// Who touches memory now, and what it knows of the past.
pub struct Accessor<'a> {
    /// The current span.
    pub span: Span,
    /// First span of the current operation.
    pub first_span: Span,
    /// The spans of this block so far, ascending; earlier ones are ordered by barriers.
    pub own_spans: &'a [Span],
    /// Spans of earlier operations that are not ordered before this one, ascending.
    pub unordered: &'a [std::ops::Range<Span>],
    /// Warp within the block.
    pub warp: u32,
    /// Lane within the warp.
    pub lane: u32,
    /// What the lanes of the warp know of each other.
    pub clocks: &'a Clocks,
    /// Index of the instruction plus one, or [`NO_LINE`].
    pub step: u16,
}

/// The earlier access of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Earlier {
    /// Its span.
    pub span: Span,
    /// Thread within its block, where one thread is known.
    pub thread: Option<u32>,
    /// Its instruction plus one, or [`NO_LINE`].
    pub step: u16,
}

/// What is wrong with an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// Read of bytes never written.
    Uninitialised,
    /// Not ordered after an earlier write.
    AfterWrite(Earlier),
    /// A write that is not ordered after an earlier read.
    AfterRead(Earlier),
    /// A non-coherent load and a write in one launch.
    Noncoherent(Earlier),
}

impl Accessor<'_> {
    fn clock(&self) -> u32 {
        self.clocks.now().min(CLOCK_LIMIT)
    }

    fn thread(&self) -> u32 {
        self.warp * 32 + self.lane
    }

    /// Whether everything of another span is ordered before this access.
    #[inline]
    fn is_past(&self, span: Span) -> bool {
        if span < self.first_span {
            let next = self.unordered.partition_point(|range| range.end <= span);
            return self.unordered.get(next).is_none_or(|range| span < range.start);
        }
        self.own_spans.binary_search(&span).is_ok()
    }

    fn write_is_past(&self, cell: &Cell) -> bool {
        if cell.write_span != self.span {
            return cell.write_span == 0 || self.is_past(cell.write_span);
        }
        let (thread, clock) = (cell.write_tag & 0x3ff, cell.write_tag >> 10);
        thread == self.thread() || (thread / 32 == self.warp && self.clocks.seen(self.lane, thread % 32) >= clock)
    }
}

/// The shadow of a stretch of memory, at the finest granularity its accesses needed.
#[derive(Debug, Clone)]
pub struct Shadow {
    bytes: usize,
    /// Log2 of the bytes per cell; cells hold one element while the whole stretch is alike.
    shift: u32,
    cells: Vec<Cell>,
    /// Readers of one warp at several clocks, by cell.
    mixed: HashMap<usize, [u32; 32]>,
    /// Reads by operations unordered with the one remembered in the cell, by cell.
    displaced: HashMap<usize, Vec<(Span, u16)>>,
}

impl Shadow {
    /// The shadow of untouched memory.
    pub fn new(bytes: usize) -> Self {
        let shift = usize::BITS;
        Self { bytes, shift, cells: vec![Cell::default()], mixed: HashMap::new(), displaced: HashMap::new() }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.cells.fill(Cell::default());
        self.mixed.clear();
        self.displaced.clear();
    }

    fn is_whole(&self) -> bool {
        self.shift == usize::BITS
    }

    /// Makes cells small enough for an access and returns the range of cells it covers.
    #[inline]
    fn cells(&mut self, offset: usize, bytes: usize) -> std::ops::Range<usize> {
        let needed = (offset | bytes).trailing_zeros().min(2);
        if self.shift > needed {
            self.refine(needed);
        }
        offset >> self.shift..(offset + bytes) >> self.shift
    }

    #[cold]
    fn refine(&mut self, shift: u32) {
        let factor = if self.is_whole() { self.bytes.div_ceil(1 << shift) } else { 1 << (self.shift - shift) };
        self.cells = self.cells.iter().flat_map(|&cell| std::iter::repeat_n(cell, factor)).collect();
        self.mixed = self.mixed.drain().flat_map(|(at, v)| (0..factor).map(move |i| (at * factor + i, v))).collect();
        let displaced: Vec<_> = self.displaced.drain().collect();
        for (at, readers) in displaced {
            for index in 0..factor {
                self.displaced.insert(at * factor + index, readers.clone());
            }
        }
        self.shift = shift;
    }

    /// Records a read and returns the first thing wrong with it.
    #[inline]
    pub fn read(&mut self, offset: usize, bytes: usize, by: &Accessor<'_>, noncoherent: bool) -> Option<Conflict> {
        let mut conflict = None;
        for index in self.cells(offset, bytes) {
            conflict = conflict.or(self.read_cell(index, by, noncoherent));
        }
        conflict
    }

    /// Records a write and returns the first thing wrong with it.
    #[inline]
    pub fn write(&mut self, offset: usize, bytes: usize, by: &Accessor<'_>) -> Option<Conflict> {
        let mut conflict = None;
        for index in self.cells(offset, bytes) {
            conflict = conflict.or(self.write_cell(index, by));
        }
        conflict
    }

    /// A read of the whole stretch by a copy.
    pub fn read_range(&mut self, offset: usize, bytes: usize, by: &Accessor<'_>) -> Option<Conflict> {
        if self.is_whole() && bytes == self.bytes {
            self.read_cell(0, by, false)
        } else {
            self.read(offset, bytes, by, false)
        }
    }

    /// A write of the whole stretch by a copy or a fill.
    pub fn write_range(&mut self, offset: usize, bytes: usize, by: &Accessor<'_>) -> Option<Conflict> {
        if self.is_whole() && bytes == self.bytes { self.write_cell(0, by) } else { self.write(offset, bytes, by) }
    }

    /// Which bytes of a range were ever written.
    pub fn initialised(&mut self, offset: usize, bytes: usize) -> Vec<bool> {
        if self.is_whole() {
            return vec![self.cells[0].is_initialised(); bytes];
        }
        (offset..offset + bytes).map(|byte| self.cells[byte >> self.shift].is_initialised()).collect()
    }

    /// Marks a range as never written: a copy brought bytes that were never written themselves.
    pub fn forget_write(&mut self, offset: usize, bytes: usize) {
        for index in self.cells(offset, bytes) {
            self.cells[index].write_span = 0;
        }
    }

    fn read_cell(&mut self, index: usize, by: &Accessor<'_>, noncoherent: bool) -> Option<Conflict> {
        let cell = &mut self.cells[index];
        let mut conflict = None;
        if cell.write_span == 0 {
            conflict = Some(Conflict::Uninitialised);
        } else if !by.write_is_past(cell) {
            conflict = Some(Conflict::AfterWrite(last_write(cell)));
        } else if noncoherent && cell.write_span >= by.first_span {
            conflict = Some(Conflict::Noncoherent(last_write(cell)));
        }
        let lane = 1 << by.lane;
        let fresh = by.warp | by.clock() << 5 | if noncoherent { NONCOHERENT } else { 0 };
        if cell.read_span != by.span {
            let previous = cell.read_span;
            let same_operation = previous >= by.first_span;
            let many_blocks =
                same_operation && (cell.read_tag & MANY_BLOCKS != 0 || by.own_spans.binary_search(&previous).is_err());
            if previous != 0 && !same_operation && !by.is_past(previous) {
                let entry = (previous, cell.read_step);
                self.displaced.entry(index).or_default().push(entry);
            }
            let kept = if same_operation { cell.read_tag & NONCOHERENT } else { 0 };
            cell.read_tag = fresh | kept | if many_blocks { MANY_BLOCKS } else { 0 };
            cell.read_span = by.span;
            cell.read_lanes = lane;
            cell.read_step = by.step;
            return conflict;
        }
        cell.read_tag |= fresh & NONCOHERENT;
        if cell.read_tag & (MANY_BLOCKS | MANY_WARPS) != 0 {
            return conflict;
        }
        if cell.read_tag & 31 != by.warp {
            cell.read_tag |= MANY_WARPS;
            return conflict;
        }
        let clock = cell.read_tag >> 5 & CLOCK_LIMIT;
        if cell.read_tag & MIXED_CLOCKS != 0 {
            self.mixed.entry(index).or_insert([0; 32])[by.lane as usize] = by.clock();
        } else if clock == by.clock() {
            cell.read_lanes |= lane;
        } else if (0..32).all(|other| {
            cell.read_lanes >> other & 1 == 0 || other == by.lane || by.clocks.seen(by.lane, other) >= clock
        }) {
            // Every earlier reader is ordered before this one, which now stands for all of them.
            cell.read_tag = (cell.read_tag & !(CLOCK_LIMIT << 5)) | fresh;
            cell.read_lanes = lane;
            cell.read_step = by.step;
        } else {
            let mut clocks: [u32; 32] =
                std::array::from_fn(|other| if cell.read_lanes >> other & 1 == 1 { clock } else { 0 });
            clocks[by.lane as usize] = by.clock();
            cell.read_tag |= MIXED_CLOCKS;
            self.mixed.insert(index, clocks);
        }
        conflict
    }

    fn write_cell(&mut self, index: usize, by: &Accessor<'_>) -> Option<Conflict> {
        let cell = &mut self.cells[index];
        let mut conflict = None;
        if !by.write_is_past(cell) {
            conflict = Some(Conflict::AfterWrite(last_write(cell)));
        } else if cell.read_span != 0 {
            conflict = self.reads_conflict(index, by);
        }
        let cell = &mut self.cells[index];
        cell.write_span = by.span;
        cell.write_tag = by.thread() | by.clock() << 10;
        cell.write_step = by.step;
        cell.read_span = 0;
        if !self.mixed.is_empty() {
            self.mixed.remove(&index);
        }
        if !self.displaced.is_empty() {
            self.displaced.remove(&index);
        }
        conflict
    }

    fn reads_conflict(&self, index: usize, by: &Accessor<'_>) -> Option<Conflict> {
        let cell = &self.cells[index];
        let tag = cell.read_tag;
        let mut thread = None;
        let ordered = if cell.read_span == by.span {
            if tag & (MANY_BLOCKS | MANY_WARPS) != 0 || tag & 31 != by.warp {
                false
            } else {
                let clocks = self.mixed.get(&index);
                let clock = tag >> 5 & CLOCK_LIMIT;
                let unseen = (0..32).find(|&other| {
                    let read_at = match clocks {
                        Some(clocks) => clocks[other as usize],
                        None if cell.read_lanes >> other & 1 == 1 => clock,
                        None => 0,
                    };
                    other != by.lane && read_at != 0 && by.clocks.seen(by.lane, other) < read_at
                });
                thread = unseen.map(|lane| by.warp * 32 + lane);
                unseen.is_none()
            }
        } else if cell.read_span >= by.first_span && tag & MANY_BLOCKS != 0 {
            false
        } else {
            by.is_past(cell.read_span)
        };
        if !ordered {
            if thread.is_none() && tag & (MANY_BLOCKS | MANY_WARPS | MIXED_CLOCKS) == 0 && cell.read_lanes != 0 {
                thread = Some((tag & 31) * 32 + cell.read_lanes.trailing_zeros());
            }
            return Some(Conflict::AfterRead(Earlier { span: cell.read_span, thread, step: cell.read_step }));
        }
        if let Some(readers) = self.displaced.get(&index)
            && let Some(&(span, step)) = readers.iter().find(|(span, _)| !by.is_past(*span))
        {
            return Some(Conflict::AfterRead(Earlier { span, thread: None, step }));
        }
        if tag & NONCOHERENT != 0 && cell.read_span >= by.first_span {
            return Some(Conflict::Noncoherent(Earlier { span: cell.read_span, thread, step: cell.read_step }));
        }
        None
    }
}

fn last_write(cell: &Cell) -> Earlier {
    Earlier { span: cell.write_span, thread: Some(cell.write_tag & 0x3ff), step: cell.write_step }
}
