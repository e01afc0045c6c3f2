//! What each operator must answer, written from its documentation: refusals, and values by float64
//! arithmetic. Element by element the documented roundings are made one by one, so that values are
//! exact; sums come with a bound of their error.

mod elementwise;
mod reduce;
pub mod upfirdn2d;

use firelu::DType;

use crate::rounding::round_to;
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
    /// How far each result may be from its value, before it is rounded; empty where values are exact.
    pub bounds: Vec<f64>,
    /// Whether a NaN is right everywhere, because infinities or NaNs may meet a zero of the padding.
    pub may_be_nan: bool,
}

/// The outputs of a call, or that it must be refused.
pub fn expect(request: &Request) -> Result<Vec<Expected>, Refused> {
    signatures::check(request)?;
    match request.operator {
        "LeakyRelu" => elementwise::leaky_relu(request),
        "LeakyReluGradient" => elementwise::leaky_relu_gradient(request),
        "FusedLeakyRelu" => elementwise::fused_leaky_relu(request),
        "FusedLeakyReluGradient" => elementwise::fused_leaky_relu_gradient(request),
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
