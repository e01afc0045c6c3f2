//! What each operator must answer, written from its documentation: refusals, and values by float64
//! arithmetic. Element by element the documented roundings are made one by one, so that values are
//! exact; sums come with a bound of their error.

mod activations;
mod elementwise;
mod exact;
pub mod filtered_act;
mod reduce;
mod snake;
mod uncertain;
pub mod upfirdn2d;
mod waves;

use firelu::DType;

use crate::rounding::{largest, round_to, spacing};
use crate::signatures::{self, Refused, Request};

/// An output that is expected.
#[derive(Debug, Clone)]
pub struct Expected {
    /// The length of each dimension.
    pub shape: Vec<usize>,
    /// The element type.
    pub dtype: DType,
    /// The values in row-major order; not rounded to the type where there is a bound.
    pub values: Vec<f64>,
    /// What each result may be beside its value; empty where values are exact.
    pub bounds: Vec<Bound>,
}

/// What a result may be beside its value, as `docs/reliability.md` promises it and no wider.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// How far it may be from the value, before it is rounded to the type.
    pub error: f64,
    /// Whether a sum on the way may pass the largest number, so that an infinity or a NaN comes out.
    pub overflow: bool,
    /// Whether a number that is not finite meets a zero of the padding, or a tap that the gain has made
    /// zero, so that a NaN comes out.
    pub nan: bool,
}

impl Bound {
    /// Whether a result of this type is right.
    pub fn allows(&self, got: f64, value: f64, dtype: DType) -> bool {
        if value.is_nan() {
            return got.is_nan();
        }
        if got.is_nan() {
            return self.overflow || self.nan;
        }
        if got == value || value.is_infinite() {
            return got == value;
        }
        let rounding = 0.5 * spacing(dtype, (value.abs() + self.error).min(largest(dtype)));
        if got.is_infinite() {
            return self.overflow || value * got.signum() + self.error + rounding >= largest(dtype);
        }
        (got - value).abs() <= self.error + rounding
    }
}

/// The outputs of a call, or that it must be refused.
pub fn expect(request: &Request) -> Result<Vec<Expected>, Refused> {
    signatures::check(request)?;
    match request.operator {
        "LeakyRelu" => elementwise::leaky_relu(request),
        "LeakyReluGradient" => elementwise::leaky_relu_gradient(request),
        "FusedLeakyRelu" => elementwise::fused_leaky_relu(request),
        "FusedLeakyReluGradient" => elementwise::fused_leaky_relu_gradient(request),
        "BiasAct" => activations::bias_act(request),
        "BiasActGradient" => activations::bias_act_gradient(request),
        "Snake" => snake::forward(request),
        "SnakeGradient" => snake::gradient(request),
        "SnakeDerivative" => snake::derivative(request),
        "FilteredAct" => filtered_act::forward(request),
        "FilteredActGradient" => filtered_act::gradient(request),
        "Sum" => elementwise::sum(request),
        "Add" => elementwise::binary(request, |a, b| a + b),
        "Sub" => elementwise::binary(request, |a, b| a - b),
        "Mul" => elementwise::binary(request, |a, b| a * b),
        "ReduceSum" => reduce::reduce_sum(request),
        "BroadcastLike" => reduce::broadcast_like(request),
        "UpFirDn2d" => upfirdn2d::forward(request),
        "UpFirDn2dGradient" => upfirdn2d::gradient(request),
        "UpFirDn2dKernelGradient" => upfirdn2d::kernel_gradient(request),
        other => unreachable!("{other} has no reference"),
    }
}

/// Rounds to the type that a dtype is computed in.
fn computed(dtype: DType, value: f64) -> f64 {
    round_to(dtype.compute(), value)
}

/// The index of each dimension of an element's place in row-major order.
fn index_of(shape: &[usize], mut place: usize, index: &mut [usize]) {
    for (i, &n) in index.iter_mut().zip(shape).rev() {
        *i = place % n;
        place /= n;
    }
}

/// The place in row-major order of an index, where dimensions of one stand still and missing ones are
/// in front.
fn place_in(shape: &[usize], index: &[usize]) -> usize {
    let own = &index[index.len() - shape.len()..];
    own.iter().zip(shape).fold(0, |place, (&i, &n)| place * n + if n == 1 { 0 } else { i })
}

/// Two shapes as one, as numpy broadcasts.
fn broadcast(first: &[usize], second: &[usize]) -> Result<Vec<usize>, Refused> {
    let rank = first.len().max(second.len());
    let length = |shape: &[usize], d: usize| if d + shape.len() < rank { 1 } else { shape[d + shape.len() - rank] };
    let both = |d| match (length(first, d), length(second, d)) {
        (a, b) if a == b || b == 1 => Ok(a),
        (1, b) => Ok(b),
        _ => Err(Refused),
    };
    (0..rank).map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_allows_what_is_promised_and_nothing_else() {
        let (inf, nan, single) = (f64::INFINITY, f64::NAN, DType::Float32);
        let strict = Bound { error: 0.5, overflow: false, nan: false };
        for (got, value, right) in [
            (1.0, 1.5, true),
            (1.0, 1.6, false),
            (nan, 1.0, false),
            (inf, 1.0, false),
            (nan, nan, true),
            (0.0, nan, false),
            (inf, nan, false),
            (inf, inf, true),
            (-inf, inf, false),
            (nan, inf, false),
            (1.0, inf, false),
            (inf, 3.5e38, true),
            (-inf, 3.5e38, false),
        ] {
            assert_eq!(strict.allows(got, value, single), right, "{got} for {value}");
        }
        let overflow = Bound { overflow: true, ..strict };
        for (got, value, right) in [
            (inf, 1.0, true),
            (-inf, 1.0, true),
            (nan, 1.0, true),
            (2.0, 1.0, false),
            (0.0, nan, false),
            (-inf, inf, false),
        ] {
            assert_eq!(overflow.allows(got, value, single), right, "{got} for {value}");
        }
        let padding = Bound { nan: true, ..strict };
        for (got, value, right) in [(nan, 1.0, true), (inf, 1.0, false), (2.0, 1.0, false), (nan, inf, true)] {
            assert_eq!(padding.allows(got, value, single), right, "{got} for {value}");
        }
        // Half of the distance to the next number may be lost beside the error.
        let none = Bound { error: 0.0, overflow: false, nan: false };
        assert!(none.allows(2048.0, 2049.0, DType::Float16) && !none.allows(2048.0, 2049.1, DType::Float16));
    }
}
