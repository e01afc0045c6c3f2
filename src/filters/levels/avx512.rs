//! AVX-512 (F, BW, DQ and VL): registers of twice AVX2's width, and the entry points in which the loops
//! are compiled with these instructions. Every output is summed as on AVX2, to the same bits.

use core::arch::x86_64::*;

use crate::loops::memory_access::{Prefetch, Rows, Stores};
use crate::loops::products::{Pairs, Part};
use crate::loops::register::{Access, Register};
use crate::loops::running::RunningSums;
use crate::loops::short::rows::{Forms, ShortLoops, ShortRows};
use crate::loops::split::Columns;
use crate::loops::two_rows::PairedRows;
use crate::loops::{self, Loops, PairsLoop, PhaseTerms, Reading, RunningLoop, Writing};
use firelu_core::dtype::{BFloat16, Element, Float16};
use firelu_cpu::simd::avx2::{self, F64x4};

/// Sixteen float32 numbers.
#[derive(Clone, Copy)]
pub struct F32x16(__m512);

/// Eight float64 numbers.
#[derive(Clone, Copy)]
pub struct F64x8(__m512d);

/// Where place `i` of register `r` comes from, counted through `phases` registers of `lanes` numbers.
const fn origin(lanes: usize, phases: usize, r: usize, i: usize, interleave: bool) -> usize {
    let at = r * lanes + i;
    if interleave { at % phases * lanes + at / phases } else { i * phases + r }
}

/// Which numbers of two registers one that starts so many places later has.
static SHIFTS_32: [[i32; 16]; 16] = {
    let mut tables = [[0; 16]; 16];
    let mut at = 0;
    while at < 16 * 16 {
        tables[at / 16][at % 16] = (at / 16 + at % 16) as i32;
        at += 1;
    }
    tables
};
static SHIFTS_64: [[i64; 8]; 8] = {
    let mut tables = [[0; 8]; 8];
    let mut at = 0;
    while at < 8 * 8 {
        tables[at / 8][at % 8] = (at / 8 + at % 8) as i64;
        at += 1;
    }
    tables
};

macro_rules! register {
    (
        $register:ident, $number:ty, $lanes:literal, $index:ty,
        $splat:ident, $mul:ident, $multiply_add:ident, $load_index:ident, $permute:ident, $shift:item, $sum:item
    ) => {
        impl $register {
            /// The numbers of `a`, then of `b`, at these places.
            #[inline(always)]
            fn pick(a: Self, b: Self, places: &[$index; $lanes]) -> Self {
                // SAFETY: a register exists, so its level was detected; as many indices as numbers are read.
                unsafe { $register($permute(a.0, $load_index(places.as_ptr().cast()), b.0)) }
            }

            /// Two or three registers in another order.
            #[inline(always)]
            fn shuffle<const P: usize, const INTERLEAVE: bool>(v: [Self; P]) -> [Self; P] {
                let mut result = v;
                // A loop of constant length, so that the tables below are constants too.
                for (r, register) in result.iter_mut().enumerate() {
                    let tables = const {
                        let mut tables = [[[0; $lanes]; 2]; P];
                        let mut at = 0;
                        while at < P * $lanes {
                            let (r, i) = (at / $lanes, at % $lanes);
                            let from = origin($lanes, P, r, i, INTERLEAVE);
                            // First from the first two registers, then from those and the third.
                            tables[r][0][i] = (from % (2 * $lanes)) as $index;
                            tables[r][1][i] = if from < 2 * $lanes { i } else { from - $lanes } as $index;
                            at += 1;
                        }
                        tables
                    };
                    *register = Self::pick(v[0], v[1], &tables[r][0]);
                    if P == 3 {
                        *register = Self::pick(*register, v[P - 1], &tables[r][1]);
                    }
                }
                result
            }
        }

        impl Register for $register {
            type Number = $number;
            const LANES: usize = $lanes;
            const NON_TEMPORAL: bool = true;
            const PRODUCT_SUMS: usize = 24;
            const MANY: bool = true;

            #[inline(always)]
            unsafe fn splat(value: $number) -> Self {
                // SAFETY: the caller's promise.
                $register(unsafe { $splat(value) })
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                // SAFETY: a register exists, so its level was detected.
                $register(unsafe { $mul(self.0, other.0) })
            }
            #[inline(always)]
            fn multiply_add(self, factor: Self, sum: Self) -> Self {
                // SAFETY: as in `mul`.
                $register(unsafe { $multiply_add(self.0, factor.0, sum.0) })
            }
            #[inline(always)]
            fn interleave<const P: usize>(v: [Self; P]) -> [Self; P] {
                let mut result = v;
                match P {
                    2 | 3 => result = Self::shuffle::<P, true>(v),
                    4 => {
                        let even = Self::shuffle::<2, true>([v[0], v[2]]);
                        let odd = Self::shuffle::<2, true>([v[1], v[3]]);
                        for half in 0..2 {
                            let mixed = Self::shuffle::<2, true>([even[half], odd[half]]);
                            (result[2 * half], result[2 * half + 1]) = (mixed[0], mixed[1]);
                        }
                    }
                    _ => unreachable!("two to four phases are interleaved in registers"),
                }
                result
            }
            #[inline(always)]
            fn deinterleave<const P: usize>(v: [Self; P]) -> [Self; P] {
                let mut result = v;
                match P {
                    2 | 3 => result = Self::shuffle::<P, false>(v),
                    4 => {
                        let first = Self::shuffle::<2, false>([v[0], v[1]]);
                        let second = Self::shuffle::<2, false>([v[2], v[3]]);
                        for half in 0..2 {
                            let split = Self::shuffle::<2, false>([first[half], second[half]]);
                            (result[half], result[half + 2]) = (split[0], split[1]);
                        }
                    }
                    _ => unreachable!("two to four phases are deinterleaved in registers"),
                }
                result
            }
            #[inline(always)]
            $shift
            #[inline(always)]
            $sum
            #[inline(always)]
            fn prefetch(address: *const u8) {
                avx2::prefetch(address, 0);
            }
            #[inline(always)]
            fn prefetch_l2(address: *const u8) {
                avx2::prefetch_later(address);
            }
        }
    };
}
register!(
    F32x16,
    f32,
    16,
    i32,
    _mm512_set1_ps,
    _mm512_mul_ps,
    _mm512_fmadd_ps,
    _mm512_loadu_epi32,
    _mm512_permutex2var_ps,
    fn shift(self, next: Self, places: usize) -> Self {
        match places {
            0 => self,
            1..16 => Self::pick(self, next, &SHIFTS_32[places]),
            _ => next,
        }
    },
    fn sums(self) -> [f64; 4] {
        // SAFETY: as in `mul`.
        unsafe {
            let low = _mm512_cvtps_pd(_mm512_castps512_ps256(self.0));
            let high = _mm512_cvtps_pd(_mm512_extractf32x8_ps::<1>(self.0));
            F64x8(_mm512_add_pd(low, high)).sums()
        }
    }
);
register!(
    F64x8,
    f64,
    8,
    i64,
    _mm512_set1_pd,
    _mm512_mul_pd,
    _mm512_fmadd_pd,
    _mm512_loadu_epi64,
    _mm512_permutex2var_pd,
    fn shift(self, next: Self, places: usize) -> Self {
        match places {
            0 => self,
            1..8 => Self::pick(self, next, &SHIFTS_64[places]),
            _ => next,
        }
    },
    fn sums(self) -> [f64; 4] {
        // SAFETY: as in `mul`.
        let (low, high) = unsafe { (_mm512_castpd512_pd256(self.0), _mm512_extractf64x4_pd::<1>(self.0)) };
        // SAFETY: as in `mul`; AVX-512 includes AVX.
        F64x4(unsafe { _mm256_add_pd(low, high) }).sums()
    }
);

/// Loads, stores and their masked forms: from the element's bits to a register and back.
macro_rules! access {
    (
        $register:ident, $element:ty, $mask:ty,
        $load:ident, $load_mask:ident, $store:ident, $stream:ident, $widen:expr, $narrow:expr, $pieces:expr
    ) => {
        impl Access<$element> for $register {
            type Mask = $mask;

            #[inline(always)]
            unsafe fn load(source: *const $element) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $widen($load(source.cast())) }
            }
            #[inline(always)]
            unsafe fn store(self, target: *mut $element) {
                // SAFETY: the caller's promise.
                unsafe { $store(target.cast(), $narrow(self)) }
            }
            #[inline(always)]
            unsafe fn stream(self, target: *mut $element) {
                // SAFETY: the caller's promise.
                unsafe { $stream(target.cast(), $narrow(self)) }
            }
            #[inline(always)]
            unsafe fn mask(from: usize, to: usize) -> $mask {
                debug_assert!(from <= to && to <= Self::LANES);
                ((1u32 << to) - (1u32 << from)) as $mask
            }
            #[inline(always)]
            unsafe fn load_masked(source: *const $element, mask: $mask) -> Self {
                // SAFETY: places outside the mask are not touched.
                unsafe { $widen($load_mask(mask, source.cast())) }
            }
            #[inline(always)]
            unsafe fn store_part(self, target: *mut $element, count: usize) {
                debug_assert!(count < Self::LANES);
                // SAFETY: the caller's promise.
                unsafe { store_bytes($pieces($narrow(self)), target.cast(), count * size_of::<$element>()) }
            }
        }
    };
}

/// The lower and the upper half.
#[inline(always)]
unsafe fn halves(value: __m512i) -> (__m256i, __m256i) {
    // SAFETY: the caller has detected the level.
    unsafe { (_mm512_castsi512_si256(value), _mm512_extracti64x4_epi64::<1>(value)) }
}

/// Stores the first `bytes`, fewer than both halves have, in pieces: a masked store is slow where the places that it
/// leaves out stand in another line, and brings that line into the caches.
///
/// # Safety
/// The level was detected and those bytes are writable.
#[inline(always)]
unsafe fn store_bytes((mut low, high): (__m256i, __m256i), mut target: *mut u8, bytes: usize) {
    debug_assert!(bytes < 64);
    // SAFETY: the pieces have `bytes` bytes in all.
    unsafe {
        if bytes & 32 != 0 {
            _mm256_storeu_si256(target.cast(), low);
            (target, low) = (target.add(32), high);
        }
        let mut rest = _mm256_castsi256_si128(low);
        if bytes & 16 != 0 {
            _mm_storeu_si128(target.cast(), rest);
            (target, rest) = (target.add(16), _mm256_extracti128_si256::<1>(low));
        }
        if bytes & 8 != 0 {
            _mm_storel_epi64(target.cast(), rest);
            (target, rest) = (target.add(8), _mm_unpackhi_epi64(rest, rest));
        }
        let mut rest = _mm_cvtsi128_si64(rest) as u64;
        if bytes & 4 != 0 {
            target.cast::<u32>().write_unaligned(rest as u32);
            (target, rest) = (target.add(4), rest >> 32);
        }
        if bytes & 2 != 0 {
            target.cast::<u16>().write_unaligned(rest as u16);
        }
    }
}

#[inline(always)]
unsafe fn widen_float16(bits: __m256i) -> F32x16 {
    // SAFETY: the caller has detected the level.
    F32x16(unsafe { _mm512_cvtph_ps(bits) })
}

#[inline(always)]
unsafe fn widen_bfloat16(bits: __m256i) -> F32x16 {
    // SAFETY: the caller has detected the level.
    F32x16(unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits))) })
}

#[inline(always)]
fn round_to_float16(value: F32x16) -> __m256i {
    // SAFETY: a register exists, so its level was detected.
    unsafe { _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value.0) }
}

/// To nearest even; a NaN keeps its sign and becomes quiet.
#[inline(always)]
fn round_to_bfloat16(value: F32x16) -> __m256i {
    // SAFETY: a register exists, so its level was detected.
    unsafe {
        let bits = _mm512_castps_si512(value.0);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
        let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value.0, value.0);
        let quiet = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x0040_0000));
        _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(quiet))
    }
}

access!(
    F32x16,
    f32,
    u16,
    _mm512_loadu_ps,
    _mm512_maskz_loadu_ps,
    _mm512_storeu_ps,
    _mm512_stream_ps,
    F32x16,
    |value: F32x16| value.0,
    |value| halves(_mm512_castps_si512(value))
);
access!(
    F64x8,
    f64,
    u8,
    _mm512_loadu_pd,
    _mm512_maskz_loadu_pd,
    _mm512_storeu_pd,
    _mm512_stream_pd,
    F64x8,
    |value: F64x8| value.0,
    |value| halves(_mm512_castpd_si512(value))
);
access!(
    F32x16,
    Float16,
    u16,
    _mm256_loadu_epi16,
    _mm256_maskz_loadu_epi16,
    _mm256_storeu_epi16,
    _mm256_stream_si256,
    widen_float16,
    round_to_float16,
    |value| (value, value)
);
access!(
    F32x16,
    BFloat16,
    u16,
    _mm256_loadu_epi16,
    _mm256_maskz_loadu_epi16,
    _mm256_storeu_epi16,
    _mm256_stream_si256,
    widen_bfloat16,
    round_to_bfloat16,
    |value| (value, value)
);

compile_loops!(#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]);
compile_short_loops!(#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]);
