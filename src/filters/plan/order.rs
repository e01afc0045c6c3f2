//! Which of the two sums comes first: the order with the fewest multiplications, loads and stores.

use super::taps::Taps;
use crate::axis::{Axis, Geometry};
use firelu_core::dtype::Compute;

/// Which sum comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Along y, then along x.
    VerticalFirst,
    /// Along x, then along y.
    HorizontalFirst,
    /// Both at once.
    Direct,
}

impl Order {
    /// Its multiplications for one output row of one plane. Each pass over a row also loads and stores it, which counts
    /// as two.
    pub fn products(self, geometry: &Geometry) -> f64 {
        let (x, y) = (&geometry.x, &geometry.y);
        let (nx, ny) = (x.most_taps() as f64, y.most_taps() as f64);
        let (input, output) = (x.input as f64, x.output as f64);
        let shuffle = if x.period() == (1, 1) { 0.0 } else { 2.0 };
        let share = y.input as f64 / y.output.max(1) as f64;
        match self {
            Order::VerticalFirst => input * (ny + 2.0) + output * (nx + 2.0 + shuffle),
            Order::HorizontalFirst => share * (input * 2.0 + output * (nx + 2.0 + shuffle)) + output * (ny + 2.0),
            Order::Direct => share * input * 2.0 + output * (nx * ny + 2.0 + shuffle),
        }
    }
}

/// The cheaper order. Factors and taps decide, as they would for a picture without end: the order shows in the last bits,
/// which a part of a picture has in common with the whole.
pub fn choose_order<C: Compute>(geometry: &Geometry, taps: &Taps<C>) -> Order {
    let (x, y) = (&geometry.x, &geometry.y);
    if taps.separable.is_some() && (has_form(x) || has_pair_loop(x)) {
        // Any layout of such a call sums in the order that its loops have.
        return Order::VerticalFirst;
    }
    let (nx, ny) = (x.most_taps() as f64, y.most_taps() as f64);
    // Where both exist, the direct sum must not round more often than the two sums.
    let may_be_direct = taps.separable.is_none() || nx * ny <= nx + ny;
    let without_end = |axis: &Axis| Axis { input: axis.down, output: axis.up, ..*axis };
    let endless = Geometry { x: without_end(x), y: without_end(y) };
    let orders =
        [Order::VerticalFirst, Order::HorizontalFirst, Order::Direct].map(|order| (order, order.products(&endless)));
    let possible = orders.into_iter().filter(|(order, _)| match order {
        Order::Direct => may_be_direct,
        _ => taps.separable.is_some(),
    });
    possible.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(Order::Direct, |(order, _)| order)
}

/// Whether rows along this axis have a form, whatever the strip.
fn has_form(axis: &Axis) -> bool {
    matches!((axis.up, axis.down, axis.taps), (1, 1, 3 | 4) | (2, 1, 4) | (1, 2, 4))
}

/// Whether neighbouring sums along this axis share their loads in a loop of their own.
fn has_pair_loop(axis: &Axis) -> bool {
    matches!((axis.up, axis.down, axis.taps), (2, 1, 12) | (1, 2, 12))
}
