//! Formulas with numbers of each channel, over whole tensors.

use std::mem::MaybeUninit;

use smallvec::SmallVec;

use super::Wave;
use crate::elementwise::{contiguous, strided};
use crate::features::Level;
use crate::lanes::{BLOCK, tree};
use crate::memory;
use crate::memory::caches::bypasses;
use crate::parallel::{self, TASK_BYTES};
use crate::simd::element::MOST_LANES;
use crate::simd::{Formula, fence};
use crate::sources::{Last, PIECE, SimdElement, gather_wide};
use crate::staged::{Identity, widen};
use crate::walk::dims::{Dim, Dims};
use crate::walk::{Operand, Walk};
use firelu_core::dtype::Element;
use firelu_core::error::Result;
use firelu_core::shape::Strides;
use firelu_core::tensor::{Parts, TensorView, TensorViewMut};

/// The most operands of a formula that has numbers of its own for each channel.
const OPERANDS: usize = 2;

fn operand(parts: &Parts) -> Operand {
    (parts.pointer, parts.strides.clone())
}

/// Writes each channel's formula of the inputs' elements to the output. All have the output's shape and element type; an
/// input may be the output itself. There is a formula for each index of the axis.
pub fn map_channels<T: SimdElement, F: Formula<T::Compute, N>, const N: usize>(
    formulas: &[F],
    axis: usize,
    output: &TensorViewMut<'_>,
    inputs: [&TensorView<'_>; N],
) -> Result<()> {
    const { assert!(N <= OPERANDS) };
    let (level, size, rank) = (Level::current(), size_of::<T>(), output.shape().len());
    let bytes_per_element = size * (N + 1);
    let in_place = inputs.iter().any(|input| input.pointer == output.pointer);
    let streaming = !in_place && bypasses(output.shape().elements() * bytes_per_element);
    // The formulas are one more operand, which changes along the axis alone.
    let along = |dimension: usize| if dimension == axis { size_of::<F>() as isize } else { 0 };
    let of_formulas: Operand = (formulas.as_ptr().cast_mut().cast(), (0..rank).map(along).collect());
    let sources: [Operand; OPERANDS + 1] = std::array::from_fn(|place| match place {
        OPERANDS => of_formulas.clone(),
        _ => operand(inputs[place.min(N - 1)]),
    });
    let walk = Walk::new(output.shape(), operand(output), sources);
    let (target_step, steps) = walk.run_strides();
    if steps[OPERANDS] != 0 {
        return map_neighbours::<T, F, N>(formulas, axis, output, inputs);
    }
    let of_inputs: [isize; N] = std::array::from_fn(|place| steps[place]);
    let dense = target_step == size as isize && of_inputs.iter().all(|&step| step == size as isize);
    // SAFETY: the views promise every element of the walk, outputs do not share memory, a task reads an input only where
    // it is the output's own element or never written, and the walk stays within the formulas along the axis.
    let run = |target: *mut u8, sources: [*mut u8; OPERANDS + 1], count: usize| unsafe {
        let formula = &*sources[OPERANDS].cast_const().cast::<F>();
        let inputs: [*mut u8; N] = std::array::from_fn(|place| sources[place]);
        match dense {
            true => {
                let pointers = inputs.map(|input| input as *const T);
                contiguous(level, formula, pointers, Last::Dense, target.cast(), count, streaming);
            }
            false => strided::<T, N>(level, formula, (inputs, of_inputs, T::DTYPE), (target, target_step), count),
        }
    };
    let end_of_task = || {
        if streaming {
            fence();
        }
    };
    // SAFETY: as above.
    unsafe { walk.for_each_run(bytes_per_element, run, end_of_task) }
}

/// As [`map_channels`] where neighbours in memory are of different channels: a piece of each channel in turn, so that
/// registers hold elements of one.
fn map_neighbours<T: SimdElement, F: Formula<T::Compute, N>, const N: usize>(
    formulas: &[F],
    axis: usize,
    output: &TensorViewMut<'_>,
    inputs: [&TensorView<'_>; N],
) -> Result<()> {
    let level = Level::current();
    let without = |strides: &Strides| {
        let others = strides.iter().enumerate().filter(|&(dimension, _)| dimension != axis);
        others.map(|(_, &stride)| stride).collect::<Strides>()
    };
    let shape: SmallVec<[usize; 6]> =
        output.shape().iter().enumerate().filter(|&(d, _)| d != axis).map(|(_, &n)| n).collect();
    let sources = inputs.map(|input| (input.pointer, without(&input.strides)));
    let walk = Walk::new(&shape, (output.pointer, without(&output.strides)), sources);
    let (target_step, steps) = walk.run_strides();
    let (along_target, along) = (output.strides[axis], inputs.map(|input| input.strides[axis]));
    // SAFETY: as in `map_channels`; the other dimensions at each index of the axis are all elements.
    let run = |target: *mut u8, sources: [*mut u8; N], count: usize| unsafe {
        for start in (0..count).step_by(PIECE) {
            for (channel, formula) in formulas.iter().enumerate() {
                let at = |pointer: *mut u8, step: isize, channels: isize| {
                    pointer.wrapping_offset(start as isize * step + channel as isize * channels)
                };
                let inputs = std::array::from_fn(|place| at(sources[place], steps[place], along[place]));
                let target = (at(target, target_step, along_target), target_step);
                strided::<T, N>(level, formula, (inputs, steps, T::DTYPE), target, PIECE.min(count - start));
            }
        }
    };
    let bytes_per_element = size_of::<T>() * (N + 1) * formulas.len();
    // SAFETY: as above.
    unsafe { walk.for_each_run(bytes_per_element, run, || ()) }
}

/// The gradient of waves, one for each index of the axis, at x: dy times the derivatives by x is written where there is
/// a target, which may be dy; the sums of dy times those by p and q are given for each channel. The order of summation
/// is that of [`lanes`](crate::lanes), over all other dimensions in row-major order.
pub fn gradient_of_waves<T>(
    waves: &[Wave<T::Compute>],
    axis: usize,
    [x, dy]: [&TensorView<'_>; 2],
    dx: Option<&TensorViewMut<'_>>,
) -> Result<Vec<[f64; 2]>>
where
    T: SimdElement<Compute: SimdElement<Compute = T::Compute>>,
{
    let dim = |dimension: usize| Dim {
        length: x.shape()[dimension],
        sources: [dy.strides[dimension], x.strides[dimension]],
        target: dx.map_or(0, |dx| dx.strides[dimension]),
        sums: 0,
    };
    let dims = Dims::new((0..x.shape().len()).filter(|&dimension| dimension != axis).map(dim));
    let bytes_per_element = size_of::<T>() * (2 + usize::from(dx.is_some()));
    let bytes = waves.len().saturating_mul(dims.elements).saturating_mul(bytes_per_element);
    let in_place = dx.is_some_and(|dx| dx.pointer == dy.pointer || dx.pointer == x.pointer);
    let blocks = dims.elements.div_ceil(BLOCK);
    let mut partial = memory::numbers(0.0, waves.len().saturating_mul(blocks).saturating_mul(2))?;
    let job = Gradient {
        level: Level::current(),
        sources: [dy.pointer, x.pointer],
        target: dx.map_or(std::ptr::null_mut(), |dx| dx.pointer),
        channel: dim(axis),
        dims,
        streaming: dx.is_some() && !in_place && bypasses(bytes),
        partial: partial.as_mut_ptr(),
    };
    // A block of some channels, then the next: neighbours in memory are done together in every layout.
    let per_task = (TASK_BYTES / (job.dims.elements.clamp(1, BLOCK) * bytes_per_element)).max(1);
    let items = waves.len() * blocks;
    parallel::for_each(items.div_ceil(per_task), bytes, |task| {
        for item in task * per_task..((task + 1) * per_task).min(items) {
            let (block, channel) = (item / waves.len(), item % waves.len());
            job.block::<T>(&waves[channel], channel, block, channel * blocks + block);
        }
        if job.streaming {
            fence();
        }
    })?;
    let of_channel = |channel: usize| {
        let blocks = partial[channel * blocks * 2..(channel + 1) * blocks * 2].chunks_exact(2);
        blocks.fold([0.0; 2], |[p, q], block| [p + block[0], q + block[1]])
    };
    Ok((0..waves.len()).map(of_channel).collect())
}

struct Gradient {
    level: Level,
    /// dY and X.
    sources: [*mut u8; 2],
    /// dX; null where it is not wanted.
    target: *mut u8,
    channel: Dim<2>,
    dims: Dims<2>,
    streaming: bool,
    /// Two sums of each block of each channel.
    partial: *mut f64,
}

// SAFETY: addresses and strides of views that may be used from any thread; blocks write disjoint parts of the target and
// of the partial sums.
unsafe impl Sync for Gradient {}

impl Gradient {
    fn block<T>(&self, wave: &Wave<T::Compute>, channel: usize, block: usize, place: usize)
    where
        T: SimdElement<Compute: SimdElement<Compute = T::Compute>>,
    {
        let (start, end) = (block * BLOCK, ((block + 1) * BLOCK).min(self.dims.elements));
        let mut sums = [[<T::Compute as Default>::default(); MOST_LANES]; 2];
        self.dims.for_each_run(start, end, |offset, index, length| {
            let mut at = offset.clone();
            at.advance(&self.channel, channel as isize);
            // Rows that need no room are taken as they are.
            let most = if self.is_dense::<T>() { length } else { PIECE };
            for from in (0..length).step_by(most) {
                let count = most.min(length - from);
                // SAFETY: these are elements of the views, which promise all of them.
                unsafe { self.piece::<T>(wave, &at, count, &mut sums, index - start + from) };
                at.advance(&self.dims.inner, count as isize);
            }
        });
        for (which, lanes) in sums.iter().enumerate() {
            // SAFETY: there are two sums for each block of each channel, and this block belongs to one task.
            unsafe { *self.partial.add(2 * place + which) = tree(|lane| lanes[lane]) };
        }
    }

    /// Whether elements are read and written where they are.
    fn is_dense<T: Element>(&self) -> bool {
        let (inner, size) = (&self.dims.inner, size_of::<T>() as isize);
        let steps = inner.target == size && inner.sources.iter().all(|&step| step == size);
        steps && !self.target.is_null() && T::DTYPE == <T::Compute as Element>::DTYPE
    }

    /// # Safety
    /// `count` elements must be readable and writable from the offset on along the innermost dimension, no more than
    /// [`PIECE`] unless these are dense.
    unsafe fn piece<T>(
        &self,
        wave: &Wave<T::Compute>,
        at: &Dim<2>,
        count: usize,
        sums: &mut [[T::Compute; MOST_LANES]; 2],
        first: usize,
    ) where
        T: SimdElement<Compute: SimdElement<Compute = T::Compute>>,
    {
        let (inner, size) = (&self.dims.inner, size_of::<T>() as isize);
        let is_wide = T::DTYPE == <T::Compute as Element>::DTYPE;
        let mut room = [const { [const { MaybeUninit::<T::Compute>::uninit() }; PIECE] }; 3];
        let [stream, t, result] = room.each_mut().map(|row| row.as_mut_ptr().cast::<T::Compute>());
        // SAFETY: the caller's promise; the room holds a piece of each.
        unsafe {
            let read = |place: usize, room: *mut T::Compute| {
                let (source, step) = (self.sources[place].wrapping_offset(at.sources[place]), inner.sources[place]);
                match step == size || count == 1 {
                    true if is_wide => return source as *const T::Compute,
                    true => widen(self.level, source as *const T, room, count),
                    false => gather_wide(T::DTYPE, source, step, room, count),
                }
                room.cast_const()
            };
            let sources = [read(0, stream), read(1, t)];
            let target = self.target.wrapping_offset(at.target);
            let dense = inner.target == size || count == 1;
            let direct = !self.target.is_null() && dense && is_wide;
            let row = if direct { target.cast() } else { result };
            wave.gradient(self.level, sources, (row, count, direct && self.streaming), (sums, first));
            if self.target.is_null() || direct {
                return;
            }
            if dense {
                let (last, target) = (Last::Wide(row.cast_const()), target.cast::<T>());
                return contiguous(self.level, &Identity, [std::ptr::null()], last, target, count, self.streaming);
            }
            for place in 0..count {
                let target = target.wrapping_offset(place as isize * inner.target).cast::<T>();
                target.write_unaligned(T::from_compute(*row.add(place)));
            }
        }
    }
}
