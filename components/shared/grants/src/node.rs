//! A node as the policy sees it.

use jiff::Timestamp;
use osbuild_rollout::place;

use crate::annotations::{
    DRAIN_FAILED, DRAINED, DRAINED_FOR, GRANTED, GRANTED_SINCE, RESULT, SINCE, SUCCEEDED, WAITS,
    WANTED,
};

/// How many seconds the clock of another machine may be ahead.
pub const MAX_SKEW_S: i64 = 3600;
/// A time before that of every drain, in seconds since 1970.
const OLD: i64 = 0;

/// A node of the cluster. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Where the node's name puts it in the order of updates: 0 to 9999.
    pub place: u16,
    /// Whether its kubelet reports it as Ready.
    pub is_ready: bool,
    /// Whether it takes no new pods.
    pub is_cordoned: bool,
    /// Whether it is one of the control plane, whose members need a majority of themselves.
    pub is_control_plane: bool,
    /// The reboot that it requests, if any.
    pub request: Option<Request>,
    /// Whether its request has no time that counts, so that it counts as of now in each round.
    pub is_undated: bool,
    /// The version into which it may reboot.
    pub granted: Option<String>,
    /// Since when it may. Another tool that grants reboots does not say.
    pub granted_since: Option<i64>,
    /// The version of the release that it tried last, and the outcome.
    pub result: Option<(String, Outcome)>,
    /// Since when it is drained. The tool has cordoned it then.
    pub drained_since: Option<i64>,
    /// The version of the release for which it is drained.
    pub drained_for: Option<String>,
    /// When it could not be drained.
    pub drain_failed: Option<i64>,
    /// Why it waits, as its Node says.
    pub waits: Option<String>,
    /// How many pods are still to be evicted. It counts only while the node is drained.
    pub pods_left: usize,
}

/// A node wants to reboot into a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The version.
    pub version: String,
    /// Since when, in seconds since 1970.
    pub since: i64,
}

/// The outcome of a release on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The node has become good with it.
    Succeeded,
    /// The node is back in its earlier release.
    Failed,
}

impl Node {
    /// Reads a node from its name and its annotations at the time `now`. Anybody who may change the
    /// Node may write a time that is malformed or far in the future. A request with such a time is
    /// the newest one until it has another, and a drain with such a time is an old one: it neither
    /// lasts for ever nor keeps the node from its update.
    pub fn parse<'a>(name: &str, now: i64, annotation: impl Fn(&str) -> Option<&'a str>) -> Self {
        let counts = |text: &str| seconds(text).filter(|time| *time <= now + MAX_SKEW_S);
        let time = |key: &str| annotation(key).map(|text| counts(text).unwrap_or(OLD));
        let since = annotation(SINCE).and_then(counts);
        let version = |key: &str| annotation(key).filter(|version| !version.is_empty());
        Node {
            place: place(name),
            request: version(WANTED).map(|version| Request {
                version: version.to_owned(),
                since: since.unwrap_or(now),
            }),
            is_undated: version(WANTED).is_some() && since.is_none(),
            granted: version(GRANTED).map(str::to_owned),
            granted_since: time(GRANTED_SINCE),
            result: annotation(RESULT).and_then(outcome),
            drained_since: time(DRAINED),
            drained_for: version(DRAINED_FOR).map(str::to_owned),
            drain_failed: time(DRAIN_FAILED),
            waits: annotation(WAITS).map(str::to_owned),
            ..Node::default()
        }
    }

    /// Whether it may reboot into the release that it wants.
    pub fn is_granted(&self) -> bool {
        let wanted = self.request.as_ref().map(|request| &request.version);
        wanted.is_some() && wanted == self.granted.as_ref()
    }

    /// Whether it was drained for another release than the one that it wants by now.
    pub fn is_drained_for_another(&self) -> bool {
        let wanted = self.request.as_ref().map(|request| &request.version);
        self.drained_for.as_ref().is_some_and(|version| wanted.is_some_and(|it| it != version))
    }
}

fn seconds(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_second)
}

fn outcome(text: &str) -> Option<(String, Outcome)> {
    let (version, word) = text.split_once(' ')?;
    let outcome = if word == SUCCEEDED { Outcome::Succeeded } else { Outcome::Failed };
    Some((version.to_owned(), outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(annotations: &[(&str, &'static str)]) -> Node {
        Node::parse("a", 7, |key| {
            annotations.iter().find(|(of, _)| *of == key).map(|(_, value)| *value)
        })
    }

    #[test]
    fn a_request_a_grant_and_a_result_are_read_from_annotations() {
        let asks = node(&[
            (WANTED, "1.0.1"),
            (SINCE, "1970-01-01T00:01:00Z"),
            (GRANTED, "1.0.1"),
            (RESULT, "1.0.0 succeeded"),
        ]);
        assert_eq!(asks.request, Some(Request { version: "1.0.1".to_owned(), since: 60 }));
        assert_eq!(asks.result, Some(("1.0.0".to_owned(), Outcome::Succeeded)));
        assert!(asks.is_granted() && !asks.is_undated);
    }

    #[test]
    fn a_grant_for_another_release_does_not_count() {
        assert!(!node(&[(WANTED, "1.0.2"), (GRANTED, "1.0.1")]).is_granted());
        assert!(!node(&[(GRANTED, "1.0.1")]).is_granted());
        assert!(!node(&[(WANTED, ""), (GRANTED, "")]).is_granted());
    }

    #[test]
    fn an_unreadable_time_neither_helps_a_node_nor_stops_it() {
        for wrong in ["yesterday", "", "9999-01-01T00:00:00Z"] {
            let asks = node(&[(WANTED, "1"), (SINCE, wrong), (DRAINED, wrong), (RESULT, "1 ?")]);
            assert!(asks.is_undated);
            assert_eq!((asks.request.unwrap().since, asks.drained_since), (7, Some(OLD)));
            assert_eq!(asks.result, Some(("1".to_owned(), Outcome::Failed)));
            assert_eq!(node(&[(DRAIN_FAILED, wrong)]).drain_failed, Some(OLD));
        }
        let ahead = node(&[(DRAINED, "1970-01-01T00:00:09Z")]);
        assert_eq!(ahead.drained_since, Some(9), "another clock may be two seconds ahead");
    }
}
