//! Every activation of every float32 against float64, in units of the last place.

use super::{Activation, Pointwise, Wave};
use crate::elementwise::apply_to_row;
use crate::features::Level;
use crate::functions::{angle, exp};
use crate::simd::{Formula, Lane};
use firelu_core::dtype::Compute;

/// sin² alone, the sine of twice the angle, and the exponential.
struct SineSquared;
struct SineOfDouble;
struct Exponential;

impl<C: Compute> Formula<C, 1> for SineSquared {
    const COMPUTES_MUCH: bool = true;
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [z]: [L; 1]) -> L {
        angle(z).sine_squared()
    }
}

impl<C: Compute> Formula<C, 1> for SineOfDouble {
    const COMPUTES_MUCH: bool = true;
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [z]: [L; 1]) -> L {
        angle(z).sine_of_double()
    }
}

impl<C: Compute> Formula<C, 1> for Exponential {
    const COMPUTES_MUCH: bool = true;
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [x]: [L; 1]) -> L {
        exp(x)
    }
}

fn definition(activation: Activation, t: f64) -> f64 {
    let (scale, a) = (1.0507009873554805, 1.6732632423543773);
    match activation {
        Activation::Linear => t,
        Activation::Relu => {
            if t < 0.0 {
                0.0
            } else {
                t
            }
        }
        Activation::LeakyRelu => {
            if t > 0.0 {
                t
            } else {
                f64::from(0.2f32) * t
            }
        }
        Activation::Tanh => t.tanh(),
        Activation::Sigmoid => logistic(t),
        Activation::Elu => {
            if t < 0.0 {
                t.exp_m1()
            } else {
                t
            }
        }
        Activation::Selu => {
            if t < 0.0 {
                scale * a * t.exp_m1()
            } else {
                scale * t
            }
        }
        Activation::Softplus => t.max(0.0) + (-t.abs()).exp().ln_1p(),
        Activation::Swish => {
            if t == f64::NEG_INFINITY {
                -0.0
            } else {
                t * logistic(t)
            }
        }
    }
}

fn slope(activation: Activation, t: f64) -> f64 {
    let (scale, a) = (1.0507009873554805, 1.6732632423543773);
    let square = |x: f64| x * x;
    match activation {
        Activation::Linear => 1.0,
        Activation::Relu => f64::from(t > 0.0),
        Activation::LeakyRelu => {
            if t > 0.0 {
                1.0
            } else {
                f64::from(0.2f32)
            }
        }
        Activation::Tanh => {
            if t.abs() > 400.0 {
                0.0
            } else {
                1.0 / square(t.cosh())
            }
        }
        Activation::Sigmoid => logistic(t) * logistic(-t),
        Activation::Elu => {
            if t < 0.0 {
                t.exp()
            } else {
                1.0
            }
        }
        Activation::Selu => {
            if t < 0.0 {
                scale * a * t.exp()
            } else {
                scale
            }
        }
        Activation::Softplus => logistic(t),
        Activation::Swish => {
            if t.abs() > 1000.0 {
                if t > 0.0 { 1.0 } else { -0.0 }
            } else {
                logistic(t) * (1.0 + t * logistic(-t))
            }
        }
    }
}

fn logistic(t: f64) -> f64 {
    if t < 0.0 { t.exp() / (1.0 + t.exp()) } else { 1.0 / (1.0 + (-t).exp()) }
}

/// How many units of the last place a float32 is off, those of the smallest normal number at least.
fn units_off(got: f32, exact: f64) -> f64 {
    if got.is_nan() || exact.is_nan() {
        return if got.is_nan() && exact.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let rounded = exact as f32;
    if got == rounded {
        return if got == 0.0 && exact == 0.0 && got.is_sign_negative() != exact.is_sign_negative() {
            9.0
        } else {
            0.0
        };
    }
    if !got.is_finite() || !rounded.is_finite() {
        return f64::INFINITY;
    }
    let exponent = (exact.abs().max(f64::from(f32::MIN_POSITIVE))).log2().floor();
    (f64::from(got) - exact).abs() / (exponent - 23.0).exp2()
}

/// The greatest error of a function over the float32 numbers with these bits.
fn worst(bits: impl Iterator<Item = u32>, compute: impl Fn(&mut [f32]), exact: impl Fn(f64) -> f64) -> (f64, f32) {
    let (mut worst, mut row) = ((0.0, 0.0f32), Vec::with_capacity(4096));
    let mut bits = bits.peekable();
    while bits.peek().is_some() {
        row.clear();
        row.extend(bits.by_ref().take(4099).map(f32::from_bits));
        let inputs = row.clone();
        compute(&mut row);
        for (&input, &got) in inputs.iter().zip(&row) {
            let error = units_off(got, exact(f64::from(input)));
            if error > worst.0 {
                worst = (error, input);
            }
        }
    }
    worst
}

/// The greatest error over every `step`-th float32, found by all processors together.
fn worst_of_all(step: usize, compute: impl Fn(&mut [f32]) + Sync, exact: impl Fn(f64) -> f64 + Sync) -> (f64, f32) {
    let parts = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    std::thread::scope(|scope| {
        let part = |part: u64| {
            let [start, end] = [part, part + 1].map(|part| (part << 32) / parts);
            let bits = (start..end).step_by(step).map(|bits| bits as u32);
            let (compute, exact) = (&compute, &exact);
            scope.spawn(move || worst(bits, compute, exact))
        };
        let running: Vec<_> = (0..parts).map(part).collect();
        running.into_iter().map(|part| part.join().unwrap()).fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a })
    })
}

/// Near their zeros four units are allowed to softplus and swish.
fn allowed(activation: Activation) -> f64 {
    match activation {
        Activation::Softplus | Activation::Swish => 4.0,
        _ => 1.5,
    }
}

fn check(step: usize, levels: &[Level]) {
    for &level in levels {
        let hold = |name: &str, (error, at): (f64, f32), allowed: f64| {
            println!("{level} {name}: {error:.3} at {at:e}");
            assert!(error <= allowed, "{level} {name}: {error} at {at:e}");
        };
        for activation in Activation::ALL {
            let pointwise = Pointwise::<f32>::new(activation, 0.2, 1.0, None, 1);
            let compute = |row: &mut [f32]| pointwise.apply(level, row);
            hold(activation.name(), worst_of_all(step, compute, |t| definition(activation, t)), allowed(activation));
        }
        let square = |row: &mut [f32]| apply_to_row(level, &SineSquared, row);
        hold("sin²", worst_of_all(step, square, |z| z.sin() * z.sin()), 1.5);
        // Derivatives alone are made of it: two units will do, and the sign of a zero does not count.
        let double = |row: &mut [f32]| apply_to_row(level, &SineOfDouble, row);
        hold("sin 2z", worst_of_all(step, double, |z| (2.0 * z).sin() + 0.0), 2.0);
        let exponential = |row: &mut [f32]| apply_to_row(level, &Exponential, row);
        hold("exp", worst_of_all(step, exponential, f64::exp), 1.5);
    }
}

#[test]
fn slopes_are_within_a_few_units_of_their_terms() {
    for &level in Level::available() {
        for activation in Activation::ALL {
            let pointwise = Pointwise::<f32>::new(activation, 0.2, 1.0, None, 1);
            for bits in (0..=u32::MAX).step_by(40_009).filter(|&bits| !f32::from_bits(bits).is_nan()) {
                let (t, mut stream) = (f32::from_bits(bits), [1.0f32]);
                pointwise.multiply(level, &mut stream, &[t]);
                let exact = slope(activation, f64::from(t));
                // Swish's slope is a sum of two terms, of which the first is at most one.
                let near_zero = activation == Activation::Swish && exact.abs() < 0.5 && f64::from(t) > -4.0;
                let error = (f64::from(stream[0]) - exact).abs();
                let fits = if near_zero { error < 3e-7 } else { units_off(stream[0], exact) <= 8.0 };
                assert!(fits, "{level} {} at {t:e}: {} for {exact}", activation.name(), stream[0]);
            }
        }
    }
}

#[test]
fn some_float32_numbers_are_within_the_stated_errors() {
    check(4_001, Level::available());
}

#[test]
#[ignore = "all 2^32 numbers take minutes: make test-full"]
fn all_float32_numbers_are_within_the_stated_errors() {
    // Levels with fused instructions have the same bits.
    check(1, &Level::available()[Level::available().len() - 1..]);
}

#[test]
fn a_part_of_a_row_has_the_bits_of_the_whole() {
    let row: Vec<f32> = (0..67).map(|i| (i as f32 - 33.0) * 0.37).collect();
    for &level in Level::available() {
        for activation in Activation::ALL {
            let pointwise = Pointwise::<f32>::new(activation, 0.2, 1.3, Some(4.0), 2);
            let mut whole = row.clone();
            pointwise.apply(level, &mut whole);
            for start in 0..row.len() {
                let mut part = row[start..].to_vec();
                pointwise.apply(level, &mut part);
                assert_eq!(part, whole[start..], "{level} {activation:?} from {start}");
            }
        }
        let wave = Wave::<f32>::new(0.7, Some(1.5), true);
        let (mut whole, mut part) = (row.clone(), row[3..].to_vec());
        wave.apply(level, &mut whole);
        wave.apply(level, &mut part);
        assert_eq!(part, whole[3..]);
    }
}

/// Each derivative is that of the one before, by differences of float64.
#[test]
fn derivatives_follow_from_each_other() {
    let level = Level::current();
    let points: Vec<f64> = (-30..30).map(|i| 0.21 * f64::from(i) + 0.05).collect();
    let step = 1e-5;
    for order in 1..6 {
        for activation in Activation::ALL {
            let at = |order: usize, t: Vec<f64>| {
                let pointwise = Pointwise::<f64>::new(activation, 0.2, 1.0, None, order);
                let mut row = if order == 0 { t.clone() } else { vec![1.0; t.len()] };
                if order == 0 {
                    pointwise.apply(level, &mut row)
                } else {
                    pointwise.multiply(level, &mut row, &t)
                }
                row
            };
            compare(&points, step, order, at, activation.name());
        }
    }
}

fn compare(points: &[f64], step: f64, order: usize, at: impl Fn(usize, Vec<f64>) -> Vec<f64>, name: &str) {
    let moved = |by: f64| points.iter().map(|t| t + by).collect::<Vec<f64>>();
    let (above, below) = (at(order - 1, moved(step)), at(order - 1, moved(-step)));
    let derivative = at(order, points.to_vec());
    for (i, &t) in points.iter().enumerate() {
        let difference = (above[i] - below[i]) / (2.0 * step);
        assert!(
            (difference - derivative[i]).abs() < 1e-6,
            "{name}, order {order} at {t}: {difference} {}",
            derivative[i]
        );
    }
}
