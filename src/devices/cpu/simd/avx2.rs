//! AVX2 registers. A register exists only where [`SimdElement::load`] made it, and whoever calls
//! that has detected AVX2, FMA and F16C: that is why the arithmetic on registers is safe.

use core::arch::x86_64::*;

use super::avx512::{F32x16, F64x8};
use super::element::SimdElement;
use super::{ABOUT_INVERSE_32, ABOUT_INVERSE_64, Lane, Row};
use firelu_core::dtype::{BFloat16, Float16};

/// Eight float32 numbers.
#[derive(Clone, Copy)]
pub struct F32x8(pub __m256);

/// Four float64 numbers.
#[derive(Clone, Copy)]
pub struct F64x4(pub __m256d);

macro_rules! lane {
    (
        $register:ident, $number:ty, $places:literal: $set1:ident, $add:ident, $sub:ident, $mul:ident,
        $fmadd:ident, $min:ident, $max:ident, $and:ident, $andnot:ident, $or:ident, $compare:ident, $blend:ident,
        $movemask:ident, $zero:ident, $loadu:ident, $storeu:ident;
        $bits:ident, $float:ident, $shift:ident, $add_bits:ident, $sub_bits:ident, $set1_bits:ident, $one:expr,
        $about_inverse:expr, $mantissa:literal, $sign:literal
    ) => {
        impl Lane<$number> for $register {
            arithmetic!(
                $number: $set1, $add, $sub, $mul, $fmadd, $min, $max, $and, $andnot, $or, $loadu, $storeu, $places;
                $bits, $float, $shift, $add_bits, $sub_bits, $set1_bits, $one, $about_inverse, $mantissa
            );
            #[inline(always)]
            fn where_positive(self, then: Self, otherwise: Self) -> Self {
                // SAFETY: as in `splat`.
                Self(unsafe { $blend(otherwise.0, then.0, $compare::<_CMP_GT_OQ>(self.0, $zero())) })
            }
            #[inline(always)]
            fn where_greater(self, than: Self, then: Self, otherwise: Self) -> Self {
                // SAFETY: as in `splat`.
                Self(unsafe { $blend(otherwise.0, then.0, $compare::<_CMP_GT_OQ>(self.0, than.0)) })
            }
            #[inline(always)]
            fn where_odd(self, then: Self, otherwise: Self) -> Self {
                // SAFETY: as in `splat`. The blend looks at the sign alone.
                Self(unsafe { $blend(otherwise.0, then.0, $float($shift::<$sign>($bits(self.0)))) })
            }
            #[inline(always)]
            fn any_greater(self, than: Self) -> bool {
                // SAFETY: as in `splat`.
                unsafe { $movemask($compare::<_CMP_GT_OQ>(self.0, than.0)) != 0 }
            }
        }
    };
}
lane!(
    F32x8, f32, 8: _mm256_set1_ps, _mm256_add_ps, _mm256_sub_ps, _mm256_mul_ps, _mm256_fmadd_ps,
    _mm256_min_ps, _mm256_max_ps, _mm256_and_ps, _mm256_andnot_ps, _mm256_or_ps, _mm256_cmp_ps, _mm256_blendv_ps,
    _mm256_movemask_ps, _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps;
    _mm256_castps_si256, _mm256_castsi256_ps, _mm256_slli_epi32, _mm256_add_epi32, _mm256_sub_epi32, _mm256_set1_epi32,
    0x3f80_0000, ABOUT_INVERSE_32, 23, 31
);
lane!(
    F64x4, f64, 4: _mm256_set1_pd, _mm256_add_pd, _mm256_sub_pd, _mm256_mul_pd, _mm256_fmadd_pd,
    _mm256_min_pd, _mm256_max_pd, _mm256_and_pd, _mm256_andnot_pd, _mm256_or_pd, _mm256_cmp_pd, _mm256_blendv_pd,
    _mm256_movemask_pd, _mm256_setzero_pd, _mm256_loadu_pd, _mm256_storeu_pd;
    _mm256_castpd_si256, _mm256_castsi256_pd, _mm256_slli_epi64, _mm256_add_epi64, _mm256_sub_epi64, _mm256_set1_epi64x,
    0x3ff0_0000_0000_0000, ABOUT_INVERSE_64, 52, 63
);

macro_rules! row {
    ($register:ident, $number:ty, $lanes:literal, $load:ident, $store:ident, $stream:ident) => {
        impl Row<$number> for $register {
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn load(source: *const $number) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { $load(source) })
            }
            #[inline(always)]
            unsafe fn store(self, target: *mut $number) {
                // SAFETY: the caller's promise.
                unsafe { $store(target, self.0) }
            }
            #[inline(always)]
            unsafe fn stream(self, target: *mut $number) {
                // SAFETY: the caller's promise.
                unsafe { $stream(target, self.0) }
            }
        }
    };
}
row!(F32x8, f32, 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_stream_ps);
row!(F64x4, f64, 4, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_stream_pd);

/// The three methods that do not depend on how an element is stored.
macro_rules! wide {
    ($register:ident, $load:ident, $store:ident, $set1:ident) => {
        #[inline(always)]
        unsafe fn load_wide(source: *const Self::Compute) -> $register {
            // SAFETY: the caller's promise.
            $register(unsafe { $load(source) })
        }
        #[inline(always)]
        unsafe fn store_wide(target: *mut Self::Compute, value: $register) {
            // SAFETY: the caller's promise.
            unsafe { $store(target, value.0) }
        }
        #[inline(always)]
        unsafe fn splat(value: Self::Compute) -> $register {
            // SAFETY: the caller's promise.
            $register(unsafe { $set1(value) })
        }
    };
}

impl SimdElement for f32 {
    type Register = F32x8;
    type Wide = F32x16;
    const LANES: usize = 8;
    wide!(F32x8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps);
    #[inline(always)]
    unsafe fn load(source: *const f32) -> F32x8 {
        // SAFETY: the caller's promise.
        F32x8(unsafe { _mm256_loadu_ps(source) })
    }
    #[inline(always)]
    unsafe fn store(target: *mut f32, value: F32x8) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_ps(target, value.0) }
    }
    #[inline(always)]
    unsafe fn stream(target: *mut f32, value: F32x8) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_stream_ps(target, value.0) }
    }
    #[inline(always)]
    unsafe fn stream_halves(target: *mut f32, value: F32x8) {
        // SAFETY: the caller's promise.
        unsafe {
            _mm_stream_ps(target, _mm256_castps256_ps128(value.0));
            _mm_stream_ps(target.add(4), _mm256_extractf128_ps::<1>(value.0));
        }
    }
}

impl SimdElement for f64 {
    type Register = F64x4;
    type Wide = F64x8;
    const LANES: usize = 4;
    wide!(F64x4, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_pd);
    #[inline(always)]
    unsafe fn load(source: *const f64) -> F64x4 {
        // SAFETY: the caller's promise.
        F64x4(unsafe { _mm256_loadu_pd(source) })
    }
    #[inline(always)]
    unsafe fn store(target: *mut f64, value: F64x4) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_pd(target, value.0) }
    }
    #[inline(always)]
    unsafe fn stream(target: *mut f64, value: F64x4) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_stream_pd(target, value.0) }
    }
    #[inline(always)]
    unsafe fn stream_halves(target: *mut f64, value: F64x4) {
        // SAFETY: the caller's promise.
        unsafe {
            _mm_stream_pd(target, _mm256_castpd256_pd128(value.0));
            _mm_stream_pd(target.add(2), _mm256_extractf128_pd::<1>(value.0));
        }
    }
}

/// An element of 16 bits.
pub trait Avx2Half: SimdElement<Register = F32x8> {
    /// Eight of them as numbers of the compute type.
    ///
    /// # Safety
    /// AVX2, FMA and F16C were detected.
    unsafe fn widen(bits: __m128i) -> F32x8;
}

impl Avx2Half for Float16 {
    #[inline(always)]
    unsafe fn widen(bits: __m128i) -> F32x8 {
        // SAFETY: the caller's promise.
        F32x8(unsafe { _mm256_cvtph_ps(bits) })
    }
}

impl Avx2Half for BFloat16 {
    #[inline(always)]
    unsafe fn widen(bits: __m128i) -> F32x8 {
        // SAFETY: the caller's promise.
        F32x8(unsafe { _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits))) })
    }
}

impl SimdElement for Float16 {
    type Register = F32x8;
    type Wide = F32x16;
    const LANES: usize = 8;
    wide!(F32x8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps);
    #[inline(always)]
    unsafe fn load(source: *const Float16) -> F32x8 {
        // SAFETY: the caller's promise.
        unsafe { Self::widen(_mm_loadu_si128(source.cast())) }
    }
    #[inline(always)]
    unsafe fn store(target: *mut Float16, value: F32x8) {
        // SAFETY: the caller's promise.
        unsafe { _mm_storeu_si128(target.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value.0)) }
    }
    #[inline(always)]
    unsafe fn stream(target: *mut Float16, value: F32x8) {
        // SAFETY: the caller's promise.
        unsafe { _mm_stream_si128(target.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value.0)) }
    }
    #[inline(always)]
    unsafe fn stream_halves(target: *mut Float16, value: F32x8) {
        // SAFETY: the caller's promise; a register is 16 bytes of such elements.
        unsafe { Self::stream(target, value) }
    }
    #[inline(always)]
    unsafe fn store_pair(target: *mut Float16, values: [F32x8; 2]) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_si256(target.cast(), round_pair_to_float16(values)) }
    }
    #[inline(always)]
    unsafe fn stream_pair(target: *mut Float16, values: [F32x8; 2]) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_stream_si256(target.cast(), round_pair_to_float16(values)) }
    }
}

impl SimdElement for BFloat16 {
    type Register = F32x8;
    type Wide = F32x16;
    const LANES: usize = 8;
    wide!(F32x8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps);
    #[inline(always)]
    unsafe fn load(source: *const BFloat16) -> F32x8 {
        // SAFETY: the caller's promise.
        unsafe { Self::widen(_mm_loadu_si128(source.cast())) }
    }
    #[inline(always)]
    unsafe fn store(target: *mut BFloat16, value: F32x8) {
        // SAFETY: the caller's promise.
        unsafe { _mm_storeu_si128(target.cast(), round_to_bfloat16(value)) }
    }
    #[inline(always)]
    unsafe fn stream(target: *mut BFloat16, value: F32x8) {
        // SAFETY: the caller's promise.
        unsafe { _mm_stream_si128(target.cast(), round_to_bfloat16(value)) }
    }
    #[inline(always)]
    unsafe fn stream_halves(target: *mut BFloat16, value: F32x8) {
        // SAFETY: the caller's promise; a register is 16 bytes of such elements.
        unsafe { Self::stream(target, value) }
    }
    // The elements at even places and those at odd ones: neither to widen nor to narrow them moves a half to
    // another lane.
    #[inline(always)]
    unsafe fn load_pair(source: *const BFloat16) -> [F32x8; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let both = _mm256_loadu_si256(source.cast());
            let even = _mm256_slli_epi32::<16>(both);
            let odd = _mm256_and_si256(both, _mm256_set1_epi32(0xffff_0000_u32 as i32));
            [F32x8(_mm256_castsi256_ps(even)), F32x8(_mm256_castsi256_ps(odd))]
        }
    }
    #[inline(always)]
    unsafe fn load_wide_pair(source: *const f32) -> [F32x8; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let (first, second) = (_mm256_loadu_ps(source), _mm256_loadu_ps(source.add(8)));
            let even = _mm256_castps_pd(_mm256_shuffle_ps::<0x88>(first, second));
            let odd = _mm256_castps_pd(_mm256_shuffle_ps::<0xdd>(first, second));
            let (even, odd) = (_mm256_permute4x64_pd::<0xd8>(even), _mm256_permute4x64_pd::<0xd8>(odd));
            [F32x8(_mm256_castpd_ps(even)), F32x8(_mm256_castpd_ps(odd))]
        }
    }
    #[inline(always)]
    unsafe fn store_pair(target: *mut BFloat16, values: [F32x8; 2]) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_si256(target.cast(), round_pair_to_bfloat16(values)) }
    }
    #[inline(always)]
    unsafe fn stream_pair(target: *mut BFloat16, values: [F32x8; 2]) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_stream_si256(target.cast(), round_pair_to_bfloat16(values)) }
    }
}

/// The numbers of the first register, then those of the second.
#[inline(always)]
fn round_pair_to_float16([first, second]: [F32x8; 2]) -> __m256i {
    // SAFETY: a register exists, so AVX2, and with it F16C, was detected.
    unsafe {
        let first = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(first.0);
        let second = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(second.0);
        _mm256_set_m128i(second, first)
    }
}

/// The numbers of both registers in turn.
#[inline(always)]
fn round_pair_to_bfloat16([even, odd]: [F32x8; 2]) -> __m256i {
    // SAFETY: a register exists, so AVX2 was detected.
    unsafe {
        let even = _mm256_srli_epi32::<16>(upper_halves(even));
        _mm256_blend_epi16::<0b1010_1010>(even, upper_halves(odd))
    }
}

/// The numbers one after the other.
#[inline(always)]
fn round_to_bfloat16(value: F32x8) -> __m128i {
    // SAFETY: a register exists, so AVX2 was detected.
    unsafe {
        let upper = _mm256_srli_epi32::<16>(upper_halves(value));
        _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256::<1>(upper))
    }
}

/// Rounded to nearest even in the upper halves; a NaN keeps its sign and becomes quiet. The lower halves are
/// anything.
#[inline(always)]
fn upper_halves(value: F32x8) -> __m256i {
    // SAFETY: a register exists, so AVX2 was detected.
    unsafe {
        let bits = _mm256_castps_si256(value.0);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
        let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000));
        let is_nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(value.0, value.0));
        _mm256_blendv_epi8(rounded, quiet, is_nan)
    }
}

/// Asks for the line `ahead` bytes on; any address is fine, a wrong one does nothing.
#[inline(always)]
pub fn prefetch(address: *const u8, ahead: usize) {
    // SAFETY: SSE is part of x86-64, and a prefetch never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(ahead).cast()) }
}

/// As [`prefetch`], but into the second cache: many more lines can be on their way to it than to the first.
#[inline(always)]
pub fn prefetch_later(address: *const u8) {
    // SAFETY: as above.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) }
}
