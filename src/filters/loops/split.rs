//! Deinterleaving: every `n`-th column of a row becomes a row of its own, so that a polyphase filter reads one element
//! after the other.

#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use super::memory_access::{Prefetch, Rows};
use super::register::{Access, Register};
use firelu_core::dtype::Element;

/// Which columns of a row go where: column `c` to place `c / step` of row `c % step`.
#[derive(Debug, Clone, Copy)]
pub struct Columns {
    /// Into how many rows columns are split, more than one.
    pub step: usize,
    /// From row to row, in elements.
    pub pitch: usize,
    /// The first column that is there.
    pub start: usize,
    /// The end of those that are there.
    pub end: usize,
}

/// Splits rows whose first element is column `columns.start`.
///
/// # Safety
/// What holds for every [loop](super): the columns are readable, and each split row has room for them.
#[inline(always)]
pub unsafe fn columns<S, R>(
    columns: &Columns,
    source: *const S,
    target: *mut R::Number,
    rows: Rows,
    prefetch: Option<Prefetch>,
) where
    S: Element<Compute = R::Number>,
    R: Access<S> + Access<<R as Register>::Number>,
{
    let (mut source, mut target) = (source, target);
    for _ in 0..rows.count {
        // SAFETY: the caller's promise.
        unsafe { split_row::<S, R>(columns, source, target, prefetch) };
        source = source.wrapping_byte_offset(rows.source);
        target = target.wrapping_byte_offset(rows.target);
    }
}

#[inline(always)]
unsafe fn split_row<S, R>(
    &Columns { step, pitch, start, end }: &Columns,
    source: *const S,
    target: *mut R::Number,
    prefetch: Option<Prefetch>,
) where
    S: Element<Compute = R::Number>,
    R: Access<S> + Access<<R as Register>::Number>,
{
    // SAFETY: the promise of `columns`.
    unsafe {
        let mut column = start;
        // Never registers inside a closure: it would be compiled without the level's instructions.
        let scalar = |column: usize| {
            let value = source.add(column - start).read_unaligned();
            target.add(column % step * pitch + column / step).write(value.to_compute());
        };
        if step <= 4 {
            while column < end && !column.is_multiple_of(step) {
                scalar(column);
                column += 1;
            }
            let whole = step * R::LANES;
            while column + step <= end && end - start >= whole + step {
                // The last registers overlap those before them rather than reach over the end.
                let at = column.min((end - whole) / step * step);
                if let Some(prefetch) = prefetch {
                    let (from, bytes) = ((at - start) * size_of::<S>(), whole * size_of::<S>());
                    prefetch.lines::<R>(source.cast(), (from as isize, bytes), 1);
                }
                let (from, to) = (source.add(at - start), target.add(at / step));
                match step {
                    2 => split_registers::<S, R, 2>(from, to, pitch),
                    3 => split_registers::<S, R, 3>(from, to, pitch),
                    _ => split_registers::<S, R, 4>(from, to, pitch),
                }
                column = at + whole;
            }
        }
        while column < end {
            scalar(column);
            column += 1;
        }
    }
}

/// `P` registers of columns to one register in each of `P` rows.
#[inline(always)]
unsafe fn split_registers<S, R, const P: usize>(source: *const S, target: *mut R::Number, pitch: usize)
where
    S: Element<Compute = R::Number>,
    R: Access<S> + Access<<R as Register>::Number>,
{
    // SAFETY: the promise of `columns`: `P` registers are readable, and each split row has room for one.
    unsafe {
        let mut mixed = [<R as Access<S>>::load(source); P];
        for p in 1..P {
            mixed[p] = <R as Access<S>>::load(source.add(p * R::LANES));
        }
        let split = R::deinterleave::<P>(mixed);
        for p in 0..P {
            <R as Access<<R as Register>::Number>>::store(split[p], target.add(p * pitch));
        }
    }
}

/// Splits rows of `width` outputs into their phases, one after the other without gaps.
///
/// # Safety
/// What holds for every [loop](super).
#[inline(always)]
pub unsafe fn phases<S, R>(
    (phases, width): (usize, usize),
    source: *const S,
    target: *mut R::Number,
    rows: Rows,
    prefetch: Option<Prefetch>,
) where
    S: Element<Compute = R::Number>,
    R: Access<S> + Access<<R as Register>::Number>,
{
    let prefetch = prefetch.unwrap_or(Prefetch::NONE);
    let (mut source, mut target) = (source, target);
    for _ in 0..rows.count {
        // SAFETY: the caller's promise.
        unsafe {
            let done = match phases {
                2 => phases_of_registers::<S, R, 2>(width, source, target, prefetch),
                3 => phases_of_registers::<S, R, 3>(width, source, target, prefetch),
                4 => phases_of_registers::<S, R, 4>(width, source, target, prefetch),
                _ => 0,
            };
            let mut start = 0;
            for phase in 0..if done * phases < width { phases } else { 0 } {
                let count = (width - phase).div_ceil(phases);
                for q in done..count {
                    let value = source.add(q * phases + phase).read_unaligned();
                    target.add(start + q).write(value.to_compute());
                }
                start += count;
            }
        }
        source = source.wrapping_byte_offset(rows.source);
        target = target.wrapping_byte_offset(rows.target);
    }
}

/// Splits as many whole registers as there are; returns how many columns of each phase that was.
#[inline(always)]
unsafe fn phases_of_registers<S, R, const P: usize>(
    width: usize,
    source: *const S,
    target: *mut R::Number,
    prefetch: Prefetch,
) -> usize
where
    S: Element<Compute = R::Number>,
    R: Access<S> + Access<<R as Register>::Number>,
{
    let (mut q, mut targets) = (0, [target; P]);
    for p in 1..P {
        targets[p] = targets[p - 1].wrapping_add((width - (p - 1)).div_ceil(P));
    }
    // SAFETY: the promise of `phases`; every phase has at least `width / P` columns.
    unsafe {
        while (q + R::LANES) * P <= width {
            let mut mixed = [<R as Access<S>>::load(source.add(q * P)); P];
            for p in 1..P {
                mixed[p] = <R as Access<S>>::load(source.add(q * P + p * R::LANES));
            }
            let (from, bytes) = (q * P * size_of::<S>(), P * R::LANES * size_of::<S>());
            prefetch.lines::<R>(source.cast(), (from as isize, bytes), 1);
            let split = R::deinterleave::<P>(mixed);
            for p in 0..P {
                <R as Access<<R as Register>::Number>>::store(split[p], targets[p].add(q));
            }
            q += R::LANES;
        }
    }
    q
}
