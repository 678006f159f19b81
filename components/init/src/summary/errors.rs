//! The last errors of daemons, and what the cluster says of the node.

use std::collections::VecDeque;
use std::time::Duration;

use crate::processes::program::{Life, Program};

/// How many errors are remembered.
const COUNT: usize = 3;
/// How many characters of each.
const LENGTH: usize = 300;
/// The start of the lines of [`Program::Cluster`] with the reason why the node is not Ready.
const NOT_READY: &str = "not Ready: ";

/// The last lines.
#[derive(Debug, Default)]
pub struct LastErrors {
    /// Each with its time since boot.
    errors: VecDeque<(Duration, String)>,
    cluster: Option<String>,
}

impl LastErrors {
    /// A program has written a line for the console. Daemons write only errors there.
    pub fn on_line(&mut self, program: Program, line: &str, now: Duration) {
        let line: String = line.chars().take(LENGTH).collect();
        if program == Program::Cluster {
            self.cluster = Some(line.strip_prefix(NOT_READY).unwrap_or(&line).to_owned());
        } else if program.life() == Life::Daemon {
            if self.errors.len() == COUNT {
                self.errors.pop_front();
            }
            self.errors.push_back((now, format!("{}: {line}", program.name())));
        }
    }

    /// Why the cluster does not report the node as Ready, as far as that was said.
    pub fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    /// The errors, the last one last.
    pub fn texts(&self, now: Duration) -> Vec<String> {
        let text = |(at, error): &(Duration, String)| {
            format!("{} s ago: {error}", now.saturating_sub(*at).as_secs())
        };
        self.errors.iter().map(text).collect()
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
    }
}
