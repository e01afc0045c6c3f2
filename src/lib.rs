//! The operators of StyleGAN and neural vocoders: upfirdn2d, bias + activation,
//! filtered activations and snake, with gradients to any order.
//!
//! # How one call flows
//!
//! 1. [`registry::find`] returns the [`Operator`] of a name.
//! 2. [`OpSchema::check`] looks at arity, dtypes, device, arguments, in-place use and output shapes,
//!    and fills in defaults. It is the only validation: kernels trust it.
//! 3. The kernel of the device runs over rows of the tensors ([`operators`], [`devices`]).
//!
//! A gradient is a list of operator definitions ([`core::gradient`]), never code of its own, so that
//! nets, the tape of [`graph`] and the Python bridges all read the same derivatives.
//!
//! Modules depend on each other in one direction only:
//! `python` → `graph` → `registry` → `operators` → `filters` → `devices` → `core`.

pub mod devices;
pub mod graph;
pub mod operators;
pub mod registry;

#[cfg(feature = "python")]
mod python;

pub use firelu_core as core;
pub use firelu_core::with_element;

pub use crate::core::args::{ArgKind, ArgSpec, ArgValue, Args};
pub use crate::core::blob::Blob;
pub use crate::core::definition::OperatorDef;
pub use crate::core::device::Device;
pub use crate::core::dtype::{BFloat16, DType, Element, Float16};
pub use crate::core::error::{Error, Result};
pub use crate::core::gradient::{Gradient, GradientDefs, GradientMaker, GradientRequest};
pub use crate::core::operator::{Call, Kernel, Operator};
pub use crate::core::schema::{InputSpec, OpCost, OpSchema, OutputSpec, Signature};
pub use crate::core::shape::{Shape, Strides};
pub use crate::core::tensor::{Tensor, TensorType, TensorView, TensorViewMut};
pub use crate::devices::cpu::activations::Activation;
pub use crate::graph::backward::{Backward, add_gradient_operators};
pub use crate::graph::context::{gradient_override, no_grad};
pub use crate::graph::gradcheck::gradcheck;
pub use crate::graph::tape::{BackwardOptions, Variable, apply, grad};
pub use crate::graph::workspace::Workspace;
pub use crate::operators::bias_act::{
    BiasActArgs, BiasActGradientArgs, BiasActGradientOp, BiasActOp, GetBiasActGradient,
};
pub use crate::operators::fused_leaky_relu::{
    FusedLeakyReluArgs, FusedLeakyReluGradientOp, FusedLeakyReluOp, GetFusedLeakyReluGradient,
};
pub use crate::operators::leaky_relu::{GetLeakyReluGradient, LeakyReluGradientOp, LeakyReluOp};
pub use crate::operators::run_on_device;
pub use crate::operators::upfirdn2d::{
    GetUpFirDn2dGradient, UpFirDn2dArgs, UpFirDn2dGradientOp, UpFirDn2dKernelGradientOp, UpFirDn2dOp,
};
pub use crate::registry::{get_gradient_defs, register_cpu_operator, register_cuda_operator, register_gradient};

// The Rust blocks of the documentation are compiled and run with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../docs/operators.md")]
mod operators_page {}
