//! A sum of products as mathematics has it: no order, no overflow, and what is not finite kept apart.

/// Two such factors bring every product of float64 numbers into range.
const SCALE: f64 = f64::from_bits((1023 - 540) << 52);

/// A sum of products.
#[derive(Debug, Clone, Copy, Default)]
pub struct Total {
    sum: f64,
    lost: f64,
    scaled: f64,
    magnitude: f64,
    scaled_magnitude: f64,
    /// The products of which a factor is not finite, which decide alone where there are any.
    special: Option<f64>,
}

impl Total {
    /// Adds `a * b`.
    pub fn add(&mut self, a: f64, b: f64) {
        let product = a * b;
        if !(a.is_finite() && b.is_finite()) {
            self.special = Some(self.special.unwrap_or(0.0) + product);
            return;
        }
        let (old, scaled) = (self.sum, (a * SCALE) * (b * SCALE));
        self.sum = old + product;
        let (large, small) = if old.abs() >= product.abs() { (old, product) } else { (product, old) };
        self.lost += (large - self.sum) + small;
        self.scaled += scaled;
        self.magnitude += product.abs();
        self.scaled_magnitude += scaled.abs();
    }

    /// The sum, or the largest number where it lies beyond.
    pub fn value(&self) -> f64 {
        match self.special {
            Some(special) => special,
            None if self.magnitude.is_finite() => self.sum + self.lost,
            None => unscaled(self.scaled),
        }
    }

    /// The sum times a factor, or the largest number where the product of finite ones lies beyond.
    pub fn times(&self, factor: f64) -> f64 {
        let product = self.value() * factor;
        if self.special.is_none() { product.clamp(f64::MIN, f64::MAX) } else { product }
    }

    /// The sum of the finite products' magnitudes, or the largest number where it lies beyond.
    pub fn magnitude(&self) -> f64 {
        if self.magnitude.is_finite() { self.magnitude } else { unscaled(self.scaled_magnitude) }
    }
}

fn unscaled(sum: f64) -> f64 {
    (sum / SCALE / SCALE).clamp(f64::MIN, f64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(products: &[(f64, f64)]) -> Total {
        let mut total = Total::default();
        products.iter().for_each(|&(a, b)| total.add(a, b));
        total
    }

    #[test]
    fn no_order_and_no_overflow_decides() {
        assert_eq!(total(&[(1e308, 1.0), (1e308, 1.0), (-1e308, 1.0), (-0.5e308, 1.0)]).value(), 0.5e308);
        assert_eq!(total(&[(1e200, 1e200), (-1e200, 1e200), (1e300, 2.0)]).value(), 2e300);
        assert_eq!(total(&[(1e200, 1e200)]).value(), f64::MAX);
        assert_eq!(total(&[(-1e200, 1e200)]).times(4.0), f64::MIN);
        assert_eq!(total(&[(1e-200, 1e-100), (1.0, 1.0)]).magnitude(), 1.0);
        assert_eq!(total(&[(1.0, 1e-30), (1.0, 1.0), (-1.0, 1.0)]).value(), 1e-30);
    }

    #[test]
    fn what_is_not_finite_decides_alone() {
        let inf = f64::INFINITY;
        assert_eq!(total(&[(-1e308, 1e10), (inf, 1.0)]).value(), inf);
        assert!(total(&[(inf, 1.0), (-inf, 1.0)]).value().is_nan());
        assert!(total(&[(inf, 0.0)]).value().is_nan());
        assert_eq!(total(&[(inf, 2.0), (3.0, -1.0)]).magnitude(), 3.0);
    }
}
