//! What each instruction-set level brings: its registers, and the loops compiled with its instructions.
//!
//! **Comes in**: a level that was detected. **Comes out**: the [`Loops`] of an element type, by the one match on the
//! level. The drivers ask for it: `filter`, `kernel_gradient` and `pipeline`. Only the files of this folder name
//! `core::arch`. A further level is one more file and one more arm.

#[macro_use]
mod compile;

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
#[cfg(target_arch = "aarch64")]
pub mod neon;
pub mod portable;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod zip;

use crate::loops::Loops;
use crate::loops::register::Portable;
use crate::loops::short::rows::ShortLoops;
use firelu_core::dtype::{BFloat16, Element, Float16};
use firelu_cpu::features::Level;
#[cfg(target_arch = "aarch64")]
use firelu_cpu::simd::neon::{F32x8, F64x4};
#[cfg(target_arch = "x86_64")]
use {
    avx512::{F32x16, F64x8},
    firelu_cpu::simd::avx2::{F32x8, F64x4},
};

/// An element type that filters take.
pub trait FilterElement: Element {
    /// Its loops on a level, which was detected.
    fn loops(level: Level) -> &'static Loops<Self>;
}

/// An element's table for registers of 32 bytes, which AVX2 and NEON have, and for those of AVX-512.
macro_rules! filter_element {
    ($element:ty, $table:ident, $register:ident, $wide:ident) => {
        impl FilterElement for $element {
            fn loops(level: Level) -> &'static Loops<Self> {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => const { &avx512::all_loops::<$element, $wide>() },
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => const { &avx2::$table::<$element, $register>() },
                    #[cfg(target_arch = "aarch64")]
                    Level::Neon => const { &neon::$table::<$element, $register>() },
                    _ => {
                        const {
                            &portable::loops::<$element, Portable<<$element as Element>::Compute>>(
                                (None, None),
                                ShortLoops::NONE,
                            )
                        }
                    }
                }
            }
        }
    };
}
filter_element!(f32, all_loops, F32x8, F32x16);
filter_element!(f64, all_loops, F64x4, F64x8);
filter_element!(Float16, half_loops, F32x8, F32x16);
filter_element!(BFloat16, half_loops, F32x8, F32x16);
