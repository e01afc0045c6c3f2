//! What a sample may be: floats and unsigned integers, each loaded into and stored from registers of compute numbers.

use firelu_core::dtype::{BFloat16, Compute, Element, Float16};
use firelu_filters::loops::register::{Access, Register};

/// The most numbers that a register holds.
pub const MOST_LANES: usize = 16;

/// A type that pictures are stored in.
pub trait Sample: Copy + Default + Send + Sync + 'static {
    /// What it is computed in.
    type Number: Compute;
    /// Whether loading widens it.
    const WIDENED: bool = true;
    /// Whether it is a whole number.
    const WHOLE: bool = false;

    /// Writes the means of squares of two by two pixels of `C` whole numbers.
    ///
    /// # Safety
    /// The rows have twice as many columns as the target; all can be read and written.
    #[inline(always)]
    unsafe fn halve<const C: usize>(_rows: [*const Self; 2], _target: *mut Self, _columns: usize) {
        unreachable!("floats are halved by registers")
    }
}

/// A register that is loaded from, and rounded once into, samples.
pub trait Holds<S: Sample<Number = Self::Number>>: Register {
    /// Loads as many samples as the register holds.
    ///
    /// # Safety
    /// The level was detected and the samples are readable.
    unsafe fn get(source: *const S) -> Self;

    /// Rounds and stores as many samples as the register holds.
    ///
    /// # Safety
    /// The samples are writable.
    unsafe fn put(self, target: *mut S);
}

macro_rules! float_samples {
    ($($sample:ty, $widened:literal;)*) => {$(
        impl Sample for $sample {
            type Number = <$sample as Element>::Compute;
            const WIDENED: bool = $widened;
        }

        impl<R: Access<$sample> + Register<Number = <$sample as Element>::Compute>> Holds<$sample> for R {
            #[inline(always)]
            unsafe fn get(source: *const $sample) -> Self {
                // SAFETY: the caller's promise.
                unsafe { R::load(source) }
            }
            #[inline(always)]
            unsafe fn put(self, target: *mut $sample) {
                // SAFETY: the caller's promise.
                unsafe { self.store(target) }
            }
        }
    )*};
}
float_samples!(f32, false; f64, false; Float16, true; BFloat16, true;);

/// Half the size by means, over whole numbers: blocks of pixels in their own width, the rest in one of twice that.
macro_rules! halve {
    ($sample:ty, $wide:ty) => {
        const WHOLE: bool = true;

        #[inline(always)]
        unsafe fn halve<const C: usize>(rows: [*const Self; 2], target: *mut Self, columns: usize) {
            // Means of two pixels side by side, of which every second is wanted; `C` is at most four.
            const PIXELS: usize = 32;
            let mut means = [0 as Self; 2 * 4 * PIXELS];
            let mut column = 0;
            // A pixel more than the block is there, beyond which the last samples of the block look.
            while column + PIXELS < columns {
                // SAFETY: the caller's promise: all columns can be read.
                let [above, below] = rows.map(|row| unsafe { row.add(2 * C * column) });
                for (place, mean) in means[..2 * C * PIXELS].iter_mut().enumerate() {
                    // SAFETY: as above.
                    let at = |row: *const Self, place: usize| unsafe { row.add(place).read_unaligned() };
                    let [a, b, c, d] = [at(above, place), at(below, place), at(above, place + C), at(below, place + C)];
                    // Means of two are rounded up; so is theirs, which is one too much where the roundings add up. A half
                    // is left where the sum is two more than a multiple of four: an odd mean is then one too much.
                    let up = |a: Self, b: Self| ((<$wide>::from(a) + <$wide>::from(b) + 1) >> 1) as Self;
                    let [left, right] = [up(a, b), up(c, d)];
                    let rounded = up(left, right) - (((a ^ b) | (c ^ d)) & (left ^ right) & 1);
                    let sum = a.wrapping_add(b).wrapping_add(c).wrapping_add(d);
                    *mean = rounded - ((sum >> 1) & !sum & rounded & 1);
                }
                // A pixel of three is copied with the sample behind it, which the next one puts right.
                let length = if C == 3 { 4 } else { C };
                for place in 0..PIXELS {
                    // SAFETY: a column beyond the block can be written; the array holds two pixels of four for each.
                    unsafe {
                        let source = means.as_ptr().add(2 * C * place).cast::<u8>();
                        let target = target.add(C * (column + place)).cast::<u8>();
                        std::ptr::copy_nonoverlapping(source, target, length * size_of::<Self>());
                    }
                }
                column += PIXELS;
            }
            for place in C * column..C * columns {
                let first = place / C * 2 * C + place % C;
                // SAFETY: the caller's promise.
                unsafe {
                    let at = |place: usize| rows.map(|row| <$wide>::from(row.add(place).read_unaligned()));
                    let sum: $wide = at(first).into_iter().chain(at(first + C)).sum();
                    // A quarter, rounded half to even.
                    target.add(place).write_unaligned(((sum + 1 + ((sum >> 2) & 1)) >> 2) as Self);
                }
            }
        }
    };
}

/// A float32 that is computed in float64 and rounded once.
#[derive(Debug, Clone, Copy, Default)]
#[repr(transparent)]
pub struct Single(f32);

impl Sample for Single {
    type Number = f64;
}

impl<R: Access<f64> + Register<Number = f64>> Holds<Single> for R {
    #[inline(always)]
    unsafe fn get(source: *const Single) -> Self {
        let mut numbers = [0.0f64; MOST_LANES];
        for (place, number) in numbers[..R::LANES].iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *number = f64::from(unsafe { source.add(place).read_unaligned() }.0);
        }
        // SAFETY: the caller's promise; the array holds as many as a register.
        unsafe { R::load(numbers.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn put(self, target: *mut Single) {
        let mut numbers = [0.0f64; MOST_LANES];
        // SAFETY: the array holds as many as a register.
        unsafe { self.store(numbers.as_mut_ptr()) };
        for (place, number) in numbers[..R::LANES].iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { target.add(place).write_unaligned(Single(*number as f32)) };
        }
    }
}

macro_rules! whole_samples {
    ($($sample:ty, $wide:ty;)*) => {$(
        impl Sample for $sample {
            type Number = f32;
            halve!($sample, $wide);
        }

        impl<R: Access<f32> + Register<Number = f32>> Holds<$sample> for R {
            #[inline(always)]
            unsafe fn get(source: *const $sample) -> Self {
                let mut numbers = [0.0f32; MOST_LANES];
                for (place, number) in numbers[..R::LANES].iter_mut().enumerate() {
                    // SAFETY: the caller's promise.
                    *number = f32::from(unsafe { source.add(place).read_unaligned() });
                }
                // SAFETY: the caller's promise; the array holds as many as a register.
                unsafe { R::load(numbers.as_ptr()) }
            }

            #[inline(always)]
            unsafe fn put(self, target: *mut $sample) {
                let mut numbers = [0.0f32; MOST_LANES];
                // SAFETY: the array holds as many as a register.
                unsafe { self.store(numbers.as_mut_ptr()) };
                for (place, number) in numbers[..R::LANES].iter().enumerate() {
                    let number = if *number > 0.0 { *number } else { 0.0 };
                    let number = if number < <$sample>::MAX as f32 { number } else { <$sample>::MAX as f32 };
                    // A sum with 2^23 has no place for a fraction: it is rounded, half to even, and its lowest bits are
                    // the whole number.
                    let rounded = (number + 8_388_608.0).to_bits() as $sample;
                    // SAFETY: the caller's promise.
                    unsafe { target.add(place).write_unaligned(rounded) };
                }
            }
        }
    )*};
}
whole_samples!(u8, u16; u16, u32;);
