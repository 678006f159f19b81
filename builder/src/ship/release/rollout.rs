//! Decides which nodes get a channel's release, and when.

use crate::plan::Date;
use jiff::Timestamp;
use osbuild_release::Document;
use osbuild_rollout::{Rollout, Schedule};

/// The change that the publisher wants for the rollout of a release.
#[derive(Clone, Debug)]
pub enum RolloutChange {
    /// The rollout that the release has in the channel already.
    Keep,
    /// All nodes get it now.
    ToAll,
    /// Nodes get it by this schedule.
    Follow(Schedule),
    /// No further node gets it.
    Stop,
}

impl RolloutChange {
    /// The document with its rollout. `current` is the document that the channel has.
    ///
    /// A rollout begins at the start of the day, so that two releases of a day are identical and
    /// offline signatures stay valid. One that goes on keeps its time, so that its waves do not
    /// begin again, and one that was stopped begins again, so that its waves do not begin all at
    /// once.
    pub fn apply(
        &self,
        mut release: Document,
        current: Option<&Document>,
        today: Date,
    ) -> Document {
        let same = current.filter(|current| current.version == release.version);
        let before = same.and_then(|current| current.rollout.clone());
        let order = order(&release, current);
        let going = before.as_ref().filter(|before| !before.is_stopped()).map(Rollout::begins);
        let begin = going.unwrap_or_else(|| today.start());
        release.rollout = match self {
            RolloutChange::Keep => before,
            RolloutChange::ToAll => None,
            RolloutChange::Follow(schedule) => {
                let begins = schedule.begins.unwrap_or(begin);
                Some(Rollout::new(schedule.clone(), &order, begins))
            }
            RolloutChange::Stop => {
                let running =
                    before.unwrap_or_else(|| Rollout::new(Schedule::default(), &order, begin));
                Some(running.stop())
            }
        };
        release
    }
}

/// The order of the nodes. Each version has another one, so that not always the same nodes go
/// first. A version that replaces a stopped one keeps its order: nodes that have the bad release
/// get the good one first.
fn order(release: &Document, current: Option<&Document>) -> String {
    let kept = current.and_then(|current| {
        let is_same = current.version == release.version;
        current.rollout.as_ref().filter(|rollout| is_same || rollout.is_stopped())
    });
    kept.map_or(&release.version[..], Rollout::order).to_owned()
}

impl Date {
    /// Its first second.
    fn start(self) -> Timestamp {
        format!("{self}T00:00:00Z").parse().unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_release::{Architecture, File, Sha256, target};

    fn release(version: &str) -> Document {
        let file = File { length: 1, sha256: Sha256([0; 32]) };
        let files = [target::NODE, target::BOOT].map(|name| (name.to_owned(), file)).into();
        Document::new("small", version, Architecture::Amd64, 0, "2026-11-21", files).unwrap()
    }

    fn applied(change: &RolloutChange, version: &str, current: &Document, day: &str) -> Document {
        change.apply(release(version), Some(current), day.parse().unwrap())
    }

    /// A release by this schedule on a Saturday.
    fn rolled_out(schedule: &str) -> (RolloutChange, Document) {
        let change = RolloutChange::Follow(toml::from_str(schedule).unwrap());
        let document = change.apply(release("2"), None, "2026-11-21".parse().unwrap());
        (change, document)
    }

    fn begins(document: &Document) -> String {
        document.rollout.as_ref().unwrap().begins().to_string()
    }

    fn order_of(document: &Document) -> &str {
        document.rollout.as_ref().unwrap().order()
    }

    #[test]
    fn a_rollout_begins_with_the_day_and_a_change_keeps_its_time() {
        let (change, first) = rolled_out("waves = [{ nodes = '1%' }]");
        assert_eq!(begins(&first), "2026-11-21T00:00:00Z");
        assert_eq!(begins(&applied(&change, "2", &first, "2026-11-25")), "2026-11-21T00:00:00Z");
        let (_, named) = rolled_out("begins = '2026-12-01T08:00:00Z'");
        assert_eq!(begins(&named), "2026-12-01T08:00:00Z");
    }

    #[test]
    fn a_stopped_release_that_goes_on_begins_again() {
        let (change, first) = rolled_out("waves = [{ nodes = '1%' }]");
        let stopped = applied(&RolloutChange::Stop, "2", &first, "2026-11-22");
        assert_eq!(stopped.rollout, first.rollout.map(Rollout::stop));
        let again = applied(&change, "2", &stopped, "2026-11-25");
        assert_eq!(begins(&again), "2026-11-25T00:00:00Z");
        assert!(!again.rollout.unwrap().is_stopped());
    }

    #[test]
    fn a_release_for_all_nodes_can_be_stopped() {
        let stopped = applied(&RolloutChange::Stop, "2", &release("2"), "2026-11-22");
        assert!(stopped.rollout.unwrap().is_stopped());
    }

    #[test]
    fn a_renewal_keeps_the_rollout_and_another_version_does_not() {
        let (_, first) = rolled_out("waves = [{ nodes = '1%' }]");
        let stopped = applied(&RolloutChange::Stop, "2", &first, "2026-11-22");
        for current in [first, stopped] {
            assert_eq!(applied(&RolloutChange::Keep, "2", &current, "2026-12-01"), current);
            assert_eq!(applied(&RolloutChange::Keep, "3", &current, "2026-12-01"), release("3"));
            assert_eq!(applied(&RolloutChange::ToAll, "2", &current, "2026-12-01"), release("2"));
        }
    }

    #[test]
    fn the_version_after_a_stopped_one_keeps_its_order() {
        let (change, two) = rolled_out("waves = [{ nodes = '1%' }]");
        assert_eq!(order_of(&two), "2");
        assert_eq!(order_of(&applied(&change, "3", &two, "2026-11-25")), "3");
        let stopped = applied(&RolloutChange::Stop, "2", &two, "2026-11-22");
        let three = applied(&change, "3", &stopped, "2026-11-25");
        // A change of its own does not give it another one.
        let changed = applied(&change, "3", &three, "2026-11-26");
        assert_eq!([order_of(&three), order_of(&changed)], ["2", "2"]);
        assert_eq!(order_of(&applied(&change, "4", &changed, "2026-11-27")), "4");
    }
}
