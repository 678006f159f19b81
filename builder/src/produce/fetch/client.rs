//! Runs an ecosystem's own client (`apt-get`, `go`, `cargo`, `rustup`), so that users' mirrors,
//! proxies and credentials keep working.

use crate::engine::stop;
use crate::error::{Context, Error, Kind, Result};
use crate::report::Step;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The number of lines in an error.
const SHOWN: usize = 12;

/// The number of lines in which the reason of a failure is searched: some clients print a backtrace
/// after it.
const KEPT: usize = 200;

/// The number of words of a call in an error. A download names every package.
const MAX_WORDS: usize = 3;

/// The interval at which a request to stop is checked.
const STOP_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The time that a client gets to clean up after SIGTERM.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(2);

/// One call of a client.
pub struct Client<'a> {
    program: String,
    command: Command,
    step: Option<&'a Step>,
}

/// How a client ended.
pub struct Ended {
    /// Its standard output.
    pub text: String,
    /// The error of its failure, if it failed.
    pub failure: Option<Error>,
}

impl<'a> Client<'a> {
    /// `program` is searched in the user's PATH and keeps the user's environment.
    pub fn new(program: &str) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Client { program: program.to_owned(), command, step: None }
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets a variable of the environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the folder in which it runs.
    pub fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Shows its lines beside the bar of `step`.
    pub fn shown(mut self, step: &'a Step) -> Self {
        self.step = Some(step);
        self
    }

    /// Runs it to its end and returns its stdout.
    ///
    /// # Errors
    /// The program is missing, it failed, or the user wants to stop. The error has the end of its
    /// stderr.
    pub fn run(self) -> Result<String> {
        let Ended { text, failure } = self.finish()?;
        failure.map_or(Ok(text), Err)
    }

    /// Runs it to its end, for a program that prints errors to stdout.
    ///
    /// # Errors
    /// The program is missing, or the user wants to stop. Then all of its processes have ended.
    pub fn finish(mut self) -> Result<Ended> {
        stop::check()?;
        let mut child = self.spawn()?;
        let out = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        let (text, lines, status) = std::thread::scope(|scope| {
            let text = scope.spawn(|| read(out));
            let lines = scope.spawn(|| self.follow(stderr));
            let status = wait(child).or_build(|| format!("cannot wait for `{}`", self.program));
            (
                text.join().expect("a reader does not panic"),
                lines.join().expect("a reader does not panic"),
                status,
            )
        });
        let status = status?;
        stop::check()?;
        let failure = (!status.success()).then(|| self.failed(&status.to_string(), &lines, &text));
        Ok(Ended { text, failure })
    }

    fn spawn(&mut self) -> Result<Child> {
        let prepare = || {
            // In a session of its own it has no terminal to prompt on, and a stop can end all of
            // its processes.
            rustix::process::setsid()?;
            rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
            Ok(())
        };
        // SAFETY: between fork and exec `prepare` makes two system calls and nothing else: it takes
        // no lock and no memory.
        unsafe { self.command.pre_exec(prepare) };
        self.command.spawn().map_err(|error| {
            let ours = Error::build(format!("cannot run `{}`", self.program)).cause(&error);
            if error.kind() == std::io::ErrorKind::NotFound {
                ours.hint("cargo osbuild doctor --fix")
            } else {
                ours
            }
        })
    }

    /// Shows its lines, and returns the last ones.
    fn follow(&self, stderr: impl Read) -> VecDeque<String> {
        let mut lines = VecDeque::new();
        for line in BufReader::new(stderr).split(b'\n').map_while(std::result::Result::ok) {
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            if let Some(step) = self.step {
                step.doing(line.clone());
            }
            lines.push_back(line);
            if lines.len() > KEPT {
                lines.pop_front();
            }
        }
        lines
    }

    /// The program with the first of its words, without options.
    fn line(&self) -> String {
        let words = self.command.get_args().map(|word| word.to_string_lossy());
        // A setting of apt, such as `Dir::Cache=FOLDER`, is the value of an option.
        let words = words.filter(|word| !word.starts_with('-') && !word.contains("::"));
        let words: Vec<_> = words.collect();
        let shown =
            words.iter().take(MAX_WORDS).fold(self.program.clone(), |line, word| line + " " + word);
        if words.len() > MAX_WORDS { shown + " …" } else { shown }
    }

    fn failed(&self, status: &str, lines: &VecDeque<String>, text: &str) -> Error {
        let error = Error::build(format!("`{}` failed: {status}", self.line()));
        let printed = |signs: &[&str]| {
            let has = |line: &str| signs.iter().any(|sign| line.contains(sign));
            lines.iter().any(|line| has(line)) || has(text)
        };
        let reason = REASONS.iter().find(|reason| printed(reason.signs));
        let error = reason.into_iter().fold(error, |error, reason| Error {
            kind: reason.kind,
            ..error.cause(reason.cause).hint(reason.hint)
        });
        let last = lines.iter().skip(lines.len().saturating_sub(SHOWN));
        last.filter(|line| !line.is_empty()).fold(error, |error, line| error.cause(line))
    }
}

/// A common reason for the failure of clients.
struct Reason {
    /// Parts of the messages of clients for this reason.
    signs: &'static [&'static str],
    kind: Kind,
    cause: &'static str,
    hint: &'static str,
}

/// The more specific first: apt also reports a wrong digest for a truncated file.
const REASONS: [Reason; 3] = [
    Reason {
        signs: &[
            "Temporary failure resolving",
            "Could not resolve",
            "Could not connect",
            "no such host",
            "etwork is unreachable",
            "onnection refused",
            "dns error",
            "client error (Connect)",
        ],
        kind: Kind::Build,
        cause: "the network or the registry cannot be reached",
        hint: "try again with a network, or build from exported sources: `cargo osbuild build \
             RECIPE --sources DIR`",
    },
    Reason {
        signs: &[
            "unexpected EOF",
            "unexpected size",
            "not a valid zip file",
            "end of file before message",
            "onnection reset",
            "Undetermined Error",
        ],
        kind: Kind::Build,
        cause: "a download was cut short",
        hint: "run the same command again: complete files are kept, and truncated ones discarded",
    },
    Reason {
        signs: &[
            "Hash Sum mismatch",
            "checksum mismatch",
            "Verification of checksum",
            "failed to verify the checksum",
        ],
        kind: Kind::Digest,
        cause: "the download does not match the registry's digest",
        hint: "a mirror or a proxy may serve other bytes: check which one your settings name, and \
               run the same command again",
    },
];

fn read(mut from: impl Read) -> String {
    let mut text = Vec::new();
    // Reading a pipe does not fail.
    let _ = from.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Waits for a client. When the user wants to stop, ends it with all of its processes.
fn wait(mut child: Child) -> std::io::Result<ExitStatus> {
    let group = Pid::from_child(&child);
    let process = pidfd_open(group, PidfdFlags::empty())?;
    let mut stopped_at: Option<Instant> = None;
    loop {
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&STOP_INTERVAL)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => break,
            Err(error) => return Err(error.into()),
        }
        if stop::check().is_err() && stopped_at.is_none() {
            stopped_at = Some(Instant::now());
            // An error means that the group has ended.
            let _ = kill_process_group(group, Signal::TERM);
        }
        if stopped_at.is_some_and(|stopped_at| stopped_at.elapsed() > TERMINATION_TIMEOUT) {
            break;
        }
    }
    if stopped_at.is_some() {
        // The client's children may outlive it.
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_connection_is_a_download_cut_short_for_each_client() {
        for line in [
            "Error reading from server - read (104: Connection reset by peer)",
            "read tcp 127.0.0.1:1->127.0.0.1:2: read: connection reset by peer",
        ] {
            let script = format!("echo '{line}' >&2; exit 1");
            let error = Client::new("sh").args(["-c", &script]).run().unwrap_err().to_string();
            assert!(error.contains("a download was cut short"), "{error}");
        }
    }

    #[test]
    fn an_error_shows_the_first_words_of_the_call() {
        let client = Client::new("false").args(["-o", "Dir::Cache=a", "get", "-q", "a", "b", "c"]);
        let error = client.run().unwrap_err().to_string();
        assert!(error.contains("`false get a b …` failed"), "{error}");
    }
}
