//! Formulas that compute much run over rows of the compute type that are in the first-level cache: operands are widened
//! to rows, the formula makes a row of them, and that is rounded and stored. So a formula is compiled for two types and
//! each level, not for every kind of operand, and elements that fill no register have the same bits as others.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::features::Level;
use crate::simd::element::{LINE, MOST_LANES, lanes_of};
use crate::simd::{Formula, Fused, Lane, Several};
use crate::sources::{Last, PIECE, SimdElement};
use firelu_core::dtype::{Compute, Element};

/// The operand itself.
pub struct Identity;

impl<C: Compute> Formula<C, 1> for Identity {
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [operand]: [L; 1]) -> L {
        operand
    }
}

/// Makes the formula's results for `count` elements, a row of at most [`PIECE`] at a time, and hands each row to
/// `store(row, start, length)`. Rows are made at `direct` unless that is null, past the caches where it is `streaming`.
///
/// # Safety
/// `count` elements must be readable at each source and writable at `direct`, at any alignment.
pub unsafe fn for_each_row<T: SimdElement, const N: usize>(
    level: Level,
    formula: &impl Formula<T::Compute, N>,
    (pointers, last): ([*const T; N], Last<T::Compute>),
    count: usize,
    (direct, streaming): (*mut T::Compute, bool),
    mut store: impl FnMut(*const T::Compute, usize, usize),
) {
    let mut room = [const { [const { MaybeUninit::<T::Compute>::uninit() }; PIECE] }; N];
    let mut result = [const { MaybeUninit::<T::Compute>::uninit() }; PIECE];
    if let Last::Constant(value) = last {
        room[N - 1][..count.min(PIECE)].fill(MaybeUninit::new(value));
    }
    // Lines are written whole, so streaming starts at the first that begins inside the run.
    let misaligned = direct as usize % LINE;
    let streaming = streaming && !direct.is_null() && misaligned.is_multiple_of(size_of::<T>());
    let head = if streaming && misaligned != 0 { (LINE - misaligned) / size_of::<T>() } else { 0 };
    let mut start = 0;
    while start < count {
        let (most, streaming) = if start < head { (head, false) } else { (PIECE, streaming) };
        let length = most.min(count - start);
        let mut rows = [std::ptr::null::<T::Compute>(); N];
        for (place, row) in rows.iter_mut().enumerate() {
            let own = room[place].as_mut_ptr().cast::<T::Compute>();
            *row = match last {
                Last::Constant(_) if place + 1 == N => own,
                Last::Wide(numbers) if place + 1 == N => numbers.wrapping_add(start),
                _ if T::DTYPE == T::Compute::DTYPE => pointers[place].wrapping_add(start).cast(),
                _ => {
                    // SAFETY: the caller's elements from `start` on; the room holds `PIECE`.
                    unsafe { widen(level, pointers[place].add(start), own, length) };
                    own
                }
            };
        }
        let own = result.as_mut_ptr().cast();
        let target = if direct.is_null() { own } else { direct.wrapping_add(start) };
        let between = if streaming { own } else { target };
        // SAFETY: every row has `length` numbers, and the result holds `PIECE`; lines end where a piece does.
        unsafe { row_by_way_of::<T, N>(level, formula, rows, between, (target, length, streaming)) };
        store(target, start, length);
        start += length;
    }
}

/// A formula as one that has a single result.
struct Single<'a, F>(&'a F);

impl<C: Compute, F: Formula<C, N>, const N: usize> Several<C, N, 1> for Single<'_, F> {
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, operands: [L; N]) -> [L; 1] {
        [self.0.apply(operands)]
    }
}

/// One row.
///
/// # Safety
/// `count` numbers must be readable at each source and writable at the target, which may be a source.
pub unsafe fn row<T: SimdElement, const N: usize>(
    level: Level,
    formula: &impl Formula<T::Compute, N>,
    sources: [*const T::Compute; N],
    target: *mut T::Compute,
    count: usize,
) {
    // SAFETY: the caller's promise.
    unsafe { row_by_way_of::<T, N>(level, formula, sources, target, (target, count, false)) }
}

/// One row, streamed or not. What is scaled stands between, which may be the target unless that is streamed.
///
/// # Safety
/// As [`row`]; `count` numbers must be writable between, and a target that is streamed begins a line.
unsafe fn row_by_way_of<T: SimdElement, const N: usize>(
    level: Level,
    formula: &impl Formula<T::Compute, N>,
    sources: [*const T::Compute; N],
    between: *mut T::Compute,
    (target, count, streaming): (*mut T::Compute, usize, bool),
) {
    // SAFETY: the caller's promise; what was written is read.
    unsafe {
        match formula.scaling() {
            None => rows::<T, N, 1>(level, &Single(formula), sources, [target], (count, streaming)),
            Some(scaling) => {
                rows::<T, N, 1>(level, &Single(formula), sources, [between], (count, false));
                rows::<T, 1, 1>(level, &Single(&scaling), [between.cast_const()], [target], (count, streaming));
            }
        }
    }
}

/// A row of each result, streamed or not.
///
/// # Safety
/// `count` numbers must be readable at each source and writable at each target, which may be a source; targets share
/// no memory, and those that are streamed begin a line.
pub unsafe fn rows<T: SimdElement, const N: usize, const M: usize>(
    level: Level,
    formula: &impl Several<T::Compute, N, M>,
    sources: [*const T::Compute; N],
    targets: [*mut T::Compute; M],
    (count, streaming): (usize, bool),
) {
    // SAFETY: the caller's promise; levels were detected.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => registers::avx512::<T, N, M>(formula, sources, targets, (count, streaming)),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Level::Avx2 | Level::Neon => {
                registers::avx2_or_neon::<T, N, M>(formula, sources, targets, (count, streaming))
            }
            _ => {
                for i in 0..count {
                    let results = formula.apply(sources.map(|row| row.add(i).read_unaligned()));
                    for (target, result) in targets.into_iter().zip(results) {
                        target.add(i).write_unaligned(result);
                    }
                }
            }
        }
    }
}

/// A row of the first result, past the caches where it is streamed; the two others are added to lanes, the first ones to
/// the lane `first`.
///
/// # Safety
/// `count` numbers must be readable at each source and writable at the target, which may be a source unless it is streamed.
pub unsafe fn row_and_sums<C: SimdElement<Compute = C> + Compute>(
    level: Level,
    formula: &impl Several<C, 2, 3>,
    sources: [*const C; 2],
    to: (*mut C, usize, bool),
    lanes: (&mut [[C; MOST_LANES]; 2], usize),
) {
    // SAFETY: the caller's promise; levels were detected.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => registers::avx512_sums(formula, sources, to, lanes),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Level::Avx2 | Level::Neon => registers::avx2_or_neon_sums(formula, sources, to, lanes),
            _ => one_by_one(formula, sources, to.0, 0..to.1, lanes),
        }
    }
}

/// Some numbers of such a row without registers.
///
/// # Safety
/// As [`row_and_sums`].
#[inline(always)]
unsafe fn one_by_one<C: Compute>(
    formula: &impl Several<C, 2, 3>,
    sources: [*const C; 2],
    target: *mut C,
    range: Range<usize>,
    (sums, first): (&mut [[C; MOST_LANES]; 2], usize),
) {
    for at in range {
        // SAFETY: the caller's promise. No closures: they would not have the caller's instruction set.
        unsafe {
            let operands = [Fused(sources[0].add(at).read_unaligned()), Fused(sources[1].add(at).read_unaligned())];
            let [result, first_term, second_term] = formula.apply(operands);
            target.add(at).write_unaligned(result.0);
            let lane = (first + at) % lanes_of::<C>();
            sums[0][lane] = sums[0][lane] + first_term.0;
            sums[1][lane] = sums[1][lane] + second_term.0;
        }
    }
}

/// Elements as numbers of the compute type.
///
/// # Safety
/// `count` elements must be readable, and as many numbers writable.
pub unsafe fn widen<T: SimdElement>(level: Level, source: *const T, target: *mut T::Compute, count: usize) {
    // SAFETY: the caller's promise; levels were detected.
    unsafe {
        let done = match level {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Level::Avx2 | Level::Avx512 | Level::Neon => registers::widen(source, target, count),
            _ => 0,
        };
        for i in done..count {
            target.add(i).write(source.add(i).read_unaligned().to_compute());
        }
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod registers {
    use crate::simd::element::{AHEAD, LINE, MOST_LANES, SimdElement, lanes_of};
    use crate::simd::together::{Registers, Together};
    use crate::simd::{Fused, Row, Several, prefetch};
    use firelu_core::dtype::Compute;

    /// # Safety
    /// The register's level was detected; else as [`super::rows`].
    #[inline(always)]
    unsafe fn rows<C: Compute, R: Row<C>, const N: usize, const M: usize>(
        formula: &impl Several<C, N, M>,
        sources: [*const C; N],
        targets: [*mut C; M],
        (count, streaming): (usize, bool),
    ) {
        // SAFETY: every access is to numbers below `count`, and lines end where registers do that are streamed together.
        // No closures: one would not have the caller's instruction set.
        unsafe {
            let done = whole::<C, Together<R>, N, M>(formula, sources, targets, 0, (count, streaming));
            let mut done = whole::<C, R, N, M>(formula, sources, targets, done, (count, false));
            while done < count {
                let mut numbers = [Fused(sources[0].add(done).read_unaligned()); N];
                for place in 1..N {
                    numbers[place] = Fused(sources[place].add(done).read_unaligned());
                }
                let results = formula.apply(numbers);
                for place in 0..M {
                    targets[place].add(done).write_unaligned(results[place].0);
                }
                done += 1;
            }
        }
    }

    /// As many registers as there are from `done` on; says where they end.
    ///
    /// # Safety
    /// As [`rows`].
    #[inline(always)]
    unsafe fn whole<C: Compute, R: Row<C>, const N: usize, const M: usize>(
        formula: &impl Several<C, N, M>,
        sources: [*const C; N],
        targets: [*mut C; M],
        mut done: usize,
        (count, streaming): (usize, bool),
    ) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            while done + R::LANES <= count {
                let mut registers = [R::load(sources[0].add(done)); N];
                for place in 1..N {
                    registers[place] = R::load(sources[place].add(done));
                }
                let results = formula.apply(registers);
                for place in 0..M {
                    if streaming {
                        results[place].stream(targets[place].add(done));
                    } else {
                        results[place].store(targets[place].add(done));
                    }
                }
                if streaming {
                    for source in sources {
                        for line in 0..R::LANES * size_of::<C>() / LINE {
                            prefetch(source.add(done).cast(), AHEAD + line * LINE);
                        }
                    }
                }
                done += R::LANES;
            }
        }
        done
    }

    /// # Safety
    /// A level with registers was detected; else as [`super::rows`].
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    pub unsafe fn avx2_or_neon<T: SimdElement, const N: usize, const M: usize>(
        formula: &impl Several<T::Compute, N, M>,
        sources: [*const T::Compute; N],
        targets: [*mut T::Compute; M],
        (count, streaming): (usize, bool),
    ) {
        // SAFETY: the caller's promise.
        unsafe { rows::<T::Compute, T::Register, N, M>(formula, sources, targets, (count, streaming)) }
    }

    /// # Safety
    /// AVX-512 was detected; else as [`super::rows`].
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]
    pub unsafe fn avx512<T: SimdElement, const N: usize, const M: usize>(
        formula: &impl Several<T::Compute, N, M>,
        sources: [*const T::Compute; N],
        targets: [*mut T::Compute; M],
        (count, streaming): (usize, bool),
    ) {
        // SAFETY: the caller's promise.
        unsafe { rows::<T::Compute, T::Wide, N, M>(formula, sources, targets, (count, streaming)) }
    }

    /// # Safety
    /// The register's level was detected; else as [`super::row_and_sums`].
    #[inline(always)]
    unsafe fn row_and_sums<C: Compute, R: Row<C>>(
        formula: &impl Several<C, 2, 3>,
        sources: [*const C; 2],
        (target, count, streaming): (*mut C, usize, bool),
        (sums, first): (&mut [[C; MOST_LANES]; 2], usize),
    ) {
        // Lines are written whole, so streaming starts at the first that begins inside the row.
        let misaligned = target as usize % LINE;
        let streaming = streaming && misaligned.is_multiple_of(size_of::<C>());
        let before = if streaming && misaligned != 0 { (LINE - misaligned) / size_of::<C>() } else { 0 };
        let group = lanes_of::<C>();
        let mut done = before.min(count);
        // SAFETY: every access is to numbers below `count` and to lanes.
        unsafe {
            super::one_by_one(formula, sources, target, 0..done, (sums, first));
            // The next number's lane stands first while there are registers.
            let turned = (first + done) % group;
            for lanes in sums.iter_mut() {
                lanes[..group].rotate_left(turned);
            }
            done = whole_and_sums::<C, Together<R>, R>(formula, sources, (target, count, streaming), sums, done);
            done = whole_and_sums::<C, R, R>(formula, sources, (target, count, false), sums, done);
            for lanes in sums.iter_mut() {
                lanes[..group].rotate_right(turned);
            }
            super::one_by_one(formula, sources, target, done..count, (sums, first));
        }
    }

    /// As many groups of lanes as there are from `done` on, the first number's lane first; says where they end.
    ///
    /// # Safety
    /// As [`row_and_sums`]; a target that is streamed begins a line at `done`.
    #[allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.
    #[inline(always)]
    unsafe fn whole_and_sums<C: Compute, W: Row<C> + Registers<R>, R: Row<C>>(
        formula: &impl Several<C, 2, 3>,
        sources: [*const C; 2],
        (target, count, streaming): (*mut C, usize, bool),
        sums: &mut [[C; MOST_LANES]; 2],
        mut done: usize,
    ) -> usize {
        // Lanes are one register, or two: each register's terms are added to one of them, in their order.
        let group = lanes_of::<C>();
        let (second, parts) = (group - R::LANES, group / R::LANES);
        let at_once = W::LANES.max(group);
        // SAFETY: every access is to numbers below `count` and to lanes.
        unsafe {
            let [of_first, of_second] = [sums[0].as_ptr(), sums[1].as_ptr()];
            let mut lanes = [
                [R::load(of_first), R::load(of_first.add(second))],
                [R::load(of_second), R::load(of_second.add(second))],
            ];
            while done + at_once <= count {
                for step in 0..at_once / W::LANES {
                    let at = done + step * W::LANES;
                    let operands = [W::load(sources[0].add(at)), W::load(sources[1].add(at))];
                    let [result, first_terms, second_terms] = formula.apply(operands);
                    if streaming {
                        result.stream(target.add(at));
                        for source in sources {
                            for line in 0..W::LANES * size_of::<C>() / LINE {
                                prefetch(source.add(at).cast(), AHEAD + line * LINE);
                            }
                        }
                    } else {
                        result.store(target.add(at));
                    }
                    for place in 0..W::LANES / R::LANES {
                        let part = (step + place) % parts;
                        lanes[0][part] = lanes[0][part].add(first_terms.register(place));
                        lanes[1][part] = lanes[1][part].add(second_terms.register(place));
                    }
                }
                done += at_once;
            }
            for place in 0..2 {
                let [low, high] = lanes[place];
                // Where there is one register, it is stored last.
                high.store(sums[place].as_mut_ptr().add(second));
                low.store(sums[place].as_mut_ptr());
            }
        }
        done
    }

    /// # Safety
    /// A level with registers was detected; else as [`super::row_and_sums`].
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    pub unsafe fn avx2_or_neon_sums<C: SimdElement<Compute = C> + Compute>(
        formula: &impl Several<C, 2, 3>,
        sources: [*const C; 2],
        to: (*mut C, usize, bool),
        lanes: (&mut [[C; MOST_LANES]; 2], usize),
    ) {
        // SAFETY: the caller's promise.
        unsafe { row_and_sums::<C, C::Register>(formula, sources, to, lanes) }
    }

    /// # Safety
    /// AVX-512 was detected; else as [`super::row_and_sums`].
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]
    pub unsafe fn avx512_sums<C: SimdElement<Compute = C> + Compute>(
        formula: &impl Several<C, 2, 3>,
        sources: [*const C; 2],
        to: (*mut C, usize, bool),
        lanes: (&mut [[C; MOST_LANES]; 2], usize),
    ) {
        // SAFETY: the caller's promise.
        unsafe { row_and_sums::<C, C::Wide>(formula, sources, to, lanes) }
    }

    /// Widens whole registers and says how many elements that were.
    ///
    /// # Safety
    /// A level with registers was detected; else as [`super::widen`].
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    pub unsafe fn widen<T: SimdElement>(source: *const T, target: *mut T::Compute, count: usize) -> usize {
        let mut done = 0;
        while done + T::LANES <= count {
            // SAFETY: these elements are below `count`.
            unsafe { T::store_wide(target.add(done), <T as SimdElement>::load(source.add(done))) };
            done += T::LANES;
        }
        done
    }
}
