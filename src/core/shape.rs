//! Shapes and byte strides.

use smallvec::SmallVec;
use std::fmt;

use crate::dtype::DType;

/// The length of each dimension, outermost first. Up to four stay on the stack.
#[derive(PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[usize; 4]>);

/// The distance in bytes between neighbours along each dimension; any sign, any multiple.
pub type Strides = SmallVec<[isize; 4]>;

impl Shape {
    /// The number of elements, or `None` where it, or their size in bytes, exceeds `isize::MAX`.
    pub fn checked_elements(&self, dtype: DType) -> Option<usize> {
        if self.0.contains(&0) {
            return Some(0);
        }
        let elements = self.0.iter().try_fold(1usize, |product, &n| product.checked_mul(n))?;
        let bytes = elements.checked_mul(dtype.size())?;
        (bytes <= isize::MAX as usize).then_some(elements)
    }

    /// Whether an array of this shape can be described: a length of zero needs no memory, yet the strides beside it
    /// must fit `isize` all the same.
    pub fn is_addressable(&self, dtype: DType) -> bool {
        let mut lengths = self.0.iter().filter(|&&n| n != 0);
        let bytes = lengths.try_fold(dtype.size(), |bytes, &n| bytes.checked_mul(n));
        bytes.is_some_and(|bytes| bytes <= isize::MAX as usize)
    }

    /// The number of elements of a shape whose size was checked when its tensor was made.
    pub fn elements(&self) -> usize {
        // The other lengths of an empty shape are free: their product may leave 64 bits.
        if self.0.contains(&0) { 0 } else { self.0.iter().product() }
    }

    /// The strides of a row-major array.
    pub fn row_major_strides(&self, dtype: DType) -> Strides {
        let mut strides: Strides = SmallVec::from_elem(0, self.len());
        let mut step = dtype.size() as isize;
        for (stride, &n) in strides.iter_mut().zip(&self.0).rev() {
            *stride = step;
            step = step.saturating_mul(n.max(1) as isize);
        }
        strides
    }

    /// The strides of a dense array whose dimensions lie in memory in the order of `like`, so that a
    /// channels-last input gives a channels-last output. Row-major where `like` leaves it open.
    pub fn strides_like(&self, like: &[isize], dtype: DType) -> Strides {
        let row_major = self.row_major_strides(dtype);
        if like == row_major.as_slice() || like.len() != self.len() {
            return row_major;
        }
        let mut order: SmallVec<[usize; 6]> = (0..self.len()).collect();
        // A broadcast dimension (stride 0) says nothing about order: keep it where row-major has it.
        let key = |&d: &usize| if self.0[d] == 1 { None } else { Some(like[d].unsigned_abs()) };
        if order.iter().any(|d| like[*d] == 0 && self.0[*d] > 1) {
            return row_major;
        }
        let mut movable: SmallVec<[usize; 6]> = order.iter().copied().filter(|d| key(d).is_some()).collect();
        movable.sort_by_key(|d| std::cmp::Reverse(key(d)));
        let mut next = movable.into_iter();
        for slot in order.iter_mut() {
            if self.0[*slot] != 1 {
                *slot = next.next().unwrap_or(*slot);
            }
        }
        let mut strides = row_major;
        let mut step = dtype.size() as isize;
        for &d in order.iter().rev() {
            strides[d] = step;
            step = step.saturating_mul(self.0[d].max(1) as isize);
        }
        strides
    }
}

/// Whether elements lie one after the other in row-major order; strides of dimensions of one are free.
pub fn is_row_major(shape: &[usize], strides: &[isize], size: usize) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let mut step = size as isize;
    for (&n, &stride) in shape.iter().zip(strides).rev() {
        if n != 1 {
            if stride != step {
                return false;
            }
            step *= n as isize;
        }
    }
    true
}

/// The lowest and one past the highest byte that elements touch, relative to the first element.
/// `None` where that leaves the address space.
pub fn extent(shape: &[usize], strides: &[isize], size: usize) -> Option<(isize, isize)> {
    if shape.contains(&0) {
        return Some((0, 0));
    }
    let (mut low, mut high) = (0isize, isize::try_from(size).ok()?);
    for (&n, &stride) in shape.iter().zip(strides) {
        let reach = isize::try_from(n - 1).ok()?.checked_mul(stride)?;
        if reach < 0 {
            low = low.checked_add(reach)?;
        } else {
            high = high.checked_add(reach)?;
        }
    }
    Some((low, high))
}

/// Whether two different indices may share a byte: always found where they do, and never claimed of
/// an array that is a transposed, sliced or reversed view of a dense one.
pub fn may_self_overlap(shape: &[usize], strides: &[isize], size: usize) -> bool {
    if shape.contains(&0) {
        return false;
    }
    let mut dims: SmallVec<[(usize, usize); 6]> =
        shape.iter().zip(strides).filter(|(n, _)| **n > 1).map(|(&n, &stride)| (stride.unsigned_abs(), n)).collect();
    dims.sort_unstable();
    let mut reach = size;
    for (stride, n) in dims {
        if stride < reach {
            return true;
        }
        reach = match stride.checked_mul(n - 1).and_then(|r| r.checked_add(reach)) {
            Some(reach) => reach,
            None => return true,
        };
    }
    false
}

impl Clone for Shape {
    /// Copies the memory at once, where the derived clone would go element by element.
    #[inline]
    fn clone(&self) -> Self {
        Shape(SmallVec::from_slice(&self.0))
    }
}

impl std::ops::Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl std::ops::DerefMut for Shape {
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.0
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        Shape(SmallVec::from_slice(dims))
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Self {
        Shape(dims.into())
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        Shape(SmallVec::from_slice(&dims))
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(dims: I) -> Self {
        Shape(dims.into_iter().collect())
    }
}

impl fmt::Display for Shape {
    /// As Python writes a tuple.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(f, "({one},)"),
            dims => {
                f.write_str("(")?;
                for (i, n) in dims.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{n}")?;
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_leave_the_address_space_are_found() {
        assert_eq!(Shape::from([2, 3]).checked_elements(DType::Float32), Some(6));
        assert_eq!(Shape::from([usize::MAX, 0]).checked_elements(DType::Float32), Some(0));
        assert_eq!(Shape::from([usize::MAX, 2]).checked_elements(DType::Float32), None);
        assert_eq!(Shape::from([1 << 61]).checked_elements(DType::Float64), None);
        assert_eq!(Shape::from([1 << 40, 1 << 40, 0]).elements(), 0);
        assert!(Shape::from([1 << 40, 0]).is_addressable(DType::Float32));
        assert!(!Shape::from([1 << 40, 0, 1 << 40]).is_addressable(DType::Float32));
    }

    #[test]
    fn dense_strides_follow_the_order_of_the_model() {
        let shape = Shape::from([2, 3, 4, 5]);
        let channels_last = [60 * 4, 4, 15 * 4, 12];
        assert_eq!(shape.strides_like(&channels_last, DType::Float32).as_slice(), channels_last);
        // A sliced channels-last view gives dense channels-last.
        let sliced = [4096, 4, 640, 16];
        assert_eq!(shape.strides_like(&sliced, DType::Float32).as_slice(), channels_last);
        // Reversed views come out forwards.
        let reversed = [-240, -80, -20, -4];
        assert_eq!(shape.strides_like(&reversed, DType::Float32), shape.row_major_strides(DType::Float32));
        // Broadcast views come out row-major.
        assert_eq!(shape.strides_like(&[0, 0, 20, 4], DType::Float32), shape.row_major_strides(DType::Float32));
    }

    #[test]
    fn overlap_within_one_array() {
        assert!(may_self_overlap(&[3, 3], &[4, 4], 4));
        assert!(may_self_overlap(&[2], &[0], 4));
        assert!(may_self_overlap(&[2], &[2], 4));
        assert!(!may_self_overlap(&[3, 4], &[4, 12], 4));
        assert!(!may_self_overlap(&[3, 4], &[-64, 16], 4));
        assert!(!may_self_overlap(&[1, 0], &[0, 0], 4));
    }

    #[test]
    fn extents_reach_both_ways() {
        assert_eq!(extent(&[3, 2], &[-8, 4], 4), Some((-16, 8)));
        assert_eq!(extent(&[0, 2], &[-8, 4], 4), Some((0, 0)));
        assert_eq!(extent(&[usize::MAX, 2], &[8, 4], 4), None);
    }
}
