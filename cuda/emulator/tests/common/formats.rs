//! Number formats by first principles: integers through 128 bits, floats as exact fractions rounded once.
#![allow(dead_code, reason = "each test file uses its own part")]

/// A finite float as `mantissa * 2^exponent`, exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exact {
    pub negative: bool,
    pub mantissa: u128,
    pub exponent: i32,
}

/// A float format: bits of the stored fraction, bits of the exponent.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    pub fraction: u32,
    pub exponent: u32,
}

pub const HALF: Format = Format { fraction: 10, exponent: 5 };
pub const SINGLE: Format = Format { fraction: 23, exponent: 8 };
pub const DOUBLE: Format = Format { fraction: 52, exponent: 11 };

/// A value of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    Nan,
    Infinite(bool),
    Finite(Exact),
}

impl Format {
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "f16" => HALF,
            "f32" => SINGLE,
            "f64" => DOUBLE,
            _ => return None,
        })
    }

    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    pub fn decode(self, bits: u64) -> Value {
        let fraction = u128::from(bits & ((1 << self.fraction) - 1));
        let exponent = (bits >> self.fraction & ((1 << self.exponent) - 1)) as i32;
        let negative = bits >> (self.fraction + self.exponent) & 1 == 1;
        let lowest = 1 - self.bias() - self.fraction as i32;
        match exponent {
            0 => Value::Finite(Exact { negative, mantissa: fraction, exponent: lowest }),
            _ if exponent == (1 << self.exponent) - 1 => {
                if fraction == 0 {
                    Value::Infinite(negative)
                } else {
                    Value::Nan
                }
            }
            _ => Value::Finite(Exact {
                negative,
                mantissa: fraction | 1 << self.fraction,
                exponent: lowest + exponent - 1,
            }),
        }
    }

    /// Rounds to nearest, ties to even; NaN is the device's canonical one.
    pub fn encode(self, value: Value) -> u64 {
        let sign = |negative: bool| u64::from(negative) << (self.fraction + self.exponent);
        let infinity = ((1u64 << self.exponent) - 1) << self.fraction;
        match value {
            Value::Nan => infinity | ((1 << self.fraction) - 1),
            Value::Infinite(negative) => sign(negative) | infinity,
            Value::Finite(Exact { negative, mantissa: 0, .. }) => sign(negative),
            Value::Finite(Exact { negative, mantissa, exponent }) => {
                let lowest = 1 - self.bias() - self.fraction as i32;
                let length = 128 - mantissa.leading_zeros() as i32;
                // The exponent of the last bit that is kept.
                let unit = (exponent + length - 1 - self.fraction as i32).max(lowest);
                let kept = round_half_even(mantissa, exponent - unit);
                let magnitude = if kept >> (self.fraction + 1) != 0 {
                    ((unit + 1 - lowest + 1) as u64) << self.fraction
                } else if kept >> self.fraction != 0 {
                    (((unit - lowest + 1) as u64) << self.fraction) | (kept as u64 & ((1 << self.fraction) - 1))
                } else {
                    kept as u64
                };
                sign(negative) | magnitude.min(infinity)
            }
        }
    }
}

/// `mantissa * 2^shift` as a whole number, ties to even.
fn round_half_even(mantissa: u128, shift: i32) -> u128 {
    if shift >= 0 {
        return mantissa << shift;
    }
    let drop = -shift as u32;
    if drop > 127 {
        return 0;
    }
    let (floor, rest, half) = (mantissa >> drop, mantissa & ((1 << drop) - 1), 1u128 << (drop - 1));
    floor + u128::from(rest > half || (rest == half && floor & 1 == 1))
}

impl Exact {
    /// To a whole number by a rounding mode, clamped far outside every integer type.
    pub fn to_integer(self, mode: &str) -> i128 {
        const FAR: i128 = 1 << 100;
        let sign = if self.negative { -1 } else { 1 };
        if self.mantissa == 0 {
            return 0;
        }
        if self.exponent >= 0 {
            let length = 128 - self.mantissa.leading_zeros() as i32;
            return if length + self.exponent > 100 {
                sign * FAR
            } else {
                sign * (self.mantissa << self.exponent) as i128
            };
        }
        let drop = -self.exponent as u32;
        let (floor, inexact) =
            if drop > 127 { (0, true) } else { (self.mantissa >> drop, self.mantissa & ((1 << drop) - 1) != 0) };
        let away = match mode {
            "rzi" => false,
            "rmi" => self.negative && inexact,
            "rpi" => !self.negative && inexact,
            "rni" => return sign * round_half_even(self.mantissa, self.exponent) as i128,
            _ => panic!("no rounding mode {mode}"),
        };
        sign * (floor + u128::from(away)) as i128
    }

    pub fn of_integer(value: i128) -> Self {
        Self { negative: value < 0, mantissa: value.unsigned_abs(), exponent: 0 }
    }
}

/// An integer type by its PTX name: bits and sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integer {
    pub bits: u32,
    pub signed: bool,
}

impl Integer {
    pub fn of(name: &str) -> Option<Self> {
        let signed = match name.chars().next()? {
            's' => true,
            'u' | 'b' => false,
            _ => return None,
        };
        let bits = name[1..].parse().ok().filter(|bits| matches!(bits, 8 | 16 | 32 | 64))?;
        Some(Self { bits, signed })
    }

    pub fn read(self, bits: u64) -> i128 {
        let value = i128::from(bits) & ((1 << self.bits) - 1);
        if self.signed && value >> (self.bits - 1) == 1 { value - (1 << self.bits) } else { value }
    }

    pub fn wrap(self, value: i128) -> u64 {
        (value & ((1 << self.bits) - 1)) as u64
    }

    pub fn clamp(self, value: i128) -> u64 {
        let (low, high) =
            if self.signed { (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) } else { (0, (1 << self.bits) - 1) };
        self.wrap(value.clamp(low, high))
    }
}
