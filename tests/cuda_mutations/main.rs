//! Would the tests notice a wrong kernel? Each barrier, guard and bound is taken out of the PTX that ships, in memory,
//! one at a time, and each must be missed: by the emulated driver, or by a number that is not the CPU's.
#![cfg(all(feature = "cuda", unix))]

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod mutants;
mod survivors;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cases::{Case, elementwise, filters, of_other_types};
use common::Cuda;
use common::operands::{GPU, tensor};
use firelu::DType;
use firelu::devices::copy;
use firelu::devices::cuda::parameters::suffix;
use mutants::{Kernel, Mutant};
use survivors::{OPEN, survivors};

/// The cases, the cheapest first, by the kernels that they launch.
fn by_kernel<'a>(cuda: &Cuda, cases: &'a [Case]) -> BTreeMap<String, RefCell<Vec<&'a Case>>> {
    let mut found: BTreeMap<String, Vec<(Duration, &Case)>> = BTreeMap::new();
    for case in cases {
        cuda.clear_counters();
        let start = Instant::now();
        assert!(case.agrees(), "{case} agrees before anything is changed: {}", cuda.reports());
        let cost = start.elapsed();
        let text = cuda.counters();
        let mut names: Vec<_> =
            text.split("\"kernel\": \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            found.entry(name.to_string()).or_default().push((cost, case));
        }
    }
    let sorted = |mut cases: Vec<(Duration, &'a Case)>| {
        cases.sort_by_key(|(cost, _)| *cost);
        RefCell::new(cases.into_iter().map(|(_, case)| case).collect())
    };
    found.into_iter().map(|(kernel, cases)| (kernel, sorted(cases))).collect()
}

/// Whether a case fails, or the emulator reports something, when the mutant runs in place of a kernel.
fn is_noticed(cuda: &Cuda, kernel: &str, mutant: &Mutant, cases: &RefCell<Vec<&Case>>) -> bool {
    assert!(cuda.replace(kernel, &mutant.text), "{} is loaded: {}", mutant.label, cuda.reports());
    let mut cases = cases.borrow_mut();
    let noticing = cases.iter().position(|case| !case.agrees() || !cuda.reports().is_empty());
    let Some(noticing) = noticing else { return false };
    // What notices one change often notices the next.
    cases[..=noticing].rotate_right(1);
    cuda.recover();
    assert!(cuda.replace(kernel, &Kernel::new(kernel).text()), "{kernel} is restored");
    // Memory that a failed context did not free is freed by the next call, which tells of it.
    let settled = (0..3).any(|_| copy(&tensor(&[1], &[1.0], DType::Float32), GPU).is_ok());
    assert!(settled, "the device works again after {}", mutant.label);
    cuda.reports();
    true
}

#[test]
fn every_barrier_is_missed() {
    let cuda = Cuda::take();
    if cuda.is_real() {
        return; // A GPU neither takes other instructions nor reports a race.
    }
    let cases: Vec<Case> = elementwise(DType::Float32).into_iter().chain(filters(DType::Float32)).collect();
    let mut tried = 0;
    for (kernel, cases) in by_kernel(&cuda, &cases) {
        for mutant in Kernel::new(&kernel).without_barriers() {
            tried += 1;
            assert!(is_noticed(&cuda, &kernel, &mutant, &cases), "{} passes every test", mutant.label);
        }
    }
    println!("{tried} barriers, each missed");
    assert!(tried >= 25, "{tried} barriers");
}

/// The kernels whose mutants run where `kernel` is launched: itself, and those with the same parameters that no small
/// case launches or that it serves better.
fn in_place_of(kernel: &str) -> Vec<String> {
    let mut kernels = vec![kernel.to_string()];
    if let Some(stem) = kernel.strip_suffix("_32") {
        kernels.push(format!("{stem}_64"));
    }
    match kernel {
        FINISH => kernels.extend(FINISH_LIKE.map(str::to_string)),
        _ if FINISH_LIKE.contains(&kernel) => kernels.clear(),
        _ => {}
    }
    kernels
}

/// The last step of a sum: three kernels of one source, this one launched with the most partial sums.
const FINISH: &str = "upfirdn2d_kernel_finish";
const FINISH_LIKE: [&str; 2] = ["fused_leaky_relu_bias_finish", "reduce_sum_finish"];

/// Runs every mutant of the kernels that are asked for and that nobody has listed; what passes is printed and fails.
fn every_guard_is_missed(dtype: DType, cases: &[Case], asked: impl Fn(&str) -> bool) {
    let cuda = Cuda::take();
    if cuda.is_real() {
        return;
    }
    // The longest loop of a case takes a tenth of this; one without end is cut off.
    cuda.set("WATCHDOG", "3000000");
    let (suffix, survivors) = (format!("_{}", suffix(dtype)), survivors());
    let (mut tried, mut listed, mut open, mut passed) = (0, 0, 0, Vec::new());
    for (kernel, cases) in by_kernel(&cuda, cases) {
        // Kernels of the other types are launched too, by the cases of the last step of sums.
        if !asked(&kernel) || !kernel.contains(&suffix) && kernel != FINISH {
            continue;
        }
        for own in in_place_of(&kernel) {
            for mutant in Kernel::new(&own).without_guards() {
                tried += 1;
                if let Some(reason) = survivors.get(mutant.label.as_str()) {
                    listed += 1;
                    open += usize::from(reason.starts_with(OPEN));
                    continue;
                }
                let mutant = mutant.in_place_of(&own, &kernel);
                if !is_noticed(&cuda, &kernel, &mutant, &cases) {
                    println!("{}", mutant.label);
                    passed.push(mutant.label);
                }
            }
        }
        assert!(cuda.replace(&kernel, &Kernel::new(&kernel).text()), "{kernel} is restored");
    }
    cuda.set("WATCHDOG", "100M");
    println!("{dtype:?}: {tried} mutants, {listed} listed, {open} of them open, {} pass", passed.len());
    assert!(passed.is_empty(), "{} mutants pass every test:\n{}", passed.len(), passed.join("\n"));
}

#[test]
#[ignore = "takes minutes: part of `make test-full`"]
fn every_guard_of_an_elementwise_kernel_is_missed() {
    drop(Cuda::take()); // The emulator is opened before the first operand is made.
    let cases = elementwise(DType::Float32);
    every_guard_is_missed(DType::Float32, &cases, |kernel| !kernel.starts_with("upfirdn2d"));
}

#[test]
#[ignore = "a survey: what passes is not listed yet"]
fn every_guard_of_a_filter_is_missed() {
    drop(Cuda::take());
    let mut cases = filters(DType::Float32);
    cases.extend(of_other_types(DType::Float32));
    every_guard_is_missed(DType::Float32, &cases, |kernel| kernel.starts_with("upfirdn2d"));
}
