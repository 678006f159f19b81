//! Why something did not work, as one line for the console.

use std::fmt::{self, Display};

/// One line without a period: what was tried and what the kernel or the other side said.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure(String);

/// What nearly everything here returns.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure with this text.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure(what.into())
    }
}

impl Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

/// Says what was being done when an error came.
pub trait Explain<T> {
    /// Turns the error into a [`Failure`] that reads `WHAT: ERROR`.
    fn explain(self, what: impl Display) -> Outcome<T>;
}

impl<T, E: Display> Explain<T> for Result<T, E> {
    fn explain(self, what: impl Display) -> Outcome<T> {
        self.map_err(|error| Failure(format!("{what}: {error}")))
    }
}
