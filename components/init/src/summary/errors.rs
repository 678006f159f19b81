//! The last errors of daemons, and what the cluster says of the node.

use std::collections::VecDeque;
use std::time::Duration;

use crate::daemon_line;
use crate::processes::program::{Life, Program};

/// How many errors are remembered.
const COUNT: usize = 3;
/// How long each is shown: longer than between two lines of an error that repeats
/// ([`crate::processes::rate_limit`]).
const SHOWN: Duration = Duration::from_secs(3600);
/// How many characters of each.
const LENGTH: usize = 300;
/// The start of the lines of [`Program::Cluster`] with the reason why the node is not Ready.
const NOT_READY: &str = "not Ready: ";

/// The last lines.
#[derive(Debug, Default)]
pub struct LastErrors {
    errors: VecDeque<LastError>,
    cluster: Option<String>,
}

#[derive(Debug)]
struct LastError {
    source: String,
    /// The line, with the name of its program.
    text: String,
    /// When it was written, since boot.
    at: Duration,
}

impl LastErrors {
    /// A program has written a line for the console. Daemons write only errors there, and of each
    /// source the last one counts.
    pub fn on_line(&mut self, program: Program, line: &str, now: Duration) {
        let source = daemon_line::source(line);
        let line: String = line.chars().take(LENGTH).collect();
        if program == Program::Cluster {
            self.cluster = Some(line.strip_prefix(NOT_READY).unwrap_or(&line).to_owned());
        } else if program.life() == Life::Daemon {
            self.errors.retain(|error| error.source != source);
            if self.errors.len() == COUNT {
                self.errors.pop_front();
            }
            let text = format!("{}: {line}", program.name());
            self.errors.push_back(LastError { source, text, at: now });
        }
    }

    /// The cluster reports the node as Ready.
    pub fn on_cluster_ready(&mut self) {
        self.cluster = None;
    }

    /// Why the cluster does not report the node as Ready, as far as that was said.
    pub fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    /// The errors of the last hour, the last one last.
    pub fn texts(&self, now: Duration) -> Vec<String> {
        let text = |LastError { text, at, .. }: &LastError| {
            format!("{} s ago: {text}", now.saturating_sub(*at).as_secs())
        };
        let shown = self.errors.iter().filter(|error| now.saturating_sub(error.at) <= SHOWN);
        shown.map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_errors_of_daemons_are_remembered() {
        let mut last = LastErrors::default();
        for second in 1..=5 {
            last.on_line(Program::Kubelet, &format!("e{second}"), Duration::from_secs(second));
        }
        last.on_line(Program::Gate, "waits", Duration::from_secs(6));
        assert_eq!(
            last.texts(Duration::from_secs(10)),
            ["7 s ago: kubelet: e3", "6 s ago: kubelet: e4", "5 s ago: kubelet: e5"]
        );
    }

    #[test]
    fn an_error_that_repeats_leaves_room_for_others() {
        let mut last = LastErrors::default();
        last.on_line(Program::Containerd, "panic: once", Duration::from_secs(1));
        for second in 2..9 {
            let line = format!("E1129 07:33:0{second}.878871     448 kubelet.go:474] \"{second}\"");
            last.on_line(Program::Kubelet, &line, Duration::from_secs(second));
        }
        let texts = last.texts(Duration::from_secs(10));
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert_eq!(texts[0], "9 s ago: containerd: panic: once");
        assert!(texts[1].starts_with("2 s ago: kubelet: E1129 07:33:08"), "{texts:?}");
    }

    #[test]
    fn an_error_of_long_ago_is_no_longer_shown() {
        let mut last = LastErrors::default();
        last.on_line(Program::Kubelet, "early", Duration::ZERO);
        last.on_line(Program::Kubelet, "late", Duration::from_secs(100));
        assert_eq!(last.texts(SHOWN).len(), 2);
        assert_eq!(last.texts(SHOWN + Duration::from_secs(1)), ["3501 s ago: kubelet: late"]);
    }

    #[test]
    fn a_long_line_is_cut() {
        let mut last = LastErrors::default();
        last.on_line(Program::Containerd, &"ä".repeat(5000), Duration::ZERO);
        assert!(last.texts(Duration::ZERO)[0].chars().count() < LENGTH + 40);
    }

    #[test]
    fn the_reason_of_the_cluster_is_that_of_its_last_line() {
        let mut last = LastErrors::default();
        last.on_line(Program::Cluster, "not Ready: ask 10.0.2.2:6443: refused", Duration::ZERO);
        assert_eq!(last.cluster(), Some("ask 10.0.2.2:6443: refused"));
        last.on_cluster_ready();
        assert_eq!(last.cluster(), None);
    }
}
