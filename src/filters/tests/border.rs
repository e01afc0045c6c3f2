//! Border rules against the pictures in their documentation, continued by repetition.

use firelu_core::arguments::Argument;
use firelu_filters::border::Border;
use proptest::prelude::*;

fn padded(rule: Border, signal: &str, before: isize, after: isize) -> String {
    let sample = |index| rule.source(index, signal.len()).map_or('0', |at| signal.as_bytes()[at].into());
    (-before..signal.len() as isize + after).map(sample).collect()
}

#[test]
fn signals_continue_as_in_the_pictures() {
    for (rule, expected) in [
        (Border::Constant, "00000abc00000"),
        (Border::Edge, "aaaaaabcccccc"),
        (Border::Reflect, "babcbabcbabcb"),
        (Border::Symmetric, "bccbaabccbaab"),
        (Border::Wrap, "bcabcabcabcab"),
    ] {
        assert_eq!(padded(rule, "abc", 5, 5), expected, "{rule}");
    }
    for rule in [Border::Edge, Border::Reflect, Border::Symmetric, Border::Wrap] {
        assert_eq!(padded(rule, "a", 2, 3), "aaaaaa", "{rule}");
    }
    assert!(Border::ALL.iter().all(|rule| rule.source(0, 0).is_none()));
}

#[test]
fn names_are_arguments() {
    for rule in Border::ALL {
        assert_eq!(Border::of_value(&rule.to_value()), rule);
    }
}

proptest! {
    #[test]
    fn every_rule_but_zeros_finds_a_sample(index in any::<isize>(), length in 1usize..1 << 40) {
        let (index, inside) = (index >> 2, (index as usize) % length);
        for rule in Border::ALL {
            prop_assert_eq!(rule.source(inside as isize, length), Some(inside));
            match rule.source(index, length) {
                Some(at) => prop_assert!(at < length),
                None => prop_assert_eq!(rule, Border::Constant),
            }
        }
    }
}
