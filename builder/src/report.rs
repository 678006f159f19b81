//! The only writer to the terminal. stdout carries only data; steps, bars, notes and errors go to
//! stderr and read well in a pipe.

use crate::engine::stop;
use crate::error::{Error, Result};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The interval at which a question looks whether the user wants to stop.
const STOP_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The interval at which a bar shows its time.
const TICK: Duration = Duration::from_millis(120);

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors and warnings.
    Quiet,
    /// Also a line for each finished step.
    Normal,
    /// Also steps whose results were in the store, and why a step ran.
    Verbose,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// If stderr is a terminal and `NO_COLOR` is not set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A handle on the terminal, cheap to clone and usable from several threads.
#[derive(Clone)]
pub struct Report {
    bars: MultiProgress,
    verbosity: Verbosity,
    color: bool,
    lines: Arc<std::sync::Mutex<()>>,
    /// The first error of writing data.
    unwritten: Arc<std::sync::Mutex<Option<std::io::Error>>>,
}

/// One piece of work in progress. Dropping it before its end removes its bar and prints nothing.
pub struct Step {
    report: Report,
    bar: ProgressBar,
    name: String,
    started: Instant,
}

/// How much of a build is done. Dropping it removes its bar.
pub struct Progress {
    report: Report,
    bar: ProgressBar,
}

/// Where the result of a step comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran.
    Ran,
    /// The store had its result.
    Stored,
    /// A shared cache had its result.
    Fetched,
    /// It ran on another machine.
    Executed,
}

impl Report {
    /// Opens the terminal. The environment matters only if `color` is `Auto`.
    pub fn new(verbosity: Verbosity, color: Color) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let color = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        };
        let target = if terminal && verbosity > Verbosity::Quiet {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        Report {
            bars: MultiProgress::with_draw_target(target),
            verbosity,
            color,
            lines: Arc::default(),
            unwritten: Arc::default(),
        }
    }

    /// Starts a step. It shows a bar on a terminal, and nothing in a pipe until it ends.
    pub fn step(&self, name: impl Into<String>) -> Step {
        self.shown(
            name.into(),
            ProgressBar::no_length(),
            "{spinner} {prefix:28} {elapsed:>5} {wide_msg}",
        )
    }

    /// Starts a step that moves this many bytes. On a terminal its bar shows the rate and the
    /// remaining time.
    pub fn sized_step(&self, name: impl Into<String>, bytes: u64) -> Step {
        let template = "{spinner} {prefix:28} {bar:24} {decimal_bytes}/{decimal_total_bytes} \
                        {decimal_bytes_per_sec} {eta} left {wide_msg}";
        self.shown(name.into(), ProgressBar::new(bytes), template)
    }

    /// Starts a bar for this many steps, above their own bars. It shows nothing in a pipe.
    pub fn progress(&self, steps: usize) -> Progress {
        let template = "{spinner} {bar:28} {elapsed:>5} {pos} of {len} steps";
        let bar = self.bars.insert(0, ProgressBar::new(steps as u64));
        bar.set_style(ProgressStyle::with_template(template).expect("the template is fixed"));
        bar.enable_steady_tick(TICK);
        Progress { report: self.clone(), bar }
    }

    /// The bar is complete before it is first drawn, because that may be the only time.
    fn shown(&self, name: String, bar: ProgressBar, template: &str) -> Step {
        let bar = self.bars.add(bar);
        bar.set_style(ProgressStyle::with_template(template).expect("the template is fixed"));
        bar.set_prefix(name.clone());
        bar.enable_steady_tick(TICK);
        Step { report: self.clone(), bar, name, started: Instant::now() }
    }

    /// Prints a note, which needs no action.
    pub fn note(&self, text: impl AsRef<str>) {
        if self.verbosity >= Verbosity::Normal {
            self.line(&format!("{} {}", self.paint("36", "note:"), text.as_ref()));
        }
    }

    /// Prints the result of a long operation in one line.
    pub fn summary(&self, text: impl AsRef<str>) {
        if self.verbosity >= Verbosity::Normal {
            self.line(text.as_ref());
        }
    }

    /// Prints a detail, only with `-v`.
    pub fn detail(&self, text: impl AsRef<str>) {
        if self.verbosity >= Verbosity::Verbose {
            self.line(text.as_ref());
        }
    }

    /// Prints a warning, on which the user should act.
    pub fn warning(&self, text: impl AsRef<str>) {
        self.line(&format!("{} {}", self.paint("33", "warning:"), text.as_ref()));
    }

    /// Prints an error in full.
    pub fn error(&self, error: &Error) {
        for line in error.to_string().lines() {
            let painted = ["error:", "hint:"].iter().find_map(|word| {
                let rest = line.strip_prefix(word)?;
                Some(format!(
                    "{}{rest}",
                    self.paint(if *word == "error:" { "1;31" } else { "32" }, word)
                ))
            });
            self.line(painted.as_deref().unwrap_or(line));
        }
    }

    /// Writes data to stdout: a path, an id, JSON. [`Self::all_written`] returns the first error at
    /// the end.
    pub fn data(&self, data: impl AsRef<str>) {
        let written = self.bars.suspend(|| writeln!(std::io::stdout().lock(), "{}", data.as_ref()));
        if let Err(error) = written {
            self.unwritten
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .get_or_insert(error);
        }
    }

    /// Checks that all data were written to stdout. A closed pipe is not an error: its reader wants
    /// no more.
    ///
    /// # Errors
    /// Some data could not be written, because a disk is full for example.
    pub fn all_written(&self) -> Result<()> {
        match self.unwritten.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take() {
            Some(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Error::build("cannot write to stdout").cause(error))
            }
            _ => Ok(()),
        }
    }

    /// Writes a line to stderr unchanged, above the bars.
    pub fn line(&self, line: &str) {
        let _one_at_a_time = self.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.bars.suspend(|| {
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        });
    }

    /// Passes the bytes of a node's console to a terminal unchanged.
    pub fn raw(&self, bytes: &[u8]) {
        self.bars.suspend(|| {
            let mut terminal = std::io::stderr().lock();
            let _ = terminal.write_all(bytes).and_then(|()| terminal.flush());
        });
    }

    /// Whether stderr is a terminal.
    pub fn is_terminal(&self) -> bool {
        std::io::stderr().is_terminal()
    }

    /// Whether stderr is a terminal whose user can answer a question.
    pub fn can_ask(&self) -> bool {
        std::io::stderr().is_terminal() && std::io::stdin().is_terminal()
    }

    /// Asks the user for consent; call it only if [`Self::can_ask`]. An empty answer means yes.
    ///
    /// # Errors
    /// The user wants to stop.
    pub fn confirm(&self, question: &str) -> Result<bool> {
        self.bars.suspend(|| {
            let mut terminal = std::io::stderr().lock();
            let _ = write!(terminal, "{question} [Y/n] ").and_then(|()| terminal.flush());
            // The line of the question has no answer then.
            wait_for_input().inspect_err(|_| drop(writeln!(terminal)))?;
            let mut answer = String::new();
            let read = std::io::stdin().read_line(&mut answer);
            stop::check()?;
            Ok(read.is_ok_and(|length| length > 0)
                && matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes"))
        })
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Waits until stdin has a line, or its end. A signal does not end a read of it, so this looks
/// several times a second whether the user wants to stop.
fn wait_for_input() -> Result<()> {
    let stdin = std::io::stdin();
    loop {
        stop::check()?;
        let mut events = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut events, Some(&STOP_INTERVAL)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            // A failure shows in the read.
            Ok(_) | Err(_) => return Ok(()),
        }
    }
}

impl Step {
    /// Sets the text behind the bar: what the step is doing now.
    pub fn doing(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// Adds to the number of bytes that the step has moved.
    pub fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Ends the step with its line: name, product, size, time.
    pub fn done(self, product: &str, size: Option<u64>, outcome: Outcome) {
        self.bar.finish_and_clear();
        let least = if outcome == Outcome::Stored { Verbosity::Verbose } else { Verbosity::Normal };
        if self.report.verbosity < least {
            return;
        }
        let time = match outcome {
            Outcome::Ran => duration(self.started.elapsed()),
            Outcome::Executed => format!("{} there", duration(self.started.elapsed())),
            Outcome::Stored => "stored".to_owned(),
            Outcome::Fetched => "fetched".to_owned(),
        };
        let size = size.map(bytes).unwrap_or_default();
        self.report.line(format!("{:28} {product:32} {size:>9} {time:>9}", self.name).trim_end());
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        self.report.bars.remove(&self.bar);
    }
}

impl Progress {
    /// Counts a step that has ended with its result.
    pub fn advance(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        self.report.bars.remove(&self.bar);
    }
}

/// A size in text for people, in powers of ten: `5.6 MB`.
pub fn bytes(size: u64) -> String {
    match size {
        0..1_000 => format!("{size} B"),
        1_000..1_000_000 => format!("{:.1} kB", size as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", size as f64 / 1e6),
        _ => format!("{:.1} GB", size as f64 / 1e9),
    }
}

/// A duration in text for people: `0.04 s`, `12.3 s`, `9m 05s`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..1.0 => format!("{seconds:.2} s"),
        ..60.0 => format!("{seconds:.1} s"),
        _ => format!("{}m {:02}s", time.as_secs() / 60, time.as_secs() % 60),
    }
}
