//! Rounding to each element type, by arithmetic in float64 alone.

use firelu::DType;

/// The bits of a significand, the exponent of the smallest number and the largest number of a type.
fn format(dtype: DType) -> (i32, i32, f64) {
    match dtype {
        DType::Float16 => (11, -24, 65504.0),
        DType::BFloat16 => (8, -133, 2f64.powi(128) - 2f64.powi(120)),
        DType::Float32 => (24, -149, f32::MAX as f64),
        DType::Float64 => (53, -1074, f64::MAX),
    }
}

fn exponent(value: f64) -> i32 {
    ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

/// The relative error of one rounding.
pub fn unit(dtype: DType) -> f64 {
    2f64.powi(-format(dtype).0)
}

/// The largest finite number.
pub fn largest(dtype: DType) -> f64 {
    format(dtype).2
}

/// The distance between neighbours at a finite number.
pub fn spacing(dtype: DType, value: f64) -> f64 {
    let (digits, lowest, _) = format(dtype);
    let at = (exponent(value) - digits + 1).max(lowest);
    if at < -1022 { f64::from_bits(1u64 << (at + 1074)) } else { 2f64.powi(at) }
}

/// The nearest number of the type, to even between two.
pub fn round_to(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::Float64 => value,
        DType::Float32 => value as f32 as f64,
        _ if value == 0.0 || !value.is_finite() => value,
        _ => {
            let step = spacing(dtype, value);
            let rounded = (value / step).round_ties_even() * step;
            if rounded.abs() > largest(dtype) { f64::INFINITY.copysign(value) } else { rounded }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firelu::{BFloat16, Float16};

    #[test]
    fn every_half_is_itself_and_every_middle_goes_to_even() {
        for bits in 0..0x7c00u16 {
            let (low, high) = (Float16::from_bits(bits).to_f64(), Float16::from_bits(bits + 1).to_f64());
            assert_eq!(round_to(DType::Float16, low), low);
            let even = if bits % 2 == 0 { low } else { high };
            let high = if bits + 1 == 0x7c00 { 65536.0 } else { high };
            assert_eq!(round_to(DType::Float16, (low + high) / 2.0), even, "{bits:x}");
        }
        for bits in 0..0x7f80u16 {
            let value = BFloat16::from_bits(bits).to_f64();
            assert_eq!(round_to(DType::BFloat16, -value), -value);
        }
        assert_eq!(round_to(DType::BFloat16, f32::MAX as f64), f64::INFINITY);
        assert_eq!(spacing(DType::Float64, 1.0), f64::EPSILON);
    }
}
