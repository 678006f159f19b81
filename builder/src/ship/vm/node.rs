//! A node in a virtual machine: its console is shown and kept, and read for how far it is.

use super::boot::Boot;
use super::console::{Console, Event, Line};
use super::machine::{Hardware, Heard, Machine};
use crate::engine::stop;
use crate::error::{Context, Error, LogTail, Result};
use crate::report::{Report, duration};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How many of the console's last lines an error shows.
const TAIL: usize = 20;

/// How often the clock and the user are looked at while the console is silent.
const TICK: Duration = Duration::from_millis(100);

/// How long a node that gave up may go on explaining.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A node that was powered on.
pub struct Node<'a> {
    machine: Machine,
    report: &'a Report,
    show: bool,
    console: Console,
    log: File,
    path: PathBuf,
    tail: VecDeque<String>,
    /// Lines that are kept already, and that nobody has waited for yet: what the console says at
    /// once may be more than one wait is about.
    ahead: VecDeque<Line>,
    boot: Boot,
}

impl<'a> Node<'a> {
    /// Powers on. `show` passes the console on to the terminal; all of it goes to the file `log`,
    /// without what only a terminal understands.
    pub fn start(
        report: &'a Report,
        hardware: &Hardware,
        scratch: TempDir,
        log: &Path,
        show: bool,
    ) -> Result<Self> {
        let file = File::create(log).or_build(|| format!("cannot write `{}`", log.display()))?;
        let machine = Machine::start(hardware, scratch)?;
        let (console, tail, ahead, boot) = Default::default();
        Ok(Node {
            machine,
            report,
            show,
            console,
            log: file,
            path: log.to_owned(),
            tail,
            ahead,
            boot,
        })
    }

    /// Waits until the node is ready. It is an error that shows the end of the console when the
    /// node gives up, its machine ends, or `timeout` passes.
    pub fn ready(&mut self, timeout: Option<Duration>) -> Result<()> {
        while self.boot.ready.is_none() {
            if let Some(limit) = timeout.filter(|limit| self.machine.started().elapsed() > *limit) {
                return Err(self.explain(
                    format!("the node was not ready after {}", duration(limit)),
                    self.boot.standing(),
                ));
            }
            match self.listen(TICK)? {
                Listened::Silence => {}
                Listened::Line(line) => {
                    if let Some(why) = self.note(line) {
                        self.last_words()?;
                        return Err(self.explain("the node did not get ready".to_owned(), why));
                    }
                }
                Listened::Ended(verdict) => {
                    let why = verdict.err().unwrap_or_else(|| {
                        format!("the node powered off or rebooted; {}", self.boot.standing())
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

    /// Waits at most `timeout` for a line with this phrase, whatever else the node says, and gives
    /// it.
    pub fn hear(&mut self, phrase: &str, timeout: Duration) -> Result<String> {
        let end = Instant::now() + timeout;
        while Instant::now() < end {
            let line = match self.listen(TICK)? {
                Listened::Silence => continue,
                Listened::Line(line) => line,
                Listened::Ended(_) => {
                    return Err(self.explain(
                        format!("the machine ended before it said `{phrase}`"),
                        self.boot.standing(),
                    ));
                }
            };
            let found = line.text.contains(phrase).then(|| line.text.clone());
            drop(self.note(line));
            if let Some(line) = found {
                return Ok(line);
            }
        }
        Err(self.explain(
            format!("the node has not said `{phrase}` within {}", duration(timeout)),
            self.boot.standing(),
        ))
    }

    /// Writes everything that the console has printed so far to the log. A later wait still finds
    /// the lines.
    ///
    /// # Errors
    /// The machine has ended.
    pub fn catch_up(&mut self) -> Result<()> {
        loop {
            match self.receive(Duration::ZERO)? {
                Received::Bytes => {}
                Received::Nothing => return Ok(()),
                Received::End(result) => {
                    let why = result.err().unwrap_or_else(|| self.boot.standing());
                    return Err(self.explain("the machine has ended".to_owned(), why));
                }
            }
        }
    }

    /// Waits until the machine ends, because the user or the node ended it.
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

    /// How far the boot is.
    pub fn boot(&self) -> &Boot {
        &self.boot
    }

    /// Powers off, without asking the node, once all that it wrote is on the disk.
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

    /// Keeps what the console prints next, within `timeout`.
    fn receive(&mut self, timeout: Duration) -> Result<Received> {
        let heard = self.machine.wait(timeout)?;
        // Ctrl-C on a terminal ends QEMU as well, and that is not the news.
        stop::check()?;
        match heard {
            Heard::Silent => Ok(Received::Nothing),
            Heard::Said(bytes) => {
                if self.show && self.report.is_terminal() {
                    self.report.raw(&bytes);
                }
                for line in self.console.feed(&bytes) {
                    self.keep(&line.text)?;
                    self.ahead.push_back(line);
                }
                Ok(Received::Bytes)
            }
            Heard::Ended(verdict) => {
                if let Some(line) = self.console.rest() {
                    self.keep(&line.text)?;
                }
                Ok(Received::End(verdict))
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

    /// Takes note of what the node said, and gives the reason if it gave up.
    fn note(&mut self, line: Line) -> Option<String> {
        match line.event? {
            Event::LowRam(line) => self.report.warning(line),
            Event::Failed(why) => return Some(why),
            event => self.boot.note(event, self.machine.started().elapsed()),
        }
        None
    }

    fn last_words(&mut self) -> Result<()> {
        let end = Instant::now() + LAST_WORDS;
        while Instant::now() < end && !matches!(self.listen(TICK)?, Listened::Ended(_)) {}
        Ok(())
    }

    fn explain(&self, what: String, why: String) -> Error {
        let lines = self.tail.iter().cloned().collect();
        Error::build(what).cause(why).log(LogTail { lines, path: self.path.display().to_string() })
    }
}

/// What the machine sent next.
enum Received {
    Bytes,
    Nothing,
    /// The machine's end.
    End(std::result::Result<(), String>),
}

/// What came of listening to the console.
enum Listened {
    Line(Line),
    Silence,
    /// The machine's end.
    Ended(std::result::Result<(), String>),
}
