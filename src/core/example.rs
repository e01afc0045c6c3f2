//! Calls that show what an operator does. Its schema carries them, so that whoever wants a call of every operator (tests of
//! gradients, of torch's rules and of devices, the self-test, the soak) finds one without a list of its own.

use crate::args::ArgValue;

/// A call by the shapes of its inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The shape of each input; `None` where one is omitted.
    pub inputs: Vec<Option<Vec<usize>>>,
    /// The named arguments that are given.
    pub args: Vec<(&'static str, ArgValue)>,
}

/// An example: shapes in brackets, `none` for an omitted input, then arguments.
///
/// ```
/// use firelu_core::{args::ArgValue, example};
/// let call = example!([2, 3, 4], none; alpha = 0.2, axis = 1);
/// assert_eq!(call.inputs, [Some(vec![2, 3, 4]), None]);
/// assert_eq!(call.args, [("alpha", ArgValue::Float(0.2)), ("axis", ArgValue::Int(1))]);
/// ```
#[macro_export]
macro_rules! example {
    (@ none) => { None };
    (@ [$($length:expr),*]) => { Some(vec![$($length),*]) };
    ($($input:tt),+ $(; $($name:ident = $value:expr),+)?) => {
        $crate::example::Example {
            inputs: vec![$($crate::example!(@ $input)),+],
            args: vec![$($((stringify!($name), $crate::args::ArgValue::from($value))),+)?],
        }
    };
}
