//! `cvt`: between integers, between floats, and across, in every rounding the toolchains emit.

use super::float::{canonical, saturate};
use super::{Form, Lane, Lanes, Sources, WARP, form};
use half::f16;

/// Clamps an integer of any type into another; two's complement through 128 bits.
macro_rules! clamp {
    ($value:expr, $to:ty) => {
        ($value as i128).clamp(<$to>::MIN as i128, <$to>::MAX as i128) as $to
    };
}

macro_rules! from_integer {
    ($to:expr, $from:ty, $saturating:expr) => {
        match ($to, $saturating) {
            ("u8", false) => form!(|a: $from| -> u8 { a as u8 }),
            ("s8", false) => form!(|a: $from| -> i8 { a as i8 }),
            ("u16", false) => form!(|a: $from| -> u16 { a as u16 }),
            ("s16", false) => form!(|a: $from| -> i16 { a as i16 }),
            ("u32", false) => form!(|a: $from| -> u32 { a as u32 }),
            ("s32", false) => form!(|a: $from| -> i32 { a as i32 }),
            ("u64", false) => form!(|a: $from| -> u64 { a as u64 }),
            ("s64", false) => form!(|a: $from| -> i64 { a as i64 }),
            ("u8", true) => form!(|a: $from| -> u8 { clamp!(a, u8) }),
            ("s8", true) => form!(|a: $from| -> i8 { clamp!(a, i8) }),
            ("u16", true) => form!(|a: $from| -> u16 { clamp!(a, u16) }),
            ("s16", true) => form!(|a: $from| -> i16 { clamp!(a, i16) }),
            ("u32", true) => form!(|a: $from| -> u32 { clamp!(a, u32) }),
            ("s32", true) => form!(|a: $from| -> i32 { clamp!(a, i32) }),
            ("u64", true) => form!(|a: $from| -> u64 { clamp!(a, u64) }),
            ("s64", true) => form!(|a: $from| -> i64 { clamp!(a, i64) }),
            _ => return None,
        }
    };
}

macro_rules! from_float {
    ($to:expr, $from:ty, $round:expr) => {{
        // Rust's `as` clamps and sends NaN to zero, as the device does.
        match $to {
            "u8" => form!(|a: $from| -> u8 { $round(f64::from(a)) as u8 }),
            "s8" => form!(|a: $from| -> i8 { $round(f64::from(a)) as i8 }),
            "u16" => form!(|a: $from| -> u16 { $round(f64::from(a)) as u16 }),
            "s16" => form!(|a: $from| -> i16 { $round(f64::from(a)) as i16 }),
            "u32" => form!(|a: $from| -> u32 { $round(f64::from(a)) as u32 }),
            "s32" => form!(|a: $from| -> i32 { $round(f64::from(a)) as i32 }),
            "u64" => form!(|a: $from| -> u64 { $round(f64::from(a)) as u64 }),
            "s64" => form!(|a: $from| -> i64 { $round(f64::from(a)) as i64 }),
            _ => return None,
        }
    }};
}

macro_rules! rounding {
    ($mode:expr, $to:expr, $from:ty) => {
        match $mode {
            "rni" => from_float!($to, $from, f64::round_ties_even),
            "rzi" => from_float!($to, $from, f64::trunc),
            "rmi" => from_float!($to, $from, f64::floor),
            "rpi" => from_float!($to, $from, f64::ceil),
            _ => return None,
        }
    };
}

pub(super) fn lookup(mnemonic: &str) -> Option<Form> {
    let parts: Vec<&str> = mnemonic.strip_prefix("cvt.")?.split('.').collect();
    let form = match parts[..] {
        [to, from] => between_integers(to, from, false).or_else(|| widen(to, from))?,
        ["sat", "f32", "f32"] => form!(|a: f32| -> f32 { saturate(a) }),
        ["sat", to, from] => between_integers(to, from, true)?,
        ["rn", to, from] => rounded(to, from)?,
        [mode, to @ ("f32" | "f64"), from] if to == from => integral(mode, to)?,
        [mode, to, from] => match from {
            "f16" => rounding!(mode, to, f16),
            "f32" => rounding!(mode, to, f32),
            "f64" => rounding!(mode, to, f64),
            _ => return None,
        },
        _ => return None,
    };
    Some(Form { widens: true, ..form })
}

fn between_integers(to: &str, from: &str, saturating: bool) -> Option<Form> {
    Some(match from {
        "u8" => from_integer!(to, u8, saturating),
        "s8" => from_integer!(to, i8, saturating),
        "u16" => from_integer!(to, u16, saturating),
        "s16" => from_integer!(to, i16, saturating),
        "u32" => from_integer!(to, u32, saturating),
        "s32" => from_integer!(to, i32, saturating),
        "u64" => from_integer!(to, u64, saturating),
        "s64" => from_integer!(to, i64, saturating),
        _ => return None,
    })
}

/// Conversions to a wider float, which are exact but for the payload of NaN.
fn widen(to: &str, from: &str) -> Option<Form> {
    Some(match (to, from) {
        ("f32", "f16") => form!(|a: f16| -> u32 { canonical(a.to_f32()) }),
        ("f64", "f16") => form!(|a: f16| -> f64 { a.to_f64() }),
        ("f64", "f32") => form!(|a: f32| -> f64 { f64::from(a) }),
        _ => return None,
    })
}

/// As [`canonical`], for half precision.
#[inline(always)]
fn canonical_half(value: f16) -> u16 {
    let bits = value.to_bits();
    if bits & 0x7fff > 0x7c00 { 0x7fff } else { bits }
}

/// Round to nearest even into a float.
fn rounded(to: &str, from: &str) -> Option<Form> {
    Some(match (to, from) {
        ("f16", "f32") => form!(|a: f32| -> u16 { canonical_half(f16::from_f32(a)) }),
        ("f16", "f64") => form!(|a: f64| -> u16 { canonical_half(f16::from_f64(a)) }),
        ("f32", "f64") => form!(|a: f64| -> u32 { canonical(a as f32) }),
        ("f32", "u8") => form!(|a: u8| -> f32 { f32::from(a) }),
        ("f32", "s8") => form!(|a: i8| -> f32 { f32::from(a) }),
        ("f32", "u16") => form!(|a: u16| -> f32 { f32::from(a) }),
        ("f32", "s16") => form!(|a: i16| -> f32 { f32::from(a) }),
        ("f32", "u32") => form!(|a: u32| -> f32 { a as f32 }),
        ("f32", "s32") => form!(|a: i32| -> f32 { a as f32 }),
        ("f32", "u64") => form!(|a: u64| -> f32 { a as f32 }),
        ("f32", "s64") => form!(|a: i64| -> f32 { a as f32 }),
        ("f64", "u8") => form!(|a: u8| -> f64 { f64::from(a) }),
        ("f64", "s8") => form!(|a: i8| -> f64 { f64::from(a) }),
        ("f64", "u16") => form!(|a: u16| -> f64 { f64::from(a) }),
        ("f64", "s16") => form!(|a: i16| -> f64 { f64::from(a) }),
        ("f64", "u32") => form!(|a: u32| -> f64 { f64::from(a) }),
        ("f64", "s32") => form!(|a: i32| -> f64 { f64::from(a) }),
        ("f64", "u64") => form!(|a: u64| -> f64 { a as f64 }),
        ("f64", "s64") => form!(|a: i64| -> f64 { a as f64 }),
        // Every 16-bit integer is exact in single precision, so one rounding remains.
        ("f16", "u16") => form!(|a: u16| -> f16 { f16::from_f32(f32::from(a)) }),
        ("f16", "s16") => form!(|a: i16| -> f16 { f16::from_f32(f32::from(a)) }),
        ("f16", "u32") => form!(|a: u32| -> f16 { f16::from_f64(f64::from(a)) }),
        ("f16", "s32") => form!(|a: i32| -> f16 { f16::from_f64(f64::from(a)) }),
        _ => return None,
    })
}

/// Round a float to a whole number of the same type.
fn integral(mode: &str, kind: &str) -> Option<Form> {
    Some(match (mode, kind) {
        ("rni", "f32") => form!(|a: f32| -> f32 { a.round_ties_even() }),
        ("rzi", "f32") => form!(|a: f32| -> f32 { a.trunc() }),
        ("rmi", "f32") => form!(|a: f32| -> f32 { a.floor() }),
        ("rpi", "f32") => form!(|a: f32| -> f32 { a.ceil() }),
        ("rni", "f64") => form!(|a: f64| -> f64 { a.round_ties_even() }),
        ("rzi", "f64") => form!(|a: f64| -> f64 { a.trunc() }),
        ("rmi", "f64") => form!(|a: f64| -> f64 { a.floor() }),
        ("rpi", "f64") => form!(|a: f64| -> f64 { a.ceil() }),
        _ => return None,
    })
}
