//! The four floating-point types, and the type each is computed in.

use std::fmt;
use std::str::FromStr;

pub use half::bf16 as BFloat16;
pub use half::f16 as Float16;

use crate::error::Error;

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE 754 binary16.
    Float16,
    /// The upper half of a binary32.
    BFloat16,
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary64.
    Float64,
}

impl DType {
    /// Every type, in the order of its bits.
    pub const ALL: [DType; 4] = [DType::Float16, DType::BFloat16, DType::Float32, DType::Float64];

    /// The size of one element in bytes.
    pub const fn size(self) -> usize {
        match self {
            DType::Float16 | DType::BFloat16 => 2,
            DType::Float32 => 4,
            DType::Float64 => 8,
        }
    }

    /// numpy's name.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Float16 => "float16",
            DType::BFloat16 => "bfloat16",
            DType::Float32 => "float32",
            DType::Float64 => "float64",
        }
    }

    /// The type kernels compute in: half types in float32, rounded once at the end.
    pub const fn compute(self) -> DType {
        match self {
            DType::Float64 => DType::Float64,
            _ => DType::Float32,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        DType::ALL
            .into_iter()
            .find(|dtype| dtype.name() == text)
            .ok_or_else(|| Error::dtype("DType", "dtype", format!("{text:?}"), "float16, bfloat16, float32 or float64"))
    }
}

/// A type that arithmetic is done in: `f32` or `f64`.
pub trait Compute: Element<Compute = Self> + num::Arithmetic {
    /// Rounds a float64 argument to this type.
    fn from_f64(value: f64) -> Self;
    /// Widens to float64, exactly.
    fn to_f64(self) -> f64;
}

/// An element of a tensor.
pub trait Element: Copy + Send + Sync + PartialEq + fmt::Debug + Default + 'static {
    /// The type's tag.
    const DTYPE: DType;
    /// What it is computed in.
    type Compute: Compute;
    /// Widens to the compute type, exactly.
    fn to_compute(self) -> Self::Compute;
    /// Rounds once, to nearest even.
    fn from_compute(value: Self::Compute) -> Self;
}

/// Rounds to the float32 of which a half type can still tell on which side of a middle the value lies: a
/// second rounding then gives what a single one would.
pub fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    if back == value || !back.is_finite() {
        return nearest;
    }
    let towards_zero = nearest.to_bits() - u32::from(back.abs() > value.abs());
    f32::from_bits(towards_zero | 1)
}

mod num {
    use std::ops::{Add, Mul, Sub};
    /// The arithmetic that the formulas use.
    pub trait Arithmetic:
        Copy + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Default
    {
    }
    impl Arithmetic for f32 {}
    impl Arithmetic for f64 {}
}

macro_rules! compute {
    ($type:ty, $dtype:expr) => {
        impl Compute for $type {
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }
        }
        impl Element for $type {
            const DTYPE: DType = $dtype;
            type Compute = $type;
            #[inline(always)]
            fn to_compute(self) -> $type {
                self
            }
            #[inline(always)]
            fn from_compute(value: $type) -> Self {
                value
            }
        }
    };
}
compute!(f32, DType::Float32);
compute!(f64, DType::Float64);

macro_rules! half_element {
    ($type:ty, $dtype:expr) => {
        impl Element for $type {
            const DTYPE: DType = $dtype;
            type Compute = f32;
            #[inline(always)]
            fn to_compute(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn from_compute(value: f32) -> Self {
                <$type>::from_f32(value)
            }
        }
    };
}
half_element!(Float16, DType::Float16);
half_element!(BFloat16, DType::BFloat16);

/// Runs the body with `$element` standing for the Rust type of a [`DType`]: the one place where a
/// run-time type becomes a generic.
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $element:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::Float16 => {
                type $element = $crate::dtype::Float16;
                $body
            }
            $crate::dtype::DType::BFloat16 => {
                type $element = $crate::dtype::BFloat16;
                $body
            }
            $crate::dtype::DType::Float32 => {
                type $element = f32;
                $body
            }
            $crate::dtype::DType::Float64 => {
                type $element = f64;
                $body
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sizes_agree_with_the_rust_types() {
        for dtype in DType::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
            with_element!(dtype, T => {
                assert_eq!(T::DTYPE, dtype);
                assert_eq!(size_of::<T>(), dtype.size());
            });
        }
        assert!("int32".parse::<DType>().is_err());
    }

    #[test]
    fn what_lies_beside_a_middle_is_rounded_to_its_own_side() {
        let (low, high) = (BFloat16::from_f32(2.34375), BFloat16::from_f32(2.359375));
        let middle = 2.3515625;
        for sign in [1.0, -1.0] {
            let rounded = |value: f64| BFloat16::from_f32(round_to_odd(sign * value)).to_f64() * sign;
            assert_eq!(rounded(middle), low.to_f64());
            for beside in [1e-6, 1e-12, 4.5e-16] {
                assert_eq!(rounded(middle + beside), high.to_f64(), "{beside}");
                assert_eq!(rounded(middle - beside), low.to_f64(), "{beside}");
            }
        }
        for bits in 0..0x7c00u16 {
            let (half, next) = (Float16::from_bits(bits), Float16::from_bits(bits + 1));
            let middle = if bits == 0x7bff { 65520.0 } else { (half.to_f64() + next.to_f64()) / 2.0 };
            assert_eq!(Float16::from_f32(round_to_odd(half.to_f64())), half);
            assert_eq!(Float16::from_f32(round_to_odd(middle * (1.0 + f64::EPSILON))), next);
            assert_eq!(Float16::from_f32(round_to_odd(middle * (1.0 - f64::EPSILON))), half);
        }
        for value in [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(f64::from(round_to_odd(value)).to_bits(), value.to_bits());
        }
        assert!(round_to_odd(f64::NAN).is_nan());
        assert_eq!(round_to_odd(1e300), f32::INFINITY);
        assert_eq!(round_to_odd(-1e-300), -f32::from_bits(1));
    }
}
