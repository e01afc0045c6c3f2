//! What a call consists of, and the rules of arity and element types, read from the documentation.

use firelu::{ArgValue, DType};

/// An array: its type, and its values in row-major order once it has memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// The length of each dimension.
    pub shape: Vec<usize>,
    /// The element type.
    pub dtype: DType,
    /// The values, exactly.
    pub values: Vec<f64>,
}

impl Array {
    /// An array without values yet.
    pub fn new(shape: &[usize], dtype: DType) -> Self {
        Array { shape: shape.to_vec(), dtype, values: Vec::new() }
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        if self.shape.contains(&0) { 0 } else { self.shape.iter().product() }
    }
}

/// A call of an operator by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The operator.
    pub operator: &'static str,
    /// Its inputs; `None` where one is omitted.
    pub inputs: Vec<Option<Array>>,
    /// The named arguments that are given.
    pub args: Vec<(&'static str, ArgValue)>,
}

impl Request {
    /// The input at a place, where it is given.
    pub fn input(&self, place: usize) -> Option<&Array> {
        self.inputs.get(place).and_then(Option::as_ref)
    }
}

/// A call that must be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

/// Which element types an input takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// The type of the call.
    Same,
    /// The type of the call, or float32 beside a half type.
    SameOrSingle,
    /// Every type.
    Any,
}

/// An operator's inputs: which type each takes and whether it may be omitted.
pub struct Signature {
    /// The operator.
    pub operator: &'static str,
    /// Its inputs.
    pub inputs: &'static [(Takes, bool)],
    /// Whether the last input may be repeated.
    pub variadic: bool,
    /// Inputs and outputs that may be the same memory.
    pub inplace: &'static [(usize, usize)],
    /// Whether every instruction-set level gives the same bits.
    pub same_bits: bool,
    /// Whether every memory layout of the inputs gives the same bits.
    pub any_layout: bool,
}

const REQUIRED: (Takes, bool) = (Takes::Same, false);
const ANY: (Takes, bool) = (Takes::Any, false);
const CHANNELS: (Takes, bool) = (Takes::SameOrSingle, true);

macro_rules! signature {
    ($operator:literal, $inputs:expr, $inplace:expr, $same_bits:expr) => {
        Signature {
            operator: $operator,
            inputs: &$inputs,
            variadic: matches!($operator.as_bytes(), b"Sum"),
            inplace: &$inplace,
            same_bits: $same_bits,
            any_layout: !matches!($operator.as_bytes(), b"UpFirDn2dKernelGradient"),
        }
    };
}

/// Every operator that cases call.
pub static SIGNATURES: &[Signature] = &[
    signature!("LeakyRelu", [REQUIRED], [(0, 0)], true),
    signature!("LeakyReluGradient", [REQUIRED, REQUIRED], [(1, 0)], true),
    signature!("FusedLeakyRelu", [REQUIRED, (Takes::SameOrSingle, true)], [(0, 0)], true),
    signature!(
        "FusedLeakyReluGradient",
        [REQUIRED, (Takes::Same, true), (Takes::SameOrSingle, true), (Takes::SameOrSingle, true)],
        [(1, 0)],
        true
    ),
    signature!("BiasAct", [REQUIRED, (Takes::SameOrSingle, true)], [(0, 0)], false),
    signature!("BiasActGradient", [REQUIRED, REQUIRED, (Takes::SameOrSingle, true)], [(1, 0)], false),
    signature!("Snake", [REQUIRED, (Takes::SameOrSingle, false), CHANNELS], [(0, 0)], false),
    signature!("SnakeGradient", [REQUIRED, REQUIRED, (Takes::SameOrSingle, false), CHANNELS], [(1, 0)], false),
    signature!("SnakeDerivative", [REQUIRED, REQUIRED, (Takes::SameOrSingle, false), CHANNELS], [(1, 0)], false),
    signature!("FilteredAct", [REQUIRED, ANY, ANY, CHANNELS, CHANNELS, CHANNELS], [], false),
    signature!("FilteredActGradient", [REQUIRED, ANY, ANY, CHANNELS, CHANNELS, CHANNELS, REQUIRED], [], false),
    signature!("Sum", [REQUIRED], [(0, 0)], true),
    signature!("Add", [REQUIRED, REQUIRED], [(0, 0), (1, 0)], true),
    signature!("Sub", [REQUIRED, REQUIRED], [(0, 0), (1, 0)], true),
    signature!("Mul", [REQUIRED, REQUIRED], [(0, 0), (1, 0)], true),
    signature!("ReduceSum", [REQUIRED, (Takes::Any, true)], [], true),
    signature!("BroadcastLike", [REQUIRED, ANY], [], true),
    signature!("UpFirDn2d", [REQUIRED, ANY], [], false),
    signature!("UpFirDn2dGradient", [REQUIRED, ANY, REQUIRED], [], false),
    signature!("UpFirDn2dKernelGradient", [REQUIRED, REQUIRED, ANY], [], false),
];

/// The signature of a request's operator.
pub fn signature_of(request: &Request) -> &'static Signature {
    let found = SIGNATURES.iter().find(|signature| signature.operator == request.operator);
    found.expect("requests name operators of the list")
}

/// Refuses wrong numbers of inputs, omitted required ones and types that do not go together.
pub fn check(request: &Request) -> Result<(), Refused> {
    let signature = signature_of(request);
    let spec = |place: usize| signature.inputs[place.min(signature.inputs.len() - 1)];
    let least = signature.inputs.iter().rposition(|(_, optional)| !optional).map_or(0, |last| last + 1);
    let count = request.inputs.len();
    if count < least || (count > signature.inputs.len() && !signature.variadic) {
        return Err(Refused);
    }
    let mut common = None;
    for (place, input) in request.inputs.iter().enumerate() {
        let (takes, optional) = spec(place);
        let Some(input) = input else {
            if optional {
                continue;
            }
            return Err(Refused);
        };
        match (takes, common) {
            (Takes::Any, _) => {}
            (_, None) => common = Some(input.dtype),
            (Takes::Same, Some(common)) if input.dtype != common => return Err(Refused),
            (Takes::SameOrSingle, Some(common)) if input.dtype != common && input.dtype != common.compute() => {
                return Err(Refused);
            }
            _ => {}
        }
    }
    Ok(())
}
