//! Strategies of property tests.

use firelu::DType;
use proptest::sample::{Select, select};

use crate::layouts::{Layout, READABLE, WRITABLE};

/// Any element type.
pub fn dtypes() -> Select<DType> {
    select(&DType::ALL[..])
}

/// Any layout of an input.
pub fn readable() -> Select<Layout> {
    select(&READABLE[..])
}

/// Any layout of an output.
pub fn writable() -> Select<Layout> {
    select(&WRITABLE[..])
}
