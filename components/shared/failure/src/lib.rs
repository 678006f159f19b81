//! The failure of an operation on a node, as one line for a console or a log.

use std::error::Error;
use std::fmt::{self, Display};
use std::io;

/// One line without a period: the operation and its error.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure(String);

/// A peer did not read or write within the timeout of a socket.
const TIMED_OUT: &str = "the time limit was exceeded";

/// The result of nearly every function that uses this crate.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure with this text.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure(what.into())
    }

    /// The failure of an operation with this error, which may be a text, and with its causes. It
    /// reads `WHAT: ERROR: CAUSE`.
    pub fn of(what: impl Display, error: impl Into<Box<dyn Error>>) -> Failure {
        let error = error.into();
        let mut text = format!("{what}: {}", line(&*error));
        let mut cause = error.source();
        while let Some(error) = cause {
            let more = line(error);
            // Many errors print their cause themselves.
            if !text.contains(&more) {
                text.push_str(&format!(": {more}"));
            }
            cause = error.source();
        }
        Failure(text)
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
    /// Converts the error as [`Failure::of`] does.
    fn explain(self, what: impl Display) -> Outcome<T>;
}

impl<T, E: Into<Box<dyn Error>>> Explain<T> for Result<T, E> {
    fn explain(self, what: impl Display) -> Outcome<T> {
        self.map_err(|error| Failure::of(what, error))
    }
}

/// The line of one error, without its causes.
fn line(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref::<io::Error>() {
        // A socket with a timeout ends a read or a write in this way. The system's own text for it
        // speaks of a resource.
        Some(error) if error.kind() == io::ErrorKind::WouldBlock => TIMED_OUT.to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

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

    #[test]
    fn a_peer_that_exceeds_a_time_limit_is_named_as_such() {
        let (mut near, _far) = UnixStream::pair().unwrap();
        near.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let failed = near.read(&mut [0]).explain("read the response");
        assert_eq!(
            failed.unwrap_err().to_string(),
            "read the response: the time limit was exceeded"
        );
    }
}
