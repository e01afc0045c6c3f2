//! The kernel's values: read once, converted to the compute type, factored where they have rank one.

use smallvec::SmallVec;

use firelu_core::device::Device;
use firelu_core::dtype::{Compute, DType, Element};
use firelu_core::error::{Error, Result};
use firelu_core::tensor::TensorView;
use firelu_core::with_element;

/// Taps along x and along y.
pub type Factors<C> = (SmallVec<[C; 16]>, SmallVec<[C; 16]>);

/// Taps in the order in which they meet the input, so that both directions are correlations.
#[derive(Debug, Clone, PartialEq)]
pub struct Taps<C> {
    /// All taps, row by row.
    pub full: SmallVec<[C; 64]>,
    /// Taps along x and along y, whose products are all taps, where there are such.
    pub separable: Option<Factors<C>>,
}

impl<C: Compute> Taps<C> {
    /// Reads a kernel, reversed in both directions where `reverse`, and multiplies it by `gain`.
    pub fn read(kernel: &TensorView<'_>, reverse: bool, gain: f64) -> Result<Self> {
        let (rows, columns) = (kernel.shape()[0], kernel.shape()[1]);
        let mut values = SmallVec::new();
        reserve(&mut values, rows * columns)?;
        with_element!(kernel.dtype(), K => read_values::<K, C>(kernel, rows, columns, &mut values));
        if reverse {
            values.reverse();
        }
        let mut taps = Taps { separable: factor(&values, columns, gain), full: SmallVec::new() };
        reserve(&mut taps.full, values.len())?;
        for &value in &values {
            taps.full.push(C::from_f64(value * gain));
        }
        Ok(taps)
    }
}

/// The values, rounded to the compute type.
fn read_values<K: Element, C: Compute>(
    kernel: &TensorView<'_>,
    rows: usize,
    columns: usize,
    values: &mut SmallVec<[f64; 64]>,
) {
    let (row_step, column_step) = (kernel.strides[0], kernel.strides[1]);
    for row in 0..rows as isize {
        let first = kernel.pointer.wrapping_offset(row * row_step);
        for column in 0..columns as isize {
            let place = first.wrapping_offset(column * column_step).cast::<K>();
            // SAFETY: the index is inside the shape, every element of which the view promises.
            let value = unsafe { place.read_unaligned() };
            values.push(C::from_f64(value.to_compute().to_f64()).to_f64());
        }
    }
}

/// Room for so many taps; a kernel that is one number repeated may have more than memory holds.
fn reserve<C: Copy>(values: &mut SmallVec<[C; 64]>, taps: usize) -> Result<()> {
    if taps <= values.inline_size() {
        return Ok(());
    }
    let bytes = taps.saturating_mul(size_of::<C>());
    values.try_reserve_exact(taps).map_err(|_| Error::OutOfMemory { device: Device::Cpu.to_string(), bytes })
}

/// The factors along x and y, by the row and the column of the largest tap. They are accepted only
/// where every tap agrees with their product within four roundings of itself: a bound relative to
/// the largest tap would let a wrong small tap through.
pub fn factor<C: Compute>(values: &[f64], columns: usize, gain: f64) -> Option<Factors<C>> {
    let (mut largest, mut at) = (0.0, 0);
    for (index, value) in values.iter().enumerate() {
        if !value.is_finite() {
            return None;
        }
        if value.abs() > largest {
            (largest, at) = (value.abs(), index);
        }
    }
    if largest == 0.0 {
        return None;
    }
    let (row, column, pivot) = (at - at % columns, at % columns, values[at]);
    let tolerance = 4.0 * if C::DTYPE == DType::Float64 { f64::EPSILON / 2.0 } else { f64::from(f32::EPSILON) / 2.0 };
    // Pushed one by one: for so few, collecting takes longer.
    let mut along_x: SmallVec<[f64; 16]> = SmallVec::new();
    for value in &values[row..row + columns] {
        along_x.push(value / pivot);
    }
    for line in values.chunks_exact(columns) {
        let scale = line[column];
        for (value, factor) in line.iter().zip(&along_x) {
            if (scale * factor - value).abs() > tolerance * value.abs() {
                return None;
            }
        }
    }
    if values.len() == columns {
        // One row is along x alone: its taps stay what they are, and a sum along a row has the bits of one along a column.
        let along_x: SmallVec<[C; 16]> = values.iter().map(|value| C::from_f64(value * gain)).collect();
        // A phase without a tap would multiply by zero what a tap that the gain has made infinite left.
        let is_finite = along_x.iter().all(|tap| tap.to_f64().is_finite());
        return is_finite.then(|| (along_x, SmallVec::from_elem(C::from_f64(1.0), 1)));
    }
    // A factor that is subnormal in the compute type has lost digits that the products need.
    let smallest = if C::DTYPE == DType::Float64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    let convert = |value: f64| {
        let rounded = C::from_f64(value);
        (value == 0.0 || (rounded.to_f64().abs() >= smallest && rounded.to_f64().is_finite())).then_some(rounded)
    };
    let (mut x, mut y) = (SmallVec::new(), SmallVec::new());
    for &value in &along_x {
        x.push(convert(value)?);
    }
    for line in values.chunks_exact(columns) {
        y.push(convert(line[column] * gain)?);
    }
    Some((x, y))
}
