//! One error type: each variant is one Python exception class.

use std::fmt;

/// The result of everything that can be refused.
pub type Result<T> = std::result::Result<T, Error>;

/// What was wrong with a call: the operator, the argument, what it got and what it accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The operator's name, or the function's where there is no operator yet.
    pub operator: String,
    /// The input, output or argument at fault.
    pub argument: String,
    /// What the caller gave.
    pub got: String,
    /// What would have been accepted.
    pub takes: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Complaint { operator, argument, got, takes } = self;
        write!(f, "{operator}: {argument}: got {got}, takes {takes}")
    }
}

/// Why a call was refused or failed. Nothing was changed where one of these is returned, except by
/// [`Error::Interrupted`], after which an output given by the caller holds unspecified values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A shape does not fit.
    #[error("{0}")]
    Shape(Box<Complaint>),
    /// A data type is not accepted.
    #[error("{0}")]
    DType(Box<Complaint>),
    /// An argument is unknown, missing, out of range or overlaps another.
    #[error("{0}")]
    Argument(Box<Complaint>),
    /// No operator has this name.
    #[error("unknown operator {name:?}{}", crate::names::hint(nearest))]
    UnknownOperator {
        /// The name that was asked for.
        name: String,
        /// The nearest registered names.
        nearest: Vec<String>,
    },
    /// The operator has no gradient, and why.
    #[error("{operator}: no gradient: {reason}")]
    NoGradient {
        /// The operator's name.
        operator: String,
        /// Why there is none.
        reason: String,
    },
    /// A gradient differs from what differences give.
    #[error("gradcheck: {0}")]
    Gradcheck(String),
    /// A device is missing or failed.
    #[error("{device}: {reason}")]
    Device {
        /// The device that was asked for.
        device: String,
        /// What it, or its driver, says.
        reason: String,
    },
    /// Memory could not be had.
    #[error("{device}: out of memory: could not allocate {bytes} bytes")]
    OutOfMemory {
        /// Where the memory was asked for.
        device: String,
        /// How much was asked for.
        bytes: usize,
    },
    /// The user asked to stop while a kernel ran.
    #[error("interrupted")]
    Interrupted,
    /// A kernel registered by the user failed in its own way.
    #[error("{operator}: {message}")]
    Custom {
        /// The operator's name.
        operator: String,
        /// The kernel's own words.
        message: String,
    },
}

fn complaint(
    operator: impl fmt::Display,
    argument: impl fmt::Display,
    got: impl fmt::Display,
    takes: impl fmt::Display,
) -> Box<Complaint> {
    Box::new(Complaint {
        operator: operator.to_string(),
        argument: argument.to_string(),
        got: got.to_string(),
        takes: takes.to_string(),
    })
}

impl Error {
    /// The same, with a place in a net instead of the bare name of the operator that runs there.
    #[cold]
    pub fn at(mut self, operator: &str, place: &str) -> Self {
        match &mut self {
            Error::Shape(complaint) | Error::DType(complaint) | Error::Argument(complaint) => {
                if complaint.operator == operator {
                    complaint.operator = place.into();
                }
            }
            Error::NoGradient { operator: name, .. } | Error::Custom { operator: name, .. } => {
                if name == operator {
                    *name = place.into();
                }
            }
            Error::Device { reason, .. } => *reason = format!("{place}: {reason}"),
            Error::UnknownOperator { .. } | Error::Gradcheck(_) | Error::OutOfMemory { .. } | Error::Interrupted => {}
        }
        self
    }

    /// A shape that does not fit.
    #[cold]
    pub fn shape(
        operator: impl fmt::Display,
        argument: impl fmt::Display,
        got: impl fmt::Display,
        takes: impl fmt::Display,
    ) -> Self {
        Error::Shape(complaint(operator, argument, got, takes))
    }

    /// A data type that is not accepted.
    #[cold]
    pub fn dtype(
        operator: impl fmt::Display,
        argument: impl fmt::Display,
        got: impl fmt::Display,
        takes: impl fmt::Display,
    ) -> Self {
        Error::DType(complaint(operator, argument, got, takes))
    }

    /// An argument that is not accepted.
    #[cold]
    pub fn argument(
        operator: impl fmt::Display,
        argument: impl fmt::Display,
        got: impl fmt::Display,
        takes: impl fmt::Display,
    ) -> Self {
        Error::Argument(complaint(operator, argument, got, takes))
    }
}
