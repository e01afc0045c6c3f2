//! The comparisons of `setp` and `set`.

use super::{Lane, Lanes, WARP};
use crate::ptx::Type;

/// A comparison of two registers into one bit per lane.
#[derive(Clone, Copy)]
pub struct Comparison {
    /// Compares every lane.
    pub function: fn(&Lanes, &Lanes) -> u32,
    /// Type of both sources.
    pub source: Type,
}

macro_rules! compare {
    (|$a:ident, $b:ident: $kind:ty| $body:expr) => {{
        fn apply(left: &Lanes, right: &Lanes) -> u32 {
            let mut bits = 0;
            for lane in 0..WARP {
                let $a = <$kind as Lane>::read(left[lane]);
                let $b = <$kind as Lane>::read(right[lane]);
                bits |= u32::from($body) << lane;
            }
            bits
        }
        Comparison { function: apply, source: <$kind as Lane>::TYPE }
    }};
}

macro_rules! integers {
    ($operator:expr, $kind:ty) => {
        match $operator {
            "eq" => compare!(|a, b: $kind| a == b),
            "ne" => compare!(|a, b: $kind| a != b),
            "lt" => compare!(|a, b: $kind| a < b),
            "le" => compare!(|a, b: $kind| a <= b),
            "gt" => compare!(|a, b: $kind| a > b),
            "ge" => compare!(|a, b: $kind| a >= b),
            _ => return None,
        }
    };
}

macro_rules! bits {
    ($operator:expr, $kind:ty) => {
        match $operator {
            "eq" => compare!(|a, b: $kind| a == b),
            "ne" => compare!(|a, b: $kind| a != b),
            _ => return None,
        }
    };
}

macro_rules! floats {
    ($operator:expr, $kind:ty) => {
        match $operator {
            "eq" => compare!(|a, b: $kind| a == b),
            // Ordered: false when either is NaN, unlike the operator of most languages.
            "ne" => compare!(|a, b: $kind| a != b && !a.is_nan() && !b.is_nan()),
            "lt" => compare!(|a, b: $kind| a < b),
            "le" => compare!(|a, b: $kind| a <= b),
            "gt" => compare!(|a, b: $kind| a > b),
            "ge" => compare!(|a, b: $kind| a >= b),
            "equ" => compare!(|a, b: $kind| a == b || a.is_nan() || b.is_nan()),
            "neu" => compare!(|a, b: $kind| a != b),
            "ltu" => compare!(|a, b: $kind| a < b || a.is_nan() || b.is_nan()),
            "leu" => compare!(|a, b: $kind| a <= b || a.is_nan() || b.is_nan()),
            "gtu" => compare!(|a, b: $kind| a > b || a.is_nan() || b.is_nan()),
            "geu" => compare!(|a, b: $kind| a >= b || a.is_nan() || b.is_nan()),
            "num" => compare!(|a, b: $kind| !a.is_nan() && !b.is_nan()),
            "nan" => compare!(|a, b: $kind| a.is_nan() || b.is_nan()),
            _ => return None,
        }
    };
}

/// Finds the comparison of an operator and a source type.
pub fn comparison(operator: &str, kind: &str) -> Option<Comparison> {
    // Old spellings of the unsigned comparisons.
    let operator = match (operator, kind.starts_with('u')) {
        ("lo", true) => "lt",
        ("ls", true) => "le",
        ("hi", true) => "gt",
        ("hs", true) => "ge",
        _ => operator,
    };
    Some(match kind {
        "u16" => integers!(operator, u16),
        "s16" => integers!(operator, i16),
        "u32" => integers!(operator, u32),
        "s32" => integers!(operator, i32),
        "u64" => integers!(operator, u64),
        "s64" => integers!(operator, i64),
        "b16" => bits!(operator, u16),
        "b32" => bits!(operator, u32),
        "b64" => bits!(operator, u64),
        "f32" => floats!(operator, f32),
        "f64" => floats!(operator, f64),
        _ => return None,
    })
}
