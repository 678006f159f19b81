//! Runs an ecosystem's own client (`apt-get`, `go`, `cargo`, `rustup`), so that users' mirrors, proxies and credentials keep working.

use crate::error::{Error, Result};
use crate::report::Step;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// How many of the last lines an error shows.
const TAIL: usize = 12;

/// One call of a client.
pub struct Client<'a> {
    program: String,
    command: Command,
    step: Option<&'a Step>,
}

/// How a client ended.
pub struct Ended {
    /// What it wrote to stdout.
    pub text: String,
    /// The error that its failure is, if it failed.
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

    /// Shows its lines behind `step`'s bar.
    pub fn shown(mut self, step: &'a Step) -> Self {
        self.step = Some(step);
        self
    }

    /// Runs it to its end and returns what it wrote to stdout.
    ///
    /// # Errors
    /// The program is missing, or it failed: the end of what it wrote to stderr is in the error.
    pub fn run(self) -> Result<String> {
        let Ended { text, failure } = self.finish()?;
        failure.map_or(Ok(text), Err)
    }

    /// Runs it to its end, for a program that says on stdout why it failed.
    ///
    /// # Errors
    /// The program is missing.
    pub fn finish(mut self) -> Result<Ended> {
        let mut child = self.command.spawn().map_err(|error| self.cannot_start(&error))?;
        let mut out = child.stdout.take().expect("stdout is piped");
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            out.read_to_end(&mut text).map(|_| text)
        });
        let tail = self.follow(child.stderr.take().expect("stderr is piped"));
        let status = child.wait().map_err(|error| self.cannot_start(&error))?;
        let text = reader.join().expect("the reader does not panic").map_err(|error| self.cannot_start(&error))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let failure = (!status.success()).then(|| self.failed(&status.to_string(), tail, &text));
        Ok(Ended { text, failure })
    }

    fn follow(&self, stderr: impl Read) -> Vec<String> {
        let mut tail = Vec::new();
        for line in BufReader::new(stderr).split(b'\n').map_while(std::result::Result::ok) {
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            if let Some(step) = self.step {
                step.doing(line.clone());
            }
            tail.push(line);
            if tail.len() > TAIL {
                tail.remove(0);
            }
        }
        tail
    }

    fn line(&self) -> String {
        let args = self.command.get_args().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>();
        format!("{} {}", self.program, args.last().map(|last| last.as_ref()).unwrap_or_default())
    }

    fn cannot_start(&self, error: &std::io::Error) -> Error {
        let ours = Error::build(format!("cannot run `{}`", self.program)).cause(error);
        if error.kind() == std::io::ErrorKind::NotFound { ours.hint("cargo osbuild doctor --fix") } else { ours }
    }

    fn failed(&self, status: &str, tail: Vec<String>, text: &str) -> Error {
        let all = tail.join("\n") + text;
        let error = Error::build(format!("`{}` failed: {status}", self.line()));
        let error = match no_network(&all) {
            true => error
                .cause("the network or the registry cannot be reached")
                .hint("try again with a network, or build from exported sources: `cargo osbuild build --sources DIR`"),
            false => error,
        };
        tail.into_iter().filter(|line| !line.is_empty()).fold(error, |error, line| error.cause(line))
    }
}

/// Whether a client's words mean that it reached nobody.
fn no_network(words: &str) -> bool {
    const SIGNS: [&str; 7] = [
        "Temporary failure resolving",
        "Could not resolve",
        "no such host",
        "network is unreachable",
        "Network is unreachable",
        "connection refused",
        "Could not connect",
    ];
    SIGNS.iter().any(|sign| words.contains(sign))
}
