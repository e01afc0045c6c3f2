//! The arguments of both operators, and the two geometries they give.

use std::ops::RangeInclusive;

use crate::core::args::{ArgValue, Choices};
use crate::core::arguments;
use crate::core::arguments::Argument;
use crate::core::error::Result;
use crate::core::shape::Shape;
use crate::devices::cpu::activations::Activation;
use crate::operators::fused_leaky_relu::existing_axis;
use crate::operators::upfirdn2d::UpFirDn2dArgs;
use firelu_filters::axis::Geometry;
use firelu_filters::border::Border;

/// Factors: larger ones would leave no room for positions in 64 bits.
const FACTOR: RangeInclusive<f64> = 1.0..=i32::MAX as f64;

/// What stands between the two filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// One of `BiasAct`'s.
    Of(Activation),
    /// Snake, whose numbers are inputs.
    Snake,
}

impl Argument for Function {
    const CHOICES: Choices = &[
        &["linear"],
        &["relu"],
        &["lrelu"],
        &["tanh"],
        &["sigmoid"],
        &["elu"],
        &["selu"],
        &["softplus"],
        &["swish"],
        &["snake"],
    ];

    fn to_value(&self) -> ArgValue {
        let name = match self {
            Function::Of(activation) => activation.name(),
            Function::Snake => "snake",
        };
        ArgValue::String(name.into())
    }

    fn of_value(value: &ArgValue) -> Self {
        let ArgValue::String(name) = value else { unreachable!("the schema declares a name, not {value}") };
        let found = Activation::ALL.into_iter().find(|activation| activation.name() == name);
        found.map_or(Function::Snake, Function::Of)
    }
}

arguments! {
    /// The arguments of both operators. Pairs are (x, y): x runs along the last dimension.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct FilteredActArgs {
        act { act: Function = Function::Of(Activation::LeakyRelu), "What stands between the two filters."; }
        /// How many samples each input sample becomes before the activation.
        up {
            up_x: i64 = 1, in FACTOR, "Insert up_x - 1 zeros after each sample of a row.";
            up_y: i64 = 1, in FACTOR, "Insert up_y - 1 zeros after each sample of a column.";
        }
        /// Every how many samples one is kept after it.
        down {
            down_x: i64 = 1, in FACTOR, "Keep every down_x-th sample of a row.";
            down_y: i64 = 1, in FACTOR, "Keep every down_y-th sample of a column.";
        }
        /// Samples before and after each upsampled row; a negative number crops.
        pad_x {
            pad_x0: i64 = 0, "Samples before each upsampled row; negative crops.";
            pad_x1: i64 = 0, "Samples after each upsampled row; negative crops.";
        }
        /// Samples before and after each upsampled column; a negative number crops.
        pad_y {
            pad_y0: i64 = 0, "Samples before each upsampled column; negative crops.";
            pad_y1: i64 = 0, "Samples after each upsampled column; negative crops.";
        }
        /// Samples before and after each activated row; a negative number crops.
        down_pad_x {
            down_pad_x0: i64 = 0, "Samples before each activated row; negative crops.";
            down_pad_x1: i64 = 0, "Samples after each activated row; negative crops.";
        }
        /// Samples before and after each activated column; a negative number crops.
        down_pad_y {
            down_pad_y0: i64 = 0, "Samples before each activated column; negative crops.";
            down_pad_y1: i64 = 0, "Samples after each activated column; negative crops.";
        }
        alpha { alpha: f64 = 0.2, "The slope of lrelu where its argument is not positive."; }
        gain { gain: Option<f64> = None, "What the activation is multiplied by; None is BiasAct's. Snake has none."; }
        clamp {
            clamp: Option<f64> = None, in 0.0..=f64::MAX,
            "How large an activated sample may be; None means any size. Snake has none.";
        }
        flip_kernel { flip_kernel: bool = false, "Correlate with both kernels instead of convolving."; }
        up_gain { up_gain: f64 = 1.0, "A factor of the first kernel."; }
        border { border: Border = Border::Constant, "What lies outside X: zeros, or samples of X."; }
        down_border { down_border: Border = Border::Constant, "What lies outside the activated samples."; }
        logscale { logscale: bool = false, "Whether snake's numbers are exponentials of SnakeAlpha and SnakeBeta."; }
        axis { axis: i64 = 1, "The axis of the channels, before the last two; negative ones count from the end."; }
    }
}

impl FilteredActArgs {
    /// The first filter as an operator of its own.
    pub fn up_filter(&self) -> UpFirDn2dArgs {
        let FilteredActArgs { up, pad_x, pad_y, flip_kernel, up_gain: gain, border, .. } = *self;
        UpFirDn2dArgs { up, down: (1, 1), pad_x, pad_y, flip_kernel, gain, border }
    }

    /// The second filter as an operator of its own.
    pub fn down_filter(&self) -> UpFirDn2dArgs {
        let FilteredActArgs { down, down_pad_x: pad_x, down_pad_y: pad_y, flip_kernel, down_border: border, .. } =
            *self;
        UpFirDn2dArgs { up: (1, 1), down, pad_x, pad_y, flip_kernel, gain: 1.0, border }
    }

    /// The geometry of both filters on an X of this shape.
    pub fn geometries(&self, operator: &str, x: &Shape, kernels: [&Shape; 2]) -> Result<[Geometry; 2]> {
        let up = self.up_filter().geometry_of(operator, ("X", x), ("Fu", kernels[0]))?;
        let between = up.output_shape(x);
        let down = self.down_filter().geometry_of(operator, ("X after Fu", &between), ("Fd", kernels[1]))?;
        Ok([up, down])
    }

    /// The leading axis of the channels, where X has it.
    pub fn channel_axis(&self, rank: usize) -> Option<usize> {
        existing_axis(self.axis, rank).filter(|&axis| axis + 2 < rank)
    }
}
