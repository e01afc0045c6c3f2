//! One call: borrow, check, allocate, release the interpreter, compute, hand out.

use std::sync::{Arc, Mutex};

use firelu_guarded::guarded;
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString, PyTuple};
use smallvec::SmallVec;

use super::arguments::arg_value;
use super::errors::{self, raise};
use super::foreign::{self, Given, Setting};
use super::interop::{device::Foreign, import};
use super::tensor::PyTensor;
use super::{arrays, autograd, entry};
use crate::core::args::{ARGS_IN_PLACE, ArgValue, Args};
use crate::core::device::{Device, Stream};
use crate::core::dtype::DType;
use crate::core::operator::Operator;
use crate::core::schema::OpSchema;
use crate::core::shape::Strides;
use crate::core::tensor::{Parts, TensorType};
use crate::{devices, registry};

/// The arguments of an operator's last call, as given and as checked: most calls repeat them. They are known
/// again by the identity of each object, or of a tuple's items, all of which are of types that never change.
#[derive(Default)]
pub struct RecentArgs(Mutex<Option<(GivenArgs, Arc<Args>)>>);

type GivenArgs = SmallVec<[Py<PyAny>; ARGS_IN_PLACE]>;

impl RecentArgs {
    /// The checked arguments, if these very objects are those of the last call.
    pub fn known<'a, 'py: 'a>(
        &self,
        mut given: impl ExactSizeIterator<Item = Borrowed<'a, 'py, PyAny>>,
    ) -> Option<Arc<Args>> {
        let recent = self.0.try_lock().ok()?;
        let (known, args) = recent.as_ref()?;
        let same = known.len() == given.len()
            && known.iter().all(|known| given.next().is_some_and(|given| same(known, given)));
        same.then(|| args.clone())
    }

    /// The checked arguments, given in the schema's order.
    pub fn check(&self, schema: &OpSchema, given: &[Bound<'_, PyAny>]) -> PyResult<Arc<Args>> {
        if let Some(args) = self.known(given.iter().map(Bound::as_borrowed)) {
            return Ok(args);
        }
        let args = positional_args(schema, given)?;
        self.remember(given, &args);
        Ok(args)
    }

    fn remember(&self, given: &[Bound<'_, PyAny>], args: &Arc<Args>) {
        if given.iter().all(never_changes)
            && let Ok(mut recent) = self.0.try_lock()
        {
            *recent = Some((given.iter().map(|value| value.clone().unbind()).collect(), args.clone()));
        }
    }
}

/// Whether these are the same object, or tuples of the same objects.
fn same(known: &Py<PyAny>, given: Borrowed<'_, '_, PyAny>) -> bool {
    if known.is(given) {
        return true;
    }
    match (known.bind_borrowed(given.py()).cast_exact::<PyTuple>(), given.cast_exact::<PyTuple>()) {
        (Ok(known), Ok(given)) => {
            known.len() == given.len() && known.iter_borrowed().zip(given.iter_borrowed()).all(|(a, b)| a.is(b))
        }
        _ => false,
    }
}

/// Whether a value is of a type that never changes: a number, a text, or a tuple of them.
fn never_changes(value: &Bound<'_, PyAny>) -> bool {
    let is_constant = |value: Borrowed<'_, '_, PyAny>| {
        value.is_exact_instance_of::<PyInt>()
            || value.is_exact_instance_of::<PyFloat>()
            || value.is_exact_instance_of::<PyBool>()
            || value.is_exact_instance_of::<PyString>()
    };
    match value.cast_exact::<PyTuple>() {
        Ok(tuple) => tuple.iter_borrowed().all(is_constant),
        Err(_) => is_constant(value.as_borrowed()),
    }
}

/// Checks arguments in the schema's order.
fn positional_args(schema: &OpSchema, given: &[Bound<'_, PyAny>]) -> PyResult<Arc<Args>> {
    let mut values: SmallVec<[ArgValue; ARGS_IN_PLACE]> = SmallVec::new();
    for (index, value) in given.iter().enumerate() {
        values.push(match schema.args.get(index) {
            Some(spec) => arg_value(&schema.name, &spec.name, Some(spec), value)?,
            None => arg_value(&schema.name, "arguments", None, value)?,
        });
    }
    Ok(Arc::new(Args::from_positional(&schema.name, &schema.args, values).map_err(raise)?))
}

/// An operator, looked up once and called many times.
#[pyclass(frozen, module = "firelu._firelu", name = "BoundOperator")]
pub struct BoundOperator {
    operator: Arc<Operator>,
    /// Brings the arguments into the schema's order, where they are given in another form.
    expand: Option<Py<PyAny>>,
    recent: RecentArgs,
}

#[guarded]
#[pymethods]
impl BoundOperator {
    /// Look an operator up by name.
    #[new]
    #[pyo3(signature = (name, expand=None))]
    fn new(name: &str, expand: Option<Py<PyAny>>) -> PyResult<Self> {
        let operator = registry::find(name).map_err(raise)?;
        Ok(BoundOperator { operator, expand, recent: RecentArgs::default() })
    }

    /// Run on `inputs` (`None` where omitted), with arguments in the schema's order, or as `expand` takes them.
    #[pyo3(signature = (inputs, args, out=None))]
    fn run<'py>(
        &self,
        inputs: &Bound<'py, PyTuple>,
        args: &Bound<'py, PyTuple>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let args = match self.recent.known(args.iter_borrowed()) {
            Some(args) => args,
            None => self.check(args)?,
        };
        run(&self.operator, inputs, &args, out)
    }
}

impl BoundOperator {
    /// Checks arguments that are not those of the last call.
    fn check(&self, given: &Bound<'_, PyTuple>) -> PyResult<Arc<Args>> {
        let expanded = match &self.expand {
            Some(expand) => entry::call(expand.bind(given.py()), given, None)?.cast_into::<PyTuple>()?,
            None => given.clone(),
        };
        let args = positional_args(&self.operator.schema, &expanded.iter().collect::<SmallVec<[_; ARGS_IN_PLACE]>>())?;
        self.recent.remember(&given.iter().collect::<SmallVec<[_; ARGS_IN_PLACE]>>(), &args);
        Ok(args)
    }
}

/// Runs an operator by name; keyword arguments are the operator's.
#[guarded]
#[pyfunction]
#[pyo3(signature = (name, *inputs, device=None, out=None, **args))]
fn run_operator<'py>(
    py: Python<'py>,
    name: &str,
    inputs: &Bound<'py, PyTuple>,
    device: Option<&str>,
    out: Option<&Bound<'py, PyAny>>,
    args: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let operator = registry::find(name).map_err(raise)?;
    let args = named_args(&operator, args)?;
    let Some(device) = device else { return run(&operator, inputs, &args, out) };
    let device: Device = device.parse().map_err(raise)?;
    let moved =
        inputs.iter().map(|input| if input.is_none() { Ok(input) } else { super::tensor::to_device(&input, device) });
    run(&operator, &PyTuple::new(py, moved.collect::<PyResult<Vec<_>>>()?)?, &args, out)
}

/// Checks keyword arguments against the schema and fills in defaults.
pub fn named_args(operator: &Operator, args: Option<&Bound<'_, PyDict>>) -> PyResult<Args> {
    let schema = &operator.schema;
    let mut named: SmallVec<[(String, ArgValue); ARGS_IN_PLACE]> = SmallVec::new();
    for (name, value) in args.into_iter().flatten() {
        let name: String = name.extract()?;
        let spec = schema.args.iter().find(|spec| spec.name == name);
        let value = arg_value(&schema.name, &name, spec, &value)?;
        named.push((name, value));
    }
    schema.resolve_args(named).map_err(raise)
}

/// A tensor on its way in or out: the object that keeps its memory.
struct Held<'py> {
    owner: Bound<'py, PyAny>,
    memory: Memory,
    /// What other libraries have lent for the call.
    foreign: Option<Foreign>,
}

/// Where an object's memory is.
enum Memory {
    /// There, as long as the object lives.
    Fixed(Parts),
    /// Where numpy says: an array can be resized by any Python code, so it is asked when all others are converted.
    Array(DType),
}

impl<'py> Held<'py> {
    fn is_tensor(&self) -> bool {
        matches!(self.memory, Memory::Fixed(_))
    }

    fn array(&self) -> &Bound<'py, PyUntypedArray> {
        self.owner.cast().expect("an array was held")
    }

    fn parts(&self) -> Parts {
        match &self.memory {
            Memory::Fixed(parts) => parts.clone(),
            Memory::Array(dtype) => arrays::parts_of(self.array(), *dtype),
        }
    }

    /// Whether its memory is still what these parts say.
    fn is_still(&self, parts: &Parts) -> bool {
        match &self.memory {
            Memory::Fixed(_) => true,
            Memory::Array(_) => arrays::is_at(self.array(), parts),
        }
    }
}

fn hold<'py>(operator: &Operator, index: usize, object: Bound<'py, PyAny>) -> PyResult<Option<Held<'py>>> {
    if object.is_none() {
        return Ok(None);
    }
    if let Ok(tensor) = object.cast::<PyTensor>() {
        let memory = Memory::Fixed(tensor.get().parts());
        return Ok(Some(Held { owner: object, memory, foreign: None }));
    }
    if let Some(foreign) = hold_foreign(&object)? {
        return Ok(Some(foreign));
    }
    let schema = &operator.schema;
    let argument = if schema.inputs.is_empty() { "inputs" } else { &schema.input_spec(index).name };
    arrays::refuse_other_libraries(&schema.name, argument, &object)?;
    let (array, dtype) = arrays::as_float_array(&schema.name, argument, &object)?;
    Ok(Some(Held { owner: array.into_any(), memory: Memory::Array(dtype), foreign: None }))
}

/// Device memory of another library, used where it is; arrays of numpy are not asked.
fn hold_foreign<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Held<'py>>> {
    if object.is_instance_of::<PyUntypedArray>() {
        return Ok(None);
    }
    let Some(foreign) = import::foreign(object)? else { return Ok(None) };
    let memory = Memory::Fixed((*foreign.tensor.view()).clone());
    Ok(Some(Held { owner: object.clone(), memory, foreign: Some(foreign) }))
}

/// The caller's outputs: nothing, one, or a tuple with `None` where a new one is wanted.
fn hold_outputs<'py>(
    operator: &Operator,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<SmallVec<[Option<Held<'py>>; 2]>> {
    let Some(out) = out.filter(|out| !out.is_none()) else { return Ok(SmallVec::new()) };
    let objects: SmallVec<[Bound<'py, PyAny>; 2]> = match out.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) if operator.schema.outputs.len() == 1 => std::iter::once(out.clone()).collect(),
        Err(_) => {
            let (name, count) = (&operator.schema.name, operator.schema.outputs.len());
            let message =
                format!("{name}: out: got one object, takes a tuple of {count}, None where a new array is wanted");
            return Err(errors::new(out.py(), "ArgumentError", message));
        }
    };
    objects.into_iter().map(|object| hold_output(operator, object)).collect()
}

fn hold_output<'py>(operator: &Operator, object: Bound<'py, PyAny>) -> PyResult<Option<Held<'py>>> {
    let py = object.py();
    let refuse = |class: &str, got: &str, takes: &str| {
        Err(errors::new(py, class, format!("{}: out: got {got}, takes {takes}", operator.schema.name)))
    };
    if object.is_none() {
        return Ok(None);
    }
    if let Ok(tensor) = object.cast::<PyTensor>() {
        autograd::check_writable(&operator.schema.name, tensor.get(), py)?;
        let memory = Memory::Fixed(tensor.get().parts());
        return Ok(Some(Held { owner: object, memory, foreign: None }));
    }
    if let Some(held) = hold_foreign(&object)? {
        if held.foreign.as_ref().is_some_and(|foreign| foreign.read_only) {
            return refuse("ArgumentError", "memory that its owner marks as read-only", "some that can be written to");
        }
        return Ok(Some(held));
    }
    let Ok(array) = object.cast::<PyUntypedArray>().cloned() else {
        let got = object.get_type().name()?.to_string();
        return refuse("ArgumentError", &got, "a numpy array, a firelu.Tensor or None");
    };
    let dtype = match arrays::dtype_of(&array) {
        Some((dtype, true)) => dtype,
        _ => {
            let got = numpy::PyUntypedArrayMethods::dtype(&array).to_string();
            return refuse("DTypeError", &got, "float16, bfloat16, float32 or float64 in the machine's byte order");
        }
    };
    if !arrays::is_writeable(&array) {
        return refuse("ArgumentError", "a read-only array", "one that can be written to");
    }
    Ok(Some(Held { owner: object, memory: Memory::Array(dtype), foreign: None }))
}

/// Runs a looked-up operator. Tensors in give tensors out, recorded where they require a gradient; arrays
/// give arrays.
pub fn run<'py>(
    operator: &Operator,
    inputs: &Bound<'py, PyTuple>,
    args: &Args,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = inputs.py();
    if inputs.iter_borrowed().any(|input| input.is_instance_of::<PyTensor>()) {
        match out.filter(|out| !out.is_none()) {
            None => return autograd::run(operator, inputs, args),
            Some(_) => autograd::refuse_recording(&operator.schema.name, inputs)?,
        }
    }
    // Every operand is converted before the first address is taken: converting may run any Python code.
    let mut held: SmallVec<[Option<Held<'py>>; 4]> = SmallVec::new();
    for (index, object) in inputs.iter().enumerate() {
        held.push(hold(operator, index, object)?);
    }
    let given = hold_outputs(operator, out)?;
    let mut memory: SmallVec<[Option<Parts>; 6]> = SmallVec::new();
    for held in held.iter().chain(&given) {
        memory.push(held.as_ref().map(Held::parts));
    }
    let mut parts: SmallVec<[Option<&Parts>; 6]> = SmallVec::new();
    for memory in &memory {
        parts.push(memory.as_ref());
    }
    let (parts, given_parts) = parts.split_at(held.len());
    let checked = operator.check(parts, given_parts, args).map_err(raise)?;

    let as_tensors = checked.device != Device::Cpu || held.iter().flatten().any(Held::is_tensor);
    let mut given_out = given.into_iter();
    let mut results: SmallVec<[Held<'py>; 2]> = SmallVec::new();
    let mut targets: SmallVec<[Parts; 2]> = SmallVec::new();
    for (place, kind) in checked.outputs.iter().enumerate() {
        let (result, target) = match (given_out.next().flatten(), given_parts.get(place).copied().flatten()) {
            (Some(held), Some(parts)) => (held, parts.clone()),
            _ => allocate(py, checked.device, kind, &checked.strides(parts, kind), as_tensors)?,
        };
        results.push(result);
        targets.push(target);
    }
    let mut outputs: SmallVec<[Option<&Parts>; 2]> = SmallVec::new();
    for target in &targets {
        outputs.push(Some(target));
    }
    // A user's inference, or a destructor, may have run since.
    let inputs_now = held.iter().flatten().zip(parts.iter().copied().flatten());
    if !inputs_now.chain(results.iter().zip(&targets)).all(|(held, parts)| held.is_still(parts)) {
        let got = "an array that was resized while the call was prepared";
        let message = format!("{}: inputs: got {got}, takes arrays that stay as they are", operator.schema.name);
        return Err(errors::new(py, "ArgumentError", message));
    }
    let arrays = || results.iter().zip(&targets).filter(|(held, _)| !held.is_tensor());
    let _given = out.map(|_| Given::new(arrays().map(|(held, parts)| (held.owner.clone().unbind(), parts.clone()))));
    // SAFETY: the objects in `held` and `results` stay alive to the end of this function and own the
    // memory that their parts describe, which kernels in Python make sure of before they write; `check` refused outputs
    // that share memory among themselves or with an input, except in place.
    let done = unsafe { foreign::compute(py, &checked, parts, &outputs, args, Setting::default()) };
    // Also where it failed: some of it may be on its way.
    let mut told: SmallVec<[Stream; 2]> = SmallVec::new();
    for lent in held.iter().flatten().chain(&results).filter_map(|held| held.foreign.as_ref()) {
        if let Some(stream) = lent.stream.filter(|stream| !told.contains(stream)) {
            lent.give_back().map_err(raise)?;
            told.push(stream);
        }
    }
    done?;

    if results.len() == 1 {
        return Ok(results.pop().expect("one result").owner);
    }
    Ok(PyTuple::new(py, results.into_iter().map(|held| held.owner))?.into_any())
}

fn allocate<'py>(
    py: Python<'py>,
    device: Device,
    kind: &TensorType,
    strides: &Strides,
    as_tensor: bool,
) -> PyResult<(Held<'py>, Parts)> {
    if as_tensor {
        let tensor = devices::allocate(device, kind.clone(), strides.clone()).map_err(raise)?;
        let owner = Bound::new(py, PyTensor::from(tensor))?;
        let parts = owner.get().parts();
        let memory = Memory::Fixed(parts.clone());
        return Ok((Held { owner: owner.into_any(), memory, foreign: None }, parts));
    }
    let array = arrays::new_array(py, kind, strides)?;
    let parts = arrays::parts_of(&array, kind.dtype);
    Ok((Held { owner: array.into_any(), memory: Memory::Array(kind.dtype), foreign: None }, parts))
}

/// Whether the user asked to stop. The exception stays pending in this thread for [`raise`].
pub fn interrupted() -> bool {
    entry::try_attach(|py| match py.check_signals() {
        Ok(()) => false,
        Err(error) => {
            error.restore(py);
            true
        }
    })
    .unwrap_or(false)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<BoundOperator>()?;
    module.add_function(wrap_pyfunction!(run_operator, module)?)
}
