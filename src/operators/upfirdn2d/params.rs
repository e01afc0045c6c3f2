//! The arguments of the three operators, and the geometry they give.

use crate::core::args::{ArgSpec, ArgValue, Args};
use crate::core::error::{Error, Result};
use crate::core::shape::Shape;
use firelu_filters::axis::{Axis, Geometry, Refusal};

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

    /// The geometry of a forward call on `x` with kernel `k`.
    pub fn geometry(&self, operator: &str, x: &Shape, k: &Shape) -> Result<Geometry> {
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
            x: axis("width", width, columns, self.up.0, self.down.0, self.pad_x)?,
            y: axis("height", height, rows, self.up.1, self.down.1, self.pad_y)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_what_is_wrong() {
        let message = |args: UpFirDn2dArgs, x: &[usize], k: &[usize]| {
            args.geometry("UpFirDn2d", &Shape::from(x), &Shape::from(k)).unwrap_err().to_string()
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
}
