//! Walks several tensors of one shape at once: merges dimensions, finds long runs and splits them
//! into tasks.

pub(crate) mod dims;

use smallvec::SmallVec;

use crate::parallel;
use firelu_core::error::Result;
use firelu_core::shape::Strides;

type Dims<T> = SmallVec<[T; 6]>;

/// A tensor's first element and byte strides.
pub type Operand = (*mut u8, Strides);

/// The merged walk over one target and `N` sources of the same shape.
pub struct Walk<const N: usize> {
    shape: Dims<usize>,
    target: Operand,
    sources: [Operand; N],
    elements: usize,
}

// SAFETY: a walk is addresses and strides; callers pass views that may be used from any thread.
unsafe impl<const N: usize> Sync for Walk<N> {}

impl<const N: usize> Walk<N> {
    /// Plans a walk over `shape`, in the order of the target's memory.
    pub fn new(shape: &[usize], target: Operand, sources: [Operand; N]) -> Self {
        let mut order: Dims<usize> = (0..shape.len()).filter(|&d| shape[d] != 1).collect();
        // Outermost first, so that runs are as long as memory allows.
        order.sort_by_key(|&d| std::cmp::Reverse(target.1[d].unsigned_abs()));
        let mut walk = Walk {
            shape: Dims::new(),
            target: (target.0, Strides::new()),
            sources: std::array::from_fn(|i| (sources[i].0, Strides::new())),
            elements: if shape.contains(&0) { 0 } else { shape.iter().product() },
        };
        if walk.elements == 0 {
            return walk;
        }
        for &d in &order {
            let n = shape[d];
            let operands = || std::iter::once(&target).chain(&sources).map(|(_, strides)| strides[d]);
            // A dimension joins the one outside it where every operand steps over it without a gap.
            let joins = !walk.shape.is_empty()
                && walk
                    .operands()
                    .zip(operands())
                    .all(|(outer, step)| outer.1.last() == Some(&step.wrapping_mul(n as isize)));
            if joins {
                *walk.shape.last_mut().expect("not empty") *= n;
            } else {
                walk.shape.push(n);
            }
            for (operand, step) in walk.operands_mut().zip(operands()) {
                if joins {
                    operand.1.pop();
                }
                operand.1.push(step);
            }
        }
        walk
    }

    fn operands(&self) -> impl Iterator<Item = &Operand> {
        std::iter::once(&self.target).chain(&self.sources)
    }

    fn operands_mut(&mut self) -> impl Iterator<Item = &mut Operand> {
        std::iter::once(&mut self.target).chain(&mut self.sources)
    }

    /// The byte strides along a run: the target's and the sources'.
    pub fn run_strides(&self) -> (isize, [isize; N]) {
        let last = |operand: &Operand| operand.1.last().copied().unwrap_or(0);
        (last(&self.target), std::array::from_fn(|i| last(&self.sources[i])))
    }

    /// How many elements a run has at most.
    pub fn run_length(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// The length of the stretch that the last source repeats, where it alone keeps the walk from being
    /// one run: every other operand is dense, of elements of `size` bytes.
    pub fn period(&self, size: usize) -> Option<usize> {
        let (_, last) = self.sources.last()?;
        let repeated = last.iter().take_while(|&&step| step == 0).count();
        if repeated == 0 || repeated == last.len() {
            return None;
        }
        let mut step = size as isize;
        for (d, &n) in self.shape.iter().enumerate().rev() {
            let mut others = std::iter::once(&self.target).chain(&self.sources[..N - 1]);
            if others.any(|(_, strides)| strides[d] != step) {
                return None;
            }
            step *= n as isize;
        }
        Some(self.shape[repeated..].iter().product())
    }

    /// Calls `run(source, step, length)` for every run of the last source's first `elements` elements.
    pub fn for_each_run_of_last(&self, elements: usize, mut run: impl FnMut(*mut u8, isize, usize)) {
        let (_, steps) = self.run_strides();
        let run = std::cell::RefCell::new(&mut run);
        self.runs(0, elements, &|_, sources: [*mut u8; N], count| {
            (run.borrow_mut())(sources[N - 1], steps[N - 1], count);
        });
    }

    /// Calls `run(target, sources, length)` for every run of the walk, in tasks of about
    /// [`parallel::TASK_BYTES`], on several threads where it pays, and `end_of_task()` after each task.
    ///
    /// # Safety
    /// Every element that the walk reaches must be valid memory for what `run` does with it, and runs
    /// of different elements must not interfere.
    pub unsafe fn for_each_run(
        &self,
        bytes_per_element: usize,
        run: impl Fn(*mut u8, [*mut u8; N], usize) + Sync,
        end_of_task: impl Fn() + Sync,
    ) -> Result<()> {
        // Whole cache lines, so that two tasks never write to one line of an aligned target.
        let task_elements = (parallel::TASK_BYTES / bytes_per_element.max(1)).max(64) & !63;
        let tasks = self.elements.div_ceil(task_elements);
        let bytes = self.elements.saturating_mul(bytes_per_element);
        parallel::for_each(tasks, bytes, |task| {
            let start = task * task_elements;
            self.runs(start, task_elements.min(self.elements - start), &run);
            end_of_task();
        })
    }

    fn runs(&self, start: usize, mut remaining: usize, run: &impl Fn(*mut u8, [*mut u8; N], usize)) {
        let mut target = self.target.0;
        let mut sources: [*mut u8; N] = std::array::from_fn(|i| self.sources[i].0);
        let Some((&length, outer)) = self.shape.split_last() else {
            // Every dimension is one: a single element.
            return run(target, sources, remaining);
        };
        let advance = |d: usize, steps: isize, target: &mut *mut u8, sources: &mut [*mut u8; N]| {
            *target = target.wrapping_offset(steps * self.target.1[d]);
            for (pointer, (_, strides)) in sources.iter_mut().zip(&self.sources) {
                *pointer = pointer.wrapping_offset(steps * strides[d]);
            }
        };
        let mut position = start % length;
        let mut rest = start / length;
        let mut index: Dims<usize> = SmallVec::from_elem(0, outer.len());
        for d in (0..outer.len()).rev() {
            index[d] = rest % outer[d];
            rest /= outer[d];
            advance(d, index[d] as isize, &mut target, &mut sources);
        }
        while remaining > 0 {
            let count = (length - position).min(remaining);
            let (mut run_target, mut run_sources) = (target, sources);
            advance(outer.len(), position as isize, &mut run_target, &mut run_sources);
            run(run_target, run_sources, count);
            remaining -= count;
            position = 0;
            for d in (0..outer.len()).rev() {
                index[d] += 1;
                let wrapped = index[d] == outer[d];
                advance(d, if wrapped { 1 - outer[d] as isize } else { 1 }, &mut target, &mut sources);
                if !wrapped {
                    break;
                }
                index[d] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn visited(shape: &[usize], strides: &[isize]) -> (Vec<usize>, usize) {
        let seen = Mutex::new((Vec::new(), 0));
        let walk = Walk::new(shape, (std::ptr::null_mut(), Strides::from_slice(strides)), []);
        let (step, []) = walk.run_strides();
        // SAFETY: the addresses are only collected, never read.
        unsafe {
            let run = |pointer: *mut u8, _: [*mut u8; 0], count| {
                let mut seen = seen.lock().unwrap();
                seen.1 += 1;
                seen.0.extend((0..count).map(|i| (pointer as usize).wrapping_add_signed(i as isize * step)));
            };
            walk.for_each_run(4, run, || {})
        }
        .unwrap();
        let (mut addresses, runs) = seen.into_inner().unwrap();
        addresses.sort_unstable();
        (addresses, runs)
    }

    #[test]
    fn dense_arrays_of_any_order_are_one_run() {
        let expected: Vec<usize> = (0..120).map(|i| 4 * i).collect();
        for strides in [[240, 80, 20, 4], [240, 4, 60, 12], [4, 8, 24, 96]] {
            assert_eq!(visited(&[2, 3, 4, 5], &strides), (expected.clone(), 1));
        }
    }

    #[test]
    fn every_element_of_a_sliced_array_is_visited_once() {
        let (addresses, runs) = visited(&[3, 1, 2, 5], &[1000, 7, 100, 8]);
        let mut expected = Vec::new();
        for i in 0..3 {
            for j in 0..2 {
                expected.extend((0..5).map(|k| 1000 * i + 100 * j + 8 * k));
            }
        }
        assert_eq!((addresses, runs), (expected, 6));
    }

    #[test]
    fn no_elements_and_no_dimensions() {
        assert_eq!(visited(&[3, 0], &[4, 4]).0, Vec::<usize>::new());
        assert_eq!(visited(&[], &[]), (vec![0], 1));
    }
}
