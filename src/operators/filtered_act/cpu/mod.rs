//! The kernels of the CPU: the arguments become a request of the filter engine's pipeline.

mod between;

use super::params::FilteredActArgs;
use super::{ALPHA, B, BETA, DY};
use crate::core::error::{Error, Result};
use crate::core::operator::Call;
use crate::core::tensor::{Parts, TensorView};
use crate::devices::cpu::sources::SimdElement;
use crate::devices::cpu::staged::Identity;
use crate::devices::cpu::{memory, reduce};
use crate::operators::snake::{vector, write_sums};
use crate::operators::upfirdn2d::UpFirDn2dArgs;
use crate::with_element;
use between::make;
use firelu_filters::axis::Geometry;
use firelu_filters::levels::FilterElement;
use firelu_filters::pipeline::{self, Filter, Grid, MOST_PHASES, Request};

/// Y of X, the filters and the numbers of each channel.
pub fn forward(call: &Call<'_>) -> Result<()> {
    let Some(y) = &call.outputs[0] else { return Ok(()) };
    with_element!(y.dtype(), T => run::<T>(call, &[], (y, Grid::Output), false).map(drop))
}

/// dX, dB, dAlpha and dBeta of X and dY.
pub fn gradient(call: &Call<'_>) -> Result<()> {
    with_element!(call.input(0).dtype(), T => gradient_of::<T>(call))
}

fn optional<'a>(call: &'a Call<'_>, place: usize) -> Option<&'a TensorView<'a>> {
    call.inputs.get(place).and_then(Option::as_ref)
}

/// Runs the pipeline; gives the sums by p and q of each channel.
fn run<T>(call: &Call<'_>, streams: &[(&Parts, Grid)], output: (&Parts, Grid), with_sums: bool) -> Result<Vec<f64>>
where
    T: FilterElement<Compute: FilterElement + SimdElement<Compute = T::Compute>>,
{
    let args = FilteredActArgs::from_args(call.args);
    let (x, kernels) = (call.input(0), [call.input(1), call.input(2)]);
    let [up, down] = args.geometries("FilteredAct", x.shape(), kernels.map(|kernel| kernel.shape()))?;
    check_phases(&up, &down)?;
    let filter = |geometry, which: usize, args: UpFirDn2dArgs| Filter {
        geometry,
        kernel: kernels[which],
        reverse: !args.flip_kernel,
        gain: args.gain,
        border: args.border,
    };
    let bias = optional(call, B).map(vector::<T::Compute>);
    let between = make::<T::Compute>(&args, [optional(call, ALPHA), optional(call, BETA)], with_sums);
    pipeline::run::<T>(&Request {
        up: filter(up, 0, args.up_filter()),
        down: filter(down, 1, args.down_filter()),
        argument: x,
        bias: bias.as_deref(),
        streams,
        output,
        channel_axis: args.channel_axis(x.shape().len()),
        between: &*between,
    })
}

fn check_phases(up: &Geometry, down: &Geometry) -> Result<()> {
    if pipeline::is_possible(up, down) {
        return Ok(());
    }
    let takes = format!("factors whose least common multiple is at most {MOST_PHASES}");
    Err(Error::argument("FilteredAct", "down_x", format!("{} beside up_x {}", down.x.down, up.x.up), takes))
}

fn gradient_of<T>(call: &Call<'_>) -> Result<()>
where
    T: SimdElement + FilterElement<Compute: FilterElement + SimdElement<Compute = T::Compute>>,
{
    let args = FilteredActArgs::from_args(call.args);
    let x = call.input(0);
    let output = |place: usize| call.outputs.get(place).and_then(Option::as_ref);
    let (db, dalpha, dbeta) = (
        output(1).filter(|_| optional(call, B).is_some()),
        output(2).filter(|_| optional(call, ALPHA).is_some()),
        output(3).filter(|_| optional(call, BETA).is_some()),
    );
    let with_sums = dalpha.is_some() || dbeta.is_some();
    if output(0).is_none() && db.is_none() && !with_sums {
        return Ok(());
    }
    // Without a place of its own dX is computed all the same: the sums come with it, and dB is its sum.
    let mut spare = None;
    if output(0).is_none() {
        let strides = x.shape().row_major_strides(x.dtype());
        spare = Some(memory::allocate(x.kind.clone(), strides)?);
    }
    let spare = spare.as_mut().map(|tensor| tensor.view_mut().expect("a new tensor is not shared"));
    let dx: &Parts = match (output(0), &spare) {
        (Some(dx), _) => dx,
        (None, Some(spare)) => spare,
        (None, None) => unreachable!("one of them is there"),
    };
    let sums = run::<T>(call, &[(call.input(DY), Grid::Output)], (dx, Grid::Input), with_sums)?;
    if let (Some(db), Some(axis)) = (db, args.channel_axis(x.shape().len())) {
        let rank = x.shape().len();
        let sums = reduce::Sums {
            pointer: db.pointer,
            dtype: db.dtype(),
            strides: (0..rank).map(|d| (d == axis).then_some(db.strides[0])).collect(),
            scale: 1.0,
        };
        // SAFETY: dX was just written; dB has one element for each index of the channel axis and shares memory with
        // nothing: the schema has checked both.
        unsafe {
            let view = TensorView::from_parts(dx.clone());
            reduce::sum::<T, 1>(&Identity, [&view], None, &sums)?;
        }
    }
    if with_sums {
        let pairs = sums.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
        let numbers = [ALPHA, BETA].map(|place| optional(call, place));
        write_sums(pairs, numbers, args.logscale, [dalpha.map(|view| &**view), dbeta.map(|view| &**view)]);
    }
    Ok(())
}
