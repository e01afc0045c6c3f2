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

/// Half the size by means, over whole numbers, in a type of twice their width.
macro_rules! halve {
    ($sample:ty, $wide:ty) => {
        const WHOLE: bool = true;

        #[inline(always)]
        unsafe fn halve<const C: usize>(rows: [*const Self; 2], target: *mut Self, columns: usize) {
            const MOST: usize = 1024;
            let (mut sums, mut means) = ([0 as $wide; MOST], [0 as Self; MOST]);
            let at_once = MOST / (2 * C);
            let mut column = 0;
            while column < columns {
                let count = at_once.min(columns - column);
                let samples = 2 * C * count;
                // SAFETY: the caller's promise: all columns can be read.
                let [above, below] = rows.map(|row| unsafe { row.add(2 * C * column) });
                for (place, sum) in sums[..samples].iter_mut().enumerate() {
                    // SAFETY: as above.
                    let pair = unsafe { [above.add(place).read_unaligned(), below.add(place).read_unaligned()] };
                    *sum = <$wide>::from(pair[0]) + <$wide>::from(pair[1]);
                }
                let (first, second) = (&sums[..samples - C], &sums[C..samples]);
                for ((mean, left), right) in means.iter_mut().zip(first).zip(second) {
                    let sum = left + right;
                    // A quarter, rounded half to even.
                    *mean = ((sum + 1 + ((sum >> 2) & 1)) >> 2) as Self;
                }
                for place in 0..count {
                    // A pixel of three is copied with the sample behind it, which the next one puts right.
                    let length = if C == 3 && place + 1 < count { 4 } else { C };
                    // SAFETY: all columns can be written; of two pixels of means there are more than the copied samples.
                    unsafe {
                        let source = means.as_ptr().add(2 * C * place).cast::<u8>();
                        let target = target.add(C * (column + place)).cast::<u8>();
                        if length == 4 {
                            std::ptr::copy_nonoverlapping(source, target, 4 * size_of::<Self>());
                        } else {
                            std::ptr::copy_nonoverlapping(source, target, C * size_of::<Self>());
                        }
                    }
                }
                column += count;
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
