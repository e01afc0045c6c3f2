//! What each instruction-set level brings: its registers, and the loops compiled with its instructions.
//!
//! **Comes in**: a level that was detected. **Comes out**: the [`Loops`] of an element type, by the one match on the
//! level. Only the files of this folder name `core::arch`. A further level is one more file and one more arm.

#[macro_use]
mod compile;

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
pub mod portable;

use crate::loops::Loops;
use crate::loops::register::Portable;
use crate::loops::short::rows::ShortLoops;
use firelu_core::dtype::{BFloat16, Element, Float16};
use firelu_cpu::features::Level;
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

macro_rules! filter_element {
    ($element:ty, $avx2:expr, $avx512:expr) => {
        impl FilterElement for $element {
            fn loops(level: Level) -> &'static Loops<Self> {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => const { &$avx512 },
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => const { &$avx2 },
                    _ => {
                        const {
                            &portable::loops::<$element, Portable<<$element as Element>::Compute>>(
                                None,
                                ShortLoops::NONE,
                            )
                        }
                    }
                }
            }
        }
    };
}
filter_element!(f32, avx2::all_loops::<f32, F32x8>(), avx512::all_loops::<f32, F32x16>());
filter_element!(f64, avx2::all_loops::<f64, F64x4>(), avx512::all_loops::<f64, F64x8>());
filter_element!(Float16, avx2::half_loops(), avx512::all_loops::<Float16, F32x16>());
filter_element!(BFloat16, avx2::half_loops(), avx512::all_loops::<BFloat16, F32x16>());
