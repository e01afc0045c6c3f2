//! A gradient is a list of operator definitions. Whoever runs nets, a tape or torch's autograd asks
//! here and has no derivative of its own.

use std::fmt;
use std::sync::Arc;

use crate::args::Args;
use crate::definition::OperatorDef;
use crate::error::{Error, Result};

/// What a gradient maker is given.
pub struct GradientRequest<'a> {
    /// The forward definition, with every input and output named.
    pub def: &'a OperatorDef,
    /// Its arguments, checked and complete.
    pub args: &'a Args,
    /// The blob that holds each output's gradient; `None` stands for a gradient of zero.
    pub output_gradients: &'a [Option<String>],
}

impl GradientRequest<'_> {
    /// The name of an input; empty where it is omitted.
    pub fn input(&self, index: usize) -> &str {
        self.def.inputs.get(index).map_or("", String::as_str)
    }

    /// The name of an output; empty where it is unwanted.
    pub fn output(&self, index: usize) -> &str {
        self.def.outputs.get(index).map_or("", String::as_str)
    }

    /// The name of an output's gradient; empty where there is none, as for an omitted input.
    pub fn output_gradient(&self, index: usize) -> &str {
        self.output_gradients.get(index).and_then(|name| name.as_deref()).unwrap_or("")
    }

    /// The name that the gradient of an input gets; a blob that is read twice has two.
    pub fn input_gradient(&self, index: usize) -> String {
        let name = self.input(index);
        match self.def.inputs[..index.min(self.def.inputs.len())].iter().any(|earlier| earlier == name) {
            true => format!("{name}_grad_{index}"),
            false => format!("{name}_grad"),
        }
    }

    /// Whether an output and an input are the same blob, so that the input's value is gone.
    pub fn is_inplace(&self, input: usize, output: usize) -> bool {
        !self.input(input).is_empty() && self.input(input) == self.output(output)
    }
}

/// The backward definitions of one forward definition.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GradientDefs {
    /// What to run, in order.
    pub operators: Vec<OperatorDef>,
    /// For each forward input the blob that then holds its gradient; `None` where it is zero.
    pub input_gradients: Vec<Option<String>>,
}

/// Writes the backward definitions of an operator. Closures serve too.
pub trait GradientMaker: Send + Sync {
    /// The definitions for one forward definition; never in-place forms. At least one output has a gradient.
    fn get_gradient_defs(&self, request: &GradientRequest<'_>) -> Result<GradientDefs>;
}

impl<F> GradientMaker for F
where
    F: Fn(&GradientRequest<'_>) -> Result<GradientDefs> + Send + Sync,
{
    fn get_gradient_defs(&self, request: &GradientRequest<'_>) -> Result<GradientDefs> {
        self(request)
    }
}

/// What the registry knows of an operator's gradient: four different answers.
#[derive(Clone)]
pub enum Gradient {
    /// Made by this maker.
    Defined(Arc<dyn GradientMaker>),
    /// Zero everywhere: nothing flows back, and that is right.
    NotNeeded,
    /// Asking for it is a mistake, for this reason.
    Forbidden(String),
    /// Nobody has written it.
    NotWritten,
}

impl Gradient {
    /// A defined gradient.
    pub fn defined(maker: impl GradientMaker + 'static) -> Self {
        Gradient::Defined(Arc::new(maker))
    }

    /// The definitions, or the reason why there are none.
    pub fn make(&self, request: &GradientRequest<'_>) -> Result<GradientDefs> {
        let none =
            |reason: &str| Err(Error::NoGradient { operator: request.def.operator.clone(), reason: reason.into() });
        match self {
            // Where no gradient comes in, none goes out: makers need not think of that.
            Gradient::Defined(maker) if request.output_gradients.iter().any(Option::is_some) => {
                maker.get_gradient_defs(request)
            }
            Gradient::Defined(_) | Gradient::NotNeeded => {
                Ok(GradientDefs { operators: vec![], input_gradients: vec![None; request.def.inputs.len()] })
            }
            Gradient::Forbidden(reason) => none(&format!("forbidden: {reason}")),
            Gradient::NotWritten => none("not written: register one with register_gradient"),
        }
    }
}

impl fmt::Display for Gradient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gradient::Defined(_) => f.write_str("defined"),
            Gradient::NotNeeded => f.write_str("not needed"),
            Gradient::Forbidden(reason) => write!(f, "forbidden: {reason}"),
            Gradient::NotWritten => f.write_str("not written"),
        }
    }
}
