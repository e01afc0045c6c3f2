//! The registry: the built-in operators with their kernels, and what users add at run time.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use crate::core::args::{ArgValue, Args};
use crate::core::definition::OperatorDef;
use crate::core::error::{Error, Result};
use crate::core::gradient::{Gradient, GradientDefs, GradientMaker, GradientRequest};
use crate::core::names;
use crate::core::operator::{Call, Kernel, Operator};
use crate::core::schema::OpSchema;
use crate::core::tensor::Tensor;
use crate::devices::cpu::fork;
#[cfg(feature = "cuda")]
use crate::devices::cuda::{copy, modules::Module};
use crate::operators::{self, FAMILIES};

type Table = HashMap<String, Arc<Operator>>;

/// Every built-in operator.
fn built_in() -> impl Iterator<Item = Operator> {
    FAMILIES.iter().flat_map(|family| (family.operators)())
}

/// The table. Looked at and changed in steady sections alone, so that the child of a fork finds it whole and open.
fn table() -> &'static RwLock<Table> {
    static TABLE: OnceLock<RwLock<Table>> = OnceLock::new();
    fork::once(&TABLE, || {
        RwLock::new(built_in().map(|operator| (operator.schema.name.clone(), Arc::new(operator))).collect())
    })
}

// A panic while the lock is held cannot leave the table half-changed: each write is one insertion.
fn read<R>(look: impl FnOnce(&Table) -> R) -> R {
    let table = table();
    fork::steady(|| look(&table.read().unwrap_or_else(PoisonError::into_inner)))
}

fn write<R>(change: impl FnOnce(&mut Table) -> R) -> R {
    let table = table();
    fork::steady(|| change(&mut table.write().unwrap_or_else(PoisonError::into_inner)))
}

/// The operator of a name.
pub fn find(name: &str) -> Result<Arc<Operator>> {
    read(|table| table.get(name).cloned()).ok_or_else(|| unknown(name))
}

#[cold]
fn unknown(name: &str) -> Error {
    let nearest = names::nearest(name, names().iter().map(String::as_str));
    Error::UnknownOperator { name: name.into(), nearest }
}

/// Whether a name is one of firelu's own operators, whose gradients are not for users to change but by an override.
pub fn is_built_in(name: &str) -> bool {
    static NAMES: OnceLock<HashSet<String>> = OnceLock::new();
    fork::once(&NAMES, || built_in().map(|operator| operator.schema.name).collect()).contains(name)
}

/// Every registered name, sorted.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = read(|table| table.keys().cloned().collect());
    names.sort();
    names
}

/// The PTX of every CUDA kernel that ships: the device's own, and each operator folder's.
#[cfg(feature = "cuda")]
pub fn cuda_modules() -> impl Iterator<Item = &'static Module> {
    std::iter::once(&copy::MODULE).chain(FAMILIES.iter().map(|family| family.module))
}

/// Runs an operator by name on the device its inputs are on, into new tensors.
pub fn run(
    name: &str,
    inputs: &[Option<&Tensor>],
    args: impl IntoIterator<Item = (impl AsRef<str>, ArgValue)>,
) -> Result<Vec<Tensor>> {
    let operator = find(name)?;
    let args = operator.schema.resolve_args(args)?;
    operators::run_on_device(&operator, inputs, &args)
}

/// Which path the CPU uses for a call, in a sentence; none where an operator has one path for all. Nothing is computed.
pub fn explain(operator: &Operator, inputs: &[Option<&Tensor>], args: &Args) -> Result<Option<String>> {
    let Some(explain) = operator.explain else { return Ok(None) };
    // The call is checked and its outputs are allocated as ever; then the kernel explains instead of computing.
    let sentence = Arc::new(Mutex::new(None));
    let answer = sentence.clone();
    let mut explaining = operator.clone();
    explaining.cpu = Some(Arc::new(move |call: &Call<'_>| {
        *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(explain(call)?);
        Ok(())
    }));
    operators::run_on_device(&explaining, inputs, args)?;
    let mut sentence = sentence.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(sentence.take())
}

/// Registers an operator of your own. A name that is in use is refused.
pub fn register(operator: Operator) -> Result<()> {
    operator.schema.validate()?;
    let (name, operator) = (operator.schema.name.clone(), Arc::new(operator));
    let is_new = write(|table| match table.entry(name.clone()) {
        Entry::Occupied(_) => false,
        Entry::Vacant(place) => {
            place.insert(operator.clone());
            true
        }
    });
    match is_new {
        true => Ok(()),
        false => {
            Err(Error::argument(&name, "name", "a name that is registered already", "a new name, or replace=True"))
        }
    }
}

/// Registers an operator of the user's own in the place of an earlier one, if there is one: definitions that are run
/// later use it. firelu's own operators are not replaced.
pub fn replace(operator: Operator) -> Result<()> {
    operator.schema.validate()?;
    let name = operator.schema.name.clone();
    if is_built_in(&name) {
        return Err(Error::argument(&name, "name", "the name of a built-in operator", "a name of your own"));
    }
    // The earlier one is let go outside the section: its kernel may be a function of Python's.
    drop(write(|table| table.insert(name, Arc::new(operator))));
    Ok(())
}

/// Registers an operator with its CPU kernel.
pub fn register_cpu_operator(
    schema: OpSchema,
    kernel: impl Fn(&Call<'_>) -> Result<()> + Send + Sync + 'static,
) -> Result<()> {
    register(Operator::new(schema, kernel))
}

/// Adds a CUDA kernel to a registered operator that has none.
pub fn register_cuda_operator(
    name: &str,
    kernel: impl Fn(&Call<'_>) -> Result<()> + Send + Sync + 'static,
) -> Result<()> {
    let kernel: Kernel = Arc::new(kernel);
    change(name, |operator| match operator.cuda {
        Some(_) => Err(Error::argument(name, "kernel", "a second CUDA kernel", "one")),
        None => {
            operator.cuda = Some(kernel.clone());
            Ok(())
        }
    })
}

/// Registers the gradient of an operator. One that is defined, not needed or forbidden stays.
pub fn register_gradient(name: &str, maker: impl GradientMaker + 'static) -> Result<()> {
    set_gradient(name, Gradient::defined(maker))
}

/// As [`register_gradient`], with any of the answers.
pub fn set_gradient(name: &str, gradient: Gradient) -> Result<()> {
    change(name, |operator| match operator.gradient {
        Gradient::NotWritten => {
            operator.gradient = gradient.clone();
            Ok(())
        }
        ref existing => {
            let got = format!("a second gradient, beside one that is {existing}");
            Err(Error::argument(name, "gradient", got, "an operator whose gradient is not written"))
        }
    })
}

/// Replaces an operator by a changed copy, unless another thread has replaced it meanwhile: then once more.
fn change(name: &str, edit: impl Fn(&mut Operator) -> Result<()>) -> Result<()> {
    loop {
        let before = find(name)?;
        let mut changed = (*before).clone();
        edit(&mut changed)?;
        let changed = Arc::new(changed);
        let old = write(|table| match table.get_mut(name) {
            Some(place) if Arc::ptr_eq(place, &before) => Some(std::mem::replace(place, changed)),
            _ => None,
        });
        if old.is_some() {
            return Ok(());
        }
    }
}

/// The backward definitions of a forward definition, given the blobs that hold its outputs' gradients.
pub fn get_gradient_defs(def: &OperatorDef, output_gradients: &[Option<String>]) -> Result<GradientDefs> {
    gradient_of(def, output_gradients, None)
}

/// As [`get_gradient_defs`], with another gradient than the registered one.
pub fn gradient_of(
    def: &OperatorDef,
    output_gradients: &[Option<String>],
    instead: Option<&Gradient>,
) -> Result<GradientDefs> {
    let operator = find(&def.operator)?;
    let schema = &operator.schema;
    if output_gradients.len() != def.outputs.len() {
        let takes = format!("{}, one for each output", def.outputs.len());
        return Err(Error::argument(&def.operator, "output gradients", output_gradients.len(), takes));
    }
    check_names(schema, def)?;
    let args = schema.resolve_args(def.args.iter().map(|(name, value)| (name, value.clone())))?;
    let request = GradientRequest { def, args: &args, output_gradients };
    let defs = instead.unwrap_or(&operator.gradient).make(&request)?;
    if defs.input_gradients.len() != def.inputs.len() {
        let takes = format!("{}, one for each input", def.inputs.len());
        return Err(Error::argument(&def.operator, "input gradients", defs.input_gradients.len(), takes));
    }
    Ok(defs)
}

/// Whether a definition names as many blobs as the schema takes.
pub fn check_names(schema: &OpSchema, def: &OperatorDef) -> Result<()> {
    schema.check_arity(def.inputs.len(), |index| !def.inputs[index].is_empty())?;
    if def.outputs.is_empty() || def.outputs.len() > schema.outputs.len() {
        let names: Vec<&str> = schema.outputs.iter().map(|output| output.name.as_str()).collect();
        return Err(Error::argument(&def.operator, "outputs", def.outputs.len(), names.join(", ")));
    }
    Ok(())
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::cuda_modules;
    use crate::devices::cuda::modules::{CAPABILITY_NEEDED, PTX_VERSION};

    #[test]
    fn every_module_declares_what_drivers_and_devices_are_asked_for() {
        let (major, minor) = CAPABILITY_NEEDED;
        let header = format!(".version {PTX_VERSION}\n.target sm_{major}{minor}\n");
        for module in cuda_modules() {
            assert!(module.text.starts_with(&header), "{}", module.name);
        }
    }

    #[test]
    fn every_module_that_is_compiled_ships() {
        let manifest: serde_json::Value = serde_json::from_str(include_str!("../cuda/ptx/manifest.json")).unwrap();
        let compiled: Vec<&String> = manifest["modules"].as_object().unwrap().keys().collect();
        let mut ships: Vec<&str> = cuda_modules().map(|module| module.name).collect();
        ships.sort_unstable();
        assert_eq!(ships, compiled);
    }
}
