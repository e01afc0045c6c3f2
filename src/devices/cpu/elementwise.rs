//! Runs a [`Formula`] over whole tensors: contiguous runs go straight to the kernel of the processor's
//! level, strided ones are brought together in small pieces first, so that both give the same bits.

use std::mem::MaybeUninit;

use crate::features::Level;
use crate::memory::caches::bypasses;
use crate::parallel::{self, TASK_BYTES};
use crate::simd::{Formula, fence};
use crate::sources::{Last, LastKind, PIECE, SimdElement, Sources, gather, gather_wide, scatter, with_sources};
use crate::staged::{self, Identity};
use crate::walk::Walk;
use firelu_core::dtype::{Compute, DType, Element};
use firelu_core::error::Result;
use firelu_core::tensor::{Parts, TensorView, TensorViewMut};

/// Whether elements stand for several places.
fn is_broadcast(input: &Parts) -> bool {
    input.strides.iter().zip(input.shape().iter()).any(|(&stride, &length)| stride == 0 && length > 1)
}

/// Writes `formula` of the inputs' elements to the output. All have the output's shape (a broadcast
/// input has strides of zero) and element type `T`, but the last input may be of any type. An input
/// may be the output itself.
pub fn map<T: SimdElement, const N: usize>(
    formula: &impl Formula<T::Compute, N>,
    output: &TensorViewMut<'_>,
    inputs: [&TensorView<'_>; N],
) -> Result<()> {
    let level = Level::current();
    let size = size_of::<T>() as isize;
    let elements = output.shape().elements();
    let bytes = elements * size as usize * (N + 1);
    let last_dtype = inputs[N - 1].dtype();
    if bytes <= TASK_BYTES
        && last_dtype == T::DTYPE
        && output.is_row_major()
        && inputs.iter().all(|input| input.is_row_major())
    {
        let pointers = inputs.map(|input| input.pointer as *const T);
        // SAFETY: the views promise that many elements, one after the other.
        unsafe { contiguous(level, formula, pointers, Last::Dense, output.pointer.cast(), elements, false) };
        return Ok(());
    }
    let in_place = inputs.iter().any(|input| input.pointer == output.pointer);
    // A broadcast input takes no room to speak of.
    let broadcast = inputs.iter().filter(|input| is_broadcast(input)).count();
    let streaming = !in_place && bypasses(bytes - broadcast * elements * size as usize);
    let operand = |parts: &Parts| (parts.pointer, parts.strides.clone());
    let walk = Walk::new(output.shape(), operand(output), inputs.map(|input| operand(input)));
    if let Some(pattern) = pattern::<T, N>(&walk, elements, last_dtype) {
        let pointers = inputs.map(|input| input.pointer as *const T);
        return periodic(level, formula, (pointers, &pattern), output.pointer.cast(), elements, streaming);
    }
    let (target_step, source_steps) = walk.run_strides();
    let dense = target_step == size && source_steps[..N - 1].iter().all(|&step| step == size);
    let last_kind = LastKind::of::<T>(last_dtype, source_steps[N - 1]);
    let end_of_task = || {
        if streaming {
            fence();
        }
    };
    // SAFETY: the views promise every element of the walk, outputs do not share memory, and a task reads
    // an input only where it is the output's own element or never written.
    let run = |target: *mut u8, sources: [*mut u8; N], count: usize| unsafe {
        match last_kind {
            Some(kind) if dense => {
                let (pointers, last) = (sources.map(|s| s as *const T), kind.at(last_dtype, sources[N - 1]));
                contiguous(level, formula, pointers, last, target.cast(), count, streaming);
            }
            _ => strided::<T, N>(level, formula, (sources, source_steps, last_dtype), (target, target_step), count),
        }
    };
    // SAFETY: as above.
    unsafe { walk.for_each_run(size as usize * (N + 1), run, end_of_task) }
}

/// Replaces each number of a row by the formula of it.
pub fn apply_to_row<C: SimdElement<Compute = C> + Compute>(level: Level, formula: &impl Formula<C, 1>, row: &mut [C]) {
    let (pointer, count) = (row.as_mut_ptr(), row.len());
    // SAFETY: the row has so many numbers, each read before it is written.
    unsafe { staged::row::<C, 1>(level, formula, [pointer.cast_const()], pointer, count) };
}

/// Replaces each number of a row by the formula of it and of the other row's, which is at least as long.
pub fn apply_to_rows<C: SimdElement<Compute = C> + Compute>(
    level: Level,
    formula: &impl Formula<C, 2>,
    row: &mut [C],
    other: &[C],
) {
    let (pointer, count) = (row.as_mut_ptr(), row.len());
    let other = other[..count].as_ptr();
    // SAFETY: both rows have so many numbers; the first's are read before they are written.
    unsafe { staged::row::<C, 2>(level, formula, [pointer.cast_const(), other], pointer, count) };
}

/// Runs at least as long need no pattern.
const LONG_RUN: usize = 256;
/// How long a pattern is at least, and the longest stretch that is worth being spread out.
const PATTERN: usize = 2048;
const LONGEST_PERIOD: usize = 16 << 10;

/// The last operand spread out to numbers that repeat over the whole tensor, where runs would be short
/// without: a bias along the last axis, or for each of many tiny planes.
fn pattern<T: SimdElement, const N: usize>(walk: &Walk<N>, elements: usize, dtype: DType) -> Option<Vec<T::Compute>> {
    let period = walk.period(size_of::<T>())?;
    if walk.run_length() >= LONG_RUN || period > LONGEST_PERIOD || elements < 4 * period.max(PATTERN) {
        return None;
    }
    let mut pattern = Vec::with_capacity(2 * PATTERN.max(period));
    walk.for_each_run_of_last(period, |source, step, count| {
        let length = pattern.len();
        pattern.resize(length + count, <T::Compute as Default>::default());
        // SAFETY: the walk's views promise every element, and the pattern has just got `count` more.
        unsafe { gather_wide(dtype, source, step, pattern.as_mut_ptr().add(length), count) };
    });
    // Whole cache lines of the target, so that streamed lines are not broken between repetitions.
    while pattern.len() < PATTERN || (pattern.len() < LONGEST_PERIOD && !pattern.len().is_multiple_of(PIECE / 8)) {
        pattern.extend_from_within(..period);
    }
    Some(pattern)
}

/// Writes the formula of dense operands and of a last one that repeats.
fn periodic<T: SimdElement, const N: usize>(
    level: Level,
    formula: &impl Formula<T::Compute, N>,
    (sources, pattern): ([*const T; N], &[T::Compute]),
    target: *mut T,
    elements: usize,
    streaming: bool,
) -> Result<()> {
    struct Shared<T, const N: usize>([*const T; N], *mut T);
    // SAFETY: the addresses come from views that may be used from any thread; tasks write disjoint parts.
    unsafe impl<T, const N: usize> Sync for Shared<T, N> {}
    let shared = Shared(sources, target);
    let bytes_per_element = size_of::<T>() * N;
    let repetitions = (TASK_BYTES / bytes_per_element / pattern.len()).max(1);
    let per_task = repetitions * pattern.len();
    parallel::for_each(elements.div_ceil(per_task), elements * bytes_per_element, |task| {
        let shared = &shared;
        let end = ((task + 1) * per_task).min(elements);
        for start in (task * per_task..end).step_by(pattern.len()) {
            let pointers = shared.0.map(|source| source.wrapping_add(start));
            let (last, length) = (Last::Wide(pattern.as_ptr()), pattern.len().min(end - start));
            // SAFETY: these are elements of dense views, and the pattern is at least as long.
            unsafe { contiguous(level, formula, pointers, last, shared.1.add(start), length, streaming) };
        }
        if streaming {
            fence();
        }
    })
}

/// The formula of strided elements.
///
/// # Safety
/// `count` elements must be readable and writable at the given steps, the last source's being of the
/// given type.
pub(crate) unsafe fn strided<T: SimdElement, const N: usize>(
    level: Level,
    formula: &impl Formula<T::Compute, N>,
    (sources, steps, last_dtype): ([*mut u8; N], [isize; N], DType),
    (target, target_step): (*mut u8, isize),
    count: usize,
) {
    let mut pieces = Pieces::<T, N>::default();
    let mut result = [const { MaybeUninit::<T>::uninit() }; PIECE];
    for start in (0..count).step_by(PIECE) {
        let length = PIECE.min(count - start);
        let at = |pointer: *mut u8, step: isize| pointer.wrapping_offset(start as isize * step);
        let starts = std::array::from_fn(|i| at(sources[i], steps[i]));
        // SAFETY: the elements from `start` on are among the caller's `count`; the buffers hold `PIECE`.
        unsafe {
            let (pointers, last) = pieces.bring_together(starts, steps, last_dtype, length);
            if target_step == size_of::<T>() as isize {
                contiguous(level, formula, pointers, last, at(target, target_step).cast(), length, false);
            } else {
                contiguous(level, formula, pointers, last, result.as_mut_ptr().cast::<T>(), length, false);
                scatter(result.as_ptr().cast::<T>(), at(target, target_step), target_step, length);
            }
        }
    }
}

/// Room for a piece of each operand that is not contiguous.
pub struct Pieces<T: Element, const N: usize> {
    narrow: [[MaybeUninit<T>; PIECE]; N],
    wide: [MaybeUninit<T::Compute>; PIECE],
}

impl<T: SimdElement, const N: usize> Default for Pieces<T, N> {
    /// Uninitialised room.
    fn default() -> Self {
        Pieces {
            narrow: [const { [const { MaybeUninit::uninit() }; PIECE] }; N],
            wide: [const { MaybeUninit::uninit() }; PIECE],
        }
    }
}

impl<T: SimdElement, const N: usize> Pieces<T, N> {
    /// The operands as contiguous ones: as they are where they are, else copied to the room.
    ///
    /// # Safety
    /// `length` is at most [`PIECE`], and that many elements must be readable at the given steps, the last
    /// source's being of the given type.
    pub unsafe fn bring_together(
        &mut self,
        sources: [*mut u8; N],
        steps: [isize; N],
        last_dtype: DType,
        length: usize,
    ) -> ([*const T; N], Last<T::Compute>) {
        let mut last = Last::Dense;
        let pointers = std::array::from_fn(|i| {
            if steps[i] == size_of::<T>() as isize && (i + 1 < N || last_dtype == T::DTYPE) {
                return sources[i] as *const T;
            }
            // SAFETY: the caller's promise; the room holds `PIECE`.
            unsafe {
                if i + 1 == N
                    && let Some(kind) = LastKind::of::<T>(last_dtype, steps[i])
                {
                    last = kind.at(last_dtype, sources[i]);
                } else if i + 1 == N && last_dtype != T::DTYPE {
                    gather_wide(last_dtype, sources[i], steps[i], self.wide.as_mut_ptr().cast::<T::Compute>(), length);
                    last = Last::Wide(self.wide.as_ptr().cast());
                } else {
                    gather(sources[i], steps[i], self.narrow[i].as_mut_ptr().cast::<T>(), length);
                }
            }
            self.narrow[i].as_ptr().cast::<T>()
        });
        (pointers, last)
    }
}

/// The one match on the processor's level.
///
/// # Safety
/// `count` elements must be readable at each source and writable at the target, at any alignment.
#[inline]
pub(crate) unsafe fn contiguous<T: SimdElement, F: Formula<T::Compute, N>, const N: usize>(
    level: Level,
    formula: &F,
    pointers: [*const T; N],
    last: Last<T::Compute>,
    target: *mut T,
    count: usize,
    streaming: bool,
) {
    if F::COMPUTES_MUCH {
        let is_direct = T::DTYPE == T::Compute::DTYPE;
        let direct = if is_direct { target.cast() } else { std::ptr::null_mut() };
        // SAFETY: the caller's promise; rows are stored where their elements stand.
        return unsafe {
            staged::for_each_row(level, formula, (pointers, last), count, (direct, streaming), |row, start, length| {
                if !is_direct {
                    let target = target.add(start);
                    contiguous(level, &Identity, [std::ptr::null()], Last::Wide(row), target, length, streaming);
                }
            })
        };
    }
    // SAFETY: the caller's promise; levels were detected.
    with_sources!(pointers, last, sources => unsafe {
        match level {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Level::Avx2 | Level::Avx512 | Level::Neon => registers::map::<T, N>(formula, sources, target, count, streaming),
            _ => native::<T, N>(formula, sources, target, count),
        }
    })
}

/// One element at a time, which the compiler turns into what every processor has.
///
/// # Safety
/// As [`contiguous`].
#[inline]
unsafe fn native<T: SimdElement, const N: usize>(
    formula: &impl Formula<T::Compute, N>,
    sources: impl Sources<T, N>,
    target: *mut T,
    count: usize,
) {
    for i in 0..count {
        // SAFETY: the caller's promise; elements may be unaligned.
        unsafe { target.add(i).write_unaligned(T::from_compute(formula.apply(sources.one(i)))) };
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod registers {
    use super::native;
    use crate::simd::Formula;
    use crate::simd::element::{AHEAD, LINE, SimdElement};
    use crate::sources::Sources;

    /// A line of the target at a time: registers are filled, computed and stored back to back.
    ///
    /// # Safety
    /// A level with registers was detected; `count` elements are readable at each source and writable at the target.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    pub unsafe fn map<T: SimdElement, const N: usize>(
        formula: &impl Formula<T::Compute, N>,
        sources: impl Sources<T, N>,
        target: *mut T,
        count: usize,
        streaming: bool,
    ) {
        let per_line = LINE / size_of::<T>();
        let misaligned = target as usize % LINE;
        let mut done = 0;
        // Lines are written whole, so streaming starts at the first that begins inside the run.
        let streaming = streaming && misaligned.is_multiple_of(size_of::<T>());
        if streaming && misaligned != 0 {
            done = ((LINE - misaligned) / size_of::<T>()).min(count);
            // SAFETY: `done` is at most `count`.
            unsafe { native(formula, sources, target, done) };
        }
        // SAFETY: every access below is to elements from `done` to `count`; streamed stores are aligned
        // because the head above ended at a line.
        unsafe {
            if streaming {
                while done + per_line <= count {
                    for pair in 0..per_line / (2 * T::LANES) {
                        let at = done + pair * 2 * T::LANES;
                        let [first, second] = sources.pair(at);
                        T::stream_pair(target.add(at), [formula.apply(first), formula.apply(second)]);
                    }
                    sources.prefetch(done, AHEAD);
                    done += per_line;
                }
            } else {
                while done + per_line <= count {
                    for pair in 0..per_line / (2 * T::LANES) {
                        let at = done + pair * 2 * T::LANES;
                        let [first, second] = sources.pair(at);
                        T::store_pair(target.add(at), [formula.apply(first), formula.apply(second)]);
                    }
                    done += per_line;
                }
            }
            while done + T::LANES <= count {
                T::store(target.add(done), formula.apply(sources.register(done)));
                done += T::LANES;
            }
            native(formula, sources.from(done), target.add(done), count - done);
        }
    }
}
