//! Windows: small dense copies of parts of planes, in which what lies outside a plane has its values; and their adjoint,
//! which adds what was computed for positions outside to the samples that they stand for.

use std::ops::Range;

use crate::border::Border;
use crate::plan::layout::{Layout, Side, copy_strided};
use firelu_core::dtype::{Compute, Element};

/// Rows and columns of a plane, inside and outside it.
pub struct Window {
    /// What lies outside.
    pub border: Border,
    /// The rows.
    pub y: Range<i64>,
    /// The columns.
    pub x: Range<i64>,
    /// Height and width of the plane.
    pub plane: (i64, i64),
}

impl Window {
    /// Its height and width.
    pub fn size(&self) -> (i64, i64) {
        (self.y.end - self.y.start, self.x.end - self.x.start)
    }

    /// The elements of so many planes of it.
    pub fn elements(&self, pixel: usize, planes: usize) -> usize {
        (self.size().0 * self.size().1) as usize * pixel * planes
    }

    /// Copies the samples of the layout's first tensor that the window shows.
    ///
    /// # Safety
    /// They are readable, and the target has room for all.
    pub unsafe fn fill<T: Element>(&self, layout: &Layout, planes: Range<usize>, target: *mut T) {
        let (side, pixel, width) = (&layout.first, layout.pixel, (self.x.end - self.x.start) as usize * layout.pixel);
        let [inside_start, inside_end] = [self.x.start, self.x.end].map(|end| end.clamp(0, self.plane.1));
        let inside = (inside_end - inside_start) as usize;
        let outside = (self.x.start..self.x.end.min(0)).chain(self.x.start.max(self.plane.1)..self.x.end);
        let mut target = target;
        for plane in planes {
            let offset = layout.offsets(plane).0;
            for row in self.y.clone() {
                let Some(row) = self.border.source(row as isize, self.plane.0 as usize) else { continue };
                let start = side.place(row as i64, 0, offset).cast_const();
                let copy = |from: i64, to: i64, columns: usize| {
                    let from = start.wrapping_offset(from as isize * side.column);
                    let to = target.wrapping_add((to - self.x.start) as usize * pixel);
                    // SAFETY: the caller's promise: columns of the plane to their places in the window's row.
                    unsafe {
                        match side.dense {
                            true => from.copy_to_nonoverlapping(to.cast(), columns * pixel * size_of::<T>()),
                            false => {
                                copy_strided::<T>((from, side.column), (to.cast(), size_of::<T>() as isize), columns)
                            }
                        }
                    }
                };
                if inside > 0 {
                    copy(inside_start, inside_start, inside);
                }
                for column in outside.clone() {
                    if let Some(from) = self.border.source(column as isize, self.plane.1 as usize) {
                        copy(from as i64, column, 1);
                    }
                }
                target = target.wrapping_add(width);
            }
        }
    }

    /// The same for a window inside the plane, with its samples in the compute type.
    ///
    /// # Safety
    /// As [`Window::fill`].
    pub unsafe fn widen<T: Element>(&self, layout: &Layout, planes: Range<usize>, target: *mut T::Compute) {
        let (side, pixel) = (&layout.first, layout.pixel);
        let width = (self.x.end - self.x.start) as usize * pixel;
        let step = if side.dense { size_of::<T>() as isize } else { side.column };
        let mut target = target;
        for plane in planes {
            let offset = layout.offsets(plane).0;
            for row in self.y.clone() {
                let start = side.place(row, self.x.start, offset).cast_const();
                for index in 0..width {
                    // SAFETY: the caller's promise; elements may be unaligned.
                    unsafe {
                        let value = start.wrapping_offset(index as isize * step).cast::<T>().read_unaligned();
                        target.add(index).write(value.to_compute());
                    }
                }
                target = target.wrapping_add(width);
            }
        }
    }

    /// Adds what was computed for the window's positions to the samples of its rows that they stand for: these columns.
    ///
    /// # Safety
    /// `from` has all positions of so many planes, `lines` the columns of as many rows, and each position stands for one
    /// of the columns.
    pub unsafe fn fold_columns<C: Compute>(
        &self,
        from: *const C,
        lines: *mut C,
        columns: &Range<i64>,
        pixel: usize,
        planes: usize,
    ) {
        let (rows, width) = (self.size().0 as usize * planes, (columns.end - columns.start) as usize * pixel);
        let (mut from, length) = (from, self.plane.1);
        for row in 0..rows {
            let line = lines.wrapping_add(row * width);
            let mut position = self.x.start;
            while position < self.x.end {
                // Samples inside stand for themselves, all at once.
                let inside = (0..length).contains(&position);
                let count = if inside { self.x.end.min(length) - position } else { 1 };
                let sample = self.border.source(position as isize, length as usize).unwrap_or(0);
                let place = (sample - columns.start as usize) * pixel;
                // SAFETY: the caller's promise.
                unsafe { add(from, line.wrapping_add(place), count as usize * pixel) };
                from = from.wrapping_add(count as usize * pixel);
                position += count;
            }
        }
    }
}

/// Adds numbers to sums.
///
/// # Safety
/// The numbers are readable, and the sums writable.
pub unsafe fn add<C: Compute>(from: *const C, sums: *mut C, count: usize) {
    for index in 0..count {
        // SAFETY: the caller's promise.
        unsafe { sums.add(index).write(sums.add(index).read() + from.add(index).read()) };
    }
}

/// Writes a row of sums to a side's columns from this place on, rounded once.
///
/// # Safety
/// The sums are readable, and the columns writable.
pub unsafe fn round_row<T: Element>(sums: *const T::Compute, side: &Side, target: *mut u8, length: usize) {
    let step = if side.dense { size_of::<T>() as isize } else { side.column };
    for index in 0..length {
        // SAFETY: the caller's promise; elements may be unaligned.
        unsafe {
            let value = T::from_compute(sums.add(index).read());
            target.wrapping_offset(index as isize * step).cast::<T>().write_unaligned(value);
        }
    }
}
