//! Dimensions of several operands at once, as sums walk over them: in row-major order, joined where every operand steps
//! without a gap.

use smallvec::SmallVec;

/// A dimension: its length and the bytes between neighbours of each operand.
#[derive(Clone)]
pub struct Dim<const N: usize> {
    pub length: usize,
    pub sources: [isize; N],
    pub target: isize,
    pub sums: isize,
}

impl<const N: usize> Dim<N> {
    /// The one that stands for no dimension.
    pub const SINGLE: Self = Dim { length: 1, sources: [0; N], target: 0, sums: 0 };

    fn joins(&self, inner: &Self) -> bool {
        let n = inner.length as isize;
        self.sources.iter().zip(inner.sources).all(|(&outer, step)| outer == step.wrapping_mul(n))
            && self.target == inner.target.wrapping_mul(n)
            && self.sums == inner.sums.wrapping_mul(n)
    }
}

/// Dimensions from the outside in, and the innermost apart.
pub struct Dims<const N: usize> {
    outer: SmallVec<[Dim<N>; 4]>,
    pub inner: Dim<N>,
    pub elements: usize,
}

impl<const N: usize> Dims<N> {
    /// Joins neighbours over which every operand steps without a gap.
    pub fn new(dims: impl Iterator<Item = Dim<N>>) -> Self {
        let (mut merged, mut elements): (SmallVec<[Dim<N>; 4]>, usize) = (SmallVec::new(), 1);
        for mut dim in dims {
            // Beside a length of zero the others are free, and their product means nothing.
            elements = elements.wrapping_mul(dim.length);
            if dim.length == 1 {
                continue;
            }
            if let Some(last) = merged.last().filter(|last| last.joins(&dim)) {
                dim.length = dim.length.wrapping_mul(last.length);
                merged.pop();
            }
            merged.push(dim);
        }
        let inner = merged.pop().unwrap_or(Dim::SINGLE);
        Dims { outer: merged, inner, elements }
    }

    /// Calls `run(offset, index, length)` for each run of the elements `start .. end` along the innermost
    /// dimension: its first element's offsets, its place in the sequence and its length.
    pub fn for_each_run(&self, start: usize, end: usize, mut run: impl FnMut(&Dim<N>, usize, usize)) {
        if start >= end {
            return;
        }
        let mut offset = Dim { length: 0, ..Dim::SINGLE };
        let mut rest = start / self.inner.length;
        let mut position = start % self.inner.length;
        let mut place: SmallVec<[usize; 4]> = SmallVec::from_elem(0, self.outer.len());
        for (place, dim) in place.iter_mut().zip(&self.outer).rev() {
            *place = rest % dim.length;
            rest /= dim.length;
            offset.advance(dim, *place as isize);
        }
        let mut index = start;
        loop {
            let length = (self.inner.length - position).min(end - index);
            let mut first = offset.clone();
            first.advance(&self.inner, position as isize);
            run(&first, index, length);
            index += length;
            if index >= end {
                return;
            }
            position = 0;
            for (place, dim) in place.iter_mut().zip(&self.outer).rev() {
                *place += 1;
                if *place < dim.length {
                    offset.advance(dim, 1);
                    break;
                }
                *place = 0;
                offset.advance(dim, 1 - dim.length as isize);
            }
        }
    }
}

impl<const N: usize> Dim<N> {
    /// Moves on by so many steps of a dimension.
    pub fn advance(&mut self, by: &Self, steps: isize) {
        for (offset, step) in self.sources.iter_mut().zip(by.sources) {
            // A dimension of one may have any stride: what wraps here is taken back before it is used.
            *offset = offset.wrapping_add(steps.wrapping_mul(step));
        }
        self.target = self.target.wrapping_add(steps.wrapping_mul(by.target));
        self.sums = self.sums.wrapping_add(steps.wrapping_mul(by.sums));
    }
}
