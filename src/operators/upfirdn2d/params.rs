//! The arguments and the geometry they give: validation, output sizes, the transposed operation.
//! Pure arithmetic on numbers; sizes are checked once, so that kernels compute in 64 bits.

use crate::core::args::{ArgSpec, ArgValue, Args};
use crate::core::error::{Error, Result};
use crate::core::shape::Shape;

/// The largest factor: more would leave no room for positions in 64 bits.
const LARGEST_FACTOR: f64 = i32::MAX as f64;

/// The arguments of the three operators. Pairs are (x, y): x runs along the last dimension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpFirDn2dArgs {
    /// How many samples each input sample becomes: itself and zeros after it.
    pub up: (i64, i64),
    /// Every how many samples one is kept.
    pub down: (i64, i64),
    /// Zeros before and after each row; a negative number crops.
    pub pad_x: (i64, i64),
    /// Zeros before and after each column; a negative number crops.
    pub pad_y: (i64, i64),
    /// Correlate instead of convolve.
    pub flip_kernel: bool,
    /// A factor of the kernel.
    pub gain: f64,
}

impl Default for UpFirDn2dArgs {
    fn default() -> Self {
        UpFirDn2dArgs { up: (1, 1), down: (1, 1), pad_x: (0, 0), pad_y: (0, 0), flip_kernel: false, gain: 1.0 }
    }
}

impl UpFirDn2dArgs {
    /// The schema's arguments, in its order.
    pub fn specs() -> Vec<ArgSpec> {
        let factor = |name: &str, doc: &str| ArgSpec::new(name, ArgValue::Int(1), doc).range(1.0, LARGEST_FACTOR);
        let pad = |name: &str, doc: &str| ArgSpec::new(name, ArgValue::Int(0), doc);
        vec![
            factor("up_x", "Insert up_x - 1 zeros after each sample of a row."),
            factor("up_y", "Insert up_y - 1 zeros after each sample of a column."),
            factor("down_x", "Keep every down_x-th sample of a row."),
            factor("down_y", "Keep every down_y-th sample of a column."),
            pad("pad_x0", "Zeros before each upsampled row; negative crops."),
            pad("pad_x1", "Zeros after each upsampled row; negative crops."),
            pad("pad_y0", "Zeros before each upsampled column; negative crops."),
            pad("pad_y1", "Zeros after each upsampled column; negative crops."),
            ArgSpec::new("flip_kernel", ArgValue::Bool(false), "Correlate with the kernel instead of convolving."),
            ArgSpec::new("gain", ArgValue::Float(1.0), "A factor of the kernel."),
        ]
    }

    /// Reads checked arguments.
    pub fn from_args(args: &Args) -> Self {
        UpFirDn2dArgs {
            up: (args.int(0), args.int(1)),
            down: (args.int(2), args.int(3)),
            pad_x: (args.int(4), args.int(5)),
            pad_y: (args.int(6), args.int(7)),
            flip_kernel: args.bool(8),
            gain: args.float(9),
        }
    }

    /// The values with their names, as a definition carries them.
    pub fn named(&self) -> [(&'static str, ArgValue); 10] {
        use ArgValue::{Bool, Float, Int};
        [
            ("up_x", Int(self.up.0)),
            ("up_y", Int(self.up.1)),
            ("down_x", Int(self.down.0)),
            ("down_y", Int(self.down.1)),
            ("pad_x0", Int(self.pad_x.0)),
            ("pad_x1", Int(self.pad_x.1)),
            ("pad_y0", Int(self.pad_y.0)),
            ("pad_y1", Int(self.pad_y.1)),
            ("flip_kernel", Bool(self.flip_kernel)),
            ("gain", Float(self.gain)),
        ]
    }
}

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
    pub fn inputs_of(&self, outputs: std::ops::Range<i64>) -> std::ops::Range<i64> {
        // Neither end of a support ever falls from one output to the next.
        let last = self.support(outputs.end - 1);
        self.support(outputs.start).start.max(0)..(last.start + last.count).min(self.input)
    }

    /// The outputs for which no tap lies outside the input; any range where there are none.
    pub fn interior(&self) -> std::ops::Range<i64> {
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
    /// The geometry of a forward call on `x` with kernel `k`.
    pub fn new(operator: &str, args: &UpFirDn2dArgs, x: &Shape, k: &Shape) -> Result<Self> {
        let &[.., height, width] = &x[..] else {
            return Err(Error::shape(operator, "X", x, "at least two dimensions, [..., H, W]"));
        };
        let &[rows, columns] = &k[..] else {
            return Err(Error::shape(operator, "K", k, "two dimensions"));
        };
        if rows == 0 || columns == 0 {
            return Err(Error::shape(operator, "K", k, "at least one tap"));
        }
        let axis = |name: &str, input: usize, taps: usize, up: i64, down: i64, pad: (i64, i64)| {
            Axis::new(input, taps, up, down, pad).map_err(|refusal| {
                let (before, after) = pad;
                match refusal {
                    Refusal::Empty { span } => Error::shape(
                        operator,
                        "X",
                        format!("{x}, whose {name} {input} times {up} with padding {before} and {after} is {span}"),
                        format!("at least {taps}, the kernel's {name}"),
                    ),
                    Refusal::TooLarge => Error::shape(
                        operator,
                        "X",
                        format!("{x}, whose {name} times {up} with padding {before} and {after} exceeds 64 bits"),
                        "positions below 2^61",
                    ),
                }
            })
        };
        Ok(Geometry {
            x: axis("width", width, columns, args.up.0, args.down.0, args.pad_x)?,
            y: axis("height", height, rows, args.up.1, args.down.1, args.pad_y)?,
        })
    }

    /// The geometry of the adjoint.
    pub fn transposed(&self) -> Self {
        Geometry { x: self.x.transposed(), y: self.y.transposed() }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, step by step: insert zeros, pad or crop, correlate, keep every down-th.
    fn definition(x: &[i64], k: &[i64], up: i64, down: i64, pad: (i64, i64)) -> Option<Vec<i64>> {
        let stretched: Vec<i64> =
            x.iter().flat_map(|&value| std::iter::once(value).chain(std::iter::repeat_n(0, up as usize - 1))).collect();
        let span = stretched.len() as i64 + pad.0 + pad.1;
        if span < k.len() as i64 {
            return None;
        }
        let padded = (0..span).map(|i| usize::try_from(i - pad.0).ok().and_then(|i| stretched.get(i)).unwrap_or(&0));
        let padded: Vec<i64> = padded.copied().collect();
        let full = padded.windows(k.len()).map(|window| window.iter().zip(k).map(|(a, b)| a * b).sum());
        Some(full.step_by(down as usize).collect())
    }

    fn by_support(axis: &Axis, x: &[i64], k: &[i64]) -> Vec<i64> {
        let sample = |o: i64| {
            let Support { start, tap, count } = axis.support(o);
            let term = |m: i64| {
                let value = usize::try_from(start + m).ok().and_then(|i| x.get(i)).copied().unwrap_or(0);
                value * k[(tap + m * axis.up) as usize]
            };
            (0..count).map(term).sum()
        };
        (0..axis.output).map(sample).collect()
    }

    proptest! {
        #[test]
        fn supports_give_the_definition(
            x in prop::collection::vec(-9i64..10, 0..20), k in prop::collection::vec(-9i64..10, 1..9),
            up in 1i64..6, down in 1i64..6, pad in (-9i64..10, -9i64..10),
        ) {
            let axis = Axis::new(x.len(), k.len(), up, down, pad).ok();
            prop_assert_eq!(axis.map(|axis| by_support(&axis, &x, &k)), definition(&x, &k, up, down, pad));
        }

        #[test]
        fn the_transposed_axis_is_the_adjoint(
            x in prop::collection::vec(-9i64..10, 0..20), k in prop::collection::vec(-9i64..10, 1..9),
            up in 1i64..6, down in 1i64..6, pad in (-9i64..10, -9i64..10), seed in any::<u64>(),
        ) {
            if let Ok(axis) = Axis::new(x.len(), k.len(), up, down, pad) {
                let dy: Vec<i64> = (0..axis.output).map(|o| (seed.rotate_left(o as u32 * 7) % 19) as i64 - 9).collect();
                let reversed: Vec<i64> = k.iter().rev().copied().collect();
                let dx = by_support(&axis.transposed(), &dy, &reversed);
                let dot = |a: &[i64], b: &[i64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<i64>();
                prop_assert_eq!(dot(&by_support(&axis, &x, &k), &dy), dot(&x, &dx));
                prop_assert_eq!(axis.transposed().transposed(), axis);
            }
        }

        #[test]
        fn supports_repeat_with_the_period(up in 1i64..9, down in 1i64..9, pad in -20i64..20, o in 0i64..50, taps in 1i64..20) {
            let axis = Axis { input: 100, output: 100, up, down, pad, taps };
            let ((outputs, inputs), here) = (axis.period(), axis.support(o));
            prop_assert_eq!(axis.support(o + outputs), Support { start: here.start + inputs, ..here });
            prop_assert!(here.count <= axis.most_taps());
            let inside = |o: i64| { let s = axis.support(o); s.start >= 0 && s.start + s.count <= axis.input };
            if taps >= up {
                let interior = axis.interior();
                prop_assert!((0..axis.output).all(|o| interior.contains(&o) == inside(o)));
            }
            let stepped: Vec<Support> = axis.supports(o).take(30).collect();
            let each: Vec<Support> = (o..o + 30).map(|o| axis.support(o)).collect();
            prop_assert_eq!(stepped, each);
        }

        #[test]
        fn any_numbers_are_refused_or_fit(
            input in any::<u32>(), taps in 1usize..1 << 40, up in 1i64..1 << 31, down in 1i64..1 << 31, pad in any::<(i64, i64)>(),
        ) {
            if let Ok(axis) = Axis::new(input as usize, taps, up, down, pad) {
                prop_assert!(axis.output >= 1);
                axis.support(axis.output - 1);
                axis.transposed().support((axis.input - 1).max(0));
            }
        }
    }

    #[test]
    fn refusals_name_what_is_wrong() {
        let message = |args: UpFirDn2dArgs, x: &[usize], k: &[usize]| {
            Geometry::new("UpFirDn2d", &args, &Shape::from(x), &Shape::from(k)).unwrap_err().to_string()
        };
        let plain = UpFirDn2dArgs::default();
        assert_eq!(message(plain, &[3], &[1, 1]), "UpFirDn2d: X: got (3,), takes at least two dimensions, [..., H, W]");
        assert_eq!(message(plain, &[3, 3], &[3]), "UpFirDn2d: K: got (3,), takes two dimensions");
        assert_eq!(message(plain, &[3, 3], &[0, 3]), "UpFirDn2d: K: got (0, 3), takes at least one tap");
        assert_eq!(
            message(UpFirDn2dArgs { pad_x: (1, -2), ..plain }, &[5, 3], &[4, 4]),
            "UpFirDn2d: X: got (5, 3), whose width 3 times 1 with padding 1 and -2 is 2, takes at least 4, the kernel's width"
        );
        assert!(message(UpFirDn2dArgs { pad_y: (i64::MAX, i64::MAX), ..plain }, &[5, 3], &[1, 1]).contains("64 bits"));
    }

    #[test]
    fn zero_size_inputs_with_padding_have_outputs() {
        assert_eq!(Axis::new(0, 4, 1, 1, (2, 2)).unwrap().output, 1);
        assert_eq!(Axis::new(0, 4, 1, 1, (2, 1)), Err(Refusal::Empty { span: 3 }));
    }
}
