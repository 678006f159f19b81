//! The goals of a slot on trial, besides its gate. If the slot before it had an address in its last
//! boot, or was Ready in a cluster that the node has not left since, the slot on trial needs the
//! same: a release that loses the network or the cluster is not a good one. But either may fail by
//! itself: when the older slot, back again, does not get there within the same time either, the
//! release is not at fault, and is tried once more.
//!
//! It is pure: events in, actions out.

use std::collections::BTreeSet;
use std::time::Duration;

use osbuild_failure::{Explain, Outcome};
use osbuild_slots::other;

use super::boot_source::TrialFacts;
use super::content::Held;
use crate::data;

/// The file on DATA.
const FILE: &str = "slots-reached";
/// The maximum length of that file in bytes; a record is shorter.
const MAX_LENGTH: u64 = 4096;
/// The first line of the file. A file that begins otherwise is of another release and says nothing.
const FORMAT: &str = "format 1";

/// A goal that a slot can reach. A node reaches them in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Goal {
    /// An address.
    Address,
    /// To be Ready in its cluster.
    Cluster,
}

impl Goal {
    #[cfg(test)]
    const ALL: [Goal; 2] = [Goal::Address, Goal::Cluster];

    /// The key of a line for a slot that reached it, and for one that was given up without it. A
    /// release that knows only the first goal ignores the lines of the second.
    fn keys(self) -> (&'static str, &'static str) {
        match self {
            Goal::Address => ("address", "lost"),
            Goal::Cluster => ("cluster", "lost-cluster"),
        }
    }

    fn waits(self) -> &'static str {
        match self {
            Goal::Address => "waits for an address, which the slot before this one had",
            Goal::Cluster => "waits to be Ready in its cluster, as the slot before this one was",
        }
    }

    fn missed(self, is_outage: bool) -> &'static str {
        match (self, is_outage) {
            (Goal::Address, true) => "got no address either: the other slot may be tried again",
            (Goal::Address, false) => "got no address either, for the second time",
            (Goal::Cluster, true) => {
                "is not Ready in its cluster either: the other slot may be tried again"
            }
            (Goal::Cluster, false) => "is not Ready in its cluster either, for the second time",
        }
    }
}

/// The record of the goals of both slots, on DATA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Record {
    /// The goals that each slot reached in its last boot, without the cluster if the slot was good
    /// and the node has left it.
    reached: BTreeSet<(Goal, String)>,
    /// The release that was given up, and the goal that it missed, until the older slot has shown
    /// whether the release was at fault.
    lost: Option<(Goal, Held)>,
    /// The release that was given up although the older slot did not reach the goal either.
    outage: Option<Held>,
    /// The release that is tried once more after that. A node on which both slots are slow would
    /// reboot without end otherwise.
    retried: Option<Held>,
}

/// The goals in this boot, as PID 1 keeps them in memory, and the record.
#[derive(Debug, Default)]
pub struct Reach {
    /// The slot that runs, if it is known. Nothing is recorded otherwise.
    slot: Option<&'static str>,
    on_trial: bool,
    /// The release in that slot, if it holds one.
    own: Option<Held>,
    record: Record,
    /// The goals that the node has reached in this boot.
    reached: BTreeSet<Goal>,
    /// The goals that the slot that runs has to reach, if it is on trial.
    needs: BTreeSet<Goal>,
    /// The goal that is still missing, once the gate has held.
    waits: Option<Goal>,
    /// The goal that the other slot did not reach, and until when the slot that runs may reach it,
    /// since boot.
    compares: Option<(Goal, Duration)>,
}

/// An action that the policy asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Write this text to the [file](FILE).
    Keep(String),
    /// Say this on the console.
    Say(&'static str),
    /// Have the gate hold once more: with the network as well.
    HoldAgain,
}

impl Record {
    fn parse(text: &str) -> Self {
        let mut record = Record::default();
        let mut lines = text.lines();
        if lines.next() != Some(FORMAT) {
            return record;
        }
        for line in lines {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["address", slot] => record.insert(Goal::Address, slot),
                ["cluster", slot] => record.insert(Goal::Cluster, slot),
                ["lost", slot, sha256] => {
                    record.lost = Some((Goal::Address, Held::new(slot, sha256)));
                }
                ["lost-cluster", slot, sha256] => {
                    record.lost = Some((Goal::Cluster, Held::new(slot, sha256)));
                }
                ["outage", slot, sha256] => record.outage = Some(Held::new(slot, sha256)),
                ["retried", slot, sha256] => record.retried = Some(Held::new(slot, sha256)),
                _ => {}
            }
        }
        record
    }

    fn to_text(&self) -> String {
        let reached = self.reached.iter().map(|(goal, slot)| format!("{} {slot}\n", goal.keys().0));
        let lost = self.lost.iter().map(|(goal, held)| (goal.keys().1, held));
        let held = lost.chain(self.outage.iter().map(|held| ("outage", held)));
        let held = held.chain(self.retried.iter().map(|held| ("retried", held)));
        let held = held.map(|(key, Held { slot, sha256 })| format!("{key} {slot} {sha256}\n"));
        [format!("{FORMAT}\n")].into_iter().chain(reached).chain(held).collect()
    }

    fn insert(&mut self, goal: Goal, slot: &str) {
        self.reached.insert((goal, slot.to_owned()));
    }

    /// A slot begins to run; `others` is the release in the other slot. Returns the goals that the
    /// slot has to reach, and the goal with which it shows whether the other release was at fault.
    fn begin(
        &mut self,
        name: &str,
        on_trial: bool,
        others: Option<&Held>,
    ) -> (BTreeSet<Goal>, Option<Goal>) {
        self.reached.retain(|(_, slot)| slot != name);
        if on_trial {
            let before = self.reached.iter().filter(|(_, slot)| slot == other(name));
            return (before.map(|(goal, _)| *goal).collect(), None);
        }
        // The other slot may hold another release by now.
        self.lost = self.lost.take().filter(|(_, lost)| Some(lost) == others);
        self.outage = self.outage.take().filter(|outage| Some(outage) == others);
        self.retried = self.retried.take().filter(|retried| Some(retried) == others);
        (BTreeSet::new(), self.lost.as_ref().map(|(goal, _)| *goal))
    }

    /// The good slot that runs has reached a goal. If the other slot was given up without it, that
    /// was the release's fault.
    fn reach(&mut self, name: &str, goal: Goal) {
        self.insert(goal, name);
        self.lost = self.lost.take().filter(|(lost, _)| *lost != goal);
    }

    /// The good slot that runs has left its cluster.
    fn leave(&mut self, name: &str) {
        self.reached.remove(&(Goal::Cluster, name.to_owned()));
    }

    /// The good slot that runs did not get there in time either.
    fn miss(&mut self) {
        let lost = self.lost.take().map(|(_, held)| held);
        self.outage = lost.filter(|held| self.retried.as_ref() != Some(held));
    }
}

impl Reach {
    /// Begins with the slot that runs. `text` is the file's, and `deadline` is how long a slot may
    /// take to reach a goal, since boot.
    pub fn new(
        slot: Option<&'static str>,
        facts: TrialFacts,
        text: &str,
        deadline: Option<Duration>,
    ) -> (Self, Vec<Action>) {
        let TrialFacts { on_trial, own, others, .. } = facts;
        let record = Record::parse(text);
        let mut reach = Reach { slot, on_trial, own, record, ..Reach::default() };
        let Some(name) = slot else { return (reach, Vec::new()) };
        let mut begun = Default::default();
        let actions = reach.change(|record| begun = record.begin(name, on_trial, others.as_ref()));
        reach.needs = begun.0;
        reach.compares = begun.1.zip(deadline);
        (reach, actions)
    }

    /// The gate has held. Returns whether the slot on trial still has to reach something.
    pub fn on_held(&mut self) -> (bool, Vec<Action>) {
        let missing = self.needs.difference(&self.reached).next().copied();
        let before = std::mem::replace(&mut self.waits, missing);
        let say = missing.filter(|_| missing != before).map(|goal| Action::Say(goal.waits()));
        (missing.is_some(), say.into_iter().collect())
    }

    /// The node has reached a goal.
    pub fn on_reached(&mut self, goal: Goal) -> Vec<Action> {
        self.reached.insert(goal);
        let Some(name) = self.slot else { return Vec::new() };
        self.compares.take_if(|(compared, _)| *compared == goal);
        if !self.on_trial {
            return self.change(|record| record.reach(name, goal));
        }
        let waited = self.waits.take_if(|waits| *waits == goal);
        waited.map(|_| Action::HoldAgain).into_iter().collect()
    }

    /// The node has left its cluster, or joins none: no other slot has to be Ready there. A slot on
    /// trial still has to, unless it was before, as its release may have lost the credentials.
    pub fn on_left(&mut self) -> Vec<Action> {
        if self.reached.remove(&Goal::Cluster) {
            self.needs.remove(&Goal::Cluster);
        }
        match self.slot {
            Some(name) if !self.on_trial => self.change(|record| record.leave(name)),
            _ => Vec::new(),
        }
    }

    /// The slot that runs has become a good one.
    pub fn on_good(&mut self) -> Vec<Action> {
        self.on_trial = false;
        let Some(name) = self.slot else { return Vec::new() };
        let reached = self.reached.clone();
        self.change(|record| reached.into_iter().for_each(|goal| record.reach(name, goal)))
    }

    /// The slot on trial goes back.
    pub fn on_going_back(&mut self) -> Vec<Action> {
        match (self.slot, self.waits) {
            (Some(_), Some(goal)) => {
                let own = self.own.clone();
                self.change(|record| record.lost = own.map(|held| (goal, held)))
            }
            _ => Vec::new(),
        }
    }

    /// The other slot is written anew.
    pub fn on_update(&mut self) -> Vec<Action> {
        self.change(|record| {
            (record.lost, record.outage, record.retried) = (None, None, None);
        })
    }

    /// The other slot is tried, perhaps once more.
    pub fn on_try(&mut self) -> Vec<Action> {
        self.change(|record| {
            record.retried = record.outage.take().or(record.retried.take());
            record.lost = None;
        })
    }

    /// The time is `now`, since boot. If the slot to which the node has come back did not reach in
    /// time what the other one lacked, the network or the cluster has failed and not the release.
    pub fn on_deadline(&mut self, now: Duration) -> Vec<Action> {
        let Some((goal, _)) = self.compares.take_if(|(_, deadline)| *deadline <= now) else {
            return Vec::new();
        };
        let mut actions = self.change(Record::miss);
        let missed = goal.missed(self.record.outage.is_some());
        actions.push(Action::Say(missed));
        actions
    }

    /// When [`Reach::on_deadline`] has something to do, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.compares.map(|(_, deadline)| deadline)
    }

    /// Whether the release in the other slot was given up without a goal, and this one did not
    /// reach it either.
    pub fn is_outage(&self, held: &Held) -> bool {
        self.record.outage.as_ref() == Some(held)
    }

    /// Changes the record, and has it kept if it differs.
    fn change(&mut self, change: impl FnOnce(&mut Record)) -> Vec<Action> {
        let before = self.record.clone();
        change(&mut self.record);
        let differs = self.record != before;
        differs.then(|| Action::Keep(self.record.to_text())).into_iter().collect()
    }
}

/// The text of the file; empty if there is none.
pub fn read() -> String {
    let text = data::folder::open().and_then(|data| {
        data.read_text(FILE, MAX_LENGTH).explain(format_args!("read {FILE} on DATA"))
    });
    text.ok().flatten().unwrap_or_default()
}

/// Writes the file.
pub fn keep(text: &str) -> Outcome {
    data::folder::open()?
        .replace(FILE, text.as_bytes(), 0o644)
        .explain(format_args!("write {FILE} on DATA"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_abi::disk::{SLOT_A, SLOT_B};

    const DEADLINE: Duration = Duration::from_secs(600);

    fn release() -> Held {
        Held::new(SLOT_B, "4e02fc8e70db")
    }

    /// SLOT-B is on trial and holds the release.
    fn on_trial() -> TrialFacts {
        TrialFacts { on_trial: true, has_other: true, own: Some(release()), others: None }
    }

    /// SLOT-A is good, and SLOT-B holds the release.
    fn back_again() -> TrialFacts {
        TrialFacts { on_trial: false, has_other: true, own: None, others: Some(release()) }
    }

    fn only(goal: Goal) -> (BTreeSet<Goal>, Option<Goal>) {
        (BTreeSet::from([goal]), None)
    }

    fn nothing() -> (BTreeSet<Goal>, Option<Goal>) {
        (BTreeSet::new(), None)
    }

    /// SLOT-A had reached the goal when SLOT-B was written.
    fn before(goal: Goal) -> Record {
        let mut record = Record::default();
        record.reach(SLOT_A, goal);
        record
    }

    /// SLOT-B was given up without the goal.
    fn lost(goal: Goal) -> Record {
        let mut record = before(goal);
        assert_eq!(record.begin(SLOT_B, true, None), only(goal));
        record.lost = Some((goal, release()));
        record
    }

    fn kept(record: &Record) -> Action {
        Action::Keep(record.to_text())
    }

    #[test]
    fn a_release_needs_what_the_slot_before_it_had_reached() {
        for goal in Goal::ALL {
            assert_eq!(before(goal).begin(SLOT_B, true, None), only(goal));
        }
        let mut both = before(Goal::Address);
        both.reach(SLOT_A, Goal::Cluster);
        assert_eq!(both.begin(SLOT_B, true, None), (Goal::ALL.into(), None));
        assert_eq!(Record::default().begin(SLOT_B, true, None), nothing());
    }

    #[test]
    fn a_slot_that_has_left_its_cluster_asks_it_of_no_other() {
        let (mut reach, _) = Reach::new(Some(SLOT_A), back_again(), "", Some(DEADLINE));
        assert_eq!(reach.on_left(), [], "it has not been in one");
        reach.on_reached(Goal::Address);
        reach.on_reached(Goal::Cluster);
        assert_eq!(reach.record.clone().begin(SLOT_B, true, None), (Goal::ALL.into(), None));
        assert_eq!(reach.on_left(), [kept(&before(Goal::Address))]);
        assert_eq!(reach.record.clone().begin(SLOT_B, true, None), only(Goal::Address));
        assert_eq!(reach.on_left(), []);
        reach.on_reached(Goal::Cluster);
        assert_eq!(reach.record.begin(SLOT_B, true, None), (Goal::ALL.into(), None));
    }

    #[test]
    fn a_slot_on_trial_has_to_be_ready_in_the_cluster_before_it_leaves() {
        let text = before(Goal::Cluster).to_text();
        for was_ready in [true, false] {
            let (mut reach, _) = Reach::new(Some(SLOT_B), on_trial(), &text, Some(DEADLINE));
            if was_ready {
                reach.on_reached(Goal::Cluster);
            }
            assert_eq!(reach.on_left(), []);
            assert_eq!(reach.on_held().0, !was_ready);
            assert_eq!(reach.on_good(), [], "its own record does not have the cluster");
        }
    }

    #[test]
    fn the_last_boot_of_the_slot_before_counts() {
        for goal in Goal::ALL {
            let mut record = before(goal);
            // It boots once more, and does not reach the goal.
            assert_eq!(record.begin(SLOT_A, false, None), nothing());
            assert_eq!(record.begin(SLOT_B, true, None), nothing());
        }
    }

    #[test]
    fn a_release_is_at_fault_if_the_older_slot_reaches_what_it_lacked() {
        for goal in Goal::ALL {
            let mut record = lost(goal);
            let begun = record.begin(SLOT_A, false, Some(&release()));
            assert_eq!(begun, (BTreeSet::new(), Some(goal)));
            record.reach(SLOT_A, goal);
            assert_eq!((record.lost, record.outage), (None, None));
        }
    }

    #[test]
    fn an_address_alone_does_not_show_that_the_cluster_is_there() {
        let text = lost(Goal::Cluster).to_text();
        let (mut reach, _) = Reach::new(Some(SLOT_A), back_again(), &text, Some(DEADLINE));
        reach.on_reached(Goal::Address);
        assert_eq!(reach.deadline(), Some(DEADLINE));
        reach.on_deadline(DEADLINE);
        assert!(reach.is_outage(&release()));
    }

    #[test]
    fn a_release_is_not_at_fault_if_the_older_slot_does_not_get_there_either() {
        for goal in Goal::ALL {
            let mut record = lost(goal);
            record.begin(SLOT_A, false, Some(&release()));
            record.miss();
            assert_eq!((&record.lost, &record.outage), (&None, &Some(release())));
            // It may be tried again at any later boot, until the slot holds something else.
            assert_eq!(record.begin(SLOT_A, false, Some(&release())), nothing());
            assert_eq!(record.outage, Some(release()));
            record.begin(SLOT_A, false, Some(&Held::new(SLOT_B, "000000000000")));
            assert_eq!(record.outage, None);
        }
    }

    #[test]
    fn a_record_reads_back_and_one_of_another_format_is_ignored() {
        for goal in Goal::ALL {
            let mut record = lost(goal);
            (record.outage, record.retried) = (Some(release()), Some(release()));
            assert_eq!(Record::parse(&record.to_text()), record);
        }
        for other in ["", "format 2\naddress SLOT-A\n", "address SLOT-A\n"] {
            assert_eq!(Record::parse(other), Record::default(), "{other}");
        }
        // Lines that a newer release adds to this format are ignored.
        let newer = "format 1\nready SLOT-A\naddress SLOT-A\n";
        assert_eq!(Record::parse(newer), before(Goal::Address));
    }

    #[test]
    fn a_release_waits_for_what_it_needs_and_then_holds_again() {
        for goal in Goal::ALL {
            let text = before(goal).to_text();
            let (mut reach, actions) = Reach::new(Some(SLOT_B), on_trial(), &text, Some(DEADLINE));
            assert_eq!((actions, reach.deadline()), (vec![], None));
            assert_eq!(reach.on_held(), (true, vec![Action::Say(goal.waits())]));
            assert_eq!(reach.on_held(), (true, vec![]), "it says so once");
            assert_eq!(reach.on_reached(goal), [Action::HoldAgain]);
            assert_eq!(reach.on_held(), (false, vec![]));
            let mut record = before(goal);
            record.reach(SLOT_B, goal);
            assert_eq!(reach.on_good(), [kept(&record)]);
        }
    }

    #[test]
    fn the_older_slot_keeps_the_outage_at_its_deadline() {
        for goal in Goal::ALL {
            let text = before(goal).to_text();
            let (mut reach, _) = Reach::new(Some(SLOT_B), on_trial(), &text, Some(DEADLINE));
            reach.on_held();
            let actions = reach.on_going_back();
            let [Action::Keep(text)] = &actions[..] else { panic!("{actions:?}") };
            let (mut reach, _) = Reach::new(Some(SLOT_A), back_again(), text, Some(DEADLINE));
            assert_eq!(reach.deadline(), Some(DEADLINE));
            assert!(reach.on_deadline(DEADLINE - Duration::from_secs(1)).is_empty());
            let actions = reach.on_deadline(DEADLINE);
            assert!(matches!(actions[..], [Action::Keep(_), Action::Say(_)]));
            assert!(reach.is_outage(&release()) && reach.on_deadline(DEADLINE).is_empty());
            assert!(matches!(reach.on_update()[..], [Action::Keep(_)]));
            assert!(!reach.is_outage(&release()));
        }
    }

    #[test]
    fn a_release_is_tried_once_more_after_an_outage_and_not_without_end() {
        let only_text = |actions: Vec<Action>| match &actions[..] {
            [Action::Keep(text)] => text.clone(),
            _ => panic!("{actions:?}"),
        };
        for goal in Goal::ALL {
            let mut record = lost(goal);
            record.begin(SLOT_A, false, Some(&release()));
            record.miss();
            let at =
                |slot, facts, text: &str| Reach::new(Some(slot), facts, text, Some(DEADLINE)).0;
            let mut older = at(SLOT_A, back_again(), &record.to_text());
            older.on_reached(goal);
            let text = only_text(older.on_try());
            let mut newer = at(SLOT_B, on_trial(), &text);
            newer.on_held();
            let mut older = at(SLOT_A, back_again(), &only_text(newer.on_going_back()));
            let actions = older.on_deadline(DEADLINE);
            assert!(actions.contains(&Action::Say(goal.missed(false))), "{actions:?}");
            assert!(!older.is_outage(&release()));
            let other = TrialFacts { others: Some(Held::new(SLOT_B, "00")), ..back_again() };
            let later = at(SLOT_A, other, &older.record.to_text());
            assert_eq!(later.record.retried, None, "another release is in the slot");
        }
    }

    #[test]
    fn an_unknown_slot_records_nothing() {
        let text = lost(Goal::Address).to_text();
        let (mut reach, actions) = Reach::new(None, on_trial(), &text, Some(DEADLINE));
        assert_eq!((actions, reach.on_held()), (vec![], (false, vec![])));
        assert!(reach.on_reached(Goal::Address).is_empty() && reach.on_good().is_empty());
        assert!(reach.on_going_back().is_empty());
    }
}
