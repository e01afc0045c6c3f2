//! Mutants that change nothing, by reason; see `survivors.txt`.

use std::collections::BTreeMap;

use super::mutants::Kernel;

/// Why mutants of a skeleton change nothing, by the skeleton's fingerprint and the mutant's number.
pub type Survivors = BTreeMap<(String, usize), &'static str>;

/// The list. A line has the name of a kernel, the fingerprint of its skeleton and the numbers of mutants, and holds for
/// every kernel of that skeleton; where the PTX is built anew and the skeleton changes, the line is refused.
pub fn survivors() -> Survivors {
    let mut reason = "";
    let mut found = Survivors::new();
    for line in include_str!("survivors.txt").lines().filter(|line| !line.is_empty()) {
        if let Some(heading) = line.strip_prefix("# ") {
            reason = heading;
            continue;
        }
        let (kernel, numbers) = line.split_once(": ").expect("a kernel and numbers");
        let (name, fingerprint) = kernel.split_once(' ').expect("a name and a fingerprint");
        let now = Kernel::new(name).fingerprint();
        assert_eq!(now, fingerprint, "{name}: its branches are not those that the list was made for");
        for range in numbers.split(' ') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let [first, last] = [first, last].map(|number| number.parse::<usize>().expect("a number"));
            for number in first..=last {
                let listed = found.insert((fingerprint.to_string(), number), reason);
                assert!(listed.is_none() && !reason.is_empty(), "{name} {number}: once, with a reason");
            }
        }
    }
    found
}
