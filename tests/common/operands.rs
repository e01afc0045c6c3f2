//! Operands and comparisons of the CUDA tests: one random tensor on both devices, in any layout.

use firelu::core::dtype::Compute;
use firelu::devices::copy;
use firelu::{ArgValue, DType, Device, Element, Tensor, TensorType, registry, with_element};
use firelu_test_support::layouts::{Layout, Placement};
use firelu_test_support::numbers::Numbers;
use firelu_test_support::references::round_to;

pub const GPU: Device = Device::Cuda(0);

/// Numbers that look random, zeros of both signs among them, rounded to the type.
pub fn values(count: usize, seed: u64, dtype: DType) -> Vec<f64> {
    let next = |numbers: &mut Numbers| round_to(dtype, numbers.next_signed_zero_or_number());
    Numbers::new(seed).list(count, next)
}

pub fn tensor(shape: &[usize], values: &[f64], dtype: DType) -> Tensor {
    with_element!(dtype, T => {
        let of = |&value: &f64| T::from_compute(<T as Element>::Compute::from_f64(value));
        Tensor::from_vec(shape, values.iter().map(of).collect::<Vec<T>>()).unwrap()
    })
}

pub const LAYOUTS: [Layout; 5] =
    [Layout::RowMajor, Layout::ChannelsLast, Layout::Sliced, Layout::Reversed, Layout::Shifted];

/// The same random tensor on the CPU and on the device.
pub fn pair(shape: &[usize], layout: Layout, dtype: DType, seed: u64) -> [Tensor; 2] {
    pair_of(shape, layout, dtype, |count| values(count, seed, dtype))
}

/// A tensor on the CPU and on the device, of numbers that the type holds, as many as its memory has room for.
pub fn pair_of(shape: &[usize], layout: Layout, dtype: DType, numbers: impl Fn(usize) -> Vec<f64>) -> [Tensor; 2] {
    // Without rows there is nothing that channels could lie within.
    let layout = if layout == Layout::ChannelsLast && shape.len() < 3 { Layout::RowMajor } else { layout };
    let Placement { strides, first, bytes } = layout.placement(shape, dtype, &mut Numbers::new(0));
    let room = bytes / dtype.size();
    let flat = tensor(&[room], &numbers(room), dtype);
    [flat.clone(), copy(&flat, GPU).unwrap()].map(|flat| {
        let kind = TensorType::new(shape, dtype);
        Tensor::from_storage(flat.storage().clone(), first, kind, strides.clone()).unwrap()
    })
}

pub fn run(name: &str, inputs: &[Option<&Tensor>], args: &[(&str, ArgValue)]) -> Vec<Tensor> {
    registry::run(name, inputs, args.iter().cloned()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Runs an operator on both devices and gives each output's values on the CPU and on the device.
pub fn both(name: &str, inputs: &[Option<[Tensor; 2]>], args: &[(&str, ArgValue)]) -> Vec<(DType, Vec<f64>, Vec<f64>)> {
    let on = |k: usize| -> Vec<Option<&Tensor>> { inputs.iter().map(|i| i.as_ref().map(|pair| &pair[k])).collect() };
    let (host, device) = (run(name, &on(0), args), run(name, &on(1), args));
    assert_eq!(host.len(), device.len());
    let compare = |(host, device): (&Tensor, &Tensor)| {
        assert_eq!((host.kind(), device.device()), (device.kind(), GPU));
        let strides = |tensor: &Tensor| {
            tensor.shape().iter().zip(tensor.strides()).filter(|(n, _)| **n > 1).map(|(_, s)| *s).collect::<Vec<_>>()
        };
        assert_eq!(strides(host), strides(device), "{name} keeps the layout");
        (host.dtype(), host.to_f64_vec().unwrap(), copy(device, Device::Cpu).unwrap().to_f64_vec().unwrap())
    };
    host.iter().zip(&device).map(compare).collect()
}

pub fn same_bits(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[track_caller]
pub fn assert_bits(what: &str, (_, host, device): &(DType, Vec<f64>, Vec<f64>)) {
    assert_eq!(host.len(), device.len(), "{what}");
    for (index, (a, b)) in host.iter().zip(device).enumerate() {
        assert!(same_bits(*a, *b), "{what}: element {index}: {a:e} on the CPU, {b:e} on the device");
    }
}

/// The most by which two sums of `terms` products may differ, each of magnitude at most `size`, rounded to the type.
pub fn bound(dtype: DType, compute: DType, (a, b): (f64, f64), terms: f64, size: f64) -> f64 {
    let unit = if compute == DType::Float64 { 2f64.powi(-53) } else { 2f64.powi(-24) };
    let last = match dtype {
        DType::Float16 => 2f64.powi(-10),
        DType::BFloat16 => 2f64.powi(-7),
        DType::Float32 => 2f64.powi(-23),
        DType::Float64 => 2f64.powi(-52),
    };
    2.0 * (terms + 4.0) * unit * terms * size + last * a.abs().max(b.abs()) + 1e-300
}

#[track_caller]
pub fn assert_near(
    what: &str,
    (dtype, host, device): &(DType, Vec<f64>, Vec<f64>),
    compute: DType,
    terms: f64,
    size: f64,
) {
    for (index, (&a, &b)) in host.iter().zip(device).enumerate() {
        let bound = bound(*dtype, compute, (a, b), terms, size);
        assert!(
            (a - b).abs() <= bound,
            "{what}: element {index}: {a:e} on the CPU, {b:e} on the device, bound {bound:e}"
        );
    }
}

pub fn float(value: f64) -> ArgValue {
    ArgValue::Float(value)
}

/// A kernel of rank one, or not, on both devices.
pub fn taps(rows: usize, columns: usize, separable: bool, dtype: DType) -> [Tensor; 2] {
    let (a, b) = (values(rows, 11, DType::Float16), values(columns, 12, DType::Float16));
    let mut full: Vec<f64> = a.iter().flat_map(|y| b.iter().map(move |x| (y + 0.25) * (x + 0.5))).collect();
    if !separable {
        full = values(rows * columns, 13, DType::Float16);
    }
    let host = tensor(&[rows, columns], &full, dtype);
    [host.clone(), copy(&host, GPU).unwrap()]
}
