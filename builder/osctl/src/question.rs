//! Questions to the person at the terminal.

use crate::error::{Error, Result};
use std::io::{BufRead, IsTerminal, Write};

/// Shows a fact, and asks a question about it. Returns whether the answer is yes; nothing without a
/// terminal.
pub fn ask(fact: &str, question: &str) -> Result<Option<bool>> {
    let (stdin, mut stderr) = (std::io::stdin(), std::io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return Ok(None);
    }
    let mut ask = || {
        writeln!(stderr, "{fact}")?;
        write!(stderr, "{question} [y/N] ")?;
        let mut answer = String::new();
        stdin.lock().read_line(&mut answer)?;
        Ok(Some(matches!(answer.trim(), "y" | "Y" | "yes")))
    };
    ask().map_err(|error: std::io::Error| Error::failed("cannot ask").caused_by(&error))
}
