//! Sums, whose order of summation is not the reference's business: each has a bound of its error.

use firelu::DType;

use super::exact::Total;
use super::{Bound, Expected, broadcast, computed, index_of};
use crate::arguments::{Arguments, axis_of};
use crate::rounding::{largest, round_to, spacing, unit};
use crate::signatures::{Array, Refused, Request};

type Outputs = Result<Vec<Expected>, Refused>;

/// How many values are added up in the compute type before float64 takes over.
const BLOCK: usize = 8192;

pub fn elements_of(shape: &[usize]) -> usize {
    if shape.contains(&0) { 0 } else { shape.iter().product() }
}

/// Several sums, and the type that their values are computed in.
pub struct Sums {
    dtype: DType,
    totals: Vec<Total>,
}

impl Sums {
    /// Sums of values that are computed as this type is.
    pub fn new(count: usize, dtype: DType) -> Self {
        Sums { dtype, totals: vec![Total::default(); count] }
    }

    pub fn add(&mut self, place: usize, value: f64) {
        self.totals[place].add(value, 1.0);
    }

    /// The sums of `terms` values each times a factor, as an output.
    pub fn into_expected(self, shape: &[usize], dtype: DType, scale: f64, terms: usize) -> Expected {
        let compute = self.dtype.compute();
        let lanes = 64 / compute.size();
        let additions = terms.min(BLOCK).div_ceil(lanes) as f64 + (terms / BLOCK) as f64 * 2f64.powi(-29);
        let relative = (additions + 3.0) * unit(compute) + 16.0 * unit(DType::Float64);
        let bound = |total: &Total| {
            let magnitude = total.magnitude();
            let error = relative * (scale.abs() * magnitude).min(f64::MAX);
            let underflow = 2.0 * spacing(compute, 0.0) * scale.abs().max(1.0);
            Bound { error: error + underflow, overflow: magnitude >= largest(compute) / 2.0, nan: false }
        };
        let bounds = self.totals.iter().map(bound).collect();
        let values = self.totals.iter().map(|total| total.times(scale)).collect();
        Expected { shape: shape.to_vec(), dtype, values, bounds }
    }
}

/// Which dimensions are named, each at most once.
fn named(axes: &[i64], rank: usize) -> Result<Vec<bool>, Refused> {
    let mut named = vec![false; rank];
    for &axis in axes {
        let place = axis_of(axis, rank).ok_or(Refused)?;
        if std::mem::replace(&mut named[place], true) {
            return Err(Refused);
        }
    }
    Ok(named)
}

pub fn reduce_sum(request: &Request) -> Outputs {
    let mut args = Arguments::new(request);
    let (axes, keepdims, scale) = (args.ints("axes")?, args.bool("keepdims")?, args.float("scale", 1.0)?);
    args.finish()?;
    let (x, like) = (request.input(0).ok_or(Refused)?, request.input(1));
    let rank = x.shape.len();
    let mut summed = named(&axes, rank)?;
    if axes.is_empty() && like.is_none() {
        summed.fill(true);
    }
    // What the axes leave: the dimension of X behind each, `None` for one that is kept with length one.
    let left: Vec<Option<usize>> =
        (0..rank).filter(|&d| keepdims || !summed[d]).map(|d| (!summed[d]).then_some(d)).collect();
    let mut shape: Vec<usize> = left.iter().map(|d| d.map_or(1, |d| x.shape[d])).collect();
    let mut behind = left;
    if let Some(like) = like {
        if like.shape.len() > shape.len() || broadcast(&like.shape, &shape)? != shape {
            return Err(Refused);
        }
        behind.drain(..shape.len() - like.shape.len());
        shape = like.shape.clone();
    }
    let mut sums = Sums::new(elements_of(&shape), x.dtype);
    let mut index = vec![0; rank];
    for (place, &value) in x.values.iter().enumerate() {
        index_of(&x.shape, place, &mut index);
        let target = shape.iter().zip(&behind).fold(0, |target, (&n, d)| match d {
            Some(d) if n != 1 => target * n + index[*d],
            _ => target * n,
        });
        sums.add(target, value);
    }
    let terms = x.elements() / elements_of(&shape).max(1);
    Ok(vec![sums.into_expected(&shape, x.dtype, scale, terms)])
}

pub fn broadcast_like(request: &Request) -> Outputs {
    let mut args = Arguments::new(request);
    let (axes, scale) = (args.ints("axes")?, args.float("scale", 1.0)?);
    args.finish()?;
    let (x, like) = (request.input(0).ok_or(Refused)?, request.input(1).ok_or(Refused)?);
    let lacking = named(&axes, like.shape.len())?;
    let present: Vec<usize> = (0..like.shape.len()).filter(|&d| !lacking[d]).collect();
    let missing = present.len().checked_sub(x.shape.len()).ok_or(Refused)?;
    let present = &present[missing..];
    if present.iter().zip(&x.shape).any(|(&d, &n)| n != like.shape[d] && n != 1) {
        return Err(Refused);
    }
    let factor = computed(x.dtype, scale);
    let mut index = vec![0; like.shape.len()];
    let output = Array::new(&like.shape, x.dtype);
    let value = |place: usize| {
        index_of(&like.shape, place, &mut index);
        let source = present.iter().zip(&x.shape).fold(0, |at, (&d, &n)| at * n + if n == 1 { 0 } else { index[d] });
        match scale {
            1.0 => x.values[source],
            _ => round_to(x.dtype, computed(x.dtype, x.values[source] * factor)),
        }
    };
    let values = (0..output.elements()).map(value).collect();
    Ok(vec![Expected { shape: like.shape.clone(), dtype: x.dtype, values, bounds: Vec::new() }])
}
