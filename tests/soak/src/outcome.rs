//! What can come of a case.

/// What a case was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A call that was computed and compared.
    Computed(&'static str),
    /// A call that was refused, as it must be.
    Refused(&'static str),
    /// The gradient definitions of an operator, run and compared with differences.
    Derivative(&'static str),
    /// A case of a neighbourhood beside single calls.
    Neighbour(&'static str),
}
