//! Bands compiled with each level's instructions, for every pair of types.

use std::ops::Range;

use firelu_core::dtype::{BFloat16, Float16};
use firelu_core::error::Result;
use firelu_cpu::features::Level;
#[cfg(target_arch = "aarch64")]
use firelu_cpu::simd::neon::{F32x8, F64x4};
use firelu_filters::loops::register::{Access, Portable, Register};
#[cfg(target_arch = "x86_64")]
use {
    firelu_cpu::simd::avx2::{F32x8, F64x4},
    firelu_filters::levels::avx512::{F32x16, F64x8},
};

use crate::job::Job;
use crate::samples::{Holds, Sample, Single};

/// A type that can be resampled into `D`.
pub trait Pair<D: Sample<Number = Self::Number>>: Sample {
    /// How many rows a band has on a level.
    fn lanes(level: Level) -> usize;

    /// Writes some rows of a plane.
    ///
    /// # Safety
    /// The level was detected; what the job names can be read and written.
    unsafe fn run(level: Level, job: &Job<'_, Self, D>, plane: usize, rows: Range<usize>) -> Result<()>;
}

macro_rules! compiled {
    ($name:ident $(, #[$feature:meta])?) => {
        $(#[$feature])?
        unsafe fn $name<S, D, R>(job: &Job<'_, S, D>, plane: usize, rows: Range<usize>) -> Result<()>
        where
            S: Sample<Number = R::Number>,
            D: Sample<Number = R::Number>,
            R: Holds<S> + Holds<D> + Holds<<R as Register>::Number> + Access<<R as Register>::Number>,
            R::Number: Sample<Number = R::Number>,
        {
            // SAFETY: the caller's promise.
            unsafe { job.run::<R>(plane, rows) }
        }
    };
}
compiled!(portable);
#[cfg(target_arch = "x86_64")]
compiled!(avx2, #[target_feature(enable = "avx2,fma,f16c")]);
#[cfg(target_arch = "x86_64")]
compiled!(avx512, #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]);
#[cfg(target_arch = "aarch64")]
compiled!(neon);

/// Pairs for registers of 32 bytes, which AVX2 and NEON have, and for those of AVX-512.
macro_rules! pairs {
    ($number:ty, $register:ident, $avx512:ident: $($source:ty => $target:ty,)*) => {$(
        impl Pair<$target> for $source {
            fn lanes(level: Level) -> usize {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => $avx512::LANES,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => <$register as Register>::LANES,
                    #[cfg(target_arch = "aarch64")]
                    Level::Neon => <$register as Register>::LANES,
                    _ => Portable::<$number>::LANES,
                }
            }

            unsafe fn run(level: Level, job: &Job<'_, Self, $target>, plane: usize, rows: Range<usize>) -> Result<()> {
                // SAFETY: the caller's promise.
                unsafe {
                    match level {
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx512 => avx512::<_, _, $avx512>(job, plane, rows),
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx2 => avx2::<_, _, $register>(job, plane, rows),
                        #[cfg(target_arch = "aarch64")]
                        Level::Neon => neon::<_, _, $register>(job, plane, rows),
                        _ => portable::<_, _, Portable<$number>>(job, plane, rows),
                    }
                }
            }
        }
    )*};
}
pairs! { f32, F32x8, F32x16:
    u8 => u8, u8 => f32, f32 => u8,
    u16 => u16, u16 => f32, f32 => u16,
    Float16 => Float16, Float16 => f32, f32 => Float16,
    BFloat16 => BFloat16, BFloat16 => f32, f32 => BFloat16,
}
pairs! { f64, F64x4, F64x8:
    Single => Single, Single => f64, f64 => Single,
    f64 => f64,
}
