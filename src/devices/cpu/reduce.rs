//! Sums a [`Formula`] of whole tensors over some of their dimensions, and stores the formula's results
//! on the way where they are wanted: one pass over memory for both. The order of summation is that of
//! [`lanes`](super::lanes), along the reduced dimensions in row-major order.

use smallvec::SmallVec;

use crate::elementwise::Pieces;
use crate::features::Level;
use crate::lanes::{BLOCK, Run, tree};
use crate::memory;
use crate::memory::caches::bypasses;
use crate::parallel::{self, TASK_BYTES};
use crate::simd::element::{MOST_LANES, lanes_of};
use crate::simd::{Formula, fence};
use crate::sources::{Last, LastKind, PIECE, SimdElement, gather_wide, scatter};
use crate::walk::dims::{Dim, Dims};
use firelu_core::dtype::{BFloat16, DType, Float16, round_to_odd};
use firelu_core::error::Result;
use firelu_core::shape::Strides;
use firelu_core::tensor::{TensorView, TensorViewMut};

/// The most neighbours whose sums one task keeps.
const MOST_NEIGHBOURS: usize = 1024;
/// Neighbours are summed together in multiples of this, so that rows are whole cache lines.
const NEIGHBOURS: usize = 64;

/// Where the sums go.
pub struct Sums {
    /// The first sum.
    pub pointer: *mut u8,
    /// The type of the sums, to which each is rounded once.
    pub dtype: DType,
    /// For each dimension of the inputs `None` where it is summed over, else the bytes between sums.
    pub strides: SmallVec<[Option<isize>; 6]>,
    /// What each sum is multiplied by.
    pub scale: f64,
}

impl Sums {
    /// # Safety
    /// The sum at `offset` must be writable.
    unsafe fn write(&self, offset: isize, sum: f64) {
        let (pointer, value) = (self.pointer.wrapping_offset(offset), self.scale * sum);
        // SAFETY: the caller's promise; elements may be unaligned.
        unsafe {
            match self.dtype {
                DType::Float16 => pointer.cast::<Float16>().write_unaligned(Float16::from_f32(round_to_odd(value))),
                DType::BFloat16 => pointer.cast::<BFloat16>().write_unaligned(BFloat16::from_f32(round_to_odd(value))),
                DType::Float32 => pointer.cast::<f32>().write_unaligned(value as f32),
                DType::Float64 => pointer.cast::<f64>().write_unaligned(value),
            }
        }
    }
}

struct Plan<'a, F, const N: usize> {
    level: Level,
    formula: &'a F,
    sources: [*mut u8; N],
    last_dtype: DType,
    /// Null where the formula's results are not wanted.
    target: *mut u8,
    reduced: Dims<N>,
    kept: Dims<N>,
    sums: &'a Sums,
    /// One float64 for each sum and block, unless there is only one block.
    partial: *mut f64,
    blocks: usize,
    streaming: bool,
}

// SAFETY: a plan is addresses and strides; callers pass views that may be used from any thread, and tasks
// write disjoint parts of the target, the sums and the partial sums.
unsafe impl<F: Sync, const N: usize> Sync for Plan<'_, F, N> {}

/// Sums `formula` of the inputs' elements over the dimensions without a stride in `sums`, and writes its
/// results to `target` where there is one. All inputs have the target's shape (a broadcast input has
/// strides of zero) and element type `T`, but the last may be of any type; one may be the target itself.
///
/// # Safety
/// Every sum that `sums` describes must be writable memory that no input and no other sum shares.
pub unsafe fn sum<T: SimdElement, const N: usize>(
    formula: &impl Formula<T::Compute, N>,
    inputs: [&TensorView<'_>; N],
    target: Option<&TensorViewMut<'_>>,
    sums: &Sums,
) -> Result<()> {
    let shape = inputs[0].shape();
    let dim = |d: usize| Dim {
        length: shape[d],
        sources: std::array::from_fn(|i| inputs[i].strides[d]),
        target: target.map_or(0, |target| target.strides[d]),
        sums: sums.strides[d].unwrap_or(0),
    };
    let is_kept = |d: &usize| sums.strides[*d].is_some();
    let reduced = Dims::new((0..shape.len()).filter(|d| !is_kept(d)).map(dim));
    // The order of sums is free: neighbours in memory are done together.
    let mut order: SmallVec<[usize; 6]> = (0..shape.len()).filter(is_kept).collect();
    let memory: &Strides = target.map_or(&inputs[0].strides, |target| &target.strides);
    order.sort_by_key(|&d| std::cmp::Reverse(memory[d].unsigned_abs()));
    let kept = Dims::new(order.into_iter().map(dim));
    if kept.elements == 0 {
        return Ok(());
    }
    let bytes_per_element = size_of::<T>() * (N + usize::from(target.is_some()));
    let bytes = kept.elements.saturating_mul(reduced.elements).saturating_mul(bytes_per_element);
    let in_place = target.is_some_and(|target| inputs.iter().any(|input| input.pointer == target.pointer));
    let blocks = reduced.elements.div_ceil(BLOCK).max(1);
    let partial_sums = if blocks > 1 { kept.elements.saturating_mul(blocks) } else { 0 };
    let mut partial = memory::numbers(0.0, partial_sums)?;
    let plan = Plan {
        level: Level::current(),
        formula,
        sources: inputs.map(|input| input.pointer),
        last_dtype: inputs[N - 1].dtype(),
        target: target.map_or(std::ptr::null_mut(), |target| target.pointer),
        reduced,
        kept,
        sums,
        partial: partial.as_mut_ptr(),
        blocks,
        streaming: target.is_some() && !in_place && bypasses(bytes),
    };
    plan.run_tasks::<T>(bytes_per_element, bytes)?;
    if blocks > 1 {
        plan.kept.for_each_run(0, plan.kept.elements, |offset, index, length| {
            for i in 0..length {
                let of_block = &partial[(index + i) * blocks..][..blocks];
                let sum = of_block.iter().fold(0.0, |sum, block| sum + block);
                // SAFETY: the caller promises every sum.
                unsafe { sums.write(offset.sums + i as isize * plan.kept.inner.sums, sum) };
            }
        });
    }
    Ok(())
}

impl<F, const N: usize> Plan<'_, F, N> {
    /// Whether runs along a dimension are contiguous.
    fn is_dense<T: SimdElement>(&self, dim: &Dim<N>) -> bool {
        let size = size_of::<T>() as isize;
        dim.length > 1
            && dim.sources[..N - 1].iter().all(|&step| step == size)
            && (self.target.is_null() || dim.target == size)
            && LastKind::of::<T>(self.last_dtype, dim.sources[N - 1]).is_some()
    }

    fn run_tasks<T: SimdElement>(&self, bytes_per_element: usize, bytes: usize) -> Result<()>
    where
        F: Formula<T::Compute, N>,
    {
        let in_columns = !self.is_dense::<T>(&self.reduced.inner) && self.is_dense::<T>(&self.kept.inner);
        let block_bytes = self.reduced.elements.clamp(1, BLOCK) * bytes_per_element;
        let per_task = (TASK_BYTES / block_bytes).max(1);
        // Long rows are done one after the other, short ones of neighbouring sums together.
        let (neighbours, blocks) = if in_columns {
            ((per_task / NEIGHBOURS * NEIGHBOURS).clamp(NEIGHBOURS, MOST_NEIGHBOURS), 1)
        } else if self.reduced.inner.length >= BLOCK {
            (1, per_task)
        } else {
            (per_task.min(MOST_NEIGHBOURS), 1)
        };
        let tiles_of_inner = self.kept.inner.length.div_ceil(neighbours);
        let tiles = self.kept.elements / self.kept.inner.length * tiles_of_inner;
        let ranges = self.blocks.div_ceil(blocks);
        let tasks = tiles * ranges;
        parallel::for_each(tasks, bytes, |task| {
            let (tile, range) = (task / ranges, task % ranges);
            let start = tile / tiles_of_inner * self.kept.inner.length + tile % tiles_of_inner * neighbours;
            let end = (start + neighbours).min((tile / tiles_of_inner + 1) * self.kept.inner.length);
            for block in range * blocks..((range + 1) * blocks).min(self.blocks) {
                // A tile lies within one run of the kept dimensions.
                self.kept.for_each_run(start, end, |offset, first, count| {
                    if in_columns {
                        self.columns::<T>(offset, first, count, block);
                    } else {
                        self.rows::<T>(offset, first, count, block);
                    }
                });
            }
            if self.streaming {
                fence();
            }
        })
    }

    fn block_range(&self, block: usize) -> (usize, usize) {
        (block * BLOCK, ((block + 1) * BLOCK).min(self.reduced.elements))
    }

    /// The addresses of the operands and of the result at an offset.
    fn pointers(&self, at: &Dim<N>) -> ([*mut u8; N], *mut u8) {
        let target = if self.target.is_null() { self.target } else { self.target.wrapping_offset(at.target) };
        (std::array::from_fn(|i| self.sources[i].wrapping_offset(at.sources[i])), target)
    }

    /// Keeps the sum of a block of the sum number `first + place`.
    fn keep(&self, offset: &Dim<N>, (first, place): (usize, usize), block: usize, sum: f64) {
        // SAFETY: `sum` was promised every sum and made room for every partial sum; this block of this sum
        // belongs to one task.
        unsafe {
            match self.blocks {
                1 => self.sums.write(offset.sums + place as isize * self.kept.inner.sums, sum),
                _ => *self.partial.add((first + place) * self.blocks + block) = sum,
            }
        }
    }

    /// One block of `count` neighbouring sums, each along contiguous or strided rows.
    fn rows<T: SimdElement>(&self, offset: &Dim<N>, first: usize, count: usize, block: usize)
    where
        F: Formula<T::Compute, N>,
    {
        let zero = <T::Compute as Default>::default();
        let mut lanes: SmallVec<[[T::Compute; MOST_LANES]; 8]> = SmallVec::from_elem([zero; MOST_LANES], count);
        let (start, end) = self.block_range(block);
        let step = &self.reduced.inner;
        let kind = LastKind::of::<T>(self.last_dtype, step.sources[N - 1]).filter(|_| self.is_dense::<T>(step));
        self.reduced.for_each_run(start, end, |row, index, length| {
            let mut at = row.clone();
            at.advance(offset, 1);
            for lanes in &mut lanes {
                let (sources, target) = self.pointers(&at);
                // SAFETY: the views promise every element of the reduced and the kept dimensions.
                unsafe {
                    match kind {
                        Some(kind) => {
                            let pointers = sources.map(|source| source as *const T);
                            let last = kind.at(self.last_dtype, sources[N - 1]);
                            let run = Run { pointers, last, target: target.cast(), streaming: self.streaming };
                            run.add_to_lanes(self.level, self.formula, lanes, index - start, length);
                        }
                        None => self.strided_row::<T>(sources, target, lanes, index - start, length),
                    }
                }
                at.advance(&self.kept.inner, 1);
            }
        });
        for (place, lanes) in lanes.iter().enumerate() {
            self.keep(offset, (first, place), block, tree(|lane| lanes[lane]));
        }
    }

    /// # Safety
    /// `count` elements must be readable and writable along the innermost reduced dimension.
    unsafe fn strided_row<T: SimdElement>(
        &self,
        sources: [*mut u8; N],
        target: *mut u8,
        lanes: &mut [T::Compute; MOST_LANES],
        first: usize,
        count: usize,
    ) where
        F: Formula<T::Compute, N>,
    {
        let step = &self.reduced.inner;
        let mut pieces = Pieces::<T, N>::default();
        let mut result = [T::default(); PIECE];
        for start in (0..count).step_by(PIECE) {
            let length = PIECE.min(count - start);
            let at = |pointer: *mut u8, step: isize| pointer.wrapping_offset(start as isize * step);
            let starts = std::array::from_fn(|i| at(sources[i], step.sources[i]));
            let room = if target.is_null() { std::ptr::null_mut() } else { result.as_mut_ptr() };
            // SAFETY: the elements from `start` on are among the caller's `count`; the buffers hold `PIECE`.
            unsafe {
                let (pointers, last) = pieces.bring_together(starts, step.sources, self.last_dtype, length);
                let run = Run { pointers, last, target: room, streaming: false };
                run.add_to_lanes(self.level, self.formula, lanes, first + start, length);
                if !target.is_null() {
                    scatter(room, at(target, step.target), step.target, length);
                }
            }
        }
    }

    /// One block of `count` neighbouring sums whose elements lie one after the other.
    fn columns<T: SimdElement>(&self, offset: &Dim<N>, first: usize, count: usize, block: usize)
    where
        F: Formula<T::Compute, N>,
    {
        let group = lanes_of::<T::Compute>();
        let mut totals = vec![<T::Compute as Default>::default(); group * count];
        let (start, end) = self.block_range(block);
        let (step, size) = (&self.reduced.inner, size_of::<T>());
        let kind = LastKind::of::<T>(self.last_dtype, self.kept.inner.sources[N - 1]).expect("columns are contiguous");
        // Where rows follow each other without a gap, as many as there are lanes are one run.
        let gapless = |step: isize| step == (count * size) as isize;
        let follows =
            step.sources[..N - 1].iter().all(|&step| gapless(step)) && (self.target.is_null() || gapless(step.target));
        let repeats = N > 1 && step.sources[N - 1] == 0;
        let whole = count < PIECE && follows && (repeats || gapless(step.sources[N - 1]) && kind == LastKind::Dense);
        let mut pattern = Vec::new();
        if whole && repeats {
            let (last, last_step) = (self.pointers(offset).0[N - 1], self.kept.inner.sources[N - 1]);
            pattern.resize(group * count, <T::Compute as Default>::default());
            // SAFETY: the views promise every element of the kept dimensions, and the pattern holds `count`.
            unsafe { gather_wide(self.last_dtype, last, last_step, pattern.as_mut_ptr(), count) };
            for lane in 1..group {
                pattern.copy_within(..count, lane * count);
            }
        }
        self.reduced.for_each_run(start, end, |row, index, length| {
            let mut at = row.clone();
            at.advance(offset, 1);
            let mut done = 0;
            while done < length {
                let lane = (index + done - start) % group;
                let rows = if whole { (group - lane).min(length - done) } else { 1 };
                let (sources, target) = self.pointers(&at);
                // SAFETY: the views promise every element of the reduced and the kept dimensions; the totals
                // of `rows` lanes from this one on exist.
                unsafe {
                    let last = match pattern.is_empty() {
                        true => kind.at(self.last_dtype, sources[N - 1]),
                        false => Last::Wide(pattern.as_ptr()),
                    };
                    let pointers = sources.map(|source| source as *const T);
                    let run = Run { pointers, last, target: target.cast(), streaming: self.streaming };
                    let totals = totals.as_mut_ptr().add(lane * count);
                    run.add_to_totals(self.level, self.formula, totals, rows * count);
                }
                at.advance(step, rows as isize);
                done += rows;
            }
        });
        for place in 0..count {
            self.keep(offset, (first, place), block, tree(|lane| totals[lane * count + place]));
        }
    }
}
