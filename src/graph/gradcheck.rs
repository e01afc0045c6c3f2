//! Gradients checked against differences.

use crate::core::args::ArgValue;
use crate::core::error::{Error, Result};
use crate::core::tensor::Tensor;
use crate::graph::tape::{BackwardOptions, Variable, apply, grad};

/// How far an element is moved, times its size where that is above 1.
const STEP: f64 = 1e-5;
/// How far the two may differ: absolutely for small derivatives, relatively for those above 1.
const TOLERANCE: f64 = 1e-6;

/// Checks the gradients of a function of float64 tensors against central differences, for every order up to `order`.
/// Beyond the first, a weighting of the gradient is differentiated again.
///
/// Every element of every input is moved, and every element of the result differentiated by itself, so keep both small.
/// Near a kink of the function there is no derivative to compare with: choose other inputs.
///
/// ```
/// use firelu::{Tensor, Variable, apply, gradcheck};
///
/// let product = |x: &[Variable]| Ok(apply("Mul", &[Some(&x[0]), Some(&x[1])], [] as [(&str, _); 0])?.remove(0));
/// let inputs = [Tensor::from_vec([2], vec![1.0, 2.0])?, Tensor::from_vec([2], vec![3.0, 4.0])?];
/// gradcheck(product, &inputs, 2)?;
/// # firelu::Result::Ok(())
/// ```
pub fn gradcheck(function: impl Fn(&[Variable]) -> Result<Variable>, inputs: &[Tensor], order: usize) -> Result<()> {
    let refuse = |argument: &str, got: String, takes: &str| Err(Error::argument("gradcheck", argument, got, takes));
    if order == 0 {
        return refuse("order", order.to_string(), "a whole number from 1 on");
    }
    if let Some(input) = inputs.iter().find(|input| input.to_vec::<f64>().is_err()) {
        return refuse("inputs", input.kind().to_string(), "float64 on the cpu");
    }
    for order in 1..=order {
        check(&function, inputs, order)?;
    }
    Ok(())
}

fn check(function: &impl Fn(&[Variable]) -> Result<Variable>, inputs: &[Tensor], order: usize) -> Result<()> {
    let (results, leaves) = results(function, inputs, order)?;
    let options = BackwardOptions { retain_graph: true, create_graph: false };
    for (place, input) in inputs.iter().enumerate() {
        let values = input.to_vec::<f64>()?;
        for (element, &before) in values.iter().enumerate() {
            let width = STEP * before.abs().max(1.0);
            let at = |moved: f64| -> Result<Vec<Vec<f64>>> {
                let mut values = values.clone();
                values[element] = moved;
                let mut inputs = inputs.to_vec();
                inputs[place] = Tensor::from_vec(input.shape().clone(), values)?;
                self::results(function, &inputs, order)?.0.iter().map(|result| result.value().to_vec()).collect()
            };
            let (above, below) = (at(before + width)?, at(before - width)?);
            for (which, result) in results.iter().enumerate() {
                for (index, (above, below)) in above[which].iter().zip(&below[which]).enumerate() {
                    let numeric = (above - below) / ((before + width) - (before - width));
                    let mut start = vec![0.0; result.value().shape().elements()];
                    start[index] = 1.0;
                    let start = Variable::constant(Tensor::from_vec(result.value().shape().clone(), start)?);
                    let found =
                        grad(std::slice::from_ref(result), &leaves[place..=place], &[Some(start)], options)?.remove(0);
                    let gradient = found.map_or(Ok(0.0), |found| found.value().to_vec().map(|all| all[element]))?;
                    // Written so that a NaN on either side is a difference.
                    let agree = (gradient - numeric).abs() <= TOLERANCE * numeric.abs().max(1.0);
                    if !agree {
                        let kind = if order == 1 { "output".into() } else { format!("derivative {}", order - 1) };
                        return Err(Error::Gradcheck(format!(
                            "order {order}: input {place}, element {element} = {before}: the gradient of {kind} \
                             {which}, element {index}, is {gradient}, differences give {numeric}"
                        )));
                    }
                }
            }
        }
    }
    Ok(())
}

/// The variables whose first derivative is compared, and their leaves.
fn results(
    function: &impl Fn(&[Variable]) -> Result<Variable>,
    inputs: &[Tensor],
    order: usize,
) -> Result<(Vec<Variable>, Vec<Variable>)> {
    let leaves: Vec<Variable> = inputs.iter().cloned().map(Variable::leaf).collect();
    let mut results = vec![function(&leaves)?];
    for _ in 1..order {
        let weighted = results.iter().map(weighted).collect::<Result<Vec<_>>>()?;
        let options = BackwardOptions { retain_graph: true, create_graph: true };
        results = grad(&weighted, &leaves, &[], options)?.into_iter().flatten().collect();
    }
    Ok((results, leaves))
}

/// One number that each element enters with a weight of its own, so that no error hides in a sum.
fn weighted(variable: &Variable) -> Result<Variable> {
    let shape = variable.value().shape().clone();
    let golden = 0.618_033_988_749_894_9;
    let weights = (1..=shape.elements()).map(|n| 0.5 + (n as f64 * golden).fract()).collect();
    let weights = Variable::constant(Tensor::from_vec::<f64>(shape, weights)?);
    let none: [(&str, ArgValue); 0] = [];
    let product = apply("Mul", &[Some(variable), Some(&weights)], none.clone())?.remove(0);
    Ok(apply("ReduceSum", &[Some(&product)], none)?.remove(0))
}
