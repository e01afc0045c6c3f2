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
    /// `self * factor + term`, rounded once: fast only where the processor has an instruction for it.
    fn fused_multiply_add(self, factor: Self, term: Self) -> Self;
    /// As good as [`Compute::fused_multiply_add`] on every processor: the last bit may differ.
    fn multiply_add(self, factor: Self, term: Self) -> Self;
    /// Without its sign.
    fn magnitude(self) -> Self;
    /// With the sign of another number.
    fn signed_as(self, sign: Self) -> Self;
    /// Whether the lowest bit is set.
    fn lowest_bit(self) -> bool;
    /// The power of two whose exponent stands in the lowest bits.
    fn exponent_of_lowest_bits(self) -> Self;
    /// The number whose bits are those of `minuend` less its own.
    fn bits_less(self, minuend: u64) -> Self;
    /// The whole number below 2^53 and the exponent of two whose product is the magnitude of a finite number.
    fn integer_and_exponent(self) -> (u64, i32);
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
    use std::ops::{Add, Div, Mul, Sub};
    /// The arithmetic that the formulas use.
    pub trait Arithmetic:
        Copy + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Default
    {
    }
    impl Arithmetic for f32 {}
    impl Arithmetic for f64 {}
}

/// `a * b + c` by way of float64, which holds the product and nearly always the sum.
#[inline(always)]
fn multiply_add_f32(a: f32, b: f32, c: f32) -> f32 {
    (f64::from(a) * f64::from(b) + f64::from(c)) as f32
}

/// `a * b + c` of the product's and the sum's errors: each factor is split into halves whose products are exact.
#[inline(always)]
fn multiply_add_f64(a: f64, b: f64, c: f64) -> f64 {
    let halves = |x: f64| {
        let upper = f64::from_bits(x.to_bits() & !0x7ff_ffff);
        (upper, x - upper)
    };
    let ((a_upper, a_lower), (b_upper, b_lower)) = (halves(a), halves(b));
    let product = a * b;
    let error = ((a_upper * b_upper - product) + a_upper * b_lower + a_lower * b_upper) + a_lower * b_lower;
    let sum = product + c;
    let of_c = sum - product;
    let lost = (product - (sum - of_c)) + (c - of_c);
    let rest = lost + error;
    // Where something is not finite, or too large to be split, there is no rest to speak of.
    if rest.is_finite() { sum + rest } else { sum }
}

macro_rules! compute {
    ($type:ty, $bits:ty, $multiply_add:ident, $dtype:expr) => {
        impl Compute for $type {
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }
            #[inline(always)]
            fn fused_multiply_add(self, factor: Self, term: Self) -> Self {
                self.mul_add(factor, term)
            }
            #[inline(always)]
            fn multiply_add(self, factor: Self, term: Self) -> Self {
                if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
                    return self.mul_add(factor, term);
                }
                $multiply_add(self, factor, term)
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn signed_as(self, sign: Self) -> Self {
                self.copysign(sign)
            }
            #[inline(always)]
            fn lowest_bit(self) -> bool {
                self.to_bits() & 1 == 1
            }
            #[inline(always)]
            fn exponent_of_lowest_bits(self) -> Self {
                let one: $type = 1.0;
                <$type>::from_bits((self.to_bits() << (<$type>::MANTISSA_DIGITS - 1)).wrapping_add(one.to_bits()))
            }
            #[inline(always)]
            fn bits_less(self, minuend: u64) -> Self {
                <$type>::from_bits((minuend as $bits).wrapping_sub(self.to_bits()))
            }
            fn integer_and_exponent(self) -> (u64, i32) {
                let places = <$type>::MANTISSA_DIGITS - 1;
                let bits = self.abs().to_bits();
                let (exponent, mantissa) = ((bits >> places) as i32, bits & ((1 << places) - 1));
                let implicit: $bits = if exponent > 0 { 1 << places } else { 0 };
                let lowest = <$type>::MIN_EXP - <$type>::MANTISSA_DIGITS as i32;
                (u64::from(mantissa | implicit), exponent.max(1) - 1 + lowest)
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
compute!(f32, u32, multiply_add_f32, DType::Float32);
compute!(f64, u64, multiply_add_f64, DType::Float64);

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
