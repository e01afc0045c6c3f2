//! What the loops need of a register, and the portable one. The loops are written once over these
//! traits; each level of the processor brings its own registers.

use firelu_core::dtype::{Compute, Element};

/// A register of compute numbers. One exists only where its level was detected, which those who make
/// the first (`splat`, `load`) promise; arithmetic on existing ones is safe.
pub trait Register: Copy {
    /// What it holds.
    type Number: Compute;
    /// How many.
    const LANES: usize;
    /// Whether it has non-temporal stores.
    const NON_TEMPORAL: bool;
    /// For how many product sums there are registers beside those for the factors.
    const PRODUCT_SUMS: usize;
    /// Whether there are as many as the taps of a small kernel and the sums of several rows need.
    const MANY: bool;

    /// The same number in every place.
    ///
    /// # Safety
    /// The register's level was detected.
    unsafe fn splat(value: Self::Number) -> Self;
    /// The product.
    fn mul(self, other: Self) -> Self;
    /// `self · factor + sum`, rounded once where the level has such an instruction, else twice.
    fn multiply_add(self, factor: Self, sum: Self) -> Self;
    /// From `P` registers, the first number of each, then the second of each, and so on.
    fn interleave<const P: usize>(values: [Self; P]) -> [Self; P];
    /// The inverse of `interleave`.
    fn deinterleave<const P: usize>(values: [Self; P]) -> [Self; P];
    /// The register that starts `places` after this one's start, where `next` follows; at most `LANES`.
    fn shift(self, next: Self, places: usize) -> Self;
    /// Up to how many terms `pairs` takes fewer instructions than to interleave the sums.
    const PAIRS: usize = 0;
    /// The registers that start `first` and `first + second` places after this one's start, interleaved.
    #[inline(always)]
    fn pairs(self, next: Self, first: usize, second: usize) -> [Self; 2] {
        Self::interleave([self.shift(next, first), self.shift(next, first + second)])
    }
    /// The same register, computed before what is computed after this call from others that were so marked. Left
    /// alone, the compiler computes sum after sum, each term of which waits for the one before.
    #[inline(always)]
    fn in_turn(self) -> Self {
        self
    }
    /// The sum of every fourth place from the first on, from the second on, and so on, in float64.
    fn sums(self) -> [f64; 4];
    /// Prefetches a line of memory into the first-level cache; any address is fine.
    #[inline(always)]
    fn prefetch(_address: *const u8) {}
    /// As `prefetch`, into the second-level cache.
    #[inline(always)]
    fn prefetch_l2(_address: *const u8) {}
}

/// A register that is loaded from, and rounded once into, elements of type `T`.
pub trait Access<T: Element<Compute = Self::Number>>: Register {
    /// Which places of a register are loaded.
    type Mask: Copy;

    /// The places `from .. to`, at most `LANES`.
    ///
    /// # Safety
    /// The level was detected.
    unsafe fn mask(from: usize, to: usize) -> Self::Mask;

    /// Loads the elements of a mask; the other places are zero.
    ///
    /// # Safety
    /// The level was detected and those elements are readable.
    unsafe fn load_masked(source: *const T, mask: Self::Mask) -> Self;

    /// Loads and widens `LANES` elements at any alignment.
    ///
    /// # Safety
    /// The level was detected and the elements are readable.
    unsafe fn load(source: *const T) -> Self;

    /// Rounds and stores `LANES` elements at any alignment.
    ///
    /// # Safety
    /// The elements are writable.
    unsafe fn store(self, target: *mut T);

    /// As `store`, by a non-temporal store where the register has one.
    ///
    /// # Safety
    /// As `store`, and the address is aligned to the bytes stored.
    unsafe fn stream(self, target: *mut T);

    /// Stores the first `count < LANES` elements.
    ///
    /// # Safety
    /// Those `count` elements are writable.
    #[inline(always)]
    unsafe fn store_part(self, target: *mut T, count: usize) {
        let mut elements = [T::default(); 16];
        debug_assert!(count < Self::LANES && Self::LANES <= elements.len());
        // SAFETY: the caller's promise; the array holds more than `count`.
        unsafe {
            self.store(elements.as_mut_ptr());
            std::ptr::copy_nonoverlapping(elements.as_ptr().cast::<u8>(), target.cast(), count * size_of::<T>());
        }
    }
}

/// As [`Access::load_masked`], for registers without masks: by way of an array.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn load_places<T: Element<Compute = R::Number>, R: Access<T>>(
    source: *const T,
    places: (usize, usize),
) -> R {
    let (mut elements, (from, to)) = ([T::default(); 16], places);
    debug_assert!(from <= to && to <= R::LANES && R::LANES <= elements.len());
    // SAFETY: the caller's promise; the array holds as many as a register.
    unsafe {
        let (first, bytes) = (source.wrapping_add(from).cast::<u8>(), (to - from) * size_of::<T>());
        std::ptr::copy_nonoverlapping(first, elements.as_mut_ptr().add(from).cast(), bytes);
        R::load(elements.as_ptr())
    }
}

/// How many numbers the portable register holds: two of the registers that every processor has.
const PORTABLE: usize = 8;

/// An array that the compiler turns into what every processor has.
#[derive(Clone, Copy)]
pub struct Portable<C>([C; PORTABLE]);

impl<C: Compute> Register for Portable<C> {
    type Number = C;
    const LANES: usize = PORTABLE;
    const NON_TEMPORAL: bool = false;
    const PRODUCT_SUMS: usize = 4;
    const MANY: bool = false;

    #[inline(always)]
    unsafe fn splat(value: C) -> Self {
        Portable([value; PORTABLE])
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Portable(std::array::from_fn(|i| self.0[i] * other.0[i]))
    }
    // A fused multiply-add without the instruction is a slow library call.
    #[inline(always)]
    fn multiply_add(self, factor: Self, sum: Self) -> Self {
        Portable(std::array::from_fn(|i| self.0[i] * factor.0[i] + sum.0[i]))
    }
    #[inline(always)]
    fn interleave<const P: usize>(values: [Self; P]) -> [Self; P] {
        std::array::from_fn(|r| {
            Portable(std::array::from_fn(|i| values[(r * PORTABLE + i) % P].0[(r * PORTABLE + i) / P]))
        })
    }
    #[inline(always)]
    fn deinterleave<const P: usize>(values: [Self; P]) -> [Self; P] {
        std::array::from_fn(|r| {
            Portable(std::array::from_fn(|i| values[(i * P + r) / PORTABLE].0[(i * P + r) % PORTABLE]))
        })
    }
    #[inline(always)]
    fn shift(self, next: Self, places: usize) -> Self {
        Portable(std::array::from_fn(|i| match i + places {
            at if at < PORTABLE => self.0[at],
            at => next.0[at - PORTABLE],
        }))
    }
    #[inline(always)]
    fn sums(self) -> [f64; 4] {
        std::array::from_fn(|i| self.0[i..].iter().step_by(4).fold(0.0, |sum, value| sum + value.to_f64()))
    }
}

impl<C: Compute, T: Element<Compute = C>> Access<T> for Portable<C> {
    type Mask = (usize, usize);

    #[inline(always)]
    unsafe fn mask(from: usize, to: usize) -> (usize, usize) {
        (from, to)
    }
    #[inline(always)]
    unsafe fn load_masked(source: *const T, mask: (usize, usize)) -> Self {
        // SAFETY: the caller's promise.
        unsafe { load_places(source, mask) }
    }
    #[inline(always)]
    unsafe fn load(source: *const T) -> Self {
        // SAFETY: the caller's promise.
        Portable(std::array::from_fn(|i| unsafe { source.add(i).read_unaligned() }.to_compute()))
    }
    #[inline(always)]
    unsafe fn store(self, target: *mut T) {
        for (i, value) in self.0.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { target.add(i).write_unaligned(T::from_compute(value)) };
        }
    }
    #[inline(always)]
    unsafe fn stream(self, target: *mut T) {
        // SAFETY: the caller's promise.
        unsafe { self.store(target) }
    }
}
