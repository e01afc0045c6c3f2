//! AVX2 + FMA + F16C: the registers of [`simd::avx2`] as the loops want them, and the entry points in
//! which those loops are compiled with these instructions.

use core::arch::asm;
use core::arch::x86_64::*;

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
use firelu_cpu::simd::avx2::{self, Avx2Half, F32x8, F64x4};
use firelu_cpu::simd::element::SimdElement;

/// As `_mm256_alignr_epi8`, which the compiler takes for any shuffle and writes as two that wait for each other.
///
/// # Safety
/// AVX2 was detected.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn align<const BYTES: i32>(high: __m256i, low: __m256i) -> __m256i {
    let aligned;
    // SAFETY: one instruction of the level, from registers to a register.
    unsafe {
        asm!(
            "vpalignr {aligned}, {high}, {low}, {bytes}",
            aligned = lateout(ymm_reg) aligned,
            high = in(ymm_reg) high,
            low = in(ymm_reg) low,
            bytes = const BYTES,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    aligned
}

/// No instruction, but one that the compiler keeps in its place among others of its kind.
///
/// # Safety
/// AVX2 was detected.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn in_turn(mut register: __m256) -> __m256 {
    // SAFETY: nothing is done.
    unsafe { asm!("/* {register} */", register = inout(ymm_reg) register, options(nomem, nostack, preserves_flags)) };
    register
}

impl Zip for F32x8 {
    #[inline(always)]
    fn zip(self, other: Self) -> (Self, Self) {
        // SAFETY: a register exists, so its level was detected.
        unsafe {
            let (low, high) = (_mm256_unpacklo_ps(self.0, other.0), _mm256_unpackhi_ps(self.0, other.0));
            (F32x8(_mm256_permute2f128_ps::<0x20>(low, high)), F32x8(_mm256_permute2f128_ps::<0x31>(low, high)))
        }
    }
    #[inline(always)]
    fn unzip(self, other: Self) -> (Self, Self) {
        // SAFETY: as in `zip`.
        unsafe {
            let even = _mm256_castps_pd(_mm256_shuffle_ps::<0x88>(self.0, other.0));
            let odd = _mm256_castps_pd(_mm256_shuffle_ps::<0xdd>(self.0, other.0));
            let (even, odd) = (_mm256_permute4x64_pd::<0xd8>(even), _mm256_permute4x64_pd::<0xd8>(odd));
            (F32x8(_mm256_castpd_ps(even)), F32x8(_mm256_castpd_ps(odd)))
        }
    }
}

impl Zip for F64x4 {
    #[inline(always)]
    fn zip(self, other: Self) -> (Self, Self) {
        // SAFETY: a register exists, so its level was detected.
        unsafe {
            let (low, high) = (_mm256_unpacklo_pd(self.0, other.0), _mm256_unpackhi_pd(self.0, other.0));
            (F64x4(_mm256_permute2f128_pd::<0x20>(low, high)), F64x4(_mm256_permute2f128_pd::<0x31>(low, high)))
        }
    }
    #[inline(always)]
    fn unzip(self, other: Self) -> (Self, Self) {
        // SAFETY: as in `zip`.
        unsafe {
            let (low, high) = (_mm256_unpacklo_pd(self.0, other.0), _mm256_unpackhi_pd(self.0, other.0));
            (F64x4(_mm256_permute4x64_pd::<0xd8>(low)), F64x4(_mm256_permute4x64_pd::<0xd8>(high)))
        }
    }
}

impl Register for F32x8 {
    type Number = f32;
    const LANES: usize = 8;
    const NON_TEMPORAL: bool = true;
    const PRODUCT_SUMS: usize = 12;
    const MANY: bool = false;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller's promise.
        F32x8(unsafe { _mm256_set1_ps(value) })
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: a register exists, so its level was detected.
        F32x8(unsafe { _mm256_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn multiply_add(self, factor: Self, sum: Self) -> Self {
        // SAFETY: as in `mul`.
        F32x8(unsafe { _mm256_fmadd_ps(self.0, factor.0, sum.0) })
    }

    #[inline(always)]
    fn interleave<const P: usize>(v: [Self; P]) -> [Self; P] {
        let mut result = v;
        match P {
            2 => (result[0], result[1]) = v[0].zip(v[1]),
            // Output place g takes number g / 3 of register g % 3.
            // SAFETY: as in `mul`.
            3 => unsafe {
                let (a, b, c) = (v[0].0, v[1].0, v[2].0);
                let at = _mm256_setr_epi32(0, 0, 0, 1, 1, 1, 2, 2);
                let (p, q, r) =
                    (_mm256_permutevar8x32_ps(a, at), _mm256_permutevar8x32_ps(b, at), _mm256_permutevar8x32_ps(c, at));
                result[0] = F32x8(_mm256_blend_ps::<0x24>(_mm256_blend_ps::<0x92>(p, q), r));
                let at = _mm256_setr_epi32(2, 3, 3, 3, 4, 4, 4, 5);
                let (p, q, r) =
                    (_mm256_permutevar8x32_ps(a, at), _mm256_permutevar8x32_ps(b, at), _mm256_permutevar8x32_ps(c, at));
                result[1] = F32x8(_mm256_blend_ps::<0x49>(_mm256_blend_ps::<0x24>(p, q), r));
                let at = _mm256_setr_epi32(5, 5, 6, 6, 6, 7, 7, 7);
                let (p, q, r) =
                    (_mm256_permutevar8x32_ps(a, at), _mm256_permutevar8x32_ps(b, at), _mm256_permutevar8x32_ps(c, at));
                result[2] = F32x8(_mm256_blend_ps::<0x92>(_mm256_blend_ps::<0x49>(p, q), r));
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
            // Number i of phase r stands at place 3 i + r; these places differ modulo 8, so one blend
            // brings them into one register and one permutation into order.
            // SAFETY: as in `mul`.
            3 => unsafe {
                let (a, b, c) = (v[0].0, v[1].0, v[2].0);
                let zero = _mm256_blend_ps::<0x24>(_mm256_blend_ps::<0x92>(a, b), c);
                let one = _mm256_blend_ps::<0x49>(_mm256_blend_ps::<0x24>(a, b), c);
                let two = _mm256_blend_ps::<0x92>(_mm256_blend_ps::<0x49>(a, b), c);
                result[0] = F32x8(_mm256_permutevar8x32_ps(zero, _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5)));
                result[1] = F32x8(_mm256_permutevar8x32_ps(one, _mm256_setr_epi32(1, 4, 7, 2, 5, 0, 3, 6)));
                result[2] = F32x8(_mm256_permutevar8x32_ps(two, _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7)));
            },
            4 => result.copy_from_slice(&Zip::unzip_four([v[0], v[1], v[2], v[3]])),
            _ => unreachable!("two to four phases are deinterleaved in registers"),
        }
        result
    }

    #[inline(always)]
    fn shift(self, next: Self, places: usize) -> Self {
        // SAFETY: as in `mul`.
        unsafe {
            let (low, high) = (_mm256_castps_si256(self.0), _mm256_castps_si256(next.0));
            let middle = _mm256_permute2x128_si256::<0x21>(low, high);
            F32x8(_mm256_castsi256_ps(match places {
                0 => low,
                1 => align::<4>(middle, low),
                2 => align::<8>(middle, low),
                3 => align::<12>(middle, low),
                4 => middle,
                5 => align::<4>(high, middle),
                6 => align::<8>(high, middle),
                7 => align::<12>(high, middle),
                _ => high,
            }))
        }
    }

    const PAIRS: usize = 2;
    #[inline(always)]
    fn pairs(self, next: Self, first: usize, second: usize) -> [Self; 2] {
        debug_assert!(first + second <= 4);
        let (a, b) = (first as i32, (first + second) as i32);
        // SAFETY: as in `mul`.
        unsafe {
            let places = _mm256_setr_epi32(a, b, a + 1, b + 1, a + 2, b + 2, a + 3, b + 3);
            let middle = _mm256_permute2f128_ps::<0x21>(self.0, next.0);
            [F32x8(_mm256_permutevar8x32_ps(self.0, places)), F32x8(_mm256_permutevar8x32_ps(middle, places))]
        }
    }

    #[inline(always)]
    fn in_turn(self) -> Self {
        // SAFETY: as in `mul`.
        F32x8(unsafe { in_turn(self.0) })
    }

    #[inline(always)]
    fn sums(self) -> [f64; 4] {
        // SAFETY: as in `mul`.
        unsafe {
            let low = _mm256_cvtps_pd(_mm256_castps256_ps128(self.0));
            let high = _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(self.0));
            F64x4(_mm256_add_pd(low, high)).sums()
        }
    }
    #[inline(always)]
    fn prefetch(address: *const u8) {
        avx2::prefetch(address, 0);
    }
    #[inline(always)]
    fn prefetch_l2(address: *const u8) {
        avx2::prefetch_later(address);
    }
}

impl Register for F64x4 {
    type Number = f64;
    const LANES: usize = 4;
    const NON_TEMPORAL: bool = true;
    const PRODUCT_SUMS: usize = 12;
    const MANY: bool = false;

    #[inline(always)]
    unsafe fn splat(value: f64) -> Self {
        // SAFETY: the caller's promise.
        F64x4(unsafe { _mm256_set1_pd(value) })
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: a register exists, so its level was detected.
        F64x4(unsafe { _mm256_mul_pd(self.0, other.0) })
    }
    #[inline(always)]
    fn multiply_add(self, factor: Self, sum: Self) -> Self {
        // SAFETY: as in `mul`.
        F64x4(unsafe { _mm256_fmadd_pd(self.0, factor.0, sum.0) })
    }

    #[inline(always)]
    fn interleave<const P: usize>(v: [Self; P]) -> [Self; P] {
        let mut result = v;
        match P {
            2 => (result[0], result[1]) = v[0].zip(v[1]),
            // Output place g takes number g / 3 of register g % 3.
            // SAFETY: as in `mul`.
            3 => unsafe {
                let [a, b, c] = [v[0].0, v[1].0, v[2].0];
                let first = [
                    _mm256_permute4x64_pd::<0x40>(a),
                    _mm256_permute4x64_pd::<0x40>(b),
                    _mm256_permute4x64_pd::<0x40>(c),
                ];
                let second = [
                    _mm256_permute4x64_pd::<0xa5>(a),
                    _mm256_permute4x64_pd::<0xa5>(b),
                    _mm256_permute4x64_pd::<0xa5>(c),
                ];
                let third = [
                    _mm256_permute4x64_pd::<0xfe>(a),
                    _mm256_permute4x64_pd::<0xfe>(b),
                    _mm256_permute4x64_pd::<0xfe>(c),
                ];
                result[0] = F64x4(_mm256_blend_pd::<0b0100>(_mm256_blend_pd::<0b0010>(first[0], first[1]), first[2]));
                result[1] =
                    F64x4(_mm256_blend_pd::<0b0010>(_mm256_blend_pd::<0b1001>(second[0], second[1]), second[2]));
                result[2] = F64x4(_mm256_blend_pd::<0b1001>(_mm256_blend_pd::<0b0100>(third[0], third[1]), third[2]));
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
            // Number i of phase r stands at place 3 i + r; these places differ modulo 4.
            // SAFETY: as in `mul`.
            3 => unsafe {
                let [a, b, c] = [v[0].0, v[1].0, v[2].0];
                let zero = _mm256_blend_pd::<0b0010>(_mm256_blend_pd::<0b0100>(a, b), c);
                let one = _mm256_blend_pd::<0b0100>(_mm256_blend_pd::<0b1001>(a, b), c);
                let two = _mm256_blend_pd::<0b1001>(_mm256_blend_pd::<0b0010>(a, b), c);
                result[0] = F64x4(_mm256_permute4x64_pd::<0x6c>(zero));
                result[1] = F64x4(_mm256_permute4x64_pd::<0xb1>(one));
                result[2] = F64x4(_mm256_permute4x64_pd::<0xc6>(two));
            },
            4 => result.copy_from_slice(&Zip::unzip_four([v[0], v[1], v[2], v[3]])),
            _ => unreachable!("two to four phases are deinterleaved in registers"),
        }
        result
    }

    #[inline(always)]
    fn shift(self, next: Self, places: usize) -> Self {
        // SAFETY: as in `mul`.
        unsafe {
            let middle = _mm256_permute2f128_pd::<0x21>(self.0, next.0);
            F64x4(match places {
                0 => self.0,
                1 => _mm256_shuffle_pd::<0b0101>(self.0, middle),
                2 => middle,
                3 => _mm256_shuffle_pd::<0b0101>(middle, next.0),
                _ => next.0,
            })
        }
    }

    #[inline(always)]
    fn sums(self) -> [f64; 4] {
        // SAFETY: as in `mul`.
        unsafe {
            let mut sums = [0.0; 4];
            _mm256_storeu_pd(sums.as_mut_ptr(), self.0);
            sums
        }
    }
    #[inline(always)]
    fn prefetch(address: *const u8) {
        avx2::prefetch(address, 0);
    }
    #[inline(always)]
    fn prefetch_l2(address: *const u8) {
        avx2::prefetch_later(address);
    }
}

/// The first `count` places of eight, as the mask of a 32-bit load or store.
#[inline(always)]
unsafe fn mask32(count: usize) -> __m256i {
    const ONES_THEN_ZEROS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    debug_assert!(count <= 8);
    // SAFETY: eight numbers from place `8 - count` on lie inside the sixteen.
    unsafe { _mm256_loadu_si256(ONES_THEN_ZEROS.as_ptr().add(8 - count).cast()) }
}

/// The places `from .. to` of eight, as the mask of a 32-bit load.
#[inline(always)]
unsafe fn mask_within(from: usize, to: usize) -> __m256i {
    // SAFETY: the caller has detected the level.
    unsafe { _mm256_andnot_si256(mask32(from), mask32(to)) }
}

macro_rules! access {
    ($register:ident, $element:ty, $mask:ty, $make_mask:item, $load_masked:item $(, $store_part:item)?) => {
        impl Access<$element> for $register {
            type Mask = $mask;

            #[inline(always)]
            $make_mask
            #[inline(always)]
            $load_masked
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
                unsafe { <$element as SimdElement>::stream(target, self) }
            }
            $(
                #[inline(always)]
                $store_part
            )?
        }
    };
}
/// Which of eight 16-bit elements are loaded, in two pieces that may overlap, and where each then goes: there is no
/// masked load of such.
#[derive(Clone, Copy)]
pub struct HalfPlaces {
    /// The first.
    from: usize,
    /// How many.
    count: usize,
    /// For each byte of the register, the byte of the pieces: the first piece starts at byte 0, the second at byte 8.
    order: __m128i,
}

impl HalfPlaces {
    #[inline(always)]
    unsafe fn new(from: usize, to: usize) -> Self {
        let (mut order, count) = ([0x80_u8; 16], to - from);
        let piece = if count == 0 { 0 } else { 1 << count.ilog2() };
        for place in 0..count {
            let byte = 2 * if place < piece { place } else { 4 + place + piece - count };
            (order[2 * (from + place)], order[2 * (from + place) + 1]) = (byte as u8, byte as u8 + 1);
        }
        // SAFETY: the array has as many bytes.
        HalfPlaces { from, count, order: unsafe { _mm_loadu_si128(order.as_ptr().cast()) } }
    }

    /// The elements of a register that starts at `source`; zeros at the other places.
    ///
    /// # Safety
    /// AVX2 was detected and the elements are readable.
    #[inline(always)]
    unsafe fn load<T>(self, source: *const T) -> __m128i {
        const { assert!(size_of::<T>() == 2) };
        let first = source.wrapping_add(self.from);
        // SAFETY: each piece is a part of the elements, which the caller promises.
        unsafe {
            let pieces = match self.count {
                0 => return _mm_setzero_si128(),
                1 => _mm_loadu_si16(first.cast()),
                2 | 3 => _mm_unpacklo_epi64(
                    _mm_loadu_si32(first.cast()),
                    _mm_loadu_si32(first.wrapping_add(self.count - 2).cast()),
                ),
                4..8 => _mm_unpacklo_epi64(
                    _mm_loadu_si64(first.cast()),
                    _mm_loadu_si64(first.wrapping_add(self.count - 4).cast()),
                ),
                _ => _mm_loadu_si128(first.cast()),
            };
            _mm_shuffle_epi8(pieces, self.order)
        }
    }
}

macro_rules! access_halves {
    ($element:ty) => {
        access!(
            F32x8,
            $element,
            HalfPlaces,
            unsafe fn mask(from: usize, to: usize) -> HalfPlaces {
                // SAFETY: the caller's promise.
                unsafe { HalfPlaces::new(from, to) }
            },
            unsafe fn load_masked(source: *const $element, mask: HalfPlaces) -> Self {
                // SAFETY: the caller's promise.
                unsafe { <$element>::widen(mask.load(source)) }
            }
        );
    };
}
access_halves!(Float16);
access_halves!(BFloat16);
access!(
    F32x8,
    f32,
    __m256i,
    unsafe fn mask(from: usize, to: usize) -> __m256i {
        // SAFETY: the caller's promise.
        unsafe { mask_within(from, to) }
    },
    unsafe fn load_masked(source: *const f32, mask: __m256i) -> Self {
        // SAFETY: places outside the mask are not touched.
        F32x8(unsafe { _mm256_maskload_ps(source, mask) })
    },
    // In up to three pieces: some processors take tens of cycles for a masked store.
    unsafe fn store_part(self, target: *mut f32, count: usize) {
        // SAFETY: the pieces have `count` numbers in all.
        unsafe {
            let (mut target, mut rest) = (target, _mm256_castps256_ps128(self.0));
            if count & 4 != 0 {
                _mm_storeu_ps(target, rest);
                (target, rest) = (target.add(4), _mm256_extractf128_ps::<1>(self.0));
            }
            if count & 2 != 0 {
                _mm_storel_epi64(target.cast(), _mm_castps_si128(rest));
                (target, rest) = (target.add(2), _mm_movehl_ps(rest, rest));
            }
            if count & 1 != 0 {
                target.write_unaligned(_mm_cvtss_f32(rest));
            }
        }
    }
);
access!(
    F64x4,
    f64,
    __m256i,
    unsafe fn mask(from: usize, to: usize) -> __m256i {
        // SAFETY: the caller's promise; two 32-bit places make one of 64.
        unsafe { mask_within(2 * from, 2 * to) }
    },
    unsafe fn load_masked(source: *const f64, mask: __m256i) -> Self {
        // SAFETY: places outside the mask are not touched.
        F64x4(unsafe { _mm256_maskload_pd(source, mask) })
    },
    unsafe fn store_part(self, target: *mut f64, count: usize) {
        // SAFETY: the pieces have `count` numbers in all.
        unsafe {
            let (low, high) = (_mm256_castpd256_pd128(self.0), _mm256_extractf128_pd::<1>(self.0));
            if count & 2 != 0 {
                _mm_storeu_pd(target, low);
            }
            if count & 1 != 0 {
                let (target, half) = if count & 2 != 0 { (target.add(2), high) } else { (target, low) };
                target.write_unaligned(_mm_cvtsd_f64(half));
            }
        }
    }
);

compile_loops!(#[target_feature(enable = "avx2,fma,f16c")]);
compile_short_loops!(#[target_feature(enable = "avx2,fma,f16c")]);
