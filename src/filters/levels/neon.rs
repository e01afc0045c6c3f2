//! NEON: the registers of [`simd::neon`](firelu_cpu::simd::neon), each two of the processor's, as the loops want them. They
//! are as many, and hold as many numbers, as those of AVX2: every loop runs here as there, to the same bits.

use core::arch::aarch64::*;
use core::arch::asm;

use super::zip::Zip;
use crate::loops::memory_access::{Prefetch, Rows, Stores};
use crate::loops::products::{Pairs, Part};
use crate::loops::register::{Access, Register};
use crate::loops::running::RunningSums;
use crate::loops::short::rows::{Forms, ShortLoops, ShortRows};
use crate::loops::split::Columns;
use crate::loops::two_rows::PairedRows;
use crate::loops::{self, Loops, PairsLoop, PhaseTerms, Reading, RunningLoop, Writing};
use firelu_core::dtype::{BFloat16, Element, Float16};
use firelu_cpu::simd::element::SimdElement;
use firelu_cpu::simd::neon::{self, F32x8, F64x4, NeonHalf};
use firelu_cpu::simd::{Lane, Row};

macro_rules! register {
    (
        $register:ident, $number:ty, $lanes:literal: $splat:ident, $zip1:ident, $zip2:ident, $unzip1:ident, $unzip2:ident,
        $three:ident, $load_three:ident, $store_three:ident, $shift:item, $sums:item
    ) => {
        impl Zip for $register {
            #[inline(always)]
            fn zip(self, other: Self) -> (Self, Self) {
                // SAFETY: every arm64 processor has NEON.
                unsafe {
                    (
                        Self($zip1(self.0, other.0), $zip2(self.0, other.0)),
                        Self($zip1(self.1, other.1), $zip2(self.1, other.1)),
                    )
                }
            }
            #[inline(always)]
            fn unzip(self, other: Self) -> (Self, Self) {
                // SAFETY: as in `zip`.
                unsafe {
                    (
                        Self($unzip1(self.0, self.1), $unzip1(other.0, other.1)),
                        Self($unzip2(self.0, self.1), $unzip2(other.0, other.1)),
                    )
                }
            }
        }

        impl Register for $register {
            type Number = $number;
            const LANES: usize = $lanes;
            const NON_TEMPORAL: bool = false;
            const PRODUCT_SUMS: usize = 12;
            const MANY: bool = false;

            #[inline(always)]
            unsafe fn splat(value: $number) -> Self {
                // SAFETY: as in `zip`.
                unsafe { Self($splat(value), $splat(value)) }
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Lane::mul(self, other)
            }
            #[inline(always)]
            fn multiply_add(self, factor: Self, sum: Self) -> Self {
                Lane::mul_add(self, factor, sum)
            }
            #[inline(always)]
            fn interleave<const P: usize>(v: [Self; P]) -> [Self; P] {
                let mut result = v;
                match P {
                    2 => (result[0], result[1]) = v[0].zip(v[1]),
                    // SAFETY: the array holds three registers.
                    3 => unsafe {
                        let mut numbers = [0.0; 3 * $lanes];
                        $store_three(numbers.as_mut_ptr(), $three(v[0].0, v[1].0, v[2].0));
                        $store_three(numbers[3 * $lanes / 2..].as_mut_ptr(), $three(v[0].1, v[1].1, v[2].1));
                        for r in 0..3 {
                            result[r] = Row::load(numbers[r * $lanes..].as_ptr());
                        }
                    },
                    4 => result.copy_from_slice(&Zip::zip_four([v[0], v[1], v[2], v[3]])),
                    _ => unreachable!("two to four phases are interleaved in registers"),
                }
                result
            }
            #[inline(always)]
            fn deinterleave<const P: usize>(v: [Self; P]) -> [Self; P] {
                let mut result = v;
                match P {
                    2 => (result[0], result[1]) = v[0].unzip(v[1]),
                    // SAFETY: the array holds three registers.
                    3 => unsafe {
                        let mut numbers = [0.0; 3 * $lanes];
                        for r in 0..3 {
                            Row::store(v[r], numbers[r * $lanes..].as_mut_ptr());
                        }
                        let first = $load_three(numbers.as_ptr());
                        let second = $load_three(numbers[3 * $lanes / 2..].as_ptr());
                        result[0] = Self(first.0, second.0);
                        result[1] = Self(first.1, second.1);
                        result[2] = Self(first.2, second.2);
                    },
                    4 => result.copy_from_slice(&Zip::unzip_four([v[0], v[1], v[2], v[3]])),
                    _ => unreachable!("two to four phases are deinterleaved in registers"),
                }
                result
            }
            #[inline(always)]
            $shift
            #[inline(always)]
            fn in_turn(self) -> Self {
                let Self(mut first, mut second) = self;
                // SAFETY: nothing is done.
                unsafe {
                    asm!(
                        "/* {0:v} {1:v} */",
                        inout(vreg) first,
                        inout(vreg) second,
                        options(nomem, nostack, preserves_flags)
                    );
                }
                Self(first, second)
            }
            #[inline(always)]
            $sums
            #[inline(always)]
            fn prefetch(address: *const u8) {
                neon::prefetch(address, 0);
            }
            #[inline(always)]
            fn prefetch_l2(address: *const u8) {
                neon::prefetch_later(address);
            }
        }
    };
}
register!(
    F32x8, f32, 8: vdupq_n_f32, vzip1q_f32, vzip2q_f32, vuzp1q_f32, vuzp2q_f32, float32x4x3_t, vld3q_f32, vst3q_f32,
    fn shift(self, next: Self, places: usize) -> Self {
        let (a, b, c, d) = (self.0, self.1, next.0, next.1);
        // SAFETY: as in `zip`.
        unsafe {
            match places {
                0 => self,
                1 => Self(vextq_f32::<1>(a, b), vextq_f32::<1>(b, c)),
                2 => Self(vextq_f32::<2>(a, b), vextq_f32::<2>(b, c)),
                3 => Self(vextq_f32::<3>(a, b), vextq_f32::<3>(b, c)),
                4 => Self(b, c),
                5 => Self(vextq_f32::<1>(b, c), vextq_f32::<1>(c, d)),
                6 => Self(vextq_f32::<2>(b, c), vextq_f32::<2>(c, d)),
                7 => Self(vextq_f32::<3>(b, c), vextq_f32::<3>(c, d)),
                _ => next,
            }
        }
    },
    fn sums(self) -> [f64; 4] {
        // SAFETY: as in `zip`.
        let (low, high) = unsafe {
            (
                F64x4(vcvt_f64_f32(vget_low_f32(self.0)), vcvt_high_f64_f32(self.0)),
                F64x4(vcvt_f64_f32(vget_low_f32(self.1)), vcvt_high_f64_f32(self.1)),
            )
        };
        Lane::add(low, high).sums()
    }
);
register!(
    F64x4, f64, 4: vdupq_n_f64, vzip1q_f64, vzip2q_f64, vuzp1q_f64, vuzp2q_f64, float64x2x3_t, vld3q_f64, vst3q_f64,
    fn shift(self, next: Self, places: usize) -> Self {
        let (a, b, c, d) = (self.0, self.1, next.0, next.1);
        // SAFETY: as in `zip`.
        unsafe {
            match places {
                0 => self,
                1 => Self(vextq_f64::<1>(a, b), vextq_f64::<1>(b, c)),
                2 => Self(b, c),
                3 => Self(vextq_f64::<1>(b, c), vextq_f64::<1>(c, d)),
                _ => next,
            }
        }
    },
    fn sums(self) -> [f64; 4] {
        let mut sums = [0.0; 4];
        // SAFETY: the array has a register's numbers.
        unsafe { Row::store(self, sums.as_mut_ptr()) };
        sums
    }
);

/// Which bytes of a register's elements are loaded, in two pieces that may overlap, and where each then goes: there is no
/// masked load.
#[derive(Clone, Copy)]
pub struct Places {
    /// The first byte.
    from: usize,
    /// How many.
    count: usize,
    /// For each byte of the register, the byte of the pieces: the first piece starts at byte 0, the second at byte 16;
    /// from 32 on stands for zero.
    order: [uint8x16_t; 2],
}

impl Places {
    /// The elements `from .. to` of `size` bytes each.
    #[inline(always)]
    fn new(from: usize, to: usize, size: usize) -> Self {
        const BYTES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        debug_assert!(from <= to && to * size <= 32);
        let (from, count) = (from * size, (to - from) * size);
        // Both pieces are as long as the greatest power of two that is not longer than all.
        let piece = if count == 0 { 0 } else { 1 << count.ilog2().min(4) };
        // SAFETY: every arm64 processor has NEON; the array has sixteen bytes.
        let order = unsafe {
            let bytes = vld1q_u8(BYTES.as_ptr());
            let of = |first: usize| {
                // Bytes before the first are taken for ones far behind the last.
                let place = vaddq_u8(bytes, vdupq_n_u8(first.wrapping_sub(from) as u8));
                let second = vandq_u8(vcgeq_u8(place, vdupq_n_u8(piece as u8)), vdupq_n_u8((16 + piece - count) as u8));
                vornq_u8(vaddq_u8(place, second), vcltq_u8(place, vdupq_n_u8(count as u8)))
            };
            [of(0), of(16)]
        };
        Places { from, count, order }
    }

    /// The bytes of a register that starts at `source`; zeros at the other places.
    ///
    /// # Safety
    /// The bytes are readable.
    #[inline(always)]
    unsafe fn load(self, source: *const u8) -> [uint8x16_t; 2] {
        let first = source.wrapping_add(self.from);
        let last = |bytes: usize| first.wrapping_add(self.count - bytes);
        // SAFETY: each piece is a part of the bytes, which the caller promises.
        unsafe {
            let small = |first: u64, second: u64| {
                uint8x16x2_t(vreinterpretq_u8_u64(vdupq_n_u64(first)), vreinterpretq_u8_u64(vdupq_n_u64(second)))
            };
            let pieces = match self.count {
                0 => small(0, 0),
                2 => small(u64::from(first.cast::<u16>().read_unaligned()), 0),
                4..8 => small(
                    u64::from(first.cast::<u32>().read_unaligned()),
                    u64::from(last(4).cast::<u32>().read_unaligned()),
                ),
                8..16 => small(first.cast::<u64>().read_unaligned(), last(8).cast::<u64>().read_unaligned()),
                _ => uint8x16x2_t(vld1q_u8(first), vld1q_u8(last(16))),
            };
            [vqtbl2q_u8(pieces, self.order[0]), vqtbl2q_u8(pieces, self.order[1])]
        }
    }
}

/// Stores the first `count` bytes of two halves, fewer than both have, in pieces.
///
/// # Safety
/// Those bytes are writable.
#[inline(always)]
unsafe fn store_bytes([low, high]: [uint8x16_t; 2], mut target: *mut u8, count: usize) {
    debug_assert!(count < 32);
    // SAFETY: the pieces have `count` bytes in all.
    unsafe {
        let mut rest = low;
        if count & 16 != 0 {
            vst1q_u8(target, low);
            (target, rest) = (target.add(16), high);
        }
        if count & 8 != 0 {
            vst1_u8(target, vget_low_u8(rest));
            (target, rest) = (target.add(8), vextq_u8::<8>(rest, rest));
        }
        let mut rest = vgetq_lane_u64::<0>(vreinterpretq_u64_u8(rest));
        if count & 4 != 0 {
            target.cast::<u32>().write_unaligned(rest as u32);
            (target, rest) = (target.add(4), rest >> 32);
        }
        if count & 2 != 0 {
            target.cast::<u16>().write_unaligned(rest as u16);
        }
    }
}

/// Loads, stores and their parts: from the element's bytes to a register and back.
macro_rules! access {
    ($register:ident, $element:ty, $from_bytes:expr, $to_bytes:expr) => {
        impl Access<$element> for $register {
            type Mask = Places;

            #[inline(always)]
            unsafe fn mask(from: usize, to: usize) -> Places {
                Places::new(from, to, size_of::<$element>())
            }
            #[inline(always)]
            unsafe fn load_masked(source: *const $element, mask: Places) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $from_bytes(mask.load(source.cast())) }
            }
            #[inline(always)]
            unsafe fn load(source: *const $element) -> Self {
                // SAFETY: the caller's promise.
                unsafe { <$element as SimdElement>::load(source) }
            }
            #[inline(always)]
            unsafe fn store(self, target: *mut $element) {
                // SAFETY: the caller's promise.
                unsafe { <$element as SimdElement>::store(target, self) }
            }
            #[inline(always)]
            unsafe fn stream(self, target: *mut $element) {
                // SAFETY: the caller's promise.
                unsafe { <$element as SimdElement>::store(target, self) }
            }
            #[inline(always)]
            unsafe fn store_part(self, target: *mut $element, count: usize) {
                debug_assert!(count < <Self as Register>::LANES);
                // SAFETY: the caller's promise.
                unsafe { store_bytes($to_bytes(self), target.cast(), count * size_of::<$element>()) }
            }
        }
    };
}
access!(
    F32x8,
    f32,
    |bytes: [uint8x16_t; 2]| F32x8(vreinterpretq_f32_u8(bytes[0]), vreinterpretq_f32_u8(bytes[1])),
    |value: F32x8| [vreinterpretq_u8_f32(value.0), vreinterpretq_u8_f32(value.1)]
);
access!(
    F64x4,
    f64,
    |bytes: [uint8x16_t; 2]| F64x4(vreinterpretq_f64_u8(bytes[0]), vreinterpretq_f64_u8(bytes[1])),
    |value: F64x4| [vreinterpretq_u8_f64(value.0), vreinterpretq_u8_f64(value.1)]
);
macro_rules! access_halves {
    ($element:ty) => {
        access!(
            F32x8,
            $element,
            |bytes: [uint8x16_t; 2]| <$element>::widen(vreinterpretq_u16_u8(bytes[0])),
            |value: F32x8| [vreinterpretq_u8_u16(<$element>::narrow(value)); 2]
        );
    };
}
access_halves!(Float16);
access_halves!(BFloat16);

compile_loops!();
compile_short_loops!();
