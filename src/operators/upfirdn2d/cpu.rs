//! The kernels of the CPU: the arguments become a request of the filter engine.

use super::params::UpFirDn2dArgs;
use crate::core::error::Result;
use crate::core::operator::Call;
use crate::core::tensor::Parts;
use firelu_filters::{filter, kernel_gradient};

/// Y of X and K.
pub fn forward(call: &Call<'_>) -> Result<()> {
    let Some(y) = &call.outputs[0] else { return Ok(()) };
    filter::run(&request(call, y, false)?)
}

/// dX of dY and K: the adjoint, with the kernel the other way round.
pub fn gradient(call: &Call<'_>) -> Result<()> {
    let Some(dx) = &call.outputs[0] else { return Ok(()) };
    filter::run(&request(call, dx, true)?)
}

/// Which path [`forward`] takes.
pub fn explain_forward(call: &Call<'_>) -> Result<String> {
    let Some(y) = &call.outputs[0] else { return Ok("nothing to compute".into()) };
    filter::explain(&request(call, y, false)?)
}

/// Which path [`gradient`] takes.
pub fn explain_gradient(call: &Call<'_>) -> Result<String> {
    let Some(dx) = &call.outputs[0] else { return Ok("nothing to compute".into()) };
    filter::explain(&request(call, dx, true)?)
}

fn request<'a>(call: &'a Call<'_>, output: &'a Parts, adjoint: bool) -> Result<filter::Request<'a>> {
    let (input, kernel) = (call.input(0), call.input(1));
    let args = UpFirDn2dArgs::from_args(call.args);
    let x = if adjoint { output } else { input };
    let forward = args.geometry("UpFirDn2d", x.shape(), kernel.shape())?;
    let geometry = if adjoint { forward.transposed() } else { forward };
    let (reverse, gain, border) = (args.flip_kernel == adjoint, args.gain, args.border);
    Ok(filter::Request { geometry, reverse, gain, kernel, input, output, border, adjoint })
}

/// dK of X and dY.
pub fn kernel_gradient(call: &Call<'_>) -> Result<()> {
    let Some(dk) = &call.outputs[0] else { return Ok(()) };
    let (x, dy, args) = (call.input(0), call.input(1), UpFirDn2dArgs::from_args(call.args));
    let geometry = args.geometry("UpFirDn2d", x.shape(), dk.shape())?;
    let (reverse, gain, border) = (!args.flip_kernel, args.gain, args.border);
    kernel_gradient::run(&kernel_gradient::Request { geometry, reverse, gain, border, x, dy, dk })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::blob::Blob;
    use crate::core::tensor::Tensor;
    use crate::operators::upfirdn2d::UpFirDn2dOp;
    use filter::{MOST_KEPT, kept_calls};

    fn blob(shape: &[usize], values: &[f32]) -> Blob {
        Tensor::from_vec(shape, values.to_vec()).unwrap().into()
    }

    fn run(gain: f64) -> Vec<f32> {
        let (x, k, mut y) = (blob(&[1, 3], &[1., 2., 3.]), blob(&[1, 2], &[1., 10.]), Blob::create());
        let args = UpFirDn2dArgs { gain, ..Default::default() };
        UpFirDn2dOp::new(args).run(&[&x, &k], &mut [&mut y]).unwrap();
        y.read::<f32>().unwrap()
    }

    #[test]
    fn a_thread_keeps_a_few_calls_prepared() {
        for _ in 0..3 {
            assert_eq!(run(1.0), [12., 23.]);
            assert_eq!(kept_calls(), 1);
        }
        for gain in 0..2 * MOST_KEPT {
            run(gain as f64);
            assert!(kept_calls() <= MOST_KEPT);
        }
        assert_eq!(kept_calls(), MOST_KEPT);
        assert_eq!(std::thread::spawn(kept_calls).join().unwrap(), 0);
    }
}
