//! Would the tests notice a wrong kernel? Each barrier, guard and bound is taken out of the PTX that ships, in memory,
//! one at a time, and each must be missed: by the emulated driver, or by a number that is not the CPU's.
#![cfg(all(feature = "cuda", unix))]

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod filters;
mod mutants;
mod survivors;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cases::{Case, elementwise, filtered};
use common::Cuda;
use common::operands::{GPU, tensor};
use filters::{
    filters_of_any_factors, filters_of_four_taps, filters_of_many_channels, of_other_types, some_filters,
    sums_of_filters, taps_of_filters,
};
use firelu::DType;
use firelu::devices::copy;
use firelu::devices::cuda::parameters::suffix;
use mutants::{Kernel, Mutant, kernels};
use survivors::survivors;

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

/// The kernel that is launched where a case is to reach this one: itself, or one with the same parameters where no small
/// case launches it or launches it with as much to do.
fn launched_for(kernel: &str) -> String {
    match kernel {
        _ if FINISH_LIKE.contains(&kernel) => FINISH.to_string(),
        _ => kernel.strip_suffix("_64").map_or_else(|| kernel.to_string(), |stem| format!("{stem}_32")),
    }
}

/// The last step of a sum: four kernels of one source, this one launched with the most partial sums.
const FINISH: &str = "upfirdn2d_kernel_finish";
const FINISH_LIKE: [&str; 3] = ["bias_act_finish", "fused_leaky_relu_bias_finish", "reduce_sum_finish"];

/// Whether this run is to change a kernel: all of them, or those whose names hold the text of `FIRELU_MUTATE`.
fn is_asked_for(kernel: &str) -> bool {
    std::env::var("FIRELU_MUTATE").map_or(true, |text| kernel.contains(&text))
}

/// The part of the kernels that one test changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Elementwise,
    FilteredAct,
    /// Filters of four taps.
    Tiled,
    General,
    ChannelsLast,
    /// Straight from memory.
    Strided,
    KernelGradient,
    Taps,
    /// Last steps of sums.
    Finish,
}

fn family(kernel: &str) -> Family {
    let is = |stem: &str| kernel.starts_with(&format!("upfirdn2d_{stem}_"));
    match kernel {
        _ if kernel.starts_with("filtered_act_") => Family::FilteredAct,
        _ if kernel == FINISH || FINISH_LIKE.contains(&kernel) => Family::Finish,
        _ if !kernel.starts_with("upfirdn2d_") => Family::Elementwise,
        _ if is("general") => Family::General,
        _ if is("channels_last") => Family::ChannelsLast,
        _ if is("strided") => Family::Strided,
        _ if is("kernel_gradient") => Family::KernelGradient,
        _ if is("taps") => Family::Taps,
        _ => Family::Tiled,
    }
}

/// The type that a kernel is for; kernels for all types count as those of float32.
fn type_of(kernel: &str) -> DType {
    let is = |dtype: &DType| kernel.split('_').any(|part| part == suffix(*dtype));
    DType::ALL.into_iter().find(is).unwrap_or(DType::Float32)
}

/// Whether the kernel of float32 from the same source decides alike, so that its mutants stand for this one's.
fn is_covered(kernel: &str) -> bool {
    let of_float32 = kernel.replace(&format!("_{}", suffix(type_of(kernel))), "_f32");
    of_float32 != kernel && Kernel::new(&of_float32).skeleton() == Kernel::new(kernel).skeleton()
}

#[test]
fn every_barrier_is_missed() {
    let cuda = Cuda::take();
    if cuda.is_real() {
        return; // A GPU neither takes other instructions nor reports a race.
    }
    let dtype = DType::Float32;
    let cases = all([elementwise(dtype), some_filters(dtype), sums_of_filters(dtype)]);
    let by_kernel = by_kernel(&cuda, &cases);
    let (mut tried, mut passing) = (0, Vec::new());
    for kernel in kernels().into_iter().filter(|kernel| type_of(kernel) == DType::Float32) {
        let launched = launched_for(kernel);
        let met = by_kernel.get(&launched).unwrap_or_else(|| panic!("no case launches {launched}"));
        for mutant in Kernel::new(kernel).without_barriers() {
            tried += 1;
            let mutant = mutant.in_place_of(kernel, &launched);
            if !is_noticed(&cuda, &launched, &mutant, met) {
                passing.push(mutant.label);
            }
        }
    }
    println!("{tried} barriers, {} not missed", passing.len());
    // In the gradient these order the chunks of a tile, and tiles of the cases have one: they are not proven here.
    let expected = [2, 7, 9].map(|place| format!("filtered_act_gradient_f32 1f16764d {place} dropped: bar.sync 0;"));
    assert_eq!(passing, expected);
    assert!(tried >= 25, "{tried} barriers");
}

/// Runs every mutant of a family's kernels for one type that is not listed, and prints and returns what passes. With
/// `FIRELU_MUTATE_LISTED=1` those on the list run too, to be told of one that is noticed.
fn passing(of: Family, dtype: DType, cases: impl Fn() -> Vec<Case>) -> Vec<String> {
    let cuda = Cuda::take();
    if cuda.is_real() {
        return vec![];
    }
    let own = kernels().into_iter().filter(|kernel| family(kernel) == of && type_of(kernel) == dtype);
    let own = own.filter(|kernel| is_asked_for(kernel));
    let (covered, own): (Vec<_>, Vec<_>) = own.partition(|kernel| is_covered(kernel));
    let alike: usize = covered.iter().map(|kernel| Kernel::new(kernel).without_guards().len()).sum();
    println!("{of:?} {dtype:?}: {alike} mutants of {} kernels are those of float32", covered.len());
    if own.is_empty() {
        return vec![];
    }
    let (start, survivors) = (Instant::now(), survivors());
    let lists_too = std::env::var("FIRELU_MUTATE_LISTED").is_ok_and(|value| value == "1");
    // The longest loop of a case takes a tenth of this; one without end is cut off.
    cuda.set("WATCHDOG", "3000000");
    let cases = cases();
    let by_kernel = by_kernel(&cuda, &cases);
    let (mut tried, mut listed, mut passed) = (0, 0, Vec::new());
    for kernel in &own {
        let launched = launched_for(kernel);
        let cases = by_kernel.get(&launched).unwrap_or_else(|| panic!("no case launches {launched}"));
        let original = Kernel::new(kernel);
        let (start, before) = (Instant::now(), tried);
        for mutant in original.without_guards() {
            tried += 1;
            let reason = survivors.get(&(original.fingerprint(), mutant.number));
            if let Some(reason) = reason {
                listed += 1;
                println!("listed: {} ({reason})", mutant.label);
                if !lists_too {
                    continue;
                }
            }
            let mutant = mutant.in_place_of(kernel, &launched);
            match (is_noticed(&cuda, &launched, &mutant, cases), reason) {
                (false, None) => {
                    println!("passes: {}", mutant.label);
                    passed.push(mutant.label);
                }
                (true, Some(_)) => println!("listed but noticed: {}", mutant.label),
                _ => {}
            }
        }
        assert!(cuda.replace(&launched, &Kernel::new(&launched).text()), "{launched} is restored");
        println!("{kernel}: {} mutants, {:.0?}", tried - before, start.elapsed());
    }
    cuda.set("WATCHDOG", "100M");
    println!(
        "{of:?} {dtype:?}: {tried} mutants of {} kernels, {listed} listed, {} pass, {} cases, {:.0?}",
        own.len(),
        passed.len(),
        cases.len(),
        start.elapsed()
    );
    passed
}

fn all<const N: usize>(parts: [Vec<Case>; N]) -> Vec<Case> {
    parts.into_iter().flatten().collect()
}

fn of_each_type(of: Family, cases: impl Fn(DType) -> Vec<Case>) {
    let passed: Vec<String> = DType::ALL.into_iter().flat_map(|dtype| passing(of, dtype, || cases(dtype))).collect();
    assert!(passed.is_empty(), "{} mutants pass every test:\n{}", passed.len(), passed.join("\n"));
}

#[test]
#[ignore = "takes minutes: part of `make test-full`"]
fn every_guard_of_elementwise_kernels() {
    of_each_type(Family::Elementwise, elementwise);
}

#[test]
#[ignore = "takes minutes: part of `make test-full`"]
fn every_guard_of_filtered_activations() {
    of_each_type(Family::FilteredAct, filtered);
}

#[test]
#[ignore = "takes minutes: part of `make test-full`"]
fn every_guard_of_filters_of_four_taps() {
    of_each_type(Family::Tiled, filters_of_four_taps);
}

#[test]
#[ignore = "takes minutes: part of `make test-full`"]
fn every_guard_of_general_filters() {
    of_each_type(Family::General, filters_of_any_factors);
}

#[test]
#[ignore = "takes minutes: part of `make test-full`"]
fn every_guard_of_filters_of_channels_last() {
    of_each_type(Family::ChannelsLast, |dtype| {
        all([filters_of_any_factors(dtype), filters_of_four_taps(dtype), filters_of_many_channels(dtype)])
    });
}

#[test]
#[ignore = "takes minutes: part of `make test-full`"]
fn every_guard_of_strided_filters() {
    of_each_type(Family::Strided, filters_of_any_factors);
}

#[test]
#[ignore = "takes minutes: part of `make test-full`"]
fn every_guard_of_kernel_gradients_of_filters() {
    of_each_type(Family::KernelGradient, |dtype| all([filters_of_any_factors(dtype), sums_of_filters(dtype)]));
}

#[test]
#[ignore = "takes minutes: part of `make test-full`"]
fn every_guard_of_taps_of_filters() {
    of_each_type(Family::Taps, taps_of_filters);
}

#[test]
#[ignore = "takes minutes: part of `make test-full`"]
fn every_guard_of_last_steps_of_sums() {
    of_each_type(Family::Finish, |dtype| all([sums_of_filters(dtype), of_other_types(dtype)]));
}
