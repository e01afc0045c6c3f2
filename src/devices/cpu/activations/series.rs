//! Derivatives of any order of the logistic function and the hyperbolic tangent: polynomials in the function itself.
//!
//! With s the logistic function, `s' = s (1 - s)`, and with y the hyperbolic tangent, `y' = 1 - y²`. If a derivative is the
//! polynomial Q of the function, the next one is Q' times that first derivative.

use super::Activation;
use crate::simd::Lane;
use firelu_core::dtype::Compute;

/// The highest order: beyond it float32 does not hold the coefficients.
pub const MOST_ORDER: usize = 24;

/// A polynomial, the constant coefficient first.
#[derive(Clone, Copy)]
pub struct Series<C> {
    coefficients: [C; MOST_ORDER + 2],
    length: usize,
}

impl<C: Compute> Series<C> {
    /// A polynomial with at most `MOST_ORDER + 2` coefficients.
    pub fn of(coefficients: &[f64]) -> Self {
        let mut series = Series { coefficients: [C::default(); MOST_ORDER + 2], length: coefficients.len() };
        for (place, &coefficient) in series.coefficients.iter_mut().zip(coefficients) {
            *place = C::from_f64(coefficient);
        }
        series
    }

    /// The coefficients.
    pub fn coefficients(&self) -> &[C] {
        &self.coefficients[..self.length]
    }

    /// Whether it has no coefficients at all.
    pub fn is_zero(&self) -> bool {
        self.length == 0
    }

    /// The polynomial of a number.
    #[inline(always)]
    pub fn at<L: Lane<C>>(&self, x: L) -> L {
        let mut sum = x.splat(C::default());
        for &coefficient in self.coefficients[..self.length].iter().rev() {
            sum = sum.mul_add(x, x.splat(coefficient));
        }
        sum
    }
}

/// The order of a derivative, and what the derivatives of that order need.
pub struct Order<C> {
    /// The order, from one on.
    pub n: usize,
    /// What the first derivative of the underlying function is multiplied by, for its derivative of order n.
    pub factor: Series<C>,
    /// The same for its derivative before that.
    pub before: Series<C>,
}

impl<C: Compute> Order<C> {
    /// The n-th derivative of an activation; n is at most [`MOST_ORDER`].
    pub fn new(activation: Activation, n: usize) -> Self {
        let first: &[f64] = if activation == Activation::Tanh { &[1.0, 0.0, -1.0] } else { &[0.0, 1.0, -1.0] };
        // Softplus is a step behind: its first derivative is the logistic function.
        let steps = n.saturating_sub(1 + usize::from(activation == Activation::Softplus));
        Order {
            n,
            factor: Series::of(&factor(first, steps)),
            before: Series::of(&factor(first, steps.saturating_sub(1))),
        }
    }
}

/// The derivative of the polynomial of so many steps from the function itself on.
fn factor(first: &[f64], steps: usize) -> Vec<f64> {
    let mut derivative = vec![1.0];
    for _ in 0..steps {
        derivative = differentiated(&product(&derivative, first));
    }
    derivative
}

fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; a.len() + b.len() - 1];
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            product[i + j] += x * y;
        }
    }
    product
}

fn differentiated(coefficients: &[f64]) -> Vec<f64> {
    coefficients.iter().enumerate().skip(1).map(|(power, coefficient)| power as f64 * coefficient).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_polynomials_are_those_of_the_books() {
        assert_eq!(factor(&[0.0, 1.0, -1.0], 0), [1.0]);
        assert_eq!(factor(&[0.0, 1.0, -1.0], 1), [1.0, -2.0]);
        assert_eq!(factor(&[0.0, 1.0, -1.0], 2), [1.0, -6.0, 6.0]);
        assert_eq!(factor(&[1.0, 0.0, -1.0], 1), [0.0, -2.0]);
        assert_eq!(factor(&[1.0, 0.0, -1.0], 2), [-2.0, 0.0, 6.0]);
    }

    #[test]
    fn float32_holds_the_highest_order() {
        for activation in Activation::ALL {
            let order = Order::<f32>::new(activation, MOST_ORDER);
            assert!(order.factor.length <= MOST_ORDER + 2);
            assert!(order.factor.coefficients.iter().all(|coefficient| coefficient.is_finite()));
        }
    }
}
