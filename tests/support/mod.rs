//! What the integration tests share: random tensors of any layout, ways to run an operator, bits.
#![allow(dead_code)] // Each test file uses its part.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firelu::core::device::Stream;
use firelu::core::tensor::Storage;
use firelu::devices::cpu::features::Level;
use firelu::devices::cpu::parallel::with_threads;
use firelu::{
    ArgValue, Call, DType, Device, Element, OperatorDef, Result, Shape, Strides, Tensor, TensorType, TensorView,
    TensorViewMut, get_gradient_defs, registry, run_on_device, with_element,
};
use proptest::prelude::*;

/// A small generator of numbers: the same for one seed, everywhere.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next_bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Between -1 and 1, one in sixteen exactly zero.
    pub fn next_number(&mut self) -> f64 {
        let bits = self.next_bits();
        if bits & 0xf == 0 { 0.0 } else { (bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0 }
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next_bits() >> 33) as usize % n
    }
}

/// A float64 sum that keeps what rounding loses, for references.
#[derive(Debug, Clone, Copy, Default)]
pub struct Exact {
    sum: f64,
    lost: f64,
}

impl Exact {
    pub fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        let (large, small) = if self.sum.abs() >= value.abs() { (self.sum, value) } else { (value, self.sum) };
        self.lost += (large - sum) + small;
        self.sum = sum;
    }

    pub fn value(self) -> f64 {
        self.sum + self.lost
    }
}

struct Bytes(Vec<u64>);

impl Storage for Bytes {
    fn pointer(&self) -> *mut u8 {
        self.0.as_ptr() as *mut u8
    }
    fn bytes(&self) -> usize {
        self.0.len() * 8
    }
    fn device(&self) -> Device {
        Device::Cpu
    }
}

/// How a tensor lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Row-major, aligned.
    Dense,
    /// Row-major, at an odd byte.
    Misaligned,
    /// The second dimension innermost, the others in order.
    ChannelsLast,
    /// Dimensions in any order, some reversed, with gaps.
    Strided,
    /// As `Strided`, and some dimensions are repetitions.
    Repeated,
}

pub const READABLE: [Layout; 5] =
    [Layout::Dense, Layout::Misaligned, Layout::ChannelsLast, Layout::Strided, Layout::Repeated];
pub const WRITABLE: [Layout; 4] = [Layout::Dense, Layout::Misaligned, Layout::ChannelsLast, Layout::Strided];

/// A tensor of random numbers; its values follow from the numbers alone where nothing is repeated.
pub fn random(dtype: DType, shape: &[usize], layout: Layout, numbers: &mut Numbers) -> Tensor {
    let values: Vec<f64> = (0..shape.iter().product()).map(|_| numbers.next_number()).collect();
    place(dtype, shape, layout, &values, numbers)
}

/// A tensor with these row-major values; where a dimension is repeated, the last repetition's value holds.
pub fn place(dtype: DType, shape: &[usize], layout: Layout, values: &[f64], numbers: &mut Numbers) -> Tensor {
    let mut order: Vec<usize> = (0..shape.len()).collect();
    match layout {
        Layout::Dense | Layout::Misaligned => {}
        Layout::ChannelsLast if shape.len() > 1 => {
            order.remove(1);
            order.push(1);
        }
        Layout::ChannelsLast => {}
        Layout::Strided | Layout::Repeated => {
            for i in (1..order.len()).rev() {
                order.swap(i, numbers.below(i + 1));
            }
        }
    }
    let free = matches!(layout, Layout::Strided | Layout::Repeated);
    let size = dtype.size();
    let mut strides: Strides = shape.iter().map(|_| 0).collect();
    let (mut step, mut first) = (size, if layout == Layout::Misaligned { 1 } else { 0 });
    for &d in order.iter().rev() {
        if layout == Layout::Repeated && numbers.below(3) == 0 {
            continue;
        }
        if free {
            step *= 1 + numbers.below(2);
        }
        strides[d] = step as isize;
        if free && numbers.below(3) == 0 && shape[d] > 0 {
            first += step * (shape[d] - 1);
            strides[d] = -strides[d];
        }
        step *= shape[d].max(1);
    }
    let storage = Bytes(vec![0; (first + step + size).div_ceil(8) + 1]);
    let base = storage.pointer();
    for (flat, &value) in values.iter().enumerate() {
        let mut rest = flat;
        let mut offset = first as isize;
        for d in (0..shape.len()).rev() {
            offset += (rest % shape[d]) as isize * strides[d];
            rest /= shape[d];
        }
        // SAFETY: the offset lies inside the storage, which was made to hold the whole layout.
        with_element!(dtype, T => unsafe {
            let value = T::from_compute(firelu::core::dtype::Compute::from_f64(value));
            base.offset(offset).cast::<T>().write_unaligned(value);
        });
    }
    Tensor::from_storage(Arc::new(storage), first, TensorType::new(shape, dtype), strides).unwrap()
}

/// The bytes of the elements in row-major order.
pub fn bits(tensor: &Tensor) -> Vec<u8> {
    with_element!(tensor.dtype(), T => {
        let values = tensor.to_vec::<T>().unwrap();
        // SAFETY: the four element types are plain numbers without padding.
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values.as_slice())) }.to_vec()
    })
}

/// Runs an operator into tensors the caller made, as the bridge to Python does.
pub fn run_into(
    name: &str,
    inputs: &[Option<&Tensor>],
    outputs: &mut [Option<&mut Tensor>],
    args: &[(&str, ArgValue)],
) -> Result<()> {
    let operator = registry::find(name)?;
    let args = operator.schema.resolve_args(args.iter().cloned())?;
    let views: Vec<Option<TensorView<'_>>> = inputs.iter().map(|input| input.map(Tensor::view)).collect();
    let targets: Vec<Option<TensorViewMut<'_>>> = outputs
        .iter_mut()
        .map(|output| output.as_mut().map(|tensor| tensor.view_mut().expect("nobody shares an output")))
        .collect();
    let parts: Vec<_> = views.iter().map(|view| view.as_deref()).collect();
    let target_parts: Vec<_> = targets.iter().map(|target| target.as_deref()).collect();
    operator.schema.check(&parts, &target_parts, &args)?;
    operator.kernel(Device::Cpu)?(&Call { inputs: &views, outputs: &targets, args: &args, stream: Stream::default() })
}

/// Runs an operator with default arguments whose input number `place` is also its first output.
pub fn run_in_place(
    name: &str,
    inputs: &[Option<&Tensor>],
    place: usize,
    changed: &mut Tensor,
    others: &mut [&mut Tensor],
) {
    let operator = registry::find(name).unwrap();
    let args = operator.schema.resolve_args([] as [(&str, ArgValue); 0]).unwrap();
    assert!(changed.view_mut().is_some(), "nobody shares the tensor that changes");
    let parts = (*changed.view()).clone();
    // SAFETY: the tensor outlives both views; the schema is asked below whether they may be the same memory.
    let (input, output) = unsafe { (TensorView::from_parts(parts.clone()), TensorViewMut::from_parts(parts)) };
    let mut views: Vec<Option<TensorView<'_>>> = inputs.iter().map(|input| input.map(Tensor::view)).collect();
    views[place] = Some(input);
    let mut outputs = vec![Some(output)];
    outputs.extend(others.iter_mut().map(|other| other.view_mut()));
    let parts: Vec<_> = views.iter().map(|view| view.as_deref()).collect();
    let target_parts: Vec<_> = outputs.iter().map(|output| output.as_deref()).collect();
    operator.schema.check(&parts, &target_parts, &args).unwrap();
    let call = Call { inputs: &views, outputs: &outputs, args: &args, stream: Stream::default() };
    operator.kernel(Device::Cpu).unwrap()(&call).unwrap();
}

static LEVEL: Mutex<()> = Mutex::new(());

/// Runs the body once for each instruction-set level this processor has. One test at a time: the level is
/// the process's.
pub fn for_each_level(mut body: impl FnMut(Level)) {
    let _one_at_a_time: MutexGuard<'_, ()> = LEVEL.lock().unwrap_or_else(PoisonError::into_inner);
    let best = Level::current();
    for &level in Level::available() {
        Level::set_current(level).unwrap();
        body(level);
    }
    Level::set_current(best).unwrap();
}

/// The results of a body for 1, 2, 3 and 8 threads, which must be the same bits.
pub fn same_for_every_number_of_threads(body: impl Fn() -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let one = with_threads(1, &body);
    for threads in [2, 3, 8] {
        assert!(with_threads(threads, &body) == one, "{threads} threads give other bits than one");
    }
    one
}

/// Half of the distance between neighbouring numbers near one.
pub fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::Float16 => 2f64.powi(-11),
        DType::BFloat16 => 2f64.powi(-8),
        DType::Float32 => 2f64.powi(-24),
        DType::Float64 => 2f64.powi(-53),
    }
}

/// The error that rounding a result of this size to the type may make, subnormal numbers included.
pub fn rounding_of(dtype: DType, size: f64) -> f64 {
    let smallest = match dtype {
        DType::Float16 => 2f64.powi(-25),
        _ => 0.0,
    };
    size * rounding(dtype) + smallest
}

pub fn dtypes() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::ALL.to_vec())
}

pub fn readable() -> impl Strategy<Value = Layout> {
    prop::sample::select(READABLE.to_vec())
}

pub fn writable() -> impl Strategy<Value = Layout> {
    prop::sample::select(WRITABLE.to_vec())
}

/// Blobs by name, for nets without a workspace.
pub type Blobs = HashMap<String, Tensor>;

/// Runs definitions one after the other.
pub fn run_defs(defs: &[OperatorDef], blobs: &mut Blobs) {
    for def in defs {
        let operator = registry::find(&def.operator).unwrap();
        let args = operator.schema.resolve_args(def.args.iter().map(|(name, value)| (name, value.clone()))).unwrap();
        let inputs: Vec<Option<Tensor>> =
            def.inputs.iter().map(|name| if name.is_empty() { None } else { Some(blobs[name].clone()) }).collect();
        let borrowed: Vec<Option<&Tensor>> = inputs.iter().map(Option::as_ref).collect();
        let results = run_on_device(&operator, &borrowed, &args).unwrap_or_else(|error| panic!("{def:?}: {error}"));
        for (name, tensor) in def.outputs.iter().zip(results) {
            if !name.is_empty() {
                blobs.insert(name.clone(), tensor);
            }
        }
    }
}

/// Compares the gradient definitions of a float64 definition with differences of its outputs, and then
/// does the same with each of those definitions, `depth` times.
pub fn check_gradient(def: &OperatorDef, blobs: &Blobs, depth: usize, numbers: &mut Numbers) {
    let mut blobs = blobs.clone();
    run_defs(std::slice::from_ref(def), &mut blobs);
    let mut weights: Vec<Option<String>> = Vec::new();
    for (index, output) in def.outputs.iter().enumerate() {
        let name = format!("weight_{depth}_{index}");
        weights.push((!output.is_empty()).then(|| name.clone()));
        if !output.is_empty() {
            let shape = blobs[output].shape().clone();
            blobs.insert(name, random(DType::Float64, &shape, Layout::Dense, numbers));
        }
    }
    let weighted = |blobs: &mut Blobs| -> f64 {
        run_defs(std::slice::from_ref(def), blobs);
        let pairs = def.outputs.iter().zip(&weights).filter_map(|(o, w)| Some((o, w.as_ref()?)));
        let dot = |(output, weight): (&String, &String)| -> f64 {
            let (values, weights) = (blobs[output].to_f64_vec().unwrap(), blobs[weight].to_f64_vec().unwrap());
            values.iter().zip(weights).map(|(value, weight)| value * weight).sum()
        };
        pairs.map(dot).sum()
    };
    let gradient = get_gradient_defs(def, &weights).unwrap();
    run_defs(&gradient.operators, &mut blobs);
    let schema = registry::find(&def.operator).unwrap().schema.clone();
    let step = 1e-6;
    for (index, input) in def.inputs.iter().enumerate() {
        let spec = schema.input_spec(index);
        if input.is_empty() || def.inputs[..index].contains(input) {
            continue;
        }
        // A blob that is read twice has the sum of both gradients.
        let places = (0..def.inputs.len()).filter(|&other| def.inputs[other] == *input);
        let gradients: Vec<Vec<f64>> = places
            .filter_map(|place| gradient.input_gradients[place].as_ref())
            .map(|name| {
                assert_eq!(blobs[name].shape(), blobs[input].shape(), "{}: gradient of {input}", def.operator);
                assert_eq!(blobs[name].dtype(), blobs[input].dtype(), "{}: gradient of {input}", def.operator);
                blobs[name].to_f64_vec().unwrap()
            })
            .collect();
        assert!(!spec.shape_only || gradients.is_empty());
        let shape = blobs[input].shape().clone();
        let values = blobs[input].to_f64_vec().unwrap();
        for place in 0..shape.elements() {
            let moved = |by: f64| {
                let mut changed = blobs.clone();
                let mut values = values.clone();
                values[place] += by;
                changed.insert(input.clone(), Tensor::from_vec(shape.clone(), values).unwrap());
                weighted(&mut changed)
            };
            let expected = (moved(step) - moved(-step)) / (2.0 * step);
            let got: f64 = gradients.iter().map(|gradient| gradient[place]).sum();
            assert!((got - expected).abs() < 1e-7, "{def:?}: {input}[{place}]: got {got}, differences give {expected}");
        }
    }
    if depth > 1 {
        for def in &gradient.operators {
            check_gradient(def, &blobs, depth - 1, numbers);
        }
    }
}

/// Every index of a shape in row-major order.
pub fn indices(shape: &Shape) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..shape.elements()).map(move |flat| {
        let mut rest = flat;
        let mut index = vec![0; shape.len()];
        for d in (0..shape.len()).rev() {
            index[d] = rest % shape[d];
            rest /= shape[d];
        }
        index
    })
}
