//! The derivatives as definitions. With `⟨Y, dY⟩ = ⟨U(X, K), dY⟩ = ⟨X, A(dY, K)⟩ = ⟨K, C(X, dY)⟩`, each
//! of U, A and C is differentiated by exchanging one argument for the incoming gradient.

use crate::core::error::Result;
use crate::core::gradient::{GradientDefs, GradientMaker, GradientRequest};

/// Makes `UpFirDn2dGradient` and `UpFirDn2dKernelGradient` definitions of `UpFirDn2d` definitions.
#[derive(Debug, Clone, Copy, Default)]
pub struct GetUpFirDn2dGradient;

impl GradientMaker for GetUpFirDn2dGradient {
    fn get_gradient_defs(&self, request: &GradientRequest<'_>) -> Result<GradientDefs> {
        let (x, k, dy) = (request.input(0), request.input(1), request.output_gradient(0));
        Ok(two(request, ["UpFirDn2dGradient", "UpFirDn2dKernelGradient"], [&[dy, k, x], &[x, dy, k]]))
    }
}

/// A(dY, K; X) against ddX: dY gets U(ddX, K), K gets C(ddX, dY), X lent only its shape.
pub fn of_gradient(request: &GradientRequest<'_>) -> Result<GradientDefs> {
    let (dy, k, ddx) = (request.input(0), request.input(1), request.output_gradient(0));
    Ok(two(request, ["UpFirDn2d", "UpFirDn2dKernelGradient"], [&[ddx, k], &[ddx, dy, k]]))
}

/// C(X, dY; K) against ddK: X gets A(dY, ddK), dY gets U(X, ddK), K lent only its shape.
pub fn of_kernel_gradient(request: &GradientRequest<'_>) -> Result<GradientDefs> {
    let (x, dy, ddk) = (request.input(0), request.input(1), request.output_gradient(0));
    Ok(two(request, ["UpFirDn2dGradient", "UpFirDn2d"], [&[dy, ddk, x], &[x, ddk]]))
}

/// The gradients of the first two inputs, each by one operator; nothing where no gradient comes in.
fn two(request: &GradientRequest<'_>, operators: [&str; 2], inputs: [&[&str]; 2]) -> GradientDefs {
    let count = request.def.inputs.len();
    if request.output_gradient(0).is_empty() {
        return GradientDefs { operators: vec![], input_gradients: vec![None; count] };
    }
    let first = request.input_gradient(0);
    let mut second = request.input_gradient(1);
    if first == second {
        // One blob in both places: two gradients that whoever asked adds up.
        second.push_str("_1");
    }
    let defs = [(0, &first), (1, &second)].map(|(i, name)| request.def.derive(operators[i], inputs[i], &[name]));
    let mut input_gradients = vec![Some(first), Some(second)];
    input_gradients.resize(count, None);
    GradientDefs { operators: defs.into(), input_gradients }
}

#[cfg(test)]
mod tests {
    use crate::core::args::ArgValue;
    use crate::core::definition::OperatorDef;
    use crate::core::gradient::GradientDefs;
    use crate::registry::get_gradient_defs;

    fn of(operator: &str, inputs: &[&str]) -> GradientDefs {
        let def = OperatorDef::new(operator, inputs, &["O"]).arg("up_x", ArgValue::Int(2));
        get_gradient_defs(&def, &[Some("G".into())]).unwrap()
    }

    fn text(defs: &GradientDefs) -> Vec<String> {
        defs.operators.iter().map(|d| format!("{} = {}({})", d.outputs[0], d.operator, d.inputs.join(", "))).collect()
    }

    #[test]
    fn each_form_is_differentiated_by_the_others() {
        let u = of("UpFirDn2d", &["X", "K"]);
        assert_eq!(text(&u), ["X_grad = UpFirDn2dGradient(G, K, X)", "K_grad = UpFirDn2dKernelGradient(X, G, K)"]);
        let a = of("UpFirDn2dGradient", &["dY", "K", "X"]);
        assert_eq!(text(&a), ["dY_grad = UpFirDn2d(G, K)", "K_grad = UpFirDn2dKernelGradient(G, dY, K)"]);
        assert_eq!(a.input_gradients, [Some("dY_grad".into()), Some("K_grad".into()), None]);
        let c = of("UpFirDn2dKernelGradient", &["X", "dY", "K"]);
        assert_eq!(text(&c), ["X_grad = UpFirDn2dGradient(dY, G, X)", "dY_grad = UpFirDn2d(X, G)"]);
        for def in u.operators.iter().chain(&a.operators).chain(&c.operators) {
            assert_eq!(def.args["up_x"], ArgValue::Int(2));
        }
    }

    #[test]
    fn one_blob_in_both_places_has_two_gradients() {
        let defs = of("UpFirDn2d", &["X", "X"]);
        assert_eq!(defs.input_gradients, [Some("X_grad".into()), Some("X_grad_1".into())]);
    }

    #[test]
    fn without_an_incoming_gradient_there_is_nothing_to_do() {
        let def = OperatorDef::new("UpFirDn2dGradient", &["dY", "K", "X"], &["dX"]);
        let defs = get_gradient_defs(&def, &[None]).unwrap();
        assert_eq!(defs, GradientDefs { operators: vec![], input_gradients: vec![None; 3] });
    }
}
