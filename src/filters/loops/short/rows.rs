//! Some output rows of a short kernel, as all loops here take them, and the table of these loops.

use crate::loops::memory_access::{LINE, Prefetch, Rows};
use firelu_core::dtype::Element;

/// One compiled specialisation: factors and terms along x.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As many outputs as inputs, three taps.
    Plain3,
    /// As many outputs as inputs, four taps.
    Plain4,
    /// Twice as many outputs, four taps; both outputs of a period start with the same input.
    Up4,
    /// As `Up4`, but the second output of a period starts one input later.
    Up4Later,
    /// Half as many outputs, four taps.
    Down4,
}

/// One value for each form.
#[derive(Clone, Copy)]
pub struct Forms<F> {
    /// Of [`Form::Plain3`].
    pub plain3: F,
    /// Of [`Form::Plain4`].
    pub plain4: F,
    /// Of [`Form::Up4`].
    pub up4: F,
    /// Of [`Form::Up4Later`].
    pub up4_later: F,
    /// Of [`Form::Down4`].
    pub down4: F,
}

impl<F: Copy> Forms<F> {
    /// The value of a form.
    pub fn of(&self, form: Form) -> F {
        match form {
            Form::Plain3 => self.plain3,
            Form::Plain4 => self.plain4,
            Form::Up4 => self.up4,
            Form::Up4Later => self.up4_later,
            Form::Down4 => self.down4,
        }
    }
}

/// Rows and their taps along y and along x, the latter phase by phase.
pub type SeparableLoop<T> = unsafe fn(&ShortRows<'_, T>, [&[<T as Element>::Compute]; 2]);
/// Rows and all taps, input row by input row.
pub type DirectLoop<T> = unsafe fn(&ShortRows<'_, T>, &[<T as Element>::Compute]);

/// The loops of one level and element type; those that it does not have, or for which another path is faster, are
/// absent.
pub struct ShortLoops<T: Element> {
    /// Separable kernels on planes.
    pub planes: Forms<Option<SeparableLoop<T>>>,
    /// Separable kernels on channels-last rows.
    pub channels_last: Forms<Option<SeparableLoop<T>>>,
    /// Kernels of four by four taps that are not separable, on planes.
    pub direct: Option<DirectLoop<T>>,
}

impl<T: Element> ShortLoops<T> {
    /// No loop at all.
    pub const NONE: Self = {
        let none = Forms { plain3: None, plain4: None, up4: None, up4_later: None, down4: None };
        ShortLoops { planes: none, channels_last: none, direct: None }
    };
}

/// The most sources that rows with as many terms along y as along x have: four in each of two phases.
pub const MOST_SOURCES: usize = 8;

/// Some output rows with the same taps.
#[derive(Clone, Copy)]
pub struct ShortRows<'a, T: Element> {
    /// Where the first window starts, counted from the first column inside.
    pub start: isize,
    /// How many elements are inside.
    pub inside: usize,
    /// Elements of a column.
    pub pixel: usize,
    /// The first column inside of each input row; at least one. Where rows take turns in two phases, those of the
    /// second follow those of the first.
    pub sources: &'a [*const T],
    /// In how many phases rows take turns: one or two.
    pub phases: usize,
    /// The first output.
    pub target: *mut T,
    /// Output columns of a row.
    pub count: usize,
    /// How many rows and how far apart.
    pub rows: Rows,
    /// How many planes of such rows and how far apart.
    pub planes: Rows,
    /// The source that is a row of zeros in every plane.
    pub zeros: *const T,
    /// Rows that will be read soon.
    pub prefetch: Option<Prefetch>,
    /// Whether whole lines go past the caches.
    pub non_temporal: bool,
}

impl<'a, T: Element> ShortRows<'a, T> {
    /// Bytes from one source to the next, which is alike for all where none is a row of zeros.
    #[inline(always)]
    pub fn pitch(&self) -> isize {
        (self.sources[1] as isize).wrapping_sub(self.sources[0] as isize)
    }

    /// How many of the rows can be written `at_once` above each other: streamed lines must begin alike in all of them.
    pub fn together(&self, at_once: usize) -> usize {
        let alike = !self.non_temporal || (self.rows.target as usize).is_multiple_of(LINE);
        if alike { self.rows.count - self.rows.count % at_once } else { 0 }
    }

    /// How often `at_once` rows are written, a multiple of their phases where that is more than one, how far apart those
    /// are, and in how many phases they take turns.
    #[inline(always)]
    pub fn turns(&self, at_once: usize) -> (Rows, usize) {
        let Rows { count, source, target } = self.rows;
        let turns = Rows {
            count: count / at_once,
            source: source.wrapping_mul(at_once.div_ceil(self.phases) as isize),
            target: target.wrapping_mul(at_once as isize),
        };
        (turns, if at_once == 1 { self.phases } else { 1 })
    }

    /// The last source of the first `at_once` rows.
    #[inline(always)]
    pub fn last(&self, at_once: usize) -> *const u8 {
        let periods = at_once.div_ceil(self.phases) as isize - 1;
        self.sources[self.sources.len() - 1].cast::<u8>().wrapping_offset(self.rows.source.wrapping_mul(periods))
    }

    /// The first rows.
    #[inline(always)]
    pub fn before(&self, count: usize) -> Self {
        ShortRows { rows: Rows { count, ..self.rows }, ..*self }
    }

    /// The rows after whole periods of them, with their sources in `sources`.
    #[inline(always)]
    pub fn after(&self, count: usize, sources: &'a mut [*const T; MOST_SOURCES]) -> Self {
        let moved = self.rows.source.wrapping_mul((count / self.phases) as isize);
        for (source, &from) in sources.iter_mut().zip(self.sources) {
            *source = from.wrapping_byte_offset(moved);
        }
        ShortRows {
            sources: &sources[..self.sources.len()],
            target: self.target.wrapping_byte_offset(self.rows.target.wrapping_mul(count as isize)),
            rows: Rows { count: self.rows.count - count, ..self.rows },
            ..*self
        }
    }
}
