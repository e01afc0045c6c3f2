//! Every arithmetic form against an independent model; a form without a model fails the test.

#[path = "common/formats.rs"]
mod formats;
#[path = "common/model.rs"]
mod model;

use cuda_emulator::program::{Form, Lanes, WARP, arithmetic, comparison};
use formats::{DOUBLE, Format, HALF, SINGLE};
use model::{Answer, model, order};

const TYPES: [&str; 15] =
    ["b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "f32", "f64"];

/// Bit patterns worth trying in every integer position.
fn integers() -> Vec<u64> {
    let mut values = vec![
        0,
        1,
        2,
        3,
        7,
        8,
        15,
        16,
        31,
        32,
        33,
        63,
        64,
        65,
        0x7f,
        0x80,
        0xff,
        0x100,
        0x7fff,
        0x8000,
        0xffff,
        0x1_0000,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x1_0000_0000,
        u64::MAX / 2,
        u64::MAX / 2 + 1,
        u64::MAX,
        u64::MAX - 1,
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
    for exponent in [
        0,
        1,
        2,
        bias / 2,
        bias - 2,
        bias - 1,
        bias,
        bias + 1,
        bias + format.fraction as u64,
        2 * bias - 1,
        2 * bias,
        2 * bias + 1,
    ] {
        for fraction in
            [0, 1, (1 << format.fraction) - 1, 1 << (format.fraction - 1), 0x2a & ((1 << format.fraction) - 1)]
        {
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
    (0..total)
        .step_by(step)
        .map(|mut index| {
            let mut values = [0; 4];
            for (value, list) in values.iter_mut().zip(&lists) {
                *value = list[index % list.len()];
                index /= list.len();
            }
            values
        })
        .collect()
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

fn mnemonics() -> Vec<String> {
    let stems = [
        "add",
        "sub",
        "mul",
        "add.rn",
        "sub.rn",
        "mul.rn",
        "add.sat",
        "sub.sat",
        "mul.sat",
        "add.rn.sat",
        "sub.rn.sat",
        "mul.rn.sat",
        "add.rz",
        "add.ftz",
        "mul.lo",
        "mul.hi",
        "mul.wide",
        "mad.lo",
        "mad.hi",
        "mad.wide",
        "mad",
        "mad.rn",
        "fma",
        "fma.rn",
        "fma.rn.sat",
        "fma.rz",
        "div",
        "div.rn",
        "div.approx",
        "rem",
        "rcp.rn",
        "rcp.approx",
        "sqrt.rn",
        "sqrt.approx",
        "rsqrt.approx",
        "min",
        "max",
        "and",
        "or",
        "xor",
        "not",
        "mov",
        "shl",
        "shr",
        "neg",
        "abs",
        "copysign",
        "popc",
        "clz",
        "brev",
        "bfind",
        "bfe",
        "bfi",
        "prmt",
        "lop3",
        "shf.l.wrap",
        "shf.r.wrap",
        "shf.l.clamp",
        "shf.r.clamp",
        "cvta.global",
        "cvta.to.global",
        "cvta.shared",
        "cvta.to.shared",
        "cvta.const",
        "cvta.to.const",
        "sin.approx",
        "ex2.approx",
        "lg2.approx",
        "sad",
        "mul24.lo",
        "cnot",
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
    ("sub.f64", [1.0, 5.551_115_123_125_783e-17, 0.0], 0x3ff0_0000_0000_0000),      // 1 - 2^-54 ties to even
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

#[test]
fn every_comparison_agrees_with_the_model() {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let mut known = 0;
    for kind in TYPES {
        for operator in [
            "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu",
            "num", "nan",
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
                    assert_eq!(
                        bits,
                        if expected { u32::MAX } else { 0 },
                        "{operator}.{kind} of {left:#x} and {right:#x}"
                    );
                }
            }
        }
    }
    // Six for each integer type, four more spellings for unsigned ones, two for untyped ones, fourteen for floats.
    assert_eq!(known, 6 * 6 + 3 * 4 + 3 * 2 + 2 * 14);
}
