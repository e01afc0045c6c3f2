//! UpFirDn2d: `Y = gain · downsample(pad(upsample(X)) * K)`, over the last two dimensions.
//!
//! Insert `up - 1` zeros after each sample, pad or crop, convolve with K (correlate where
//! `flip_kernel`), keep every `down`-th sample. The operation is bilinear, and its three forms
//! U(X, K), A(dY, K) for the input's gradient and C(X, dY) for the kernel's are each other's
//! derivatives, so every order exists. Where padding is zeros, what lies outside X adds nothing to a sum; only a tap
//! that is not finite may also give NaN where it meets the padding, as in a convolution over a padded picture. Any other
//! `border` is part of the linear map: it is decided on X, before zeros are inserted, and the adjoint adds what lies
//! outside to the sample that it stands for.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod gradients;
pub mod params;

pub use gradients::GetUpFirDn2dGradient;
pub use params::UpFirDn2dArgs;

use crate::core::error::{Error, Result};
use crate::core::example;
use crate::core::gradient::Gradient;
use crate::core::operator::Operator;
use crate::core::schema::{InputDType, InputSpec, OpCost, OpSchema, OutputTypes, Signature};
use crate::core::shape::Shape;
use crate::core::tensor::TensorType;
use firelu_filters::axis::Geometry;

family!(upfirdn2d, upfirdn2d_gradient, upfirdn2d_kernel_gradient);

/// An example in which no factor and no padding is like another.
macro_rules! filter_example {
    ($($input:tt),+; border = $border:literal) => {
        example!($($input),+; up_x = 2, up_y = 3, down_y = 2, pad_x0 = 1, pad_x1 = -1, pad_y0 = 2, pad_y1 = 1,
            border = $border)
    };
}

/// The geometry of a forward call on an X of this shape, with the kernel at this place.
fn geometry(signature: &Signature<'_>, x: &Shape, k: usize) -> Result<Geometry> {
    let args = UpFirDn2dArgs::from_args(signature.args);
    args.geometry(signature.operator, x, &signature.input(k).shape)
}

/// The shape of the X that `UpFirDn2dGradient` is given: its last two lengths alone stand for an X with
/// the other dimensions of dY, so that one list of arguments holds for every part of a batch.
fn lent_shape(signature: &Signature<'_>) -> Shape {
    let (dy, x) = (&signature.input(0).shape, &signature.input(2).shape);
    match (dy.split_last_chunk::<2>(), &x[..]) {
        (Some((leading, _)), lengths @ [_, _]) => leading.iter().chain(lengths).copied().collect(),
        _ => x.clone(),
    }
}

/// The shape of the X that the other two are given.
fn first_shape(signature: &Signature<'_>) -> Shape {
    signature.input(0).shape.clone()
}

/// Refuses a dY that is not of the forward output's shape.
fn check_output_gradient(signature: &Signature<'_>, dy: usize, x: &Shape, geometry: &Geometry) -> Result<()> {
    let (got, takes) = (&signature.input(dy).shape, geometry.output_shape(x));
    if *got == takes {
        return Ok(());
    }
    Err(Error::shape(signature.operator, "dY", got, format!("{takes}, the shape of the forward output")))
}

/// A multiply and an add for each tap of each forward output sample, as if K were not separable: a
/// cost is known before K's values are.
fn with_cost(schema: OpSchema, x: fn(&Signature<'_>) -> Shape, k: usize) -> OpSchema {
    let schema = schema.cost_formula(
        "2 * ceil(taps_x / up_x) * ceil(taps_y / up_y) flops a sample of the forward output, as if K were not \
         separable; inputs with values are read once and the output written once",
    );
    let plain = schema.clone();
    schema.cost_inference_function(move |signature, outputs| {
        let x = x(signature);
        let geometry = geometry(signature, &x, k)?;
        // Beside a dimension of length zero the others may be of any length.
        let samples = geometry.output_shape(&x).iter().fold(1, |samples: u64, &n| samples.saturating_mul(n as u64));
        let taps = (geometry.x.most_taps() as u64).saturating_mul(geometry.y.most_taps() as u64);
        let flops = samples.saturating_mul(taps).saturating_mul(2);
        Ok(OpCost { flops, ..plain.traffic(signature.inputs, outputs) })
    })
}

/// The operator `UpFirDn2d`.
pub fn upfirdn2d() -> Operator {
    let doc = "Y = X upsampled by zeros, padded or cropped, convolved with K times gain, and downsampled, over the \
               last two dimensions: out = (in * up + pad0 + pad1 - taps) // down + 1. Padding is what border says, by \
               the rules of numpy.pad on X. A tap that is not finite may give NaN where it meets the padding.";
    let schema = OpSchema::new("UpFirDn2d", doc)
        .input(InputSpec::new("X", "[..., H, W], any leading dimensions."))
        .input(InputSpec::new("K", "[taps_y, taps_x], any float type.").dtype(InputDType::Any))
        .output("Y", "[..., out_y, out_x], of X's type.")
        .examples([
            filter_example!([2, 2, 4, 5], [3, 4]; border = "constant"),
            filter_example!([2, 4, 5], [3, 4]; border = "reflect"),
            filter_example!([2, 4, 5], [3, 4]; border = "wrap"),
            example!([3, 4], [2, 3]; pad_x0 = 1, pad_x1 = 1, pad_y0 = 1, pad_y1 = 1, gain = 1.5, flip_kernel = true),
        ])
        .tensor_inference_function(|signature| {
            let x = signature.input(0);
            let geometry = geometry(signature, &x.shape, 1)?;
            // Pushed: collecting takes longer.
            let mut types = OutputTypes::new();
            types.push(TensorType::new(geometry.output_shape(&x.shape), x.dtype));
            Ok(types)
        });
    let operator = Operator::new(with_cost(schema.args(UpFirDn2dArgs::specs()), first_shape, 1), cpu::forward)
        .with_explanation(cpu::explain_forward);
    with_cuda!(operator, cuda::forward).with_gradient(Gradient::defined(GetUpFirDn2dGradient))
}

/// The operator `UpFirDn2dGradient`.
pub fn upfirdn2d_gradient() -> Operator {
    let doc = "dX = the gradient of UpFirDn2d with respect to X; the arguments are the forward's.";
    let schema = OpSchema::new("UpFirDn2dGradient", doc)
        .input(InputSpec::new("dY", "The gradient of the output, [..., out_y, out_x]."))
        .input(InputSpec::new("K", "[taps_y, taps_x], any float type.").dtype(InputDType::Any))
        .input(InputSpec::new("X", "The forward input, [..., H, W], or [H, W] alone; lends its shape.").shape_only())
        .output("dX", "The forward input's shape and the type of dY.")
        .examples([
            filter_example!([2, 7, 7], [3, 4], [2, 4, 5]; border = "constant"),
            filter_example!([2, 7, 7], [3, 4], [2, 4, 5]; border = "edge"),
        ])
        .tensor_inference_function(|signature| {
            let x = lent_shape(signature);
            check_output_gradient(signature, 0, &x, &geometry(signature, &x, 1)?)?;
            Ok([TensorType::new(x, signature.input(0).dtype)].into_iter().collect())
        });
    let operator = Operator::new(with_cost(schema.args(UpFirDn2dArgs::specs()), lent_shape, 1), cpu::gradient)
        .with_explanation(cpu::explain_gradient);
    with_cuda!(operator, cuda::gradient).with_gradient(Gradient::defined(gradients::of_gradient))
}

/// The operator `UpFirDn2dKernelGradient`.
pub fn upfirdn2d_kernel_gradient() -> Operator {
    let doc = "dK = the gradient of UpFirDn2d with respect to K; the arguments are the forward's.";
    let schema = OpSchema::new("UpFirDn2dKernelGradient", doc)
        .input(InputSpec::new("X", "The forward input, [..., H, W]."))
        .input(InputSpec::new("dY", "The gradient of the output, [..., out_y, out_x]."))
        .input(
            InputSpec::new("K", "[taps_y, taps_x], any float type; lends its shape and type.")
                .dtype(InputDType::Any)
                .shape_only(),
        )
        .output("dK", "The shape and type of K.")
        .examples([
            filter_example!([2, 4, 5], [2, 7, 7], [3, 4]; border = "constant"),
            filter_example!([2, 4, 5], [2, 7, 7], [3, 4]; border = "wrap"),
        ])
        .keeps_layout_of(None)
        .tensor_inference_function(|signature| {
            let (x, k) = (signature.input(0), signature.input(2));
            check_output_gradient(signature, 1, &x.shape, &geometry(signature, &x.shape, 2)?)?;
            Ok([k.clone()].into_iter().collect())
        });
    let operator = Operator::new(with_cost(schema.args(UpFirDn2dArgs::specs()), first_shape, 2), cpu::kernel_gradient);
    with_cuda!(operator, cuda::kernel_gradient).with_gradient(Gradient::defined(gradients::of_kernel_gradient))
}

operator_object!(
    /// `UpFirDn2d` as an object: `run(&[&x, &k], &mut [&mut y])`.
    UpFirDn2dOp(UpFirDn2dArgs),
    upfirdn2d
);
operator_object!(
    /// `UpFirDn2dGradient` as an object: `run(&[&dy, &k, &x], &mut [&mut dx])`.
    UpFirDn2dGradientOp(UpFirDn2dArgs),
    upfirdn2d_gradient
);
operator_object!(
    /// `UpFirDn2dKernelGradient` as an object: `run(&[&x, &dy, &k], &mut [&mut dk])`.
    UpFirDn2dKernelGradientOp(UpFirDn2dArgs),
    upfirdn2d_kernel_gradient
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::blob::Blob;
    use crate::core::tensor::Tensor;

    fn blob(shape: &[usize], values: &[f32]) -> Blob {
        Tensor::from_vec(shape, values.to_vec()).unwrap().into()
    }

    #[test]
    fn a_row_by_hand() {
        // [1 2 3] -> [1 0 2 0 3 0], one zero before, convolved with [1 10 100], every second kept.
        let (x, k, mut y) = (blob(&[1, 3], &[1., 2., 3.]), blob(&[1, 3], &[1., 10., 100.]), Blob::create());
        let args = UpFirDn2dArgs { up: (2, 1), down: (2, 1), pad_x: (1, 0), ..Default::default() };
        UpFirDn2dOp::new(args).run(&[&x, &k], &mut [&mut y]).unwrap();
        assert_eq!(y.read::<f32>().unwrap(), [10., 20., 30.]);
        let args = UpFirDn2dArgs { pad_x: (0, 0), ..args };
        UpFirDn2dOp::new(args).run(&[&x, &k], &mut [&mut y]).unwrap();
        assert_eq!(y.read::<f32>().unwrap(), [102., 203.]);
        UpFirDn2dOp::new(UpFirDn2dArgs { flip_kernel: true, gain: 0.5, ..args }).run(&[&x, &k], &mut [&mut y]).unwrap();
        assert_eq!(y.read::<f32>().unwrap(), [100.5, 151.]);
    }

    #[test]
    fn gradients_by_hand() {
        // y = [x0 k1 + x1 k0, x1 k1 + x2 k0].
        let (x, k) = (blob(&[1, 3], &[1., 2., 3.]), blob(&[1, 2], &[4., 5.]));
        let (dy, mut dx, mut dk) = (blob(&[1, 2], &[1., 10.]), Blob::create(), Blob::create());
        UpFirDn2dGradientOp::default().run(&[&dy, &k, &x], &mut [&mut dx]).unwrap();
        assert_eq!(dx.read::<f32>().unwrap(), [5., 54., 40.]);
        UpFirDn2dKernelGradientOp::default().run(&[&x, &dy, &k], &mut [&mut dk]).unwrap();
        assert_eq!(dk.read::<f32>().unwrap(), [32., 21.]);
    }

    #[test]
    fn two_lengths_stand_for_any_leading_dimensions() {
        let (k, dy) = (blob(&[1, 2], &[4., 5.]), blob(&[2, 1, 1, 2], &[1., 10., 2., 20.]));
        let (mut whole, mut alone) = (Blob::create(), Blob::create());
        UpFirDn2dGradientOp::default().run(&[&dy, &k, &blob(&[2, 1, 1, 3], &[0.; 6])], &mut [&mut whole]).unwrap();
        UpFirDn2dGradientOp::default().run(&[&dy, &k, &blob(&[1, 3], &[0.; 3])], &mut [&mut alone]).unwrap();
        assert_eq!(alone.read::<f32>().unwrap(), [5., 54., 40., 10., 108., 80.]);
        assert_eq!(alone.tensor().unwrap().shape(), whole.tensor().unwrap().shape());
        let of_three = blob(&[1, 1, 3], &[0.; 3]);
        let refused = UpFirDn2dGradientOp::default().run(&[&dy, &k, &of_three], &mut [&mut alone]).unwrap_err();
        assert!(refused.to_string().contains("dY: got (2, 1, 1, 2), takes (1, 1, 2)"), "{refused}");
    }

    #[test]
    fn a_wrong_output_gradient_is_refused_by_shape() {
        let (x, k, dy) = (blob(&[1, 3], &[0.; 3]), blob(&[1, 2], &[0.; 2]), blob(&[1, 3], &[0.; 3]));
        let refused = UpFirDn2dGradientOp::default().run(&[&dy, &k, &x], &mut [&mut Blob::create()]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "UpFirDn2dGradient: dY: got (1, 3), takes (1, 2), the shape of the forward output"
        );
        assert!(UpFirDn2dKernelGradientOp::default().run(&[&x, &dy, &k], &mut [&mut Blob::create()]).is_err());
    }

    #[test]
    fn the_cost_counts_the_taps_of_each_output() {
        let operator = upfirdn2d();
        let args = operator
            .schema
            .resolve_args(UpFirDn2dArgs { up: (2, 2), pad_x: (2, 1), pad_y: (2, 1), ..Default::default() }.named());
        let kind = |shape: &[usize]| TensorType::new(shape, crate::DType::Float32);
        let cost = operator.schema.cost(&[Some(&kind(&[5, 8, 8])), Some(&kind(&[4, 4]))], &args.unwrap()).unwrap();
        assert_eq!(cost, OpCost { flops: 2 * 4 * 5 * 256, bytes_read: 4 * (320 + 16), bytes_written: 4 * 5 * 256 });
    }
}
