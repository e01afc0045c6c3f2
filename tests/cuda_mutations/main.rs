//! Would the tests notice a wrong kernel? Each barrier, guard and bound is taken out of the PTX that ships, in memory,
//! one at a time, and each must be missed: by the emulated driver, or by a number that is not the CPU's.
#![cfg(all(feature = "cuda", unix))]

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod mutants;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cases::{Case, elementwise, filters};
use common::Cuda;
use common::operands::{GPU, tensor};
use firelu::DType;
use firelu::devices::copy;
use mutants::{Kernel, Mutant};

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

/// Mutants of the kernels that the cases launch, and of those that count in 64 bits in place of their narrow twins,
/// which have the same parameters.
fn every_guard_is_missed(dtype: DType) {
    let cuda = Cuda::take();
    if cuda.is_real() {
        return;
    }
    cuda.set("WATCHDOG", "3000000");
    let cases: Vec<Case> = elementwise(dtype).into_iter().chain(filters(dtype)).collect();
    let (mut tried, mut passed) = (0, Vec::new());
    let start = Instant::now();
    for (kernel, cases) in by_kernel(&cuda, &cases) {
        let mut mutants = Kernel::new(&kernel).without_guards();
        if let Some(stem) = kernel.strip_suffix("_32") {
            mutants.extend(Kernel::new(&format!("{stem}_64")).renamed(&kernel).without_guards());
        }
        let before = (tried, passed.len());
        for mutant in mutants {
            tried += 1;
            if !is_noticed(&cuda, &kernel, &mutant, &cases) {
                passed.push(mutant.label);
            }
        }
        assert!(cuda.replace(&kernel, &Kernel::new(&kernel).text()), "{kernel} is restored");
        println!("{kernel}: {} mutants, {} pass, {:?}", tried - before.0, passed.len() - before.1, start.elapsed());
    }
    cuda.set("WATCHDOG", "");
    println!("{tried} mutants, {} pass", passed.len());
    assert!(passed.is_empty(), "{} mutants pass every test:\n{}", passed.len(), passed.join("\n"));
}

#[test]
#[ignore = "takes minutes: part of `make test-full`"]
fn every_guard_of_float32_is_missed() {
    every_guard_is_missed(DType::Float32);
}
