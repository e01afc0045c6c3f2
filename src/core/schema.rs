//! Schemas: what an operator takes and gives. A call is checked here, once, and nowhere else.

use smallvec::SmallVec;
use std::sync::Arc;

use crate::args::{ArgSpec, ArgValue, Args};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::example::Example;
use crate::shape::{Strides, may_self_overlap};
use crate::tensor::{Parts, TensorType};

/// Which element types an input accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputDType {
    /// The call's type: that of the first such input.
    Common,
    /// The call's type, or float32 beside a half type.
    CommonOrFloat32,
    /// Any floating-point type.
    Any,
}

impl InputDType {
    /// The name Python users know.
    pub fn name(self) -> &'static str {
        match self {
            InputDType::Common => "common",
            InputDType::CommonOrFloat32 => "common or float32",
            InputDType::Any => "any",
        }
    }
}

/// One input of a schema.
#[derive(Debug, Clone)]
pub struct InputSpec {
    /// Its name.
    pub name: String,
    /// What it is, with its shape.
    pub doc: String,
    /// Whether it may be omitted.
    pub optional: bool,
    /// Whether only its shape and type are looked at, so that nobody need keep its values.
    pub shape_only: bool,
    /// Which element types it accepts.
    pub dtype: InputDType,
}

impl InputSpec {
    /// A required input of the call's type.
    pub fn new(name: &str, doc: &str) -> Self {
        let (optional, shape_only, dtype) = (false, false, InputDType::Common);
        InputSpec { name: name.into(), doc: doc.into(), optional, shape_only, dtype }
    }

    /// Lets the input be omitted.
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Declares that only shape and type are looked at.
    pub fn shape_only(mut self) -> Self {
        self.shape_only = true;
        self
    }

    /// Sets which element types it accepts.
    pub fn dtype(mut self, dtype: InputDType) -> Self {
        self.dtype = dtype;
        self
    }
}

/// One output of a schema.
#[derive(Debug, Clone)]
pub struct OutputSpec {
    /// Its name.
    pub name: String,
    /// What it is, with its shape.
    pub doc: String,
}

/// What a call does to memory and arithmetic units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpCost {
    /// Floating-point operations.
    pub flops: u64,
    /// Bytes read, each once.
    pub bytes_read: u64,
    /// Bytes written, each once.
    pub bytes_written: u64,
}

/// The types of outputs, mostly one or two.
pub type OutputTypes = SmallVec<[TensorType; 2]>;

/// What inference is given: types and arguments, no memory.
pub struct Signature<'a> {
    /// The operator's name, for messages.
    pub operator: &'a str,
    /// The types of the inputs; `None` where one is omitted.
    pub inputs: &'a [Option<&'a TensorType>],
    /// The checked arguments.
    pub args: &'a Args,
}

impl Signature<'_> {
    /// The type of an input that the schema requires.
    pub fn input(&self, index: usize) -> &TensorType {
        self.inputs[index].expect("the schema requires this input")
    }
}

type InferFunction = Arc<dyn Fn(&Signature<'_>) -> Result<OutputTypes> + Send + Sync>;
type CostFunction = Arc<dyn Fn(&Signature<'_>, &[TensorType]) -> Result<OpCost> + Send + Sync>;

/// The inputs, outputs, arguments and element types of an operator.
#[derive(Clone)]
pub struct OpSchema {
    /// The registered name.
    pub name: String,
    /// What the operator computes.
    pub doc: String,
    /// Its inputs.
    pub inputs: Vec<InputSpec>,
    /// Whether the last input may be repeated.
    pub variadic: bool,
    /// Its outputs.
    pub outputs: Vec<OutputSpec>,
    /// Its arguments.
    pub args: Vec<ArgSpec>,
    /// Pairs of input and output that may be the same memory.
    pub inplace: Vec<(usize, usize)>,
    /// Whether every output has the type and shape of the inputs, which all have the first given one's.
    pub identical: bool,
    /// The input whose memory order the outputs keep.
    pub layout_of: Option<usize>,
    /// The ONNX operator of the same meaning.
    pub onnx: Option<String>,
    /// The element types it accepts.
    pub dtypes: Vec<DType>,
    /// Calls that show what it does.
    pub examples: Vec<Example>,
    infer: Option<InferFunction>,
    cost: Option<CostFunction>,
    cost_formula: Option<String>,
}

impl OpSchema {
    /// A schema with a name and a meaning; the rest is added by the methods below.
    pub fn new(name: &str, doc: &str) -> Self {
        OpSchema {
            name: name.into(),
            doc: doc.into(),
            inputs: Vec::new(),
            variadic: false,
            outputs: Vec::new(),
            args: Vec::new(),
            inplace: Vec::new(),
            identical: false,
            layout_of: Some(0),
            onnx: None,
            dtypes: DType::ALL.to_vec(),
            examples: Vec::new(),
            infer: None,
            cost: None,
            cost_formula: None,
        }
    }

    /// Adds an input.
    pub fn input(mut self, input: InputSpec) -> Self {
        self.inputs.push(input);
        self
    }

    /// Lets the last input be repeated.
    pub fn variadic(mut self) -> Self {
        self.variadic = true;
        self
    }

    /// Adds an output.
    pub fn output(mut self, name: &str, doc: &str) -> Self {
        self.outputs.push(OutputSpec { name: name.into(), doc: doc.into() });
        self
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: ArgSpec) -> Self {
        self.args.push(arg);
        self
    }

    /// Adds arguments, such as the `specs()` that [`crate::arguments!`] makes.
    pub fn args(mut self, args: impl IntoIterator<Item = ArgSpec>) -> Self {
        self.args.extend(args);
        self
    }

    /// Lets the given inputs and outputs share their memory.
    pub fn allow_inplace(mut self, pairs: &[(usize, usize)]) -> Self {
        self.inplace.extend_from_slice(pairs);
        self
    }

    /// Every input has the type and shape of the first that is given, and so has every output.
    pub fn identical_type_and_shape(mut self) -> Self {
        self.identical = true;
        self
    }

    /// Says which input's memory order the outputs keep; `None` gives row-major outputs.
    pub fn keeps_layout_of(mut self, input: Option<usize>) -> Self {
        self.layout_of = input;
        self
    }

    /// Names the ONNX operator of the same meaning.
    pub fn inherit_onnx_schema(mut self, name: &str) -> Self {
        self.onnx = Some(name.into());
        self
    }

    /// Limits the element types.
    pub fn dtypes(mut self, dtypes: &[DType]) -> Self {
        self.dtypes = dtypes.to_vec();
        self
    }

    /// Adds calls that show what the operator does; tests of every kind run them.
    pub fn examples(mut self, examples: impl IntoIterator<Item = Example>) -> Self {
        self.examples.extend(examples);
        self
    }

    /// Sets how output types follow from input types and arguments.
    pub fn tensor_inference_function(
        mut self,
        infer: impl Fn(&Signature<'_>) -> Result<OutputTypes> + Send + Sync + 'static,
    ) -> Self {
        self.infer = Some(Arc::new(infer));
        self
    }

    /// Sets what a call costs; inputs read once and outputs written once where this is left out.
    pub fn cost_inference_function(
        mut self,
        cost: impl Fn(&Signature<'_>, &[TensorType]) -> Result<OpCost> + Send + Sync + 'static,
    ) -> Self {
        self.cost = Some(Arc::new(cost));
        self
    }

    /// Says in words what `cost_inference_function` computes, for whoever reads the schema.
    pub fn cost_formula(mut self, formula: &str) -> Self {
        self.cost_formula = Some(formula.into());
        self
    }

    /// What a call costs, in words.
    pub fn cost_in_words(&self) -> &str {
        match (&self.cost_formula, &self.cost) {
            (Some(formula), _) => formula,
            (None, Some(_)) => "what the cost function computes",
            (None, None) => "no flops; each input is read once and each output written once",
        }
    }

    /// Why the schema itself cannot be registered, if it cannot.
    pub fn validate(&self) -> Result<()> {
        let refuse = |what: &str, got: &str, takes: &str| Err(Error::argument(&self.name, what, got, takes));
        if self.name.is_empty() || !self.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.') {
            return refuse("name", &format!("{:?}", self.name), "ASCII letters, digits, '_' and '.'");
        }
        if self.outputs.is_empty() {
            return refuse("outputs", "none", "at least one");
        }
        if !self.identical && self.infer.is_none() {
            return refuse("inference", "none", "identical_type_and_shape or a tensor_inference_function");
        }
        if self.identical && self.inputs.is_empty() {
            return refuse("inputs", "none", "at least one, whose type and shape are identical");
        }
        if self.variadic && self.inputs.is_empty() {
            return refuse("variadic", "no inputs", "at least one, of which the last may be repeated");
        }
        if self.inplace.iter().any(|&(input, output)| input >= self.inputs.len() || output >= self.outputs.len()) {
            return refuse("allow_inplace", &format!("{:?}", self.inplace), "places of inputs and outputs");
        }
        for spec in &self.args {
            if ["device", "out", "name"].contains(&spec.name.as_str()) {
                return refuse("args", &spec.name, "names other than the reserved device, out and name");
            }
        }
        Ok(())
    }

    /// The specification of an input; a variadic operator's last one serves all that follow.
    pub fn input_spec(&self, index: usize) -> &InputSpec {
        &self.inputs[index.min(self.inputs.len() - 1)]
    }

    /// Checks named arguments and fills in defaults.
    pub fn resolve_args(&self, named: impl IntoIterator<Item = (impl AsRef<str>, ArgValue)>) -> Result<Args> {
        Args::from_named(&self.name, &self.args, named)
    }

    /// The types of the outputs, nothing computed.
    pub fn infer(&self, inputs: &[Option<&TensorType>], args: &Args) -> Result<OutputTypes> {
        self.check_arity(inputs.len(), |index| inputs[index].is_some())?;
        self.check_dtypes(inputs)?;
        self.check_sizes(inputs)?;
        let signature = Signature { operator: &self.name, inputs, args };
        let outputs = match &self.infer {
            Some(infer) => infer(&signature)?,
            None => self.infer_identical(inputs)?,
        };
        // A surplus output would be memory that no kernel writes.
        if outputs.is_empty() || outputs.len() > self.outputs.len() {
            let takes = format!("{}, one for each output", self.outputs.len());
            return Err(Error::argument(&self.name, "infer", format!("{} types", outputs.len()), takes));
        }
        // Beside a length of zero an input's others may be of any size, and so may an output's then.
        let describable = inputs.iter().flatten().all(|input| input.shape.is_addressable(input.dtype));
        for (spec, output) in self.outputs.iter().zip(&outputs) {
            let checked = describable || !output.shape.contains(&0);
            if checked && !output.shape.is_addressable(output.dtype) {
                return Err(Error::shape(&self.name, &spec.name, &output.shape, "a size below 2^63 bytes"));
            }
        }
        Ok(outputs)
    }

    /// The types of outputs that are like the inputs.
    fn infer_identical(&self, inputs: &[Option<&TensorType>]) -> Result<OutputTypes> {
        let mut given = inputs.iter().enumerate().filter_map(|(index, input)| Some((index, (*input)?)));
        let Some((place, first)) = given.next() else {
            let takes = "at least one, whose type and shape are the outputs'";
            return Err(Error::argument(&self.name, "inputs", "none", takes));
        };
        if let Some((index, other)) = given.find(|(_, other)| other.shape != first.shape) {
            let takes = format!("{}, the shape of {}", first.shape, self.input_spec(place).name);
            return Err(Error::shape(&self.name, &self.input_spec(index).name, &other.shape, takes));
        }
        Ok(self.outputs.iter().map(|_| first.clone()).collect())
    }

    /// What a call costs, nothing computed.
    pub fn cost(&self, inputs: &[Option<&TensorType>], args: &Args) -> Result<OpCost> {
        let outputs = self.infer(inputs, args)?;
        match &self.cost {
            Some(cost) => cost(&Signature { operator: &self.name, inputs, args }, &outputs),
            None => Ok(self.traffic(inputs, &outputs)),
        }
    }

    /// The memory traffic of reading every input that has values and writing every output, once.
    pub fn traffic(&self, inputs: &[Option<&TensorType>], outputs: &[TensorType]) -> OpCost {
        let read = inputs.iter().enumerate().filter(|(index, _)| !self.input_spec(*index).shape_only);
        OpCost {
            flops: 0,
            bytes_read: read
                .flat_map(|(_, input)| input)
                .fold(0, |sum, input| sum.saturating_add(input.bytes() as u64)),
            bytes_written: outputs.iter().fold(0, |sum, output| sum.saturating_add(output.bytes() as u64)),
        }
    }

    /// Checks a whole call, before anything is allocated or written: arity, dtypes, shapes, devices, and
    /// the outputs that the caller gave. Returns the device and the types of all outputs.
    pub fn check(
        &self,
        inputs: &[Option<&Parts>],
        outputs: &[Option<&Parts>],
        args: &Args,
    ) -> Result<(Device, OutputTypes)> {
        // Pushed one by one: for so few, collecting takes longer.
        let mut types: SmallVec<[Option<&TensorType>; 4]> = SmallVec::new();
        for input in inputs {
            types.push(input.map(|parts| &parts.kind));
        }
        let inferred = self.infer(&types, args)?;
        let device = self.check_devices(inputs)?;
        if !outputs.is_empty() {
            self.check_outputs(inputs, outputs, &inferred, device)?;
        }
        Ok((device, inferred))
    }

    /// The strides an output gets when it is allocated for the caller.
    pub fn output_strides(&self, inputs: &[Option<&Parts>], output: &TensorType) -> Strides {
        let like = self.layout_of.and_then(|index| inputs.get(index).copied().flatten());
        match like {
            Some(like) if like.shape().len() == output.shape.len() => {
                output.shape.strides_like(&like.strides, output.dtype)
            }
            _ => output.shape.row_major_strides(output.dtype),
        }
    }

    /// Refuses a number of inputs that the schema does not take, and a required one that is not `present`. The rule
    /// for calls and for definitions alike: inputs may be left out at the end, behind the last required one.
    pub fn check_arity(&self, count: usize, present: impl Fn(usize) -> bool) -> Result<()> {
        let required = self.inputs.iter().rposition(|input| !input.optional).map_or(0, |last| last + 1);
        if count < required || (count > self.inputs.len() && !self.variadic) {
            let names: Vec<&str> = self.inputs.iter().map(|input| input.name.as_str()).collect();
            let more = if self.variadic { ", ..." } else { "" };
            let takes = format!("{}{more}", names.join(", "));
            return Err(Error::argument(&self.name, "inputs", count, takes));
        }
        for index in 0..count {
            let spec = self.input_spec(index);
            if !spec.optional && !present(index) {
                return Err(Error::argument(&self.name, &spec.name, "nothing", "a tensor: this input is required"));
            }
        }
        Ok(())
    }

    fn check_dtypes(&self, inputs: &[Option<&TensorType>]) -> Result<()> {
        let mut common: Option<(DType, &str)> = None;
        for (index, input) in inputs.iter().enumerate() {
            let (spec, Some(input)) = (self.input_spec(index), input) else { continue };
            let refuse = |takes: String| Err(Error::dtype(&self.name, &spec.name, input.dtype, takes));
            if spec.dtype == InputDType::Any {
                continue;
            }
            if !self.dtypes.contains(&input.dtype) {
                let names: Vec<&str> = self.dtypes.iter().map(|dtype| dtype.name()).collect();
                return refuse(names.join(", "));
            }
            let Some((dtype, of)) = common else {
                if spec.dtype == InputDType::Common {
                    common = Some((input.dtype, &spec.name));
                }
                continue;
            };
            let fits =
                input.dtype == dtype || (spec.dtype == InputDType::CommonOrFloat32 && input.dtype == dtype.compute());
            if !fits {
                return refuse(match spec.dtype {
                    InputDType::CommonOrFloat32 if dtype.size() == 2 => {
                        format!("{dtype}, the type of {of}, or float32")
                    }
                    _ => format!("{dtype}, the type of {of}"),
                });
            }
        }
        Ok(())
    }

    /// Refuses shapes that no memory holds: inference is also asked about shapes without a tensor.
    fn check_sizes(&self, inputs: &[Option<&TensorType>]) -> Result<()> {
        for (index, input) in inputs.iter().enumerate() {
            if let Some(input) = input.filter(|input| input.shape.checked_elements(input.dtype).is_none()) {
                let name = &self.input_spec(index).name;
                return Err(Error::shape(&self.name, name, &input.shape, "a size below 2^63 bytes"));
            }
        }
        Ok(())
    }

    fn check_devices(&self, inputs: &[Option<&Parts>]) -> Result<Device> {
        let mut device: Option<Device> = None;
        for (index, input) in inputs.iter().enumerate() {
            let Some(input) = input else { continue };
            match device {
                None => device = Some(input.device),
                Some(device) if device != input.device => {
                    return Err(Error::Device {
                        device: input.device.to_string(),
                        reason: format!(
                            "{}: {} is there, other inputs are on {device}",
                            self.name,
                            self.input_spec(index).name
                        ),
                    });
                }
                Some(_) => {}
            }
        }
        Ok(device.unwrap_or_default())
    }

    fn check_outputs(
        &self,
        inputs: &[Option<&Parts>],
        outputs: &[Option<&Parts>],
        inferred: &[TensorType],
        device: Device,
    ) -> Result<()> {
        if outputs.len() > inferred.len() {
            return Err(Error::argument(&self.name, "out", outputs.len(), format!("{} outputs", inferred.len())));
        }
        for (place, (output, kind)) in outputs.iter().zip(inferred).enumerate() {
            let (name, Some(output)) = (&self.outputs[place].name, output) else { continue };
            if output.device != device {
                let reason = format!("{}: the output {name} is there, inputs are on {device}", self.name);
                return Err(Error::Device { device: output.device.to_string(), reason });
            }
            if output.kind.dtype != kind.dtype {
                return Err(Error::dtype(&self.name, format!("out ({name})"), output.kind.dtype, kind.dtype));
            }
            if output.kind.shape != kind.shape {
                return Err(Error::shape(&self.name, format!("out ({name})"), &output.kind.shape, &kind.shape));
            }
            if may_self_overlap(&output.kind.shape, &output.strides, kind.dtype.size()) {
                let takes = "an array whose elements have memory of their own";
                return Err(Error::argument(&self.name, format!("out ({name})"), "elements that share memory", takes));
            }
            for (index, input) in inputs.iter().enumerate() {
                let Some(input) = input.filter(|input| input.may_overlap(output)) else { continue };
                let spec = self.input_spec(index);
                if !(spec.shape_only || (self.inplace.contains(&(index, place)) && input.is_same_memory(output))) {
                    let got = format!("memory that overlaps the input {}", spec.name);
                    let takes = match self.inplace.contains(&(index, place)) {
                        true => "either that very array, in place, or memory of its own",
                        false => "memory of its own",
                    };
                    return Err(Error::argument(&self.name, format!("out ({name})"), got, takes));
                }
            }
            if outputs[..place].iter().flatten().any(|other| other.may_overlap(output)) {
                return Err(Error::argument(
                    &self.name,
                    format!("out ({name})"),
                    "memory of another output",
                    "memory of its own",
                ));
            }
        }
        Ok(())
    }
}
