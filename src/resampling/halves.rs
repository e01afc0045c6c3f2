//! The commonest case, half the size by the mean of every square of two by two samples, without turning anything.
//!
//! The bits are those of the general way: planes are summed by the same instructions in the same order, and the sums of four
//! whole numbers are exact in either arithmetic.

use std::any::TypeId;
use std::ops::Range;

use firelu_filters::loops::register::{Access, Register};

use crate::samples::{Holds, MOST_LANES, Sample};

/// Two rows, the row that they become, and the taps.
pub struct Halving<'a, S: Sample, D> {
    pub rows: [*const S; 2],
    pub target: *mut D,
    /// Columns of the target.
    pub columns: usize,
    pub channels: usize,
    pub vertical: &'a [S::Number],
    pub horizontal: &'a [S::Number],
}

impl<S: Sample, D: Sample<Number = S::Number>> Halving<'_, S, D> {
    /// Whether there is a loop for this many channels and these taps.
    pub fn is_served(channels: usize, is_mean: bool) -> bool {
        channels == 1 || (is_mean && S::WHOLE && channels <= 4 && TypeId::of::<S>() == TypeId::of::<D>())
    }

    /// Writes the row.
    ///
    /// # Safety
    /// The registers' level was detected, the call is served, and all columns of the rows can be read and written.
    #[inline(always)]
    pub unsafe fn run<R>(&self)
    where
        R: Register<Number = S::Number> + Holds<S> + Holds<D> + Access<S::Number>,
    {
        let (rows, target, columns) = (self.rows, self.target.cast::<S>(), self.columns);
        // SAFETY: the caller's promise; with several channels the target is of the source's type.
        unsafe {
            match self.channels {
                1 => self.plane::<R>(),
                2 => S::halve::<2>(rows, target, columns),
                3 => S::halve::<3>(rows, target, columns),
                _ => S::halve::<4>(rows, target, columns),
            }
        }
    }

    /// As `run`, for one channel.
    #[inline(always)]
    unsafe fn plane<R>(&self)
    where
        R: Register<Number = S::Number> + Holds<S> + Holds<D> + Access<S::Number>,
    {
        let mut column = 0;
        // SAFETY: the caller's promise; the last columns are copied first, and stored by way of an array.
        unsafe {
            while column + R::LANES <= self.columns {
                let sums = self.register::<R>(self.rows.map(|row| row.add(2 * column)));
                <R as Holds<D>>::put(sums, self.target.add(column));
                column += R::LANES;
            }
            let count = self.columns - column;
            let (mut last, mut samples) = ([[S::default(); 2 * MOST_LANES]; 2], [D::default(); MOST_LANES]);
            for (copy, row) in last.iter_mut().zip(self.rows) {
                let bytes = 2 * count * size_of::<S>();
                std::ptr::copy_nonoverlapping(row.add(2 * column).cast::<u8>(), copy.as_mut_ptr().cast(), bytes);
            }
            let sums = self.register::<R>([last[0].as_ptr(), last[1].as_ptr()]);
            <R as Holds<D>>::put(sums, samples.as_mut_ptr());
            let target = self.target.add(column).cast::<u8>();
            std::ptr::copy_nonoverlapping(samples.as_ptr().cast(), target, count * size_of::<D>());
        }
    }

    #[inline(always)]
    unsafe fn register<R>(&self, rows: [*const S; 2]) -> R
    where
        R: Register<Number = S::Number> + Holds<S> + Access<S::Number>,
    {
        // SAFETY: the caller's promise.
        unsafe {
            let sum = |terms: [R; 2], taps: &[S::Number]| {
                let zero = R::splat(S::Number::default());
                terms[1].multiply_add(R::splat(taps[1]), terms[0].multiply_add(R::splat(taps[0]), zero))
            };
            let at = |place: usize| sum(rows.map(|row| <R as Holds<S>>::get(row.add(place))), self.vertical);
            sum(R::deinterleave([at(0), at(R::LANES)]), self.horizontal)
        }
    }
}

/// The outputs whose rows are all there, where the case is this one: both factors one half, with two taps.
pub fn applies(inputs: [Range<isize>; 2], lengths: [usize; 2]) -> bool {
    inputs.iter().zip(lengths).all(|(range, length)| range.start >= 0 && range.end <= length as isize)
}
