//! What each arithmetic form should give, written without the emulator.

use crate::formats::{Exact, Format, Integer, SINGLE, Value};

/// What the model says: a value, nothing where PTX leaves it open, or no model at all.
pub enum Answer {
    Bits(u64),
    Open,
}

fn integer_model(stem: &str, suffix: &str, values: &[u64; 4]) -> Option<Answer> {
    let kind = Integer::of(suffix)?;
    let wide = Integer { bits: kind.bits * 2, ..kind };
    let [a, b, c, _] = values.map(|value| kind.read(value));
    let amount = |value: u64| (value as u32).min(127);
    Some(Answer::Bits(match stem {
        "add" => kind.wrap(a + b),
        "sub" => kind.wrap(a - b),
        "mul.lo" => kind.wrap(a.wrapping_mul(b)),
        "mul.hi" if kind == (Integer { bits: 64, signed: false }) => {
            ((values[0] as u128 * values[1] as u128) >> 64) as u64
        }
        "mul.hi" => kind.wrap((a * b) >> kind.bits),
        "mul.wide" => wide.wrap(a * b),
        "mad.lo" => kind.wrap(a.wrapping_mul(b).wrapping_add(c)),
        "mad.hi" if kind == (Integer { bits: 64, signed: false }) => {
            (((values[0] as u128 * values[1] as u128) >> 64) as u64).wrapping_add(values[2])
        }
        "mad.hi" => kind.wrap(((a * b) >> kind.bits) + c),
        "mad.wide" => wide.wrap(a * b + wide.read(values[2])),
        "div" | "rem" if b == 0 => return Some(Answer::Open),
        "div" => kind.wrap(a / b),
        "rem" => kind.wrap(a % b),
        "min" => kind.wrap(if a < b { a } else { b }),
        "max" => kind.wrap(if a > b { a } else { b }),
        "add.sat" => kind.clamp(a + b),
        "sub.sat" => kind.clamp(a - b),
        "and" => (0..64).filter(|&i| values[0] >> i & 1 == 1 && values[1] >> i & 1 == 1).map(|i| 1 << i).sum(),
        "or" => (0..64).filter(|&i| values[0] >> i & 1 == 1 || values[1] >> i & 1 == 1).map(|i| 1 << i).sum(),
        "xor" => (0..64).filter(|&i| values[0] >> i & 1 != values[1] >> i & 1).map(|i| 1 << i).sum(),
        "not" => kind.wrap(-a - 1),
        "mov" => kind.wrap(a),
        "neg" => kind.wrap(-a),
        "abs" => kind.wrap(if a < 0 { -a } else { a }),
        "shl" if amount(values[1]) >= kind.bits => 0,
        "shl" => kind.wrap(a * (1 << amount(values[1]))),
        "shr" => kind.wrap(a.div_euclid(1i128 << amount(values[1]).min(126))),
        "popc" => (0..kind.bits).filter(|&i| a >> i & 1 == 1).count() as u64,
        "clz" => (0..kind.bits).rev().take_while(|&i| a >> i & 1 == 0).count() as u64,
        "brev" => (0..kind.bits).filter(|&i| a >> i & 1 == 1).map(|i| 1u64 << (kind.bits - 1 - i)).sum(),
        "bfe" => {
            let (position, length) = (values[1] as u32 & 255, values[2] as u32 & 255);
            let source = |index: u32| a >> index.min(126) & 1 == 1;
            let last = (position + length).saturating_sub(1).min(kind.bits - 1);
            let sign = kind.signed && length > 0 && source(last);
            (0..kind.bits)
                .filter(|&i| if i < length && position + i < kind.bits { source(position + i) } else { sign })
                .map(|i| 1u64 << i)
                .sum()
        }
        "bfi" => {
            let (position, length) = (values[2] as u32 & 255, values[3] as u32 & 255);
            (0..kind.bits)
                .filter(|&i| {
                    if i >= position && i < position + length { a >> (i - position) & 1 == 1 } else { b >> i & 1 == 1 }
                })
                .map(|i| 1u64 << i)
                .sum()
        }
        "prmt" => (0..4)
            .map(|byte| {
                let nibble = values[2] >> (4 * byte) & 15;
                let word = if nibble & 7 < 4 { values[0] } else { values[1] };
                let picked = word >> (8 * (nibble & 3)) & 255;
                let picked = if nibble < 8 {
                    picked
                } else if picked >= 128 {
                    255
                } else {
                    0
                };
                picked << (8 * byte)
            })
            .sum(),
        "lop3" => (0..32)
            .filter(|&i| {
                let index = (values[0] >> i & 1) * 4 + (values[1] >> i & 1) * 2 + (values[2] >> i & 1);
                values[3] >> index & 1 == 1
            })
            .map(|i| 1u64 << i)
            .sum(),
        "shf.l.wrap" | "shf.l.clamp" | "shf.r.wrap" | "shf.r.clamp" => {
            let amount = if stem.ends_with("wrap") { values[2] as u32 % 32 } else { (values[2] as u32).min(32) };
            let both = (values[1] as u128) << 32 | values[0] as u128;
            if stem.contains(".l.") {
                (both << amount >> 32) as u64 & 0xffff_ffff
            } else {
                (both >> amount) as u64 & 0xffff_ffff
            }
        }
        "cvta.global" | "cvta.to.global" | "cvta.const" | "cvta.to.const" => values[0],
        "cvta.shared" => values[0].wrapping_add(cuda_emulator::program::SHARED_WINDOW),
        "cvta.to.shared" => values[0].wrapping_sub(cuda_emulator::program::SHARED_WINDOW),
        _ => return None,
    }))
}

const NAN: u64 = 0x7fff_ffff;

/// Single precision by way of double, which is exact enough that rounding twice equals rounding once.
fn single_model(stem: &str, values: &[u64; 4]) -> Option<Answer> {
    let [a, b, c, _] = values.map(|value| f64::from(f32::from_bits(value as u32)));
    let single = |value: f64| if value.is_nan() { NAN } else { u64::from((value as f32).to_bits()) };
    let saturated = |value: f64| {
        single(if value > 1.0 {
            1.0
        } else if value > 0.0 {
            value
        } else {
            0.0
        })
    };
    let ordered = |lower: bool| match (a.is_nan(), b.is_nan()) {
        (true, true) => NAN,
        (true, false) => values[1],
        (false, true) => values[0],
        // As signed magnitudes, so that -0 lies below +0.
        _ => {
            let rank = |bits: u64| if bits >> 31 == 1 { -((bits & NAN) as i64) - 1 } else { bits as i64 };
            if (rank(values[0]) < rank(values[1])) == lower { values[0] } else { values[1] }
        }
    };
    Some(Answer::Bits(match stem {
        "add" | "add.rn" => single(a + b),
        "sub" | "sub.rn" => single(a - b),
        "mul" | "mul.rn" => single(a * b),
        "add.sat" | "add.rn.sat" => saturated(a + b),
        "sub.sat" | "sub.rn.sat" => saturated(a - b),
        "mul.sat" | "mul.rn.sat" => saturated(a * b),
        "fma.rn" | "mad.rn" => single(to_odd(a * b, c)),
        "fma.rn.sat" => saturated(to_odd(a * b, c)),
        "div.rn" => single(a / b),
        "rcp.rn" => single(1.0 / a),
        "sqrt.rn" => single(a.sqrt()),
        "neg" => values[0] ^ 0x8000_0000,
        "abs" => values[0] % 0x8000_0000,
        "copysign" => values[1] % 0x8000_0000 + values[0] / 0x8000_0000 * 0x8000_0000,
        "min" => ordered(true),
        "max" => ordered(false),
        "mov" => values[0],
        _ => return None,
    }))
}

/// The sum of two doubles rounded to odd, so that one more rounding to single is correct. Products of singles are exact.
fn to_odd(left: f64, right: f64) -> f64 {
    let sum = left + right;
    if !sum.is_finite() || sum == 0.0 {
        return sum;
    }
    // The rounding error of the sum (Knuth), exact as nothing here comes near the limits of double.
    let other = sum - left;
    let error = (left - (sum - other)) + (right - other);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    let toward_larger = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if toward_larger { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}

fn conversion_model(mode: &str, to: &str, from: &str, bits: u64) -> Option<Answer> {
    let answer = match (Integer::of(to), Format::of(to), Integer::of(from), Format::of(from)) {
        (Some(to), _, Some(from), _) if mode == "sat" => to.clamp(from.read(bits)),
        (Some(to), _, Some(from), _) if mode.is_empty() => to.wrap(from.read(bits)),
        (Some(to), _, _, Some(from)) => match from.decode(bits) {
            Value::Nan => 0,
            Value::Infinite(negative) => to.clamp(if negative { i128::MIN / 4 } else { i128::MAX / 4 }),
            Value::Finite(exact) => to.clamp(exact.to_integer(mode)),
        },
        (_, Some(format), Some(from), _) if mode == "rn" => {
            format.encode(Value::Finite(Exact::of_integer(from.read(bits))))
        }
        (_, Some(_), _, Some(from)) if mode == "sat" => {
            let one = SINGLE.encode(Value::Finite(Exact::of_integer(1)));
            match from.decode(bits) {
                Value::Finite(exact) if !exact.negative && exact.mantissa != 0 => bits.min(one),
                Value::Infinite(false) => one,
                _ => 0,
            }
        }
        (_, Some(format), _, Some(source)) if mode == "rn" || (mode.is_empty() && to != from) => {
            if source.decode(bits) == Value::Nan && to == "f64" {
                return Some(Answer::Open);
            }
            format.encode(source.decode(bits))
        }
        (_, Some(format), _, Some(source)) if to == from && mode.ends_with('i') => match source.decode(bits) {
            // Large values are whole already; the sign of zero stays.
            Value::Finite(exact) if exact.exponent < 0 => {
                let whole = exact.to_integer(mode);
                format.encode(Value::Finite(Exact { negative: exact.negative, ..Exact::of_integer(whole) }))
            }
            Value::Nan => return Some(Answer::Open),
            _ => bits,
        },
        _ => return None,
    };
    Some(Answer::Bits(answer))
}

/// What a mnemonic should give, or `None` without a model of it.
pub fn model(mnemonic: &str, values: &[u64; 4]) -> Option<Answer> {
    if let Some(rest) = mnemonic.strip_prefix("cvt.") {
        let parts: Vec<&str> = rest.split('.').collect();
        return match parts[..] {
            [to, from] => conversion_model("", to, from, values[0]),
            [mode, to, from] => conversion_model(mode, to, from, values[0]),
            _ => None,
        };
    }
    let (stem, suffix) = mnemonic.rsplit_once('.')?;
    match suffix {
        "f32" => single_model(stem, values),
        _ => integer_model(stem, suffix, values),
    }
}

/// The order of two values of a type, or none when either is NaN.
pub fn order(kind: &str, left: u64, right: u64) -> Option<std::cmp::Ordering> {
    if let Some(integer) = Integer::of(kind) {
        return Some(integer.read(left).cmp(&integer.read(right)));
    }
    let format = Format::of(kind)?;
    // Sign and magnitude order floats; both zeros are equal.
    let rank = |bits: u64| match format.decode(bits) {
        Value::Nan => None,
        _ => {
            let top = 1u64 << (format.fraction + format.exponent);
            Some(if bits >= top { -((bits - top) as i64) } else { bits as i64 })
        }
    };
    Some(rank(left)?.cmp(&rank(right)?))
}
