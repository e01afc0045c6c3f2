//! Mutants that change nothing, by reason; see `survivors.txt`.

use std::collections::BTreeMap;

use super::mutants::Kernel;

/// Why mutants of a skeleton change nothing, by the skeleton's fingerprint and the mutant's number.
pub type Survivors = BTreeMap<(String, usize), &'static str>;

/// The list. A line has names of kernels, each with the fingerprint of its skeleton, and the numbers of mutants, and
/// holds for every kernel of these skeletons; where the PTX is built anew and a skeleton changes, the line is refused.
pub fn survivors() -> Survivors {
    let mut reason = "";
    let mut found = Survivors::new();
    for line in include_str!("survivors.txt").lines().filter(|line| !line.is_empty()) {
        if let Some(heading) = line.strip_prefix("# ") {
            reason = heading;
            continue;
        }
        let (kernels, numbers) = line.split_once(": ").expect("kernels and numbers");
        for kernel in kernels.split(", ") {
            let (name, fingerprint) = kernel.split_once(' ').expect("a name and a fingerprint");
            let now = Kernel::new(name).fingerprint();
            assert_eq!(now, fingerprint, "{name}: its branches are not those that the list was made for");
            for number in numbers.split(' ').flat_map(range) {
                let listed = found.insert((fingerprint.to_string(), number), reason);
                assert!(listed.is_none() && !reason.is_empty(), "{name} {number}: once, with a reason");
            }
        }
    }
    found
}

/// `7`, or `3-5` for three numbers.
fn range(text: &str) -> std::ops::RangeInclusive<usize> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let [first, last] = [first, last].map(|number| number.parse().expect("a number"));
    first..=last
}
