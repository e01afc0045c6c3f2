//! Sums of several phases that take turns in the target: an upsampled row.
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use super::registers::{Access, Register};
use super::rows::{LINE, Rows, Stores};
#[cfg(doc)]
use super::sums;
use super::sums::{Few, Many, Sum};
use super::twins::Twins;
use crate::core::dtype::Element;

/// The sums of all phases.
pub trait Phases<R: Register, const P: usize> {
    /// `B` registers of each phase from `q` on.
    ///
    /// # Safety
    /// Every source is readable there.
    unsafe fn blocks<const B: usize>(&self, q: usize) -> [[R; B]; P];

    /// Moves every source on by so many bytes.
    fn advance(&mut self, bytes: isize);
}

impl<R: Register, S: Sum<R>, const P: usize> Phases<R, P> for [S; P] {
    #[inline(always)]
    unsafe fn blocks<const B: usize>(&self, q: usize) -> [[R; B]; P] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut blocks = [self[0].block::<B>(q); P];
            for p in 1..P {
                blocks[p] = self[p].block::<B>(q);
            }
            blocks
        }
    }

    #[inline(always)]
    fn advance(&mut self, bytes: isize) {
        for p in 0..P {
            self[p].advance(bytes);
        }
    }
}

/// Writes `P` sums, one for each phase, so that the target holds the first value of each phase, then
/// the second of each. `bounds[p]` is where phase `p` ends among sources and taps.
///
/// # Safety
/// As [`sums::write`], but every source is readable two registers past the end.
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
        if R::STREAMS && alike && bounds[0] == 2 {
            let mut sums = [Few::<S, R, 2>::new(sources, taps); P];
            for p in 1..P {
                sums[p] = Few::new(&sources[2 * p..], &taps[2 * p..]);
            }
            return phases::<D, R, P, 1>(sums, place);
        }
        if R::STREAMS && alike && bounds[0] == 6 && P == 2 {
            let mut both = [sources[11]; 7];
            both[..6].copy_from_slice(&sources[..6]);
            if sources[6..] == both[..6] {
                return phases::<D, R, 2, 1>(Twins::<S, R, 6, 0, 2>::new(&both, taps), place);
            }
            if sources[6..] == both[1..] {
                return phases::<D, R, 2, 1>(Twins::<S, R, 6, 1, 2>::new(&both, taps), place);
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
    let streams = R::STREAMS && stores == Stores::Streamed && aligned;
    let bytes = P * R::LANES * size_of::<D>();
    // SAFETY: the promise of `write`.
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
unsafe fn write_rows<D, R, const P: usize, const BLOCK: usize, const STREAMS: bool>(
    mut sums: impl Phases<R, P>,
    (mut target, count, rows, _): (*mut D, usize, Rows, Stores),
) where
    D: Element<Compute = R::Number>,
    R: Access<D>,
{
    for _ in 0..rows.count {
        let mut q = 0;
        // SAFETY: the promise of `write`; stores never reach past `count`, and blocks that are streamed fill lines.
        unsafe {
            while (q + BLOCK * R::LANES) * P <= count {
                let mixed = mix::<R, P, BLOCK>(&sums, q);
                for b in 0..BLOCK {
                    for p in 0..P {
                        let place = target.add(q * P + (b * P + p) * R::LANES);
                        if STREAMS { mixed[b][p].stream(place) } else { mixed[b][p].store(place) }
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
    // SAFETY: the promise of `write`.
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

#[cfg(test)]
mod tests {
    use super::super::registers::with_float32_registers;
    use super::*;

    unsafe fn check<R: Access<f32> + Register<Number = f32>>() {
        let rows: Vec<Vec<f32>> = (0..7).map(|k| (0..200).map(|q| (k * 1000 + q) as f32).collect()).collect();
        let taps = [1.0, -2.0, 0.5, 4.0, 1.0, 3.0, -1.0];
        for count in 0..100 {
            let sources: Vec<*const f32> = rows.iter().map(|row| row.as_ptr()).collect();
            let bounds = [2, 4, 7];
            let mut target = [f32::NAN; 120];
            // SAFETY: as above.
            unsafe {
                write::<f32, f32, R, 3>(
                    (&sources, &taps, &bounds),
                    target.as_mut_ptr(),
                    count,
                    Rows::ONE,
                    Stores::Cached,
                )
            };
            for (at, value) in target[..count].iter().enumerate() {
                let (p, q) = (at % 3, at / 3);
                let range = [0..2, 2..4, 4..7][p].clone();
                assert_eq!(*value, range.map(|k| taps[k] * rows[k][q]).sum::<f32>());
            }
            assert!(target[count..].iter().all(|value| value.is_nan()));
        }
    }

    #[test]
    fn phases_of_every_length() {
        // SAFETY: each register is used where its level was detected.
        unsafe { with_float32_registers!(check) }
    }
}
