//! Products of outputs with the inputs they are summed from: what the kernel's gradient adds up.

#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use std::ops::Range;

use super::registers::{Access, Register};
use super::rows::{Rows, Stores};
use super::strip::Strip;
use super::sums::Sums;
use crate::core::dtype::{Compute, Element};

impl Strip {
    /// Splits a row of outputs into its phases, one after the other, as `add_products` reads them.
    ///
    /// # Safety
    /// The register's level was detected, the strip's columns are readable, `target` holds `output_length`.
    #[inline(always)]
    pub unsafe fn split_outputs<S, R>(&self, source: *const S, target: *mut R::Number, stores: Stores)
    where
        S: Element<Compute = R::Number>,
        R: Sums<S, <R as Register>::Number> + Sums<<R as Register>::Number, <R as Register>::Number>,
    {
        let (width, pixel) = (self.columns.len(), self.pixel);
        let one = [R::Number::from_f64(1.0)];
        // SAFETY: the caller's promise; phase starts and counts follow from the width.
        unsafe {
            if self.phases == 1 {
                return <R as Sums<S, R::Number>>::write(&[source], &one, target, width * pixel, Rows::ONE, stores);
            }
            let mut from_registers = 0;
            if pixel == 1 {
                from_registers = match self.phases {
                    2 => self.split_output_registers::<S, R, 2>(source, target),
                    3 => self.split_output_registers::<S, R, 3>(source, target),
                    4 => self.split_output_registers::<S, R, 4>(source, target),
                    _ => 0,
                };
            }
            let mut start = 0;
            for phase in 0..self.phases {
                let count = (width - phase).div_ceil(self.phases);
                if pixel == 1 {
                    for q in from_registers..count {
                        let value = source.add(q * self.phases + phase).read_unaligned();
                        target.add(start + q).write(value.to_compute());
                    }
                } else {
                    let step = (self.phases * pixel * size_of::<S>()) as isize;
                    let rows = Rows { count, source: step, target: (pixel * size_of::<R::Number>()) as isize };
                    let (from, to) = (source.add(phase * pixel), target.add(start * pixel));
                    <R as Sums<S, R::Number>>::write(&[from], &one, to, pixel, rows, Stores::Cached);
                }
                start += count;
            }
        }
    }

    /// Splits as many whole registers as there are; returns how many columns of each phase that was.
    #[inline(always)]
    unsafe fn split_output_registers<S, R, const P: usize>(&self, source: *const S, target: *mut R::Number) -> usize
    where
        S: Element<Compute = R::Number>,
        R: Access<S> + Access<<R as Register>::Number>,
    {
        let width = self.columns.len();
        let mut q = 0;
        // SAFETY: the promise of `split_outputs`; every phase has at least `width / P` columns.
        unsafe {
            while (q + R::LANES) * P <= width {
                let mut mixed = [<R as Access<S>>::load(source.add(q * P)); P];
                for (p, register) in mixed.iter_mut().enumerate().skip(1) {
                    *register = <R as Access<S>>::load(source.add(q * P + p * R::LANES));
                }
                let (split, mut start) = (R::deinterleave::<P>(mixed), 0);
                for (p, register) in split.into_iter().enumerate() {
                    <R as Access<<R as Register>::Number>>::store(register, target.add(start + q));
                    start += (width - p).div_ceil(P);
                }
                q += R::LANES;
            }
        }
        q
    }

    /// Adds the products of input rows with output rows to the sums of their taps.
    ///
    /// # Safety
    /// The register's level was detected, all rows are as this strip makes them and include those of the
    /// series, `sums` holds all taps.
    #[inline(always)]
    pub unsafe fn add_products<R>(&self, series: &[Series], rows: &PreparedRows<R::Number>)
    where
        R: Access<<R as Register>::Number>,
    {
        let (mut start, mut first) = (0, 0);
        for (phase, &end) in self.bounds.iter().enumerate() {
            let count = (self.columns.len() - phase).div_ceil(self.phases) * self.pixel;
            let phase = Phase { terms: first..end, start, count };
            // SAFETY: the caller's promise.
            unsafe {
                // As many series at once as there are registers for their sums.
                match R::MANY {
                    true => self.add_phase::<R, 4>(series, rows, &phase),
                    false => self.add_phase::<R, 2>(series, rows, &phase),
                }
            }
            start += count;
            first = end;
        }
    }

    /// `B` series at once on the input rows that they share, the others one series at a time.
    #[inline(always)]
    unsafe fn add_phase<R, const B: usize>(&self, series: &[Series], rows: &PreparedRows<R::Number>, phase: &Phase)
    where
        R: Access<<R as Register>::Number>,
    {
        let mut rest = series;
        while let Some(leader) = rest.first() {
            let together = rest.len() >= B && rest[..B].iter().all(|series| leader.shares_inputs(series));
            let (group, others) = rest.split_at(if together { B } else { 1 });
            rest = others;
            let latest = group.iter().fold(leader.input, |latest, series| latest.max(series.input));
            let start = if together { latest } else { leader.end() };
            let end = group.iter().fold(leader.end(), |end, series| end.min(series.end())).max(start);
            // SAFETY: the promise of `add_products`.
            unsafe {
                if together {
                    let mut shared = [*leader; B];
                    for (shared, series) in shared.iter_mut().zip(group) {
                        *shared = series.within(start, end);
                    }
                    self.add_series::<R, B>(rows, phase, shared);
                }
                for part in 0..2 * group.len() {
                    let series = &group[part / 2];
                    let (from, to) = match part % 2 {
                        0 => (series.input, start.min(series.end())),
                        _ => (end.max(series.input), series.end()),
                    };
                    self.add_series::<R, 1>(rows, phase, [series.within(from, to)]);
                }
            }
        }
    }

    /// Series with the same input rows.
    #[inline(always)]
    unsafe fn add_series<R, const B: usize>(&self, rows: &PreparedRows<R::Number>, phase: &Phase, series: [Series; B])
    where
        R: Access<<R as Register>::Number>,
    {
        if series[0].count <= 0 {
            return;
        }
        let (input_pitch, output_pitch) = (self.prepared_length(), self.output_length());
        let input = rows.inputs.wrapping_add((series[0].input - rows.first_input) as usize * input_pitch);
        let outputs = series.map(|series| {
            rows.outputs.wrapping_add((series.output - rows.first_output) as usize * output_pitch + phase.start)
        });
        let sums = series.map(|series| rows.sums.wrapping_add(series.tap as usize * rows.taps_x));
        let shared = Pairs {
            outputs,
            sums,
            steps: (series[0].inputs as usize * input_pitch, series[0].outputs as usize * output_pitch),
            rows: series[0].count as usize,
            count: phase.count,
        };
        let mut first = phase.terms.start;
        while first < phase.terms.end {
            let (offsets, taps) = (&self.offsets[first..phase.terms.end], &self.taps[first..phase.terms.end]);
            // SAFETY: the promise of `add_products`; a term's window lies inside the prepared row.
            first += unsafe {
                match offsets.len() {
                    1 => shared.multiply::<R, 1>(input, offsets, taps),
                    2 => shared.multiply::<R, 2>(input, offsets, taps),
                    3 | 5 | 6 => shared.multiply::<R, 3>(input, offsets, taps),
                    _ => shared.multiply::<R, 4>(input, offsets, taps),
                }
            };
        }
    }
}

/// Pairs of an input row and an output row between which a tap along y stands: every `inputs`-th and
/// every `outputs`-th row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series {
    /// The tap.
    pub tap: i64,
    /// The first input row.
    pub input: i64,
    /// The first output row.
    pub output: i64,
    /// How many pairs.
    pub count: i64,
    /// From input row to input row.
    pub inputs: i64,
    /// From output row to output row.
    pub outputs: i64,
}

impl Series {
    /// Whether both have every so many-th input row, counted from the same one.
    fn shares_inputs(&self, other: &Series) -> bool {
        self.input % self.inputs == other.input % self.inputs
    }

    /// The input row that would come next.
    fn end(&self) -> i64 {
        self.input + self.count * self.inputs
    }

    /// The pairs with input rows of a range that starts and ends with a row of this series.
    fn within(self, start: i64, end: i64) -> Series {
        let output = self.output + (start - self.input) / self.inputs * self.outputs;
        Series { input: start, output, count: (end - start) / self.inputs, ..self }
    }
}

/// The rows of a tile.
pub struct PreparedRows<C> {
    /// Input rows as the strip prepares them, one after the other.
    pub inputs: *const C,
    /// The number of the first.
    pub first_input: i64,
    /// Output rows, split.
    pub outputs: *const C,
    /// The number of the first.
    pub first_output: i64,
    /// The sums of all taps.
    pub sums: *mut f64,
    /// Taps in a row of the kernel.
    pub taps_x: usize,
}

/// One phase of a row of outputs.
struct Phase {
    terms: Range<usize>,
    /// Where it starts in a split row.
    start: usize,
    /// How many elements it has.
    count: usize,
}

/// How many products a place of a register adds up before it goes into a float64 sum.
const PRODUCTS: usize = 128;

/// What several series with the same input rows are multiplied by.
struct Pairs<C, const B: usize> {
    /// The first output row of each.
    outputs: [*const C; B],
    /// The sums of each one's taps.
    sums: [*mut f64; B],
    /// Elements from row to row of inputs and of outputs.
    steps: (usize, usize),
    rows: usize,
    count: usize,
}

impl<C: Compute, const B: usize> Pairs<C, B> {
    /// Adds the products of outputs with the inputs at `A` offsets to the sums of their taps along x.
    ///
    /// # Safety
    /// As [`Strip::add_products`].
    #[inline(always)]
    unsafe fn multiply<R, const A: usize>(&self, input: *const C, offsets: &[usize], taps: &[usize]) -> usize
    where
        R: Access<C> + Register<Number = C>,
    {
        let blocks = self.count.div_ceil(R::LANES);
        let at_once = (PRODUCTS / blocks.max(1)).max(1);
        let mut row = 0;
        // SAFETY: the caller's promise; a last part of a register is read as such.
        unsafe {
            while row < self.rows {
                let end = self.rows.min(row + at_once);
                let mut sums = [[R::splat(C::default()); A]; B];
                while row < end {
                    let inputs = input.add(row * self.steps.0);
                    let moved = row * self.steps.1;
                    let mut q = 0;
                    while q + R::LANES <= self.count {
                        let mut values = [sums[0][0]; B];
                        for b in 0..B {
                            values[b] = R::load(self.outputs[b].add(moved + q));
                        }
                        for a in 0..A {
                            let factor = R::load(inputs.add(offsets[a] + q));
                            for b in 0..B {
                                sums[b][a] = factor.multiply_add(values[b], sums[b][a]);
                            }
                        }
                        q += R::LANES;
                    }
                    if q < self.count {
                        let rest = self.count - q;
                        let mut values = [sums[0][0]; B];
                        for b in 0..B {
                            values[b] = R::load_part(self.outputs[b].add(moved + q), rest);
                        }
                        for a in 0..A {
                            let factor = R::load_part(inputs.add(offsets[a] + q), rest);
                            for b in 0..B {
                                sums[b][a] = factor.multiply_add(values[b], sums[b][a]);
                            }
                        }
                    }
                    row += 1;
                }
                for b in 0..B {
                    for a in 0..A {
                        *self.sums[b].add(taps[a]) += sums[b][a].sum();
                    }
                }
            }
        }
        A
    }
}
