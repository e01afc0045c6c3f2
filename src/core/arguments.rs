//! An operator's arguments from one table: the struct that kernels read, the schema's specifications, and both ways
//! between them.

use smallvec::SmallVec;

use crate::args::{ArgValue, Choices};

/// A type that an argument can have.
pub trait Argument: Sized {
    /// The texts it takes, where it is one of some.
    const CHOICES: Choices = &[];
    /// As the schema's value.
    fn to_value(&self) -> ArgValue;
    /// Of the schema's value.
    fn of_value(value: &ArgValue) -> Self;
}

macro_rules! argument {
    ($type:ty, $kind:ident) => {
        impl Argument for $type {
            fn to_value(&self) -> ArgValue {
                ArgValue::$kind(*self)
            }
            #[inline]
            fn of_value(value: &ArgValue) -> Self {
                match value {
                    ArgValue::$kind(value) => *value,
                    other => unreachable!("the schema declares {}, not {other}", stringify!($type)),
                }
            }
        }
    };
}
argument!(bool, Bool);
argument!(i64, Int);
argument!(f64, Float);

/// A real number, or none.
impl Argument for Option<f64> {
    fn to_value(&self) -> ArgValue {
        self.map_or(ArgValue::None, ArgValue::Float)
    }
    #[inline]
    fn of_value(value: &ArgValue) -> Self {
        match value {
            ArgValue::None => None,
            ArgValue::Float(value) => Some(*value),
            other => unreachable!("the schema declares a float or None, not {other}"),
        }
    }
}

/// Whole numbers, few enough to stand in place.
impl Argument for SmallVec<[i64; 6]> {
    fn to_value(&self) -> ArgValue {
        ArgValue::Ints(self.to_vec())
    }
    fn of_value(value: &ArgValue) -> Self {
        match value {
            ArgValue::Ints(values) => SmallVec::from_slice(values),
            other => unreachable!("the schema declares a list of ints, not {other}"),
        }
    }
}

/// Makes a struct of arguments from a table. A field is one argument, or a tuple of several; a row of the table is the
/// argument's name, type, default, range where it has one, and meaning. The order of the rows is the schema's.
///
/// ```
/// firelu_core::arguments! {
///     /// The arguments of an operator.
///     #[derive(Debug, Clone, Copy, PartialEq)]
///     pub struct BlurArgs {
///         /// How far along x and y.
///         radius {
///             radius_x: i64 = 1, in 1.0..=99.0, "How far along a row.";
///             radius_y: i64 = 1, in 1.0..=99.0, "How far along a column.";
///         }
///         gain { gain: f64 = 1.0, "What the result is multiplied by."; }
///     }
/// }
///
/// let names: Vec<String> = BlurArgs::specs().into_iter().map(|spec| spec.name).collect();
/// assert_eq!(names, ["radius_x", "radius_y", "gain"]);
/// let blur = BlurArgs { radius: (2, 3), ..Default::default() };
/// let args = firelu_core::args::Args::from_named("Blur", &BlurArgs::specs(), blur.named()).unwrap();
/// assert_eq!(BlurArgs::from_args(&args), blur);
/// ```
#[macro_export]
macro_rules! arguments {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident {
            $(
                $(#[doc = $field_doc:literal])*
                $field:ident {
                    $($argument:ident: $type:ty = $default:expr, $(in $range:expr,)? $meaning:literal;)+
                }
            )+
        }
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $(
                $(#[doc = $field_doc])*
                ///
                $(#[doc = concat!("`", stringify!($argument), "`: ", $meaning, "\n")])+
                #[allow(unused_parens, reason = "a field of several arguments is a tuple")]
                pub $field: ($($type),+),
            )+
        }

        #[allow(unused_parens, reason = "a field of several arguments is a tuple")]
        impl Default for $name {
            fn default() -> Self {
                $name { $($field: ($($default),+),)+ }
            }
        }

        #[allow(unused_parens, reason = "a field of several arguments is a tuple")]
        impl $name {
            const NAMES: [&'static str; [$($(stringify!($argument)),+),+].len()] =
                [$($(stringify!($argument)),+),+];

            /// The schema's arguments, in its order.
            pub fn specs() -> Vec<$crate::args::ArgSpec> {
                vec![$($({
                    let default: $type = $default;
                    let default = $crate::arguments::Argument::to_value(&default);
                    let spec = $crate::args::ArgSpec::new(stringify!($argument), default, $meaning)
                        .one_of(<$type as $crate::arguments::Argument>::CHOICES);
                    $(let spec = spec.range(*$range.start(), *$range.end());)?
                    spec
                }),+),+]
            }

            /// Reads checked arguments.
            #[inline]
            pub fn from_args(args: &$crate::args::Args) -> Self {
                let mut values = args.values().iter();
                let mut next = || values.next().expect("checked arguments are complete");
                $name {
                    $($field: ($(<$type as $crate::arguments::Argument>::of_value(next())),+),)+
                }
            }

            /// The values with their names, as a definition carries them.
            pub fn named(&self) -> [(&'static str, $crate::args::ArgValue); Self::NAMES.len()] {
                $(let ($($argument),+) = &self.$field;)+
                let values = [$($($crate::arguments::Argument::to_value($argument)),+),+];
                let mut names = Self::NAMES.into_iter();
                values.map(|value| (names.next().expect("a name for each value"), value))
            }
        }
    };
}
