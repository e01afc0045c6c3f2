//! Kernels of four by four taps that are not separable: input rows are loaded into registers, which are shifted into
//! each other.

#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use super::rows::{MOST_SOURCES, ShortRows};
use super::windows::Direct;
use super::writer::Writer;
use crate::loops::register::Access;
use firelu_core::dtype::Element;

/// Writes rows of planes, each summed from four input rows with sixteen taps.
///
/// # Safety
/// What holds for every [loop](crate::loops).
#[inline(always)]
pub unsafe fn write<T, R>(rows: &ShortRows<'_, T>, taps: &[R::Number])
where
    T: Element<Compute = R::Number>,
    R: Access<T>,
{
    debug_assert_eq!((rows.pixel, rows.sources.len(), taps.len()), (1, 4, 16));
    // SAFETY: the caller's promise.
    unsafe {
        let mut registers = [[R::splat(taps[0]); 4]; 4];
        for (register, &tap) in registers.as_flattened_mut().iter_mut().zip(taps) {
            *register = R::splat(tap);
        }
        let (taps, pitch) = (&registers, rows.pitch());
        // With fewer registers taps would be loaded for every product.
        let together = if R::MANY && rows.rows.source == pitch { rows.together(4) } else { 0 };
        if together > 0 {
            let windows = Direct::<T, R, 7, 4> { first: rows.sources[0], pitch, taps };
            Writer::<T, 4>::new(&rows.before(together)).all([windows; 2]);
        }
        let mut sources = [rows.sources[0]; MOST_SOURCES];
        let rows = rows.after(together, &mut sources);
        let windows = Direct::<T, R, 4, 4> { first: rows.sources[0], pitch, taps };
        Writer::<T, 1>::new(&rows).all([windows; 2]);
    }
}
