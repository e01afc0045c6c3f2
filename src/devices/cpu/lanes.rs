//! The one order of summation. A sequence of values is cut into blocks of [`BLOCK`]; within a block the
//! value number `i` goes to the lane `i mod lanes` in the compute type; the lanes of a block are added
//! in float64 as a fixed tree, and the blocks in float64 one after the other. The order depends on the
//! sequence alone: not on threads, instruction sets, strides or memory order.

use crate::features::Level;
use crate::simd::Formula;
use crate::simd::element::{MOST_LANES, lanes_of};
use crate::sources::{Last, SimdElement, Sources, with_sources};
use crate::staged::{self, Identity};
use firelu_core::dtype::{Compute, Element};

/// How many values are summed in the compute type.
pub const BLOCK: usize = 8192;

/// The float64 sum of a block's lanes.
#[inline]
pub fn tree<C: Compute>(lane: impl Fn(usize) -> C) -> f64 {
    let mut sums = [0.0; MOST_LANES];
    let mut width = lanes_of::<C>();
    for (index, sum) in sums[..width].iter_mut().enumerate() {
        *sum = lane(index).to_f64();
    }
    while width > 1 {
        width /= 2;
        for index in 0..width {
            sums[index] += sums[index + width];
        }
    }
    sums[0]
}

/// A run of elements: where its operands are, and where its results go, if anywhere.
pub struct Run<T: Element, const N: usize> {
    /// The operands; the last one's address is not used unless `last` is dense.
    pub pointers: [*const T; N],
    /// What the last operand is.
    pub last: Last<T::Compute>,
    /// Where the results go; null where only their sum is wanted.
    pub target: *mut T,
    /// Whether results bypass the caches.
    pub streaming: bool,
}

impl<T: SimdElement, const N: usize> Run<T, N> {
    /// The part from `start` on of which the results are there already.
    fn of_row(&self, row: *const T::Compute, start: usize) -> Run<T, 1> {
        let target = if self.target.is_null() { self.target } else { self.target.wrapping_add(start) };
        Run { pointers: [std::ptr::null()], last: Last::Wide(row), target, streaming: self.streaming }
    }

    /// Adds the run's results to lanes, the first result to the lane `first`.
    ///
    /// # Safety
    /// `count` elements must be readable at each source, and writable at the target unless that is null,
    /// at any alignment.
    #[inline]
    pub unsafe fn add_to_lanes<F: Formula<T::Compute, N>>(
        self,
        level: Level,
        formula: &F,
        lanes: &mut [T::Compute; MOST_LANES],
        first: usize,
        count: usize,
    ) {
        if F::COMPUTES_MUCH {
            // SAFETY: the caller's promise, for each row of the run.
            return unsafe {
                let (operands, nowhere) = ((self.pointers, self.last), (std::ptr::null_mut(), false));
                staged::for_each_row(level, formula, operands, count, nowhere, |row, start, length| {
                    self.of_row(row, start).add_to_lanes(level, &Identity, lanes, first + start, length);
                })
            };
        }
        // SAFETY: the caller's promise; levels were detected.
        with_sources!(self.pointers, self.last, sources => unsafe {
            match level {
                #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                Level::Avx2 | Level::Avx512 | Level::Neon => registers::add_to_lanes(formula, sources, self.target, lanes, first, count, self.streaming),
                _ => add_to_lanes(formula, sources, self.target, lanes, first, count),
            }
        })
    }

    /// Adds the run's results to as many totals, one to each.
    ///
    /// # Safety
    /// As `add_to_lanes`, and there must be `count` totals.
    #[inline]
    pub unsafe fn add_to_totals<F: Formula<T::Compute, N>>(
        self,
        level: Level,
        formula: &F,
        totals: *mut T::Compute,
        count: usize,
    ) {
        if F::COMPUTES_MUCH {
            // SAFETY: the caller's promise, for each row of the run.
            return unsafe {
                let (operands, nowhere) = ((self.pointers, self.last), (std::ptr::null_mut(), false));
                staged::for_each_row(level, formula, operands, count, nowhere, |row, start, length| {
                    self.of_row(row, start).add_to_totals(level, &Identity, totals.add(start), length);
                })
            };
        }
        // SAFETY: the caller's promise; levels were detected.
        with_sources!(self.pointers, self.last, sources => unsafe {
            match level {
                #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                Level::Avx2 | Level::Avx512 | Level::Neon => registers::add_to_totals(formula, sources, self.target, totals, count, self.streaming),
                _ => add_to_totals(formula, sources, self.target, totals, count),
            }
        })
    }
}

/// The result for one element, stored unless `target` is null.
///
/// # Safety
/// The run has this element.
#[inline(always)]
unsafe fn one<T: SimdElement, const N: usize>(
    formula: &impl Formula<T::Compute, N>,
    sources: impl Sources<T, N>,
    target: *mut T,
    index: usize,
) -> T::Compute {
    // SAFETY: the caller's promise; elements may be unaligned.
    unsafe {
        let value = formula.apply(sources.one(index));
        if !target.is_null() {
            target.add(index).write_unaligned(T::from_compute(value));
        }
        value
    }
}

/// One element at a time, on every processor.
///
/// # Safety
/// As [`Run::add_to_lanes`].
#[inline]
unsafe fn add_to_lanes<T: SimdElement, const N: usize>(
    formula: &impl Formula<T::Compute, N>,
    sources: impl Sources<T, N>,
    target: *mut T,
    lanes: &mut [T::Compute; MOST_LANES],
    first: usize,
    count: usize,
) {
    let mask = lanes_of::<T::Compute>() - 1;
    for index in 0..count {
        let lane = &mut lanes[(first + index) & mask];
        // SAFETY: the caller's promise.
        *lane = *lane + unsafe { one(formula, sources, target, index) };
    }
}

/// One element at a time, on every processor.
///
/// # Safety
/// As [`Run::add_to_totals`].
#[inline]
unsafe fn add_to_totals<T: SimdElement, const N: usize>(
    formula: &impl Formula<T::Compute, N>,
    sources: impl Sources<T, N>,
    target: *mut T,
    totals: *mut T::Compute,
    count: usize,
) {
    for index in 0..count {
        // SAFETY: the caller's promise.
        unsafe { *totals.add(index) = *totals.add(index) + one(formula, sources, target, index) };
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod registers {
    use super::{MOST_LANES, lanes_of};
    use crate::simd::element::{AHEAD, LINE, SimdElement};
    use crate::simd::{Formula, Lane};
    use crate::sources::Sources;

    /// How results are stored.
    #[derive(Clone, Copy)]
    enum Way {
        /// Not at all: there is no target.
        Nowhere,
        Cached,
        /// Past the caches.
        Streamed,
        /// Past the caches, 16 bytes at a time: what malloc gives is aligned to no more.
        StreamedHalves,
    }

    impl Way {
        /// The way for registers from `first` on.
        fn of<T>(target: *mut T, first: usize, streaming: bool) -> Way {
            match target.wrapping_add(first) as usize {
                _ if target.is_null() => Way::Nowhere,
                at if streaming && at.is_multiple_of(LINE / 2) => Way::Streamed,
                at if streaming && at.is_multiple_of(LINE / 4) => Way::StreamedHalves,
                _ => Way::Cached,
            }
        }

        fn streams(self) -> bool {
            matches!(self, Way::Streamed | Way::StreamedHalves)
        }
    }

    /// The result for a register of elements, stored.
    ///
    /// # Safety
    /// A level with registers was detected, the run has these elements, and the target is aligned as the way wants it.
    #[inline(always)]
    unsafe fn register<T: SimdElement, const N: usize>(
        formula: &impl Formula<T::Compute, N>,
        sources: impl Sources<T, N>,
        target: *mut T,
        index: usize,
        way: Way,
    ) -> T::Register {
        // SAFETY: the caller's promise.
        unsafe {
            let value = formula.apply(sources.register(index));
            match way {
                Way::Nowhere => {}
                Way::Cached => T::store(target.add(index), value),
                Way::Streamed => T::stream(target.add(index), value),
                Way::StreamedHalves => T::stream_halves(target.add(index), value),
            }
            value
        }
    }

    /// # Safety
    /// A level with registers was detected; else as [`super::Run::add_to_lanes`].
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    pub unsafe fn add_to_lanes<T: SimdElement, const N: usize>(
        formula: &impl Formula<T::Compute, N>,
        sources: impl Sources<T, N>,
        target: *mut T,
        lanes: &mut [T::Compute; MOST_LANES],
        first: usize,
        count: usize,
        streaming: bool,
    ) {
        let group = lanes_of::<T::Compute>();
        let head = (first.wrapping_neg() % group).min(count);
        let groups = (count - head) / group;
        // SAFETY: `head` and what follows are parts of the caller's `count`; lanes hold two registers.
        unsafe {
            super::add_to_lanes(formula, sources, target, lanes, first, head);
            let way = Way::of(target, head, streaming);
            let pointer = lanes.as_mut_ptr();
            let mut low = T::load_wide(pointer);
            let mut high = T::load_wide(pointer.add(T::LANES));
            for index in 0..groups {
                let at = head + index * group;
                low = low.add(register(formula, sources, target, at, way));
                high = high.add(register(formula, sources, target, at + T::LANES, way));
                if way.streams() {
                    sources.prefetch(at, AHEAD);
                }
            }
            T::store_wide(pointer, low);
            T::store_wide(pointer.add(T::LANES), high);
            let done = head + groups * group;
            let rest = if target.is_null() { target } else { target.add(done) };
            super::add_to_lanes(formula, sources.from(done), rest, lanes, 0, count - done);
        }
    }

    /// # Safety
    /// A level with registers was detected; else as [`super::Run::add_to_totals`].
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    pub unsafe fn add_to_totals<T: SimdElement, const N: usize>(
        formula: &impl Formula<T::Compute, N>,
        sources: impl Sources<T, N>,
        target: *mut T,
        totals: *mut T::Compute,
        count: usize,
        streaming: bool,
    ) {
        let way = Way::of(target, 0, streaming);
        let registers = count / T::LANES;
        // SAFETY: every register lies inside the caller's `count`.
        unsafe {
            for index in 0..registers {
                let at = index * T::LANES;
                let value = register(formula, sources, target, at, way);
                T::store_wide(totals.add(at), T::load_wide(totals.add(at)).add(value));
                if way.streams() {
                    sources.prefetch(at, AHEAD);
                }
            }
            let done = registers * T::LANES;
            let rest = if target.is_null() { target } else { target.add(done) };
            super::add_to_totals(formula, sources.from(done), rest, totals.add(done), count - done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_adds_every_lane_once() {
        assert_eq!(tree(|lane| (1u32 << lane) as f32), 65535.0);
        assert_eq!(tree(|lane| (1u32 << lane) as f64), 255.0);
    }
}
