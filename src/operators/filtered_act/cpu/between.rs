//! The activations as loops between two filters.

use crate::core::dtype::{Compute, Element};
use crate::core::tensor::TensorView;
use crate::devices::cpu::activations::{Pointwise, Wave};
use crate::devices::cpu::features::Level;
use crate::devices::cpu::sources::{SimdElement, gather_wide};
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
        let [by_frequency, by_divisor] = self.waves[channel].sums(self.level, row, others[0]);
        sums[0] += by_frequency;
        sums[1] += by_divisor;
        self.apply(channel, row, others);
    }
}

/// The numbers of a vector, in the compute type.
pub fn vector<C: Compute>(view: &TensorView<'_>) -> Vec<C> {
    let mut numbers = vec![C::default(); view.shape()[0]];
    // SAFETY: the view promises every element of its one dimension, and there is a number for each.
    unsafe { gather_wide(view.dtype(), view.pointer, view.strides[0], numbers.as_mut_ptr(), numbers.len()) };
    numbers
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
            let [alpha, beta] = numbers.map(|view| view.map(vector::<C>));
            let alpha = alpha.expect("the schema requires snake's frequencies");
            let wave = |channel: usize| {
                let beta = beta.as_ref().map(|beta| beta[channel]);
                Wave::new(alpha[channel], beta, args.logscale, 1)
            };
            Box::new(Snakes { level, waves: (0..alpha.len()).map(wave).collect(), with_sums })
        }
    }
}

/// The same numbers as elements of a type.
pub fn as_element<T: Element>(value: f64) -> T {
    T::from_compute(T::Compute::from_f64(value))
}
