//! The `time` pod: queries time servers and keeps the node's clock right, which needs `SYS_TIME`.
//!
//! `time [--dry-run] [--servers FILE] [--socket PATH] [SERVER]…`: without a server on the command
//! line, it queries those in the file, as soon as there are any; `--dry-run` prints what it would
//! do and leaves the clock alone; `--socket` is the socket of `init`. It prints one line per event
//! on stderr, and ends only by a signal.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use osbuild_abi::{cmdline, paths};
use osbuild_protocol::{ClientError, LastSeen, Request};
use pod_time::agreement::{self, Agreement, Sample};
use pod_time::discipline::{self, Adjustment, Bounds, Discipline};
use pod_time::exchange::{self, Refusal};
use pod_time::holds::Holds;
use pod_time::servers::{self, Source};
use pod_time::{host, sys};
use rustix::rand::{GetRandomFlags, getrandom};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_shutdown;

const USAGE: &str = "usage: time [--dry-run] [--servers FILE] [--socket PATH] [SERVER]...";
/// The message while there is no server.
const IDLE: &str = "waits for a server to be configured";

fn main() -> ExitCode {
    let Some(arguments) = arguments(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match exit_on_signals().and_then(|()| Keeper::new(arguments)).and_then(Keeper::run) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Makes SIGTERM and SIGINT end the process, which the kernel does not do for PID 1 of a container.
fn exit_on_signals() -> io::Result<()> {
    static ALWAYS: AtomicBool = AtomicBool::new(true);
    for signal in [SIGTERM, SIGINT] {
        register_conditional_shutdown(signal, 0, &ALWAYS)?;
    }
    Ok(())
}

struct Arguments {
    dry_run: bool,
    file: PathBuf,
    socket: PathBuf,
    servers: Vec<String>,
}

fn arguments(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let (file, socket) = (paths::NTP_SERVERS.into(), paths::TIME_SOCKET.into());
    let mut arguments = Arguments { dry_run: false, file, socket, servers: vec![] };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--dry-run" => arguments.dry_run = true,
            "--servers" => arguments.file = words.next()?.into(),
            "--socket" => arguments.socket = words.next()?.into(),
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
    /// The socket of `init`, if it exists.
    socket: Option<PathBuf>,
    discipline: Discipline,
    /// The servers at the last read of the list.
    servers: Vec<String>,
    /// The servers that refuse queries for a while.
    holds: Holds,
    /// The start of the monotonic time.
    start: Instant,
}

impl Keeper {
    fn new(arguments: Arguments) -> io::Result<Self> {
        let Arguments { dry_run, file, socket, servers } = arguments;
        let source = if servers.is_empty() { Source::file(&file)? } else { Source::Fixed(servers) };
        if source.list()?.is_empty() {
            eprintln!("{IDLE}");
        }
        let asked = host::last_seen(&socket);
        if let Err(error) = &asked {
            eprintln!("cannot ask `init` when the node last ran: {error}");
        }
        // Without that socket nothing is reported later either.
        let is_absent = matches!(&asked, Err(ClientError::Connection(error))
            if error.kind() == io::ErrorKind::NotFound);
        let socket = (!is_absent).then_some(socket);
        let seen = asked.unwrap_or(LastSeen { seconds: 0, clock_kept: false });
        let (last, kept) = (seen.seconds, seen.clock_kept);
        let bounds = Bounds { image: image_epoch(), last, kept };
        // A restarted pod does not let the servers set the clock freely again.
        let is_right = !dry_run && sys::clock_is_right();
        let discipline = if is_right {
            Discipline::of_right_clock(bounds, Duration::ZERO)
        } else {
            Discipline::new(bounds)
        };
        let (servers, holds, start) = (vec![], Holds::default(), Instant::now());
        Ok(Self { dry_run, source, socket, discipline, servers, holds, start })
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

    /// Rereads the list, and returns whether it changed. The clock's state is kept, so that a
    /// changed list has no more power over the clock than a server.
    fn look_for_servers(&mut self) -> io::Result<bool> {
        let servers = self.source.list()?;
        if self.servers == servers {
            return Ok(false);
        }
        match servers.as_slice() {
            [] => eprintln!("{IDLE}"),
            servers => eprintln!("queries {}", servers.join(" ")),
        }
        self.holds.keep_only(&servers);
        self.servers = servers;
        Ok(true)
    }

    /// Queries all servers once, and adjusts the clock.
    fn keep(&mut self) {
        let now = self.start.elapsed();
        let servers: Vec<_> =
            self.servers.iter().filter(|server| !self.holds.holds(server, now)).cloned().collect();
        let mut asked = Vec::new();
        let samples: Vec<_> =
            servers.iter().filter_map(|server| self.ask(server, &mut asked)).collect();
        let Some(agreement) = agreement::agree(&samples) else {
            if !samples.is_empty() {
                eprintln!("{} servers do not agree: no majority agrees", samples.len());
            }
            return self.discipline.fail();
        };
        let (clock, was_right) = (wall_clock(), self.discipline.is_right());
        match self.discipline.take(&agreement, self.servers.len(), clock, self.start.elapsed()) {
            Ok(adjustment) => self.carry_out(adjustment, &agreement, !was_right),
            Err(doubt) => {
                eprintln!(
                    "does not move the clock by {} s: {}",
                    seconds(agreement.offset),
                    doubt.words()
                );
                if doubt != discipline::Doubt::TooFew {
                    self.report(Request::ClockRefused((&agreement).into()));
                }
            }
        }
    }

    fn carry_out(&mut self, adjustment: Adjustment, agreement: &Agreement, is_first: bool) {
        let (verb, would) = match adjustment {
            Adjustment::Step(_) => ("sets the clock", "would set the clock"),
            Adjustment::Slew(..) => ("slews the clock", "would slew the clock"),
        };
        if is_first && !agreement.is_confirmed() {
            eprintln!("the first time is unconfirmed: {} of three servers", agreement.answered);
        }
        eprintln!("{} by {} s", if self.dry_run { would } else { verb }, seconds(agreement.offset));
        if !self.dry_run
            && let Err(error) = sys::adjust(adjustment)
        {
            eprintln!("cannot adjust the clock: {error}");
            return;
        }
        if is_first || matches!(adjustment, Adjustment::Step(_)) {
            self.report(Request::ClockSet(agreement.into()));
        }
    }

    fn report(&self, request: Request) {
        if let Some(socket) = &self.socket
            && let Err(error) = host::report(socket, &request)
        {
            eprintln!("cannot report to `init`: {error}");
        }
    }

    /// Queries a server, unless it was queried under another name (`asked`). Prints an error.
    fn ask(&mut self, server: &str, asked: &mut Vec<SocketAddr>) -> Option<Sample> {
        let address = match servers::resolve(server) {
            Ok(address) if asked.contains(&address) => return None,
            Ok(address) => address,
            Err(error) => {
                eprintln!("{server}: cannot be resolved: {error}");
                return None;
            }
        };
        asked.push(address);
        match exchange::ask(address) {
            Ok(sample) => {
                let (offset, delay) = (seconds(sample.offset), sample.delay);
                eprintln!(
                    "{server}: clock off by {offset} s, delay {delay} us, stratum {}",
                    sample.stratum
                );
                self.holds.release(server);
                Some(sample)
            }
            Err(Refusal::Denied) => {
                let span = self.holds.deny(server, self.start.elapsed());
                eprintln!("{server}: refuses queries, paused for {} s", span.as_secs());
                None
            }
            Err(Refusal::TooOften) => {
                let span = self.holds.slow_down(server, self.start.elapsed());
                eprintln!("{server}: asks for fewer queries, paused for {} s", span.as_secs());
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

fn wall_clock() -> Duration {
    // A time before 1970 counts as 1970.
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    // Without the flag, the call would wait for the kernel's entropy, which takes seconds at boot.
    // These numbers protect no secret; predictable ones would only make nodes less polite.
    let _ = getrandom(&mut bytes, GetRandomFlags::INSECURE);
    u32::from_ne_bytes(bytes)
}

/// The image's epoch, which the signed command line holds; 0 on a machine that is not a node.
fn image_epoch() -> u64 {
    let line = std::fs::read_to_string(Path::new("/proc/cmdline")).unwrap_or_default();
    cmdline::value(&line, cmdline::EPOCH).and_then(|epoch| epoch.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_has_a_sign_and_six_decimals() {
        assert_eq!(
            (seconds(-1_000_001), seconds(42)),
            ("-1.000001".to_owned(), "+0.000042".to_owned())
        );
    }
}
