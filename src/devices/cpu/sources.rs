//! The operands of a run of elements: all but the last lie one after the other, and the last may also
//! be one number for the whole run, or numbers that are of the compute type already.

use firelu_core::dtype::{Compute, DType, Element};
use firelu_core::with_element;

pub use super::simd::element::SimdElement;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::simd::prefetch;

/// How many strided elements are brought together at a time; they stay in the first-level cache.
pub const PIECE: usize = 512;

/// What the last operand of a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Last<C> {
    /// As the other operands.
    Dense,
    /// One number.
    Constant(C),
    /// Numbers of the compute type, one after the other.
    Wide(*const C),
}

/// How the last operand of every run of a call is found, which its type and its step decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastKind {
    /// As the other operands.
    Dense,
    /// Read once for each run.
    Constant,
    /// Read as the compute type.
    Wide,
}

impl LastKind {
    /// The kind for a last operand `step` bytes apart; `None` where it must be brought together first.
    pub fn of<T: Element>(dtype: DType, step: isize) -> Option<Self> {
        match step {
            0 => Some(LastKind::Constant),
            _ if dtype == T::DTYPE && step == size_of::<T>() as isize => Some(LastKind::Dense),
            _ if dtype == T::Compute::DTYPE && step == size_of::<T::Compute>() as isize => Some(LastKind::Wide),
            _ => None,
        }
    }

    /// The last operand of the run that starts at `pointer`.
    ///
    /// # Safety
    /// An element of type `dtype` must be readable at `pointer`.
    #[inline]
    pub unsafe fn at<C: Compute>(self, dtype: DType, pointer: *const u8) -> Last<C> {
        match self {
            LastKind::Dense => Last::Dense,
            // SAFETY: the caller's promise.
            LastKind::Constant => Last::Constant(unsafe { read_wide(dtype, pointer) }),
            LastKind::Wide => Last::Wide(pointer.cast()),
        }
    }
}

/// One element of any type, widened.
///
/// # Safety
/// It must be readable; any alignment.
#[inline]
pub unsafe fn read_wide<C: Compute>(dtype: DType, pointer: *const u8) -> C {
    with_element!(dtype, S => {
        // SAFETY: the caller's promise.
        C::from_f64(unsafe { pointer.cast::<S>().read_unaligned() }.to_compute().to_f64())
    })
}

/// Brings `count` elements, `step` bytes apart, together.
///
/// # Safety
/// Each of those elements must be readable, and `target` must hold `count`.
#[inline]
pub unsafe fn gather<T: Element>(source: *const u8, step: isize, target: *mut T, count: usize) {
    for i in 0..count {
        // SAFETY: the caller promises both; elements may be unaligned.
        unsafe { target.add(i).write(source.offset(i as isize * step).cast::<T>().read_unaligned()) };
    }
}

/// As [`gather`], widening elements of any type.
///
/// # Safety
/// As [`gather`].
pub unsafe fn gather_wide<C: Compute>(dtype: DType, source: *const u8, step: isize, target: *mut C, count: usize) {
    with_element!(dtype, S => {
        for i in 0..count {
            // SAFETY: the caller promises both; elements may be unaligned.
            unsafe {
                let element = source.offset(i as isize * step).cast::<S>().read_unaligned();
                target.add(i).write(C::from_f64(element.to_compute().to_f64()));
            }
        }
    })
}

/// Puts `count` elements to places `step` bytes apart.
///
/// # Safety
/// Each of those places must be writable, and `source` must hold `count`.
#[inline]
pub unsafe fn scatter<T: Element>(source: *const T, target: *mut u8, step: isize, count: usize) {
    for i in 0..count {
        // SAFETY: the caller promises both; elements may be unaligned.
        unsafe { target.offset(i as isize * step).cast::<T>().write_unaligned(source.add(i).read()) };
    }
}

/// `N` operands of a run, one element or one register at a time.
pub trait Sources<T: SimdElement, const N: usize>: Copy {
    /// The operands from the element `start` on.
    fn from(self, start: usize) -> Self;

    /// The operands of one element.
    ///
    /// # Safety
    /// The run has this element.
    unsafe fn one(self, index: usize) -> [T::Compute; N];

    /// The operands of a register of elements.
    ///
    /// # Safety
    /// A level with registers was detected, and the run has `LANES` elements from `index` on.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    unsafe fn register(self, index: usize) -> [T::Register; N];

    /// The operands of two registers of elements, in the order of `load_pair`.
    ///
    /// # Safety
    /// As `register`, with twice as many elements.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    unsafe fn pair(self, index: usize) -> [[T::Register; N]; 2];

    /// Asks for the lines `ahead` bytes on.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn prefetch(self, index: usize, ahead: usize);
}

/// Every operand lies one element after the other.
#[derive(Clone, Copy)]
pub struct Dense<T, const N: usize>(pub [*const T; N]);

/// The last operand is one number; its address is not used.
#[derive(Clone, Copy)]
pub struct WithConstant<T: Element, const N: usize>(pub [*const T; N], pub T::Compute);

/// The last operand is of the compute type; its address among the others is not used.
#[derive(Clone, Copy)]
pub struct WithWide<T: Element, const N: usize>(pub [*const T; N], pub *const T::Compute);

impl<T: SimdElement, const N: usize> Sources<T, N> for Dense<T, N> {
    #[inline(always)]
    fn from(self, start: usize) -> Self {
        Dense(self.0.map(|source| source.wrapping_add(start)))
    }
    #[inline(always)]
    unsafe fn one(self, index: usize) -> [T::Compute; N] {
        // SAFETY: the caller's promise; elements may be unaligned.
        self.0.map(|source| unsafe { source.add(index).read_unaligned() }.to_compute())
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[inline(always)]
    unsafe fn register(self, index: usize) -> [T::Register; N] {
        // SAFETY: the caller's promise.
        unsafe { registers(self.0, index, T::load(self.0[N - 1].add(index))) }
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[inline(always)]
    unsafe fn pair(self, index: usize) -> [[T::Register; N]; 2] {
        // SAFETY: the caller's promise.
        unsafe { pairs(self.0, index, T::load_pair(self.0[N - 1].add(index))) }
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[inline(always)]
    fn prefetch(self, index: usize, ahead: usize) {
        for source in self.0 {
            prefetch(source.wrapping_add(index).cast(), ahead);
        }
    }
}

/// The methods of sources whose last operand differs from the others: where it is from an element on, what
/// it is for one element, for a register of them, and for two.
macro_rules! sources_with_last {
    ($name:ident, $last:ident, $index:ident, $from:expr, $one:expr, $register:expr, $pair:expr) => {
        impl<T: SimdElement, const N: usize> Sources<T, N> for $name<T, N> {
            #[inline(always)]
            fn from(self, $index: usize) -> Self {
                let $last = self.1;
                $name(self.0.map(|source| source.wrapping_add($index)), $from)
            }
            #[inline(always)]
            unsafe fn one(self, $index: usize) -> [T::Compute; N] {
                let $last = self.1;
                // SAFETY: the caller promises that the run has this element; it may be unaligned.
                unsafe {
                    let mut numbers = [$one; N];
                    for i in 0..N - 1 {
                        numbers[i] = self.0[i].add($index).read_unaligned().to_compute();
                    }
                    numbers
                }
            }
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            #[inline(always)]
            unsafe fn register(self, $index: usize) -> [T::Register; N] {
                let $last = self.1;
                // SAFETY: the caller promises the level and that many elements.
                unsafe { registers(self.0, $index, $register) }
            }
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            #[inline(always)]
            unsafe fn pair(self, $index: usize) -> [[T::Register; N]; 2] {
                let $last = self.1;
                // SAFETY: the caller promises the level and that many elements.
                unsafe { pairs(self.0, $index, $pair) }
            }
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            #[inline(always)]
            fn prefetch(self, index: usize, ahead: usize) {
                for source in &self.0[..N - 1] {
                    prefetch(source.wrapping_add(index).cast(), ahead);
                }
            }
        }
    };
}
sources_with_last!(WithConstant, value, index, value, value, T::splat(value), [T::splat(value); 2]);
sources_with_last!(
    WithWide,
    numbers,
    index,
    numbers.wrapping_add(index),
    numbers.add(index).read_unaligned(),
    T::load_wide(numbers.add(index)),
    T::load_wide_pair(numbers.add(index))
);

/// Registers of all operands, the last one given. No closures: one would not have the caller's instruction
/// set, and the loads in it would become calls.
///
/// # Safety
/// As [`Sources::register`].
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
unsafe fn registers<T: SimdElement, const N: usize>(
    sources: [*const T; N],
    index: usize,
    last: T::Register,
) -> [T::Register; N] {
    let mut registers = [last; N];
    for i in 0..N - 1 {
        // SAFETY: the caller's promise.
        registers[i] = unsafe { T::load(sources[i].add(index)) };
    }
    registers
}

/// As [`registers`], two of each operand.
///
/// # Safety
/// As [`Sources::pair`].
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
unsafe fn pairs<T: SimdElement, const N: usize>(
    sources: [*const T; N],
    index: usize,
    last: [T::Register; 2],
) -> [[T::Register; N]; 2] {
    let mut pairs = [[last[0]; N], [last[1]; N]];
    for i in 0..N - 1 {
        // SAFETY: the caller's promise.
        [pairs[0][i], pairs[1][i]] = unsafe { T::load_pair(sources[i].add(index)) };
    }
    pairs
}

/// Runs the body with `$sources` standing for the operands of a run: the one place where the kind of
/// the last operand becomes a type.
macro_rules! with_sources {
    ($pointers:expr, $last:expr, $sources:ident => $body:expr) => {
        match $last {
            $crate::sources::Last::Dense => {
                let $sources = $crate::sources::Dense($pointers);
                $body
            }
            $crate::sources::Last::Constant(value) => {
                let $sources = $crate::sources::WithConstant($pointers, value);
                $body
            }
            $crate::sources::Last::Wide(numbers) => {
                let $sources = $crate::sources::WithWide($pointers, numbers);
                $body
            }
        }
    };
}
pub(crate) use with_sources;
