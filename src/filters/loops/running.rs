//! Sums along y that run down the columns: each row is loaded once, and added to all sums under way that have a term for
//! it, which stay in registers. Upsampled rows and kept rows are summed alike, and kernels that are not separable too: a
//! step then reads several shifts of a row. Terms are added in the order of [`sum`](super::sum).
#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use super::register::{Access, Register};
use firelu_core::dtype::Compute;

/// How many steps a sum takes, and so how many sums of each kind are under way.
pub const STEPS: usize = 6;

/// Some steps down the columns.
pub struct RunningSums<'a, C> {
    /// What is read: as many sources for each step.
    pub sources: &'a [*const C],
    /// How many elements later all of them start.
    pub start: usize,
    /// For each source of a step, the taps of the sums that end with this step, then of those that end with the next, and
    /// so on.
    pub taps: &'a [C],
    /// Where the sums that end with a step go: `TOGETHER` for each step, null where they are not wanted.
    pub targets: &'a [*mut C],
    /// The sums under way before and after these steps: those that end with the next step, then the one after, and so on.
    pub under_way: *mut C,
    /// From one of them to the next.
    pub pitch: usize,
}

/// Runs down `count` columns, a multiple of the register's lanes. `TOGETHER` sums end with each step.
///
/// # Safety
/// What holds for every [loop](super), of all targets and the sums under way; there are taps for every source of a step.
#[inline(always)]
pub unsafe fn write<R, const TOGETHER: usize>(sums: &RunningSums<'_, R::Number>, count: usize)
where
    R: Access<<R as Register>::Number>,
{
    debug_assert!(count.is_multiple_of(R::LANES) && sums.targets.len().is_multiple_of(TOGETHER));
    // SAFETY: the caller's promise.
    unsafe {
        match (R::MANY, TOGETHER) {
            (true, 1) => columns::<R, TOGETHER, 4>(sums, count),
            (false, 2) => columns::<R, TOGETHER, 1>(sums, count),
            _ => columns::<R, TOGETHER, 2>(sums, count),
        }
    }
}

/// So many registers of columns at a time.
#[inline(always)]
unsafe fn columns<R, const TOGETHER: usize, const B: usize>(sums: &RunningSums<'_, R::Number>, count: usize)
where
    R: Access<<R as Register>::Number>,
{
    let mut q = 0;
    // SAFETY: the caller's promise; every access is to places below `count`.
    unsafe {
        while q + B * R::LANES <= count {
            run::<R, TOGETHER, B>(sums, q);
            q += B * R::LANES;
        }
        while q + R::LANES <= count {
            run::<R, TOGETHER, 1>(sums, q);
            q += R::LANES;
        }
    }
}

/// The sums under way in `B` registers of columns. Those that end with step `s` stand at place `s % STEPS`.
type UnderWay<R, const TOGETHER: usize, const B: usize> = [[[R; B]; TOGETHER]; STEPS];

#[inline(always)]
unsafe fn run<R, const TOGETHER: usize, const B: usize>(sums: &RunningSums<'_, R::Number>, q: usize)
where
    R: Access<<R as Register>::Number>,
{
    let steps = sums.targets.len() / TOGETHER;
    // SAFETY: the caller's promise.
    unsafe {
        let mut under_way: UnderWay<R, TOGETHER, B> = [[[nothing::<R>(); B]; TOGETHER]; STEPS];
        for n in 0..STEPS - 1 {
            for j in 0..TOGETHER {
                for b in 0..B {
                    under_way[n][j][b] =
                        R::load(sums.under_way.add((n * TOGETHER + j) * sums.pitch + q + b * R::LANES));
                }
            }
        }
        let mut s = 0;
        while s + STEPS <= steps {
            step::<R, TOGETHER, B, 0>(sums, &mut under_way, q, s);
            step::<R, TOGETHER, B, 1>(sums, &mut under_way, q, s + 1);
            step::<R, TOGETHER, B, 2>(sums, &mut under_way, q, s + 2);
            step::<R, TOGETHER, B, 3>(sums, &mut under_way, q, s + 3);
            step::<R, TOGETHER, B, 4>(sums, &mut under_way, q, s + 4);
            step::<R, TOGETHER, B, 5>(sums, &mut under_way, q, s + 5);
            s += STEPS;
        }
        while s < steps {
            step::<R, TOGETHER, B, 0>(sums, &mut under_way, q, s);
            let new = under_way[0];
            for n in 1..STEPS {
                under_way[n - 1] = under_way[n];
            }
            under_way[STEPS - 1] = new;
            s += 1;
        }
        for n in 0..STEPS - 1 {
            for j in 0..TOGETHER {
                for b in 0..B {
                    let place = sums.under_way.add((n * TOGETHER + j) * sums.pitch + q + b * R::LANES);
                    under_way[n][j][b].store(place);
                }
            }
        }
    }
}

/// A sum without terms: a product added to it is that product, to the sign of a zero.
#[inline(always)]
unsafe fn nothing<R: Register>() -> R {
    // SAFETY: the caller's promise.
    unsafe { R::splat(R::Number::from_f64(-0.0)) }
}

/// Step `s`, with which the sums at place `AT` end.
#[inline(always)]
unsafe fn step<R, const TOGETHER: usize, const B: usize, const AT: usize>(
    sums: &RunningSums<'_, R::Number>,
    under_way: &mut UnderWay<R, TOGETHER, B>,
    q: usize,
    s: usize,
) where
    R: Access<<R as Register>::Number>,
{
    let each = sums.taps.len() / (STEPS * TOGETHER);
    // SAFETY: the caller's promise.
    unsafe {
        for k in 0..each {
            let source = sums.sources.get_unchecked(s * each + k).add(sums.start + q);
            let taps = sums.taps.as_ptr().add(k * STEPS * TOGETHER);
            let mut values = [under_way[0][0][0]; B];
            for b in 0..B {
                values[b] = R::load(source.add(b * R::LANES));
            }
            for n in 0..STEPS {
                for j in 0..TOGETHER {
                    let tap = R::splat(*taps.add(n * TOGETHER + j));
                    let sums = &mut under_way[(AT + n) % STEPS][j];
                    for b in 0..B {
                        sums[b] = values[b].multiply_add(tap, sums[b]);
                    }
                }
            }
        }
        for j in 0..TOGETHER {
            let target = *sums.targets.get_unchecked(s * TOGETHER + j);
            for b in 0..B {
                if !target.is_null() {
                    under_way[AT][j][b].store(target.add(q + b * R::LANES));
                }
                under_way[AT][j][b] = nothing::<R>();
            }
        }
    }
}
