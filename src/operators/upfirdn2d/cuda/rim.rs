//! Filters whose padding is not zeros: the rectangles of outputs that they are cut into, and the kernels of those at the border.

use smallvec::SmallVec;

use super::Filter;
use super::parameters::{RimAxis, RimParameters};
use super::plan::Form;
use crate::core::dtype::DType;
use crate::devices::cuda::parameters::{CHUNK, THREADS, suffix};
use firelu_filters::axis::{Axis, Geometry};
use firelu_filters::border::Border;
use firelu_filters::plan::rim::{self, Part};

/// The rectangles of a filter's outputs: one where nothing outside matters.
pub fn parts(filter: &Filter) -> SmallVec<[Part; 5]> {
    let Filter { geometry, border, adjoint, .. } = *filter;
    let forward = if adjoint { geometry.transposed() } else { geometry };
    if border == Border::Constant || !forward.reaches_out() {
        return rim::whole(&geometry);
    }
    let middle = match adjoint {
        true => (rim::middle_of_adjoint(&forward.y, border), rim::middle_of_adjoint(&forward.x, border)),
        false => (rim::middle_of_forward(&geometry.y), rim::middle_of_forward(&geometry.x)),
    };
    rim::parts(&geometry, middle)
}

/// The geometry of a part that is computed as a call of its own.
pub fn geometry_of(geometry: &Geometry, part: &Part) -> Geometry {
    Geometry {
        x: geometry.x.part(&(0..geometry.x.input), &part.columns),
        y: geometry.y.part(&(0..geometry.y.input), &part.rows),
    }
}

/// The axes, rule and direction of a part at the border; addresses, strides and planes are the caller's.
pub fn problem(filter: &Filter, part: &Part) -> RimParameters {
    let axis = |axis: &Axis, outputs: &std::ops::Range<i64>| {
        let forward = axis.transposed();
        let reach = forward.reach(0..forward.output);
        RimAxis {
            input: axis.input,
            output: axis.output,
            pad: axis.pad,
            first: outputs.start,
            count: outputs.end - outputs.start,
            low: reach.start.min(0),
            high: reach.end.max(forward.input),
            // The schema keeps factors below 2^31, `check_taps` the number of taps.
            up: axis.up as i32,
            down: axis.down as i32,
            taps: axis.taps as i32,
            reserved: 0,
        }
    };
    RimParameters {
        x: axis(&filter.geometry.x, &part.columns),
        y: axis(&filter.geometry.y, &part.rows),
        border: filter.border as i32,
        flip: i32::from(filter.flip),
        ..Default::default()
    }
}

/// The kernel that computes these outputs.
pub fn form(dtype: DType, adjoint: bool, p: &RimParameters) -> Form {
    let name = if adjoint { "folded" } else { "extended" };
    let blocks = outputs(p).div_ceil(u64::from(THREADS));
    Form { kernel: format!("upfirdn2d_{name}_{}", suffix(dtype)), blocks, shared_bytes: 0 }
}

/// The kernel that adds up these outputs' part of the taps' gradient; `blocks` is filled in with the partial sums of a tap.
pub fn kernel_gradient(dtype: DType, mut p: RimParameters) -> (Form, RimParameters) {
    p.blocks = outputs(&p).div_ceil(CHUNK) as i64;
    let blocks = p.blocks as u64 * (p.x.taps as u64 * p.y.taps as u64);
    (Form { kernel: format!("upfirdn2d_kernel_gradient_rim_{}", suffix(dtype)), blocks, shared_bytes: 0 }, p)
}

fn outputs(p: &RimParameters) -> u64 {
    p.x.count.saturating_mul(p.y.count).saturating_mul(p.planes) as u64
}
