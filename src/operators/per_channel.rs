//! Definitions that gradients share: numbers of each channel are added to tensors, and tensors are summed to them. With a
//! slope and a scale of one the fused operators do just that.

use crate::core::args::ArgValue;
use crate::core::definition::OperatorDef;
use crate::core::gradient::GradientRequest;

/// A definition without arguments, on the device of the request's.
pub fn bare(request: &GradientRequest<'_>, operator: &str, inputs: &[&str], outputs: &[&str]) -> OperatorDef {
    let mut def = request.def.derive(operator, inputs, outputs);
    def.args.clear();
    def
}

fn linear(def: OperatorDef, axis: i64) -> OperatorDef {
    def.arg("alpha", ArgValue::Float(1.0)).arg("scale", ArgValue::Float(1.0)).arg("axis", ArgValue::Int(axis))
}

/// A tensor of the first input's shape plus one number for each channel; without a tensor, that number everywhere.
pub fn added(request: &GradientRequest<'_>, tensor: &str, channels: &str, axis: i64, sum: &str) -> OperatorDef {
    let def = match tensor {
        "" => bare(request, "FusedLeakyReluGradient", &[request.input(0), "", channels], &[sum]),
        _ => bare(request, "FusedLeakyRelu", &[tensor, channels], &[sum]),
    };
    linear(def, axis)
}

/// The sums of a tensor over all axes but the channels', of the type of `like`.
pub fn summed(request: &GradientRequest<'_>, tensor: &str, like: &str, axis: i64, sums: &str) -> OperatorDef {
    let unused = format!("{sums}_terms");
    linear(bare(request, "FusedLeakyReluGradient", &[tensor, tensor, "", like], &[&unused, sums]), axis)
}
