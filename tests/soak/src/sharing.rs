//! Threads that share leaves of the tape: every pass that any of them makes is in the gradients.

use firelu::graph::tape::{Variable, apply};
use firelu::{ArgValue, Tensor};

use crate::choices::Choices;
use crate::outcome::Outcome;

/// Some threads, each with some passes over some of the leaves in an order of its own. All numbers are whole, so that
/// float32 adds them exactly in any order.
pub fn run(choices: &mut Choices<'_>) -> Result<Outcome, String> {
    let length = choices.pick(&[1, 3, 17, 1000, 40_000]);
    let leaves: Vec<Variable> = (0..1 + choices.below(4))
        .map(|_| {
            let values: Vec<f32> = (0..length).map(|_| choices.below(9) as f32 - 4.0).collect();
            Variable::leaf(Tensor::from_vec([length], values).expect("as many values as elements"))
        })
        .collect();
    let (threads, passes) = (2 + choices.below(7), 1 + choices.below(6));
    // Of each thread: where among the leaves it starts, how many it takes, whether it squares the first of them.
    let plans: Vec<(usize, usize, bool)> = (0..threads)
        .map(|_| (choices.below(leaves.len()), 1 + choices.below(leaves.len()), choices.one_in(2)))
        .collect();
    let pass = |&(start, count, squares): &(usize, usize, bool)| -> firelu::Result<()> {
        let none: [(&str, ArgValue); 0] = [];
        let taken: Vec<Variable> = leaves.iter().cycle().skip(start).take(count).cloned().collect();
        let mut terms: Vec<Option<&Variable>> = taken.iter().map(Some).collect();
        let square = apply("Mul", &[Some(&taken[0]), Some(&taken[0])], none.clone())?;
        if squares {
            terms[0] = Some(&square[0]);
        }
        apply("Sum", &terms, none)?[0].backward(None, Default::default())
    };
    let ended: Vec<firelu::Result<()>> = std::thread::scope(|scope| {
        let running: Vec<_> =
            plans.iter().map(|plan| scope.spawn(|| (0..passes).try_for_each(|_| pass(plan)))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    ended.into_iter().collect::<firelu::Result<()>>().map_err(|error| error.to_string())?;
    for (place, leaf) in leaves.iter().enumerate() {
        let values = leaf.value().to_f64_vec().map_err(|error| error.to_string())?;
        let mut expected = vec![0.0; length];
        for &(start, count, squares) in &plans {
            let turn = (place + leaves.len() - start) % leaves.len();
            if turn < count {
                let slope = |value: f64| if squares && turn == 0 { 2.0 * value } else { 1.0 };
                expected.iter_mut().zip(&values).for_each(|(sum, &value)| *sum += passes as f64 * slope(value));
            }
        }
        let got = match leaf.gradient() {
            Some(gradient) => gradient.to_f64_vec().map_err(|error| error.to_string())?,
            None => vec![0.0; length],
        };
        if got != expected {
            let first = got.iter().zip(&expected).position(|(got, expected)| got != expected);
            return Err(format!(
                "leaf {place}, {threads} threads of {passes} passes, {plans:?}: element {first:?} is wrong"
            ));
        }
    }
    Ok(Outcome::Neighbour("threads that share leaves"))
}
