//! The derivatives as definitions. `SnakeGradient` and `SnakeDerivative` are linear in dY; what they are otherwise a
//! function of, they are by way of snake's derivatives, so that theirs are those of one order more.

use super::SnakeDerivativeArgs;
use crate::core::args::ArgValue;
use crate::core::definition::OperatorDef;
use crate::core::error::{Error, Result};
use crate::core::gradient::{GradientDefs, GradientMaker, GradientRequest};
use crate::operators::per_channel::{added, bare, summed};
use crate::operators::snake::SnakeArgs;

/// The places of X, dY, Alpha and Beta among the inputs of both gradients.
const X: usize = 0;
const DY: usize = 1;
const ALPHA: usize = 2;
const BETA: usize = 3;

/// Makes `SnakeGradient` definitions of `Snake` definitions.
#[derive(Debug, Clone, Copy, Default)]
pub struct GetSnakeGradient;

impl GradientMaker for GetSnakeGradient {
    fn get_gradient_defs(&self, request: &GradientRequest<'_>) -> Result<GradientDefs> {
        let (x, alpha, beta, dy) = (request.input(0), request.input(1), request.input(2), request.output_gradient(0));
        if request.is_inplace(0, 0) {
            let takes = "an output of its own: the gradient needs X";
            return Err(Error::argument(&request.def.operator, "Y", format!("{x:?} in place"), takes));
        }
        let mut names: Vec<String> = (0..request.def.inputs.len()).map(|place| request.input_gradient(place)).collect();
        if beta.is_empty() {
            names.truncate(2);
        }
        let inputs: &[&str] = if beta.is_empty() { &[x, dy, alpha] } else { &[x, dy, alpha, beta] };
        let outputs: Vec<&str> = names.iter().map(String::as_str).collect();
        let def = request.def.derive("SnakeGradient", inputs, &outputs);
        let mut input_gradients: Vec<Option<String>> = names.into_iter().map(Some).collect();
        input_gradients.resize(request.def.inputs.len(), None);
        Ok(GradientDefs { operators: vec![def], input_gradients })
    }
}

/// `dX = f_x dY`, `dAlpha = Σ f_α dY` and `dBeta = Σ f_β dY`, each with the direction that comes in for it.
pub fn of_gradient(request: &GradientRequest<'_>) -> Result<GradientDefs> {
    let SnakeArgs { logscale, axis } = SnakeArgs::from_args(request.args);
    let mut unfused = Unfused::new(request, logscale, axis);
    let mut terms = Vec::new();
    for (output, by) in [(0, [1, 0, 0]), (1, [0, 1, 0]), (2, [0, 0, 1])] {
        let incoming = request.output_gradient(output);
        if incoming.is_empty() || (output == 2 && request.input(BETA).is_empty()) {
            continue;
        }
        let direction = match output {
            0 => incoming.to_string(),
            _ => {
                let everywhere = unfused.name("direction");
                unfused.operators.push(added(request, "", incoming, axis, &everywhere));
                everywhere
            }
        };
        terms.push((direction, by));
    }
    unfused.differentiate(&terms)
}

/// `Z = f_orders dY`.
pub fn of_derivative(request: &GradientRequest<'_>) -> Result<GradientDefs> {
    let SnakeDerivativeArgs { logscale, axis, order_x, order_alpha, order_beta } =
        SnakeDerivativeArgs::from_args(request.args);
    let direction = request.output_gradient(0).to_string();
    Unfused::new(request, logscale, axis).differentiate(&[(direction, [order_x, order_alpha, order_beta])])
}

/// Writes definitions of the steps, each result with a name of its own.
struct Unfused<'a> {
    request: &'a GradientRequest<'a>,
    logscale: bool,
    axis: i64,
    operators: Vec<OperatorDef>,
}

impl<'a> Unfused<'a> {
    fn new(request: &'a GradientRequest<'a>, logscale: bool, axis: i64) -> Self {
        Unfused { request, logscale, axis, operators: Vec::new() }
    }

    fn name(&self, of: &str) -> String {
        format!("{}_{of}_{}", self.request.input_gradient(DY), self.operators.len())
    }

    /// A stream times a derivative of snake.
    fn derivative(&mut self, stream: &str, [x, alpha, beta]: [i64; 3]) -> String {
        let (name, request) = (self.name("derivative"), self.request);
        let inputs = [request.input(X), stream, request.input(ALPHA), request.input(BETA)];
        let given = if inputs[3].is_empty() { &inputs[..3] } else { &inputs };
        let def = bare(request, "SnakeDerivative", given, &[&name])
            .arg("logscale", ArgValue::Bool(self.logscale))
            .arg("axis", ArgValue::Int(self.axis))
            .arg("order_x", ArgValue::Int(x))
            .arg("order_alpha", ArgValue::Int(alpha))
            .arg("order_beta", ArgValue::Int(beta));
        self.operators.push(def);
        name
    }

    /// The sum of blobs of one shape.
    fn sum(&mut self, mut parts: Vec<String>, name: String) -> String {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let inputs: Vec<&str> = parts.iter().map(String::as_str).collect();
        self.operators.push(bare(self.request, "Sum", &inputs, &[&name]));
        name
    }

    /// The gradients of `Σ_k ⟨direction_k, f_k dY⟩`, with f_k a derivative of snake.
    fn differentiate(mut self, terms: &[(String, [i64; 3])]) -> Result<GradientDefs> {
        let request = self.request;
        let mut input_gradients: Vec<Option<String>> = vec![None; request.def.inputs.len()];
        if terms.is_empty() {
            return Ok(GradientDefs { operators: self.operators, input_gradients });
        }
        let by_dy: Vec<String> = terms.iter().map(|(direction, by)| self.derivative(direction, *by)).collect();
        input_gradients[DY] = Some(self.sum(by_dy, request.input_gradient(DY)));
        let mut streams = Vec::new();
        for (direction, by) in terms {
            let name = self.name("stream");
            self.operators.push(bare(request, "Mul", &[request.input(DY), direction], &[&name]));
            streams.push((name, *by));
        }
        for (place, which) in [(X, 0), (ALPHA, 1), (BETA, 2)] {
            if request.input(place).is_empty() {
                continue;
            }
            let mut parts = Vec::new();
            for (stream, by) in &streams {
                let mut more = *by;
                more[which] += 1;
                parts.push(self.derivative(stream, more));
            }
            let name = match place {
                X => request.input_gradient(X),
                _ => self.name("terms"),
            };
            let total = self.sum(parts, name);
            input_gradients[place] = Some(match place {
                X => total,
                _ => {
                    let sums = request.input_gradient(place);
                    self.operators.push(summed(request, &total, request.input(place), self.axis, &sums));
                    sums
                }
            });
        }
        Ok(GradientDefs { operators: self.operators, input_gradients })
    }
}
