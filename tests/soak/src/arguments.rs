//! What arguments mean, read from the documentation: real numbers are finite, whole numbers serve as
//! real ones, 0 and 1 as truth values, and an unknown name is refused.

use firelu::ArgValue;

use crate::signatures::{Refused, Request};

/// The named arguments of a request; each is taken once, and `finish` refuses what is left.
pub struct Arguments<'a> {
    left: Vec<&'a (&'static str, ArgValue)>,
}

impl<'a> Arguments<'a> {
    /// The arguments of a request.
    pub fn new(request: &'a Request) -> Self {
        Arguments { left: request.args.iter().collect() }
    }

    fn take(&mut self, name: &str) -> Option<&'a ArgValue> {
        let place = self.left.iter().position(|(given, _)| *given == name)?;
        Some(&self.left.remove(place).1)
    }

    /// A finite real number.
    pub fn float(&mut self, name: &str, default: f64) -> Result<f64, Refused> {
        match self.take(name) {
            None => Ok(default),
            Some(ArgValue::Float(value)) if value.is_finite() => Ok(*value),
            Some(ArgValue::Int(value)) if value.unsigned_abs() <= 1 << 53 => Ok(*value as f64),
            Some(_) => Err(Refused),
        }
    }

    /// A finite real number of at least so much, or none.
    pub fn optional_float(&mut self, name: &str, least: f64) -> Result<Option<f64>, Refused> {
        let value = match self.take(name) {
            None | Some(ArgValue::None) => return Ok(None),
            Some(ArgValue::Float(value)) => *value,
            Some(ArgValue::Int(value)) if value.unsigned_abs() <= 1 << 53 => *value as f64,
            Some(_) => return Err(Refused),
        };
        if value.is_finite() && value >= least { Ok(Some(value)) } else { Err(Refused) }
    }

    /// A whole number in a range.
    pub fn int(&mut self, name: &str, default: i64, range: std::ops::RangeInclusive<i64>) -> Result<i64, Refused> {
        match self.take(name) {
            None => Ok(default),
            Some(ArgValue::Int(value)) if range.contains(value) => Ok(*value),
            Some(_) => Err(Refused),
        }
    }

    /// A truth value.
    pub fn bool(&mut self, name: &str) -> Result<bool, Refused> {
        match self.take(name) {
            None => Ok(false),
            Some(ArgValue::Bool(value)) => Ok(*value),
            Some(ArgValue::Int(value @ 0..=1)) => Ok(*value == 1),
            Some(_) => Err(Refused),
        }
    }

    /// One of some texts, by its place among them; each may have several names, the first is that of the default.
    pub fn choice(&mut self, name: &str, choices: &[&[&str]]) -> Result<usize, Refused> {
        match self.take(name) {
            None => Ok(0),
            Some(ArgValue::String(text)) => {
                choices.iter().position(|names| names.contains(&text.as_ref())).ok_or(Refused)
            }
            Some(_) => Err(Refused),
        }
    }

    /// Whole numbers.
    pub fn ints(&mut self, name: &str) -> Result<Vec<i64>, Refused> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(ArgValue::Ints(values)) => Ok(values.clone()),
            Some(ArgValue::Floats(values)) if values.is_empty() => Ok(Vec::new()),
            Some(_) => Err(Refused),
        }
    }

    /// Refuses names that nobody took.
    pub fn finish(self) -> Result<(), Refused> {
        if self.left.is_empty() { Ok(()) } else { Err(Refused) }
    }
}

/// An axis counted from the start, if there is one.
pub fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    let place = if axis < 0 { i128::from(axis) + rank as i128 } else { i128::from(axis) };
    usize::try_from(place).ok().filter(|&place| place < rank)
}
