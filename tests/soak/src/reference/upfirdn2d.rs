//! UpFirDn2d and its gradients from the definition: zeros between samples, padding, a product sum.

use super::{Expected, computed};
use crate::arguments::Arguments;
use crate::rounding::{spacing, unit};
use crate::signatures::{Array, Refused, Request};

type Outputs = Result<Vec<Expected>, Refused>;

/// What a kernel gradient adds up in the compute type before float64 takes over, and the places of a
/// register that are added up to one.
const PRODUCTS: f64 = 256.0;

/// The arguments, the last dimension's first.
pub struct Plan {
    up: [i64; 2],
    down: [i64; 2],
    pad: [(i64, i64); 2],
    flip: bool,
    gain: f64,
}

impl Plan {
    /// The arguments of a request.
    pub fn read(request: &Request) -> Result<Self, Refused> {
        let mut args = Arguments::new(request);
        let factors = 1..=i64::from(i32::MAX);
        let any = i64::MIN..=i64::MAX;
        let mut factor = |name| args.int(name, 1, factors.clone());
        let (up, down) = ([factor("up_x")?, factor("up_y")?], [factor("down_x")?, factor("down_y")?]);
        let mut pad = |name| args.int(name, 0, any.clone());
        let pad = [(pad("pad_x0")?, pad("pad_x1")?), (pad("pad_y0")?, pad("pad_y1")?)];
        let plan = Plan { up, down, pad, flip: args.bool("flip_kernel")?, gain: args.float("gain", 1.0)? };
        args.finish()?;
        Ok(plan)
    }

    /// The length that an axis (0 is the last) gets.
    fn length(&self, axis: usize, input: usize, taps: usize) -> Result<usize, Refused> {
        let wide = |n: i64| i128::from(n);
        let (before, after) = self.pad[axis];
        let stretched = input as i128 * wide(self.up[axis]);
        // Positions must stay below 2^61.
        let reach = stretched + wide(before).abs() + wide(after).abs() + taps as i128;
        if reach > i128::from(i64::MAX / 4) {
            return Err(Refused);
        }
        let span = stretched + wide(before) + wide(after) - taps as i128;
        if span < 0 { Err(Refused) } else { Ok((span / wide(self.down[axis])) as usize + 1) }
    }

    /// The shape of the output.
    pub fn output(&self, x: &[usize], k: &[usize]) -> Result<Vec<usize>, Refused> {
        let ([.., height, width], [rows, columns]) = (x, k) else { return Err(Refused) };
        if rows * columns == 0 {
            return Err(Refused);
        }
        let mut shape = x.to_vec();
        let rank = shape.len();
        shape[rank - 1] = self.length(0, *width, *columns)?;
        shape[rank - 2] = self.length(1, *height, *rows)?;
        Ok(shape)
    }

    /// The input sample that a tap meets at an output sample, if any.
    fn meets(&self, axis: usize, output: usize, tap: usize, input: usize) -> Option<usize> {
        let position = output as i64 * self.down[axis] + tap as i64 - self.pad[axis].0;
        let sample = usize::try_from(position / self.up[axis]).ok().filter(|&sample| sample < input)?;
        (position >= 0 && position % self.up[axis] == 0).then_some(sample)
    }

    /// The tap of K that stands at a place: convolution turns the kernel round.
    fn tap(&self, k: &[usize], row: usize, column: usize) -> usize {
        let place = row * k[1] + column;
        if self.flip { place } else { k[0] * k[1] - 1 - place }
    }

    /// Calls `visit(output, input, tap)` for every product, by places in row-major order.
    fn products(&self, x: &[usize], y: &[usize], k: &[usize], mut visit: impl FnMut(usize, usize, usize)) {
        let rank = x.len();
        let planes = if x[..rank - 2].contains(&0) { 0 } else { x[..rank - 2].iter().product::<usize>() };
        let ((height, width), (rows, columns)) = ((x[rank - 2], x[rank - 1]), (y[rank - 2], y[rank - 1]));
        for plane in 0..planes {
            for row in 0..rows {
                for tap_row in 0..k[0] {
                    let Some(from_row) = self.meets(1, row, tap_row, height) else { continue };
                    for column in 0..columns {
                        for tap_column in 0..k[1] {
                            let Some(from_column) = self.meets(0, column, tap_column, width) else { continue };
                            let output = (plane * rows + row) * columns + column;
                            let input = (plane * height + from_row) * width + from_column;
                            visit(output, input, self.tap(k, tap_row, tap_column));
                        }
                    }
                }
            }
        }
    }
}

/// Product sums, their finite magnitudes and the number of their terms.
struct Totals {
    sums: Vec<f64>,
    magnitudes: Vec<f64>,
    terms: Vec<f64>,
}

impl Totals {
    fn new(count: usize) -> Self {
        Totals { sums: vec![0.0; count], magnitudes: vec![0.0; count], terms: vec![0.0; count] }
    }

    fn add(&mut self, place: usize, product: f64) {
        self.sums[place] += product;
        self.terms[place] += 1.0;
        if product.is_finite() {
            self.magnitudes[place] += product.abs();
        }
    }

    fn into_expected(self, like: Array, gain: f64, compute: firelu::DType, roundings: impl Fn(f64) -> f64) -> Expected {
        let least = spacing(compute, 0.0);
        let bound = |(magnitude, terms): (&f64, &f64)| {
            (roundings(*terms) + 8.0) * unit(compute) * magnitude * gain.abs() + (2.0 * terms + 2.0) * least
        };
        let bounds = self.magnitudes.iter().zip(&self.terms).map(bound).collect();
        let values = self.sums.into_iter().map(|sum| sum * gain).collect();
        Expected { shape: like.shape, dtype: like.dtype, values, bounds, may_be_nan: false }
    }
}

/// Whether every value is finite in the type that a dtype is computed in.
fn all_finite(dtype: firelu::DType, array: &Array, gain: f64) -> bool {
    array.values.iter().all(|&value| computed(dtype, computed(dtype, value) * gain).is_finite())
}

pub fn forward(request: &Request) -> Outputs {
    let plan = Plan::read(request)?;
    let (x, k) = (request.input(0).ok_or(Refused)?, request.input(1).ok_or(Refused)?);
    let output = Array::new(&plan.output(&x.shape, &k.shape)?, x.dtype);
    let mut totals = Totals::new(output.elements());
    plan.products(&x.shape, &output.shape, &k.shape, |to, from, tap| totals.add(to, x.values[from] * k.values[tap]));
    let expected = totals.into_expected(output, plan.gain, x.dtype.compute(), |terms| terms + 8.0);
    Ok(vec![Expected { may_be_nan: !all_finite(x.dtype, k, plan.gain), ..expected }])
}

pub fn gradient(request: &Request) -> Outputs {
    let plan = Plan::read(request)?;
    let (dy, k, x) =
        (request.input(0).ok_or(Refused)?, request.input(1).ok_or(Refused)?, request.input(2).ok_or(Refused)?);
    if plan.output(&x.shape, &k.shape)? != dy.shape {
        return Err(Refused);
    }
    let mut totals = Totals::new(x.elements());
    plan.products(&x.shape, &dy.shape, &k.shape, |from, to, tap| totals.add(to, dy.values[from] * k.values[tap]));
    let output = Array::new(&x.shape, dy.dtype);
    let expected = totals.into_expected(output, plan.gain, dy.dtype.compute(), |terms| terms + 8.0);
    Ok(vec![Expected { may_be_nan: !all_finite(dy.dtype, k, plan.gain), ..expected }])
}

pub fn kernel_gradient(request: &Request) -> Outputs {
    let plan = Plan::read(request)?;
    let (x, dy, k) =
        (request.input(0).ok_or(Refused)?, request.input(1).ok_or(Refused)?, request.input(2).ok_or(Refused)?);
    if plan.output(&x.shape, &k.shape)? != dy.shape {
        return Err(Refused);
    }
    let mut totals = Totals::new(k.elements());
    plan.products(&x.shape, &dy.shape, &k.shape, |from, to, tap| totals.add(tap, dy.values[from] * x.values[to]));
    let output = Array::new(&k.shape, k.dtype);
    let expected = totals.into_expected(output, plan.gain, x.dtype.compute(), |terms| terms.min(PRODUCTS));
    Ok(vec![Expected { may_be_nan: !(all_finite(x.dtype, x, 1.0) && all_finite(x.dtype, dy, 1.0)), ..expected }])
}
