//! Products of outputs with the inputs they are summed from: what the kernel's gradient adds up.

#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use smallvec::{SmallVec, smallvec};
use std::ops::Range;

use super::registers::{Access, Register};
use super::rows::{Ahead, Rows, Stores};
use super::strip::Strip;
use super::sums::Sums;
use crate::core::dtype::{Compute, Element};

impl Strip {
    /// Splits rows of outputs into the parts that are multiplied one after the other.
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
            if self.is_one_part() {
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
                let (from, bytes) = (q * P * size_of::<S>(), P * R::LANES * size_of::<S>());
                ahead.ask::<R>(source.cast(), (from as isize, bytes), 1);
                let split = R::deinterleave::<P>(mixed);
                for p in 0..P {
                    <R as Access<<R as Register>::Number>>::store(split[p], targets[p].add(q));
                }
                q += R::LANES;
            }
        }
        q
    }

    /// Whether outputs can be multiplied as they stand, of all phases in turn: then each input is repeated instead, once
    /// for each phase.
    pub fn repeats(&self) -> bool {
        self.pixel == 1 && self.step == 1 && matches!(self.phases, 2 | 4)
    }

    /// Whether an output row is multiplied as it stands.
    pub fn is_one_part(&self) -> bool {
        self.phases == 1 || self.repeats()
    }

    /// The elements of a row of repeated inputs.
    pub fn repeated_length(&self) -> usize {
        (self.columns.len() + (self.most_terms() - 1) * self.phases).next_multiple_of(16)
    }

    /// Writes rows of repeated inputs from prepared rows: the first term of every output, the second so many places
    /// after it as there are phases.
    ///
    /// # Safety
    /// The register's level was detected, and each row of `target` holds `repeated_length`.
    #[inline(always)]
    pub unsafe fn repeat<R>(&self, prepared: *const R::Number, target: *mut R::Number, rows: Rows)
    where
        R: Sums<<R as Register>::Number, <R as Register>::Number>,
    {
        let mut sources = [prepared; 4];
        for (source, terms) in sources.iter_mut().zip(self.terms_of_phases()) {
            // A phase without terms may repeat anything.
            *source = prepared.wrapping_add(self.offsets.get(terms.start).copied().unwrap_or(0));
        }
        let terms = (&sources[..], &[R::Number::from_f64(1.0); 4][..], &[1, 2, 3, 4][..]);
        let (count, stores) = (self.repeated_length(), Stores::Cached);
        // SAFETY: the caller's promise; prepared rows have the slack that reading past the end needs.
        unsafe {
            match self.phases {
                2 => <R as Sums<R::Number, R::Number>>::write_phases::<2>(terms, target, count, rows, stores),
                _ => <R as Sums<R::Number, R::Number>>::write_phases::<4>(terms, target, count, rows, stores),
            }
        }
    }

    /// Which terms each phase has.
    fn terms_of_phases(&self) -> impl Iterator<Item = Range<usize>> {
        std::iter::once(0).chain(self.bounds.iter().copied()).zip(&self.bounds).map(|(start, &end)| start..end)
    }

    /// The most terms of a phase.
    fn most_terms(&self) -> usize {
        self.terms_of_phases().map(|terms| terms.len()).max().unwrap_or(0).max(1)
    }

    /// The parts of an output row that are multiplied one after the other.
    pub fn parts(&self) -> SmallVec<[Part; 4]> {
        if self.repeats() {
            let terms = 0..self.most_terms();
            let taps = terms.clone().flat_map(|m| self.terms_of_phases().map(move |phase| phase.start + m..phase.end));
            return smallvec![Part {
                count: self.columns.len(),
                phases: self.phases,
                offsets: terms.map(|m| m * self.phases).collect(),
                taps: taps.map(|mut rest| rest.next().map(|term| self.taps[term])).collect(),
            }];
        }
        let phase = |(phase, terms): (usize, Range<usize>)| Part {
            count: (self.columns.len() - phase).div_ceil(self.phases) * self.pixel,
            phases: 1,
            offsets: SmallVec::from_slice(&self.offsets[terms.clone()]),
            taps: self.taps[terms].iter().copied().map(Some).collect(),
        };
        self.terms_of_phases().enumerate().map(phase).collect()
    }
}

/// Elements of an output row that meet their inputs at the same distances.
pub struct Part {
    /// How many.
    count: usize,
    /// How many phases take turns among them.
    phases: usize,
    /// Where the inputs of each term start in a row.
    offsets: SmallVec<[usize; 8]>,
    /// The tap along x of each term of each phase, if it has that many.
    taps: SmallVec<[Option<usize>; 8]>,
}

/// The products as a function of their own, compiled once with its level's instructions.
pub trait Products: Register {
    /// As [`add`].
    ///
    /// # Safety
    /// As [`add`].
    unsafe fn add_products(parts: &[Part], pairs: &Pairs<Self::Number>);
}

/// How many products a place of a register adds up before it goes into a float64 sum.
const PRODUCTS: usize = 128;

/// How many input rows may be multiplied at once.
pub fn rows_at_once<R: Register>(parts: &[Part]) -> usize {
    (PRODUCTS / parts[0].count.div_ceil(R::LANES).max(1)).max(1)
}

/// Adds the products of input rows with the output rows that each meets to the sums of their taps.
///
/// # Safety
/// The register's level was detected, all rows are as the parts say, and there are sums for all taps between the rows.
#[inline(always)]
pub unsafe fn add<R>(parts: &[Part], pairs: &Pairs<R::Number>)
where
    R: Access<<R as Register>::Number>,
{
    let mut start = 0;
    for part in parts {
        let mut met = 0;
        while met < pairs.met {
            let together = share(pairs.met - met, if R::PRODUCT_SUMS < 8 { 2 } else { 4 });
            let outputs = pairs.outputs.wrapping_add(start).wrapping_byte_offset(met as isize * pairs.output_pitch);
            let sums = pairs.sums.wrapping_offset(met as isize * pairs.sums_step);
            let pairs = Pairs { outputs, sums, ..*pairs };
            // SAFETY: the caller's promise.
            unsafe {
                match together {
                    1 => pairs.multiply_terms::<R, 1>(part),
                    2 => pairs.multiply_terms::<R, 2>(part),
                    3 => pairs.multiply_terms::<R, 3>(part),
                    _ => pairs.multiply_terms::<R, 4>(part),
                }
            }
            met += together;
        }
        start += part.count;
    }
}

/// How many of `count` to take at once, at most `most`, so that no turn gets much less than the others.
#[inline(always)]
fn share(count: usize, most: usize) -> usize {
    if count <= most { count } else { count.div_ceil(count.div_ceil(most)) }
}

/// Input rows of several planes, each with the output rows that it meets.
#[derive(Clone, Copy)]
pub struct Pairs<C> {
    /// The first input row, as the strip prepares or repeats it.
    pub input: *const C,
    /// The first output row that it meets.
    pub outputs: *const C,
    /// The sums of the tap along y between the two.
    pub sums: *mut f64,
    /// How many output rows each input row meets; they follow one another.
    pub met: usize,
    /// Bytes from output row to output row.
    pub output_pitch: isize,
    /// Numbers from the sums of one output row met to those of the next.
    pub sums_step: isize,
    /// How many input rows of each plane.
    pub rows: usize,
    /// Bytes from input row to input row, and from the output rows of one to those of the next.
    pub steps: (isize, isize),
    /// How many planes.
    pub planes: usize,
    /// Bytes from plane to plane of both.
    pub plane_steps: (isize, isize),
}

impl<C: Compute> Pairs<C> {
    /// Products of `B` output rows with all terms along x, as many at once as there are registers for
    /// their sums.
    #[inline(always)]
    unsafe fn multiply_terms<R, const B: usize>(&self, part: &Part)
    where
        R: Access<C> + Register<Number = C>,
    {
        let (mut first, most) = (0, (R::PRODUCT_SUMS / B).clamp(1, if R::MANY { 6 } else { 4 }));
        while first < part.offsets.len() {
            // SAFETY: the promise of `add`; a term's window lies inside the row.
            first += unsafe {
                match share(part.offsets.len() - first, most) {
                    1 => self.multiply::<R, 1, B>(part, first),
                    2 => self.multiply::<R, 2, B>(part, first),
                    3 => self.multiply::<R, 3, B>(part, first),
                    5 if R::MANY => self.multiply::<R, 5, B>(part, first),
                    6 if R::MANY => self.multiply::<R, 6, B>(part, first),
                    _ => self.multiply::<R, 4, B>(part, first),
                }
            };
        }
    }

    /// Adds the products of `B` output rows with the inputs of `A` terms to the sums of their taps.
    #[inline(always)]
    unsafe fn multiply<R, const A: usize, const B: usize>(&self, part: &Part, first: usize) -> usize
    where
        R: Access<C> + Register<Number = C>,
    {
        let offsets = &part.offsets[first..first + A];
        // SAFETY: the promise of `add`; a last part of a register is read as such.
        unsafe {
            let mut sums = [[R::splat(C::default()); A]; B];
            let whole = part.count - part.count % R::LANES;
            for plane in 0..self.planes as isize {
                for row in 0..self.rows as isize {
                    let (inputs, outputs) = self.pointers::<A, B>(plane, row, offsets);
                    let mut q = 0;
                    while q < whole {
                        let mut factors = [sums[0][0]; A];
                        for a in 0..A {
                            factors[a] = R::load(inputs[a].add(q));
                        }
                        // The rows that the next input row is the first to meet.
                        for b in B.saturating_sub(2)..B {
                            R::prefetch(outputs[b].add(q).wrapping_byte_offset(self.steps.1).cast());
                        }
                        for b in 0..B {
                            let value = R::load(outputs[b].add(q));
                            for a in 0..A {
                                sums[b][a] = factors[a].multiply_add(value, sums[b][a]);
                            }
                        }
                        q += R::LANES;
                    }
                }
            }
            // Parts of registers in a loop of their own: inside the other they would take registers from its sums.
            let mask = R::mask(0, part.count - whole);
            let turns = if whole < part.count { self.planes as isize } else { 0 };
            for plane in 0..turns {
                for row in 0..self.rows as isize {
                    let (inputs, outputs) = self.pointers::<A, B>(plane, row, offsets);
                    let mut factors = [sums[0][0]; A];
                    for a in 0..A {
                        factors[a] = R::load_masked(inputs[a].add(whole), mask);
                    }
                    for b in 0..B {
                        let value = R::load_masked(outputs[b].add(whole), mask);
                        for a in 0..A {
                            sums[b][a] = factors[a].multiply_add(value, sums[b][a]);
                        }
                    }
                }
            }
            let mut totals = [[[0.0; 4]; A]; B];
            for b in 0..B {
                for a in 0..A {
                    totals[b][a] = sums[b][a].sums();
                }
            }
            for b in 0..B {
                let target = self.sums.wrapping_offset(b as isize * self.sums_step);
                let taps = part.taps[first * part.phases..].chunks_exact(part.phases);
                for (total, taps) in totals[b].iter().zip(taps) {
                    for (phase, tap) in taps.iter().enumerate() {
                        if let &Some(tap) = tap {
                            *target.wrapping_add(tap) += total[phase..].iter().step_by(part.phases).sum::<f64>();
                        }
                    }
                }
            }
        }
        A
    }

    /// Where a row's inputs of each term and the output rows that it meets start.
    #[inline(always)]
    fn pointers<const A: usize, const B: usize>(
        &self,
        plane: isize,
        row: isize,
        offsets: &[usize],
    ) -> ([*const C; A], [*const C; B]) {
        let input = self.input.wrapping_byte_offset(plane * self.plane_steps.0 + row * self.steps.0);
        let output = self.outputs.wrapping_byte_offset(plane * self.plane_steps.1 + row * self.steps.1);
        let (mut inputs, mut outputs) = ([input; A], [output; B]);
        for a in 0..A {
            inputs[a] = input.wrapping_add(offsets[a]);
        }
        for b in 0..B {
            outputs[b] = output.wrapping_byte_offset(b as isize * self.output_pitch);
        }
        (inputs, outputs)
    }
}
