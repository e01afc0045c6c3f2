//! What lies outside a signal: which of its samples each position beyond its ends stands for.

use firelu_core::args::{ArgValue, Choices};
use firelu_core::arguments::Argument;

/// What padding is filled with, by the names of `numpy.pad`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Border {
    /// Zeros.
    #[default]
    Constant,
    /// The sample at the edge, again and again: `a a | a b c | c c`.
    Edge,
    /// The signal mirrored at the sample at the edge, which is not repeated: `c b | a b c | b a`.
    Reflect,
    /// The signal mirrored at the edge itself: `b a | a b c | c b`.
    Symmetric,
    /// The signal from its other end: `b c | a b c | a b`.
    Wrap,
}

impl Border {
    /// All rules.
    pub const ALL: [Border; 5] = [Border::Constant, Border::Edge, Border::Reflect, Border::Symmetric, Border::Wrap];

    /// The name.
    pub fn name(self) -> &'static str {
        Border::CHOICES[self as usize][0]
    }

    /// Which sample of a signal of this length stands at a position inside or outside it; none where zero does. Mirrored
    /// and wrapped signals repeat; the mirror image of a single sample is that sample.
    #[inline]
    pub fn source(self, index: isize, length: usize) -> Option<usize> {
        if (index as usize) < length {
            return Some(index as usize);
        }
        if length == 0 {
            return None;
        }
        let (length, last) = (length as isize, length as isize - 1);
        let place = match self {
            Border::Constant => return None,
            Border::Edge => index.clamp(0, last),
            Border::Reflect if last == 0 => 0,
            Border::Reflect => last - (last - index.rem_euclid(2 * last)).abs(),
            Border::Symmetric => {
                let place = index.rem_euclid(2 * length);
                place.min(2 * length - 1 - place)
            }
            Border::Wrap => index.rem_euclid(length),
        };
        Some(place as usize)
    }
}

impl std::fmt::Display for Border {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// In a schema, a rule is its name; torch's names are taken too.
impl Argument for Border {
    const CHOICES: Choices =
        &[&["constant", "zeros"], &["edge", "replicate"], &["reflect"], &["symmetric"], &["wrap", "circular"]];

    fn to_value(&self) -> ArgValue {
        ArgValue::String(self.name().into())
    }

    #[inline]
    fn of_value(value: &ArgValue) -> Self {
        match value {
            ArgValue::String(name) => Border::ALL.into_iter().find(|rule| rule.name() == name).expect("a checked name"),
            other => unreachable!("the schema declares a name, not {other}"),
        }
    }
}
