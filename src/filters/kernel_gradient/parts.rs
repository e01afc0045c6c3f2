//! A strip as the kernel's gradient sees it: the parts of an output row that are multiplied one after the other, and how
//! outputs are split, or inputs repeated, for that.

use smallvec::{SmallVec, smallvec};
use std::ops::Range;

use crate::loops::memory_access::{Prefetch, Rows, Stores};
use crate::loops::products::Part;
use crate::loops::{Loops, Writing};
use crate::plan::strip::Strip;
use firelu_core::dtype::{Compute, Element};

/// Whether outputs can be multiplied as they stand, of all phases in turn: then each input is repeated instead, once
/// for each phase.
pub fn repeats(strip: &Strip) -> bool {
    strip.pixel == 1 && strip.step == 1 && matches!(strip.phases, 2 | 4)
}

/// Whether an output row is multiplied as it stands.
pub fn is_one_part(strip: &Strip) -> bool {
    strip.phases == 1 || repeats(strip)
}

/// The elements of a row of repeated inputs.
pub fn repeated_length(strip: &Strip) -> usize {
    (strip.columns.len() + (most_terms(strip) - 1) * strip.phases).next_multiple_of(16)
}

/// Which terms each phase has.
fn terms_of_phases(strip: &Strip) -> impl Iterator<Item = Range<usize>> {
    std::iter::once(0).chain(strip.bounds.iter().copied()).zip(&strip.bounds).map(|(start, &end)| start..end)
}

/// The most terms of a phase.
fn most_terms(strip: &Strip) -> usize {
    terms_of_phases(strip).map(|terms| terms.len()).max().unwrap_or(0).max(1)
}

/// The parts of an output row that are multiplied one after the other.
pub fn parts(strip: &Strip) -> SmallVec<[Part; 4]> {
    if repeats(strip) {
        let terms = 0..most_terms(strip);
        let taps = terms.clone().flat_map(|m| terms_of_phases(strip).map(move |phase| phase.start + m..phase.end));
        return smallvec![Part {
            count: strip.columns.len(),
            phases: strip.phases,
            offsets: terms.map(|m| m * strip.phases).collect(),
            taps: taps.map(|mut rest| rest.next().map(|term| strip.taps[term])).collect(),
        }];
    }
    let phase = |(phase, terms): (usize, Range<usize>)| Part {
        count: (strip.columns.len() - phase).div_ceil(strip.phases) * strip.pixel,
        phases: 1,
        offsets: SmallVec::from_slice(&strip.offsets[terms.clone()]),
        taps: strip.taps[terms].iter().copied().map(Some).collect(),
    };
    terms_of_phases(strip).enumerate().map(phase).collect()
}

/// Splits rows of outputs into the parts that are multiplied one after the other.
///
/// # Safety
/// The level of the loops was detected, the strip's columns are readable, and each row of `target` holds
/// `strip.output_length()`.
pub unsafe fn split_outputs<T: Element>(
    strip: &Strip,
    loops: &Loops<T>,
    source: *const T,
    target: *mut T::Compute,
    rows: Rows,
    prefetch: Option<Prefetch>,
) {
    let (one, pixel, phases) = ([T::Compute::from_f64(1.0)], strip.pixel, strip.phases);
    let width = strip.columns.len();
    // SAFETY: the caller's promise; phase starts and counts follow from the width.
    unsafe {
        if is_one_part(strip) {
            let stores = prefetch.map_or(Stores::Cached, Stores::CachedPrefetchingSources);
            return (loops.input.sum)(&[source], &one, target, width * pixel, rows, stores);
        }
        if pixel == 1 {
            return (loops.split_phases)((phases, width), source, target, rows, prefetch);
        }
        let (step, pitch) = (phases * pixel * size_of::<T>(), pixel * size_of::<T::Compute>());
        for row in 0..rows.count as isize {
            let source = source.wrapping_byte_offset(row * rows.source);
            let mut target = target.wrapping_byte_offset(row * rows.target);
            for phase in 0..phases {
                let count = (width - phase).div_ceil(phases);
                let pixels = Rows { count, source: step as isize, target: pitch as isize };
                (loops.input.sum)(&[source.add(phase * pixel)], &one, target, pixel, pixels, Stores::Cached);
                target = target.wrapping_add(count * pixel);
            }
        }
    }
}

/// Writes rows of repeated inputs from prepared rows: the first term of every output, the second so many places after it
/// as there are phases.
///
/// # Safety
/// The level of the loops was detected, and each row of `target` holds [`repeated_length`].
pub unsafe fn repeat<C: Compute>(strip: &Strip, loops: &Writing<C>, prepared: *const C, target: *mut C, rows: Rows) {
    let mut sources = [prepared; 4];
    for (source, terms) in sources.iter_mut().zip(terms_of_phases(strip)) {
        // A phase without terms may repeat anything.
        *source = prepared.wrapping_add(strip.offsets.get(terms.start).copied().unwrap_or(0));
    }
    let terms = (&sources[..], &[C::from_f64(1.0); 4][..], &[1, 2, 3, 4][..]);
    // SAFETY: the caller's promise; prepared rows have the slack that reading past the end needs.
    unsafe { (loops.phases[strip.phases - 2])(terms, target, repeated_length(strip), rows, Stores::Cached) }
}
