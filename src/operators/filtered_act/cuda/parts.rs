//! Calls that no tile serves, one operator after the other: `UpFirDn2d`, `BiasAct` or `Snake`, `UpFirDn2d`. The arrays
//! between are of the upsampled size and of the tensors' type.

use crate::core::args::{ArgValue, Args};
use crate::core::error::Result;
use crate::core::operator::{Call, Operator};
use crate::core::shape::Shape;
use crate::core::tensor::{Parts, TensorType, TensorView, TensorViewMut};
use crate::devices::cuda::context::context_of;
use crate::devices::cuda::memory::Memory;
use crate::operators::bias_act::{BiasActArgs, bias_act, bias_act_gradient};
use crate::operators::filtered_act::params::{FilteredActArgs, Function};
use crate::operators::filtered_act::{ALPHA, B, BETA, DY};
use crate::operators::fused_leaky_relu::fused_leaky_relu_gradient;
use crate::operators::snake::{SnakeArgs, snake, snake_gradient};
use crate::operators::upfirdn2d::{upfirdn2d, upfirdn2d_gradient};

/// A tensor between two operators.
struct Between {
    parts: Parts,
    _memory: Memory,
}

/// One call, step by step.
struct Steps<'a> {
    call: &'a Call<'a>,
    args: FilteredActArgs,
}

impl Steps<'_> {
    fn between(&self, shape: &Shape) -> Result<Between> {
        let x = self.call.input(0);
        let kind = TensorType::new(shape.clone(), x.dtype());
        let memory = Memory::new(context_of(x.device)?, kind.bytes(), self.call.stream)?;
        let strides = shape.row_major_strides(x.dtype());
        Ok(Between {
            parts: Parts { pointer: memory.address() as *mut u8, kind, strides, device: x.device },
            _memory: memory,
        })
    }

    fn run(
        &self,
        operator: &Operator,
        inputs: &[Option<&Parts>],
        outputs: &[Option<&Parts>],
        args: impl IntoIterator<Item = (&'static str, ArgValue)>,
    ) -> Result<()> {
        let args: Args = operator.schema.resolve_args(args)?;
        // SAFETY: the parts are views of the call, which promise their memory, or memory that was just allocated and is
        // freed after this call, in the order of its stream.
        let inputs: Vec<_> =
            inputs.iter().map(|parts| parts.map(|p| unsafe { TensorView::from_parts(p.clone()) })).collect();
        // SAFETY: as above; outputs share memory with nothing.
        let outputs: Vec<_> =
            outputs.iter().map(|parts| parts.map(|p| unsafe { TensorViewMut::from_parts(p.clone()) })).collect();
        let call = Call { inputs: &inputs, outputs: &outputs, args: &args, stream: self.call.stream };
        operator.kernel(self.call.input(0).device)?(&call)
    }

    fn input(&self, place: usize) -> Option<&Parts> {
        self.call.inputs.get(place).and_then(Option::as_deref)
    }

    /// X with its bias, and what the first filter makes of it.
    fn up(&self) -> Result<Between> {
        let x: &Parts = self.call.input(0);
        let kernels = [self.call.input(1).shape(), self.call.input(2).shape()];
        let [up, _] = self.args.geometries("FilteredAct", x.shape(), kernels)?;
        let biased = self.input(B).map(|_| self.between(x.shape())).transpose()?;
        if let Some(biased) = &biased {
            let linear = BiasActArgs { act: crate::Activation::Linear, axis: self.args.axis, ..Default::default() };
            self.run(&bias_act(), &[Some(x), self.input(B)], &[Some(&biased.parts)], linear.named())?;
        }
        let wide = self.between(&up.output_shape(x.shape()))?;
        let from = biased.as_ref().map_or(x, |biased| &biased.parts);
        let args = self.args.up_filter().named();
        self.run(&upfirdn2d(), &[Some(from), self.input(1)], &[Some(&wide.parts)], args)?;
        Ok(wide)
    }

    fn settings(&self, act: crate::Activation) -> BiasActArgs {
        let FilteredActArgs { alpha, gain, clamp, axis, .. } = self.args;
        BiasActArgs { act, alpha, gain, clamp, axis }
    }

    fn wave(&self) -> SnakeArgs {
        SnakeArgs { logscale: self.args.logscale, axis: self.args.axis }
    }
}

/// Y.
pub fn forward(call: &Call<'_>, y: &Parts) -> Result<()> {
    let steps = Steps { call, args: FilteredActArgs::from_args(call.args) };
    let wide = steps.up()?;
    let activated = steps.between(wide.parts.shape())?;
    let (from, to) = (Some(&wide.parts), &[Some(&activated.parts)]);
    match steps.args.act {
        Function::Of(act) => steps.run(&bias_act(), &[from, None], to, steps.settings(act).named())?,
        Function::Snake => {
            steps.run(&snake(), &[from, steps.input(ALPHA), steps.input(BETA)], to, steps.wave().named())?;
        }
    }
    let args = steps.args.down_filter().named();
    steps.run(&upfirdn2d(), &[Some(&activated.parts), steps.input(2)], &[Some(y)], args)
}

/// dX, dB, dAlpha and dBeta; dX has a place, whether it is wanted or not.
pub fn gradient(call: &Call<'_>, dx: &Parts, [db, dalpha, dbeta]: [Option<&Parts>; 3]) -> Result<()> {
    let steps = Steps { call, args: FilteredActArgs::from_args(call.args) };
    let wide = steps.up()?;
    let (stream, product) = (steps.between(wide.parts.shape())?, steps.between(wide.parts.shape())?);
    let args = steps.args.down_filter().named();
    let like = Some(&wide.parts);
    steps.run(&upfirdn2d_gradient(), &[steps.input(DY), steps.input(2), like], &[Some(&stream.parts)], args)?;
    let inputs = [Some(&wide.parts), Some(&stream.parts)];
    match steps.args.act {
        Function::Of(act) => {
            let args = steps.settings(act).named();
            steps.run(&bias_act_gradient(), &inputs, &[Some(&product.parts), None], args)?;
        }
        Function::Snake => {
            let inputs = [inputs[0], inputs[1], steps.input(ALPHA), steps.input(BETA)];
            steps.run(&snake_gradient(), &inputs, &[Some(&product.parts), dalpha, dbeta], steps.wave().named())?;
        }
    }
    let args = steps.args.up_filter().named();
    let x: &Parts = call.input(0);
    steps.run(&upfirdn2d_gradient(), &[Some(&product.parts), steps.input(1), Some(x)], &[Some(dx)], args)?;
    let Some(db) = db else { return Ok(()) };
    let float = ArgValue::Float;
    let args = [("alpha", float(1.0)), ("scale", float(1.0)), ("axis", ArgValue::Int(steps.args.axis))];
    steps.run(&fused_leaky_relu_gradient(), &[Some(dx), Some(dx), None, steps.input(B)], &[None, Some(db)], args)
}
