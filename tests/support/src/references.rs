//! What references of several operators need: sums without rounding, roundings, indices.

use firelu::core::dtype::Compute;
use firelu::{DType, Element, Shape, with_element};

/// A float64 sum that keeps what rounding loses, for references.
#[derive(Debug, Clone, Copy, Default)]
pub struct Exact {
    sum: f64,
    lost: f64,
}

impl Exact {
    /// Adds a number.
    pub fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        let (large, small) = if self.sum.abs() >= value.abs() { (self.sum, value) } else { (value, self.sum) };
        self.lost += (large - sum) + small;
        self.sum = sum;
    }

    /// The sum.
    pub fn value(self) -> f64 {
        self.sum + self.lost
    }
}

/// Half of the distance between neighbouring numbers near one.
pub fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::Float16 => 2f64.powi(-11),
        DType::BFloat16 => 2f64.powi(-8),
        DType::Float32 => 2f64.powi(-24),
        DType::Float64 => 2f64.powi(-53),
    }
}

/// The error that rounding a result of this size to the type may make, subnormal numbers included.
pub fn rounding_of(dtype: DType, size: f64) -> f64 {
    let smallest = match dtype {
        DType::Float16 => 2f64.powi(-25),
        _ => 0.0,
    };
    size * rounding(dtype) + smallest
}

/// A number as the type holds it.
pub fn round_to(dtype: DType, value: f64) -> f64 {
    with_element!(dtype, T => {
        T::from_compute(<T as Element>::Compute::from_f64(value)).to_compute().to_f64()
    })
}

/// Every index of a shape in row-major order.
pub fn indices(shape: &Shape) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..shape.elements()).map(move |flat| {
        let mut rest = flat;
        let mut index = vec![0; shape.len()];
        for d in (0..shape.len()).rev() {
            index[d] = rest % shape[d];
            rest /= shape[d];
        }
        index
    })
}
