//! The ways in which tests put a tensor into memory.

use firelu::{DType, Shape, Strides, TensorType};

use crate::numbers::Numbers;

/// How a tensor lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One row after the other, aligned.
    RowMajor,
    /// Row-major, at an odd byte.
    Misaligned,
    /// Row-major, one element after a vector's boundary.
    Shifted,
    /// The second dimension innermost, the others in order.
    ChannelsLast,
    /// Every second element of each dimension of a larger array.
    Sliced,
    /// Backwards along the last dimension.
    Reversed,
    /// The first dimension innermost, with gaps.
    Transposed,
    /// Every second column at odd bytes, rows reversed, planes in exchanged order.
    Scattered,
    /// Dimensions in any order, some reversed, with gaps.
    Strided,
    /// As `Strided`, and some dimensions are repetitions.
    Repeated,
}

/// Layouts in which random inputs are given.
pub const READABLE: [Layout; 5] =
    [Layout::RowMajor, Layout::Misaligned, Layout::ChannelsLast, Layout::Strided, Layout::Repeated];
/// Layouts in which random outputs are wanted: each element has memory of its own.
pub const WRITABLE: [Layout; 4] = [Layout::RowMajor, Layout::Misaligned, Layout::ChannelsLast, Layout::Strided];

/// Where the elements of a tensor lie within a piece of memory.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Bytes between neighbours along each dimension.
    pub strides: Strides,
    /// The byte of the first element.
    pub first: usize,
    /// The bytes of the piece.
    pub bytes: usize,
}

impl Layout {
    /// Where a tensor's elements lie; the layouts that are open to chance take it from the numbers.
    pub fn placement(self, shape: &[usize], dtype: DType, numbers: &mut Numbers) -> Placement {
        let (size, kind) = (dtype.size(), TensorType::new(shape, dtype));
        let (row_major, bytes) = (kind.shape.row_major_strides(dtype), kind.bytes());
        let plain = |first: usize| Placement { strides: row_major.clone(), first, bytes: first + bytes };
        match self {
            Layout::RowMajor => plain(0),
            Layout::Misaligned => plain(1),
            Layout::Shifted => plain(size),
            Layout::ChannelsLast if shape.len() < 2 => plain(0),
            Layout::ChannelsLast => {
                let mut strides = row_major;
                let mut step = size as isize;
                for d in [1].into_iter().chain((2..shape.len()).rev()).chain([0]) {
                    strides[d] = step;
                    step *= shape[d].max(1) as isize;
                }
                Placement { strides, first: 0, bytes }
            }
            Layout::Sliced => {
                let larger: Shape = shape.iter().map(|n| 2 * n).collect();
                let strides = larger.row_major_strides(dtype).iter().map(|stride| 2 * stride).collect();
                Placement { strides, first: 0, bytes: larger.elements().max(1) * size }
            }
            Layout::Reversed => {
                let mut placement = plain(0);
                if let (Some(stride), Some(&length)) = (placement.strides.last_mut(), shape.last()) {
                    *stride = -*stride;
                    placement.first = if bytes == 0 { 0 } else { (length - 1) * size };
                }
                placement
            }
            Layout::Transposed => {
                let (mut strides, mut step) = (row_major, 2 * size as isize);
                for (stride, &length) in strides.iter_mut().zip(shape) {
                    *stride = step;
                    step *= length as isize + 1;
                }
                Placement { strides, first: 0, bytes: step as usize + size }
            }
            Layout::Scattered => scattered(shape, size),
            Layout::Strided | Layout::Repeated => by_chance(shape, size, self == Layout::Repeated, numbers),
        }
    }
}

fn scattered(shape: &[usize], size: usize) -> Placement {
    let (rank, mut step) = (shape.len(), 2 * size as isize + 1);
    let mut strides: Strides = shape.iter().map(|_| 0).collect();
    for d in (rank.saturating_sub(2)..rank).rev().chain(0..rank.saturating_sub(2)) {
        strides[d] = step;
        step *= shape[d].max(1) as isize;
    }
    let mut first = 1;
    if rank > 1 {
        let (row, rows) = (&mut strides[rank - 2], shape[rank - 2]);
        first += *row as usize * rows.saturating_sub(1);
        *row = -*row;
    }
    Placement { strides, first, bytes: step as usize + size + 1 }
}

fn by_chance(shape: &[usize], size: usize, may_repeat: bool, numbers: &mut Numbers) -> Placement {
    let mut order: Vec<usize> = (0..shape.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, numbers.below(i + 1));
    }
    let mut strides: Strides = shape.iter().map(|_| 0).collect();
    let (mut step, mut first) = (size, 0);
    for &d in order.iter().rev() {
        if may_repeat && numbers.below(3) == 0 {
            continue;
        }
        step *= 1 + numbers.below(2);
        strides[d] = step as isize;
        if numbers.below(3) == 0 && shape[d] > 0 {
            first += step * (shape[d] - 1);
            strides[d] = -strides[d];
        }
        step *= shape[d].max(1);
    }
    Placement { strides, first, bytes: first + step }
}
