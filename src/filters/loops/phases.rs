//! Sums of several phases that take turns in the target: an upsampled row.
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use super::memory_access::{LINE, Rows, Stores};
use super::register::{Access, Register};
#[cfg(doc)]
use super::sum;
use super::sum::{Few, Many, Phases};
use super::two_rows::TwoSums;
use firelu_core::dtype::Element;

/// Writes `P` sums, one for each phase, so that the target holds the first value of each phase, then
/// the second of each. `bounds[p]` is where phase `p` ends among sources and taps.
///
/// # Safety
/// As [`sum::write`], but every source is readable two registers past the end.
#[inline(always)]
pub unsafe fn write<S, D, R, const P: usize>(
    (sources, taps, bounds): (&[*const S], &[R::Number], &[usize]),
    target: *mut D,
    count: usize,
    rows: Rows,
    stores: Stores,
) where
    S: Element<Compute = R::Number>,
    D: Element<Compute = R::Number>,
    R: Access<S> + Access<D>,
{
    let mut alike = true;
    for p in 0..P {
        alike &= bounds[p] == bounds[0] * (p + 1);
    }
    let place = (target, count, rows, stores);
    // SAFETY: the caller's promise, handed on.
    unsafe {
        if R::NON_TEMPORAL && alike && bounds[0] == 2 {
            let mut sums = [Few::<S, R, 2>::new(sources, taps); P];
            for p in 1..P {
                sums[p] = Few::new(&sources[2 * p..], &taps[2 * p..]);
            }
            return phases::<D, R, P, 1>(sums, place);
        }
        if R::NON_TEMPORAL && alike && bounds[0] == 6 && P == 2 {
            let mut both = [sources[11]; 7];
            both[..6].copy_from_slice(&sources[..6]);
            if sources[6..] == both[..6] {
                return phases::<D, R, 2, 1>(TwoSums::<S, R, 6, 0, 2>::new(&both, taps), place);
            }
            if sources[6..] == both[1..] {
                return phases::<D, R, 2, 1>(TwoSums::<S, R, 6, 1, 2>::new(&both, taps), place);
            }
        }
        let mut sums = [Many::<S, R> { sources: &sources[..bounds[0]], taps: &taps[..bounds[0]], moved: 0 }; P];
        for p in 1..P {
            (sums[p].sources, sums[p].taps) = (&sources[bounds[p - 1]..bounds[p]], &taps[bounds[p - 1]..bounds[p]]);
        }
        phases::<D, R, P, 2>(sums, place)
    }
}

/// Streams where the rows start with lines and some blocks fill lines, so that no line gets both kinds of store.
#[inline(always)]
unsafe fn phases<D, R, const P: usize, const BLOCK: usize>(
    sums: impl Phases<R, P>,
    place: (*mut D, usize, Rows, Stores),
) where
    D: Element<Compute = R::Number>,
    R: Access<D>,
{
    let (target, _, rows, stores) = place;
    let aligned = target as usize % LINE == 0 && rows.target as usize % LINE == 0;
    let streams = R::NON_TEMPORAL && stores == Stores::NonTemporal && aligned;
    let bytes = P * R::LANES * size_of::<D>();
    // SAFETY: the caller's promise.
    unsafe {
        if streams && (BLOCK * bytes).is_multiple_of(LINE) {
            write_rows::<D, R, P, BLOCK, true>(sums, place);
        } else if streams && (2 * bytes).is_multiple_of(LINE) {
            write_rows::<D, R, P, 2, true>(sums, place);
        } else {
            write_rows::<D, R, P, BLOCK, false>(sums, place);
        }
    }
}

#[inline(always)]
unsafe fn write_rows<D, R, const P: usize, const BLOCK: usize, const NON_TEMPORAL: bool>(
    mut sums: impl Phases<R, P>,
    (mut target, count, rows, _): (*mut D, usize, Rows, Stores),
) where
    D: Element<Compute = R::Number>,
    R: Access<D>,
{
    for _ in 0..rows.count {
        let mut q = 0;
        // SAFETY: the caller's promise; stores never reach past `count`, and blocks that are streamed fill lines.
        unsafe {
            while (q + BLOCK * R::LANES) * P <= count {
                let mixed = mix::<R, P, BLOCK>(&sums, q);
                for b in 0..BLOCK {
                    for p in 0..P {
                        let place = target.add(q * P + (b * P + p) * R::LANES);
                        if NON_TEMPORAL { mixed[b][p].stream(place) } else { mixed[b][p].store(place) }
                    }
                }
                q += BLOCK * R::LANES;
            }
            let mut done = q * P;
            while done < count {
                let [mixed] = mix::<R, P, 1>(&sums, q);
                for p in 0..P {
                    let rest = count - done;
                    if rest >= R::LANES {
                        mixed[p].store(target.add(done));
                        done += R::LANES;
                    } else if rest > 0 {
                        mixed[p].store_part(target.add(done), rest);
                        done = count;
                    }
                }
                q += R::LANES;
            }
        }
        sums.advance(rows.source);
        target = target.wrapping_byte_offset(rows.target);
    }
}

/// The values of all phases from `q` on, in the target's order.
#[inline(always)]
unsafe fn mix<R: Register, const P: usize, const BLOCK: usize>(sums: &impl Phases<R, P>, q: usize) -> [[R; P]; BLOCK] {
    // SAFETY: the caller's promise.
    let blocks = unsafe { sums.blocks::<BLOCK>(q) };
    let mut mixed = [[blocks[0][0]; P]; BLOCK];
    for b in 0..BLOCK {
        for p in 0..P {
            mixed[b][p] = blocks[p][b];
        }
        mixed[b] = R::interleave::<P>(mixed[b]);
    }
    mixed
}
