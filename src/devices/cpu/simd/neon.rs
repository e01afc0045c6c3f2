//! NEON registers, two of the processor's at a time: as many numbers as one of AVX2 holds, so that loops and sums have the
//! same order, and two chains of arithmetic where one would wait for itself. Every arm64 processor has all of this; a
//! register is made by [`SimdElement::load`] or `splat` alone.
//!
//! There are no stores past the caches: processors of this kind notice by themselves that lines are written whole.

use core::arch::aarch64::*;
use core::arch::asm;

use super::element::SimdElement;
use super::{ABOUT_INVERSE_32, ABOUT_INVERSE_64, Lane, Row};
use firelu_core::dtype::{BFloat16, Element, Float16};

/// Eight float32 numbers.
#[derive(Clone, Copy)]
pub struct F32x8(pub float32x4_t, pub float32x4_t);

/// Four float64 numbers.
#[derive(Clone, Copy)]
pub struct F64x4(pub float64x2_t, pub float64x2_t);

/// An instruction on both halves of some registers.
macro_rules! halves {
    ($instruction:ident($($operand:expr),+)) => {
        // SAFETY: every arm64 processor has NEON.
        unsafe { Self($instruction($($operand.0),+), $instruction($($operand.1),+)) }
    };
}

macro_rules! lane {
    (
        $register:ident, $number:ty, $places:literal: $splat:ident, $add:ident, $sub:ident, $mul:ident,
        $fma:ident, $abs:ident, $greater:ident, $select:ident, $load:ident, $store:ident;
        $bits:ident, $float:ident, $shift:ident, $add_bits:ident, $sub_bits:ident, $splat_bits:ident, $test:ident,
        $above:ident, $words:ident, $one:expr, $about_inverse:expr, $sign:expr, $mantissa:literal
    ) => {
        impl Lane<$number> for $register {
            #[inline(always)]
            fn splat(self, value: $number) -> Self {
                // SAFETY: every arm64 processor has NEON.
                unsafe { Self($splat(value), $splat(value)) }
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                halves!($add(self, other))
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                halves!($sub(self, other))
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                halves!($mul(self, other))
            }
            #[inline(always)]
            fn mul_add(self, factor: Self, term: Self) -> Self {
                halves!($fma(term, self, factor))
            }
            // The instructions for these make NaN of a limit that is NaN, and choose between zeros by their signs.
            #[inline(always)]
            fn at_most(self, limit: Self) -> Self {
                self.where_greater(limit, limit, self)
            }
            #[inline(always)]
            fn at_least(self, limit: Self) -> Self {
                limit.where_greater(self, limit, self)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                halves!($abs(self))
            }
            #[inline(always)]
            fn with_sign_of(self, sign: Self) -> Self {
                // SAFETY: as in `splat`.
                let bit = unsafe { $splat_bits($sign) };
                // SAFETY: as in `splat`.
                unsafe { Self($select(bit, sign.0, self.0), $select(bit, sign.1, self.1)) }
            }
            #[inline(always)]
            fn where_positive(self, then: Self, otherwise: Self) -> Self {
                self.where_greater(self.splat(0.0), then, otherwise)
            }
            #[inline(always)]
            fn where_greater(self, than: Self, then: Self, otherwise: Self) -> Self {
                // SAFETY: as in `splat`.
                unsafe {
                    Self(
                        $select($greater(self.0, than.0), then.0, otherwise.0),
                        $select($greater(self.1, than.1), then.1, otherwise.1),
                    )
                }
            }
            #[inline(always)]
            fn where_odd(self, then: Self, otherwise: Self) -> Self {
                // SAFETY: as in `splat`.
                unsafe {
                    let one = $splat_bits(1);
                    Self(
                        $select($test($bits(self.0), one), then.0, otherwise.0),
                        $select($test($bits(self.1), one), then.1, otherwise.1),
                    )
                }
            }
            #[inline(always)]
            fn power_of_two(self) -> Self {
                // SAFETY: as in `splat`.
                unsafe {
                    let one = $splat_bits($one);
                    Self(
                        $float($add_bits($shift::<$mantissa>($bits(self.0)), one)),
                        $float($add_bits($shift::<$mantissa>($bits(self.1)), one)),
                    )
                }
            }
            #[inline(always)]
            fn about_inverse(self) -> Self {
                // SAFETY: as in `splat`.
                unsafe {
                    let minuend = $splat_bits($about_inverse);
                    Self($float($sub_bits(minuend, $bits(self.0))), $float($sub_bits(minuend, $bits(self.1))))
                }
            }
            #[inline(always)]
            fn any_greater(self, than: Self) -> bool {
                // SAFETY: as in `splat`.
                unsafe {
                    // Of two comparisons of numbers the compiler makes one of the greater numbers, which a signalling NaN
                    // beside them spoils; bits of positive numbers have the same order, and NaNs are above all.
                    let above = |number, limit| $words($above($bits(number), $bits(limit)));
                    vmaxvq_u32(vorrq_u32(above(self.0, than.0), above(self.1, than.1))) != 0
                }
            }
            #[inline(always)]
            fn each(self, function: impl Fn($number) -> $number) -> Self {
                let mut numbers = [0.0; $places];
                // SAFETY: the array has a register's numbers.
                unsafe { Row::store(self, numbers.as_mut_ptr()) };
                for number in &mut numbers {
                    *number = function(*number);
                }
                // SAFETY: as above.
                unsafe { Row::load(numbers.as_ptr()) }
            }
        }

        impl Row<$number> for $register {
            const LANES: usize = $places;
            #[inline(always)]
            unsafe fn load(source: *const $number) -> Self {
                // SAFETY: the caller's promise.
                unsafe { Self($load(source), $load(source.add($places / 2))) }
            }
            #[inline(always)]
            unsafe fn store(self, target: *mut $number) {
                // SAFETY: the caller's promise.
                unsafe {
                    $store(target, self.0);
                    $store(target.add($places / 2), self.1);
                }
            }
        }
    };
}
/// Bits that are words of 32 already.
#[inline(always)]
fn same(words: uint32x4_t) -> uint32x4_t {
    words
}
lane!(
    F32x8, f32, 8: vdupq_n_f32, vaddq_f32, vsubq_f32, vmulq_f32, vfmaq_f32, vabsq_f32, vcgtq_f32, vbslq_f32,
    vld1q_f32, vst1q_f32;
    vreinterpretq_u32_f32, vreinterpretq_f32_u32, vshlq_n_u32, vaddq_u32, vsubq_u32, vdupq_n_u32, vtstq_u32, vcgtq_u32,
    same, 0x3f80_0000, ABOUT_INVERSE_32, 1 << 31, 23
);
lane!(
    F64x4, f64, 4: vdupq_n_f64, vaddq_f64, vsubq_f64, vmulq_f64, vfmaq_f64, vabsq_f64, vcgtq_f64, vbslq_f64,
    vld1q_f64, vst1q_f64;
    vreinterpretq_u64_f64, vreinterpretq_f64_u64, vshlq_n_u64, vaddq_u64, vsubq_u64, vdupq_n_u64, vtstq_u64, vcgtq_u64,
    vreinterpretq_u32_u64, 0x3ff0_0000_0000_0000, ABOUT_INVERSE_64, 1 << 63, 52
);

/// An element with its register: how it is loaded, and how it is stored.
macro_rules! element {
    ($element:ty, $register:ident, $load:expr, $store:expr) => {
        impl SimdElement for $element {
            type Register = $register;
            const LANES: usize = <$register as Row<<$element as Element>::Compute>>::LANES;

            #[inline(always)]
            unsafe fn load(source: *const $element) -> $register {
                // SAFETY: the caller's promise.
                unsafe { $load(source) }
            }
            #[inline(always)]
            unsafe fn store(target: *mut $element, value: $register) {
                // SAFETY: the caller's promise.
                unsafe { $store(target, value) }
            }
            #[inline(always)]
            unsafe fn stream(target: *mut $element, value: $register) {
                // SAFETY: the caller's promise.
                unsafe { $store(target, value) }
            }
            #[inline(always)]
            unsafe fn stream_halves(target: *mut $element, value: $register) {
                // SAFETY: the caller's promise.
                unsafe { $store(target, value) }
            }
            #[inline(always)]
            unsafe fn load_wide(source: *const Self::Compute) -> $register {
                // SAFETY: the caller's promise.
                unsafe { Row::load(source) }
            }
            #[inline(always)]
            unsafe fn store_wide(target: *mut Self::Compute, value: $register) {
                // SAFETY: the caller's promise.
                unsafe { Row::store(value, target) }
            }
            #[inline(always)]
            unsafe fn splat(value: Self::Compute) -> $register {
                // SAFETY: the array has a register's numbers, all the same.
                unsafe { Row::load([value; <Self as SimdElement>::LANES].as_ptr()) }
            }
        }
    };
}
element!(f32, F32x8, Row::load, |target, value| Row::store(value, target));
element!(f64, F64x4, Row::load, |target, value| Row::store(value, target));
element!(Float16, F32x8, load_half, store_half);
element!(BFloat16, F32x8, load_half, store_half);

/// An element of 16 bits.
pub trait NeonHalf: SimdElement<Register = F32x8> {
    /// Eight of them as numbers of the compute type.
    fn widen(bits: uint16x8_t) -> F32x8;
    /// Eight numbers, rounded once.
    fn narrow(value: F32x8) -> uint16x8_t;
}

#[inline(always)]
unsafe fn load_half<T: NeonHalf>(source: *const T) -> F32x8 {
    // SAFETY: the caller's promise: eight elements of 16 bits.
    T::widen(unsafe { vld1q_u16(source.cast()) })
}

#[inline(always)]
unsafe fn store_half<T: NeonHalf>(target: *mut T, value: F32x8) {
    // SAFETY: as above.
    unsafe { vst1q_u16(target.cast(), T::narrow(value)) }
}

// The compiler's own names for these conversions need a type that it does not have yet.
impl NeonHalf for Float16 {
    #[inline(always)]
    fn widen(bits: uint16x8_t) -> F32x8 {
        let (first, second);
        // SAFETY: every arm64 processor has these two instructions, from registers to registers.
        unsafe {
            asm!("fcvtl {0:v}.4s, {1:v}.4h", lateout(vreg) first, in(vreg) bits, options(pure, nomem, nostack, preserves_flags));
            asm!("fcvtl2 {0:v}.4s, {1:v}.8h", lateout(vreg) second, in(vreg) bits, options(pure, nomem, nostack, preserves_flags));
        }
        F32x8(first, second)
    }
    #[inline(always)]
    fn narrow(value: F32x8) -> uint16x8_t {
        let bits;
        // SAFETY: as in `widen`. The first clears the upper half, which the second writes.
        unsafe {
            asm!(
                "fcvtn {0:v}.4h, {1:v}.4s",
                "fcvtn2 {0:v}.8h, {2:v}.4s",
                out(vreg) bits, in(vreg) value.0, in(vreg) value.1,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        bits
    }
}

impl NeonHalf for BFloat16 {
    #[inline(always)]
    fn widen(bits: uint16x8_t) -> F32x8 {
        // SAFETY: every arm64 processor has NEON.
        unsafe {
            let (first, second) = (vmovl_u16(vget_low_u16(bits)), vmovl_high_u16(bits));
            F32x8(vreinterpretq_f32_u32(vshlq_n_u32::<16>(first)), vreinterpretq_f32_u32(vshlq_n_u32::<16>(second)))
        }
    }
    #[inline(always)]
    fn narrow(value: F32x8) -> uint16x8_t {
        // SAFETY: as in `widen`.
        unsafe { vshrn_high_n_u32::<16>(vshrn_n_u32::<16>(upper_halves(value.0)), upper_halves(value.1)) }
    }
}

/// Rounded to nearest even in the upper halves; a NaN keeps its sign and becomes quiet. The lower halves are
/// anything.
#[inline(always)]
fn upper_halves(value: float32x4_t) -> uint32x4_t {
    // SAFETY: every arm64 processor has NEON.
    unsafe {
        let bits = vreinterpretq_u32_f32(value);
        let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
        let rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
        let quiet = vorrq_u32(bits, vdupq_n_u32(0x0040_0000));
        vbslq_u32(vceqq_f32(value, value), rounded, quiet)
    }
}

/// Asks for the line `ahead` bytes on; any address is fine, a wrong one does nothing.
#[inline(always)]
pub fn prefetch(address: *const u8, ahead: usize) {
    // SAFETY: a prefetch never faults.
    unsafe {
        asm!("prfm pldl1keep, [{}]", in(reg) address.wrapping_add(ahead), options(nomem, nostack, preserves_flags))
    }
}

/// As [`prefetch`], but into the second cache: many more lines can be on their way to it than to the first.
#[inline(always)]
pub fn prefetch_later(address: *const u8) {
    // SAFETY: as above.
    unsafe { asm!("prfm pldl2keep, [{}]", in(reg) address, options(nomem, nostack, preserves_flags)) }
}
