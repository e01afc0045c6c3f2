//! The arguments of the three operators, and the geometry they give.

use std::ops::RangeInclusive;

use crate::core::arguments;
use crate::core::error::{Error, Result};
use crate::core::shape::Shape;
use firelu_filters::axis::{Axis, Geometry, Refusal};
use firelu_filters::border::Border;

/// Factors: larger ones would leave no room for positions in 64 bits.
const FACTOR: RangeInclusive<f64> = 1.0..=i32::MAX as f64;

arguments! {
    /// The arguments of the three operators. Pairs are (x, y): x runs along the last dimension.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct UpFirDn2dArgs {
        /// How many samples each input sample becomes: itself and zeros after it.
        up {
            up_x: i64 = 1, in FACTOR, "Insert up_x - 1 zeros after each sample of a row.";
            up_y: i64 = 1, in FACTOR, "Insert up_y - 1 zeros after each sample of a column.";
        }
        /// Every how many samples one is kept.
        down {
            down_x: i64 = 1, in FACTOR, "Keep every down_x-th sample of a row.";
            down_y: i64 = 1, in FACTOR, "Keep every down_y-th sample of a column.";
        }
        /// Padding before and after each row, by `border`; a negative number crops.
        pad_x {
            pad_x0: i64 = 0, "Samples before each upsampled row; negative crops.";
            pad_x1: i64 = 0, "Samples after each upsampled row; negative crops.";
        }
        /// Padding before and after each column, by `border`; a negative number crops.
        pad_y {
            pad_y0: i64 = 0, "Samples before each upsampled column; negative crops.";
            pad_y1: i64 = 0, "Samples after each upsampled column; negative crops.";
        }
        flip_kernel { flip_kernel: bool = false, "Correlate with the kernel instead of convolving."; }
        gain { gain: f64 = 1.0, "A factor of the kernel."; }
        border { border: Border = Border::Constant, "What padding is filled with, before zeros are inserted."; }
    }
}

impl UpFirDn2dArgs {
    /// The geometry of a forward call on `x` with kernel `k`.
    pub fn geometry(&self, operator: &str, x: &Shape, k: &Shape) -> Result<Geometry> {
        self.geometry_of(operator, ("X", x), ("K", k))
    }

    /// The same for an operator that calls them otherwise.
    pub fn geometry_of(&self, operator: &str, input: (&str, &Shape), kernel: (&str, &Shape)) -> Result<Geometry> {
        let ((x_name, x), (k_name, k)) = (input, kernel);
        let &[.., height, width] = &x[..] else {
            return Err(Error::shape(operator, x_name, x, "at least two dimensions, [..., H, W]"));
        };
        let &[rows, columns] = &k[..] else {
            return Err(Error::shape(operator, k_name, k, "two dimensions"));
        };
        if rows == 0 || columns == 0 {
            return Err(Error::shape(operator, k_name, k, "at least one tap"));
        }
        let axis = |name: &str, input: usize, taps: usize, up: i64, down: i64, pad: (i64, i64)| {
            if input == 0 && self.border != Border::Constant {
                let (got, border) = (format!("{x}, whose {name} is 0"), self.border.name());
                return Err(Error::shape(
                    operator,
                    x_name,
                    got,
                    format!("at least one sample where border is {border:?}"),
                ));
            }
            Axis::new(input, taps, up, down, pad).map_err(|refusal| {
                let (before, after) = pad;
                match refusal {
                    Refusal::Empty { span } => Error::shape(
                        operator,
                        x_name,
                        format!("{x}, whose {name} {input} times {up} with padding {before} and {after} is {span}"),
                        format!("at least {taps}, the kernel's {name}"),
                    ),
                    Refusal::TooLarge => Error::shape(
                        operator,
                        x_name,
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
        assert_eq!(
            message(UpFirDn2dArgs { pad_x: (9, 0), border: Border::Reflect, ..plain }, &[5, 0], &[4, 4]),
            "UpFirDn2d: X: got (5, 0), whose width is 0, takes at least one sample where border is \"reflect\""
        );
        assert!(message(UpFirDn2dArgs { pad_y: (i64::MAX, i64::MAX), ..plain }, &[5, 3], &[1, 1]).contains("64 bits"));
    }
}
