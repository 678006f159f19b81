//! Reasons why a cache gave nothing.

use std::fmt;
use std::io;

/// Why a call failed. No text contains a header or a token.
#[derive(Debug)]
pub enum Fault {
    /// The cache does not have the blob, or has removed it since it named it.
    Missing,
    /// The cache cannot be reached, is too busy, or cut the connection. A later try may succeed.
    Temporary(String),
    /// The bytes are not those that were requested. A later try may succeed.
    Wrong(String),
    /// The cache sent nothing for too long.
    Silent(String),
    /// The cache refuses the call, or does not understand it.
    Refused(String),
    /// The action did not come to its end on the server, which may execute others.
    Unfinished(String),
    /// A file of this machine cannot be read or written.
    Local(io::Error),
    /// The user wants to stop.
    Stopped,
}

impl Fault {
    /// Whether the same call may succeed later.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, Fault::Temporary(_) | Fault::Wrong(_))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Missing => f.write_str("it does not have the blob"),
            Fault::Temporary(text)
            | Fault::Wrong(text)
            | Fault::Silent(text)
            | Fault::Refused(text)
            | Fault::Unfinished(text) => f.write_str(text),
            Fault::Local(error) => error.fmt(f),
            Fault::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for Fault {}

/// The innermost cause, which names the reason: the outer ones repeat the address.
pub(crate) fn reason(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), reason)
}

/// The text of a server for one line of a terminal: without control characters, and not endless.
pub(crate) fn line(text: &str) -> String {
    const MAX: usize = 200;
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(MAX).collect()
}
