//! The annotations of an update on the node's own Node: those that the node sets, and those that it
//! reads.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use osbuild_grants::MAX_SKEW_S;
use osbuild_grants::annotations::{
    FAILED, GRANTED, GRANTED_SINCE, REASON, RESULT, SINCE, SUCCEEDED, WAITS, WANTED,
};
use osbuild_protocol::{Contents, Release, SlotState, SlotStatus, Slots, SlotsStatus};

use crate::objects::Annotations;

/// After this time without a grant, the Node says why it waits.
const DEADLINE: Duration = Duration::from_secs(86_400);

/// The text of the annotation [`REASON`] after that time.
const UNANSWERED: &str =
    "no tool has set `osbuild.dev/reboot-granted` to this version within a day";

/// Annotations to set, or to remove.
pub type Changes = BTreeMap<&'static str, Option<String>>;

/// The annotations that belong to one request.
const OF_A_REQUEST: [&str; 6] = [WANTED, SINCE, REASON, GRANTED, GRANTED_SINCE, WAITS];

/// The version that a request may still be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered<'v> {
    /// Any: it is not known what the channel offers.
    Unknown,
    /// None: the node has nothing to do until the channel offers another release.
    Nothing,
    /// This one.
    Version(&'v str),
}

/// Whether the node may reboot into this version.
pub fn is_granted(found: &Annotations, version: &str) -> bool {
    let is = |key| found.get(key).is_some_and(|value| value == version);
    is(WANTED) && is(GRANTED)
}

/// Asks for a reboot into this version.
pub fn ask(found: &Annotations, version: &str, now: Timestamp) -> Changes {
    let mut changes = Changes::new();
    let since = found.get(SINCE).and_then(|since| since.parse::<Timestamp>().ok());
    match (found.get(WANTED), since) {
        // The clock was ahead: the request would be the newest one until then.
        (Some(wanted), Some(since)) if wanted == version && is_ahead(since, now) => {
            changes.insert(SINCE, Some(noted(now)));
        }
        (Some(wanted), Some(since)) if wanted == version => {
            let is_late = now.duration_since(since).unsigned_abs() > DEADLINE;
            if is_late && !is_granted(found, version) {
                changes.insert(REASON, Some(UNANSWERED.to_owned()));
            }
        }
        _ => {
            changes.extend(OF_A_REQUEST.map(|key| (key, None)));
            changes.insert(WANTED, Some(version.to_owned()));
            // A release that failed in an outage is tried once more.
            let is_tried = |result: &String| result.split(' ').next() == Some(version);
            if found.get(RESULT).is_some_and(is_tried) {
                changes.insert(RESULT, None);
            }
            changes.insert(SINCE, Some(noted(now)));
        }
    }
    only_new(changes, found)
}

/// Whether the time is later than clocks may differ.
fn is_ahead(since: Timestamp, now: Timestamp) -> bool {
    since.as_second() > now.as_second() + MAX_SKEW_S
}

/// The time as annotations have it: in whole seconds.
fn noted(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Returns the changes that end the request: with the result if the release was tried, and without
/// one if the channel no longer offers it.
pub fn settle(found: &Annotations, slots: &Slots, offered: Offered) -> Changes {
    let (Some(wanted), Slots::Known(slots)) = (found.get(WANTED), slots) else {
        return Changes::new();
    };
    let mut changes = Changes::from(OF_A_REQUEST.map(|key| (key, None)));
    let is_withdrawn = match offered {
        Offered::Unknown => false,
        Offered::Nothing => true,
        Offered::Version(version) => version != wanted,
    };
    match (tried(slots, wanted), is_withdrawn) {
        (Tried::Succeeded, _) => {
            changes.insert(RESULT, Some(format!("{wanted} {SUCCEEDED}")));
        }
        (Tried::Failed(slot), _) => {
            changes.insert(RESULT, Some(format!("{wanted} {FAILED}")));
            changes.insert(REASON, Some(format!("{wanted} in {slot} did not become good")));
        }
        (Tried::NotYet, true) => {}
        (Tried::NotYet, false) | (Tried::OnTrial, _) => return Changes::new(),
    }
    only_new(changes, found)
}

/// Whether the release of the request runs, or is booted next, and has no result yet.
pub fn is_on_trial(found: &Annotations, slots: &Slots) -> bool {
    let (Some(wanted), Slots::Known(slots)) = (found.get(WANTED), slots) else { return false };
    tried(slots, wanted) == Tried::OnTrial
}

/// How far the node is with a release.
#[derive(Debug, PartialEq, Eq)]
enum Tried<'s> {
    NotYet,
    OnTrial,
    Succeeded,
    /// In this slot.
    Failed(&'s str),
}

fn tried<'s>(slots: &'s SlotsStatus, version: &str) -> Tried<'s> {
    let is_it = |release: &Release| release.version == version;
    let holds = |slot: &&SlotStatus| matches!(&slot.contents, Contents::Release(it) if is_it(it));
    let running = Some(&slots.running).filter(holds);
    let other = slots.other.as_ref().filter(holds);
    match (running, other.map(|other| (other.state, other.name.as_str()))) {
        (Some(running), _) if running.state == SlotState::Good => Tried::Succeeded,
        (Some(_), _) => Tried::OnTrial,
        // The network failed, not the release.
        (None, Some((SlotState::OnTrial { tries_left: 0 }, _))) if slots.is_outage => Tried::NotYet,
        (None, Some((SlotState::OnTrial { tries_left: 0 }, name))) => Tried::Failed(name),
        (None, Some((SlotState::OnTrial { .. }, _))) => Tried::OnTrial,
        (None, _) => Tried::NotYet,
    }
}

/// The changes without those that change nothing.
fn only_new(mut changes: Changes, found: &Annotations) -> Changes {
    changes.retain(|key, value| found.get(*key) != value.as_ref());
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_protocol::StartReason;

    const DAY: &str = "2026-11-25T12:00:00Z";

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    fn annotations(pairs: &[(&str, &str)]) -> Annotations {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    /// The annotations after the changes.
    fn apply(changes: Changes, mut found: Annotations) -> Annotations {
        for (key, value) in changes {
            match value {
                Some(value) => drop(found.insert(key.to_owned(), value)),
                None => drop(found.remove(key)),
            }
        }
        found
    }

    fn slot(name: &str, version: &str, state: SlotState) -> SlotStatus {
        let release = Release { version: version.to_owned(), sha256: "ab".to_owned() };
        SlotStatus { name: name.to_owned(), contents: Contents::Release(release), state }
    }

    fn slots(running: (&str, SlotState), other: (&str, SlotState)) -> Slots {
        Slots::Known(SlotsStatus {
            why: String::new(),
            started: StartReason::Good,
            passed: None,
            running: slot("SLOT-A", running.0, running.1),
            other: Some(slot("SLOT-B", other.0, other.1)),
            is_outage: false,
        })
    }

    const GOOD: SlotState = SlotState::Good;

    fn on_trial(tries_left: u8) -> SlotState {
        SlotState::OnTrial { tries_left }
    }

    #[test]
    fn a_node_asks_once_and_waits_for_a_grant_of_its_version() {
        let found = apply(ask(&Annotations::new(), "2", at(DAY)), Annotations::new());
        assert_eq!(found, annotations(&[(WANTED, "2"), (SINCE, DAY)]));
        assert!(!is_granted(&found, "2"));
        assert_eq!(ask(&found, "2", at("2026-11-25T13:00:00Z")), Changes::new());
        let mut granted = found;
        granted.insert(GRANTED.to_owned(), "2".to_owned());
        assert!(is_granted(&granted, "2") && !is_granted(&granted, "3"));
        // The next release is another request.
        let next = apply(ask(&granted, "3", at(DAY)), granted);
        assert_eq!(next, annotations(&[(WANTED, "3"), (SINCE, DAY)]));
    }

    #[test]
    fn a_node_whose_clock_was_ahead_asks_as_of_now_once_it_is_right() {
        let found = apply(ask(&Annotations::new(), "2", at("2027-11-25T12:00:00Z")), [].into());
        let right = apply(ask(&found, "2", at(DAY)), found);
        assert_eq!((right[WANTED].as_str(), right[SINCE].as_str()), ("2", DAY));
        assert!(!right.contains_key(REASON));
        assert_eq!(ask(&right, "2", at(DAY)), Changes::new());
    }

    #[test]
    fn after_a_day_without_a_grant_the_node_says_why_it_waits() {
        let found = annotations(&[(WANTED, "2"), (SINCE, DAY)]);
        assert_eq!(ask(&found, "2", at("2026-11-26T12:00:00Z")), Changes::new());
        let late = apply(ask(&found, "2", at("2026-11-26T12:00:01Z")), found);
        assert_eq!(late[REASON], UNANSWERED);
        assert_eq!(ask(&late, "2", at("2026-11-27T12:00:01Z")), Changes::new());
    }

    #[test]
    fn a_release_that_became_good_or_did_not_is_a_result() {
        let granted = annotations(&[(WANTED, "2"), (SINCE, DAY), (GRANTED, "2"), (WAITS, "x")]);
        let after = |slots| apply(settle(&granted, &slots, Offered::Nothing), granted.clone());
        let succeeded = annotations(&[(RESULT, "2 succeeded")]);
        assert_eq!(after(slots(("2", GOOD), ("1", GOOD))), succeeded);
        let failed = after(slots(("1", GOOD), ("2", on_trial(0))));
        assert_eq!((failed[RESULT].as_str(), failed.get(GRANTED)), ("2 failed", None));
        assert!(failed[REASON].contains("SLOT-B did not become good"));
    }

    #[test]
    fn a_release_that_failed_in_an_outage_is_asked_for_again() {
        let granted = annotations(&[(WANTED, "2"), (SINCE, DAY), (GRANTED, "2")]);
        let Slots::Known(tried) = slots(("1", GOOD), ("2", on_trial(0))) else { unreachable!() };
        let outage = Slots::Known(SlotsStatus { is_outage: true, ..tried });
        let same = Offered::Version("2");
        assert_eq!(settle(&granted, &outage, same), Changes::new(), "the grant counts");
        let failed = annotations(&[(RESULT, "2 failed"), (REASON, "x")]);
        let again = apply(ask(&failed, "2", at(DAY)), failed.clone());
        assert_eq!(again, annotations(&[(WANTED, "2"), (SINCE, DAY)]));
        assert_eq!(apply(ask(&failed, "3", at(DAY)), failed)[RESULT], "2 failed");
    }

    #[test]
    fn a_release_on_trial_has_no_result_yet() {
        let granted = annotations(&[(WANTED, "2"), (GRANTED, "2")]);
        for slots in [
            slots(("2", on_trial(2)), ("1", GOOD)),
            slots(("1", GOOD), ("2", on_trial(3))),
            Slots::Unknown,
        ] {
            let settled = settle(&granted, &slots, Offered::Nothing);
            assert_eq!(settled, Changes::new(), "{slots:?}");
            assert_eq!(is_on_trial(&granted, &slots), slots != Slots::Unknown);
        }
        assert!(!is_on_trial(&granted, &slots(("2", GOOD), ("1", GOOD))));
        assert!(!is_on_trial(&Annotations::new(), &slots(("2", on_trial(2)), ("1", GOOD))));
    }

    #[test]
    fn a_request_for_a_release_that_was_withdrawn_is_too() {
        let asks = annotations(&[(WANTED, "2"), (SINCE, DAY)]);
        let waits = slots(("1", GOOD), ("2", SlotState::NotBootable));
        for offered in [Offered::Unknown, Offered::Version("2")] {
            assert_eq!(settle(&asks, &waits, offered), Changes::new());
        }
        for offered in [Offered::Nothing, Offered::Version("3")] {
            let after = apply(settle(&asks, &waits, offered), asks.clone());
            assert_eq!(after, Annotations::new());
            assert_eq!(settle(&Annotations::new(), &waits, offered), Changes::new());
        }
    }
}
