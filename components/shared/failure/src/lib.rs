//! The failure of an operation on a node, as one line for a console or a log.

use std::error::Error;
use std::fmt::{self, Display};

/// One line without a period: the operation and its error.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure(String);

/// The result of nearly every function that uses this crate.
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

/// Adds the operation to an error.
pub trait Explain<T> {
    /// Converts the error, which may be a text, and its causes into a [`Failure`] that reads `WHAT:
    /// ERROR: CAUSE`.
    fn explain(self, what: impl Display) -> Outcome<T>;
}

impl<T, E: Into<Box<dyn Error>>> Explain<T> for Result<T, E> {
    fn explain(self, what: impl Display) -> Outcome<T> {
        self.map_err(|error| {
            let error = error.into();
            let mut text = format!("{what}: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                let more = error.to_string();
                // Many errors print their cause themselves.
                if !text.contains(&more) {
                    text.push_str(&format!(": {more}"));
                }
                cause = error.source();
            }
            Failure(text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[derive(Debug)]
    struct Outer(io::Error);

    impl Display for Outer {
        fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("no answer")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_failure_is_one_line_with_each_cause_once() {
        let failed: Result<(), _> = Err(Outer(io::Error::other("broken pipe")));
        assert_eq!(
            failed.explain("ask containerd").unwrap_err().to_string(),
            "ask containerd: no answer: broken pipe"
        );
        let nested: Result<(), _> = Err(Failure::new("a: b"));
        assert_eq!(nested.explain("c").unwrap_err().to_string(), "c: a: b");
        assert_eq!(
            Err::<(), _>("no program").explain("start").unwrap_err().to_string(),
            "start: no program"
        );
    }
}
