//! Runs a [`Formula`] over whole tensors: contiguous runs go straight to the kernel of the processor's
//! level, strided ones are brought together in small pieces first, so that both give the same bits.

use std::mem::MaybeUninit;

use crate::core::dtype::{Compute, Element};
use crate::core::error::Result;
use crate::core::tensor::{Parts, TensorView, TensorViewMut};
use crate::devices::cpu::features::{Level, last_level_cache};
use crate::devices::cpu::simd::Formula;
use crate::devices::cpu::walk::Walk;

/// Everything an element-wise kernel needs of an element type.
#[cfg(target_arch = "x86_64")]
pub trait SimdElement: super::simd::avx2::Avx2Element {}
#[cfg(target_arch = "x86_64")]
impl<T: super::simd::avx2::Avx2Element> SimdElement for T {}
/// Everything an element-wise kernel needs of an element type.
#[cfg(not(target_arch = "x86_64"))]
pub trait SimdElement: Element {}
#[cfg(not(target_arch = "x86_64"))]
impl<T: Element> SimdElement for T {}

/// How many strided elements are brought together at a time; they stay in the first-level cache.
const PIECE: usize = 512;

/// Writes `formula` of the inputs' elements to the output. All have the output's shape (a broadcast
/// input has strides of zero) and element type `T`; an input may be the output itself.
pub fn map<T, const N: usize>(
    formula: &impl Formula<T::Compute, N>,
    output: &TensorViewMut<'_>,
    inputs: [&TensorView<'_>; N],
) -> Result<()>
where
    T: SimdElement,
    T::Compute: Compute,
{
    let level = Level::current();
    let size = size_of::<T>() as isize;
    let elements = output.shape().elements();
    let bytes = elements * size as usize * (N + 1);
    if bytes <= super::parallel::TASK_BYTES && output.is_row_major() && inputs.iter().all(|input| input.is_row_major())
    {
        let sources = inputs.map(|input| input.pointer as *const T);
        // SAFETY: the views promise that many elements, one after the other.
        unsafe { contiguous(level, formula, sources, output.pointer.cast(), elements, false) };
        return Ok(());
    }
    let in_place = inputs.iter().any(|input| input.pointer == output.pointer);
    // Lines that are in no cache need not be fetched before they are overwritten.
    let streaming = !in_place && bytes > last_level_cache() / 4 * 3;
    let operand = |parts: &Parts| (parts.pointer, parts.strides.clone());
    let sources = inputs.map(|input| operand(input));
    let walk = Walk::new(output.shape(), operand(output), sources);
    let (target_step, source_steps) = walk.run_strides();
    let dense = target_step == size && source_steps.iter().all(|&step| step == size);
    // SAFETY: the views promise every element of the walk, outputs do not share memory, and a task reads
    // an input only where it is the output's own element or never written.
    unsafe {
        walk.for_each_run(size as usize * (N + 1), |target, sources, count| {
            if dense || count == 1 {
                contiguous(level, formula, sources.map(|s| s as *const T), target.cast(), count, streaming);
            } else {
                strided::<T, N>(level, formula, (sources, source_steps), (target, target_step), count);
            }
        })
    }
}

/// # Safety
/// `count` elements must be readable and writable at the given strides.
unsafe fn strided<T: SimdElement, const N: usize>(
    level: Level,
    formula: &impl Formula<T::Compute, N>,
    (sources, source_steps): ([*mut u8; N], [isize; N]),
    (target, target_step): (*mut u8, isize),
    count: usize,
) {
    let mut pieces = [const { [const { MaybeUninit::<T>::uninit() }; PIECE] }; N];
    let mut result = [const { MaybeUninit::<T>::uninit() }; PIECE];
    for start in (0..count).step_by(PIECE) {
        let length = PIECE.min(count - start);
        let at = |pointer: *mut u8, step: isize| pointer.wrapping_offset(start as isize * step);
        // SAFETY: the elements from `start` on are among the caller's `count`; the buffers hold `PIECE`.
        unsafe {
            for (piece, (source, step)) in pieces.iter_mut().zip(sources.into_iter().zip(source_steps)) {
                gather(at(source, step), step, piece.as_mut_ptr().cast::<T>(), length);
            }
            let gathered = std::array::from_fn(|i| pieces[i].as_ptr().cast::<T>());
            contiguous(level, formula, gathered, result.as_mut_ptr().cast::<T>(), length, false);
            scatter(result.as_ptr().cast::<T>(), at(target, target_step), target_step, length);
        }
    }
}

/// Brings `count` elements, `step` bytes apart, together.
///
/// # Safety
/// Each of those elements must be readable, and `target` must hold `count`.
#[inline]
unsafe fn gather<T: Element>(source: *const u8, step: isize, target: *mut T, count: usize) {
    for i in 0..count {
        // SAFETY: the caller promises both; elements may be unaligned.
        unsafe { target.add(i).write(source.offset(i as isize * step).cast::<T>().read_unaligned()) };
    }
}

/// Puts `count` elements to places `step` bytes apart.
///
/// # Safety
/// Each of those places must be writable, and `source` must hold `count`.
#[inline]
unsafe fn scatter<T: Element>(source: *const T, target: *mut u8, step: isize, count: usize) {
    for i in 0..count {
        // SAFETY: the caller promises both; elements may be unaligned.
        unsafe { target.offset(i as isize * step).cast::<T>().write_unaligned(source.add(i).read()) };
    }
}

/// The one match on the processor's level.
///
/// # Safety
/// `count` elements must be readable at each source and writable at the target, at any alignment.
#[inline]
unsafe fn contiguous<T: SimdElement, const N: usize>(
    level: Level,
    formula: &impl Formula<T::Compute, N>,
    sources: [*const T; N],
    target: *mut T,
    count: usize,
    streaming: bool,
) {
    // SAFETY: the caller's promise; AVX2 is a level only where it was detected.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2::map(formula, sources, target, count, streaming),
            _ => native(formula, sources, target, count),
        }
    }
}

/// One element at a time, which the compiler turns into what every processor has.
///
/// # Safety
/// As [`contiguous`].
#[inline]
unsafe fn native<T: Element, const N: usize>(
    formula: &impl Formula<T::Compute, N>,
    sources: [*const T; N],
    target: *mut T,
    count: usize,
) {
    for i in 0..count {
        // SAFETY: the caller's promise; elements may be unaligned.
        unsafe {
            let operands = sources.map(|source| source.add(i).read_unaligned().to_compute());
            target.add(i).write_unaligned(T::from_compute(formula.apply(operands)));
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::native;
    use crate::devices::cpu::simd::Formula;
    use crate::devices::cpu::simd::avx2::{Avx2Element, LINE, fence, prefetch};

    /// How far ahead of the loads lines are asked for.
    const AHEAD: usize = 1024;

    /// A line of the target at a time: registers are filled, computed and stored back to back.
    ///
    /// # Safety
    /// AVX2, FMA and F16C were detected; `count` elements are readable at each source and writable at the target.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn map<T: Avx2Element, const N: usize>(
        formula: &impl Formula<T::Compute, N>,
        sources: [*const T; N],
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
                    for register in 0..per_line / T::LANES {
                        let at = done + register * T::LANES;
                        let value = formula.apply(std::array::from_fn(|i| T::load(sources[i].add(at))));
                        T::stream(target.add(at), value);
                    }
                    for source in sources {
                        prefetch(source.add(done).cast(), AHEAD);
                    }
                    done += per_line;
                }
                fence();
            } else {
                while done + per_line <= count {
                    for register in 0..per_line / T::LANES {
                        let at = done + register * T::LANES;
                        let value = formula.apply(std::array::from_fn(|i| T::load(sources[i].add(at))));
                        T::store(target.add(at), value);
                    }
                    done += per_line;
                }
            }
            while done + T::LANES <= count {
                let value = formula.apply(std::array::from_fn(|i| T::load(sources[i].add(done))));
                T::store(target.add(done), value);
                done += T::LANES;
            }
            native(formula, sources.map(|source| source.add(done)), target.add(done), count - done);
        }
    }
}
