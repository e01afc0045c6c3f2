//! The activations as loops between two filters.

use crate::core::dtype::Compute;
use crate::core::tensor::TensorView;
use crate::devices::cpu::activations::{Pointwise, Wave};
use crate::devices::cpu::features::Level;
use crate::devices::cpu::sources::SimdElement;
use crate::operators::snake::of_channels;
use firelu_filters::pipeline::Between;

use crate::operators::filtered_act::params::{FilteredActArgs, Function};

/// One of `BiasAct`'s activations, or its slope times a stream.
pub struct Activated<C> {
    level: Level,
    pointwise: Pointwise<C>,
}

impl<C: SimdElement<Compute = C> + Compute> Between<C> for Activated<C> {
    fn apply(&self, _channel: usize, row: &mut [C], others: &[&[C]]) {
        match others {
            [] => self.pointwise.apply(self.level, row),
            [argument, ..] => self.pointwise.multiply(self.level, row, argument),
        }
    }

    fn is_alike(&self) -> bool {
        true
    }
}

/// Snake with the numbers of each channel.
pub struct Snakes<C> {
    level: Level,
    waves: Vec<Wave<C>>,
    with_sums: bool,
}

impl<C: SimdElement<Compute = C> + Compute> Between<C> for Snakes<C> {
    fn apply(&self, channel: usize, row: &mut [C], others: &[&[C]]) {
        match others {
            [] => self.waves[channel].apply(self.level, row),
            [argument, ..] => self.waves[channel].multiply(self.level, row, argument),
        }
    }

    fn sums(&self) -> usize {
        if self.with_sums { 2 } else { 0 }
    }

    fn apply_and_sum(&self, channel: usize, row: &mut [C], others: &[&[C]], sums: &mut [f64]) {
        let [by_frequency, by_divisor] = self.waves[channel].multiply_and_sum(self.level, row, others[0]);
        sums[0] += by_frequency;
        sums[1] += by_divisor;
    }
}

/// The loop between the filters.
pub fn make<C: SimdElement<Compute = C> + Compute>(
    args: &FilteredActArgs,
    numbers: [Option<&TensorView<'_>>; 2],
    with_sums: bool,
) -> Box<dyn Between<C>> {
    let level = Level::current();
    match args.act {
        Function::Of(activation) => {
            let gain = args.gain.unwrap_or(activation.default_gain());
            let pointwise = Pointwise::new(activation, args.alpha, gain, args.clamp, 1);
            Box::new(Activated { level, pointwise })
        }
        Function::Snake => {
            let waves = of_channels(numbers, |alpha, beta| Wave::new(alpha, beta, args.logscale));
            Box::new(Snakes { level, waves, with_sums })
        }
    }
}
