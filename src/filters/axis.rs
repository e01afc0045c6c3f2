//! The geometry of a polyphase filter: which inputs and taps an output sample is summed from. Pure arithmetic on numbers;
//! sizes are checked once, so that everything else computes in 64 bits.

use std::ops::Range;

use firelu_core::shape::Shape;

/// One direction: `y[o] = Σ_t k[t] · x[(o·down + t - pad) / up]` over the t for which the division has
/// no remainder and the result lies inside x.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// The length of x.
    pub input: i64,
    /// The length of y.
    pub output: i64,
    /// The upsampling factor.
    pub up: i64,
    /// The downsampling factor.
    pub down: i64,
    /// Zeros before x.
    pub pad: i64,
    /// The length of k.
    pub taps: i64,
}

/// The taps that one output sample uses: every `up`-th from `tap`, on inputs from `start` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// The first input, which may lie outside.
    pub start: i64,
    /// The first tap.
    pub tap: i64,
    /// How many.
    pub count: i64,
}

impl Axis {
    /// The axis of a forward call, or why there is none.
    pub fn new(input: usize, taps: usize, up: i64, down: i64, pad: (i64, i64)) -> std::result::Result<Self, Refusal> {
        // Every position that a kernel computes stays below this sum.
        let stretched = (input as u64).saturating_mul(up as u64);
        let pads = pad.0.unsigned_abs().saturating_add(pad.1.unsigned_abs());
        if stretched.saturating_add(pads).saturating_add(taps as u64) > i64::MAX as u64 / 4 {
            return Err(Refusal::TooLarge);
        }
        let (span, taps) = (stretched as i64 + pad.0 + pad.1, taps as i64);
        if span < taps {
            return Err(Refusal::Empty { span });
        }
        let rest = span - taps;
        let output = if down == 1 { rest + 1 } else { rest / down + 1 };
        Ok(Axis { input: input as i64, output, up, down, pad: pad.0, taps })
    }

    /// The axis of the adjoint, which takes y's length to x's. The kernel is reversed beside it.
    pub fn transposed(&self) -> Self {
        Axis {
            input: self.output,
            output: self.input,
            up: self.down,
            down: self.up,
            pad: self.taps - 1 - self.pad,
            taps: self.taps,
        }
    }

    /// The axis that takes some of the inputs to some of the outputs; both may lie outside.
    pub fn part(&self, inputs: &Range<i64>, outputs: &Range<i64>) -> Self {
        Axis {
            input: inputs.end - inputs.start,
            output: outputs.end - outputs.start,
            pad: self.pad - outputs.start * self.down + inputs.start * self.up,
            ..*self
        }
    }

    /// What output sample `o` is computed from.
    #[inline]
    pub fn support(&self, o: i64) -> Support {
        let base = o * self.down - self.pad;
        if self.up == 1 {
            return Support { start: base, tap: 0, count: self.taps };
        }
        let start = -(-base).div_euclid(self.up);
        let tap = start * self.up - base;
        let count = if tap < self.taps { (self.taps - tap - 1) / self.up + 1 } else { 0 };
        Support { start, tap, count }
    }

    /// What the output samples from `first` on are computed from, without a division for each.
    #[inline]
    pub fn supports(&self, first: i64) -> impl Iterator<Item = Support> + use<> {
        let Axis { up, down, taps, .. } = *self;
        let (outputs, inputs) = if up == 1 { (0, down) } else { (down % up, down / up) };
        let (all, some) = if up == 1 { (taps, 0) } else { (taps / up, taps % up) };
        let Support { mut start, mut tap, .. } = self.support(first);
        std::iter::from_fn(move || {
            let support = Support { start, tap, count: all + i64::from(tap < some) };
            (start, tap) = (start + inputs, tap - outputs);
            if tap < 0 {
                (start, tap) = (start + 1, tap + up);
            }
            Some(support)
        })
    }

    /// The input samples that any of these outputs, at least one, is summed from; any empty range where there are none.
    pub fn inputs_of(&self, outputs: Range<i64>) -> Range<i64> {
        let all = self.reach(outputs);
        all.start.max(0)..all.end.min(self.input)
    }

    /// The same, samples outside the input included.
    pub fn reach(&self, outputs: Range<i64>) -> Range<i64> {
        // Neither end of a support ever falls from one output to the next.
        let last = self.support(outputs.end - 1);
        self.support(outputs.start).start..last.start + last.count
    }

    /// The outputs for which no tap lies outside the input; any range where there are none.
    pub fn interior(&self) -> Range<i64> {
        let ceiling = |a: i64| if self.down == 1 { a } else { -(-a).div_euclid(self.down) };
        let first = ceiling(self.pad - self.up + 1).max(0);
        first..ceiling(self.input * self.up + self.pad - self.taps + 1).min(self.output)
    }

    /// The most taps that one output sample uses.
    pub fn most_taps(&self) -> i64 {
        if self.up == 1 { self.taps } else { (self.taps - 1) / self.up + 1 }
    }

    /// After how many outputs the taps repeat, and how many inputs on.
    pub fn period(&self) -> (i64, i64) {
        if self.up == 1 || self.down == 1 {
            return (self.up, self.down);
        }
        let divisor = greatest_common_divisor(self.up, self.down);
        (self.up / divisor, self.down / divisor)
    }
}

fn greatest_common_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Why an axis has no output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Upsampled and padded, it is shorter than the kernel.
    Empty {
        /// That length.
        span: i64,
    },
    /// Positions would not fit into 64 bits.
    TooLarge,
}

/// Both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Along the last dimension.
    pub x: Axis,
    /// Along the last but one.
    pub y: Axis,
}

impl Geometry {
    /// The geometry of the adjoint.
    pub fn transposed(&self) -> Self {
        Geometry { x: self.x.transposed(), y: self.y.transposed() }
    }

    /// Whether any output is summed from samples outside the input.
    pub fn reaches_out(&self) -> bool {
        [&self.x, &self.y].into_iter().any(|axis| {
            let reach = axis.reach(0..axis.output);
            reach.start < 0 || reach.end > axis.input
        })
    }

    /// The shape of the result: `like` with the last two dimensions replaced.
    pub fn output_shape(&self, like: &Shape) -> Shape {
        let mut shape = like.clone();
        if let [.., height, width] = &mut shape[..] {
            (*height, *width) = (self.y.output as usize, self.x.output as usize);
        }
        shape
    }
}
