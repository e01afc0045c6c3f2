//! Every arithmetic form against an independent model; a form without a model fails the test.

#[path = "common/model.rs"]
mod model;

use cuda_emulator::program::{Form, Lanes, WARP, arithmetic, comparison};
use model::{DOUBLE, Exact, Format, HALF, Integer, SINGLE, Value};

const TYPES: [&str; 15] =
    ["b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "f32", "f64"];

/// Bit patterns worth trying in every integer position.
fn integers() -> Vec<u64> {
    let mut values = vec![
        0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x1_0000,
        0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x1_0000_0000, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX, u64::MAX - 1,
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..6 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        values.push(state);
    }
    values
}

/// Bit patterns worth trying in every position of a float type.
fn floats(format: Format) -> Vec<u64> {
    let mut values = Vec::new();
    let bias = (1 << (format.exponent - 1)) - 1;
    for exponent in [0, 1, 2, bias / 2, bias - 2, bias - 1, bias, bias + 1, bias + format.fraction as u64, 2 * bias - 1, 2 * bias, 2 * bias + 1] {
        for fraction in [0, 1, (1 << format.fraction) - 1, 1 << (format.fraction - 1), 0x2a & ((1 << format.fraction) - 1)] {
            for sign in [0, 1] {
                values.push(sign << (format.fraction + format.exponent) | exponent << format.fraction | fraction);
            }
        }
    }
    values
}

fn candidates(form: &Form, position: usize) -> Vec<u64> {
    match form.sources[position] {
        cuda_emulator::ptx::Type::F16 => floats(HALF),
        cuda_emulator::ptx::Type::F32 => floats(SINGLE),
        cuda_emulator::ptx::Type::F64 => floats(DOUBLE),
        kind => {
            let mask = kind.mask();
            let mut values: Vec<u64> = integers().iter().map(|value| value & mask).collect();
            values.sort_unstable();
            values.dedup();
            values
        }
    }
}

/// Every combination of values, thinned where there are too many.
fn inputs(form: &Form) -> Vec<[u64; 4]> {
    let lists: Vec<Vec<u64>> = (0..form.sources.len()).map(|position| candidates(form, position)).collect();
    let total: usize = lists.iter().map(Vec::len).product();
    let step = (total / 40_000).max(1);
    let step = if step > 1 { step | 1 } else { step };
    (0..total).step_by(step).map(|mut index| {
        let mut values = [0; 4];
        for (value, list) in values.iter_mut().zip(&lists) {
            *value = list[index % list.len()];
            index /= list.len();
        }
        values
    }).collect()
}

/// Applies a form and masks the result to its type.
fn apply(form: &Form, batch: &[[u64; 4]]) -> Vec<u64> {
    let mut lanes: [Lanes; 4] = [[0; WARP]; 4];
    for (lane, values) in batch.iter().enumerate() {
        for (register, &value) in lanes.iter_mut().zip(values) {
            register[lane] = value;
        }
    }
    let mut out = [0; WARP];
    (form.function)(&[&lanes[0], &lanes[1], &lanes[2], &lanes[3]], &mut out);
    out[..batch.len()].iter().map(|value| value & form.result.mask()).collect()
}

/// What the model says: a value, nothing where PTX leaves it open, or no model at all.
enum Answer {
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
        "mul.hi" if kind == (Integer { bits: 64, signed: false }) => ((values[0] as u128 * values[1] as u128) >> 64) as u64,
        "mul.hi" => kind.wrap((a * b) >> kind.bits),
        "mul.wide" => wide.wrap(a * b),
        "mad.lo" => kind.wrap(a.wrapping_mul(b).wrapping_add(c)),
        "mad.hi" if kind == (Integer { bits: 64, signed: false }) => (((values[0] as u128 * values[1] as u128) >> 64) as u64).wrapping_add(values[2]),
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
            (0..kind.bits).filter(|&i| if i < length && position + i < kind.bits { source(position + i) } else { sign })
                .map(|i| 1u64 << i).sum()
        }
        "bfi" => {
            let (position, length) = (values[2] as u32 & 255, values[3] as u32 & 255);
            (0..kind.bits).filter(|&i| {
                if i >= position && i < position + length { a >> (i - position) & 1 == 1 } else { b >> i & 1 == 1 }
            }).map(|i| 1u64 << i).sum()
        }
        "prmt" => (0..4).map(|byte| {
            let nibble = values[2] >> (4 * byte) & 15;
            let word = if nibble & 7 < 4 { values[0] } else { values[1] };
            let picked = word >> (8 * (nibble & 3)) & 255;
            let picked = if nibble < 8 { picked } else if picked >= 128 { 255 } else { 0 };
            picked << (8 * byte)
        }).sum(),
        "lop3" => (0..32).filter(|&i| {
            let index = (values[0] >> i & 1) * 4 + (values[1] >> i & 1) * 2 + (values[2] >> i & 1);
            values[3] >> index & 1 == 1
        }).map(|i| 1u64 << i).sum(),
        "shf.l.wrap" | "shf.l.clamp" | "shf.r.wrap" | "shf.r.clamp" => {
            let amount = if stem.ends_with("wrap") { values[2] as u32 % 32 } else { (values[2] as u32).min(32) };
            let both = (values[1] as u128) << 32 | values[0] as u128;
            if stem.contains(".l.") { (both << amount >> 32) as u64 & 0xffff_ffff } else { (both >> amount) as u64 & 0xffff_ffff }
        }
        "cvta.global" | "cvta.to.global" | "cvta.const" | "cvta.to.const" => values[0],
        "cvta.shared" => values[0].wrapping_add(cuda_emulator::machine::SHARED_WINDOW),
        "cvta.to.shared" => values[0].wrapping_sub(cuda_emulator::machine::SHARED_WINDOW),
        _ => return None,
    }))
}

const NAN: u64 = 0x7fff_ffff;

/// Single precision by way of double, which is exact enough that rounding twice equals rounding once.
fn single_model(stem: &str, values: &[u64; 4]) -> Option<Answer> {
    let [a, b, c, _] = values.map(|value| f64::from(f32::from_bits(value as u32)));
    let single = |value: f64| if value.is_nan() { NAN } else { u64::from((value as f32).to_bits()) };
    let saturated = |value: f64| single(if value > 1.0 { 1.0 } else if value > 0.0 { value } else { 0.0 });
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
        (_, Some(format), Some(from), _) if mode == "rn" => format.encode(Value::Finite(Exact::of_integer(from.read(bits)))),
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

fn model(mnemonic: &str, values: &[u64; 4]) -> Option<Answer> {
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

fn mnemonics() -> Vec<String> {
    let stems = [
        "add", "sub", "mul", "add.rn", "sub.rn", "mul.rn", "add.sat", "sub.sat", "mul.sat", "add.rn.sat", "sub.rn.sat",
        "mul.rn.sat", "add.rz", "add.ftz", "mul.lo", "mul.hi", "mul.wide", "mad.lo", "mad.hi", "mad.wide", "mad", "mad.rn",
        "fma", "fma.rn", "fma.rn.sat", "fma.rz", "div", "div.rn", "div.approx", "rem", "rcp.rn", "rcp.approx", "sqrt.rn",
        "sqrt.approx", "rsqrt.approx", "min", "max", "and", "or", "xor", "not", "mov", "shl", "shr", "neg", "abs",
        "copysign", "popc", "clz", "brev", "bfind", "bfe", "bfi", "prmt", "lop3", "shf.l.wrap", "shf.r.wrap",
        "shf.l.clamp", "shf.r.clamp", "cvta.global", "cvta.to.global", "cvta.shared", "cvta.to.shared", "cvta.const",
        "cvta.to.const", "sin.approx", "ex2.approx", "lg2.approx", "sad", "mul24.lo", "cnot",
    ];
    let mut names: Vec<String> =
        stems.iter().flat_map(|stem| TYPES.iter().map(move |kind| format!("{stem}.{kind}"))).collect();
    for mode in ["", "rn.", "rz.", "rm.", "rp.", "rni.", "rzi.", "rmi.", "rpi.", "sat.", "rn.sat."] {
        for to in TYPES {
            names.extend(TYPES.iter().map(|from| format!("cvt.{mode}{to}.{from}")));
        }
    }
    names
}

#[test]
fn every_form_agrees_with_the_model() {
    let mut known = 0;
    for mnemonic in mnemonics() {
        let Some(form) = arithmetic(&mnemonic) else { continue };
        known += 1;
        if mnemonic.ends_with(".f64") && !mnemonic.starts_with("cvt.") {
            assert!(DOUBLES.iter().any(|(name, ..)| *name == mnemonic), "no hand-worked value for {mnemonic}");
            continue;
        }
        for batch in inputs(&form).chunks(WARP) {
            for (values, found) in batch.iter().zip(apply(&form, batch)) {
                match model(&mnemonic, values).unwrap_or_else(|| panic!("no model of {mnemonic}")) {
                    Answer::Open => {}
                    Answer::Bits(expected) => {
                        assert_eq!(found, expected, "{mnemonic} of {values:x?}: {found:#x}, not {expected:#x}");
                    }
                }
            }
        }
    }
    assert!(known > 300, "only {known} forms were found");
}

/// Double precision by hand.
const DOUBLES: &[(&str, [f64; 3], u64)] = &[
    ("add.f64", [0.1, 0.2, 0.0], 0x3fd3_3333_3333_3334),
    ("add.rn.f64", [1.0, 1.110_223_024_625_156_5e-16, 0.0], 0x3ff0_0000_0000_0000), // 1 + 2^-53 ties to even
    ("add.rn.f64", [1.0, 1.110_223_024_625_156_8e-16, 0.0], 0x3ff0_0000_0000_0001), // a little more
    ("sub.f64", [1.0, 5.551_115_123_125_783e-17, 0.0], 0x3ff0_0000_0000_0000), // 1 - 2^-54 ties to even
    ("sub.rn.f64", [0.3, 0.1, 0.0], 0x3fc9_9999_9999_9999),
    ("mul.f64", [0.1, 10.0, 0.0], 0x3ff0_0000_0000_0000),
    ("mul.rn.f64", [5e-324, 0.5, 0.0], 0), // half the least subnormal ties to zero
    ("mul.rn.f64", [5e-324, 1.5, 0.0], 2), // one and a half of it ties to two
    ("mul.rn.f64", [f64::MAX, 2.0, 0.0], 0x7ff0_0000_0000_0000),
    ("fma.rn.f64", [0.1, 10.0, -1.0], 0x3c90_0000_0000_0000), // 2^-54, the rounding error of 0.1
    ("mad.rn.f64", [0.1, 10.0, -1.0], 0x3c90_0000_0000_0000),
    ("div.rn.f64", [1.0, 3.0, 0.0], 0x3fd5_5555_5555_5555),
    ("div.rn.f64", [2.2250738585072014e-308, 2.0, 0.0], 0x0008_0000_0000_0000), // into the subnormals
    ("rcp.rn.f64", [3.0, 0.0, 0.0], 0x3fd5_5555_5555_5555),
    ("rcp.rn.f64", [-0.0, 0.0, 0.0], 0xfff0_0000_0000_0000),
    ("sqrt.rn.f64", [2.0, 0.0, 0.0], 0x3ff6_a09e_667f_3bcd),
    ("neg.f64", [1.5, 0.0, 0.0], 0xbff8_0000_0000_0000),
    ("abs.f64", [-1.5, 0.0, 0.0], 0x3ff8_0000_0000_0000),
    ("copysign.f64", [-2.0, 1.5, 0.0], 0xbff8_0000_0000_0000),
    ("min.f64", [0.0, -0.0, 0.0], 0x8000_0000_0000_0000),
    ("min.f64", [f64::NAN, 1.5, 0.0], 0x3ff8_0000_0000_0000),
    ("max.f64", [-0.0, 0.0, 0.0], 0),
    ("max.f64", [1.5, f64::NAN, 0.0], 0x3ff8_0000_0000_0000),
    ("mov.f64", [1.5, 0.0, 0.0], 0x3ff8_0000_0000_0000),
];

#[test]
fn double_precision_gives_the_values_worked_by_hand() {
    for (mnemonic, values, expected) in DOUBLES {
        let form = arithmetic(mnemonic).unwrap_or_else(|| panic!("{mnemonic} exists"));
        let [a, b, c] = values.map(f64::to_bits);
        assert_eq!(apply(&form, &[[a, b, c, 0]]), [*expected], "{mnemonic} of {values:?}");
    }
}

#[test]
fn every_half_widens_exactly_and_every_boundary_between_halves_rounds_to_even() {
    let widen = arithmetic("cvt.f32.f16").expect("the form exists");
    let narrow = arithmetic("cvt.rn.f16.f32").expect("the form exists");
    let from_double = arithmetic("cvt.rn.f16.f64").expect("the form exists");
    for bits in 0..=0xffffu64 {
        let value = HALF.decode(bits);
        let single = SINGLE.encode(value);
        assert_eq!(apply(&widen, &[[bits, 0, 0, 0]]), [single], "{bits:#x}");
        // The half itself, the point midway to the next one, and the singles around that point.
        let next = SINGLE.encode(HALF.decode(bits ^ 1));
        let middle = u64::from((f32::from_bits(single as u32) * 0.5 + f32::from_bits(next as u32) * 0.5).to_bits());
        for near in [single, middle, middle.wrapping_sub(1) & 0xffff_ffff, (middle + 1) & 0xffff_ffff] {
            let expected = HALF.encode(SINGLE.decode(near));
            assert_eq!(apply(&narrow, &[[near, 0, 0, 0]]), [expected], "{near:#x}");
            let double = DOUBLE.encode(SINGLE.decode(near));
            assert_eq!(apply(&from_double, &[[double, 0, 0, 0]]), [expected], "{double:#x}");
        }
    }
}

#[test]
fn every_sixteen_bit_integer_converts() {
    for from in ["u16", "s16"] {
        for to in ["u8", "s8", "u32", "s32", "u64", "s64", "f16", "f32", "f64"] {
            let mode = if to.starts_with('f') { "rn." } else { "" };
            let mnemonic = format!("cvt.{mode}{to}.{from}");
            let form = arithmetic(&mnemonic).unwrap_or_else(|| panic!("{mnemonic} exists"));
            for bits in 0..=0xffffu64 {
                let Some(Answer::Bits(expected)) = model(&mnemonic, &[bits, 0, 0, 0]) else { panic!("{mnemonic}") };
                assert_eq!(apply(&form, &[[bits, 0, 0, 0]]), [expected], "{mnemonic} of {bits:#x}");
            }
        }
    }
}

/// The order of two values of a type, or none when either is NaN.
fn order(kind: &str, left: u64, right: u64) -> Option<std::cmp::Ordering> {
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

#[test]
fn every_comparison_agrees_with_the_model() {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let mut known = 0;
    for kind in TYPES {
        for operator in [
            "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
        ] {
            let Some(form) = comparison(operator, kind) else { continue };
            known += 1;
            let values = Format::of(kind).map_or_else(integers, floats);
            for &left in &values {
                for &right in &values {
                    let mask = form.source.mask();
                    let order = order(kind, left & mask, right & mask);
                    let expected = match operator {
                        "num" => order.is_some(),
                        "nan" => order.is_none(),
                        "eq" => order == Some(Equal),
                        "ne" => order.is_some_and(|order| order != Equal),
                        "lt" | "lo" => order == Some(Less),
                        "le" | "ls" => matches!(order, Some(Less | Equal)),
                        "gt" | "hi" => order == Some(Greater),
                        "ge" | "hs" => matches!(order, Some(Greater | Equal)),
                        "equ" => order.is_none_or(|order| order == Equal),
                        "neu" => order != Some(Equal),
                        "ltu" => order.is_none_or(|order| order == Less),
                        "leu" => order.is_none_or(|order| order != Greater),
                        "gtu" => order.is_none_or(|order| order == Greater),
                        "geu" => order.is_none_or(|order| order != Less),
                        _ => unreachable!("the list above"),
                    };
                    let bits = (form.function)(&[left & mask; WARP], &[right & mask; WARP]);
                    assert_eq!(bits, if expected { u32::MAX } else { 0 }, "{operator}.{kind} of {left:#x} and {right:#x}");
                }
            }
        }
    }
    // Six for each integer type, four more spellings for unsigned ones, two for untyped ones, fourteen for floats.
    assert_eq!(known, 6 * 6 + 3 * 4 + 3 * 2 + 2 * 14);
}
