//! Whether the two daemons still answer, once the node is ready. One that has not answered several
//! times in a row is ended and started again. A short-lived child, `init health`, asks them.
//!
//! It is pure: the child's report in, the daemons to end out.

use std::time::Duration;

use crate::processes::program::Program;

/// The daemons that are asked.
pub const DAEMONS: [Program; 2] = [Program::Kubelet, Program::Containerd];

/// How long a daemon may take to answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long after one question the next is asked.
const INTERVAL: Duration = Duration::from_secs(30);

/// How often in a row a daemon may give no answer.
const MAX_FAILURES: u32 = 3;

/// How long a daemon has been running before it has to answer.
const START_TIME: Duration = Duration::from_secs(120);

/// The health of the daemons.
#[derive(Debug, Default)]
pub struct Health {
    /// When to ask next, since boot.
    due: Duration,
    /// Whether a child is asking.
    is_asking: bool,
    /// Of each of [`DAEMONS`], how often in a row it has not answered.
    failures: [u32; DAEMONS.len()],
}

impl Health {
    /// When to ask next, since boot; none while a child is asking.
    pub fn deadline(&self) -> Option<Duration> {
        (!self.is_asking).then_some(self.due)
    }

    /// Whether a child is to ask now. If so, the next question comes after the interval.
    pub fn is_due(&mut self, now: Duration) -> bool {
        if self.is_asking || now < self.due {
            return false;
        }
        self.due = now + INTERVAL;
        true
    }

    /// A child is asking.
    pub fn on_asking(&mut self) {
        self.is_asking = true;
    }

    /// The child has ended with this report. `running` says how long a daemon has been running,
    /// if it runs. Returns the daemons that have to be ended, each with the sentence that says
    /// why.
    pub fn on_report(
        &mut self,
        report: &str,
        running: impl Fn(Program) -> Option<Duration>,
    ) -> Vec<(Program, String)> {
        self.is_asking = false;
        let mut hung = Vec::new();
        for (daemon, failures) in DAEMONS.into_iter().zip(&mut self.failures) {
            let name = daemon.name();
            let must_answer = running(daemon).is_some_and(|time| time > START_TIME);
            match silence(report, name).filter(|_| must_answer) {
                None => *failures = 0,
                Some(_) if *failures + 1 < MAX_FAILURES => *failures += 1,
                Some(why) => {
                    *failures = 0;
                    let text = format!(
                        "{name} has given no answer {MAX_FAILURES} times in a row and is ended: \
                         {why}"
                    );
                    hung.push((daemon, text));
                }
            }
        }
        hung
    }
}

/// Why a daemon gave no answer, according to the report; none if the report does not name it.
fn silence<'a>(report: &'a str, name: &str) -> Option<&'a str> {
    report.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::process::KILL_AFTER;
    use crate::processes::program::HEALTH_TIMEOUT;

    const SILENT: &str = "kubelet: connect: connection refused\n";

    fn long(_: Program) -> Option<Duration> {
        Some(START_TIME + Duration::from_secs(1))
    }

    #[test]
    fn only_a_daemon_named_in_the_report_was_silent() {
        assert_eq!(silence(SILENT, "kubelet"), Some("connect: connection refused"));
        assert_eq!(silence(SILENT, "containerd"), None);
        assert_eq!(silence("", "kubelet"), None);
    }

    #[test]
    fn a_daemon_is_ended_after_three_silences_in_a_row() {
        let mut health = Health::default();
        assert!(health.on_report(SILENT, long).is_empty());
        assert!(health.on_report(SILENT, long).is_empty());
        assert!(health.on_report("", long).is_empty(), "it has answered in between");
        assert!(health.on_report(SILENT, long).is_empty());
        assert!(health.on_report(SILENT, long).is_empty());
        let hung = health.on_report(SILENT, long);
        assert_eq!(hung.len(), 1);
        assert_eq!(hung[0].0, Program::Kubelet);
        assert!(hung[0].1.starts_with("kubelet has given no answer 3 times in a row"));
        assert!(health.on_report(SILENT, long).is_empty(), "the count starts again");
    }

    #[test]
    fn a_daemon_that_has_just_started_or_does_not_run_need_not_answer() {
        let mut health = Health::default();
        for running in [None, Some(START_TIME)] {
            for _ in 0..2 * MAX_FAILURES {
                assert!(health.on_report(SILENT, |_| running).is_empty());
            }
        }
    }

    #[test]
    fn the_next_question_waits_for_the_interval_and_for_the_child() {
        let mut health = Health::default();
        assert!(health.is_due(Duration::ZERO) && !health.is_due(Duration::from_secs(29)));
        health.on_asking();
        assert_eq!(health.deadline(), None);
        assert!(!health.is_due(INTERVAL));
        health.on_report("", long);
        assert!(health.deadline() == Some(INTERVAL) && health.is_due(INTERVAL));
    }

    #[test]
    fn a_daemon_is_replaced_within_the_time_that_the_readme_gives() {
        let longest = INTERVAL * MAX_FAILURES + HEALTH_TIMEOUT + KILL_AFTER;
        assert!(longest <= Duration::from_secs(180), "{longest:?}");
        assert!(include_str!("../../README.md").contains("within three minutes"));
        assert!(ANSWER_TIMEOUT * 2 < HEALTH_TIMEOUT);
    }
}
