//! How the leading dimensions, the channels and the strides of input and output become planes of rows.

use smallvec::SmallVec;
use std::ops::Range;

use firelu_core::dtype::Element;
use firelu_core::tensor::Parts;

/// More channels than this make rows too long for the caches: such tensors are taken plane by plane.
const MOST_CHANNELS: usize = 8192;

/// One tensor's planes.
#[derive(Clone)]
pub struct Side {
    /// The element with index zero.
    pub pointer: *mut u8,
    /// Bytes from row to row.
    pub row: isize,
    /// Bytes from column to column.
    pub column: isize,
    /// Whether the columns of a row lie one after the other.
    pub dense: bool,
}

impl Side {
    /// Rows of so many columns of so many bytes without gaps.
    fn dense(pointer: *mut u8, (columns, bytes): (usize, usize)) -> Self {
        Side { pointer, row: (columns * bytes) as isize, column: bytes as isize, dense: true }
    }

    /// The address of a column of a row, in the plane so many bytes after the first.
    #[inline]
    pub fn place(&self, row: i64, column: i64, plane: isize) -> *mut u8 {
        self.pointer.wrapping_offset(plane + row as isize * self.row + column as isize * self.column)
    }
}

/// The planes of a pair of tensors with the same leading dimensions.
#[derive(Clone)]
pub struct Layout {
    /// The first tensor's.
    pub first: Side,
    /// The second tensor's.
    pub second: Side,
    /// Elements of a column: one, or all channels of channels-last tensors.
    pub pixel: usize,
    /// How many planes there are.
    pub planes: usize,
    /// Merged leading dimensions, innermost first: length and both strides.
    leading: SmallVec<[(usize, isize, isize); 4]>,
}

// SAFETY: a layout is addresses and strides of views, which may be used from any thread.
unsafe impl Sync for Layout {}

impl Layout {
    /// The planes of two tensors, each of at least two dimensions, that agree in all but the last two.
    pub fn new(first: &Parts, second: &Parts) -> Self {
        let (a, b) = (Dimensions::of(first), Dimensions::of(second));
        let (dims, size) = (a.shape.len(), first.dtype().size() as isize);
        let channels = if dims > 2 { a.shape[dims - 3] } else { 1 };
        let is_channels_last = |of: &Dimensions<'_>| {
            let step = of.strides[dims - 1];
            of.strides[dims - 3] == size && (step == channels as isize * size || of.shape[dims - 1] < 2)
        };
        let last = channels > 1 && channels <= MOST_CHANNELS && is_channels_last(&a) && is_channels_last(&b);
        let pixel = if last { channels } else { 1 };
        let side = |pointer: *mut u8, of: &Dimensions<'_>| Side {
            pointer,
            row: of.stride(dims - 2),
            column: of.stride(dims - 1),
            dense: last || of.strides[dims - 1] == size || of.shape[dims - 1] < 2,
        };
        let mut leading: SmallVec<[(usize, isize, isize); 4]> = SmallVec::new();
        for d in (0..dims - 2 - usize::from(last)).rev() {
            let (n, a, b) = (a.shape[d], a.stride(d), b.stride(d));
            match leading.last_mut() {
                _ if n == 1 => {}
                Some(inner) if inner.0 as isize * inner.1 == a && inner.0 as isize * inner.2 == b => inner.0 *= n,
                _ => leading.push((n, a, b)),
            }
        }
        let planes = leading.iter().map(|dim| dim.0).product();
        Layout { first: side(first.pointer, &a), second: side(second.pointer, &b), pixel, planes, leading }
    }

    /// The same planes, where the second tensor's rows and columns begin at these.
    pub fn starting_at(&self, row: i64, column: i64) -> Self {
        let mut layout = self.clone();
        layout.second.pointer = self.second.place(row, column, 0);
        layout
    }

    /// Some of the planes, of which the first tensor's rows and columns are brought together in dense memory at `window`,
    /// elements of so many bytes in rows of so many columns and planes of so many rows.
    pub fn window(&self, window: *mut u8, size: usize, (rows, columns): (i64, i64), planes: Range<usize>) -> Self {
        let first = Side::dense(window, (columns as usize, self.pixel * size));
        let mut second = self.second.clone();
        second.pointer = second.pointer.wrapping_offset(self.offsets(planes.start).1);
        let step = self.plane_strides().map_or(0, |strides| strides.1);
        let leading = SmallVec::from_iter([(planes.len(), rows as isize * first.row, step)]);
        Layout { first, second, pixel: self.pixel, planes: planes.len(), leading }
    }

    /// The same, where the second tensor's are such memory, too.
    pub fn between_windows(mut self, window: *mut u8, size: usize, (rows, columns): (i64, i64)) -> Self {
        self.second = Side::dense(window, (columns as usize, self.pixel * size));
        for planes in &mut self.leading {
            planes.2 = rows as isize * self.second.row;
        }
        self
    }

    /// Bytes from plane to plane in both tensors, where that is always the same.
    pub fn plane_strides(&self) -> Option<(isize, isize)> {
        match self.leading[..] {
            [] => Some((0, 0)),
            [(_, a, b)] => Some((a, b)),
            _ => None,
        }
    }

    /// OR of the second tensor's address and strides: its low zero bits are the alignment that all its rows share.
    pub fn second_alignment_bits(&self) -> usize {
        let planes = self.leading.iter().fold(0, |bits, &(_, _, stride)| bits | stride);
        self.second.pointer as usize | (self.second.row | planes) as usize
    }

    /// Where a plane starts in both tensors, in bytes.
    #[inline]
    pub fn offsets(&self, plane: usize) -> (isize, isize) {
        if let [(_, a, b)] = self.leading[..] {
            return (plane as isize * a, plane as isize * b);
        }
        let (mut rest, mut first, mut second) = (plane, 0, 0);
        for &(n, a, b) in &self.leading {
            let index = (rest % n) as isize;
            rest /= n;
            first += index * a;
            second += index * b;
        }
        (first, second)
    }
}

/// One tensor's lengths and strides.
struct Dimensions<'a> {
    shape: &'a [usize],
    strides: &'a [isize],
    /// Whether there is no element at all.
    empty: bool,
}

impl<'a> Dimensions<'a> {
    fn of(parts: &'a Parts) -> Self {
        Dimensions { shape: parts.shape(), strides: &parts.strides, empty: parts.shape().contains(&0) }
    }

    /// The bytes between neighbours; none where there are no neighbours, whose stride may be any number.
    fn stride(&self, dimension: usize) -> isize {
        if self.shape[dimension] > 1 && !self.empty { self.strides[dimension] } else { 0 }
    }
}

/// Copies `count` elements between places a number of bytes apart.
///
/// # Safety
/// Each source element is readable, each target element writable.
#[inline]
pub unsafe fn copy_strided<T: Element>(source: (*const u8, isize), target: (*mut u8, isize), count: usize) {
    for i in 0..count as isize {
        // SAFETY: the caller's promise; elements may be unaligned.
        unsafe {
            let value = source.0.offset(i * source.1).cast::<T>().read_unaligned();
            target.0.offset(i * target.1).cast::<T>().write_unaligned(value);
        }
    }
}
