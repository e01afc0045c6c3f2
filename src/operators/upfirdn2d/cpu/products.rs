//! Products of outputs with the inputs they are summed from: what the kernel's gradient adds up.

use smallvec::SmallVec;

use super::registers::{Access, Register};
use super::strip::Strip;
use super::sums::{Rows, Stores, Sums};
use crate::core::dtype::{Compute, Element};

impl Strip {
    /// The most products that one row adds to a place of a register of so many lanes.
    pub fn most_products(&self, lanes: usize) -> usize {
        (self.columns.len().div_ceil(self.phases) * self.pixel).div_ceil(lanes)
    }

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

    /// Adds the products of split outputs with prepared rows to the places of their taps: a row's along
    /// x stand from its own place on, `PLACES` numbers each.
    ///
    /// # Safety
    /// The register's level was detected, all rows are as this strip makes them, the places hold all
    /// taps along x.
    #[inline(always)]
    pub unsafe fn add_products<R, const PLACES: usize>(
        &self,
        outputs: *const R::Number,
        rows: &[(*const R::Number, *mut R::Number)],
    ) where
        R: Access<<R as Register>::Number>,
    {
        let (mut start, mut first) = (0, 0);
        let mut factors: SmallVec<[(*const R::Number, *mut R::Number); 64]> = SmallVec::new();
        for (phase, &end) in self.bounds.iter().enumerate() {
            let count = (self.columns.len() - phase).div_ceil(self.phases) * self.pixel;
            factors.clear();
            for &(row, places) in rows {
                for term in first..end {
                    factors.push((row.wrapping_add(self.offsets[term]), places.wrapping_add(self.taps[term] * PLACES)));
                }
            }
            // SAFETY: the caller's promise.
            unsafe {
                let outputs = outputs.add(start);
                let (eights, rest) = factors.as_chunks::<8>();
                for factors in eights {
                    multiply::<R, 8>(outputs, factors, count);
                }
                let (fours, rest) = rest.as_chunks::<4>();
                for factors in fours {
                    multiply::<R, 4>(outputs, factors, count);
                }
                for factor in rest.as_chunks::<1>().0 {
                    multiply::<R, 1>(outputs, factor, count);
                }
            }
            start += count;
            first = end;
        }
    }
}

/// Adds the products of `count` outputs with each row to that row's register of sums.
///
/// # Safety
/// As [`Strip::add_products`].
#[inline(always)]
unsafe fn multiply<R, const N: usize>(
    outputs: *const R::Number,
    factors: &[(*const R::Number, *mut R::Number); N],
    count: usize,
) where
    R: Access<<R as Register>::Number>,
{
    // SAFETY: the caller's promise; a last part of a register is read as such.
    unsafe {
        let mut sums = [R::load(factors[0].1); N];
        for (sum, factor) in sums.iter_mut().zip(factors).skip(1) {
            *sum = R::load(factor.1);
        }
        let mut q = 0;
        while q + R::LANES <= count {
            let output = R::load(outputs.add(q));
            for (sum, factor) in sums.iter_mut().zip(factors) {
                *sum = R::load(factor.0.add(q)).multiply_add(output, *sum);
            }
            q += R::LANES;
        }
        if q < count {
            let output = R::load_part(outputs.add(q), count - q);
            for (sum, factor) in sums.iter_mut().zip(factors) {
                *sum = R::load_part(factor.0.add(q), count - q).multiply_add(output, *sum);
            }
        }
        for (sum, factor) in sums.into_iter().zip(factors) {
            sum.store(factor.1);
        }
    }
}
