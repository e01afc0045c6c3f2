//! What the loops need of a register, and the portable one. The loops are written once over these
//! traits; each level of the processor brings its own registers.

use crate::core::dtype::{Compute, Element};

/// A register of compute numbers. One exists only where its level was detected, which those who make
/// the first (`splat`, `load`) promise; arithmetic on existing ones is safe.
pub trait Register: Copy {
    /// What it holds.
    type Number: Compute;
    /// How many.
    const LANES: usize;
    /// Whether it can be stored past the caches.
    const STREAMS: bool;
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
    /// Asks for a line of memory; any address is fine.
    #[inline(always)]
    fn prefetch(_address: *const u8) {}
    /// As `prefetch`, but for the second cache.
    #[inline(always)]
    fn prefetch_later(_address: *const u8) {}
    /// Makes streamed stores visible before a task ends.
    #[inline(always)]
    fn fence() {}
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

    /// As `store`, past the caches where the register can.
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
    const STREAMS: bool = false;
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

/// Calls a test once for the float32 register of each level that was detected.
#[cfg(test)]
macro_rules! with_float32_registers {
    ($check:ident) => {
        for level in $crate::devices::cpu::features::Level::available() {
            use $crate::devices::cpu::features::Level;
            match level {
                Level::Native => $check::<$crate::operators::upfirdn2d::cpu::registers::Portable<f32>>(),
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => $check::<$crate::devices::cpu::simd::avx2::F32x8>(),
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => $check::<$crate::operators::upfirdn2d::cpu::avx512::F32x16>(),
                #[cfg(not(target_arch = "x86_64"))]
                _ => unreachable!("a level of other processors"),
            }
        }
    };
}
#[cfg(test)]
pub(super) use with_float32_registers;

#[cfg(test)]
pub mod tests {
    use super::*;

    /// That loads, stores, parts and shuffles of a register agree with plain arrays.
    ///
    /// # Safety
    /// The register's level was detected.
    pub unsafe fn check_shuffles<R: Register + Access<<R as Register>::Number>>() {
        // SAFETY: the caller's promise; every pointer below is into an array of sufficient length.
        unsafe {
            check_phases::<R, 2>();
            check_phases::<R, 3>();
            check_phases::<R, 4>();
            let source: Vec<R::Number> = (1..=16).map(|i| R::Number::from_f64(f64::from(i))).collect();
            for count in 0..R::LANES {
                let mut target = vec![R::Number::default(); 16];
                R::load_masked(source.as_ptr(), R::mask(0, count)).store(target.as_mut_ptr());
                assert_eq!(target[..count], source[..count]);
                assert!(target[count..].iter().all(|&value| value == R::Number::default()));
                let mut target = vec![R::Number::default(); 16];
                <R as Access<<R as Register>::Number>>::load(source.as_ptr()).store_part(target.as_mut_ptr(), count);
                assert_eq!(target[..count], source[..count]);
                assert!(target[count..].iter().all(|&value| value == R::Number::default()));
            }
            let all = <R as Access<<R as Register>::Number>>::load(source.as_ptr());
            for from in 0..=R::LANES {
                for to in from..=R::LANES {
                    let mut target = vec![R::Number::from_f64(-1.0); 16];
                    R::load_masked(source.as_ptr(), R::mask(from, to)).store(target.as_mut_ptr());
                    for (i, value) in target[..R::LANES].iter().enumerate() {
                        let inside = (from..to).contains(&i);
                        assert_eq!(*value, if inside { source[i] } else { R::Number::default() });
                    }
                }
                let more: Vec<R::Number> = (1..=32).map(|i| R::Number::from_f64(f64::from(i))).collect();
                let (first, second) = (R::load(more.as_ptr()), R::load(more[R::LANES..].as_ptr()));
                let mut target = vec![R::Number::default(); 16];
                first.shift(second, from).store(target.as_mut_ptr());
                assert_eq!(target[..R::LANES], more[from..from + R::LANES]);
            }
            let every_fourth = |first: usize| (first..=R::LANES).step_by(4).sum::<usize>() as f64;
            assert_eq!(all.sums(), [1, 2, 3, 4].map(every_fourth));
            assert_eq!(all.mul(all).sums(), all.multiply_add(all, R::splat(R::Number::default())).sums());
        }
    }

    unsafe fn check_phases<R: Register + Access<<R as Register>::Number>, const P: usize>() {
        let source: Vec<R::Number> = (0..P * R::LANES).map(|i| R::Number::from_f64(i as f64)).collect();
        // SAFETY: the caller's promise; the arrays hold `P * LANES` numbers.
        unsafe {
            let load =
                |from: &[R::Number]| -> [R; P] { std::array::from_fn(|p| R::load(from[p * R::LANES..].as_ptr())) };
            let save = |registers: [R; P]| {
                let mut target = vec![R::Number::default(); P * R::LANES];
                registers.into_iter().enumerate().for_each(|(p, r)| r.store(target[p * R::LANES..].as_mut_ptr()));
                target
            };
            let mixed = save(R::interleave(load(&source)));
            for (at, value) in mixed.iter().enumerate() {
                assert_eq!(*value, source[at % P * R::LANES + at / P]);
            }
            assert_eq!(save(R::deinterleave(load(&mixed))), source);
        }
    }

    #[test]
    fn the_portable_register_shuffles_as_arrays_do() {
        // SAFETY: every processor has it.
        unsafe {
            check_shuffles::<Portable<f32>>();
            check_shuffles::<Portable<f64>>();
        }
    }
}
