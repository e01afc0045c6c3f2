//! An activation between two resamplings: `Y = D( f( U (X + B) ) )`. U inserts zeros and filters with Fu, D filters with
//! Fd and drops samples, so that what f adds beyond the band of the signal is filtered away before it becomes aliases.
//!
//! The gradient is of the same form, `dX = Uᵀ( f'(U (X + B)) · Dᵀ dY )`: one pass over X and dY, in which U X is computed
//! again inside the caches. What the filters and higher orders need is written as definitions over `UpFirDn2d`, `BiasAct`
//! and `Snake`.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod gradients;
pub mod params;

use smallvec::smallvec;

use crate::core::error::{Error, Result};
use crate::core::example;
use crate::core::gradient::Gradient;
use crate::core::operator::Operator;
use crate::core::schema::{InputDType, InputSpec, OpCost, OpSchema, OutputTypes, Signature};
use crate::core::tensor::TensorType;
pub use params::FilteredActArgs;
use params::Function;

family!(filtered_act, filtered_act_gradient);

/// The places of the inputs.
const B: usize = 3;
const ALPHA: usize = 4;
const BETA: usize = 5;
const DY: usize = 6;

fn inputs(schema: OpSchema) -> OpSchema {
    let channel = |name: &str, doc: &str| InputSpec::new(name, doc).optional().dtype(InputDType::CommonOrFloat32);
    schema
        .input(InputSpec::new("X", "[..., H, W], such as (N, C, H, W)."))
        .input(InputSpec::new("Fu", "The first kernel, [taps_y, taps_x], any float type.").dtype(InputDType::Any))
        .input(InputSpec::new("Fd", "The second kernel, [taps_y, taps_x], any float type.").dtype(InputDType::Any))
        .input(channel("B", "The length of X's axis; added to X's own samples."))
        .input(channel("SnakeAlpha", "Snake's frequencies, the length of X's axis."))
        .input(channel("SnakeBeta", "Snake's divisors, the length of X's axis; SnakeAlpha where omitted."))
}

/// The shape of the result, once every input is checked.
fn output_type(signature: &Signature<'_>) -> Result<TensorType> {
    let args = FilteredActArgs::from_args(signature.args);
    let x = signature.input(0);
    let [_, down] =
        args.geometries(signature.operator, &x.shape, [&signature.input(1).shape, &signature.input(2).shape])?;
    let given = |place: usize| signature.inputs.get(place).copied().flatten();
    for (place, name) in [(B, "B"), (ALPHA, "SnakeAlpha"), (BETA, "SnakeBeta")] {
        let Some(input) = given(place) else { continue };
        let rank = x.shape.len();
        let Some(axis) = args.channel_axis(rank) else {
            let takes = format!("an axis of {} before the last two, beside {name}", x.shape);
            return Err(Error::argument(signature.operator, "axis", args.axis, takes));
        };
        if input.shape[..] != [x.shape[axis]] {
            let takes = format!("({},), the length of axis {} of {}", x.shape[axis], args.axis, x.shape);
            return Err(Error::shape(signature.operator, name, &input.shape, takes));
        }
    }
    match (args.act, given(ALPHA).is_some(), given(BETA).is_some()) {
        (Function::Snake, false, _) => {
            Err(Error::argument(signature.operator, "SnakeAlpha", "none", "snake's frequencies"))
        }
        (Function::Of(_), false, false) | (Function::Snake, true, _) => {
            Ok(TensorType::new(down.output_shape(&x.shape), x.dtype))
        }
        _ => Err(Error::argument(signature.operator, "SnakeAlpha", "frequencies", "none unless act is \"snake\"")),
    }
}

/// A multiply and an add for each tap of each sample that is computed, as if the kernels were not separable.
fn with_cost(schema: OpSchema, passes: u64) -> OpSchema {
    let schema = schema.cost_formula(
        "2 * taps flops a sample of each filter, as if kernels were not separable, and 8 for the activation; inputs are \
         read once and outputs written once",
    );
    let plain = schema.clone();
    schema.cost_inference_function(move |signature, outputs| {
        let args = FilteredActArgs::from_args(signature.args);
        let x = &signature.input(0).shape;
        let kernels = [&signature.input(1).shape, &signature.input(2).shape];
        let [up, down] = args.geometries(signature.operator, x, kernels)?;
        let samples = |shape: &[usize]| shape.iter().fold(1, |samples: u64, &n| samples.saturating_mul(n as u64));
        let middle = samples(&up.output_shape(x));
        let taps_up = (up.x.most_taps() as u64).saturating_mul(up.y.most_taps() as u64);
        let taps_down = (down.x.taps as u64).saturating_mul(down.y.taps as u64);
        let up = middle.saturating_mul(2 * taps_up + 8);
        let down = samples(&down.output_shape(x)).saturating_mul(2 * taps_down);
        Ok(OpCost { flops: up.saturating_add(down).saturating_mul(passes), ..plain.traffic(signature.inputs, outputs) })
    })
}

/// The operator `FilteredAct`.
pub fn filtered_act() -> Operator {
    let doc = "Y = D(f(U(X + B))): X upsampled and filtered with Fu, activated, filtered with Fd and downsampled, over the \
               last two dimensions. Nothing of the upsampled size is kept.";
    let schema = inputs(OpSchema::new("FilteredAct", doc))
        .output("Y", "[..., out_y, out_x], of X's type.")
        .examples([
            example!([1, 2, 4, 5], [2, 3], [1, 2], [2], none, none; act = "swish", up_x = 2, down_x = 2),
            example!([1, 2, 4, 5], [2, 3], [1, 2], [2], [2], [2]; act = "snake", logscale = true, up_x = 2, down_x = 2),
        ])
        .tensor_inference_function(|signature| Ok(smallvec![output_type(signature)?]));
    let operator = Operator::new(with_cost(schema.args(FilteredActArgs::specs()), 1), cpu::forward);
    #[cfg(feature = "cuda")]
    let operator = operator.with_explanation(cuda::explain);
    with_cuda!(operator, cuda::forward).with_gradient(Gradient::defined(gradients::GetFilteredActGradient))
}

/// The operator `FilteredActGradient`.
pub fn filtered_act_gradient() -> Operator {
    let doc = "dX = the gradient of FilteredAct with respect to X, and those of B, SnakeAlpha and SnakeBeta where these are given; the \
               arguments are the forward's.";
    let schema = inputs(OpSchema::new("FilteredActGradient", doc))
        .input(InputSpec::new("dY", "The gradient of the output, [..., out_y, out_x]."))
        .output("dX", "The shape and type of X.")
        .output("dB", "The shape and type of B; of length zero without.")
        .output("dSnakeAlpha", "The shape and type of SnakeAlpha; of length zero without.")
        .output("dSnakeBeta", "The shape and type of SnakeBeta; of length zero without.")
        .examples([example!([1, 2, 4, 5], [2, 3], [1, 2], [2], none, none, [1, 2, 3, 4]; act = "swish", up_x = 2, down_x = 2), example!([1, 2, 4, 5], [2, 3], [1, 2], none, [2], none, [1, 2, 3, 4]; act = "snake", logscale = true, up_x = 2, down_x = 2)])
        .tensor_inference_function(infer_gradient);
    let operator = Operator::new(with_cost(schema.args(FilteredActArgs::specs()), 3), cpu::gradient);
    with_cuda!(operator, cuda::gradient).with_gradient(Gradient::defined(gradients::of_gradient))
}

fn infer_gradient(signature: &Signature<'_>) -> Result<OutputTypes> {
    let (takes, dy) = (output_type(signature)?.shape, &signature.input(DY).shape);
    if *dy != takes {
        let takes = format!("{takes}, the shape of the forward output");
        return Err(Error::shape(signature.operator, "dY", dy, takes));
    }
    let mut outputs: OutputTypes = smallvec![signature.input(0).clone()];
    for place in [B, ALPHA, BETA] {
        match signature.inputs.get(place).copied().flatten() {
            Some(input) => outputs.push(input.clone()),
            None => outputs.push(TensorType::new([0], signature.input(0).dtype)),
        }
    }
    Ok(outputs)
}

operator_object!(
    /// `FilteredAct` as an object: `run(&[&x, &fu, &fd], &mut [&mut y])`.
    FilteredActOp(FilteredActArgs),
    filtered_act
);
operator_object!(
    /// `FilteredActGradient` as an object: `run(&[&x, &fu, &fd, &b, &alpha, &beta, &dy], &mut [&mut dx, …])`.
    FilteredActGradientOp(FilteredActArgs),
    filtered_act_gradient
);
