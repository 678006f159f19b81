//! Lines on stderr. Nobody has to read them: a reader that has gone, as `head` in `2>&1 | head`,
//! ends nothing.

use std::fmt::Display;
use std::io::Write;

/// Writes a line to stderr.
pub fn print_line(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
