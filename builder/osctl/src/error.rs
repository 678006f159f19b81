//! Errors for people: what failed, why, and what to do.

use std::fmt::{self, Display};
use std::process::ExitCode;
use tonic::{Code, Status};

/// The outcome of what may fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Which kind of error it is: its number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It did not work.
    Failed = 1,
    /// The command line, a file of the user or the request is wrong.
    Usage = 2,
    /// The node is another one than the one that was trusted.
    Mismatch = 4,
}

/// An error.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
    /// Errors of other nodes.
    others: Vec<Error>,
}

impl Error {
    /// Something did not work.
    pub fn failed(message: impl Into<String>) -> Error {
        Self::of(Kind::Failed, message)
    }

    /// The user has to change something.
    pub fn usage(message: impl Into<String>) -> Error {
        Self::of(Kind::Usage, message)
    }

    /// The node is another one than the one that was trusted.
    pub fn mismatch(message: impl Into<String>) -> Error {
        Self::of(Kind::Mismatch, message)
    }

    fn of(kind: Kind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), causes: vec![], hint: None, others: vec![] }
    }

    /// Adds a cause.
    pub fn cause(mut self, cause: impl Into<String>) -> Error {
        self.causes.push(cause.into());
        self
    }

    /// Adds an error and all that caused it. Many errors print their cause themselves.
    pub fn caused_by(mut self, error: &dyn std::error::Error) -> Error {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            if !self.causes.last().is_some_and(|last| last.contains(&text)) {
                self.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// Adds what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    /// The same error, of this node.
    pub fn of_node(self, name: &str) -> Error {
        Error { message: format!("node `{name}`: {}", self.message), ..self }
    }

    /// The message and the causes, for a place that has one line.
    pub fn in_one_line(&self) -> String {
        let parts = std::iter::once(&self.message).chain(&self.causes);
        printable(&parts.map(String::as_str).collect::<Vec<_>>().join(": "))
    }

    /// The errors of several nodes as one, if there are any.
    pub fn all(errors: Vec<Error>) -> Result<()> {
        let mut errors = errors.into_iter();
        match errors.next() {
            None => Ok(()),
            Some(first) => Err(Error { others: errors.collect(), ..first }),
        }
    }

    /// The same error where the exit code 1 means something else than a failure.
    pub fn never_one(self) -> Error {
        let others = self.others.into_iter().map(Error::never_one).collect();
        let kind = if self.kind == Kind::Failed { Kind::Usage } else { self.kind };
        Error { kind, others, ..self }
    }

    /// The exit code of the program. Of several errors, that another node answers is the gravest,
    /// and then that one does not work.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.gravest() as u8)
    }

    fn gravest(&self) -> Kind {
        let kinds = || self.others.iter().map(Error::gravest).chain([self.kind]);
        let gravest = [Kind::Mismatch, Kind::Failed].into_iter();
        gravest.into_iter().find(|kind| kinds().any(|one| one == *kind)).unwrap_or(self.kind)
    }
}

/// `error: …`, which may have several lines, a line for each cause, and the hint. What comes from a
/// node may contain anything, so control characters are escaped.
impl Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.message.lines();
        write!(out, "error: {}", printable(lines.next().unwrap_or("no reason is given")))?;
        for line in lines {
            write!(out, "\n  {}", printable(line))?;
        }
        for cause in &self.causes {
            write!(out, "\n  caused by: {}", printable(cause))?;
        }
        if let Some(hint) = &self.hint {
            write!(out, "\nhint: {}", printable(hint))?;
        }
        self.others.iter().try_for_each(|other| write!(out, "\n{other}"))
    }
}

/// Why a value is refused that the user has written: which form it must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

/// The text without characters that would control a terminal, but for tabs, or reorder what it
/// shows.
pub fn printable(text: &str) -> String {
    let escape = |c: char| match is_deceptive(c) && c != '\t' {
        true => c.escape_debug().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// Whether a terminal may obey the character: a control of ASCII or ISO 6429 (C1), the end of a
/// line or paragraph, or what Unicode calls `Bidi_Control`.
pub fn is_deceptive(c: char) -> bool {
    let reorders = matches!(c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || reorders || matches!(c, '\u{2028}' | '\u{2029}')
}

/// The answer of a node that refused a call, or why there is none.
impl From<Status> for Error {
    fn from(status: Status) -> Error {
        let usage = [
            Code::InvalidArgument,
            Code::NotFound,
            Code::AlreadyExists,
            Code::FailedPrecondition,
            Code::PermissionDenied,
        ];
        let source = std::error::Error::source(&status);
        match source {
            // The connection broke.
            Some(source) => Error::failed("the node does not answer").caused_by(source),
            None if usage.contains(&status.code()) => Error::usage(status.message()),
            None => Error::failed(status.message())
                .cause(format!("the node answers {:?}", status.code())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_its_causes_and_a_hint() {
        let io = std::io::Error::other("refused\u{1b}[2J");
        let error = Error::failed("cannot connect").caused_by(&io).hint("look");
        assert_eq!(
            error.to_string(),
            "error: cannot connect\n  caused by: refused\\u{1b}[2J\nhint: look"
        );
    }

    #[test]
    fn an_error_fits_in_a_line() {
        let error = Error::failed("cannot connect").cause("refused\u{1b}").hint("look");
        assert_eq!(error.in_one_line(), "cannot connect: refused\\u{1b}");
    }

    #[test]
    fn no_text_controls_a_terminal_or_reorders_its_characters() {
        for deceptive in
            "\u{1b}\u{9b}\u{7f}\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}\u{2028}"
                .chars()
        {
            let text = printable(&format!("a{deceptive}b"));
            assert!(text.is_ascii() && !text.contains(char::is_control), "{text}");
        }
        assert_eq!(printable("größer\tשלום"), "größer\tשלום");
    }

    #[test]
    fn errors_of_several_nodes_are_all_shown_and_the_gravest_gives_the_code() {
        let all = |kinds: &[Kind]| {
            let errors = kinds.iter().map(|kind| Error::of(*kind, "it fails").of_node("a"));
            Error::all(errors.collect())
        };
        assert!(all(&[]).is_ok());
        let error = all(&[Kind::Usage, Kind::Failed]).unwrap_err();
        assert_eq!(error.to_string(), "error: node `a`: it fails\nerror: node `a`: it fails");
        assert_eq!(error.gravest(), Kind::Failed);
        assert_eq!(error.never_one().gravest(), Kind::Usage);
        let error = all(&[Kind::Failed, Kind::Mismatch, Kind::Usage]).unwrap_err();
        assert_eq!(error.gravest(), Kind::Mismatch);
        assert_eq!(error.never_one().gravest(), Kind::Mismatch);
        assert_eq!(all(&[Kind::Usage]).unwrap_err().gravest(), Kind::Usage);
    }

    #[test]
    fn the_answer_of_a_node_tells_whose_mistake_it_is() {
        let kind = |status: Status| Error::from(status).kind;
        assert_eq!(kind(Status::not_found("a")), Kind::Usage);
        assert_eq!(kind(Status::unavailable("a")), Kind::Failed);
    }
}
