//! Mutants that pass every test, by reason; see `survivors.txt`.

use std::collections::BTreeMap;

/// How the headings of those begin that do change something, which no case reaches yet.
pub const OPEN: &str = "open: ";

/// Each mutant of the list with the reason why it changes nothing, or what a case would need to notice it.
pub fn survivors() -> BTreeMap<&'static str, &'static str> {
    let mut reason = "";
    let mut found = BTreeMap::new();
    for line in include_str!("survivors.txt").lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(heading) => reason = heading,
            None => assert!(found.insert(line, reason).is_none() && !reason.is_empty(), "{line}: once, with a reason"),
        }
    }
    found
}
