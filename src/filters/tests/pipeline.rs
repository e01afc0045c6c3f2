//! Two filters with a loop between them, against the same sums written down tap by tap in float64.

use firelu_core::dtype::{Compute, Element, Float16};
use firelu_core::tensor::Tensor;
use firelu_cpu::features::Level;
use firelu_cpu::parallel;
use firelu_filters::axis::{Axis, Geometry};
use firelu_filters::border::Border;
use firelu_filters::levels::FilterElement;
use firelu_filters::pipeline::{self, Between, Filter, Grid, Request};
use proptest::prelude::*;
use std::sync::{Mutex, PoisonError};

/// What an output of an axis is summed from: output, tap, input.
fn terms(axis: &Axis, border: Border) -> Vec<(usize, usize, usize)> {
    let mut terms = Vec::new();
    for output in 0..axis.output {
        for tap in 0..axis.taps {
            let place = output * axis.down + tap - axis.pad;
            if place.rem_euclid(axis.up) == 0
                && let Some(input) = border.source(place.div_euclid(axis.up) as isize, axis.input as usize)
            {
                terms.push((output as usize, tap as usize, input));
            }
        }
    }
    terms
}

/// A filter as the matrix that it is.
struct Matrix {
    x: Vec<(usize, usize, usize)>,
    y: Vec<(usize, usize, usize)>,
    taps: Vec<f64>,
    columns: usize,
    shapes: [[usize; 2]; 2],
}

impl Matrix {
    fn new(geometry: &Geometry, kernel: &[f64], border: Border) -> Self {
        let shape = |x: i64, y: i64| [y as usize, x as usize];
        Matrix {
            x: terms(&geometry.x, border),
            y: terms(&geometry.y, border),
            taps: kernel.to_vec(),
            columns: geometry.x.taps as usize,
            shapes: [shape(geometry.x.input, geometry.y.input), shape(geometry.x.output, geometry.y.output)],
        }
    }

    fn apply(&self, values: &[f64], adjoint: bool) -> Vec<f64> {
        let (from, to) = (self.shapes[usize::from(adjoint)], self.shapes[usize::from(!adjoint)]);
        let mut result = vec![0.0; to[0] * to[1]];
        for &(out_y, tap_y, in_y) in &self.y {
            for &(out_x, tap_x, in_x) in &self.x {
                let tap = self.taps[tap_y * self.columns + tap_x];
                let (small, large) = ((in_y, in_x), (out_y, out_x));
                let (source, target) = if adjoint { (large, small) } else { (small, large) };
                result[target.0 * to[1] + target.1] += tap * values[source.0 * from[1] + source.1];
            }
        }
        result
    }
}

/// `u²/2 + c` without streams, else `u` times all streams; its sum is that of the products. Where it is alike for all
/// channels c is zero, and there is no sum.
struct Square {
    alike: bool,
}

impl<C: Compute> Between<C> for Square {
    fn apply(&self, channel: usize, row: &mut [C], streams: &[&[C]]) {
        for (at, value) in row.iter_mut().enumerate() {
            let u = value.to_f64();
            let result = match streams {
                [] => u * u / 2.0 + if self.alike { 0.0 } else { channel as f64 },
                _ => streams.iter().fold(u, |product, stream| product * stream[at].to_f64()),
            };
            *value = C::from_f64(result);
        }
    }

    fn is_alike(&self) -> bool {
        self.alike
    }

    fn sums(&self) -> usize {
        usize::from(!self.alike)
    }

    fn apply_and_sum(&self, channel: usize, row: &mut [C], streams: &[&[C]], sums: &mut [f64]) {
        self.apply(channel, row, streams);
        sums[0] += row.iter().map(|value| value.to_f64()).sum::<f64>();
    }
}

#[derive(Debug, Clone)]
struct Case {
    shape: [usize; 2],
    up: [i64; 2],
    down: [i64; 2],
    up_taps: [usize; 2],
    down_taps: [usize; 2],
    pads: [(i64, i64); 4],
    borders: [Border; 2],
    separable: [bool; 2],
    bias: bool,
    alike: bool,
    streams: usize,
    adjoint: bool,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let border = || prop::sample::select(Border::ALL.to_vec());
    let factors = || [1i64..5, 1..4].prop_map(|f| f);
    let taps = || prop_oneof![[1usize..8, 1..8], Just([12, 12]), Just([12, 1]), Just([24, 6])];
    let pad = || (-1i64..14, -1i64..14);
    let pads = [pad(), pad(), pad(), pad()];
    let size = prop_oneof![[1usize..6, 1..6], [1usize..20, 1..90], Just([1, 700])];
    (
        (size, factors(), factors(), taps(), taps(), pads),
        ([border(), border()], any::<[bool; 2]>(), any::<[bool; 2]>(), 0usize..3, any::<bool>(), any::<u64>()),
    )
        .prop_map(
            |(
                (shape, up, down, up_taps, down_taps, pads),
                (borders, separable, [bias, alike], streams, adjoint, seed),
            )| {
                let adjoint = adjoint && streams > 0;
                // Planes side by side have zeros between them: half of those calls, so that they are met often.
                let borders = if alike && seed % 2 == 0 { [Border::Constant; 2] } else { borders };
                let separable = if alike && seed % 4 == 0 { [true; 2] } else { separable };
                Case {
                    shape,
                    up,
                    down,
                    up_taps,
                    down_taps,
                    pads,
                    borders,
                    separable,
                    bias,
                    alike,
                    streams,
                    adjoint,
                    seed,
                }
            },
        )
}

fn numbers<T: Element>(seed: &mut u64, count: usize) -> Vec<T> {
    (0..count)
        .map(|_| {
            *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            T::from_compute(T::Compute::from_f64(((*seed >> 40) as f64 / (1u64 << 24) as f64) - 0.5))
        })
        .collect()
}

fn kernel(seed: &mut u64, [columns, rows]: [usize; 2], separable: bool) -> Vec<f64> {
    let (x, y): (Vec<f32>, Vec<f32>) = (numbers(seed, columns), numbers(seed, rows));
    match separable {
        true => y.iter().flat_map(|&y| x.iter().map(move |&x| f64::from(x) * f64::from(y))).collect(),
        false => numbers::<f32>(seed, rows * columns).into_iter().map(f64::from).collect(),
    }
}

fn wide<T: Element>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| value.to_compute().to_f64()).collect()
}

fn check<T: FilterElement>(case: &Case, tolerance: f64) -> Result<(), TestCaseError>
where
    T::Compute: FilterElement,
{
    let mut seed = case.seed;
    let [height, width] = case.shape;
    let axis = |input: usize, taps: usize, up: i64, down: i64, pad| Axis::new(input, taps, up, down, pad).ok();
    let (Some(x), Some(y)) = (
        axis(width, case.up_taps[0], case.up[0], 1, case.pads[0]),
        axis(height, case.up_taps[1], case.up[1], 1, case.pads[1]),
    ) else {
        return Ok(());
    };
    let up = Geometry { x, y };
    let (Some(x), Some(y)) = (
        axis(up.x.output as usize, case.down_taps[0], 1, case.down[0], case.pads[2]),
        axis(up.y.output as usize, case.down_taps[1], 1, case.down[1], case.pads[3]),
    ) else {
        return Ok(());
    };
    let down = Geometry { x, y };
    prop_assume!(pipeline::is_possible(&up, &down));
    let kernels =
        [kernel(&mut seed, case.up_taps, case.separable[0]), kernel(&mut seed, case.down_taps, case.separable[1])];
    let matrices = [Matrix::new(&up, &kernels[0], case.borders[0]), Matrix::new(&down, &kernels[1], case.borders[1])];
    // Enough for some to stand side by side, and one group smaller than the others.
    let planes = if case.alike { [5, 5] } else { [2, 3] };
    let square = Square { alike: case.alike };
    let shape = |grid: Grid| {
        let [height, width] = if grid == Grid::Input { matrices[0].shapes[0] } else { matrices[1].shapes[1] };
        [planes[0], planes[1], height, width]
    };
    let elements = |grid| shape(grid).iter().product::<usize>();
    let argument: Vec<T> = numbers(&mut seed, elements(Grid::Input));
    let bias: Vec<T::Compute> = numbers(&mut seed, planes[1]);
    let grids: Vec<Grid> = match (case.streams, case.adjoint) {
        (streams, false) => vec![Grid::Input; streams],
        (streams, true) => (0..streams).map(|at| if at == 0 { Grid::Output } else { Grid::Input }).collect(),
    };
    let streams: Vec<Vec<T>> = grids.iter().map(|&grid| numbers(&mut seed, elements(grid))).collect();
    let out_grid = if case.adjoint { Grid::Input } else { Grid::Output };

    // The definition, plane by plane.
    let (mut expected, mut sums) = (Vec::new(), vec![0.0; planes[1]]);
    for plane in 0..planes[0] * planes[1] {
        let part = |values: &[T], grid: Grid| {
            let size = elements(grid) / planes[0] / planes[1];
            wide(&values[plane * size..(plane + 1) * size])
        };
        let channel = plane % planes[1];
        let added = if case.bias { bias[channel].to_f64() } else { 0.0 };
        let x: Vec<f64> = part(&argument, Grid::Input).iter().map(|value| value + added).collect();
        let mut middle = matrices[0].apply(&x, false);
        let others: Vec<Vec<f64>> = streams
            .iter()
            .zip(&grids)
            .map(|(stream, &grid)| match grid {
                Grid::Input => matrices[0].apply(&part(stream, grid), false),
                Grid::Output => matrices[1].apply(&part(stream, grid), true),
            })
            .collect();
        let others: Vec<&[f64]> = others.iter().map(|row| &row[..]).collect();
        Between::<f64>::apply(&square, channel, &mut middle, &others);
        sums[channel] += middle.iter().sum::<f64>();
        let result = matrices[usize::from(!case.adjoint)].apply(&middle, case.adjoint);
        expected.extend(result);
    }

    let tensor = |values: Vec<T>, grid| Tensor::from_vec(shape(grid), values).unwrap();
    let kernel_tensor =
        |which: usize, taps: [usize; 2]| Tensor::from_vec([taps[1], taps[0]], kernels[which].clone()).unwrap();
    let (up_kernel, down_kernel) = (kernel_tensor(0, case.up_taps), kernel_tensor(1, case.down_taps));
    let (up_view, down_view) = (up_kernel.view(), down_kernel.view());
    let argument = tensor(argument, Grid::Input);
    let streams: Vec<Tensor> = streams.into_iter().zip(&grids).map(|(values, &grid)| tensor(values, grid)).collect();
    let stream_views: Vec<_> = streams.iter().map(Tensor::view).collect();
    let stream_parts: Vec<_> = stream_views.iter().zip(&grids).map(|(view, &grid)| (&**view, grid)).collect();
    let mut results = Vec::new();
    for threads in [1, 3] {
        let mut output = tensor(vec![T::default(); elements(out_grid)], out_grid);
        let totals = {
            let (view, target) = (argument.view(), output.view_mut().unwrap());
            let filter = |geometry, kernel, border| Filter { geometry, kernel, reverse: false, gain: 1.0, border };
            let request = Request {
                up: filter(up, &up_view, case.borders[0]),
                down: filter(down, &down_view, case.borders[1]),
                argument: &view,
                bias: case.bias.then_some(&bias[..]),
                streams: &stream_parts,
                output: (&target, out_grid),
                channel_axis: Some(1),
                between: &square,
            };
            parallel::with_threads(threads, || pipeline::run::<T>(&request)).unwrap()
        };
        results.push((output.to_vec::<T>().unwrap(), totals));
    }
    let (got, totals) = &results[0];
    prop_assert!(results[1].0 == *got && results[1].1 == *totals, "threads change the bits");
    let scale = expected.iter().fold(1.0, |largest: f64, value| largest.max(value.abs()));
    for (at, (got, expected)) in wide(got).iter().zip(&expected).enumerate() {
        prop_assert!((got - expected).abs() <= tolerance * scale, "{at}: {got} is not {expected}: {case:?}");
    }
    let scale = sums.iter().fold(scale * 100.0, |largest: f64, value| largest.max(value.abs()));
    // What the way down does not read is not counted, unless the definition says that it is zero there.
    if case.adjoint && case.streams == 1 {
        for (got, expected) in totals.iter().zip(&sums) {
            prop_assert!((got - expected).abs() <= tolerance * scale, "sum {got} is not {expected}: {case:?}");
        }
    }
    Ok(())
}

/// Checks a case in every element type at every level. The level is the process's, so tests take turns.
fn check_every_level(case: &Case) -> Result<(), TestCaseError> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for &level in Level::available() {
        Level::set_current(level).unwrap();
        check::<f64>(case, 1e-12)?;
        check::<f32>(case, 2e-5)?;
    }
    check::<Float16>(case, 2e-3)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]
    #[test]
    fn every_call_is_its_definition(case in cases()) {
        check_every_level(&case)?;
    }

    // Six terms a phase along y, and nothing that is alike for all samples outside: sums that run down the columns.
    #[test]
    fn sums_of_six_steps_are_their_definition(mut case in cases(), shape in [1usize..60, 1..40]) {
        case.shape = shape;
        (case.up_taps[1], case.down_taps[1]) = (6 * case.up[1] as usize, 6 * case.down[1] as usize);
        case.borders = [Border::Constant; 2];
        case.alike = true;
        check_every_level(&case)?;
    }
}

/// Rows of which each passes for itself, long enough for strips that are alike.
fn rows() -> impl Strategy<Value = Case> {
    let taps = || prop_oneof![1usize..8, Just(12), Just(24)];
    (cases(), 1usize..3, 5000usize..7000, taps(), taps()).prop_map(|(case, height, width, up_taps, down_taps)| Case {
        shape: [height, width],
        up: [case.up[0], 1],
        down: [case.down[0], 1],
        up_taps: [up_taps, 1],
        down_taps: [down_taps, 1],
        pads: [case.pads[0], (0, 0), case.pads[2], (0, 0)],
        alike: false,
        ..case
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    #[test]
    fn long_rows_are_their_definition(case in rows()) {
        check_every_level(&case)?;
    }
}
