//! The derivatives of snake, `t + sin²(p t) / B`, by t, alpha and beta, of any order: one formula.
//!
//! With `g(u) = sin²(u)`, whose m-th derivative is `2^(m-1) sin(2u + (m-1) π/2)`, the derivative by t (n times) and p (k
//! times) of `g(p t)` is `Σ_l C(n, l) k!/(k-l)! p^(n-l) t^(k-l) g^(n+k-l)(p t)`: polynomials in t times the sine and the
//! cosine of `2 p t`. Derivatives by alpha and beta are sums of those by p, with numbers of the channel alone.

use super::Wave;
use super::series::Series;
use crate::functions::{angle, exp};
use crate::simd::{Formula, Fused, Lane};
use firelu_core::dtype::Compute;

/// How often a derivative is taken by each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orders {
    /// By t.
    pub x: usize,
    /// By alpha, which stands for beta too where there is none.
    pub alpha: usize,
    /// By beta; zero where there is none.
    pub beta: usize,
}

impl Orders {
    /// The highest order by each: beyond it float32 does not hold the coefficients.
    pub const MOST: usize = 8;
}

/// A derivative of snake with a channel's numbers.
#[derive(Clone, Copy)]
pub struct Partial<C> {
    frequency: C,
    /// What of it stays of `t` itself, the constant first.
    linear: [C; 2],
    /// The factor of `sin²(p t)`.
    square: C,
    /// The factors of the sine and of the cosine of `2 p t`.
    sine: Series<C>,
    cosine: Series<C>,
}

impl<C: Compute> Partial<C> {
    /// The derivative for a channel; without a beta it is alpha. Their exponentials count where `logscale`.
    pub fn new(alpha: C, beta: Option<C>, logscale: bool, orders: Orders) -> Self {
        let Wave { frequency, inverse } = Wave::new(alpha, beta, logscale);
        let (p, inverse) = (frequency.to_f64(), inverse.to_f64());
        let weights = match beta {
            Some(beta) => {
                let q = if logscale { exp(Fused(beta.to_f64())).0 } else { beta.to_f64() };
                let by_beta = chain(q, logscale, orders.beta).into_iter().enumerate();
                let divisor: f64 = by_beta.map(|(times, weight)| weight * divided(inverse, times)).sum();
                chain(p, logscale, orders.alpha).iter().map(|weight| weight * divisor).collect()
            }
            None => together(&chain(p, logscale, orders.alpha), inverse),
        };
        let (mut square, mut sine, mut cosine) = (0.0, vec![0.0; weights.len()], vec![0.0; weights.len()]);
        for (k, weight) in weights.iter().enumerate() {
            for l in 0..=k.min(orders.x) {
                let (m, falling) = (orders.x + k - l, (k - l + 1..=k).product::<usize>() as f64);
                let factor = weight * binomial(orders.x, l) * falling * power(p, orders.x - l);
                match m {
                    0 => square += factor,
                    _ => {
                        let factor = factor * power(2.0, m - 1);
                        let row = if m % 2 == 1 { &mut sine } else { &mut cosine };
                        row[k - l] += if (m - 1) % 4 < 2 { factor } else { -factor };
                    }
                }
            }
        }
        let linear = match orders {
            Orders { x: 0, alpha: 0, beta: 0 } => [0.0, 1.0],
            Orders { x: 1, alpha: 0, beta: 0 } => [1.0, 0.0],
            _ => [0.0, 0.0],
        };
        let (linear, square) = (linear.map(C::from_f64), C::from_f64(square));
        Partial { frequency, linear, square, sine: Series::of(trimmed(&sine)), cosine: Series::of(trimmed(&cosine)) }
    }
}

/// The derivative of some order by a number, or by its logarithm, as a sum of those by the number itself, from none on.
fn chain(number: f64, logscale: bool, order: usize) -> Vec<f64> {
    let mut weights = vec![0.0; order + 1];
    if !logscale {
        weights[order] = 1.0;
        return weights;
    }
    // x d/dx, so many times: Stirling's numbers of the second kind times powers.
    weights[0] = 1.0;
    for _ in 0..order {
        for k in (1..=order).rev() {
            weights[k] = weights[k] * k as f64 + weights[k - 1];
        }
        weights[0] = 0.0;
    }
    for (k, weight) in weights.iter_mut().enumerate() {
        *weight *= power(number, k);
    }
    weights
}

/// Where p is in the divisor too: derivatives of the product as sums of those of sin² alone.
fn together(by_p: &[f64], inverse: f64) -> Vec<f64> {
    let mut weights = vec![0.0; by_p.len()];
    for (m, of_product) in by_p.iter().enumerate() {
        for (k, weight) in weights.iter_mut().enumerate().take(m + 1) {
            *weight += of_product * binomial(m, k) * divided(inverse, m - k);
        }
    }
    weights
}

/// The derivative of `1 / B` by B, so many times.
fn divided(inverse: f64, times: usize) -> f64 {
    (1..=times).fold(inverse, |value, k| -value * k as f64 * inverse)
}

/// One product after the other, so that the device has the same bits.
fn power(number: f64, exponent: usize) -> f64 {
    (0..exponent).fold(1.0, |value, _| value * number)
}

fn binomial(n: usize, k: usize) -> f64 {
    (0..k).fold(1.0, |value, i| value * (n - i) as f64 / (i + 1) as f64)
}

/// Without zeros at the end.
fn trimmed(coefficients: &[f64]) -> &[f64] {
    let length = coefficients.iter().rposition(|&coefficient| coefficient != 0.0).map_or(0, |last| last + 1);
    &coefficients[..length]
}

/// Of the stream and t: their product with the derivative at t.
impl<C: Compute> Formula<C, 2> for Partial<C> {
    const COMPUTES_MUCH: bool = true;
    #[inline(always)]
    fn apply<L: Lane<C>>(&self, [stream, t]: [L; 2]) -> L {
        let angle = angle(t.mul(t.splat(self.frequency)));
        let [constant, slope] = self.linear.map(|number| t.splat(number));
        let mut value = angle.sine_squared().mul_add(t.splat(self.square), t.mul_add(slope, constant));
        if !self.sine.is_zero() {
            value = self.sine.at(t).mul_add(angle.sine_of_double(), value);
        }
        if !self.cosine.is_zero() {
            value = self.cosine.at(t).mul_add(angle.cosine_of_double(), value);
        }
        stream.mul(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Snake and its derivative of the first order, for numeric differences.
    fn value(t: f64, alpha: f64, beta: Option<f64>, logscale: bool, orders: Orders) -> f64 {
        Formula::<f64, 2>::apply(&Partial::<f64>::new(alpha, beta, logscale, orders), [1.0, t])
    }

    #[test]
    fn no_derivative_is_snake_itself() {
        for (beta, logscale) in [(None, false), (Some(0.4), false), (Some(-0.3), true)] {
            let orders = Orders { x: 0, alpha: 0, beta: 0 };
            let (p, q) = (0.7f64, beta.unwrap_or(0.7));
            let (p, q) = if logscale { (p.exp(), f64::exp(q)) } else { (p, q) };
            let expected = 1.3 + (p * 1.3).sin().powi(2) / (q + 1e-9);
            assert!((value(1.3, 0.7, beta, logscale, orders) - expected).abs() < 1e-14);
        }
    }

    #[test]
    fn each_order_is_the_difference_of_the_one_before() {
        let step = 1e-5;
        for (beta, logscale) in [(None, false), (None, true), (Some(0.9), false), (Some(0.2), true)] {
            for x in 0..4 {
                for alpha in 0..4 {
                    for by_beta in 0..if beta.is_some() { 4 } else { 1 } {
                        let before = Orders { x, alpha, beta: by_beta };
                        let at = |dt: f64, da: f64, db: f64| {
                            value(0.6 + dt, 0.8 + da, beta.map(|beta| beta + db), logscale, before)
                        };
                        let check = |after: Orders, high: f64, low: f64| {
                            let (found, numeric) =
                                (value(0.6, 0.8, beta, logscale, after), (high - low) / (2.0 * step));
                            let scale = found.abs().max(1.0);
                            assert!((found - numeric).abs() < 2e-6 * scale, "{after:?}: {found} {numeric}");
                        };
                        check(Orders { x: x + 1, ..before }, at(step, 0.0, 0.0), at(-step, 0.0, 0.0));
                        check(Orders { alpha: alpha + 1, ..before }, at(0.0, step, 0.0), at(0.0, -step, 0.0));
                        if beta.is_some() {
                            check(Orders { beta: by_beta + 1, ..before }, at(0.0, 0.0, step), at(0.0, 0.0, -step));
                        }
                    }
                }
            }
        }
    }
}
