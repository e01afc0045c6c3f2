//! The kernels of the CPU.

use super::{BACKWARD, FORWARD, SnakeArgs, SnakeDerivativeArgs};
use crate::core::dtype::{Compute, Element};
use crate::core::error::Result;
use crate::core::operator::Call;
use crate::core::tensor::{Parts, TensorView};
use crate::devices::cpu::activations::{Partial, Wave, gradient_of_waves, map_channels};
use crate::devices::cpu::functions::exp;
use crate::devices::cpu::simd::Fused;
use crate::devices::cpu::sources::{SimdElement, gather_wide};
use crate::operators::fused_leaky_relu::existing_axis;
use crate::with_element;

/// The numbers of a vector, in a compute type.
pub fn vector<C: Compute>(view: &TensorView<'_>) -> Vec<C> {
    let mut numbers = vec![C::default(); view.shape()[0]];
    // SAFETY: the view promises every element of its one dimension, and there is a number for each.
    unsafe { gather_wide(view.dtype(), view.pointer, view.strides[0], numbers.as_mut_ptr(), numbers.len()) };
    numbers
}

/// What is made of the numbers of each channel, alpha's at a place and, unless omitted, beta's at the next.
pub fn of_channels<C: Compute, W>(
    [alpha, beta]: [Option<&TensorView<'_>>; 2],
    make: impl Fn(C, Option<C>) -> W,
) -> Vec<W> {
    let alpha = vector::<C>(alpha.expect("the schema requires the frequencies"));
    let beta = beta.map(vector::<C>);
    (0..alpha.len()).map(|channel| make(alpha[channel], beta.as_ref().map(|beta| beta[channel]))).collect()
}

/// From sums of derivatives by p and q to the gradients of alpha and beta, for each channel.
pub fn write_sums(
    sums: impl Iterator<Item = [f64; 2]>,
    numbers: [Option<&TensorView<'_>>; 2],
    logscale: bool,
    outputs: [Option<&Parts>; 2],
) {
    let has_beta = numbers[1].is_some();
    let numbers = numbers.map(|view| view.map(vector::<f64>));
    for (channel, [by_p, by_q]) in sums.enumerate() {
        // Without divisors of their own p stands in both places.
        let by = if has_beta { [by_p, by_q] } else { [by_p + by_q, 0.0] };
        for (which, output) in outputs.into_iter().enumerate() {
            let (Some(output), Some(numbers)) = (output, &numbers[which]) else { continue };
            let chain = if logscale { exp(Fused(numbers[channel])).0 } else { 1.0 };
            let place = output.pointer.wrapping_offset(channel as isize * output.strides[0]);
            with_element!(output.dtype(), T => {
                let value = T::from_compute(<T as Element>::Compute::from_f64(by[which] * chain));
                // SAFETY: the output has an element for each channel, which may be unaligned.
                unsafe { place.cast::<T>().write_unaligned(value) }
            });
        }
    }
}

fn numbers<'a>(call: &'a Call<'_>, place: usize) -> [Option<&'a TensorView<'a>>; 2] {
    [place, place + 1].map(|place| call.inputs.get(place).and_then(Option::as_ref))
}

fn channel_axis(call: &Call<'_>, axis: i64) -> usize {
    existing_axis(axis, call.input(0).shape().len()).expect("inference has found the axis")
}

/// Y of X and the numbers.
pub fn forward(call: &Call<'_>) -> Result<()> {
    let Some(y) = &call.outputs[0] else { return Ok(()) };
    let SnakeArgs { logscale, axis } = SnakeArgs::from_args(call.args);
    with_element!(y.dtype(), T => {
        let waves = of_channels(numbers(call, FORWARD), |alpha, beta| {
            Wave::<<T as Element>::Compute>::new(alpha, beta, logscale)
        });
        map_channels::<T, _, 1>(&waves, channel_axis(call, axis), y, [call.input(0)])
    })
}

/// dX, dAlpha and dBeta of X, dY and the numbers.
pub fn gradient(call: &Call<'_>) -> Result<()> {
    with_element!(call.input(0).dtype(), T => gradient_of::<T>(call))
}

fn gradient_of<T>(call: &Call<'_>) -> Result<()>
where
    T: SimdElement<Compute: SimdElement<Compute = T::Compute>>,
{
    let SnakeArgs { logscale, axis } = SnakeArgs::from_args(call.args);
    let (axis, given) = (channel_axis(call, axis), numbers(call, BACKWARD));
    let waves = of_channels(given, |alpha, beta| Wave::<T::Compute>::new(alpha, beta, logscale));
    let (x, dy) = (call.input(0), call.input(1));
    let output = |place: usize| call.outputs.get(place).and_then(Option::as_ref);
    let wanted = [1, 2].map(|place| output(place).filter(|_| given[place - 1].is_some()).map(|view| &**view));
    if wanted.iter().all(Option::is_none) {
        return output(0).map_or(Ok(()), |dx| map_channels::<T, _, 2>(&waves, axis, dx, [dy, x]));
    }
    let sums = gradient_of_waves::<T>(&waves, axis, [x, dy], output(0))?;
    write_sums(sums.into_iter(), given, logscale, wanted);
    Ok(())
}

/// Z of X, dY and the numbers.
pub fn derivative(call: &Call<'_>) -> Result<()> {
    let Some(z) = &call.outputs[0] else { return Ok(()) };
    let args = SnakeDerivativeArgs::from_args(call.args);
    with_element!(z.dtype(), T => {
        let partials = of_channels(numbers(call, BACKWARD), |alpha, beta| {
            Partial::<<T as Element>::Compute>::new(alpha, beta, args.logscale, args.orders())
        });
        map_channels::<T, _, 2>(&partials, channel_axis(call, args.axis), z, [call.input(1), call.input(0)])
    })
}
