//! When the cluster is shown the problems of the node, until when the node's certificate from it is
//! valid, and its answer: whether it has the node as Ready. A short-lived child, `init
//! node-condition`, asks it.
//!
//! It is pure: problems and the child's report in, deadlines out.

use std::time::Duration;

use super::{Kind, Problem};

/// How long after one question the next is asked. A kubelet renews its lease every 10 s.
const INTERVAL: Duration = Duration::from_secs(60);
/// The child's line about a node that is Ready, and the start of the one about any other.
const READY: &str = "Ready";
const NOT_READY: &str = "not Ready: ";
/// The start of its line about the node's certificate.
const CERTIFICATE: &str = "certificate ";

/// The questions and the last answer.
#[derive(Debug, Default)]
pub struct ClusterReport {
    /// When to ask next, since boot.
    next: Duration,
    /// Whether a child is asking.
    is_asking: bool,
    /// The kinds of the problems that the cluster was shown last.
    shown: Vec<Kind>,
    /// Until when the node's certificate is valid, in seconds since 1970.
    certificate_until: Option<u64>,
    /// Whether the cluster has had the node as Ready since the node joined it in this boot.
    was_ready: bool,
    /// Why the cluster does not have the node as Ready, if that is its last answer.
    not_ready: Option<String>,
    /// Why it could not be shown the problems. Empty if it was.
    failure: String,
}

impl ClusterReport {
    /// When to ask next, since boot; none while a child is asking.
    pub fn deadline(&self) -> Option<Duration> {
        (!self.is_asking).then_some(self.next)
    }

    /// The node has these problems now. Others than before are shown at once.
    pub fn on_problems(&mut self, problems: &[Problem], now: Duration) {
        if kinds(problems) != self.shown {
            self.next = now;
        }
    }

    /// A child is asking, and shows these problems. Returns its arguments: whether the cluster has
    /// the node as Ready is its own knowledge.
    pub fn on_asking(&mut self, problems: &[Problem], now: Duration) -> Vec<String> {
        self.is_asking = true;
        self.shown = kinds(problems);
        self.next = now + INTERVAL;
        own(problems).map(|problem| problem.for_clients().line()).collect()
    }

    /// Another child has found that the cluster has the node as Ready: an earlier answer does not
    /// count any more, and the node's object can be written to.
    pub fn on_ready(&mut self, now: Duration) {
        self.was_ready = true;
        self.not_ready = None;
        self.next = now;
    }

    /// The node has left its cluster.
    pub fn on_left(&mut self) {
        (self.was_ready, self.not_ready, self.certificate_until) = (false, None, None);
    }

    /// Whether the cluster has had the node as Ready since the node joined it in this boot.
    pub fn was_ready(&self) -> bool {
        self.was_ready
    }

    /// The child has ended with this report. Returns the failure that the console has to show, if
    /// it is another one than before.
    pub fn on_report(&mut self, report: &str) -> Option<String> {
        self.is_asking = false;
        let (certificate, others): (Vec<&str>, Vec<&str>) =
            report.lines().partition(|line| line.starts_with(CERTIFICATE));
        let (about_node, rest): (Vec<&str>, Vec<&str>) =
            others.into_iter().partition(|line| *line == READY || line.starts_with(NOT_READY));
        if let Some(line) = about_node.first() {
            self.not_ready = line.strip_prefix(NOT_READY).map(str::to_owned);
            let seconds = certificate.first().and_then(|line| line.strip_prefix(CERTIFICATE));
            self.certificate_until = seconds.and_then(|seconds| seconds.parse().ok());
        }
        let failure = rest.join("; ");
        let is_new = !failure.is_empty() && failure != self.failure;
        self.failure = failure;
        is_new.then(|| self.failure.clone())
    }

    /// Until when the node's certificate is valid, in seconds since 1970, as far as it was read.
    pub fn certificate_until(&self) -> Option<u64> {
        self.certificate_until
    }

    /// Why the cluster does not have the node as Ready, as far as it was asked.
    pub fn not_ready(&self) -> Option<&str> {
        self.not_ready.as_deref()
    }
}

/// The problems that the cluster does not know by itself.
fn own(problems: &[Problem]) -> impl Iterator<Item = &Problem> {
    problems.iter().filter(|problem| problem.kind != Kind::Cluster)
}

fn kinds(problems: &[Problem]) -> Vec<Kind> {
    own(problems).map(|problem| problem.kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: Kind) -> Problem {
        Problem { kind, text: "a text".to_owned() }
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn other_problems_are_shown_at_once_and_the_same_ones_with_the_interval() {
        let mut report = ClusterReport::default();
        let problems = [problem(Kind::Gateway), problem(Kind::Cluster)];
        assert_eq!(report.on_asking(&problems, at(100)), ["gateway a text"]);
        assert_eq!(report.deadline(), None);
        report.on_problems(&[], at(105));
        assert_eq!(report.on_report("Ready\n"), None);
        assert_eq!(report.deadline(), Some(at(105)));
        report.on_asking(&[], at(105));
        report.on_report("Ready\n");
        report.on_problems(&[problem(Kind::Cluster)], at(115));
        assert_eq!(report.deadline(), Some(at(165)));
    }

    #[test]
    fn a_node_that_was_ready_may_not_be_any_more() {
        let mut report = ClusterReport::default();
        report.on_report("not Ready: no CNI\n");
        assert_eq!(report.not_ready(), Some("no CNI"));
        // The child was killed.
        report.on_report("");
        assert_eq!(report.not_ready(), Some("no CNI"));
        report.on_report("Ready\n");
        assert_eq!(report.not_ready(), None);
    }

    #[test]
    fn the_end_of_the_certificate_stays_until_the_next_report() {
        let mut report = ClusterReport::default();
        assert_eq!(report.on_report("certificate 1790000000\nReady\n"), None);
        assert_eq!(report.certificate_until(), Some(1_790_000_000));
        // The child was killed.
        report.on_report("");
        assert_eq!(report.certificate_until(), Some(1_790_000_000));
        report.on_report("not Ready: the kubelet has no certificate yet\n");
        assert_eq!(report.certificate_until(), None);
    }

    #[test]
    fn an_answer_from_before_the_node_was_ready_is_no_problem_after_that() {
        let mut report = ClusterReport::default();
        report.on_asking(&[], at(100));
        report.on_report("not Ready: the kubelet has no kubeconfig yet\n");
        report.on_ready(at(110));
        assert_eq!((report.not_ready(), report.deadline()), (None, Some(at(110))));
        assert!(report.was_ready());
        report.on_report("not Ready: no CNI\n");
        assert!(report.was_ready(), "it is not any more");
        report.on_left();
        assert_eq!((report.was_ready(), report.not_ready()), (false, None));
    }

    #[test]
    fn a_failure_is_shown_once() {
        let mut report = ClusterReport::default();
        assert_eq!(report.on_report("Ready\nrefused\n").as_deref(), Some("refused"));
        assert_eq!(report.on_report("Ready\nrefused\n"), None);
        assert_eq!(report.on_report("Ready\n"), None);
        assert_eq!(report.on_report("Ready\nrefused\n").as_deref(), Some("refused"));
    }
}
