//! How the kubelet finds whether a container has begun, runs well and can serve.

use super::PodText;
use crate::Refusal;

/// The maximum seconds and failures of a probe.
const MAX_NUMBER: u32 = 3600;
/// The maximum words of a command.
const MAX_WORDS: usize = 16;

/// A probe. Without a number it has the default of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    action: ProbeAction,
    timing: ProbeTiming,
}

/// The step of the kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeAction {
    /// It runs a command in the container.
    Exec(Vec<PodText>),
    /// It makes a request with HTTP.
    HttpGet {
        /// The port.
        port: u16,
        /// The path.
        path: PodText,
    },
    /// It connects.
    TcpSocket {
        /// The port.
        port: u16,
    },
}

/// When it does so. Zero is the default of Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeTiming {
    /// Seconds after the start of the container.
    pub initial_delay: u32,
    /// Seconds between two probes.
    pub period: u32,
    /// Seconds for a response.
    pub timeout: u32,
    /// Failures in a row that count.
    pub failures: u32,
}

impl Probe {
    /// The names of the three kinds, as Kubernetes has them before `Probe`.
    pub const KINDS: [&'static str; 3] = ["startup", "liveness", "readiness"];

    /// A probe that acts so.
    ///
    /// # Errors
    /// A command has no or too many words, or a path does not begin with `/`; or a number is more
    /// than 3600.
    pub fn new(action: ProbeAction, timing: ProbeTiming) -> Result<Self, Refusal> {
        let ProbeTiming { initial_delay, period, timeout, failures } = timing;
        let is_action = match &action {
            ProbeAction::Exec(words) => {
                let has_program = words.first().is_some_and(|word| !word.as_str().is_empty());
                has_program && words.len() <= MAX_WORDS
            }
            ProbeAction::HttpGet { port, path } => *port > 0 && path.as_str().starts_with('/'),
            ProbeAction::TcpSocket { port } => *port > 0,
        };
        if !is_action {
            let reason = format!(
                "a probe has a command of 1 to {MAX_WORDS} words, a port and a path that begins \
                 with `/`, or a port"
            );
            return Err(Refusal::malformed(reason));
        }
        match [initial_delay, period, timeout, failures].iter().all(|one| *one <= MAX_NUMBER) {
            true => Ok(Self { action, timing }),
            false => Err(Refusal::malformed(format!(
                "the seconds and failures of a probe are {MAX_NUMBER} at most"
            ))),
        }
    }

    /// The step of the kubelet.
    pub fn action(&self) -> &ProbeAction {
        &self.action
    }

    /// When it does so.
    pub fn timing(&self) -> ProbeTiming {
        self.timing
    }

    /// The word for it: `DELAY:PERIOD:TIMEOUT:FAILURES:ACTION`.
    pub(super) fn word(&self) -> String {
        let ProbeTiming { initial_delay, period, timeout, failures } = self.timing;
        let action = match &self.action {
            ProbeAction::Exec(words) => {
                let words: Vec<String> = words.iter().map(PodText::escaped).collect();
                format!("exec:{}", words.join(","))
            }
            ProbeAction::HttpGet { port, path } => format!("http:{port}:{}", path.escaped()),
            ProbeAction::TcpSocket { port } => format!("tcp:{port}"),
        };
        format!("{initial_delay}:{period}:{timeout}:{failures}:{action}")
    }

    /// Reads what [`Self::word`] writes.
    pub(super) fn of_word(word: &str) -> Result<Self, Refusal> {
        let malformed = || Refusal::malformed("a probe is `DELAY:PERIOD:TIMEOUT:FAILURES:ACTION`");
        let parts: Vec<&str> = word.splitn(6, ':').collect();
        let [initial_delay, period, timeout, failures, kind, rest] = parts[..] else {
            return Err(malformed());
        };
        let number = |text: &str| super::number(text).ok_or_else(malformed);
        let port = |text: &str| super::number::<u16>(text).ok_or_else(malformed);
        let action = match kind {
            "exec" => {
                let words = rest.split(',').map(PodText::unescape);
                ProbeAction::Exec(words.collect::<Result<_, _>>()?)
            }
            "http" => {
                let (number, path) = rest.split_once(':').ok_or_else(malformed)?;
                ProbeAction::HttpGet { port: port(number)?, path: PodText::unescape(path)? }
            }
            "tcp" => ProbeAction::TcpSocket { port: port(rest)? },
            _ => return Err(malformed()),
        };
        let timing = ProbeTiming {
            initial_delay: number(initial_delay)?,
            period: number(period)?,
            timeout: number(timeout)?,
            failures: number(failures)?,
        };
        Self::new(action, timing)
    }
}
