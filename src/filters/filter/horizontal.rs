//! The horizontal filter of a strip: input rows are prepared (split into the rows that its phases read), and prepared
//! rows are summed along x.

use smallvec::SmallVec;

use crate::loops::memory_access::{Rows, Stores};
use crate::loops::{Reading, Writing};
use crate::plan::strip::{Strip, Terms};
use firelu_core::dtype::{Compute, Element};

/// Splits the columns inside, of which `source` points to the first, into prepared rows.
///
/// # Safety
/// The level of the loops was detected, the columns inside are readable, and each prepared row holds
/// `strip.prepared_length()` elements.
pub unsafe fn split<S: Element>(
    strip: &Strip,
    loops: &Reading<S>,
    source: *const S,
    prepared: *mut S::Compute,
    rows: Rows,
    stores: Stores,
) {
    let one = [S::Compute::from_f64(1.0)];
    // SAFETY: the caller's promise; each column goes to the place that the strip gives it.
    unsafe {
        if strip.is_plain() {
            let target = prepared.add(strip.inside_offset());
            return (loops.sum)(&[source], &one, target, strip.inside_length(), rows, stores);
        }
        let columns = strip.split_columns();
        if strip.pixel == 1 {
            let prefetch = if let Stores::CachedPrefetchingSources(prefetch) = stores { Some(prefetch) } else { None };
            return (loops.split)(&columns, source, prepared, rows, prefetch);
        }
        let (step, pixel) = (columns.step, strip.pixel);
        let (from_step, to_step) = (step * pixel * size_of::<S>(), pixel * size_of::<S::Compute>());
        for row in 0..rows.count as isize {
            let source = source.wrapping_byte_offset(row * rows.source);
            let prepared = prepared.wrapping_byte_offset(row * rows.target);
            for column in columns.start..columns.end.min(columns.start + step) {
                let from = source.add((column - columns.start) * pixel);
                let to = prepared.add(column % step * columns.pitch + column / step * pixel);
                let count = (columns.end - column).div_ceil(step);
                let pixels = Rows { count, source: from_step as isize, target: to_step as isize };
                (loops.sum)(&[from], &one, to, pixel, pixels, Stores::Cached);
            }
        }
    }
}

/// Writes the strip's outputs of some rows.
///
/// # Safety
/// The level of the loops was detected, the terms' rows are prepared, the strip's columns are writable at the target, and
/// `spare` holds `strip.output_length()` elements.
pub unsafe fn write<D: Element>(
    strip: &Strip,
    (loops, between): (&Writing<D>, &Writing<D::Compute>),
    terms: &Terms<D::Compute>,
    (target, spare): (*mut D, *mut D::Compute),
    rows: Rows,
    stores: Stores,
) {
    let all = (&terms.sources[..], &terms.taps[..], &terms.bounds[..]);
    let width = strip.columns.len();
    // SAFETY: the caller's promise; prepared rows have the slack that reading past the end needs.
    unsafe {
        match strip.phases {
            1 => (loops.sum)(all.0, all.1, target, width * strip.pixel, rows, stores),
            phases @ 2..=4 if strip.pixel == 1 && !terms.gaps => {
                (loops.phases[phases - 2])(all, target, width, rows, stores)
            }
            _ => {
                for row in 0..rows.count as isize {
                    let target = target.wrapping_byte_offset(row * rows.target);
                    write_apart(strip, (loops, between), terms, row * rows.source, (target, spare));
                }
            }
        }
    }
}

/// Any number of phases, from rows so many bytes on: pixels one by one, or single elements by way of spare memory.
unsafe fn write_apart<D: Element>(
    strip: &Strip,
    (loops, between): (&Writing<D>, &Writing<D::Compute>),
    terms: &Terms<D::Compute>,
    moved: isize,
    (target, spare): (*mut D, *mut D::Compute),
) {
    let mut start = 0;
    for (phase, &end) in terms.bounds.iter().enumerate() {
        let taps = &terms.taps[start..end];
        let count = (strip.columns.len() - phase).div_ceil(strip.phases);
        let moved = terms.sources[start..end].iter().map(|source| source.wrapping_byte_offset(moved));
        let sources: SmallVec<[*const D::Compute; 32]> = moved.collect();
        // SAFETY: the promise of `write`.
        unsafe {
            if strip.pixel == 1 {
                (between.sum)(&sources, taps, spare, count, Rows::ONE, Stores::Cached);
                for q in 0..count {
                    let value = D::from_compute(spare.add(q).read());
                    target.add(q * strip.phases + phase).write_unaligned(value);
                }
            } else {
                // Pixels are rows of their own, each a period after the last.
                let width = (strip.pixel * size_of::<D::Compute>()) as isize;
                let step = (strip.phases * strip.pixel * size_of::<D>()) as isize;
                let rows = Rows { count, source: width, target: step };
                (loops.sum)(&sources, taps, target.add(phase * strip.pixel), strip.pixel, rows, Stores::Cached);
            }
        }
        start = end;
    }
}
