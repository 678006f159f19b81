//! The output of `init`: every line goes to all consoles and into `init.log`.

use std::fmt::Display;

use osbuild_abi::console::{FAILED, PREFIX};
use osbuild_consoles::{Consoles, printable};

use crate::data::writer::LogLines;

/// The machine's consoles and the log behind them.
pub struct Console {
    consoles: Consoles,
    log: Option<LogLines>,
    /// The lines from before the log was started.
    early: Vec<String>,
}

impl Console {
    /// Opens `/dev/console`. A machine without one boots all the same: its lines are in the log.
    pub fn open() -> Console {
        Console { consoles: Consoles::first(), log: None, early: Vec::new() }
    }

    /// A console without any device.
    #[cfg(test)]
    pub fn silent() -> Console {
        Console { consoles: Consoles::default(), log: None, early: Vec::new() }
    }

    /// Writes to all other consoles as well from now on. `/sys` has to be mounted.
    pub fn open_others(&mut self) {
        self.consoles.open_others();
    }

    /// Writes `init: NAME: TEXT`. `name` is a phase, a program or a subject.
    pub fn say(&mut self, name: &str, text: impl Display) {
        self.line(&format!("{PREFIX}{name}: {text}"));
    }

    /// Writes the line after which the node reboots. `name` is the phase that failed.
    pub fn failed(&mut self, name: &str, failure: impl Display) {
        self.line(&format!("{FAILED} {name}: {failure}"));
    }

    /// Writes a whole line, which starts with a phrase of `osbuild_abi::console`.
    pub fn line(&mut self, line: &str) {
        let line = printable(line);
        self.consoles.line(&line);
        match &mut self.log {
            Some(log) => log.line(&line),
            None => self.early.push(line),
        }
    }

    /// Writes `init: NAME: TEXT` to the consoles only: it is repeated, and would fill the log.
    pub fn show(&mut self, name: &str, text: impl Display) {
        self.consoles.line(&printable(&format!("{PREFIX}{name}: {text}")));
    }

    /// Starts the log, beginning with all lines so far.
    pub fn keep_log(&mut self, mut log: LogLines) {
        for line in self.early.drain(..) {
            log.line(&line);
        }
        self.log = Some(log);
    }

    /// Ends the log, so that its file system can be unmounted.
    pub fn end_log(&mut self) {
        self.log = None;
    }
}
