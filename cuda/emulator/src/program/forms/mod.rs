//! What each arithmetic form means: the one place, looked up by the full mnemonic when a module is loaded.
//!
//! A form computes all 32 lanes of a warp at once; the machine keeps only the lanes that are active.
//! Every function is total: no input panics, whatever an inactive lane holds.

mod compare;
mod convert;
mod float;
mod integer;

pub use compare::{Comparison, comparison};

use crate::ptx::Type;
use half::f16;

/// Threads of a warp.
pub const WARP: usize = 32;

/// Where shared memory appears among generic addresses.
pub const SHARED_WINDOW: u64 = 0x6_0000_0000_0000;

/// One register of a warp: a value per lane, zero-extended from the register's width.
pub type Lanes = [u64; WARP];

/// Up to four source registers.
pub type Sources<'a> = [&'a Lanes; 4];

/// The meaning of one arithmetic instruction.
#[derive(Clone, Copy)]
pub struct Form {
    /// Computes every lane. Results narrower than 64 bits carry their sign; the writer masks them.
    pub function: fn(&Sources<'_>, &mut Lanes),
    /// Type of the destination.
    pub result: Type,
    /// Types of the sources.
    pub sources: &'static [Type],
    /// Whether registers may be wider than the types (`cvt`).
    pub widens: bool,
    /// Whether the second source divides an integer, so that zero must be reported.
    pub divides: bool,
}

/// Finds the form of a mnemonic with all its modifiers; `None` means unknown.
pub fn arithmetic(mnemonic: &str) -> Option<Form> {
    integer::lookup(mnemonic).or_else(|| float::lookup(mnemonic)).or_else(|| convert::lookup(mnemonic))
}

/// A Rust type that stands for a PTX type inside a 64-bit lane.
trait Lane: Copy {
    const TYPE: Type;
    fn read(bits: u64) -> Self;
    fn write(self) -> u64;
}

macro_rules! integer_lane {
    ($($rust:ty => $ptx:ident),*) => {$(
        impl Lane for $rust {
            const TYPE: Type = Type::$ptx;
            #[inline(always)]
            fn read(bits: u64) -> Self {
                bits as $rust
            }
            #[inline(always)]
            fn write(self) -> u64 {
                self as u64
            }
        }
    )*};
}
integer_lane!(u8 => U8, i8 => S8, u16 => U16, i16 => S16, u32 => U32, i32 => S32, u64 => U64, i64 => S64);

impl Lane for f16 {
    const TYPE: Type = Type::F16;
    #[inline(always)]
    fn read(bits: u64) -> Self {
        f16::from_bits(bits as u16)
    }
    #[inline(always)]
    fn write(self) -> u64 {
        self.to_bits().into()
    }
}

impl Lane for f32 {
    const TYPE: Type = Type::F32;
    #[inline(always)]
    fn read(bits: u64) -> Self {
        f32::from_bits(bits as u32)
    }
    #[inline(always)]
    fn write(self) -> u64 {
        self.to_bits().into()
    }
}

impl Lane for f64 {
    const TYPE: Type = Type::F64;
    #[inline(always)]
    fn read(bits: u64) -> Self {
        f64::from_bits(bits)
    }
    #[inline(always)]
    fn write(self) -> u64 {
        self.to_bits()
    }
}

/// Builds a [`Form`] from a closure over typed values.
macro_rules! form {
    (|$a:ident: $ta:ty| -> $result:ty $body:block) => {
        form!(|$a: $ta, _b: u8, _c: u8, _d: u8| -> $result $body; &[<$ta as Lane>::TYPE])
    };
    (|$a:ident: $ta:ty, $b:ident: $tb:ty| -> $result:ty $body:block) => {
        form!(|$a: $ta, $b: $tb, _c: u8, _d: u8| -> $result $body; &[<$ta as Lane>::TYPE, <$tb as Lane>::TYPE])
    };
    (|$a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty| -> $result:ty $body:block) => {
        form!(|$a: $ta, $b: $tb, $c: $tc, _d: u8| -> $result $body;
            &[<$ta as Lane>::TYPE, <$tb as Lane>::TYPE, <$tc as Lane>::TYPE])
    };
    (|$a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty, $d:ident: $td:ty| -> $result:ty $body:block) => {
        form!(|$a: $ta, $b: $tb, $c: $tc, $d: $td| -> $result $body;
            &[<$ta as Lane>::TYPE, <$tb as Lane>::TYPE, <$tc as Lane>::TYPE, <$td as Lane>::TYPE])
    };
    (|$a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty, $d:ident: $td:ty| -> $result:ty $body:block; $sources:expr) => {{
        fn apply(sources: &Sources<'_>, out: &mut Lanes) {
            for lane in 0..WARP {
                let $a = <$ta as Lane>::read(sources[0][lane]);
                let $b = <$tb as Lane>::read(sources[1][lane]);
                let $c = <$tc as Lane>::read(sources[2][lane]);
                let $d = <$td as Lane>::read(sources[3][lane]);
                out[lane] = <$result as Lane>::write($body);
            }
        }
        Form { function: apply, result: <$result as Lane>::TYPE, sources: $sources, widens: false, divides: false }
    }};
}
use form;
