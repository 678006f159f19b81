//! A node in a virtual machine: shows and logs its console, and follows its boot.

use super::boot::Boot;
use super::console::{Console, Event, Line};
use super::machine::{ConsoleInput, Hardware, Machine, Scratch};
use crate::engine::stop;
use crate::error::{Context, Error, LogTail, Result};
use crate::report::{Report, duration};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How many of the console's last lines an error shows.
const TAIL: usize = 20;

/// How often timeouts and interrupts are checked while the console is silent.
const TICK: Duration = Duration::from_millis(100);

/// How long to log the console after a failure.
const LOG_TIME: Duration = Duration::from_secs(2);

/// A node that runs in a virtual machine.
pub struct RunningNode<'a> {
    machine: Machine,
    report: &'a Report,
    show: bool,
    console: Console,
    log: File,
    path: PathBuf,
    tail: VecDeque<String>,
    /// Logged lines that no wait has returned yet: the console may print several lines at once.
    ahead: VecDeque<Heard>,
    boot: Boot,
    /// The text to print on stdout once the node is Ready in its cluster.
    announcement: Option<String>,
}

impl<'a> RunningNode<'a> {
    /// Powers on. `show` copies the console to the terminal. The file `log` gets the whole console,
    /// without escape sequences.
    pub fn start(
        report: &'a Report,
        hardware: &Hardware,
        scratch: Scratch,
        log: &Path,
        show: bool,
    ) -> Result<Self> {
        let file = File::create(log).or_build(|| format!("cannot write `{}`", log.display()))?;
        let machine = Machine::start(hardware, scratch)?;
        let (console, tail, ahead, boot, announcement) = Default::default();
        Ok(RunningNode {
            machine,
            report,
            show,
            console,
            log: file,
            path: log.to_owned(),
            tail,
            ahead,
            boot,
            announcement,
        })
    }

    /// Has stdout get this text once the node is Ready in its cluster, while a wait goes on.
    pub fn announce(&mut self, text: Option<String>) {
        self.announcement = text;
    }

    /// Waits until the node is ready.
    ///
    /// # Errors
    /// The node fails, its machine ends, or `timeout` passes. The error shows the end of the
    /// console.
    pub fn ready(&mut self, timeout: Option<Duration>) -> Result<()> {
        while self.boot.ready.is_none() {
            if let Some(limit) = timeout.filter(|limit| self.machine.started().elapsed() > *limit) {
                return Err(self.explain(
                    format!("the node was not ready after {}", duration(limit)),
                    self.boot.progress(),
                ));
            }
            match self.listen(TICK)? {
                Listened::Silence => {}
                Listened::Line(line) => {
                    if let Some(why) = self.note(line) {
                        self.log_failure()?;
                        return Err(self.explain("the node did not get ready".to_owned(), why));
                    }
                }
                Listened::Ended(outcome) => {
                    let why = outcome.err().unwrap_or_else(|| {
                        format!("the node powered off or rebooted; {}", self.boot.progress())
                    });
                    return Err(
                        self.explain("the machine ended before the node was ready".to_owned(), why)
                    );
                }
            }
        }
        Ok(())
    }

    /// Waits until the node has reported an address, for at most `timeout`.
    pub fn address(&mut self, timeout: Duration) -> Result<()> {
        let end = Instant::now() + timeout;
        while self.boot.addresses.is_empty() && Instant::now() < end {
            match self.listen(TICK)? {
                Listened::Silence => {}
                Listened::Line(line) => drop(self.note(line)),
                Listened::Ended(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Waits at most `timeout` for a line with this phrase, and returns the line.
    pub fn hear(&mut self, phrase: &str, timeout: Duration) -> Result<String> {
        let end = Instant::now() + timeout;
        while Instant::now() < end {
            let heard = match self.listen(TICK)? {
                Listened::Silence => continue,
                Listened::Line(heard) => heard,
                Listened::Ended(_) => {
                    return Err(self.explain(
                        format!("the machine ended before it printed `{phrase}`"),
                        self.boot.progress(),
                    ));
                }
            };
            let text = &heard.line.text;
            let found = text.contains(phrase).then(|| text.clone());
            drop(self.note(heard));
            if let Some(line) = found {
                return Ok(line);
            }
        }
        Err(self.explain(
            format!("the node did not print `{phrase}` within {}", duration(timeout)),
            self.boot.progress(),
        ))
    }

    /// Logs everything that the console has printed so far. A later wait still finds the lines.
    ///
    /// # Errors
    /// The machine has ended.
    pub fn catch_up(&mut self) -> Result<()> {
        loop {
            match self.receive(Duration::ZERO)? {
                Received::Bytes => {}
                Received::Nothing => return Ok(()),
                Received::End(result) => {
                    let why = result.err().unwrap_or_else(|| self.boot.progress());
                    return Err(self.explain("the machine has ended".to_owned(), why));
                }
            }
        }
    }

    /// Waits until the user or the node ends the machine.
    pub fn end(&mut self) -> Result<()> {
        loop {
            match self.listen(TICK)? {
                Listened::Silence => {}
                Listened::Line(line) => drop(self.note(line)),
                Listened::Ended(Ok(())) => return Ok(()),
                Listened::Ended(Err(why)) => {
                    return Err(self.explain("the machine ended by itself".to_owned(), why));
                }
            }
        }
    }

    /// The progress of the boot.
    pub fn boot(&self) -> &Boot {
        &self.boot
    }

    /// Powers off without shutting the node down, and waits until its writes are on the disk.
    pub fn power_off(self) -> Result<()> {
        self.machine.power_off()
    }

    /// The next line, within `timeout`.
    fn listen(&mut self, timeout: Duration) -> Result<Listened> {
        if let Some(line) = self.ahead.pop_front() {
            return Ok(Listened::Line(line));
        }
        if let Received::End(result) = self.receive(timeout)? {
            return Ok(Listened::Ended(result));
        }
        Ok(self.ahead.pop_front().map_or(Listened::Silence, Listened::Line))
    }

    /// Logs what the console prints next, within `timeout`.
    fn receive(&mut self, timeout: Duration) -> Result<Received> {
        let input = self.machine.wait(timeout)?;
        // Ctrl-C on a terminal also ends QEMU. Report the interrupt, not QEMU's exit.
        stop::check()?;
        match input {
            ConsoleInput::Silent => Ok(Received::Nothing),
            ConsoleInput::Printed(bytes) => {
                if self.show && self.report.is_terminal() {
                    self.report.raw(&bytes);
                }
                let at = self.machine.started().elapsed();
                for line in self.console.feed(&bytes) {
                    self.keep(&line.text)?;
                    self.ahead.push_back(Heard { line, at });
                }
                Ok(Received::Bytes)
            }
            ConsoleInput::Ended(outcome) => {
                if let Some(line) = self.console.rest() {
                    self.keep(&line.text)?;
                }
                Ok(Received::End(outcome))
            }
        }
    }

    fn keep(&mut self, line: &str) -> Result<()> {
        if self.show && !self.report.is_terminal() {
            self.report.line(line);
        }
        writeln!(self.log, "{line}")
            .or_build(|| format!("cannot write `{}`", self.path.display()))?;
        if !line.is_empty() {
            self.tail.push_back(line.to_owned());
        }
        if self.tail.len() > TAIL {
            self.tail.pop_front();
        }
        Ok(())
    }

    /// Records the event of a line, and returns the reason if the node failed.
    fn note(&mut self, heard: Heard) -> Option<String> {
        match heard.line.event? {
            Event::LowRam(line) => self.report.warning(line),
            Event::Failed(why) => return Some(why),
            Event::Joined => {
                self.announcement.take().iter().for_each(|text| self.report.data(text));
            }
            event => self.boot.note(event, heard.at),
        }
        None
    }

    fn log_failure(&mut self) -> Result<()> {
        let end = Instant::now() + LOG_TIME;
        while Instant::now() < end && !matches!(self.listen(TICK)?, Listened::Ended(_)) {}
        Ok(())
    }

    fn explain(&self, what: String, why: String) -> Error {
        let lines = self.tail.iter().cloned().collect();
        Error::build(what).cause(why).log(LogTail { lines, path: self.path.display().to_string() })
    }
}

/// A line of the console, and when it was received after power-on.
struct Heard {
    line: Line,
    at: Duration,
}

/// The result of receiving from the machine.
enum Received {
    Bytes,
    Nothing,
    /// The machine's end.
    End(std::result::Result<(), String>),
}

/// The result of waiting for a line.
enum Listened {
    Line(Heard),
    Silence,
    /// The machine's end.
    Ended(std::result::Result<(), String>),
}
