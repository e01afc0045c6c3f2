//! The tape: variables, gradients of any order, memory, depth and threads.

use std::collections::HashMap;

use firelu::devices::cpu::memory;
use firelu::*;

fn vector(values: &[f64]) -> Tensor {
    Tensor::from_vec([values.len()], values.to_vec()).unwrap()
}

fn one(name: &str, inputs: &[&Variable], args: &[(&str, f64)]) -> Variable {
    let inputs: Vec<Option<&Variable>> = inputs.iter().map(|input| Some(*input)).collect();
    let args = args.iter().map(|(name, value)| (*name, ArgValue::Float(*value)));
    apply(name, &inputs, args).unwrap().swap_remove(0)
}

fn leaky(x: &Variable, alpha: f64) -> Variable {
    one("LeakyRelu", &[x], &[("alpha", alpha)])
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_f64_vec().unwrap()
}

fn gradient(variable: &Variable) -> Vec<f64> {
    values(&variable.gradient().unwrap())
}

#[test]
fn backward_starts_from_ones_and_accumulates() {
    let x = Variable::leaf(vector(&[-1.0, 0.0, 2.0]));
    leaky(&x, 0.1).backward(None, Default::default()).unwrap();
    assert_eq!(gradient(&x), [0.1, 0.1, 1.0]);
    leaky(&x, 0.1).backward(Some(vector(&[1.0, 2.0, 3.0])), Default::default()).unwrap();
    assert_eq!(gradient(&x), [0.2, 0.1 + 0.1 * 2.0, 4.0]);
    x.set_gradient(None).unwrap();
    assert!(x.gradient().is_none());
}

#[test]
fn a_variable_used_often_gets_every_contribution() {
    let x = Variable::leaf(vector(&[-2.0, 3.0]));
    let mut total = leaky(&x, 0.5);
    for _ in 0..30 {
        total = one("Add", &[&total, &x], &[]);
    }
    let square = one("Mul", &[&x, &x], &[]);
    one("Sum", &[&total, &square, &x], &[]).backward(None, Default::default()).unwrap();
    assert_eq!(gradient(&x), [0.5 + 30.0 - 4.0 + 1.0, 1.0 + 30.0 + 6.0 + 1.0]);
}

#[test]
fn higher_orders_come_from_create_graph() {
    // y = x^3: 3 x^2, 6 x, 6, 0.
    let x = Variable::leaf(vector(&[-2.0, 3.0]));
    let square = one("Mul", &[&x, &x], &[]);
    let mut y = one("Mul", &[&square, &x], &[]);
    let keep = BackwardOptions { create_graph: true, ..Default::default() };
    for expected in [[12.0, 27.0], [-12.0, 18.0], [6.0, 6.0]] {
        y = grad(&[y], std::slice::from_ref(&x), &[], keep).unwrap().swap_remove(0).unwrap();
        assert_eq!(values(y.value()), expected);
    }
    let last = grad(&[y], std::slice::from_ref(&x), &[], keep).unwrap().swap_remove(0);
    assert!(last.is_none_or(|last| values(last.value()) == [0.0, 0.0]));
}

#[test]
fn gradients_of_inner_variables_and_of_what_is_not_needed() {
    let (x, w) = (Variable::leaf(vector(&[-2.0, 3.0])), Variable::leaf(vector(&[5.0, 7.0])));
    let hidden = leaky(&x, 0.5);
    let y = one("Mul", &[&hidden, &w], &[]);
    let keep = BackwardOptions { retain_graph: true, ..Default::default() };
    let found = grad(std::slice::from_ref(&y), &[hidden.clone(), w.clone()], &[], keep).unwrap();
    assert_eq!(values(found[0].as_ref().unwrap().value()), [5.0, 7.0]);
    assert_eq!(values(found[1].as_ref().unwrap().value()), [-1.0, 3.0]);
    assert!(x.gradient().is_none() && w.gradient().is_none(), "grad writes to no leaf");
    let other = Variable::leaf(vector(&[1.0]));
    assert!(grad(std::slice::from_ref(&y), &[other], &[], keep).unwrap()[0].is_none());
    let constant = Variable::constant(vector(&[1.0]));
    assert!(matches!(grad(&[y], &[constant], &[], keep), Err(Error::Argument(_))));
}

#[test]
fn a_pass_frees_the_graph_unless_told_to_keep_it() {
    let x = Variable::leaf(vector(&[-2.0, 3.0]));
    let y = leaky(&x, 0.5);
    assert!(y.is_saved() && !x.is_saved(), "leaky ReLU needs its output alone");
    y.backward(None, BackwardOptions { retain_graph: true, ..Default::default() }).unwrap();
    y.backward(None, Default::default()).unwrap();
    assert!(!y.is_saved());
    let refused = y.backward(None, Default::default()).unwrap_err();
    assert!(matches!(refused, Error::NoGradient { .. }) && refused.to_string().contains("retain"), "{refused}");
    assert_eq!(gradient(&x), [1.0, 2.0]);
}

#[test]
fn a_failed_pass_leaves_gradients_as_they_were() {
    let x = Variable::leaf(vector(&[-2.0, 3.0]));
    let y = leaky(&x, 0.5);
    for wrong in [vector(&[1.0]), Tensor::from_vec([2], vec![1f32, 1.0]).unwrap()] {
        assert!(y.backward(Some(wrong), Default::default()).is_err());
    }
    assert!(Variable::constant(vector(&[1.0])).backward(None, Default::default()).is_err());
    assert!(y.set_gradient(None).is_err() && x.set_gradient(Some(vector(&[1.0]))).is_err());
    assert!(x.gradient().is_none());
}

#[test]
fn nothing_is_recorded_without_need() {
    let x = Variable::leaf(vector(&[-2.0, 3.0]));
    assert!(!no_grad(|| leaky(&x, 0.5)).requires_gradient());
    assert!(!leaky(&x.detach(), 0.5).requires_gradient());
    // LeakyReluGradient is flat in its first input.
    let dy = Variable::constant(vector(&[1.0, 1.0]));
    assert!(!one("LeakyReluGradient", &[&x, &dy], &[]).requires_gradient());
}

#[test]
fn leaves_do_not_share_their_gradients() {
    let (x, w) = (Variable::leaf(vector(&[1.0])), Variable::leaf(vector(&[2.0])));
    let start = vector(&[1.0]);
    one("Add", &[&x, &w], &[]).backward(Some(start.clone()), Default::default()).unwrap();
    let addresses: Vec<_> =
        [x.gradient().unwrap(), w.gradient().unwrap(), start].iter().map(|t| t.view().pointer as usize).collect();
    assert!(addresses[0] != addresses[1] && addresses[1] != addresses[2] && addresses[0] != addresses[2]);
}

#[test]
fn gradients_can_be_replaced_when_recorded_and_when_run() {
    let straight = || {
        let maker = |request: &GradientRequest<'_>| {
            Ok(GradientDefs { operators: vec![], input_gradients: vec![request.output_gradients[0].clone()] })
        };
        HashMap::from([("LeakyRelu".to_string(), Gradient::defined(maker))])
    };
    let x = Variable::leaf(vector(&[-2.0, 3.0]));
    let recorded = gradient_override(straight(), || leaky(&x, 0.5));
    recorded.backward(None, Default::default()).unwrap();
    assert_eq!(gradient(&x), [1.0, 1.0]);
    x.set_gradient(None).unwrap();
    let plain = leaky(&x, 0.5);
    gradient_override(straight(), || plain.backward(None, Default::default())).unwrap();
    assert_eq!(gradient(&x), [1.0, 1.0]);
}

#[test]
fn ten_thousand_operators_deep() {
    let x = Variable::leaf(vector(&[-1.0, 2.0]));
    // A small stack: recursion anywhere would overflow it.
    let deep = move || {
        let mut y = x.clone();
        for _ in 0..10_000 {
            y = one("LeakyRelu", &[&y], &[("alpha", 1.0)]);
        }
        let keep = BackwardOptions { create_graph: true, ..Default::default() };
        let first = grad(std::slice::from_ref(&y), std::slice::from_ref(&x), &[], keep).unwrap();
        assert_eq!(values(first[0].as_ref().unwrap().value()), [1.0, 1.0]);
        y.backward(None, Default::default()).unwrap();
        assert_eq!(gradient(&x), [1.0, 1.0]);
        drop(first);
        drop(y);
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(deep).unwrap().join().unwrap();
}

#[test]
fn separate_graphs_run_in_parallel() {
    let work = |seed: usize| {
        move || {
            let x = Variable::leaf(vector(&vec![seed as f64 - 4.5; 1000]));
            for _ in 0..50 {
                let y = one("Mul", &[&leaky(&x, 0.5), &x], &[]);
                y.backward(None, Default::default()).unwrap();
            }
            let slope = if seed > 4 { 1.0 } else { 0.5 };
            let expected = 50.0 * 2.0 * slope * (seed as f64 - 4.5);
            assert!(gradient(&x).iter().all(|&value| value == expected));
        }
    };
    let threads: Vec<_> = (0..8).map(|seed| std::thread::spawn(work(seed))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn threads_that_share_leaves_lose_no_gradient() {
    let leaves: Vec<Variable> = (0..3).map(|_| Variable::leaf(vector(&[1.0; 1000]))).collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let leaves = &leaves;
            scope.spawn(move || {
                for _ in 0..50 {
                    // Each thread meets the leaves in another order.
                    let turned: Vec<&Variable> = leaves.iter().cycle().skip(thread).take(3).collect();
                    one("Sum", &turned, &[]).backward(None, Default::default()).unwrap();
                }
            });
        }
    });
    for leaf in &leaves {
        assert_eq!(gradient(leaf), [400.0; 1000]);
    }
}

/// The one test of this file with pooled memory: blocks of at least a mebibyte are counted by the pool.
#[test]
fn the_tape_keeps_what_it_needs_and_no_more() {
    const BYTES: usize = 4 << 20;
    let x = || Tensor::from_vec([BYTES / 4], vec![1f32; BYTES / 4]).unwrap();
    let in_use = || memory::stats().in_use / BYTES;
    let start = in_use();
    // Add of a constant needs nothing of its inputs: only the last result lives.
    let (leaf, constant) = (Variable::leaf(x()), Variable::constant(x()));
    let mut y = leaf.clone();
    for _ in 0..100 {
        y = one("Add", &[&y, &constant], &[]);
    }
    assert_eq!(in_use() - start, 1);
    drop(y);
    // Leaky ReLU needs its output: one for each operator, and each is freed on the way back.
    let mut y = leaf.clone();
    for _ in 0..100 {
        y = leaky(&y, 0.5);
    }
    assert_eq!(in_use() - start, 100);
    y.backward(None, Default::default()).unwrap();
    assert_eq!(in_use() - start, 2, "the last result and the gradient");
    drop((y, leaf));
    assert_eq!(in_use() - start, 0);
}

#[test]
fn gradients_are_checked_against_differences() {
    let inputs = [vector(&[1.0, -2.0]), vector(&[3.0, 0.5])];
    let product = |x: &[Variable]| Ok(one("Mul", &[&one("Mul", &[&x[0], &x[1]], &[]), &x[0]], &[]));
    gradcheck(product, &inputs, 3).unwrap();
    gradcheck(|x: &[Variable]| Ok(leaky(&x[0], 0.1)), &inputs[..1], 2).unwrap();
    assert!(gradcheck(product, &inputs, 0).is_err());
    let single = Tensor::from_vec([1], vec![1.0f32]).unwrap();
    assert!(matches!(gradcheck(|x: &[Variable]| Ok(x[0].clone()), &[single], 1), Err(Error::Argument(_))));
}

#[test]
fn a_wrong_gradient_is_named_with_its_element_and_both_values() {
    let passes_through = Gradient::defined(|request: &GradientRequest<'_>| {
        Ok(GradientDefs { operators: vec![], input_gradients: request.output_gradients.to_vec() })
    });
    let makers = HashMap::from([("LeakyRelu".to_string(), passes_through)]);
    let checked =
        gradient_override(makers, || gradcheck(|x: &[Variable]| Ok(leaky(&x[0], 0.5)), &[vector(&[1.0, -2.0])], 1));
    let error = checked.unwrap_err().to_string();
    assert!(
        error.starts_with("gradcheck: order 1: input 0, element 1 = -2: the gradient of output 0, element 1, is 1, ")
    );
    assert!(error.contains("differences give 0.5") || error.contains("differences give 0.49999"), "{error}");
}
