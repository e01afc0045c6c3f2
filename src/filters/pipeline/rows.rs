//! Where rows are: planes of tensors, room in a tile's memory, and rings.

use crate::loops::memory_access::{Rows, Stores};
use crate::plan::strip::SLACK;
use firelu_core::dtype::Compute;
use firelu_core::shape::Shape;
use firelu_core::tensor::Parts;

/// One plane of a tensor.
#[derive(Clone, Copy)]
pub struct Plane {
    /// The element with index zero.
    pub pointer: *mut u8,
    /// Bytes from row to row.
    pub row: isize,
    /// Bytes from column to column.
    pub column: isize,
}

impl Plane {
    /// Where an element is. Rows that are only asked for in advance may lie outside, and the stride of a dimension with one
    /// element may be any number: neither is an overflow.
    pub fn at(&self, row: i64, column: i64) -> *mut u8 {
        let bytes = (row as isize).wrapping_mul(self.row).wrapping_add((column as isize).wrapping_mul(self.column));
        self.pointer.wrapping_offset(bytes)
    }
}

/// The planes of all tensors of a call.
pub struct Planes {
    inputs: Vec<Parts>,
    output: Parts,
    /// The dimensions that all tensors share.
    leading: Shape,
    channel_axis: Option<usize>,
    pub count: usize,
}

// SAFETY: addresses and strides of views, which may be used from any thread.
unsafe impl Sync for Planes {}

impl Planes {
    pub fn new(inputs: &[&Parts], output: &Parts, channel_axis: Option<usize>) -> Self {
        let shape = output.shape();
        let leading: Shape = shape[..shape.len() - 2].iter().copied().collect();
        let count = leading.iter().product();
        Planes {
            inputs: inputs.iter().map(|&parts| parts.clone()).collect(),
            output: output.clone(),
            leading,
            channel_axis,
            count,
        }
    }

    fn plane(&self, of: &Parts, plane: usize) -> Plane {
        let (mut rest, mut offset) = (plane, 0_isize);
        for (dimension, &length) in self.leading.iter().enumerate().rev() {
            // An input without elements may have any strides, and nothing is read from it: its offset may wrap.
            offset = offset.wrapping_add(((rest % length) as isize).wrapping_mul(of.strides[dimension]));
            rest /= length;
        }
        let dims = of.shape().len();
        let pointer = of.pointer.wrapping_offset(offset);
        Plane { pointer, row: of.strides[dims - 2], column: of.strides[dims - 1] }
    }

    /// A plane of the `index`th input.
    pub fn input(&self, index: usize, plane: usize) -> Plane {
        self.plane(&self.inputs[index], plane)
    }

    /// A plane of the output.
    pub fn output(&self, plane: usize) -> Plane {
        self.plane(&self.output, plane)
    }

    /// The channel of a plane.
    pub fn channel(&self, plane: usize) -> usize {
        let Some(axis) = self.channel_axis else { return 0 };
        let inner: usize = self.leading[axis + 1..].iter().product();
        plane / inner % self.leading[axis]
    }
}

/// Memory of a tile that is not given to anything yet.
pub struct Room<C> {
    pub next: *mut C,
    pub left: usize,
}

impl<C> Room<C> {
    /// So many numbers, from the start of a cache line on.
    pub fn take(&mut self, elements: usize) -> *mut C {
        let lines = elements.next_multiple_of(16);
        assert!(lines <= self.left, "a tile's rows fit into the room that was counted for them");
        let start = self.next;
        (self.next, self.left) = (start.wrapping_add(lines), self.left - lines);
        start
    }
}

/// What a place holds that holds no row.
const NO_ROW: i64 = i64::MIN;

/// The last few rows of something that is computed row by row. As many rows as it holds, one after the other, are held
/// at once.
pub struct Ring<C> {
    rows: *mut C,
    /// Elements from row to row.
    pitch: usize,
    /// Which row each place holds.
    held: Vec<i64>,
}

impl<C> Ring<C> {
    /// A ring of a power of two of rows.
    pub fn new(room: &mut Room<C>, rows: usize, length: usize) -> Self {
        debug_assert!(rows.is_power_of_two());
        let pitch = length.next_multiple_of(16);
        Ring { rows: room.take(rows * pitch + SLACK), pitch, held: vec![NO_ROW; rows] }
    }

    /// Holds nothing any more.
    pub fn clear(&mut self) {
        self.held.fill(NO_ROW);
    }

    #[inline]
    fn index(&self, row: i64) -> usize {
        row as usize & (self.held.len() - 1)
    }

    /// The place of a row.
    #[inline]
    pub fn place(&self, row: i64) -> *mut C {
        self.rows.wrapping_add(self.index(row) * self.pitch)
    }

    /// Whether it is held.
    #[inline]
    pub fn holds(&self, row: i64) -> bool {
        self.held[self.index(row)] == row
    }

    /// Says that it is held from now on.
    #[inline]
    pub fn hold(&mut self, row: i64) {
        let place = self.index(row);
        self.held[place] = row;
    }
}

/// Adds nothing to a row but writes it elsewhere.
pub const AS_IT_IS: (Rows, Stores) = (Rows::ONE, Stores::Cached);

/// The number one.
pub fn one<C: Compute>() -> [C; 1] {
    [C::from_f64(1.0)]
}
