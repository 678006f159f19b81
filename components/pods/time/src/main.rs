//! The `time` pod: asks time servers and keeps the node's clock right, which needs `SYS_TIME`.
//!
//! `time [--dry-run] [--servers FILE] [SERVER]…`: without a server on the command line, those in the file are asked, as soon as there
//! are any; `--dry-run` says what it would do and leaves the clock alone. One line an event on stderr; it ends only by a signal.

mod discipline;
mod exchange;
mod servers;
mod sys;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use discipline::{Adjustment, Discipline, Sample};
use exchange::Refusal;
use osbuild_abi::{cmdline, paths};
use rustix::rand::{GetRandomFlags, getrandom};
use servers::Source;

const USAGE: &str = "usage: time [--dry-run] [--servers FILE] [SERVER]...";
/// What it says while there is nobody to ask.
const IDLE: &str = "waits for somebody to name a server";

fn main() -> ExitCode {
    sys::end_on_signals();
    let Some(arguments) = arguments(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match Keeper::new(arguments).and_then(Keeper::run) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Arguments {
    dry_run: bool,
    file: PathBuf,
    servers: Vec<String>,
}

fn arguments(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments { dry_run: false, file: paths::NTP_SERVERS.into(), servers: vec![] };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--dry-run" => arguments.dry_run = true,
            "--servers" => arguments.file = words.next()?.into(),
            _ if word.starts_with('-') => return None,
            _ => arguments.servers.push(word),
        }
    }
    Some(arguments)
}

/// Keeps one clock.
struct Keeper {
    dry_run: bool,
    source: Source,
    /// Seconds since 1970 that the clock has certainly passed.
    earliest: u64,
    discipline: Discipline,
    /// The servers as of the last look.
    servers: Vec<String>,
    /// Those of them that do not want to be asked.
    denied: Vec<String>,
}

impl Keeper {
    fn new(arguments: Arguments) -> io::Result<Self> {
        let source = match arguments.servers {
            servers if servers.is_empty() => Source::file(&arguments.file)?,
            servers => Source::Fixed(servers),
        };
        if source.list()?.is_empty() {
            eprintln!("{IDLE}");
        }
        let (dry_run, earliest, discipline) = (arguments.dry_run, image_epoch(), Discipline::default());
        Ok(Self { dry_run, source, earliest, discipline, servers: vec![], denied: vec![] })
    }

    fn run(mut self) -> io::Result<std::convert::Infallible> {
        let mut due = Instant::now();
        loop {
            if self.look_for_servers()? {
                due = Instant::now();
            }
            let any = !self.servers.is_empty();
            if any && due <= Instant::now() {
                self.keep();
                due = Instant::now() + self.discipline.wait(random());
            }
            self.source.wait(any.then(|| due.saturating_duration_since(Instant::now())))?;
        }
    }

    /// Reads the list anew. If it has changed, everything begins anew with it. Returns whether it has.
    fn look_for_servers(&mut self) -> io::Result<bool> {
        let servers = self.source.list()?;
        if self.servers == servers {
            return Ok(false);
        }
        match servers.as_slice() {
            [] => eprintln!("{IDLE}"),
            servers => eprintln!("asks {}", servers.join(" ")),
        }
        (self.servers, self.denied, self.discipline) = (servers, vec![], Discipline::default());
        Ok(true)
    }

    /// Asks all servers once and does to the clock what is to be done.
    fn keep(&mut self) {
        let servers: Vec<_> = self.servers.iter().filter(|it| !self.denied.contains(it)).cloned().collect();
        let samples: Vec<_> = servers.iter().filter_map(|server| self.ask(server)).collect();
        let Some(sample) = discipline::choose(&samples) else {
            return self.discipline.fail();
        };
        let adjustment = self.discipline.take(sample);
        let (verb, would) = match adjustment {
            Adjustment::Step(_) => ("sets the clock", "would set the clock"),
            Adjustment::Slew(..) => ("turns the clock", "would turn the clock"),
        };
        eprintln!("{} by {} s", if self.dry_run { would } else { verb }, seconds(sample.offset));
        if !self.dry_run
            && let Err(error) = sys::adjust(adjustment)
        {
            eprintln!("cannot touch the clock: {error}");
        }
    }

    /// Asks one server. What is wrong with it is said.
    fn ask(&mut self, server: &str) -> Option<Sample> {
        let address = match servers::resolve(server) {
            Ok(address) => address,
            Err(error) => {
                eprintln!("{server}: is not found: {error}");
                return None;
            }
        };
        match exchange::ask(address) {
            Ok(sample) if discipline::goes_before(sample, now(), self.earliest) => {
                eprintln!("{server}: is not believed: the image is newer than its time");
                None
            }
            Ok(sample) => {
                let (offset, delay) = (seconds(sample.offset), sample.delay);
                eprintln!("{server}: clock off by {offset} s, delay {delay} us, stratum {}", sample.stratum);
                Some(sample)
            }
            Err(Refusal::Denied) => {
                eprintln!("{server}: does not want to be asked");
                self.denied.push(server.to_owned());
                None
            }
            Err(Refusal::TooOften) => {
                eprintln!("{server}: wants to be asked less often");
                self.discipline.slow_down();
                None
            }
            Err(Refusal::Unusable(reason)) => {
                eprintln!("{server}: {reason}");
                None
            }
        }
    }
}

fn seconds(microseconds: i64) -> String {
    let (sign, size) = (if microseconds < 0 { '-' } else { '+' }, microseconds.unsigned_abs());
    format!("{sign}{}.{:06}", size / 1_000_000, size % 1_000_000)
}

fn now() -> Duration {
    // A clock before 1970 is as wrong as one that shows 1970.
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    // It fails only for large buffers; a number that is not random is no danger, only impolite.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    u32::from_ne_bytes(bytes)
}

/// The image's epoch, which the signed command line holds; 0 on a machine that is no node.
fn image_epoch() -> u64 {
    let line = std::fs::read_to_string(Path::new("/proc/cmdline")).unwrap_or_default();
    cmdline::value(&line, cmdline::EPOCH).and_then(|epoch| epoch.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_written_with_sign_and_six_digits() {
        assert_eq!((seconds(-1_000_001), seconds(42)), ("-1.000001".to_owned(), "+0.000042".to_owned()));
    }
}
