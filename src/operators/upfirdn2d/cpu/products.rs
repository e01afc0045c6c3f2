//! Products of outputs with the inputs they are summed from: what the kernel's gradient adds up.

#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use smallvec::SmallVec;

use super::registers::{Access, Register};
use super::rows::{Ahead, LINE, Rows, Stores};
use super::strip::Strip;
use super::sums::Sums;
use crate::core::dtype::{Compute, Element};

impl Strip {
    /// Splits rows of outputs into their phases, one after the other, as products are made of them.
    ///
    /// # Safety
    /// The register's level was detected, the strip's columns are readable, and each row of `target` holds
    /// `output_length`.
    #[inline(always)]
    pub unsafe fn split_outputs<S, R>(&self, source: *const S, target: *mut R::Number, rows: Rows, ahead: Option<Ahead>)
    where
        S: Element<Compute = R::Number>,
        R: Sums<S, <R as Register>::Number> + Sums<<R as Register>::Number, <R as Register>::Number>,
    {
        // SAFETY: the caller's promise.
        unsafe {
            if self.phases == 1 {
                let (one, count) = ([R::Number::from_f64(1.0)], self.columns.len() * self.pixel);
                let stores = ahead.map_or(Stores::Cached, Stores::CachedAhead);
                return <R as Sums<S, R::Number>>::write(&[source], &one, target, count, rows, stores);
            }
            let ahead = ahead.unwrap_or(Ahead::NONE);
            let (mut source, mut target) = (source, target);
            for _ in 0..rows.count {
                let from_registers = match self.phases {
                    2 if self.pixel == 1 => self.split_output_registers::<S, R, 2>(source, target, ahead),
                    3 if self.pixel == 1 => self.split_output_registers::<S, R, 3>(source, target, ahead),
                    4 if self.pixel == 1 => self.split_output_registers::<S, R, 4>(source, target, ahead),
                    _ => 0,
                };
                if from_registers * self.phases < self.columns.len() {
                    self.split_output_rest::<S, R>(source, target, from_registers);
                }
                source = source.wrapping_byte_offset(rows.source);
                target = target.wrapping_byte_offset(rows.target);
            }
        }
    }

    /// Splits a row from column `from` of each phase on.
    #[inline(always)]
    unsafe fn split_output_rest<S, R>(&self, source: *const S, target: *mut R::Number, from: usize)
    where
        S: Element<Compute = R::Number>,
        R: Sums<S, <R as Register>::Number>,
    {
        let (mut start, pixel) = (0, self.pixel);
        for phase in 0..self.phases {
            let count = (self.columns.len() - phase).div_ceil(self.phases);
            // SAFETY: the promise of `split_outputs`; phase starts and counts follow from the width.
            unsafe {
                if pixel == 1 {
                    for q in from..count {
                        let value = source.add(q * self.phases + phase).read_unaligned();
                        target.add(start + q).write(value.to_compute());
                    }
                } else {
                    let one = [R::Number::from_f64(1.0)];
                    let step = (self.phases * pixel * size_of::<S>()) as isize;
                    let rows = Rows { count, source: step, target: (pixel * size_of::<R::Number>()) as isize };
                    let (from, to) = (source.add(phase * pixel), target.add(start * pixel));
                    <R as Sums<S, R::Number>>::write(&[from], &one, to, pixel, rows, Stores::Cached);
                }
            }
            start += count;
        }
    }

    /// Splits as many whole registers as there are; returns how many columns of each phase that was.
    #[inline(always)]
    unsafe fn split_output_registers<S, R, const P: usize>(
        &self,
        source: *const S,
        target: *mut R::Number,
        ahead: Ahead,
    ) -> usize
    where
        S: Element<Compute = R::Number>,
        R: Access<S> + Access<<R as Register>::Number>,
    {
        let width = self.columns.len();
        let (mut q, mut targets) = (0, [target; P]);
        for p in 1..P {
            targets[p] = targets[p - 1].wrapping_add((width - (p - 1)).div_ceil(P));
        }
        // SAFETY: the promise of `split_outputs`; every phase has at least `width / P` columns.
        unsafe {
            while (q + R::LANES) * P <= width {
                let mut mixed = [<R as Access<S>>::load(source.add(q * P)); P];
                for p in 1..P {
                    mixed[p] = <R as Access<S>>::load(source.add(q * P + p * R::LANES));
                }
                ahead.ask::<R>(source.cast(), ((q * P * size_of::<S>()) as isize, LINE), 1);
                let split = R::deinterleave::<P>(mixed);
                for p in 0..P {
                    <R as Access<<R as Register>::Number>>::store(split[p], targets[p].add(q));
                }
                q += R::LANES;
            }
        }
        q
    }

    /// How many elements of an output row each phase has.
    pub fn phase_counts(&self) -> SmallVec<[usize; 8]> {
        (0..self.phases).map(|phase| (self.columns.len() - phase).div_ceil(self.phases) * self.pixel).collect()
    }
}

/// The products as a function of their own, compiled once with its level's instructions.
pub trait Products: Register {
    /// As [`add`].
    ///
    /// # Safety
    /// As [`add`].
    unsafe fn add_products(strip: &Strip, pairs: &Pairs<'_, Self::Number>);
}

/// How many products a place of a register adds up before it goes into a float64 sum.
const PRODUCTS: usize = 128;

/// How many input rows may be multiplied at once, with so many elements in a phase.
pub fn rows_at_once<R: Register>(count: usize) -> usize {
    (PRODUCTS / count.div_ceil(R::LANES).max(1)).max(1)
}

/// Adds the products of input rows with the output rows that each meets to the sums of their taps.
///
/// # Safety
/// The register's level was detected, all rows are as the strip makes them, and there are sums for all taps
/// between the rows.
#[inline(always)]
pub unsafe fn add<R>(strip: &Strip, pairs: &Pairs<'_, R::Number>)
where
    R: Access<<R as Register>::Number>,
{
    let (mut start, mut first) = (0, 0);
    for phase in 0..pairs.counts.len() {
        let (count, end) = (pairs.counts[phase], strip.bounds[phase]);
        let (offsets, taps) = (&strip.offsets[first..end], &strip.taps[first..end]);
        let mut met = 0;
        while met < pairs.met {
            let together = share(pairs.met - met, if R::PRODUCT_SUMS < 8 { 2 } else { 4 });
            let phase = Phase {
                outputs: pairs.outputs.wrapping_add(met * pairs.output_pitch + start),
                sums: pairs.sums.wrapping_offset(met as isize * pairs.sums_step),
                count,
            };
            // SAFETY: the caller's promise.
            unsafe {
                match together {
                    1 => pairs.multiply_terms::<R, 1>(&phase, offsets, taps),
                    2 => pairs.multiply_terms::<R, 2>(&phase, offsets, taps),
                    3 => pairs.multiply_terms::<R, 3>(&phase, offsets, taps),
                    _ => pairs.multiply_terms::<R, 4>(&phase, offsets, taps),
                }
            }
            met += together;
        }
        start += count;
        first = end;
    }
}

/// How many of `count` to take at once, at most `most`, so that no turn gets much less than the others.
#[inline(always)]
fn share(count: usize, most: usize) -> usize {
    if count <= most { count } else { count.div_ceil(count.div_ceil(most)) }
}

/// Input rows, each with the output rows that it meets.
pub struct Pairs<'a, C> {
    /// How many elements each phase of an output row has.
    pub counts: &'a [usize],
    /// The first input row, as the strip prepares it.
    pub input: *const C,
    /// The first output row that it meets, split.
    pub outputs: *const C,
    /// The sums of the tap along y between the two.
    pub sums: *mut f64,
    /// How many output rows each input row meets; they follow one another.
    pub met: usize,
    /// Elements from output row to output row.
    pub output_pitch: usize,
    /// Numbers from the sums of one output row met to those of the next.
    pub sums_step: isize,
    /// How many input rows.
    pub rows: usize,
    /// Elements from input row to input row, and from the output rows of one to those of the next.
    pub steps: (usize, usize),
}

/// One phase of the output rows.
struct Phase<C> {
    /// Where it starts in the first output row.
    outputs: *const C,
    /// The sums of that row's tap along y.
    sums: *mut f64,
    /// How many elements it has.
    count: usize,
}

impl<C: Compute> Pairs<'_, C> {
    /// Products of `B` output rows with all terms along x, as many at once as there are registers for
    /// their sums.
    #[inline(always)]
    unsafe fn multiply_terms<R, const B: usize>(&self, phase: &Phase<C>, offsets: &[usize], taps: &[usize])
    where
        R: Access<C> + Register<Number = C>,
    {
        let mut first = 0;
        while first < offsets.len() {
            let (offsets, taps) = (&offsets[first..], &taps[first..]);
            // SAFETY: the promise of `add`; a term's window lies inside the prepared row.
            first += unsafe {
                match share(offsets.len(), (R::PRODUCT_SUMS / B).clamp(1, 4)) {
                    1 => self.multiply::<R, 1, B>(phase, offsets, taps),
                    2 => self.multiply::<R, 2, B>(phase, offsets, taps),
                    3 => self.multiply::<R, 3, B>(phase, offsets, taps),
                    _ => self.multiply::<R, 4, B>(phase, offsets, taps),
                }
            };
        }
    }

    /// Adds the products of `B` output rows with the inputs at `A` offsets to the sums of their taps.
    #[inline(always)]
    unsafe fn multiply<R, const A: usize, const B: usize>(
        &self,
        phase: &Phase<C>,
        offsets: &[usize],
        taps: &[usize],
    ) -> usize
    where
        R: Access<C> + Register<Number = C>,
    {
        // SAFETY: the promise of `add`; a last part of a register is read as such.
        unsafe {
            let mut sums = [[R::splat(C::default()); A]; B];
            let whole = phase.count - phase.count % R::LANES;
            let mask = R::mask(0, phase.count - whole);
            for row in 0..self.rows {
                let mut inputs = [self.input; A];
                for a in 0..A {
                    inputs[a] = self.input.add(row * self.steps.0 + offsets[a]);
                }
                let mut outputs = [phase.outputs; B];
                for b in 0..B {
                    outputs[b] = phase.outputs.add(row * self.steps.1 + b * self.output_pitch);
                }
                let mut q = 0;
                while q < whole {
                    let mut factors = [sums[0][0]; A];
                    for a in 0..A {
                        factors[a] = R::load(inputs[a].add(q));
                    }
                    for b in 0..B {
                        let value = R::load(outputs[b].add(q));
                        for a in 0..A {
                            sums[b][a] = factors[a].multiply_add(value, sums[b][a]);
                        }
                    }
                    q += R::LANES;
                }
                if q < phase.count {
                    let mut factors = [sums[0][0]; A];
                    for a in 0..A {
                        factors[a] = R::load_masked(inputs[a].add(q), mask);
                    }
                    for b in 0..B {
                        let value = R::load_masked(outputs[b].add(q), mask);
                        for a in 0..A {
                            sums[b][a] = factors[a].multiply_add(value, sums[b][a]);
                        }
                    }
                }
            }
            for b in 0..B {
                let target = phase.sums.wrapping_offset(b as isize * self.sums_step);
                for a in 0..A {
                    *target.wrapping_add(taps[a]) += sums[b][a].sum();
                }
            }
        }
        A
    }
}
