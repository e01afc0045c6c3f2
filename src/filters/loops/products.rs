//! Products of outputs with the inputs they are summed from: what the kernel's gradient adds up.

#![allow(clippy::needless_range_loop)] // Closures would be compiled without the level's instructions.

use smallvec::SmallVec;

use super::register::{Access, Register};
use firelu_core::dtype::Compute;

/// Elements of an output row that meet their inputs at the same distances.
pub struct Part {
    /// How many.
    pub count: usize,
    /// How many phases take turns among them.
    pub phases: usize,
    /// Where the inputs of each term start in a row.
    pub offsets: SmallVec<[usize; 8]>,
    /// The tap along x of each term of each phase, if it has that many.
    pub taps: SmallVec<[Option<usize>; 8]>,
}

/// How many products a place of a register adds up before it goes into a float64 sum.
const PRODUCTS: usize = 128;

/// How many input rows may be multiplied at once, with registers of so many lanes.
pub fn rows_at_once(parts: &[Part], lanes: usize) -> usize {
    (PRODUCTS / parts[0].count.div_ceil(lanes).max(1)).max(1)
}

/// Adds the products of input rows with the output rows that each meets to the sums of their taps.
///
/// # Safety
/// The register's level was detected, all rows are as the parts say, and there are sums for all taps between the rows.
#[inline(always)]
pub unsafe fn add<R>(parts: &[Part], pairs: &Pairs<R::Number>)
where
    R: Access<<R as Register>::Number>,
{
    let mut start = 0;
    for part in parts {
        let mut met = 0;
        while met < pairs.met {
            let together = share(pairs.met - met, if R::PRODUCT_SUMS < 8 { 2 } else { 4 });
            let outputs = pairs.outputs.wrapping_add(start).wrapping_byte_offset(met as isize * pairs.output_pitch);
            let sums = pairs.sums.wrapping_offset(met as isize * pairs.sums_step);
            let pairs = Pairs { outputs, sums, ..*pairs };
            // SAFETY: the caller's promise.
            unsafe {
                match together {
                    1 => pairs.multiply_terms::<R, 1>(part),
                    2 => pairs.multiply_terms::<R, 2>(part),
                    3 => pairs.multiply_terms::<R, 3>(part),
                    _ => pairs.multiply_terms::<R, 4>(part),
                }
            }
            met += together;
        }
        start += part.count;
    }
}

/// How many of `count` to take at once, at most `most`, so that no turn gets much less than the others.
#[inline(always)]
fn share(count: usize, most: usize) -> usize {
    if count <= most { count } else { count.div_ceil(count.div_ceil(most)) }
}

/// Input rows of several planes, each with the output rows that it meets.
#[derive(Clone, Copy)]
pub struct Pairs<C> {
    /// The first input row, as the strip prepares or repeats it.
    pub input: *const C,
    /// The first output row that it meets.
    pub outputs: *const C,
    /// The sums of the tap along y between the two.
    pub sums: *mut f64,
    /// How many output rows each input row meets; they follow one another.
    pub met: usize,
    /// Bytes from output row to output row.
    pub output_pitch: isize,
    /// Numbers from the sums of one output row met to those of the next.
    pub sums_step: isize,
    /// How many input rows of each plane.
    pub rows: usize,
    /// Bytes from input row to input row, and from the output rows of one to those of the next.
    pub steps: (isize, isize),
    /// How many planes.
    pub planes: usize,
    /// Bytes from plane to plane of both.
    pub plane_steps: (isize, isize),
}

impl<C: Compute> Pairs<C> {
    /// Products of `B` output rows with all terms along x, as many at once as there are registers for
    /// their sums.
    #[inline(always)]
    unsafe fn multiply_terms<R, const B: usize>(&self, part: &Part)
    where
        R: Access<C> + Register<Number = C>,
    {
        let (mut first, most) = (0, (R::PRODUCT_SUMS / B).clamp(1, if R::MANY { 6 } else { 4 }));
        while first < part.offsets.len() {
            // SAFETY: the caller's promise; a term's window lies inside the row.
            first += unsafe {
                match share(part.offsets.len() - first, most) {
                    1 => self.multiply::<R, 1, B>(part, first),
                    2 => self.multiply::<R, 2, B>(part, first),
                    3 => self.multiply::<R, 3, B>(part, first),
                    5 if R::MANY => self.multiply::<R, 5, B>(part, first),
                    6 if R::MANY => self.multiply::<R, 6, B>(part, first),
                    _ => self.multiply::<R, 4, B>(part, first),
                }
            };
        }
    }

    /// Adds the products of `B` output rows with the inputs of `A` terms to the sums of their taps.
    #[inline(always)]
    unsafe fn multiply<R, const A: usize, const B: usize>(&self, part: &Part, first: usize) -> usize
    where
        R: Access<C> + Register<Number = C>,
    {
        let offsets = &part.offsets[first..first + A];
        // SAFETY: the caller's promise; a last part of a register is read as such.
        unsafe {
            let mut sums = [[R::splat(C::default()); A]; B];
            let whole = part.count - part.count % R::LANES;
            for plane in 0..self.planes as isize {
                for row in 0..self.rows as isize {
                    let (inputs, outputs) = self.pointers::<A, B>(plane, row, offsets);
                    let mut q = 0;
                    while q < whole {
                        let mut factors = [sums[0][0]; A];
                        for a in 0..A {
                            factors[a] = R::load(inputs[a].add(q));
                        }
                        // The rows that the next input row is the first to meet.
                        for b in B.saturating_sub(2)..B {
                            R::prefetch(outputs[b].add(q).wrapping_byte_offset(self.steps.1).cast());
                        }
                        for b in 0..B {
                            let value = R::load(outputs[b].add(q));
                            for a in 0..A {
                                sums[b][a] = factors[a].multiply_add(value, sums[b][a]);
                            }
                        }
                        q += R::LANES;
                    }
                }
            }
            // Parts of registers in a loop of their own: inside the other they would take registers from its sums.
            let mask = R::mask(0, part.count - whole);
            let turns = if whole < part.count { self.planes as isize } else { 0 };
            for plane in 0..turns {
                for row in 0..self.rows as isize {
                    let (inputs, outputs) = self.pointers::<A, B>(plane, row, offsets);
                    let mut factors = [sums[0][0]; A];
                    for a in 0..A {
                        factors[a] = R::load_masked(inputs[a].add(whole), mask);
                    }
                    for b in 0..B {
                        let value = R::load_masked(outputs[b].add(whole), mask);
                        for a in 0..A {
                            sums[b][a] = factors[a].multiply_add(value, sums[b][a]);
                        }
                    }
                }
            }
            let mut totals = [[[0.0; 4]; A]; B];
            for b in 0..B {
                for a in 0..A {
                    totals[b][a] = sums[b][a].sums();
                }
            }
            for b in 0..B {
                let target = self.sums.wrapping_offset(b as isize * self.sums_step);
                let taps = part.taps[first * part.phases..].chunks_exact(part.phases);
                for (total, taps) in totals[b].iter().zip(taps) {
                    for (phase, tap) in taps.iter().enumerate() {
                        if let &Some(tap) = tap {
                            *target.wrapping_add(tap) += total[phase..].iter().step_by(part.phases).sum::<f64>();
                        }
                    }
                }
            }
        }
        A
    }

    /// Where a row's inputs of each term and the output rows that it meets start.
    #[inline(always)]
    fn pointers<const A: usize, const B: usize>(
        &self,
        plane: isize,
        row: isize,
        offsets: &[usize],
    ) -> ([*const C; A], [*const C; B]) {
        let input = self.input.wrapping_byte_offset(plane * self.plane_steps.0 + row * self.steps.0);
        let output = self.outputs.wrapping_byte_offset(plane * self.plane_steps.1 + row * self.steps.1);
        let (mut inputs, mut outputs) = ([input; A], [output; B]);
        for a in 0..A {
            inputs[a] = input.wrapping_add(offsets[a]);
        }
        for b in 0..B {
            outputs[b] = output.wrapping_byte_offset(b as isize * self.output_pitch);
        }
        (inputs, outputs)
    }
}
