//! Floating-point arithmetic in round-to-nearest-even, with the device's canonical NaN.
//!
//! Approximate instructions (`.approx`, `.full`) and flush-to-zero are absent: their bits depend on the chip.

use super::{Form, Lane, Lanes, Sources, WARP, form};

/// Single-precision results that are NaN lose their payload on the device. On bits, because a compiler is free to
/// choose the payload of a NaN that it can see coming from arithmetic.
#[inline(always)]
pub(super) fn canonical(value: f32) -> u32 {
    let bits = value.to_bits();
    if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fff_ffff } else { bits }
}

/// `.sat`: to [0, 1], NaN to 0.
#[inline(always)]
pub(super) fn saturate(value: f32) -> f32 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}

macro_rules! minimum {
    ($a:ident, $b:ident, $lower:expr) => {
        match ($a.is_nan(), $b.is_nan()) {
            (true, _) => $b,
            (_, true) => $a,
            // Equal values differ at most in the sign of zero.
            _ if $a == $b => {
                if $a.is_sign_negative() == $lower {
                    $a
                } else {
                    $b
                }
            }
            _ => {
                if ($a < $b) == $lower {
                    $a
                } else {
                    $b
                }
            }
        }
    };
}

pub(super) fn lookup(mnemonic: &str) -> Option<Form> {
    Some(match mnemonic {
        "add.f32" | "add.rn.f32" => form!(|a: f32, b: f32| -> u32 { canonical(a + b) }),
        "sub.f32" | "sub.rn.f32" => form!(|a: f32, b: f32| -> u32 { canonical(a - b) }),
        "mul.f32" | "mul.rn.f32" => form!(|a: f32, b: f32| -> u32 { canonical(a * b) }),
        "add.sat.f32" | "add.rn.sat.f32" => form!(|a: f32, b: f32| -> f32 { saturate(a + b) }),
        "sub.sat.f32" | "sub.rn.sat.f32" => form!(|a: f32, b: f32| -> f32 { saturate(a - b) }),
        "mul.sat.f32" | "mul.rn.sat.f32" => form!(|a: f32, b: f32| -> f32 { saturate(a * b) }),
        "fma.rn.f32" | "mad.rn.f32" => form!(|a: f32, b: f32, c: f32| -> u32 { canonical(a.mul_add(b, c)) }),
        "fma.rn.sat.f32" => form!(|a: f32, b: f32, c: f32| -> f32 { saturate(a.mul_add(b, c)) }),
        "div.rn.f32" => form!(|a: f32, b: f32| -> u32 { canonical(a / b) }),
        "rcp.rn.f32" => form!(|a: f32| -> u32 { canonical(1.0 / a) }),
        "sqrt.rn.f32" => form!(|a: f32| -> u32 { canonical(a.sqrt()) }),
        "neg.f32" => form!(|a: u32| -> u32 { a ^ 0x8000_0000 }),
        "abs.f32" => form!(|a: u32| -> u32 { a & 0x7fff_ffff }),
        "copysign.f32" => form!(|a: u32, b: u32| -> u32 { (b & 0x7fff_ffff) | (a & 0x8000_0000) }),
        "min.f32" => form!(|a: f32, b: f32| -> u32 { canonical(minimum!(a, b, true)) }),
        "max.f32" => form!(|a: f32, b: f32| -> u32 { canonical(minimum!(a, b, false)) }),
        "mov.f32" => form!(|a: f32| -> f32 { a }),
        "add.f64" | "add.rn.f64" => form!(|a: f64, b: f64| -> f64 { a + b }),
        "sub.f64" | "sub.rn.f64" => form!(|a: f64, b: f64| -> f64 { a - b }),
        "mul.f64" | "mul.rn.f64" => form!(|a: f64, b: f64| -> f64 { a * b }),
        "fma.rn.f64" | "mad.rn.f64" => form!(|a: f64, b: f64, c: f64| -> f64 { a.mul_add(b, c) }),
        "div.rn.f64" => form!(|a: f64, b: f64| -> f64 { a / b }),
        "rcp.rn.f64" => form!(|a: f64| -> f64 { 1.0 / a }),
        "sqrt.rn.f64" => form!(|a: f64| -> f64 { a.sqrt() }),
        "neg.f64" => form!(|a: u64| -> u64 { a ^ (1 << 63) }),
        "abs.f64" => form!(|a: u64| -> u64 { a & !(1 << 63) }),
        "copysign.f64" => form!(|a: u64, b: u64| -> u64 { (b & !(1 << 63)) | (a & (1 << 63)) }),
        "min.f64" => form!(|a: f64, b: f64| -> f64 { minimum!(a, b, true) }),
        "max.f64" => form!(|a: f64, b: f64| -> f64 { minimum!(a, b, false) }),
        "mov.f64" => form!(|a: f64| -> f64 { a }),
        _ => return None,
    })
}
