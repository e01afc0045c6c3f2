//! Enlarging by a whole number with the box: every sample is repeated as it is, and rows that are alike are copied.
//!
//! The bits are those of the general way, which multiplies by one, but for the sign of a zero, which is kept here.

/// A row, the row that it becomes, and how often each pixel comes.
pub struct Repeating {
    /// The pixel that the first output is.
    pub source: *const u8,
    pub target: *mut u8,
    /// How many pixels the target has.
    pub columns: usize,
    /// How many bytes a pixel has.
    pub bytes: usize,
    /// How often a pixel comes.
    pub times: usize,
    /// How often the first one comes.
    pub first_times: usize,
}

impl Repeating {
    /// Whether there is a loop for pixels of so many bytes.
    pub fn is_served(bytes: usize) -> bool {
        matches!(bytes, 1 | 2 | 3 | 4 | 6 | 8 | 12 | 16)
    }

    /// Writes the row.
    ///
    /// # Safety
    /// All pixels can be read and written, and there is a loop for them.
    pub unsafe fn run(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.bytes {
                1 => self.pixels::<1>(),
                2 => self.pixels::<2>(),
                3 => self.pixels::<3>(),
                4 => self.pixels::<4>(),
                6 => self.pixels::<6>(),
                8 => self.pixels::<8>(),
                12 => self.pixels::<12>(),
                _ => self.pixels::<16>(),
            }
        }
    }

    /// As `run`, for pixels of `P` bytes.
    #[inline(always)]
    unsafe fn pixels<const P: usize>(&self) {
        let source = self.source.cast::<[u8; P]>();
        let target = self.target.cast::<[u8; P]>();
        let first = self.first_times.min(self.columns);
        let whole = (self.columns - first) / self.times;
        let last = self.columns - first - whole * self.times;
        // SAFETY: the caller's promise; arrays of bytes need no alignment.
        unsafe {
            repeat(source, target, first);
            let (source, target) = (source.add(1), target.add(first));
            match self.times {
                2 => whole_pixels::<P, 2>(source, target, whole),
                3 => whole_pixels::<P, 3>(source, target, whole),
                4 => whole_pixels::<P, 4>(source, target, whole),
                times => (0..whole).for_each(|pixel| repeat(source.add(pixel), target.add(pixel * times), times)),
            }
            if last > 0 {
                repeat(source.add(whole), target.add(whole * self.times), last);
            }
        }
    }
}

/// Writes a pixel some times.
///
/// # Safety
/// It can be read, and written so often.
#[inline(always)]
unsafe fn repeat<const P: usize>(source: *const [u8; P], target: *mut [u8; P], times: usize) {
    for place in 0..times {
        // SAFETY: the caller's promise.
        unsafe { target.add(place).write(source.read()) };
    }
}

/// Writes each of some pixels `N` times.
///
/// # Safety
/// They can be read, and written so often.
#[inline(always)]
unsafe fn whole_pixels<const P: usize, const N: usize>(source: *const [u8; P], target: *mut [u8; P], count: usize) {
    let target = target.cast::<[[u8; P]; N]>();
    for pixel in 0..count {
        // SAFETY: the caller's promise.
        unsafe { target.add(pixel).write([source.add(pixel).read(); N]) };
    }
}
