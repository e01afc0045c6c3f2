//! The derivatives as definitions. That of the forward operator by X and by the numbers of each channel is one pass; the
//! filters' and those of the gradient itself are written over `UpFirDn2d`, `BiasAct` and `Snake`, whose own derivatives go
//! on to any order.

use super::params::{FilteredActArgs, Function};
use super::{ALPHA, B, BETA, DY};
use crate::core::args::ArgValue;
use crate::core::definition::OperatorDef;
use crate::core::error::Result;
use crate::core::gradient::{GradientDefs, GradientMaker, GradientRequest};
use crate::core::operator::Operator;
use crate::operators::bias_act::{self, BiasActArgs};
use crate::operators::per_channel::{added, bare, summed};
use crate::operators::snake::{self, SnakeArgs};

/// Makes `FilteredActGradient` definitions of `FilteredAct` definitions.
#[derive(Debug, Clone, Copy, Default)]
pub struct GetFilteredActGradient;

impl GradientMaker for GetFilteredActGradient {
    fn get_gradient_defs(&self, request: &GradientRequest<'_>) -> Result<GradientDefs> {
        let count = request.def.inputs.len();
        let dy = request.output_gradient(0);
        if dy.is_empty() {
            return Ok(GradientDefs { operators: vec![], input_gradients: vec![None; count] });
        }
        let mut unfused = Unfused::new(request);
        let mut input_gradients: Vec<Option<String>> = vec![None; count];
        let mut outputs = vec![request.input_gradient(0)];
        for place in [B, ALPHA, BETA] {
            let name = if request.input(place).is_empty() { String::new() } else { request.input_gradient(place) };
            outputs.push(name.clone());
            if !name.is_empty() {
                input_gradients[place] = Some(name);
            }
        }
        while outputs.last().is_some_and(String::is_empty) {
            outputs.pop();
        }
        let mut inputs: Vec<&str> = (0..DY).map(|place| request.input(place)).collect();
        inputs.push(dy);
        let names: Vec<&str> = outputs.iter().map(String::as_str).collect();
        unfused.operators.push(request.def.derive("FilteredActGradient", &inputs, &names));
        input_gradients[0] = Some(outputs[0].clone());
        // The filters' gradients need the samples on both sides of the activation.
        let x = unfused.biased();
        let u = unfused.up(&x);
        let t = unfused.activate(&u);
        let by_down = unfused.down_kernel_gradient(&t, dy, &request.input_gradient(2));
        let dt = unfused.down_adjoint(dy, &t);
        let du = unfused.slope(&u, &dt);
        let by_up = unfused.up_kernel_gradient(&x, &du, &request.input_gradient(1));
        (input_gradients[1], input_gradients[2]) = (Some(by_up), Some(by_down));
        Ok(GradientDefs { operators: unfused.operators, input_gradients })
    }
}

/// `dX = Uᵀ( f'(U (X + B)) · Dᵀ dY )`, its sum dB, and the sums dAlpha and dBeta, differentiated step by step.
pub fn of_gradient(request: &GradientRequest<'_>) -> Result<GradientDefs> {
    let count = request.def.inputs.len();
    let mut input_gradients: Vec<Option<String>> = vec![None; count];
    // The gradients of inputs that are not given have no elements.
    let incoming: Vec<&str> = [0, B, ALPHA, BETA]
        .into_iter()
        .enumerate()
        .map(|(output, input)| if request.input(input).is_empty() { "" } else { request.output_gradient(output) })
        .collect();
    if incoming.iter().all(|name| name.is_empty()) {
        return Ok(GradientDefs { operators: vec![], input_gradients });
    }
    let dy = request.input(DY);
    let mut unfused = Unfused::new(request);
    let x = unfused.biased();
    let u = unfused.up(&x);
    let g = unfused.down_adjoint(dy, &u);
    // What comes in for dX, and for dB in every sample of a channel, goes up once more.
    let h = (!incoming[0].is_empty() || !incoming[1].is_empty()).then(|| unfused.with_bias(incoming[0], incoming[1]));
    let hu = h.as_ref().map(|h| unfused.up(h));
    let (m, middle) = unfused.middle_gradient(&u, &g);
    let owned = |place: usize| Some(incoming[place].to_string()).filter(|name| !name.is_empty());
    let by = match unfused.args.act {
        Function::Of(_) => unfused.differentiate(&bias_act::bias_act_gradient(), &middle, &[hu])?,
        Function::Snake => unfused.differentiate(&snake::snake_gradient(), &middle, &[hu, owned(2), owned(3)])?,
    };
    let of = |name: &str| middle.inputs.iter().position(|input| input == name).and_then(|place| by[place].clone());
    let (mut by_up, mut by_down) = (Vec::new(), Vec::new());
    if let Some(du) = of(&u) {
        let dx = unfused.up_adjoint(&du, &x, &request.input_gradient(0));
        if !request.input(B).is_empty() {
            input_gradients[B] = Some(unfused.sum_over_channels(&dx, &request.input_gradient(B)));
        }
        input_gradients[0] = Some(dx);
        by_up.push(unfused.up_kernel_gradient(&x, &du, &unfused.name("Fu_of_argument")));
    }
    if let Some(dg) = of(&g) {
        input_gradients[DY] = Some(unfused.down(&dg, &request.input_gradient(DY)));
        by_down.push(unfused.down_kernel_gradient(&dg, dy, &unfused.name("Fd_of_stream")));
    }
    for place in [ALPHA, BETA].into_iter().filter(|&place| !request.input(place).is_empty()) {
        input_gradients[place] = of(request.input(place));
    }
    if let Some(h) = &h {
        by_up.push(unfused.up_kernel_gradient(h, &m, &unfused.name("Fu_of_result")));
    }
    for (place, parts) in [(1, by_up), (2, by_down)] {
        input_gradients[place] = unfused.sum(&parts, &request.input_gradient(place));
    }
    Ok(GradientDefs { operators: unfused.operators, input_gradients })
}

/// Writes definitions of the steps, each result with a name of its own.
struct Unfused<'a> {
    request: &'a GradientRequest<'a>,
    args: FilteredActArgs,
    operators: Vec<OperatorDef>,
    /// What the names of blobs between begin with.
    prefix: String,
}

impl<'a> Unfused<'a> {
    fn new(request: &'a GradientRequest<'a>) -> Self {
        let prefix =
            format!("{}_filtered", request.output_gradients.iter().flatten().next().map_or("", String::as_str));
        Unfused { request, args: FilteredActArgs::from_args(request.args), operators: Vec::new(), prefix }
    }

    fn name(&self, of: &str) -> String {
        format!("{}_{of}_{}", self.prefix, self.operators.len())
    }

    /// A definition with arguments of its own.
    fn push(&mut self, operator: &str, inputs: &[&str], outputs: &[&str], args: Vec<(&str, ArgValue)>) -> OperatorDef {
        let mut def = bare(self.request, operator, inputs, outputs);
        for (name, value) in args {
            def = def.arg(name, value);
        }
        self.operators.push(def.clone());
        def
    }

    fn up_args(&self) -> Vec<(&'static str, ArgValue)> {
        self.args.up_filter().named().into()
    }

    fn down_args(&self) -> Vec<(&'static str, ArgValue)> {
        self.args.down_filter().named().into()
    }

    /// `value + B`, where one of them may be missing.
    fn with_bias(&mut self, value: &str, bias: &str) -> String {
        if bias.is_empty() {
            return value.to_string();
        }
        let name = self.name("sum");
        self.operators.push(added(self.request, value, bias, self.args.axis, &name));
        name
    }

    fn biased(&mut self) -> String {
        self.with_bias(self.request.input(0), self.request.input(B))
    }

    fn up(&mut self, x: &str) -> String {
        let name = self.name("up");
        self.push("UpFirDn2d", &[x, self.request.input(1)], &[&name], self.up_args());
        name
    }

    fn down(&mut self, x: &str, name: &str) -> String {
        self.push("UpFirDn2d", &[x, self.request.input(2)], &[name], self.down_args());
        name.to_string()
    }

    fn up_adjoint(&mut self, du: &str, x: &str, name: &str) -> String {
        self.push("UpFirDn2dGradient", &[du, self.request.input(1), x], &[name], self.up_args());
        name.to_string()
    }

    fn down_adjoint(&mut self, dy: &str, like: &str) -> String {
        let name = self.name("stream");
        self.push("UpFirDn2dGradient", &[dy, self.request.input(2), like], &[&name], self.down_args());
        name
    }

    fn up_kernel_gradient(&mut self, x: &str, du: &str, name: &str) -> String {
        self.push("UpFirDn2dKernelGradient", &[x, du, self.request.input(1)], &[name], self.up_args());
        name.to_string()
    }

    fn down_kernel_gradient(&mut self, t: &str, dy: &str, name: &str) -> String {
        self.push("UpFirDn2dKernelGradient", &[t, dy, self.request.input(2)], &[name], self.down_args());
        name.to_string()
    }

    fn activation_args(&self) -> Vec<(&'static str, ArgValue)> {
        let FilteredActArgs { act, alpha, gain, clamp, axis, logscale, .. } = self.args;
        match act {
            Function::Of(act) => BiasActArgs { act, alpha, gain, clamp, axis }.named().into(),
            Function::Snake => SnakeArgs { logscale, axis }.named().into(),
        }
    }

    /// Snake's numbers, where it stands between the filters.
    fn numbers(&self) -> Vec<&'a str> {
        let given = [ALPHA, BETA].map(|place| self.request.input(place));
        given.into_iter().filter(|name| !name.is_empty()).collect()
    }

    fn activate(&mut self, u: &str) -> String {
        let (name, args) = (self.name("activated"), self.activation_args());
        let operator = if self.args.act == Function::Snake { "Snake" } else { "BiasAct" };
        self.push(operator, &[&[u], &self.numbers()[..]].concat(), &[&name], args);
        name
    }

    /// The activation's gradient, and its definition.
    fn middle_gradient(&mut self, u: &str, g: &str) -> (String, OperatorDef) {
        let (name, args) = (self.name("middle"), self.activation_args());
        let operator = if self.args.act == Function::Snake { "SnakeGradient" } else { "BiasActGradient" };
        let def = self.push(operator, &[&[u, g], &self.numbers()[..]].concat(), &[&name], args);
        (name, def)
    }

    fn slope(&mut self, u: &str, g: &str) -> String {
        self.middle_gradient(u, g).0
    }

    /// The sum over all axes but the channels'.
    fn sum_over_channels(&mut self, dx: &str, name: &str) -> String {
        self.operators.push(summed(self.request, dx, self.request.input(B), self.args.axis, name));
        name.to_string()
    }

    /// The sum of up to two blobs; none where there are none.
    fn sum(&mut self, parts: &[String], name: &str) -> Option<String> {
        match parts {
            [] => None,
            [one] => Some(one.clone()),
            [first, second, ..] => {
                self.push("Add", &[first, second], &[name], vec![]);
                Some(name.to_string())
            }
        }
    }

    /// Adds the derivatives of a definition; gives the names of its inputs' gradients.
    fn differentiate(
        &mut self,
        operator: &Operator,
        def: &OperatorDef,
        output_gradients: &[Option<String>],
    ) -> Result<Vec<Option<String>>> {
        let args = operator.schema.resolve_args(def.args.iter().map(|(name, value)| (name, value.clone())))?;
        let defs = operator.gradient.make(&GradientRequest { def, args: &args, output_gradients })?;
        self.operators.extend(defs.operators);
        Ok(defs.input_gradients)
    }
}
