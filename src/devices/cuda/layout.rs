//! Several operands over one index space: dimensions are merged where every operand steps over them without a gap.

use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::{SmallVec, smallvec};

use crate::devices::cuda::parameters::{Layout, MAX_RANK};

type Dims = SmallVec<[i64; MAX_RANK]>;

/// Kernels count in 32 bits up to here; threads of the last block may count past the end.
const NARROW: i64 = (1 << 31) - 1024;

/// Whether kernels that count in 64 bits are used where 32 would do.
static WIDE: AtomicBool = AtomicBool::new(false);

/// Uses the kernels that count in 64 bits everywhere, so that a test reaches them without memory of that size.
pub fn set_wide(wide: bool) {
    WIDE.store(wide, Ordering::Relaxed);
}

/// Whether kernels that count in 64 bits are wanted everywhere.
pub fn is_wide() -> bool {
    WIDE.load(Ordering::Relaxed)
}

/// Merged dimensions, slowest first, with strides in elements by operand.
#[derive(Debug, Clone)]
pub struct Merged<const N: usize> {
    sizes: Dims,
    strides: [Dims; N],
}

/// The last two merged dimensions, with strides in elements by operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planes<const N: usize> {
    /// The slower one; 1 where there is none.
    pub batches: i64,
    /// The faster one; 1 where there is none.
    pub channels: i64,
    /// Elements between batches and between channels.
    pub strides: [[i64; 2]; N],
}

/// Merges the dimensions of `shape`. Each operand has byte strides and an element size; operand 0 sets the order.
pub fn merge<const N: usize>(shape: &[usize], operands: [(&[isize], usize); N]) -> Merged<N> {
    let mut order: SmallVec<[usize; MAX_RANK]> = (0..shape.len()).filter(|&d| shape[d] != 1).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(operands[0].0[d].unsigned_abs()));
    let mut merged = Merged { sizes: Dims::new(), strides: std::array::from_fn(|_| Dims::new()) };
    for d in order {
        let size = shape[d] as i64;
        let step = |k: usize| operands[k].0[d] as i64 / operands[k].1 as i64;
        let joins =
            !merged.sizes.is_empty() && (0..N).all(|k| merged.strides[k].last().copied() == step(k).checked_mul(size));
        match merged.sizes.last_mut() {
            Some(last) if joins => *last *= size,
            _ => merged.sizes.push(size),
        }
        for k in 0..N {
            if joins {
                merged.strides[k].pop();
            }
            merged.strides[k].push(step(k));
        }
    }
    merged
}

impl<const N: usize> Merged<N> {
    /// How many elements there are.
    pub fn count(&self) -> i64 {
        self.sizes.iter().product()
    }

    /// Whether every operand lies one element after the other, in one order.
    pub fn is_contiguous(&self) -> bool {
        match self.sizes.as_slice() {
            [] => true,
            [_] => self.strides.iter().all(|strides| strides[0] == 1),
            _ => self.sizes.contains(&0),
        }
    }

    /// The bits in which offsets can be computed: `32` or `64`.
    pub fn index_width(&self) -> u32 {
        let reaches = self.strides.iter().map(|strides| {
            let steps = strides.iter().zip(&self.sizes);
            steps.fold(0i64, |reach, (&stride, &size)| {
                reach.saturating_add(stride.saturating_abs().saturating_mul((size - 1).max(0)))
            })
        });
        if reaches.chain([self.count()]).all(|reach| reach < NARROW) && !is_wide() { 32 } else { 64 }
    }

    /// The kernels' form, and what to add to each operand's first element: one piece, or as many as it takes where
    /// there are more dimensions than a kernel takes.
    pub fn pieces(&self) -> Vec<(Layout, [i64; N])> {
        let outer = self.sizes.len().saturating_sub(MAX_RANK);
        let mut layout = Layout { rank: (self.sizes.len() - outer) as i64, ..Layout::default() };
        layout.sizes[..self.sizes.len() - outer].copy_from_slice(&self.sizes[outer..]);
        layout.count = self.sizes[outer..].iter().product();
        for (d, &size) in self.sizes[outer..].iter().enumerate() {
            (layout.magics[d], layout.shifts[d]) = magic(size);
        }
        for (row, strides) in layout.strides.iter_mut().zip(&self.strides) {
            row[..strides.len() - outer].copy_from_slice(&strides[outer..]);
        }
        self.offsets(outer).map(|offsets| (layout, offsets)).collect()
    }

    /// The last two dimensions as batches and channels, and what to add to each operand's first element: one piece, or
    /// as many as further dimensions make.
    pub fn planes(&self) -> Vec<(Planes<N>, [i64; N])> {
        let outer = self.sizes.len().saturating_sub(2);
        let from_end = |values: &Dims, place: usize, none| values.len().checked_sub(place).map_or(none, |d| values[d]);
        let planes = Planes {
            batches: from_end(&self.sizes, 2, 1),
            channels: from_end(&self.sizes, 1, 1),
            strides: std::array::from_fn(|k| [from_end(&self.strides[k], 2, 0), from_end(&self.strides[k], 1, 0)]),
        };
        self.offsets(outer).map(|offsets| (planes, offsets)).collect()
    }

    /// The operands' offsets at every index of the first `outer` dimensions.
    fn offsets(&self, outer: usize) -> impl Iterator<Item = [i64; N]> {
        let pieces: i64 = self.sizes[..outer].iter().product();
        (0..pieces).map(move |piece| {
            let mut index: Dims = smallvec![0; outer];
            let mut rest = piece;
            for d in (0..outer).rev() {
                index[d] = rest % self.sizes[d];
                rest /= self.sizes[d];
            }
            std::array::from_fn(|k| index.iter().zip(&self.strides[k]).map(|(i, stride)| i * stride).sum())
        })
    }
}

/// For division by multiplication: `(index * magic) >> shift` is the quotient of every index below 2^31. Of no use where
/// the size itself has more bits; such layouts are divided in 64.
fn magic(size: i64) -> (u32, u32) {
    if !(1..1 << 31).contains(&size) {
        return (0, 0);
    }
    let size = size as u64;
    let shift = 31 + size.next_power_of_two().trailing_zeros();
    ((1u64 << shift).div_ceil(size) as u32, shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_by_multiplication_is_exact() {
        let sizes = (1..3000).chain([4095, 4096, 4097, 65535, 65537, 1_000_003, (1 << 30) - 1, 1 << 30, (1 << 31) - 1]);
        for size in sizes {
            let (magic, shift) = magic(size);
            let multiples = [1, 2, 3, 1000, (1 << 31) / size - 1].map(|times| times * size);
            let near = multiples.into_iter().flat_map(|index| [index - 1, index, index + 1]);
            for index in near.chain([0, 1, (1 << 31) - 1]).filter(|index| (0..1 << 31).contains(index)) {
                assert_eq!((index as u64 * u64::from(magic)) >> shift, (index / size) as u64, "{index} / {size}");
            }
        }
    }

    #[test]
    fn channels_last_is_contiguous_where_all_agree() {
        let (shape, strides) = ([2usize, 3, 4, 5], [240isize, 4, 60, 12]);
        assert!(merge(&shape, [(&strides, 4), (&strides, 4)]).is_contiguous());
        let row_major = [240isize, 80, 20, 4];
        assert!(!merge(&shape, [(&strides, 4), (&row_major, 4)]).is_contiguous());
        assert!(merge::<1>(&[], [(&[], 4)]).is_contiguous());
    }

    #[test]
    fn pieces_visit_every_element_once() {
        let shape = [2usize; 11];
        // Every second element of a row-major array: nothing merges with an operand that is transposed.
        let a: Vec<isize> = (0..11).rev().map(|d| 8 << d).collect();
        let b: Vec<isize> = (0..11).map(|d| 4 << d).collect();
        let merged = merge(&shape, [(&a, 4), (&b, 4)]);
        let mut seen = Vec::new();
        for (layout, [first, second]) in merged.pieces() {
            for index in 0..layout.count {
                let (mut rest, mut offsets) = (index, [first, second]);
                for d in (0..layout.rank as usize).rev() {
                    let position = rest % layout.sizes[d];
                    rest /= layout.sizes[d];
                    for (k, offset) in offsets.iter_mut().enumerate() {
                        *offset += position * layout.strides[k][d];
                    }
                }
                seen.push(offsets);
            }
        }
        assert_eq!(seen.len(), 2048);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 2048);
        assert!(seen.iter().all(|[first, second]| first % 2 == 0 && *second < 2048));
    }

    #[test]
    fn wide_offsets_are_found() {
        assert_eq!(merge(&[1 << 20, 1 << 10], [(&[4096, 4], 4)]).index_width(), 32);
        assert_eq!(merge(&[1 << 21, 1 << 10], [(&[4096, 4], 4)]).index_width(), 64);
        assert_eq!(merge(&[2, 2], [(&[1 << 40, 4], 4)]).index_width(), 64);
    }
}
