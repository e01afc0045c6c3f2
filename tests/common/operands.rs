//! Operands and comparisons of the CUDA tests: one random tensor on both devices, in any layout.

use firelu::core::dtype::Compute;
use firelu::devices::copy;
use firelu::{ArgValue, DType, Device, Element, Shape, Strides, Tensor, TensorType, registry, with_element};

pub const GPU: Device = Device::Cuda(0);

/// Numbers that look random, zeros of both signs among them, rounded to the type.
pub fn values(count: usize, seed: u64, dtype: DType) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match state >> 59 {
            0 => 0.0,
            1 => -0.0,
            _ => ((state >> 20) % (1 << 24)) as f64 / (1 << 22) as f64 - 2.0,
        }
    };
    with_element!(dtype, T => {
        let round = |value| T::from_compute(<T as Element>::Compute::from_f64(value)).to_compute().to_f64();
        (0..count).map(|_| round(next())).collect()
    })
}

pub fn tensor(shape: &[usize], values: &[f64], dtype: DType) -> Tensor {
    with_element!(dtype, T => {
        let of = |&value: &f64| T::from_compute(<T as Element>::Compute::from_f64(value));
        Tensor::from_vec(shape, values.iter().map(of).collect::<Vec<T>>()).unwrap()
    })
}

/// How a tensor lies in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Lay {
    RowMajor,
    /// The second dimension innermost.
    ChannelsLast,
    /// Every second element of each dimension of a larger array.
    Sliced,
    /// Backwards along the last dimension.
    Reversed,
    /// One element after a vector's boundary.
    Shifted,
}

pub const LAYS: [Lay; 5] = [Lay::RowMajor, Lay::ChannelsLast, Lay::Sliced, Lay::Reversed, Lay::Shifted];

/// The same random tensor on the CPU and on the device.
pub fn pair(shape: &[usize], lay: Lay, dtype: DType, seed: u64) -> [Tensor; 2] {
    pair_of(shape, lay, dtype, |count| values(count, seed, dtype))
}

/// A tensor on the CPU and on the device, of numbers that the type holds, as many as its memory has room for.
pub fn pair_of(shape: &[usize], lay: Lay, dtype: DType, numbers: impl Fn(usize) -> Vec<f64>) -> [Tensor; 2] {
    let size = dtype.size() as isize;
    let elements: usize = shape.iter().product();
    let kind = TensorType::new(shape, dtype);
    let row_major = kind.shape.row_major_strides(dtype);
    let (room, offset, strides): (usize, isize, Strides) = match lay {
        Lay::RowMajor => (elements, 0, row_major),
        Lay::Shifted => (elements + 1, size, row_major),
        Lay::ChannelsLast if shape.len() >= 3 => {
            let mut order: Vec<usize> = (0..shape.len()).collect();
            let channels = order.remove(1);
            order.push(channels);
            let mut strides = row_major;
            let mut step = size;
            for &d in order.iter().rev() {
                strides[d] = step;
                step *= shape[d] as isize;
            }
            (elements, 0, strides)
        }
        Lay::ChannelsLast => (elements, 0, row_major),
        Lay::Sliced => {
            let larger: Shape = shape.iter().map(|n| 2 * n).collect();
            let strides = larger.row_major_strides(dtype).iter().map(|stride| 2 * stride).collect();
            (larger.elements().max(1), 0, strides)
        }
        Lay::Reversed => {
            let mut strides = row_major;
            let last = shape.len().saturating_sub(1);
            let length = shape.last().copied().unwrap_or(1) as isize;
            if let Some(stride) = strides.get_mut(last) {
                *stride = -size;
            }
            (elements, if elements == 0 { 0 } else { (length - 1) * size }, strides)
        }
    };
    let flat = tensor(&[room], &numbers(room), dtype);
    [flat.clone(), copy(&flat, GPU).unwrap()].map(|flat| {
        Tensor::from_storage(flat.storage().clone(), offset as usize, kind.clone(), strides.clone()).unwrap()
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
