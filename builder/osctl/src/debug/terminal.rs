//! The user's terminal, whose keys go to the command as they are.

use crate::error::{Error, Result};
use osbuild_cosi::v1::{DebugSize, DebugTerminal};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode, size};
use std::io::{self, IsTerminal};

/// The kind of a terminal of which nothing is known.
const KIND: &str = "xterm";

/// The terminal of the user, if both stdin and stdout are one.
pub fn of_user() -> Option<DebugTerminal> {
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let kind = std::env::var("TERM").ok().filter(|kind| !kind.is_empty());
    let kind = kind.unwrap_or_else(|| KIND.to_owned());
    is_terminal.then(|| DebugTerminal { kind, size: current_size() })
}

/// Its size, if it has one.
pub fn current_size() -> Option<DebugSize> {
    let (columns, rows) = size().ok().filter(|(columns, rows)| *columns > 0 && *rows > 0)?;
    Some(DebugSize { columns: columns.into(), rows: rows.into() })
}

/// A terminal that neither shows nor interprets keys. Dropping it restores the terminal.
#[derive(Debug)]
pub struct RawMode(());

impl RawMode {
    /// Begins.
    ///
    /// # Errors
    /// The terminal cannot be set.
    pub fn begin() -> Result<RawMode> {
        enable_raw_mode()
            .map(|()| RawMode(()))
            .map_err(|error| Error::failed("cannot use the terminal").caused_by(&error))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // The error of a terminal that is gone would have nobody to read it.
        let _ = disable_raw_mode();
    }
}
