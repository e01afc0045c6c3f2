//! The element-wise operators and the fused gradient: time, and its ratio to the fastest copy of the same
//! bytes in the same run, both on two threads and with outputs that are used again.
//!
//! `cargo bench --bench elementwise [-- FILTER]`

mod yardstick;

use firelu::core::device::Stream;
use firelu::devices::cpu::parallel;
use firelu::{
    ArgValue, Call, DType, Device, Shape, Tensor, TensorType, TensorView, TensorViewMut, devices, registry,
    with_element,
};
use yardstick::{Copy, shortest};

const ROUNDS: usize = 5;
const REPETITIONS: usize = 7;

struct Case {
    name: String,
    operator: &'static str,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    args: Vec<(&'static str, ArgValue)>,
}

/// A tensor of numbers of both signs, `order` saying which dimension lies outermost, and so on.
fn tensor(dtype: DType, shape: &[usize], order: &[usize]) -> Tensor {
    let mut strides = Shape::from(shape).row_major_strides(dtype);
    let mut step = dtype.size() as isize;
    for &d in order.iter().rev() {
        strides[d] = step;
        step *= shape[d] as isize;
    }
    let mut tensor = devices::allocate(Device::Cpu, TensorType::new(shape, dtype), strides).unwrap();
    let view = tensor.view_mut().unwrap();
    with_element!(dtype, T => for i in 0..view.shape().elements() {
        let number = (i.wrapping_mul(2_654_435_761) >> 7 & 0xffff) as f64 / 32768.0 - 1.0;
        use firelu::core::dtype::{Compute, Element};
        let value = T::from_compute(<T as Element>::Compute::from_f64(number));
        // SAFETY: the tensor is dense and has that many elements.
        unsafe { view.pointer.cast::<T>().add(i).write(value) };
    });
    tensor
}

impl Case {
    /// A case whose inputs have the given shapes in the given order of memory.
    fn new(operator: &'static str, dtype: DType, shapes: &[&[usize]], order: &[usize], axis: i64) -> Self {
        let rows: Vec<usize> = (0..shapes[0].len()).collect();
        let order = if order.is_empty() { &rows } else { order };
        let of = |shape: &[usize]| tensor(dtype, shape, if shape.len() == order.len() { order } else { &[] });
        let inputs: Vec<Tensor> = shapes.iter().map(|shape| of(shape)).collect();
        let found = registry::find(operator).unwrap();
        let args = if found.schema.args.iter().any(|arg| arg.name == "axis") {
            vec![("axis", ArgValue::Int(axis))]
        } else {
            vec![]
        };
        let kinds: Vec<Option<&TensorType>> = inputs.iter().map(|input| Some(input.kind())).collect();
        let resolved = found.schema.resolve_args(args.iter().cloned()).unwrap();
        let outputs = found.schema.infer(&kinds, &resolved).unwrap();
        let outputs = outputs.iter().map(|kind| {
            let views: Vec<TensorView<'_>> = inputs.iter().map(Tensor::view).collect();
            let parts: Vec<_> = views.iter().map(|view| Some(&**view)).collect();
            let strides = found.schema.output_strides(&parts, kind);
            devices::allocate(Device::Cpu, kind.clone(), strides).unwrap()
        });
        let layout = if order.is_sorted() { "" } else { " channels last" };
        let name = format!("{operator} {dtype} {:?}{layout}", shapes[0]);
        Case { name, operator, outputs: outputs.collect(), inputs, args }
    }

    fn bytes(&self) -> usize {
        self.inputs.iter().chain(&self.outputs).map(|tensor| tensor.kind().bytes()).sum()
    }

    fn run(&mut self) {
        let operator = registry::find(self.operator).unwrap();
        let args = operator.schema.resolve_args(self.args.iter().cloned()).unwrap();
        let inputs: Vec<Option<TensorView<'_>>> = self.inputs.iter().map(|input| Some(input.view())).collect();
        let outputs: Vec<Option<TensorViewMut<'_>>> = self.outputs.iter_mut().map(Tensor::view_mut).collect();
        let call = Call { inputs: &inputs, outputs: &outputs, args: &args, stream: Stream::default() };
        operator.kernel(Device::Cpu).unwrap()(&call).unwrap();
    }
}

fn main() {
    let filter: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let (flat, plane, bias): (&[usize], &[usize], &[usize]) = (&[64 << 20], &[1, 64, 1024, 1024], &[64]);
    let forward = |dtype, shape: &[usize], order: &[usize], axis: usize| {
        Case::new("FusedLeakyRelu", dtype, &[shape, &[shape[axis]]], order, axis as i64)
    };
    let backward = |dtype, shape: &[usize], order: &[usize], axis: usize| {
        Case::new("FusedLeakyReluGradient", dtype, &[shape, shape], order, axis as i64)
    };
    type Make<'a> = Box<dyn Fn() -> Case + 'a>;
    let mut cases: Vec<Make<'_>> = Vec::new();
    for dtype in [DType::Float32, DType::Float16, DType::BFloat16, DType::Float64] {
        cases.push(Box::new(move || Case::new("LeakyRelu", dtype, &[flat], &[], 0)));
    }
    cases.push(Box::new(|| Case::new("LeakyReluGradient", DType::Float32, &[flat, flat], &[], 0)));
    for dtype in [DType::Float32, DType::Float16, DType::BFloat16] {
        cases.push(Box::new(move || Case::new("FusedLeakyRelu", dtype, &[plane, bias], &[], 1)));
        cases.push(Box::new(move || backward(dtype, plane, &[], 1)));
    }
    let (last, small, odd, vector): (&[usize], &[usize], &[usize], &[usize]) =
        (&[0, 2, 3, 1], &[4, 512, 4, 4], &[2, 64, 513, 511], &[65536, 512]);
    for make in [forward, backward] {
        cases.push(Box::new(move || make(DType::Float32, plane, last, 1)));
        cases.push(Box::new(move || make(DType::Float32, &[4, 3, 2048, 2048], last, 1)));
        cases.push(Box::new(move || make(DType::Float32, odd, &[], 1)));
        cases.push(Box::new(move || make(DType::Float32, vector, &[], 1)));
        cases.push(Box::new(move || make(DType::Float32, &[1024, 512, 4, 4], &[], 1)));
        cases.push(Box::new(move || make(DType::Float32, small, &[], 1)));
    }
    cases.push(Box::new(|| Case::new("ReduceSum", DType::Float32, &[flat], &[], 0)));
    cases.push(Box::new(|| Case::new("Sum", DType::Float32, &[flat, flat], &[], 0)));
    cases.push(Box::new(|| Case::new("Mul", DType::Float32, &[plane, &[64, 1, 1]], &[], 0)));

    println!("{:<60} {:>10} {:>10} {:>7}", "case, two threads", "ms", "copy ms", "ratio");
    parallel::set_threads(2).unwrap();
    for make in cases {
        let mut case = make();
        if !filter.iter().all(|word| case.name.contains(word.as_str())) {
            continue;
        }
        let copy = Copy::new(case.bytes());
        // Small cases are repeated more often: other processes disturb a short run less often.
        let repetitions = REPETITIONS * (64usize << 20).div_ceil(case.bytes()).min(1000);
        let (mut time, mut fastest) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..ROUNDS {
            fastest = fastest.min(shortest(repetitions, || copy.by_memcpy()));
            #[cfg(target_arch = "x86_64")]
            {
                fastest = fastest.min(shortest(repetitions, || copy.by_streaming()));
            }
            time = time.min(shortest(repetitions, || case.run()));
        }
        println!("{:<60} {:>10.4} {:>10.4} {:>7.2}", case.name, time * 1e3, fastest * 1e3, time / fastest);
    }
}
