//! Registers: a formula is written once over [`Lane`] and runs on single numbers (every processor), on registers of 8 ×
//! float32 or 4 × float64 (AVX2, or two of NEON's) and, where it computes much, on AVX-512 registers of twice that size.
//!
//! [`Lane::mul_add`] rounds once on registers. Where the processor cannot do that, it is as good as rounded once, so that
//! every reduction of arguments holds there too; the last bit may differ.

/// What every register of x86 computes alike: the methods of [`Lane`] that differ by the names of instructions alone.
#[cfg(target_arch = "x86_64")]
macro_rules! arithmetic {
    (
        $number:ty: $set1:ident, $add:ident, $sub:ident, $mul:ident, $fmadd:ident, $min:ident, $max:ident,
        $and:ident, $andnot:ident, $or:ident, $loadu:ident, $storeu:ident, $places:literal;
        $bits:ident, $float:ident, $shift:ident, $add_bits:ident, $sub_bits:ident, $set1_bits:ident, $one:expr,
        $about_inverse:expr, $mantissa:literal
    ) => {
        #[inline(always)]
        fn splat(self, value: $number) -> Self {
            // SAFETY: `self` exists, so its level was detected.
            Self(unsafe { $set1(value) })
        }
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            // SAFETY: as in `splat`.
            Self(unsafe { $add(self.0, other.0) })
        }
        #[inline(always)]
        fn sub(self, other: Self) -> Self {
            // SAFETY: as in `splat`.
            Self(unsafe { $sub(self.0, other.0) })
        }
        #[inline(always)]
        fn mul(self, other: Self) -> Self {
            // SAFETY: as in `splat`.
            Self(unsafe { $mul(self.0, other.0) })
        }
        #[inline(always)]
        fn mul_add(self, factor: Self, term: Self) -> Self {
            // SAFETY: as in `splat`.
            Self(unsafe { $fmadd(self.0, factor.0, term.0) })
        }
        #[inline(always)]
        fn at_most(self, limit: Self) -> Self {
            // SAFETY: as in `splat`. Where one is NaN, or both are equal, the instruction gives the second.
            Self(unsafe { $min(limit.0, self.0) })
        }
        #[inline(always)]
        fn at_least(self, limit: Self) -> Self {
            // SAFETY: as in `at_most`.
            Self(unsafe { $max(limit.0, self.0) })
        }
        #[inline(always)]
        fn abs(self) -> Self {
            // SAFETY: as in `splat`.
            Self(unsafe { $andnot($set1(-0.0), self.0) })
        }
        #[inline(always)]
        fn with_sign_of(self, sign: Self) -> Self {
            // SAFETY: as in `splat`.
            Self(unsafe { $or($and($set1(-0.0), sign.0), $andnot($set1(-0.0), self.0)) })
        }
        #[inline(always)]
        fn power_of_two(self) -> Self {
            // SAFETY: as in `splat`.
            Self(unsafe { $float($add_bits($shift::<$mantissa>($bits(self.0)), $set1_bits($one))) })
        }
        #[inline(always)]
        fn about_inverse(self) -> Self {
            // SAFETY: as in `splat`.
            Self(unsafe { $float($sub_bits($set1_bits($about_inverse as _), $bits(self.0))) })
        }
        #[inline(always)]
        fn each(self, function: impl Fn($number) -> $number) -> Self {
            let mut numbers = [0.0; $places];
            // SAFETY: as in `splat`; the array has a register's numbers.
            unsafe { $storeu(numbers.as_mut_ptr(), self.0) };
            for number in &mut numbers {
                *number = function(*number);
            }
            // SAFETY: as above.
            Self(unsafe { $loadu(numbers.as_ptr()) })
        }
    };
}

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
pub mod element;
#[cfg(target_arch = "aarch64")]
pub mod neon;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod together;

#[cfg(target_arch = "x86_64")]
pub use avx2::{prefetch, prefetch_later};
use firelu_core::dtype::{Compute, DType};
#[cfg(target_arch = "aarch64")]
pub use neon::{prefetch, prefetch_later};

/// A number, or a register of them, that a formula computes with.
pub trait Lane<C: Compute>: Copy {
    /// The same number in every place; `self` only shows that such registers exist here.
    fn splat(self, value: C) -> Self;
    /// Sum.
    fn add(self, other: Self) -> Self;
    /// Difference.
    fn sub(self, other: Self) -> Self;
    /// Product.
    fn mul(self, other: Self) -> Self;
    /// `self * factor + term`, rounded once.
    fn mul_add(self, factor: Self, term: Self) -> Self;
    /// The lesser of both; NaN stays NaN.
    fn at_most(self, limit: Self) -> Self;
    /// The greater of both; NaN stays NaN.
    fn at_least(self, limit: Self) -> Self;
    /// Without its sign.
    fn abs(self) -> Self;
    /// With the sign of another.
    fn with_sign_of(self, sign: Self) -> Self;
    /// `then` where `self > 0`, else `otherwise`: NaN and zeros count as not positive.
    fn where_positive(self, then: Self, otherwise: Self) -> Self;
    /// `then` where `self > than`, else `otherwise`: NaN counts as not greater.
    fn where_greater(self, than: Self, then: Self, otherwise: Self) -> Self;
    /// `then` where the lowest bit is set, else `otherwise`: for a number moved by [`shifter`], whether it is odd.
    fn where_odd(self, then: Self, otherwise: Self) -> Self;
    /// `2^n` for a number `n` moved by [`shifter`], where that is a normal number.
    fn power_of_two(self) -> Self;
    /// About one over a positive normal number: the bits of the exponent and those of the fraction are turned round. Off
    /// by a part of 0.0506 at most.
    fn about_inverse(self) -> Self;
    /// Whether some place is greater than another's; neither has a sign, and a NaN counts as either.
    fn any_greater(self, than: Self) -> bool;
    /// A function of each place by itself.
    fn each(self, function: impl Fn(C) -> C) -> Self;
}

/// What is added to a number to round it to a whole one, whose bits are then the lowest of the sum.
#[inline(always)]
pub fn shifter<C: Compute>() -> C {
    C::from_f64(if C::DTYPE == DType::Float32 { 12_582_912.0 } else { 6_755_399_441_055_744.0 })
}

/// What the bits of a number are taken off for [`Lane::about_inverse`]: twice the exponent of one, less what makes the
/// errors to both sides alike.
const ABOUT_INVERSE_32: u32 = 0x7ef3_1000;
const ABOUT_INVERSE_64: u64 = 0x7fde_6200_0000_0000;

impl<C: Compute> Lane<C> for C {
    #[inline(always)]
    fn splat(self, value: C) -> C {
        value
    }
    #[inline(always)]
    fn add(self, other: C) -> C {
        self + other
    }
    #[inline(always)]
    fn sub(self, other: C) -> C {
        self - other
    }
    #[inline(always)]
    fn mul(self, other: C) -> C {
        self * other
    }
    #[inline(always)]
    fn mul_add(self, factor: C, term: C) -> C {
        self.multiply_add(factor, term)
    }
    #[inline(always)]
    fn at_most(self, limit: C) -> C {
        if self > limit { limit } else { self }
    }
    #[inline(always)]
    fn at_least(self, limit: C) -> C {
        if self < limit { limit } else { self }
    }
    #[inline(always)]
    fn abs(self) -> C {
        self.magnitude()
    }
    #[inline(always)]
    fn with_sign_of(self, sign: C) -> C {
        self.signed_as(sign)
    }
    #[inline(always)]
    fn where_positive(self, then: C, otherwise: C) -> C {
        if self > C::default() { then } else { otherwise }
    }
    #[inline(always)]
    fn where_greater(self, than: C, then: C, otherwise: C) -> C {
        if self > than { then } else { otherwise }
    }
    #[inline(always)]
    fn where_odd(self, then: C, otherwise: C) -> C {
        if self.lowest_bit() { then } else { otherwise }
    }
    #[inline(always)]
    fn power_of_two(self) -> C {
        self.exponent_of_lowest_bits()
    }
    #[inline(always)]
    fn about_inverse(self) -> C {
        let is_float32 = C::DTYPE == DType::Float32;
        self.bits_less(if is_float32 { u64::from(ABOUT_INVERSE_32) } else { ABOUT_INVERSE_64 })
    }
    #[inline(always)]
    fn any_greater(self, than: C) -> bool {
        self > than
    }
    #[inline(always)]
    fn each(self, function: impl Fn(C) -> C) -> C {
        function(self)
    }
}

/// A number that multiplies and adds as registers do: what of a run fills no register has the same bits.
#[derive(Clone, Copy)]
pub struct Fused<C>(pub C);

/// The methods of [`Fused`] that are those of the number in it.
macro_rules! forward {
    ($($method:ident($($operand:ident),*)),+) => {
        $(
            #[inline(always)]
            fn $method(self, $($operand: Self),*) -> Self {
                Fused(Lane::$method(self.0, $($operand.0),*))
            }
        )+
    };
}

impl<C: Compute> Lane<C> for Fused<C> {
    forward!(
        add(other),
        sub(other),
        mul(other),
        at_most(limit),
        at_least(limit),
        abs(),
        with_sign_of(sign),
        where_positive(then, otherwise),
        where_greater(than, then, otherwise),
        where_odd(then, otherwise),
        power_of_two(),
        about_inverse()
    );
    #[inline(always)]
    fn splat(self, value: C) -> Self {
        Fused(value)
    }
    #[inline(always)]
    fn mul_add(self, factor: Self, term: Self) -> Self {
        Fused(self.0.fused_multiply_add(factor.0, term.0))
    }
    #[inline(always)]
    fn any_greater(self, than: Self) -> bool {
        self.0 > than.0
    }
    #[inline(always)]
    fn each(self, function: impl Fn(C) -> C) -> Self {
        Fused(function(self.0))
    }
}

/// A register that reads and writes rows of its own numbers.
pub trait Row<C: Compute>: Lane<C> {
    /// How many it holds.
    const LANES: usize;

    /// Loads; any alignment.
    ///
    /// # Safety
    /// The register's level was detected, and `LANES` numbers are readable.
    unsafe fn load(source: *const C) -> Self;

    /// Stores; any alignment.
    ///
    /// # Safety
    /// `LANES` numbers are writable.
    unsafe fn store(self, target: *mut C);

    /// Stores past the caches, where the processor can.
    ///
    /// # Safety
    /// As `store`, and the address is aligned to a cache line.
    #[inline(always)]
    unsafe fn stream(self, target: *mut C) {
        // SAFETY: the caller's promise.
        unsafe { self.store(target) }
    }
}

/// What an element-wise operator computes of `N` operands.
pub trait Formula<C: Compute, const N: usize>: Sync {
    /// Whether it takes longer than reading and writing do, or multiplies and adds with one rounding: then it is run by
    /// [`staged`](crate::staged) over rows of the compute type, and compiled for these alone.
    const COMPUTES_MUCH: bool = false;
    /// The result for one number, or one register of numbers, of each operand.
    fn apply<L: Lane<C>>(&self, operands: [L; N]) -> L;
    /// What is done to results of a formula that computes much, in a loop of its own: most calls do without, and each
    /// step of a long chain keeps the next register waiting.
    fn scaling(&self) -> Option<Scaling<C>> {
        None
    }
}

/// A product with a gain, and its limits.
#[derive(Clone, Copy)]
pub struct Scaling<C> {
    /// What numbers are multiplied by.
    pub gain: C,
    /// How far from zero products may be; infinite where there is no limit.
    pub clamp: C,
}

impl<C: Compute> Formula<C, 1> for Scaling<C> {
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [number]: [L; 1]) -> L {
        let clamp = number.splat(self.clamp);
        let product = number.mul(number.splat(self.gain));
        product.at_most(clamp).at_least(number.splat(C::default()).sub(clamp))
    }
}

/// As [`Formula`], with `M` results; always run by [`staged`](crate::staged).
pub trait Several<C: Compute, const N: usize, const M: usize>: Sync {
    /// The results for one number, or one register of numbers, of each operand.
    fn apply<L: Lane<C>>(&self, operands: [L; N]) -> [L; M];
}

/// Makes streamed stores visible before a task ends.
#[inline]
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        core::arch::x86_64::_mm_sfence()
    }
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::element::SimdElement;
    use crate::features::Level;
    use firelu_core::dtype::{BFloat16, Float16};

    /// Whether this processor has registers of the elements.
    fn detected() -> bool {
        let detected = Level::available().iter().any(|&level| level != Level::Native);
        if !detected {
            eprintln!("left out: this processor has no AVX2");
        }
        detected
    }

    /// Every 16-bit pattern widens and rounds as the `half` crate does it.
    fn exhaustive<T: SimdElement<Compute = f32>>(from_bits: fn(u16) -> T, to_bits: fn(T) -> u16) {
        if !detected() {
            return;
        }
        for start in (0..=u16::MAX).step_by(16) {
            let source: [T; 16] = std::array::from_fn(|i| from_bits(start + i as u16));
            let wide = source.map(T::to_compute);
            let (mut single, mut pair, mut wide_pair) = (source, source, source);
            // SAFETY: registers were detected above; every array holds two registers of elements.
            unsafe {
                T::store(single.as_mut_ptr(), T::load(source.as_ptr()));
                T::store(single.as_mut_ptr().add(8), T::load(source.as_ptr().add(8)));
                T::store_pair(pair.as_mut_ptr(), T::load_pair(source.as_ptr()));
                T::store_pair(wide_pair.as_mut_ptr(), T::load_wide_pair(wide.as_ptr()));
            }
            let expected = wide.map(|number| to_bits(T::from_compute(number)));
            for stored in [single, pair, wide_pair] {
                assert_eq!(stored.map(to_bits), expected);
            }
        }
    }

    #[test]
    fn float16_matches_the_half_crate_for_every_input() {
        exhaustive::<Float16>(Float16::from_bits, Float16::to_bits);
    }

    #[test]
    fn bfloat16_matches_the_half_crate_for_every_input() {
        exhaustive::<BFloat16>(BFloat16::from_bits, BFloat16::to_bits);
    }

    #[test]
    fn float32_rounds_to_bfloat16_as_the_half_crate_does() {
        if !detected() {
            return;
        }
        for bits in (0..=u32::MAX).step_by(9_973) {
            let values = [f32::from_bits(bits); 8];
            let mut target = [BFloat16::ZERO; 8];
            // SAFETY: registers were detected above; both arrays hold eight elements.
            unsafe { BFloat16::store(target.as_mut_ptr(), f32::load(values.as_ptr())) };
            assert_eq!(target[0].to_bits(), BFloat16::from_f32(values[0]).to_bits(), "{bits:#x}");
        }
    }
}
