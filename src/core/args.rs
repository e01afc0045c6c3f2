//! Arguments of an operator: typed, documented, with defaults and ranges.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;

use crate::error::{Error, Result};
use crate::names;

/// The value of an argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ArgValue {
    /// No number, where an argument takes that.
    None,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A text; the names of a schema's choices are not copied.
    String(Cow<'static, str>),
    /// Whole numbers.
    Ints(Vec<i64>),
    /// Real numbers.
    Floats(Vec<f64>),
}

impl ArgValue {
    /// The value's type.
    pub fn kind(&self) -> ArgKind {
        match self {
            ArgValue::None => ArgKind::OptionalFloat,
            ArgValue::Bool(_) => ArgKind::Bool,
            ArgValue::Int(_) => ArgKind::Int,
            ArgValue::Float(_) => ArgKind::Float,
            ArgValue::String(_) => ArgKind::String,
            ArgValue::Ints(_) => ArgKind::Ints,
            ArgValue::Floats(_) => ArgKind::Floats,
        }
    }

    /// Whether every number in it is finite, as JSON needs.
    pub fn is_finite(&self) -> bool {
        match self {
            ArgValue::Float(value) => value.is_finite(),
            ArgValue::Floats(values) => values.iter().all(|value| value.is_finite()),
            _ => true,
        }
    }

    /// The value as another type, where nothing is lost: whole numbers are real numbers, and 0 and 1
    /// are truth values.
    fn into_kind(self, kind: ArgKind) -> std::result::Result<ArgValue, ArgValue> {
        match (self, kind) {
            (value, kind) if value.kind() == kind => Ok(value),
            (value @ ArgValue::Float(_), ArgKind::OptionalFloat) => Ok(value),
            (ArgValue::Int(value), ArgKind::Float | ArgKind::OptionalFloat) if is_exact(value) => {
                Ok(ArgValue::Float(value as f64))
            }
            (ArgValue::Int(value @ (0 | 1)), ArgKind::Bool) => Ok(ArgValue::Bool(value == 1)),
            (ArgValue::Ints(values), ArgKind::Floats) if values.iter().copied().all(is_exact) => {
                Ok(ArgValue::Floats(values.into_iter().map(|value| value as f64).collect()))
            }
            (ArgValue::Floats(values), ArgKind::Ints) if values.is_empty() => Ok(ArgValue::Ints(Vec::new())),
            (value, _) => Err(value),
        }
    }
}

/// Whether a whole number and its neighbours are floats.
fn is_exact(value: i64) -> bool {
    value.unsigned_abs() <= 1 << 53
}

macro_rules! of {
    ($type:ty, $value:ident => $argument:expr) => {
        impl From<$type> for ArgValue {
            fn from($value: $type) -> Self {
                $argument
            }
        }
    };
}
of!(bool, value => ArgValue::Bool(value));
of!(i32, value => ArgValue::Int(value.into()));
of!(i64, value => ArgValue::Int(value));
of!(f64, value => ArgValue::Float(value));
of!(&'static str, value => ArgValue::String(value.into()));
of!(Vec<i64>, value => ArgValue::Ints(value));

impl fmt::Display for ArgValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgValue::None => f.write_str("None"),
            ArgValue::Bool(value) => write!(f, "{value}"),
            ArgValue::Int(value) => write!(f, "{value}"),
            ArgValue::Float(value) => write!(f, "{value:?}"),
            ArgValue::String(value) => write!(f, "{value:?}"),
            ArgValue::Ints(values) => write!(f, "{values:?}"),
            ArgValue::Floats(values) => write!(f, "{values:?}"),
        }
    }
}

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgKind {
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// A real number.
    Float,
    /// A real number or none.
    OptionalFloat,
    /// A text.
    String,
    /// Whole numbers.
    Ints,
    /// Real numbers.
    Floats,
}

impl ArgKind {
    /// The name Python users know.
    pub fn name(self) -> &'static str {
        match self {
            ArgKind::Bool => "bool",
            ArgKind::Int => "int",
            ArgKind::Float => "float",
            ArgKind::OptionalFloat => "float | None",
            ArgKind::String => "str",
            ArgKind::Ints => "list[int]",
            ArgKind::Floats => "list[float]",
        }
    }
}

impl std::str::FromStr for ArgKind {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        use ArgKind::{Bool, Float, Floats, Int, Ints, OptionalFloat, String};
        [Bool, Int, Float, OptionalFloat, String, Ints, Floats].into_iter().find(|kind| kind.name() == text).ok_or_else(
            || {
                Error::argument(
                    "OpSchema",
                    "type",
                    format!("{text:?}"),
                    "bool, int, float, float | None, str, list[int] or list[float]",
                )
            },
        )
    }
}

/// The texts that an argument takes: each choice has its name first, then what else it is called. Empty where any text
/// is taken.
pub type Choices = &'static [&'static [&'static str]];

/// One argument of a schema.
#[derive(Debug, Clone)]
pub struct ArgSpec {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ArgKind,
    /// What it is when left out; `None` makes it required.
    pub default: Option<ArgValue>,
    /// The lowest and highest number it takes. Without a range a real number must still be finite.
    pub range: Option<(f64, f64)>,
    /// The texts it takes.
    pub choices: Choices,
    /// What it means, in a line.
    pub doc: String,
}

impl ArgSpec {
    /// An argument with a default, whose type is the default's.
    pub fn new(name: &str, default: ArgValue, doc: &str) -> Self {
        let (name, kind, default) = (name.into(), default.kind(), Some(default));
        ArgSpec { name, kind, default, range: None, choices: &[], doc: doc.into() }
    }

    /// Limits a number to `low ..= high`.
    pub fn range(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }

    /// Limits a text to some.
    pub fn one_of(mut self, choices: Choices) -> Self {
        self.choices = choices;
        self
    }

    /// The value by its name, where there are names for it.
    fn chosen(&self, value: ArgValue) -> std::result::Result<ArgValue, ArgValue> {
        let ArgValue::String(text) = &value else { return Ok(value) };
        match self.choices.iter().find(|names| names.iter().any(|name| name == text)) {
            Some(names) => Ok(ArgValue::String(Cow::Borrowed(names[0]))),
            None if self.choices.is_empty() => Ok(value),
            None => Err(value),
        }
    }

    fn takes(&self) -> String {
        let kind = self.kind.name();
        let names: Vec<String> = self.choices.iter().map(|names| format!("{:?}", names[0])).collect();
        match self.range {
            _ if names.len() > 1 => {
                let (first, last) = names.split_at(names.len() - 1);
                format!("{} or {}", first.join(", "), last[0])
            }
            Some((low, high)) => format!("{kind} from {low} to {high}"),
            None if matches!(self.kind, ArgKind::Float | ArgKind::OptionalFloat | ArgKind::Floats) => {
                format!("a finite {kind}")
            }
            None => kind.to_string(),
        }
    }

    fn check(&self, operator: &str, value: ArgValue) -> Result<ArgValue> {
        let refuse = |value: ArgValue| {
            let takes = self.takes();
            match (&value, self.kind) {
                // Finite it is: what is wrong with it must be said.
                (ArgValue::Int(_), ArgKind::Float | ArgKind::OptionalFloat) | (ArgValue::Ints(_), ArgKind::Floats) => {
                    let exactly = "whole numbers up to 2^53, which a float holds exactly";
                    Error::argument(operator, &self.name, value, format!("{takes}; {exactly}"))
                }
                _ => Error::argument(operator, &self.name, value, takes),
            }
        };
        let value = value.into_kind(self.kind).and_then(|value| self.chosen(value)).map_err(refuse)?;
        let inside = |number: f64| match self.range {
            Some((low, high)) => low <= number && number <= high,
            None => number.is_finite(),
        };
        let fits = match &value {
            ArgValue::Int(number) => inside(*number as f64),
            ArgValue::Float(number) => inside(*number),
            ArgValue::Ints(numbers) => numbers.iter().all(|&number| inside(number as f64)),
            ArgValue::Floats(numbers) => numbers.iter().all(|&number| inside(number)),
            ArgValue::None | ArgValue::Bool(_) | ArgValue::String(_) => true,
        };
        if fits { Ok(value) } else { Err(refuse(value)) }
    }
}

/// How many arguments stand in place: more are allocated.
pub const ARGS_IN_PLACE: usize = 12;

/// Checked arguments in the schema's order, none missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Args(SmallVec<[ArgValue; ARGS_IN_PLACE]>);

impl Args {
    /// Checks named values against the schema's list and fills in defaults.
    pub fn from_named(
        operator: &str,
        specs: &[ArgSpec],
        named: impl IntoIterator<Item = (impl AsRef<str>, ArgValue)>,
    ) -> Result<Self> {
        let mut given: SmallVec<[Option<ArgValue>; ARGS_IN_PLACE]> = specs.iter().map(|_| None).collect();
        for (name, value) in named {
            let name = name.as_ref();
            let Some(index) = specs.iter().position(|spec| spec.name == name) else {
                return Err(unknown_argument(operator, specs, name));
            };
            given[index] = Some(value);
        }
        Args::fill(operator, specs, given)
    }

    /// Checks values in the schema's order; missing ones at the end get their defaults.
    pub fn from_positional(
        operator: &str,
        specs: &[ArgSpec],
        values: impl IntoIterator<Item = ArgValue>,
    ) -> Result<Self> {
        let mut values = values.into_iter();
        let args = Args::fill(operator, specs, specs.iter().map(|_| values.next()))?;
        match values.count() {
            0 => Ok(args),
            more => Err(Error::argument(operator, "arguments", specs.len() + more, format!("at most {}", specs.len()))),
        }
    }

    fn fill(operator: &str, specs: &[ArgSpec], given: impl IntoIterator<Item = Option<ArgValue>>) -> Result<Self> {
        let mut args = SmallVec::new();
        for (spec, value) in specs.iter().zip(given) {
            args.push(match (value, &spec.default) {
                (Some(value), _) => spec.check(operator, value)?,
                (None, Some(default)) => default.clone(),
                (None, None) => return Err(Error::argument(operator, &spec.name, "nothing", spec.takes())),
            });
        }
        Ok(Args(args))
    }

    /// The values in the schema's order.
    pub fn values(&self) -> &[ArgValue] {
        &self.0
    }

    /// A real number by its place in the schema.
    pub fn float(&self, index: usize) -> f64 {
        match self.0[index] {
            ArgValue::Float(value) => value,
            ref other => unreachable!("argument {index} is declared a float, not {other}"),
        }
    }

    /// A whole number by its place in the schema.
    pub fn int(&self, index: usize) -> i64 {
        match self.0[index] {
            ArgValue::Int(value) => value,
            ref other => unreachable!("argument {index} is declared an int, not {other}"),
        }
    }

    /// A truth value by its place in the schema.
    pub fn bool(&self, index: usize) -> bool {
        match self.0[index] {
            ArgValue::Bool(value) => value,
            ref other => unreachable!("argument {index} is declared a bool, not {other}"),
        }
    }

    /// Whole numbers by their place in the schema.
    pub fn ints(&self, index: usize) -> &[i64] {
        match &self.0[index] {
            ArgValue::Ints(values) => values,
            other => unreachable!("argument {index} is declared a list of ints, not {other}"),
        }
    }
}

#[cold]
fn unknown_argument(operator: &str, specs: &[ArgSpec], name: &str) -> Error {
    let known = || specs.iter().map(|spec| spec.name.as_str());
    let takes = match known().collect::<Vec<_>>().join(", ") {
        list if list.is_empty() => "no arguments".to_string(),
        list => format!("{list}{}", names::hint(&names::nearest(name, known()))),
    };
    Error::argument(operator, name, "an unknown argument", takes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &'static str) -> ArgValue {
        ArgValue::String(text.into())
    }

    fn specs() -> Vec<ArgSpec> {
        vec![
            ArgSpec::new("alpha", ArgValue::Float(0.01), "slope"),
            ArgSpec::new("up", ArgValue::Int(1), "factor").range(1.0, 100.0),
            ArgSpec::new("flip", ArgValue::Bool(false), "flip"),
            ArgSpec::new("fill", text("black"), "colour").one_of(&[&["black", "dark"], &["grey"], &["white"]]),
        ]
    }

    #[test]
    fn defaults_are_filled_in_and_ints_serve_as_floats() {
        let args = Args::from_named("Op", &specs(), [("alpha", ArgValue::Int(2))]).unwrap();
        assert_eq!((args.float(0), args.int(1), args.bool(2)), (2.0, 1, false));
        let same = Args::from_positional("Op", &specs(), [ArgValue::Float(2.0)]).unwrap();
        assert_eq!(args, same);
    }

    #[test]
    fn wrong_values_are_refused_by_name() {
        let refused =
            |name: &str, value: ArgValue| Args::from_named("Op", &specs(), [(name, value)]).unwrap_err().to_string();
        assert_eq!(refused("up", ArgValue::Int(0)), "Op: up: got 0, takes int from 1 to 100");
        assert_eq!(refused("up", ArgValue::Float(1.5)), "Op: up: got 1.5, takes int from 1 to 100");
        assert_eq!(refused("alpha", ArgValue::Float(f64::NAN)), "Op: alpha: got NaN, takes a finite float");
        assert_eq!(
            refused("alpha", ArgValue::Int((1 << 53) + 1)),
            "Op: alpha: got 9007199254740993, takes a finite float; whole numbers up to 2^53, which a float holds exactly"
        );
        assert_eq!(
            refused("alfa", ArgValue::Float(1.0)),
            "Op: alfa: got an unknown argument, takes alpha, up, flip, fill; did you mean alpha?"
        );
        assert_eq!(refused("fill", text("red")), "Op: fill: got \"red\", takes \"black\", \"grey\" or \"white\"");
        assert_eq!(refused("fill", ArgValue::Int(1)), "Op: fill: got 1, takes \"black\", \"grey\" or \"white\"");
        assert!(Args::from_positional("Op", &specs(), vec![ArgValue::Int(1); 5]).is_err());
    }

    #[test]
    fn a_choice_goes_by_its_first_name() {
        let of = |name: &'static str| Args::from_named("Op", &specs(), [("fill", text(name))]).unwrap();
        assert_eq!((&of("dark").values()[3], &of("white").values()[3]), (&text("black"), &text("white")));
    }
}
