//! Why nothing is installed, as one line.

use std::error::Error;
use std::fmt::{self, Display};

/// One line without a period: what was tried, and what was said to that.
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

impl Error for Failure {}

/// Says what was being done when an error came.
pub trait Explain<T> {
    /// Turns the error and its causes into a [`Failure`] that reads `WHAT: ERROR: CAUSE`.
    fn explain(self, what: impl Display) -> Outcome<T>;
}

impl<T, E: Error> Explain<T> for Result<T, E> {
    fn explain(self, what: impl Display) -> Outcome<T> {
        self.map_err(|error| {
            let mut text = format!("{what}: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                let more = error.to_string();
                // Many errors show their cause themselves.
                if !text.contains(&more) {
                    text.push_str(&format!(": {more}"));
                }
                cause = error.source();
            }
            Failure(text)
        })
    }
}
