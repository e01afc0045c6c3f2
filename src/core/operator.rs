//! An operator: its schema, its kernel for each device, its gradient.

use std::sync::Arc;

use crate::args::Args;
use crate::device::{Device, Stream};
use crate::error::{Error, Result};
use crate::gradient::Gradient;
use crate::schema::{OpSchema, OutputTypes};
use crate::shape::Strides;
use crate::tensor::{Parts, TensorType, TensorView, TensorViewMut};

/// A call that [`OpSchema::check`] has passed: kernels trust it.
pub struct Call<'a> {
    /// The inputs in the schema's order; `None` where an optional one is omitted.
    pub inputs: &'a [Option<TensorView<'a>>],
    /// The outputs in the schema's order; `None` where the caller does not want one.
    pub outputs: &'a [Option<TensorViewMut<'a>>],
    /// The arguments in the schema's order.
    pub args: &'a Args,
    /// The device's queue to run on.
    pub stream: Stream,
}

impl Call<'_> {
    /// An input that the schema requires.
    pub fn input(&self, index: usize) -> &TensorView<'_> {
        self.inputs[index].as_ref().expect("the schema requires this input")
    }
}

/// What computes the outputs of a checked call.
pub type Kernel = Arc<dyn Fn(&Call<'_>) -> Result<()> + Send + Sync>;

/// Says in a sentence which path the CPU's kernel would take for a call.
pub type Explain = fn(&Call<'_>) -> Result<String>;

/// A call that the schema has passed. Whoever made it allocates the outputs, each in its own kind of memory, and runs it.
pub struct Checked<'a> {
    schema: &'a OpSchema,
    kernel: &'a Kernel,
    /// Where the inputs are and the outputs will be.
    pub device: Device,
    /// The types of the outputs.
    pub outputs: OutputTypes,
}

impl Checked<'_> {
    /// The strides that a new output gets.
    pub fn strides(&self, inputs: &[Option<&Parts>], output: &TensorType) -> Strides {
        self.schema.output_strides(inputs, output)
    }

    /// Computes the outputs.
    pub fn run(&self, call: &Call<'_>) -> Result<()> {
        (self.kernel)(call)
    }
}

/// Everything the registry knows of one name.
#[derive(Clone)]
pub struct Operator {
    /// Its inputs, outputs and arguments.
    pub schema: OpSchema,
    /// How the CPU computes it.
    pub cpu: Option<Kernel>,
    /// How a CUDA device computes it.
    pub cuda: Option<Kernel>,
    /// How its derivative is made.
    pub gradient: Gradient,
    /// Which path the CPU's kernel uses, where it has more than one.
    pub explain: Option<Explain>,
}

impl Operator {
    /// An operator of the CPU whose gradient is not written yet.
    pub fn new(schema: OpSchema, cpu: impl Fn(&Call<'_>) -> Result<()> + Send + Sync + 'static) -> Self {
        Operator { schema, cpu: Some(Arc::new(cpu)), cuda: None, gradient: Gradient::NotWritten, explain: None }
    }

    /// The same operator with a gradient.
    pub fn with_gradient(mut self, gradient: Gradient) -> Self {
        self.gradient = gradient;
        self
    }

    /// The same operator with a CUDA kernel.
    pub fn with_cuda(mut self, kernel: impl Fn(&Call<'_>) -> Result<()> + Send + Sync + 'static) -> Self {
        self.cuda = Some(Arc::new(kernel));
        self
    }

    /// The same operator, whose CPU kernel says which path it uses.
    pub fn with_explanation(mut self, explain: Explain) -> Self {
        self.explain = Some(explain);
        self
    }

    /// Checks a whole call and finds its kernel, before anything is allocated or written; see [`OpSchema::check`].
    pub fn check(&self, inputs: &[Option<&Parts>], outputs: &[Option<&Parts>], args: &Args) -> Result<Checked<'_>> {
        let (device, outputs) = self.schema.check(inputs, outputs, args)?;
        Ok(Checked { schema: &self.schema, kernel: self.kernel(device)?, device, outputs })
    }

    /// The kinds of devices that have a kernel.
    pub fn devices(&self) -> Vec<&'static str> {
        let kinds = [(Device::Cpu, &self.cpu), (Device::Cuda(0), &self.cuda)];
        kinds.into_iter().filter(|(_, kernel)| kernel.is_some()).map(|(device, _)| device.kind()).collect()
    }

    /// The kernel for a device.
    pub fn kernel(&self, device: Device) -> Result<&Kernel> {
        let kernel = match device {
            Device::Cpu => &self.cpu,
            Device::Cuda(_) => &self.cuda,
        };
        kernel.as_ref().ok_or_else(|| Error::Device {
            device: device.to_string(),
            reason: format!("{} has no {} kernel", self.schema.name, device.kind()),
        })
    }
}
