//! What `init` says: every line goes to all consoles and into `init.log`.

use std::fmt::Display;

use osbuild_abi::console::{FAILED, PREFIX};
use osbuild_consoles::{Consoles, printable};

use crate::data::writer::LogLines;

/// The machine's consoles and the log behind them.
pub struct Console {
    consoles: Consoles,
    log: Option<LogLines>,
    /// The lines from before there was a log.
    early: Vec<String>,
}

impl Console {
    /// Opens `/dev/console`. A machine without one still boots: its lines are in the log.
    pub fn open() -> Console {
        Console { consoles: Consoles::first(), log: None, early: Vec::new() }
    }

    /// Speaks on the others as well from now on. `/sys` has to be mounted.
    pub fn open_others(&mut self) {
        self.consoles.open_others();
    }

    /// Writes `init: WHO: WHAT`.
    pub fn say(&mut self, who: &str, what: impl Display) {
        self.line(&format!("{PREFIX}{who}: {what}"));
    }

    /// Writes the line after which the node reboots.
    pub fn failed(&mut self, who: &str, why: impl Display) {
        self.line(&format!("{FAILED} {who}: {why}"));
    }

    /// Writes a line that is complete, so one that starts with a phrase of `osbuild_abi::console`.
    pub fn line(&mut self, line: &str) {
        let line = printable(line);
        self.consoles.line(&line);
        match &mut self.log {
            Some(log) => log.line(&line),
            None => self.early.push(line),
        }
    }

    /// Starts the log, with all lines so far.
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
