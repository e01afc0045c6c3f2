//! Calls of operators by name on placed tensors, in words too, and whether two gave the same.

use firelu::core::device::Stream;
use firelu::core::tensor::Parts;
use firelu::devices::cpu::parallel::with_threads;
use firelu::{ArgValue, Call, DType, Device, TensorType, TensorView, TensorViewMut, registry};

use crate::memory::Placed;
use crate::reference::Expected;
use crate::signatures::{Array, Request};

/// Calls an operator by name on placed tensors; without outputs it is only checked, as nothing but a
/// refusal is looked for.
pub fn call(
    operator: &str,
    named: impl IntoIterator<Item = (&'static str, ArgValue)>,
    inputs: &[Option<Placed>],
    outputs: &[Placed],
    threads: usize,
) -> firelu::Result<()> {
    let operator = registry::find(operator)?;
    let args = operator.schema.resolve_args(named)?;
    let parts: Vec<Option<&Parts>> = inputs.iter().map(|input| input.as_ref().map(|input| &input.parts)).collect();
    let given: Vec<Option<&Parts>> = outputs.iter().map(|output| Some(&output.parts)).collect();
    operator.schema.check(&parts, &given, &args)?;
    if outputs.is_empty() {
        return Ok(());
    }
    // SAFETY: `Memory::place` put every element inside mapped memory that lives as long as the case, and
    // the schema has refused outputs that share memory, but for those in place.
    let sources: Vec<Option<TensorView<'_>>> =
        parts.iter().map(|parts| parts.map(|parts| unsafe { TensorView::from_parts(parts.clone()) })).collect();
    let targets: Vec<Option<TensorViewMut<'_>>> =
        // SAFETY: as above.
        outputs.iter().map(|output| Some(unsafe { TensorViewMut::from_parts(output.parts.clone()) })).collect();
    let kernel = operator.kernel(Device::Cpu)?;
    let call = Call { inputs: &sources, outputs: &targets, args: &args, stream: Stream::default() };
    with_threads(threads, || kernel(&call))
}

/// A request in words.
pub fn describe(request: &Request) -> String {
    let input = |input: &Option<Array>| match input {
        Some(array) if array.values.len() <= 24 => format!("{}{:?} {:?}", array.dtype, array.shape, array.values),
        Some(array) => format!("{}{:?} …", array.dtype, array.shape),
        None => "none".into(),
    };
    let inputs: Vec<String> = request.inputs.iter().map(input).collect();
    format!("{}({}; {:?})", request.operator, inputs.join(", "), request.args)
}

/// Whether both hold the same bits, but for what a NaN carries.
pub fn same_numbers(first: &[Vec<u64>], second: &[Vec<u64>], expected: &[Expected]) -> bool {
    same(first, second, expected.iter().map(|expected| expected.dtype))
}

/// As [`same_numbers`], of outputs by their types.
pub fn same_bits_but_for_nans(first: &[Vec<u64>], second: &[Vec<u64>], kinds: &[TensorType]) -> bool {
    same(first, second, kinds.iter().map(|kind| kind.dtype))
}

fn same(first: &[Vec<u64>], second: &[Vec<u64>], dtypes: impl Iterator<Item = DType>) -> bool {
    first.iter().zip(second).zip(dtypes).all(|((first, second), dtype)| {
        let nan = |bits: u64| magnitude(bits, dtype) > infinity(dtype);
        first.iter().zip(second).all(|(&a, &b)| a == b || (nan(a) && nan(b)))
    })
}

/// The bits of a number without its sign.
pub fn magnitude(bits: u64, dtype: DType) -> u64 {
    bits & (u64::MAX >> (65 - 8 * dtype.size()))
}

/// The bits of infinity.
pub fn infinity(dtype: DType) -> u64 {
    match dtype {
        DType::Float16 => 0x7c00,
        DType::BFloat16 => 0x7f80,
        DType::Float32 => 0x7f80_0000,
        DType::Float64 => 0x7ff0_0000_0000_0000,
    }
}
