//! The one place that decides which path a call takes: after the [order](super::order) of its sums, whether both stay in
//! registers.

use std::fmt;

use super::order::Order;
use super::strip::Strip;
use super::tiles::Plan;
use crate::axis::Geometry;
use crate::loops::Loops;
use crate::loops::short::channels_last;
use crate::loops::short::rows::{Form, SeparableLoop};
use firelu_core::dtype::Element;

/// How the tiles of a strip are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Separable, both sums in registers: no row is written in between.
    InRegisters(Form),
    /// Separable: input rows are summed along y into rows in the first-level cache, which are summed along x.
    VerticalFirst,
    /// Separable: input rows are summed along x into rows in the first-level cache, which are summed along y.
    HorizontalFirst,
    /// Not separable, four by four taps: rows inside the picture in registers, those at its border as `Direct`.
    DirectInRegisters,
    /// Not separable: every output is one sum over rows and columns.
    Direct,
}

impl Path {
    /// The path of a strip's tiles on a level with these loops.
    pub fn of<T: Element>(plan: &Plan, strip: &Strip, loops: &Loops<T>) -> Path {
        let Geometry { x, y } = &plan.geometry;
        match (plan.order, form_of(strip)) {
            (Order::VerticalFirst, Some(form)) => match Path::separable_loop(plan, form, loops) {
                Some(_) => Path::InRegisters(form),
                None => Path::VerticalFirst,
            },
            (Order::VerticalFirst, None) => Path::VerticalFirst,
            (Order::HorizontalFirst, _) => Path::HorizontalFirst,
            (Order::Direct, Some(Form::Plain4))
                if (plan.pixel, x.taps, y.taps, y.up) == (1, 4, 4, 1) && loops.short.direct.is_some() =>
            {
                Path::DirectInRegisters
            }
            (Order::Direct, _) => Path::Direct,
        }
    }

    /// The loop that keeps both sums of a form in registers, where the level has it and the call's layout suits it.
    pub fn separable_loop<T: Element>(plan: &Plan, form: Form, loops: &Loops<T>) -> Option<SeparableLoop<T>> {
        if plan.pixel == 1 {
            return loops.short.planes.of(form);
        }
        let upsamples = matches!(form, Form::Up4 | Form::Up4Later);
        let aligned = plan.target_bits.is_multiple_of(channels_last::alignment(size_of::<T>(), upsamples));
        let suits = channels_last::takes(plan.pixel * size_of::<T>()) && (!plan.non_temporal || aligned);
        loops.short.channels_last.of(form).filter(|_| suits)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Path::InRegisters(Form::Plain3) => "separable, both sums in registers: 3 taps",
            Path::InRegisters(Form::Plain4) => "separable, both sums in registers: 4 taps",
            Path::InRegisters(Form::Up4 | Form::Up4Later) => "separable, both sums in registers: 4 taps, up 2",
            Path::InRegisters(Form::Down4) => "separable, both sums in registers: 4 taps, down 2",
            Path::VerticalFirst => "separable, along y first, by way of rows in the first-level cache",
            Path::HorizontalFirst => "separable, along x first, by way of rows in the first-level cache",
            Path::DirectInRegisters => "not separable, 4 x 4 taps in registers",
            Path::Direct => "not separable, one sum over rows and columns",
        })
    }
}

/// How many terms along y the rows at the border are filled up to with zeros.
pub fn terms(form: Form) -> usize {
    match form {
        Form::Up4 | Form::Up4Later => 2,
        Form::Plain3 => 3,
        Form::Plain4 | Form::Down4 => 4,
    }
}

/// The form of a strip's rows; strips that are too narrow to have phases have none.
fn form_of(strip: &Strip) -> Option<Form> {
    let counts = strip.bounds.first().copied().unwrap_or(0);
    let alike = strip.bounds.iter().enumerate().all(|(phase, &end)| end == counts * (phase + 1));
    // With two outputs only, the second's window may start anywhere.
    let second = strip.offsets.get(counts).map(|&offset| offset / strip.pixel);
    match (strip.phases, strip.step, counts) {
        _ if !alike => None,
        (1, 1, 3) => Some(Form::Plain3),
        (1, 1, 4) => Some(Form::Plain4),
        (2, 1, 2) => match second {
            Some(0) => Some(Form::Up4),
            Some(1) => Some(Form::Up4Later),
            _ => None,
        },
        (1, 2, 4) => Some(Form::Down4),
        _ => None,
    }
}
