//! The built-in operators, one folder each, and how one is run on tensors and blobs.

/// Gives an operator its CUDA kernel where the crate is built with CUDA.
macro_rules! with_cuda {
    ($operator:expr, $kernel:path) => {{
        #[cfg(feature = "cuda")]
        let operator = $operator.with_cuda($kernel);
        #[cfg(not(feature = "cuda"))]
        let operator = $operator;
        operator
    }};
}

/// Gives a folder its `FAMILY`: the functions that make its operators, and the PTX of `cuda::MODULE`.
macro_rules! family {
    ($($operator:ident),+ $(,)?) => {
        /// What this folder brings to the registry.
        pub const FAMILY: $crate::operators::Family = $crate::operators::Family {
            operators: || vec![$($operator()),+],
            #[cfg(feature = "cuda")]
            module: &cuda::MODULE,
        };
    };
}

/// Makes an operator's object: its arguments, and `run` on blobs.
macro_rules! operator_object {
    ($(#[$doc:meta])* $name:ident($args:ty), $operator:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default)]
        pub struct $name($args);

        impl $name {
            /// An operator with these arguments.
            pub fn new(args: $args) -> Self {
                $name(args)
            }

            /// Reads the inputs and replaces the outputs; an empty blob is an omitted input.
            pub fn run(
                &self,
                inputs: &[&$crate::core::blob::Blob],
                outputs: &mut [&mut $crate::core::blob::Blob],
            ) -> $crate::core::error::Result<()> {
                let operator = $operator();
                let args = operator.schema.resolve_args(self.0.named())?;
                $crate::operators::run_blobs(&operator, &args, inputs, outputs)
            }
        }
    };
}

pub mod arithmetic;
pub mod bias_act;
pub mod execute;
pub mod filtered_act;
pub mod fused_leaky_relu;
pub mod leaky_relu;
pub mod per_channel;
pub mod reduce_sum;
pub mod snake;
pub mod upfirdn2d;

use smallvec::SmallVec;

use crate::core::args::Args;
use crate::core::blob::Blob;
use crate::core::error::{Error, Result};
use crate::core::operator::Operator;
use crate::core::tensor::Tensor;
use execute::execute;

/// Every folder: what the registry begins with.
pub const FAMILIES: &[Family] = &[
    arithmetic::FAMILY,
    bias_act::FAMILY,
    filtered_act::FAMILY,
    fused_leaky_relu::FAMILY,
    leaky_relu::FAMILY,
    reduce_sum::FAMILY,
    snake::FAMILY,
    upfirdn2d::FAMILY,
];

/// What an operator folder brings to the registry.
pub struct Family {
    /// Makes its operators.
    pub operators: fn() -> Vec<Operator>,
    /// Their kernels for CUDA devices.
    #[cfg(feature = "cuda")]
    pub module: &'static crate::devices::cuda::modules::Module,
}

/// Runs an operator on the device its inputs are on, into new tensors.
pub fn run_on_device(operator: &Operator, inputs: &[Option<&Tensor>], args: &Args) -> Result<Vec<Tensor>> {
    let wanted: SmallVec<[bool; 2]> = SmallVec::from_elem(true, operator.schema.outputs.len());
    let outputs = execute(operator, inputs, args, &wanted, None)?;
    Ok(outputs.into_iter().flatten().collect())
}

/// Runs an operator object's `run`: blobs in, blobs out, each output replaced once all are computed.
fn run_blobs(operator: &Operator, args: &Args, inputs: &[&Blob], outputs: &mut [&mut Blob]) -> Result<()> {
    let tensors: SmallVec<[Option<&Tensor>; 4]> = inputs.iter().map(|blob| blob.tensor()).collect();
    let results = run_on_device(operator, &tensors, args)?;
    if outputs.len() > results.len() {
        let takes = format!("at most {}", results.len());
        return Err(Error::argument(&operator.schema.name, "outputs", outputs.len(), takes));
    }
    for (blob, tensor) in outputs.iter_mut().zip(results) {
        blob.set(tensor);
    }
    Ok(())
}
