//! Errors for people: one line about the problem, the causes, and a hint with a command to paste.

use crate::printable::{lines, printable};
use std::fmt;
use std::io;

/// The kind of a failure, which is the exit code of `osbuild`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A step failed.
    Build = 1,
    /// The command line or a recipe is wrong.
    Usage = 2,
    /// The lock is missing or out of date, or a locked source is gone.
    Lock = 3,
    /// A digest or a signature does not match.
    Digest = 4,
    /// The user or the system asked the build to stop: 128 plus the number of SIGINT, as in a
    /// shell.
    Stopped = 130,
}

/// A place in a project file, shown with a caret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path of the file, relative to the project.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column of the first character to point at, counted from 1 in characters.
    pub column: usize,
    /// The number of characters to point at, at least 1.
    pub width: usize,
    /// The text of that line.
    pub text: String,
}

/// The longest part of a line that is shown, in characters.
const MAX_SHOWN: usize = 200;

impl Place {
    /// The part of the line to show, and how many characters of it come before those to point at.
    fn part(&self) -> (String, usize) {
        let (length, before) = (self.text.chars().count(), self.column.saturating_sub(1));
        if length <= MAX_SHOWN {
            return (self.text.clone(), before);
        }
        let first = before.saturating_sub(MAX_SHOWN / 2);
        let part: String = self.text.chars().skip(first).take(MAX_SHOWN).collect();
        let [start, end] =
            [first > 0, first + MAX_SHOWN < length].map(|cut| if cut { "…" } else { "" });
        (format!("{start}{part}{end}"), before - first + start.chars().count())
    }
}

/// One problem: a line, a place, causes and a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// One line, lower case, no period, literals in backticks.
    pub message: String,
    /// The place, for a problem in a file.
    pub place: Option<Place>,
    /// The causes, nearest first.
    pub causes: Vec<String>,
    /// The remedy, with a command to paste if there is one.
    pub hint: Option<String>,
    /// The end of a failed step's log.
    pub log: Option<LogTail>,
}

/// The end of a failed step's log, and the path of the whole log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTail {
    /// The last lines.
    pub lines: Vec<String>,
    /// The path of the whole log.
    pub path: String,
}

/// One or more problems that ended a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind, which is the exit code.
    pub kind: Kind,
    /// The problems, at least one, in the order of display.
    pub problems: Vec<Problem>,
}

/// The result of an operation that may fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Problem {
    /// A problem with only its line.
    pub fn new(message: impl Into<String>) -> Self {
        Problem { message: message.into(), place: None, causes: Vec::new(), hint: None, log: None }
    }

    /// Adds the place.
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Adds a cause after the others.
    pub fn cause(mut self, cause: impl fmt::Display) -> Self {
        self.causes.push(cause.to_string());
        self
    }

    /// Sets the hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl Error {
    /// A failed step or anything else that went wrong while building.
    pub fn build(message: impl Into<String>) -> Self {
        Error { kind: Kind::Build, problems: vec![Problem::new(message)] }
    }

    /// A wrong command line or recipe.
    pub fn usage(message: impl Into<String>) -> Self {
        Error { kind: Kind::Usage, problems: vec![Problem::new(message)] }
    }

    /// A missing or stale lock, or a source that is gone.
    pub fn lock(message: impl Into<String>) -> Self {
        Error { kind: Kind::Lock, problems: vec![Problem::new(message)] }
    }

    /// A digest or a signature that does not match.
    pub fn digest(message: impl Into<String>) -> Self {
        Error { kind: Kind::Digest, problems: vec![Problem::new(message)] }
    }

    /// The error after the user asked to stop.
    pub fn stopped() -> Self {
        Error { kind: Kind::Stopped, problems: vec![Problem::new("stopped")] }
    }

    /// The same as an error of the command line, which named a wrong thing. A `Stopped` error keeps
    /// its kind.
    pub fn of_usage(self) -> Self {
        match self.kind {
            Kind::Build => Error { kind: Kind::Usage, ..self },
            _ => self,
        }
    }

    /// An error of all `problems`, at least one. Each is shown once: a file that several others
    /// name is read more than once.
    pub fn many(kind: Kind, problems: Vec<Problem>) -> Self {
        assert!(!problems.is_empty(), "an error has at least one problem");
        Error { kind, problems: each_once(problems) }
    }

    /// Adds a cause to the last problem.
    pub fn cause(self, cause: impl fmt::Display) -> Self {
        self.last(|problem| problem.cause(cause))
    }

    /// Sets the hint of the last problem.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.last(|problem| problem.hint(hint))
    }

    /// Sets the log of the last problem.
    pub fn log(self, log: LogTail) -> Self {
        self.last(|problem| Problem { log: Some(log), ..problem })
    }

    fn last(mut self, change: impl FnOnce(Problem) -> Problem) -> Self {
        let problem = self.problems.pop().expect("an error has at least one problem");
        self.problems.push(change(problem));
        self
    }
}

/// Both values, or the problems of both.
pub fn both<A, B>(one: Result<A>, other: Result<B>) -> Result<(A, B)> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(one), Err(other)) => {
            Err(Error::many(one.kind, [one.problems, other.problems].concat()))
        }
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
    }
}

/// A list of names for a message: `` `a`, `b` and `c` ``.
pub fn in_words<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// The same items in the same order, each once.
pub fn each_once<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for item in items {
        if !once.contains(&item) {
            once.push(item);
        }
    }
    once
}

/// Turns a library's error into ours, with a line about the operation that failed.
pub trait Context<T> {
    /// `message` is the line; the library's error and its sources become the causes.
    fn or_build(self, message: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: std::error::Error + 'static> Context<T> for std::result::Result<T, E> {
    fn or_build(self, message: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| {
            let mut ours = Error::build(message());
            let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
            while let Some(cause) = source {
                ours = ours.cause(cause);
                if let Some(hint) = cause.downcast_ref().and_then(remedy) {
                    ours = ours.hint(hint);
                }
                source = cause.source();
            }
            ours
        })
    }
}

/// A hint for a failed file operation, unless the error has one already.
pub fn remedy(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("free some space there, or empty the store: `cargo osbuild clean --all`")
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            Some("run it as the owner of this path, in a writable folder")
        }
        _ => None,
    }
}

/// Messages and causes may quote files that nobody has vouched for, so control characters are
/// escaped.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => {
                write!(f, "{}:{}: ", printable(&place.file), place.line)?;
                lines(f, "  ", &self.message)?;
                let number = place.line.to_string();
                let (text, indent) = place.part();
                writeln!(f, "\n  {number} | {}", printable(&text))?;
                write!(
                    f,
                    "  {:width$} | {:indent$}{}",
                    "",
                    "",
                    "^".repeat(place.width.clamp(1, MAX_SHOWN / 2)),
                    width = number.len(),
                )?;
            }
            None => lines(f, "  ", &self.message)?,
        }
        for cause in &self.causes {
            f.write_str("\n  caused by: ")?;
            lines(f, "    ", cause)?;
        }
        if let Some(log) = &self.log {
            for line in &log.lines {
                write!(f, "\n  | {}", printable(line))?;
            }
            write!(f, "\n  the whole log: {}", printable(&log.path))?;
        }
        if let Some(hint) = &self.hint {
            f.write_str("\nhint: ")?;
            lines(f, "  ", hint)?;
        }
        Ok(())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "error: {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_shown_around_its_mistake() {
        let (before, after) = ("a".repeat(70_000), "b".repeat(300));
        let text = format!("{before}wrong{after}");
        let place = Place { file: "a".into(), line: 1, column: 70_001, width: 5, text };
        let shown = Problem::new("m").at(place).to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1], format!("  1 | …{}wrong{}…", &before[..100], &after[..95]));
        assert_eq!(lines[2], format!("    | {}^^^^^", " ".repeat(101)));
    }

    #[test]
    fn a_problem_is_printed_as_the_design_specifies() {
        let place = Place {
            file: "recipes/node.toml".into(),
            line: 14,
            column: 2,
            width: 6,
            text: "[kernal]".into(),
        };
        let problem = Problem::new("unknown key `kernal`")
            .at(place)
            .cause("`[kernel]` is the only section of that shape")
            .hint("did you mean `kernel`?");
        let shown = Error::many(Kind::Usage, vec![problem]).to_string();
        assert_eq!(
            shown,
            "error: recipes/node.toml:14: unknown key `kernal`\n  14 | \
             [kernal]\n     |  ^^^^^^\n  caused by: `[kernel]` is the only section of that \
             shape\nhint: did you mean `kernel`?"
        );
    }
}
