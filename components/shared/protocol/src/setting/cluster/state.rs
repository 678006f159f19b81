//! The node's own knowledge of itself in its cluster.

use crate::request::MAX_REASON;

const READY: &str = "ready";
const NOT_READY: &str = "not-ready";
const UNKNOWN: &str = "unknown";
/// The word for no certificate.
const NONE: &str = "none";

/// The state of a node that joins a cluster, or is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterState {
    /// Until when its certificate is valid, in seconds since 1970; none without a certificate from
    /// the authority of the cluster.
    pub certificate_until: Option<u64>,
    /// Whether the cluster has the node as Ready.
    pub readiness: Readiness,
}

/// The last answer of the cluster about the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// There was none yet.
    Unknown,
    /// The node is Ready.
    Ready,
    /// It is not, or the cluster does not answer: the reason.
    NotReady(String),
}

impl ClusterState {
    /// The words of a line, which [`Self::decode`] reads.
    pub(crate) fn encode(&self) -> String {
        let until = self.certificate_until.map_or(NONE.to_owned(), |until| until.to_string());
        let readiness = match &self.readiness {
            Readiness::Unknown => UNKNOWN.to_owned(),
            Readiness::Ready => READY.to_owned(),
            Readiness::NotReady(reason) => {
                let reason = reason.replace(char::is_control, " ");
                let reason: String = reason.chars().take(MAX_REASON).collect();
                format!("{NOT_READY} {reason}")
            }
        };
        format!("{until} {readiness}")
    }

    /// Reads the words. None if they are malformed.
    pub(crate) fn decode(words: &str) -> Option<Self> {
        let (until, readiness) = words.split_once(' ')?;
        let certificate_until = match until {
            NONE => None,
            seconds => Some(seconds.parse().ok()?),
        };
        let readiness = match readiness.split_once(' ').unwrap_or((readiness, "")) {
            (UNKNOWN, "") => Readiness::Unknown,
            (READY, "") => Readiness::Ready,
            (NOT_READY, reason) => Readiness::NotReady(reason.to_owned()),
            _ => return None,
        };
        Some(Self { certificate_until, readiness })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        for words in ["none unknown", "1790000000 ready", "7 not-ready ask 10.0.2.2: refused"] {
            assert_eq!(ClusterState::decode(words).unwrap().encode(), words);
        }
        for words in ["", "ready", "none", "-1 ready", "none ready now", "none away"] {
            assert_eq!(ClusterState::decode(words), None, "{words}");
        }
        let long = Readiness::NotReady(format!("a\n{}", "b".repeat(2 * MAX_REASON)));
        let line = ClusterState { certificate_until: None, readiness: long }.encode();
        assert!(line.len() < 2 * MAX_REASON && !line.contains('\n'), "{line}");
    }
}
