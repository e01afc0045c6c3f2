//! UpFirDn2d and its gradients from the definition: padding, zeros between samples, a product sum.

use firelu::DType;

use super::exact::Total;
use super::{Bound, Expected, computed};
use crate::arguments::Arguments;
use crate::rounding::{largest, spacing, unit};
use crate::signatures::{Array, Refused, Request};

type Outputs = Result<Vec<Expected>, Refused>;

/// What a kernel gradient adds up in the compute type before float64 takes over, and the places of a
/// register that are added up to one.
const PRODUCTS: f64 = 256.0;

/// Stands for a zero of the padding, which has no place among the samples.
const PADDING: usize = usize::MAX;

/// What padding is filled with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Border {
    Zeros,
    Edge,
    Reflect,
    Symmetric,
    Wrap,
}

const BORDERS: [(Border, &[&str]); 5] = [
    (Border::Zeros, &["constant", "zeros"]),
    (Border::Edge, &["edge", "replicate"]),
    (Border::Reflect, &["reflect"]),
    (Border::Symmetric, &["symmetric"]),
    (Border::Wrap, &["wrap", "circular"]),
];

impl Border {
    /// The sample that stands at a position, found by one reflection or turn after the other.
    fn sample(self, mut position: i64, length: usize) -> usize {
        let length = length as i64;
        if self == Border::Zeros || length == 0 {
            return if (0..length).contains(&position) { position as usize } else { PADDING };
        }
        while !(0..length).contains(&position) {
            let (before, last) = (position < 0, length - 1);
            position = match self {
                Border::Edge => position.clamp(0, last),
                Border::Reflect if last == 0 => 0,
                Border::Reflect => {
                    if before {
                        -position
                    } else {
                        2 * last - position
                    }
                }
                Border::Symmetric => {
                    if before {
                        -1 - position
                    } else {
                        2 * last + 1 - position
                    }
                }
                _ => {
                    if before {
                        position + length
                    } else {
                        position - length
                    }
                }
            };
        }
        position as usize
    }
}

/// What the results along an axis are summed from: each result's taps and the samples that they meet.
type Meetings = Vec<Vec<(usize, usize)>>;

/// The arguments, the last dimension's first.
pub struct Plan {
    up: [i64; 2],
    down: [i64; 2],
    pad: [(i64, i64); 2],
    flip: bool,
    gain: f64,
    border: Border,
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
        let (flip, gain) = (args.bool("flip_kernel")?, args.float("gain", 1.0)?);
        let border = BORDERS[args.choice("border", &BORDERS.map(|(_, names)| names))?].0;
        let plan = Plan { up, down, pad, flip, gain, border };
        args.finish()?;
        Ok(plan)
    }

    /// The arguments of one of two filters, whose factors and paddings are named after it.
    pub fn read_side(
        args: &mut Arguments<'_>,
        (up, down): (Option<&str>, Option<&str>),
        (pad, border): (&str, &str),
        (flip, gain): (bool, f64),
    ) -> Result<Self, Refused> {
        let mut pair = |name: Option<&str>| {
            let mut factor =
                |axis| name.map_or(Ok(1), |name| args.int(&format!("{name}_{axis}"), 1, 1..=i64::from(i32::MAX)));
            Ok([factor("x")?, factor("y")?])
        };
        let (up, down) = (pair(up)?, pair(down)?);
        let mut number = |end| args.int(&format!("{pad}_{end}"), 0, i64::MIN..=i64::MAX);
        let pad = [(number("x0")?, number("x1")?), (number("y0")?, number("y1")?)];
        let border = BORDERS[args.choice(border, &BORDERS.map(|(_, names)| names))?].0;
        Ok(Plan { up, down, pad, flip, gain, border })
    }

    /// The same filter with a gain of one.
    pub fn without_gain(&self) -> Self {
        Plan { gain: 1.0, ..*self }
    }

    /// The least common multiple of how much wider the first of two filters makes a row, and the second narrower.
    pub fn phases(first: &Plan, second: &Plan) -> i64 {
        let (up, down) = (first.up[0], second.down[0]);
        let (mut a, mut b) = (up, down);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        (up / a).saturating_mul(down)
    }

    /// The length that an axis (0 is the last) gets.
    fn length(&self, axis: usize, input: usize, taps: usize) -> Result<usize, Refused> {
        let wide = |n: i64| i128::from(n);
        if input == 0 && self.border != Border::Zeros {
            return Err(Refused);
        }
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

    /// For each sample of a result the taps along an axis and the samples that they meet, none for an inserted zero,
    /// `PADDING` for a zero of the padding. A sample of dX stands for every position that has its value.
    fn meetings(&self, way: Way, axis: usize, samples: usize, results: usize, taps: usize) -> Meetings {
        let (pad, up, down) = (self.pad[axis].0, self.up[axis], self.down[axis]);
        let mut meetings = vec![Vec::new(); results];
        let positions = match way {
            Way::Forward => 0..results as i64,
            Way::Back if self.border == Border::Zeros => 0..results as i64,
            Way::Back => {
                let last = (samples as i64 - 1) * down + taps as i64 - 1 - pad;
                (-pad).div_euclid(up).min(0)..(last.div_euclid(up) + 1).max(results as i64)
            }
        };
        for position in positions {
            let result = match way {
                Way::Forward => position as usize,
                Way::Back => self.border.sample(position, results),
            };
            for tap in 0..taps {
                let (place, factor) = match way {
                    Way::Forward => (position * down + tap as i64 - pad, up),
                    Way::Back => (position * up + pad - tap as i64, down),
                };
                let sample = match way {
                    Way::Forward => self.border.sample(place.div_euclid(factor), samples),
                    Way::Back => Border::Zeros.sample(place.div_euclid(factor), samples),
                };
                if place.rem_euclid(factor) == 0 {
                    meetings[result].push((tap, sample));
                }
            }
        }
        meetings
    }

    /// The tap of K that stands at a place: convolution turns the kernel round.
    fn tap(&self, k: &[usize], row: usize, column: usize) -> usize {
        let place = row * k[1] + column;
        if self.flip { place } else { k[0] * k[1] - 1 - place }
    }

    /// Calls `visit(to, from, tap)` for every product, by places in row-major order; a zero of the padding
    /// has no place to come from.
    fn products(
        &self,
        way: Way,
        from: &[usize],
        to: &[usize],
        k: &[usize],
        mut visit: impl FnMut(usize, Option<usize>, usize),
    ) {
        let rank = from.len();
        let planes = if from[..rank - 2].contains(&0) { 0 } else { from[..rank - 2].iter().product::<usize>() };
        let ((height, width), (rows, columns)) = ((from[rank - 2], from[rank - 1]), (to[rank - 2], to[rank - 1]));
        let row_meets = self.meetings(way, 1, height, rows, k[0]);
        let column_meets = self.meetings(way, 0, width, columns, k[1]);
        for plane in 0..planes {
            for (row, row_meets) in row_meets.iter().enumerate() {
                let first = (plane * rows + row) * columns;
                for &(tap_row, from_row) in row_meets {
                    for (column, column_meets) in column_meets.iter().enumerate() {
                        for &(tap_column, from_column) in column_meets {
                            let is_inside = from_row != PADDING && from_column != PADDING;
                            let from = is_inside.then(|| (plane * height + from_row) * width + from_column);
                            visit(first + column, from, self.tap(k, tap_row, tap_column));
                        }
                    }
                }
            }
        }
    }

    /// A tap as it is used: converted to the type that samples are computed in, then times the gain. Where
    /// that passes the largest number it is infinite. Also whether the gain has made it round to zero.
    fn used_tap(&self, dtype: DType, tap: f64) -> (f64, bool) {
        let exact = computed(dtype, tap) * self.gain;
        let rounded = computed(dtype, exact);
        (if rounded.is_finite() { exact } else { rounded }, rounded == 0.0 && computed(dtype, tap) != 0.0)
    }

    /// Whether a tap, as it is used, is not finite.
    pub fn has_infinite_taps(&self, dtype: DType, k: &Array) -> bool {
        k.values.iter().any(|&tap| !self.used_tap(dtype, tap).0.is_finite())
    }

    /// The sums of products of samples and taps: Y of X and K, or dX of dY and K.
    pub fn filter(&self, way: Way, samples: &Array, k: &Array, result: Array) -> Expected {
        let used = k.values.iter().map(|&tap| self.used_tap(samples.dtype, tap));
        let (taps, vanished): (Vec<f64>, Vec<bool>) = used.unzip();
        let mut windows = vec![Window::default(); result.elements()];
        self.products(way, &samples.shape, &result.shape, &k.shape, |to, from, tap| match from {
            Some(from) => {
                windows[to].add(samples.values[from], taps[tap]);
                windows[to].nan |= vanished[tap] && samples.values[from].is_infinite();
            }
            None => windows[to].nan |= !taps[tap].is_finite(),
        });
        // By a border's rule the adjoint also adds what lies outside, where an infinite tap meets no sample but zeros.
        let outside = way == Way::Back && self.border != Border::Zeros && taps.iter().any(|tap| !tap.is_finite());
        let finite = taps.iter().filter(|tap| tap.is_finite());
        let factor = finite.fold(1.0, |largest: f64, tap| largest.max(tap.abs()));
        let compute = result.dtype.compute();
        let bound = |window: &Window| Bound {
            error: (window.terms + 16.0) * unit(compute) * window.total.magnitude()
                + spacing(compute, 0.0) * (window.samples + (2.0 * window.terms + 2.0) * factor).min(f64::MAX),
            overflow: window.samples * factor >= largest(compute) / 2.0,
            nan: window.nan || outside,
        };
        let bounds = windows.iter().map(bound).collect();
        let values = windows.iter().map(|window| window.total.value()).collect();
        Expected { shape: result.shape, dtype: result.dtype, values, bounds }
    }
}

/// The direction of a walk over the products.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From samples of X to samples of Y.
    Forward,
    /// From samples of dY to samples of dX.
    Back,
}

/// What one sum consists of.
#[derive(Clone, Copy, Default)]
struct Window {
    total: Total,
    terms: f64,
    /// The magnitudes of the finite samples under the kernel, added up.
    samples: f64,
    /// Whether a number that is not finite meets a zero of the padding, or a tap that has become zero.
    nan: bool,
}

impl Window {
    fn add(&mut self, sample: f64, factor: f64) {
        self.total.add(sample, factor);
        self.terms += 1.0;
        if sample.is_finite() {
            self.samples += sample.abs();
        }
    }
}

/// The output of UpFirDn2d.
pub fn forward(request: &Request) -> Outputs {
    let plan = Plan::read(request)?;
    let (x, k) = (request.input(0).ok_or(Refused)?, request.input(1).ok_or(Refused)?);
    let output = Array::new(&plan.output(&x.shape, &k.shape)?, x.dtype);
    Ok(vec![plan.filter(Way::Forward, x, k, output)])
}

/// The gradient with respect to X.
pub fn gradient(request: &Request) -> Outputs {
    let plan = Plan::read(request)?;
    let (dy, k, x) =
        (request.input(0).ok_or(Refused)?, request.input(1).ok_or(Refused)?, request.input(2).ok_or(Refused)?);
    // The last two lengths alone stand for an X with the other dimensions of dY.
    let shape = match (dy.shape.split_last_chunk::<2>(), &x.shape[..]) {
        (Some((leading, _)), lengths @ [_, _]) => [leading, lengths].concat(),
        _ => x.shape.clone(),
    };
    if plan.output(&shape, &k.shape)? != dy.shape {
        return Err(Refused);
    }
    Ok(vec![plan.filter(Way::Back, dy, k, Array::new(&shape, dy.dtype))])
}

/// The gradient with respect to K.
pub fn kernel_gradient(request: &Request) -> Outputs {
    let plan = Plan::read(request)?;
    let (x, dy, k) =
        (request.input(0).ok_or(Refused)?, request.input(1).ok_or(Refused)?, request.input(2).ok_or(Refused)?);
    if plan.output(&x.shape, &k.shape)? != dy.shape {
        return Err(Refused);
    }
    let mut windows = vec![Window::default(); k.elements()];
    plan.products(Way::Forward, &x.shape, &dy.shape, &k.shape, |to, from, tap| match from {
        Some(from) => windows[tap].add(x.values[from], dy.values[to]),
        None => windows[tap].nan |= !dy.values[to].is_finite(),
    });
    let (compute, gain) = (x.dtype.compute(), plan.gain.abs());
    let bound = |window: &Window| {
        let magnitude = (window.total.magnitude() * gain).min(f64::MAX);
        Bound {
            // A half is rounded by way of float32, however the sum was computed.
            error: (window.terms.min(PRODUCTS) + 8.0) * unit(compute) * magnitude
                + unit(k.dtype.compute()) * window.total.times(gain).abs().min(f64::MAX)
                + (2.0 * window.terms + 2.0) * spacing(compute, 0.0) * gain.max(1.0),
            overflow: window.total.magnitude() >= largest(compute) / 2.0,
            nan: window.nan,
        }
    };
    let bounds = windows.iter().map(bound).collect();
    let values = windows.iter().map(|window| window.total.times(plan.gain)).collect();
    Ok(vec![Expected { shape: k.shape.clone(), dtype: k.dtype, values, bounds }])
}
