//! "Did you mean": the nearest known names to one that is unknown.

/// Up to three of `known` that are close to `name`, nearest first.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let wanted = name.to_lowercase();
    let mut scored: Vec<(usize, &str)> = known
        .map(|candidate| (distance(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(name.len()) / 2)
        .collect();
    scored.sort();
    scored.into_iter().take(3).map(|(_, candidate)| candidate.to_string()).collect()
}

/// "; did you mean A, B?" or nothing.
pub fn hint(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; did you mean {}?", nearest.join(" or ")) }
}

/// Levenshtein's distance, on bytes: names are ASCII. Long names are cut, so that the work is bounded.
fn distance(a: &str, b: &str) -> usize {
    let a = &a.as_bytes()[..a.len().min(64)];
    let b = &b.as_bytes()[..b.len().min(64)];
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &letter) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &other) in b.iter().enumerate() {
            let substitution = diagonal + usize::from(letter != other);
            diagonal = row[j + 1];
            row[j + 1] = substitution.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_levenshteins() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known = ["LeakyRelu", "LeakyReluGradient", "UpFirDn2d"];
        assert_eq!(nearest("leaky_relu", known.into_iter()), ["LeakyRelu"]);
        assert!(nearest("zzz", known.into_iter()).is_empty());
    }
}
