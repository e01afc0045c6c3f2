//! Integer arithmetic, logic, shifts and bit fields.

use super::{Form, Lane, Lanes, SHARED_WINDOW, Sources, WARP, form};

/// The same body for every integer type of two bytes or more.
macro_rules! integers {
    ($suffix:expr, |$a:ident| $body:block) => {
        match $suffix {
            "u16" => form!(|$a: u16| -> u16 $body),
            "s16" => form!(|$a: i16| -> i16 $body),
            "u32" => form!(|$a: u32| -> u32 $body),
            "s32" => form!(|$a: i32| -> i32 $body),
            "u64" => form!(|$a: u64| -> u64 $body),
            "s64" => form!(|$a: i64| -> i64 $body),
            _ => return None,
        }
    };
    ($suffix:expr, |$a:ident, $b:ident| $body:block) => {
        match $suffix {
            "u16" => form!(|$a: u16, $b: u16| -> u16 $body),
            "s16" => form!(|$a: i16, $b: i16| -> i16 $body),
            "u32" => form!(|$a: u32, $b: u32| -> u32 $body),
            "s32" => form!(|$a: i32, $b: i32| -> i32 $body),
            "u64" => form!(|$a: u64, $b: u64| -> u64 $body),
            "s64" => form!(|$a: i64, $b: i64| -> i64 $body),
            _ => return None,
        }
    };
    ($suffix:expr, |$a:ident, $b:ident, $c:ident| $body:block) => {
        match $suffix {
            "u16" => form!(|$a: u16, $b: u16, $c: u16| -> u16 $body),
            "s16" => form!(|$a: i16, $b: i16, $c: i16| -> i16 $body),
            "u32" => form!(|$a: u32, $b: u32, $c: u32| -> u32 $body),
            "s32" => form!(|$a: i32, $b: i32, $c: i32| -> i32 $body),
            "u64" => form!(|$a: u64, $b: u64, $c: u64| -> u64 $body),
            "s64" => form!(|$a: i64, $b: i64, $c: i64| -> i64 $body),
            _ => return None,
        }
    };
}

/// The same body for every untyped width.
macro_rules! bits {
    ($suffix:expr, |$a:ident| $body:block) => {
        match $suffix {
            "b16" => form!(|$a: u16| -> u16 $body),
            "b32" => form!(|$a: u32| -> u32 $body),
            "b64" => form!(|$a: u64| -> u64 $body),
            _ => return None,
        }
    };
    ($suffix:expr, |$a:ident, $b:ident| $body:block) => {
        match $suffix {
            "b16" => form!(|$a: u16, $b: u16| -> u16 $body),
            "b32" => form!(|$a: u32, $b: u32| -> u32 $body),
            "b64" => form!(|$a: u64, $b: u64| -> u64 $body),
            _ => return None,
        }
    };
}

/// The upper half of a product, by way of 128 bits.
trait MultiplyHigh {
    fn multiply_high(self, other: Self) -> Self;
}

macro_rules! multiply_high {
    ($($kind:ty, $wide:ty);*) => {$(
        impl MultiplyHigh for $kind {
            #[inline(always)]
            fn multiply_high(self, other: Self) -> Self {
                ((self as $wide * other as $wide) >> <$kind>::BITS) as $kind
            }
        }
    )*};
}
multiply_high!(u16, u32; i16, i32; u32, u64; i32, i64; u64, u128; i64, i128);

fn dividing(form: Form) -> Form {
    Form { divides: true, ..form }
}

pub(super) fn lookup(mnemonic: &str) -> Option<Form> {
    let (stem, suffix) = mnemonic.rsplit_once('.')?;
    Some(match stem {
        "add" => integers!(suffix, |a, b| { a.wrapping_add(b) }),
        "sub" => integers!(suffix, |a, b| { a.wrapping_sub(b) }),
        "mul.lo" => integers!(suffix, |a, b| { a.wrapping_mul(b) }),
        "mul.hi" => integers!(suffix, |a, b| { a.multiply_high(b) }),
        "mad.lo" => integers!(suffix, |a, b, c| { a.wrapping_mul(b).wrapping_add(c) }),
        "mad.hi" => integers!(suffix, |a, b, c| { a.multiply_high(b).wrapping_add(c) }),
        // Hardware answers a division by zero with all ones; the machine reports it.
        "div" => dividing(integers!(suffix, |a, b| { if b == 0 { !0 } else { a.wrapping_div(b) } })),
        "rem" => dividing(integers!(suffix, |a, b| { if b == 0 { a } else { a.wrapping_rem(b) } })),
        "min" => integers!(suffix, |a, b| { a.min(b) }),
        "max" => integers!(suffix, |a, b| { a.max(b) }),
        "and" => bits!(suffix, |a, b| { a & b }),
        "or" => bits!(suffix, |a, b| { a | b }),
        "xor" => bits!(suffix, |a, b| { a ^ b }),
        "not" => bits!(suffix, |a| { !a }),
        "mov" if matches!(suffix, "u16" | "s16" | "u32" | "s32" | "u64" | "s64") => integers!(suffix, |a| { a }),
        "mov" if suffix.starts_with('b') => bits!(suffix, |a| { a }),
        "shl" => match suffix {
            "b16" => form!(|a: u16, n: u32| -> u16 { a.checked_shl(n).unwrap_or(0) }),
            "b32" => form!(|a: u32, n: u32| -> u32 { a.checked_shl(n).unwrap_or(0) }),
            "b64" => form!(|a: u64, n: u32| -> u64 { a.checked_shl(n).unwrap_or(0) }),
            _ => return None,
        },
        "shr" => match suffix {
            "u16" | "b16" => form!(|a: u16, n: u32| -> u16 { a.checked_shr(n).unwrap_or(0) }),
            "u32" | "b32" => form!(|a: u32, n: u32| -> u32 { a.checked_shr(n).unwrap_or(0) }),
            "u64" | "b64" => form!(|a: u64, n: u32| -> u64 { a.checked_shr(n).unwrap_or(0) }),
            "s16" => form!(|a: i16, n: u32| -> i16 { a >> n.min(15) }),
            "s32" => form!(|a: i32, n: u32| -> i32 { a >> n.min(31) }),
            "s64" => form!(|a: i64, n: u32| -> i64 { a >> n.min(63) }),
            _ => return None,
        },
        "neg" => match suffix {
            "s16" => form!(|a: i16| -> i16 { a.wrapping_neg() }),
            "s32" => form!(|a: i32| -> i32 { a.wrapping_neg() }),
            "s64" => form!(|a: i64| -> i64 { a.wrapping_neg() }),
            _ => return None,
        },
        "abs" => match suffix {
            "s16" => form!(|a: i16| -> i16 { a.wrapping_abs() }),
            "s32" => form!(|a: i32| -> i32 { a.wrapping_abs() }),
            "s64" => form!(|a: i64| -> i64 { a.wrapping_abs() }),
            _ => return None,
        },
        _ => return special(mnemonic),
    })
}

/// Forms that exist for few types.
fn special(mnemonic: &str) -> Option<Form> {
    Some(match mnemonic {
        "add.sat.s32" => form!(|a: i32, b: i32| -> i32 { a.saturating_add(b) }),
        "sub.sat.s32" => form!(|a: i32, b: i32| -> i32 { a.saturating_sub(b) }),
        "mul.wide.u16" => form!(|a: u16, b: u16| -> u32 { u32::from(a) * u32::from(b) }),
        "mul.wide.s16" => form!(|a: i16, b: i16| -> i32 { i32::from(a) * i32::from(b) }),
        "mul.wide.u32" => form!(|a: u32, b: u32| -> u64 { u64::from(a) * u64::from(b) }),
        "mul.wide.s32" => form!(|a: i32, b: i32| -> i64 { i64::from(a) * i64::from(b) }),
        "mad.wide.u16" => form!(|a: u16, b: u16, c: u32| -> u32 { (u32::from(a) * u32::from(b)).wrapping_add(c) }),
        "mad.wide.s16" => form!(|a: i16, b: i16, c: i32| -> i32 { (i32::from(a) * i32::from(b)).wrapping_add(c) }),
        "mad.wide.u32" => form!(|a: u32, b: u32, c: u64| -> u64 { (u64::from(a) * u64::from(b)).wrapping_add(c) }),
        "mad.wide.s32" => form!(|a: i32, b: i32, c: i64| -> i64 { (i64::from(a) * i64::from(b)).wrapping_add(c) }),
        "popc.b32" => form!(|a: u32| -> u32 { a.count_ones() }),
        "popc.b64" => form!(|a: u64| -> u32 { a.count_ones() }),
        "clz.b32" => form!(|a: u32| -> u32 { a.leading_zeros() }),
        "clz.b64" => form!(|a: u64| -> u32 { a.leading_zeros() }),
        "brev.b32" => form!(|a: u32| -> u32 { a.reverse_bits() }),
        "brev.b64" => form!(|a: u64| -> u64 { a.reverse_bits() }),
        "bfe.u32" => {
            form!(|a: u32, position: u32, length: u32| -> u32 { extract(a.into(), false, 32, position, length) as u32 })
        }
        "bfe.s32" => {
            form!(|a: i32, position: u32, length: u32| -> i32 { extract(a as u64, true, 32, position, length) as i32 })
        }
        "bfe.u64" => form!(|a: u64, position: u32, length: u32| -> u64 { extract(a, false, 64, position, length) }),
        "bfe.s64" => {
            form!(|a: i64, position: u32, length: u32| -> i64 { extract(a as u64, true, 64, position, length) as i64 })
        }
        "bfi.b32" => form!(|a: u32, b: u32, position: u32, length: u32| -> u32 {
            insert(a.into(), b.into(), position, length) as u32
        }),
        "bfi.b64" => form!(|a: u64, b: u64, position: u32, length: u32| -> u64 { insert(a, b, position, length) }),
        "prmt.b32" => form!(|a: u32, b: u32, selector: u32| -> u32 { permute(a, b, selector) }),
        "lop3.b32" => form!(|a: u32, b: u32, c: u32, table: u32| -> u32 {
            let bit = |index: u32| if table >> index & 1 == 1 { u32::MAX } else { 0 };
            (bit(0) & !a & !b & !c)
                | (bit(1) & !a & !b & c)
                | (bit(2) & !a & b & !c)
                | (bit(3) & !a & b & c)
                | (bit(4) & a & !b & !c)
                | (bit(5) & a & !b & c)
                | (bit(6) & a & b & !c)
                | (bit(7) & a & b & c)
        }),
        // The funnel is high:low = b:a; `l` answers the high word, `r` the low one.
        "shf.l.wrap.b32" => form!(|a: u32, b: u32, n: u32| -> u32 { ((join(a, b) << (n & 31)) >> 32) as u32 }),
        "shf.r.wrap.b32" => form!(|a: u32, b: u32, n: u32| -> u32 { (join(a, b) >> (n & 31)) as u32 }),
        "shf.l.clamp.b32" => form!(|a: u32, b: u32, n: u32| -> u32 { ((join(a, b) << n.min(32)) >> 32) as u32 }),
        "shf.r.clamp.b32" => form!(|a: u32, b: u32, n: u32| -> u32 { (join(a, b) >> n.min(32)) as u32 }),
        // Global and generic addresses coincide; shared ones sit in a window of their own.
        "cvta.global.u64" | "cvta.to.global.u64" | "cvta.const.u64" | "cvta.to.const.u64" => {
            form!(|a: u64| -> u64 { a })
        }
        "cvta.shared.u64" => form!(|a: u64| -> u64 { a.wrapping_add(SHARED_WINDOW) }),
        "cvta.to.shared.u64" => form!(|a: u64| -> u64 { a.wrapping_sub(SHARED_WINDOW) }),
        _ => return None,
    })
}

fn join(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// `bfe`: bits beyond the value repeat the sign of the last bit taken, or are zero when unsigned.
fn extract(value: u64, signed: bool, bits: u32, position: u32, length: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    let bit = |index: u32| value >> index.min(63) & 1;
    let fill = signed && length != 0 && bit((position + length - 1).min(bits - 1)) == 1;
    (0..bits).fold(0, |result, index| {
        let inside = index < length && position + index < bits;
        let set = if inside { bit(position + index) == 1 } else { fill };
        result | u64::from(set) << index
    })
}

/// `bfi`: the low bits of `a` replace a field of `b`.
fn insert(a: u64, b: u64, position: u32, length: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    let field = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
    let mask = field.checked_shl(position).unwrap_or(0);
    (b & !mask) | (a.checked_shl(position).unwrap_or(0) & mask)
}

/// `prmt` in its default mode: each selector nibble names a byte, its top bit asks for the byte's sign.
fn permute(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = join(a, b).to_le_bytes();
    let pick = |index: u32| {
        let nibble = selector >> (4 * index) & 0xf;
        let byte = bytes[(nibble & 7) as usize];
        if nibble & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 }
    };
    u32::from_le_bytes([pick(0), pick(1), pick(2), pick(3)])
}
