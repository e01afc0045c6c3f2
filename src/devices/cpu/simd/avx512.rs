//! AVX-512 registers, for formulas that compute much. A register exists only where its `load` or `splat` made it, and
//! whoever calls that has detected AVX-512 F, BW, DQ and VL: that is why the arithmetic on registers is safe.

use core::arch::x86_64::*;

use super::{ABOUT_INVERSE_32, ABOUT_INVERSE_64, Lane, Row};

/// Sixteen float32 numbers.
#[derive(Clone, Copy)]
pub struct F32x16(__m512);

/// Eight float64 numbers.
#[derive(Clone, Copy)]
pub struct F64x8(__m512d);

macro_rules! lane {
    (
        $register:ident, $number:ty, $places:literal: $set1:ident, $add:ident, $sub:ident, $mul:ident,
        $fmadd:ident, $min:ident, $max:ident, $and:ident, $andnot:ident, $or:ident, $compare:ident, $blend:ident,
        $loadu:ident, $storeu:ident, $stream:ident;
        $bits:ident, $float:ident, $shift:ident, $add_bits:ident, $sub_bits:ident, $set1_bits:ident, $test:ident,
        $one:expr, $about_inverse:expr, $mantissa:literal
    ) => {
        impl Lane<$number> for $register {
            arithmetic!(
                $number: $set1, $add, $sub, $mul, $fmadd, $min, $max, $and, $andnot, $or, $loadu, $storeu, $places;
                $bits, $float, $shift, $add_bits, $sub_bits, $set1_bits, $one, $about_inverse, $mantissa
            );
            #[inline(always)]
            fn where_positive(self, then: Self, otherwise: Self) -> Self {
                self.where_greater(self.splat(0.0), then, otherwise)
            }
            #[inline(always)]
            fn where_greater(self, than: Self, then: Self, otherwise: Self) -> Self {
                // SAFETY: as in `splat`.
                Self(unsafe { $blend($compare::<_CMP_GT_OQ>(self.0, than.0), otherwise.0, then.0) })
            }
            #[inline(always)]
            fn where_odd(self, then: Self, otherwise: Self) -> Self {
                // SAFETY: as in `splat`.
                Self(unsafe { $blend($test($bits(self.0), $set1_bits(1)), otherwise.0, then.0) })
            }
            #[inline(always)]
            fn any_greater(self, than: Self) -> bool {
                // SAFETY: as in `splat`.
                unsafe { $compare::<_CMP_GT_OQ>(self.0, than.0) != 0 }
            }
        }

        impl Row<$number> for $register {
            const LANES: usize = $places;
            #[inline(always)]
            unsafe fn load(source: *const $number) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { $loadu(source) })
            }
            #[inline(always)]
            unsafe fn store(self, target: *mut $number) {
                // SAFETY: the caller's promise.
                unsafe { $storeu(target, self.0) }
            }
            #[inline(always)]
            unsafe fn stream(self, target: *mut $number) {
                // SAFETY: the caller's promise.
                unsafe { $stream(target, self.0) }
            }
        }
    };
}
lane!(
    F32x16, f32, 16: _mm512_set1_ps, _mm512_add_ps, _mm512_sub_ps, _mm512_mul_ps, _mm512_fmadd_ps,
    _mm512_min_ps, _mm512_max_ps, _mm512_and_ps, _mm512_andnot_ps, _mm512_or_ps, _mm512_cmp_ps_mask,
    _mm512_mask_blend_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_stream_ps;
    _mm512_castps_si512, _mm512_castsi512_ps, _mm512_slli_epi32, _mm512_add_epi32, _mm512_sub_epi32, _mm512_set1_epi32,
    _mm512_test_epi32_mask, 0x3f80_0000, ABOUT_INVERSE_32, 23
);
lane!(
    F64x8, f64, 8: _mm512_set1_pd, _mm512_add_pd, _mm512_sub_pd, _mm512_mul_pd, _mm512_fmadd_pd,
    _mm512_min_pd, _mm512_max_pd, _mm512_and_pd, _mm512_andnot_pd, _mm512_or_pd, _mm512_cmp_pd_mask,
    _mm512_mask_blend_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_stream_pd;
    _mm512_castpd_si512, _mm512_castsi512_pd, _mm512_slli_epi64, _mm512_add_epi64, _mm512_sub_epi64, _mm512_set1_epi64,
    _mm512_test_epi64_mask, 0x3ff0_0000_0000_0000, ABOUT_INVERSE_64, 52
);
