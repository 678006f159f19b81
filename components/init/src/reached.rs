//! What a slot on trial has to reach besides its gate. If the slot before it had an address in its
//! last boot, or was Ready in a cluster, the slot on trial needs the same: a release that loses the
//! network or the cluster is no good node. But either may fail by itself: when the older slot, back
//! again, does not get there within the same time either, the release is not at fault, and may be
//! tried again.

use std::collections::BTreeSet;
use std::time::Duration;

use osbuild_abi::cmdline::{GATE_DEADLINE, value};
use osbuild_failure::Explain;
use osbuild_slots::other;

use crate::node::Node;
use crate::uptime::uptime;
use crate::{data, slot, trial};

/// The file on DATA.
const FILE: &str = "slots-reached";
/// Bytes of the longest file that is read; a record has fewer.
const MAX_LENGTH: u64 = 4096;
/// The first line of the file. A file that begins otherwise is of another release and says nothing.
const FORMAT: &str = "format 1";

/// What a slot can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Goal {
    /// An address that is not only local.
    Address,
    /// To be Ready in its cluster.
    Cluster,
}

impl Goal {
    /// In the order in which a node reaches them.
    const ALL: [Goal; 2] = [Goal::Address, Goal::Cluster];

    /// The words in the file for a slot that has reached it, and for one that was given up for want
    /// of it. Releases that know the first goal alone pass over the lines of the second.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Goal::Address => ("address", "lost"),
            Goal::Cluster => ("cluster", "lost-cluster"),
        }
    }
}

/// What is known of the slots, on DATA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Record {
    /// What the slots reached in their last boot.
    reached: BTreeSet<(Goal, String)>,
    /// What was given up for want of a goal, until the older slot has shown whose fault that was.
    lost: Option<(Goal, Held)>,
    /// What was given up although the older slot did not reach the goal either.
    outage: Option<Held>,
}

/// A slot, and how the SHA-256 of what it held begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The slot's name.
    pub slot: String,
    /// Hexadecimal digits, as `status` shows them.
    pub sha256: String,
}

/// What PID 1 remembers of it in this boot.
#[derive(Default)]
pub struct Reach {
    record: Record,
    /// What the slot that runs, which is on trial, has to reach.
    needs: BTreeSet<Goal>,
    /// The goal that alone is missing, once the gate of the slot on trial has held.
    waits: Option<Goal>,
    /// The goal that the other slot did not reach, and until when the slot that runs may reach it,
    /// since boot.
    compared: Option<(Goal, Duration)>,
}

impl Record {
    fn parse(text: &str) -> Self {
        let mut record = Record::default();
        let mut lines = text.lines();
        if lines.next() != Some(FORMAT) {
            return record;
        }
        for line in lines {
            let words = line.split(' ').collect::<Vec<_>>();
            for goal in Goal::ALL {
                match (words[..].split_first(), goal.words()) {
                    (Some((word, [slot])), (reached, _)) if *word == reached => {
                        record.reached.insert((goal, (*slot).to_owned()));
                    }
                    (Some((word, [slot, sha256])), (_, lost)) if *word == lost => {
                        record.lost = Some((goal, Held::new(slot, sha256)));
                    }
                    _ => {}
                }
            }
            if let ["outage", slot, sha256] = words[..] {
                record.outage = Some(Held::new(slot, sha256));
            }
        }
        record
    }

    fn to_text(&self) -> String {
        let reached =
            self.reached.iter().map(|(goal, slot)| format!("{} {slot}\n", goal.words().0));
        let lost = self.lost.iter().map(|(goal, held)| (goal.words().1, held));
        let held = lost.chain(self.outage.iter().map(|held| ("outage", held)));
        let held = held.map(|(key, Held { slot, sha256 })| format!("{key} {slot} {sha256}\n"));
        [format!("{FORMAT}\n")].into_iter().chain(reached).chain(held).collect()
    }

    /// A slot begins to run; `others` is what the other slot holds. Gives what the slot needs, and
    /// the goal by which it has to show whose fault it was that the other one was given up.
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
        // What the other slot holds by now is nobody's loss.
        self.lost = self.lost.take().filter(|(_, lost)| Some(lost) == others);
        self.outage = self.outage.take().filter(|outage| Some(outage) == others);
        (BTreeSet::new(), self.lost.as_ref().map(|(goal, _)| *goal))
    }

    /// The good slot that runs has reached a goal. If that is what was lost, the release was at
    /// fault.
    fn has_reached(&mut self, name: &str, goal: Goal) {
        self.reached.insert((goal, name.to_owned()));
        self.lost = self.lost.take().filter(|(lost, _)| *lost != goal);
    }

    /// The good slot that runs did not get in time what was lost either.
    fn has_not(&mut self) {
        self.outage = self.lost.take().map(|(_, held)| held);
    }
}

impl Held {
    /// What `slot` holds.
    pub fn new(slot: &str, sha256: &str) -> Self {
        Held { slot: slot.to_owned(), sha256: sha256.to_owned() }
    }
}

/// Begins with the slot that runs, once it is known whether it is on trial.
pub fn begin(node: &mut Node) {
    let Some(name) = running(node) else { return };
    let text = data::folder().ok().and_then(|data| data.read_text(FILE, MAX_LENGTH).ok().flatten());
    let before = Record::parse(&text.unwrap_or_default());
    let mut record = before.clone();
    let held = slot::held(node, other(name));
    let (needs, compares) = record.begin(name, node.on_trial, held.as_ref());
    node.reach = Reach { needs, compared: compares.zip(deadline(node)), ..Reach::default() };
    node.reach.record = before;
    change(node, |old| *old = record);
}

/// Whether the slot on trial, whose gate has held, still has to reach something.
pub fn is_missing(node: &mut Node) -> bool {
    let missing = node.reach.needs.iter().copied().find(|goal| !has(node, *goal));
    let before = std::mem::replace(&mut node.reach.waits, missing);
    match missing.filter(|goal| before != Some(*goal)) {
        Some(Goal::Address) => {
            node.console
                .say(slot::NAME, "waits for an address, which the slot before this one had");
        }
        Some(Goal::Cluster) => {
            let line = "waits to be Ready in its cluster, as the slot before this one was";
            node.console.say(slot::NAME, line);
        }
        None => {}
    }
    missing.is_some()
}

/// Notes that the slot that runs has reached a goal.
pub fn gained(node: &mut Node, goal: Goal) {
    let Some(name) = running(node) else { return };
    node.reach.compared = node.reach.compared.filter(|(compared, _)| *compared != goal);
    if !node.on_trial {
        return change(node, |record| record.has_reached(name, goal));
    }
    if node.reach.waits.take_if(|waits| *waits == goal).is_some()
        && let Some(trial) = node.process(trial::NAME)
    {
        // With it the gate has to hold as well.
        trial.again(uptime());
    }
}

/// Notes that the slot that runs has become a good one.
pub fn passed(node: &mut Node) {
    let Some(name) = running(node) else { return };
    for goal in Goal::ALL {
        if has(node, goal) {
            change(node, |record| record.has_reached(name, goal));
        }
    }
}

/// Notes that the slot on trial goes back, if a goal is all that it lacked.
pub fn goes_back(node: &mut Node) {
    let Some(name) = running(node) else { return };
    if let Some(goal) = node.reach.waits {
        let held = slot::held(node, name);
        change(node, |record| record.lost = held.map(|held| (goal, held)));
    }
}

/// Notes that the other slot is written anew, or is tried once more.
pub fn forget(node: &mut Node) {
    change(node, |record| (record.lost, record.outage) = (None, None));
}

/// Notes that the slot that runs, to which the node has come back, did not reach in time what the
/// other one lacked.
pub fn watch(node: &mut Node) {
    let Some((goal, _)) = node.reach.compared.take_if(|(_, due)| uptime() >= *due) else { return };
    change(node, Record::has_not);
    let what = match goal {
        Goal::Address => "got no address either",
        Goal::Cluster => "is not Ready in its cluster either",
    };
    node.console.say(slot::NAME, format_args!("{what}: the other slot may be tried again"));
}

/// When [`watch`] has something to do, since boot.
pub fn due(node: &Node) -> Option<Duration> {
    node.reach.compared.map(|(_, due)| due)
}

/// Whether the release in the other slot was given up for want of what this one did not get either.
pub fn is_outage(node: &Node, held: &Held) -> bool {
    node.reach.record.outage.as_ref() == Some(held)
}

/// Whether the node has reached a goal in this boot.
fn has(node: &Node, goal: Goal) -> bool {
    match goal {
        Goal::Address => !node.addresses.is_empty(),
        Goal::Cluster => node.in_cluster,
    }
}

fn running(node: &Node) -> Option<&'static str> {
    node.slot.as_ref().map(|running| running.booted.slot)
}

/// How long a slot may take, since boot.
fn deadline(node: &Node) -> Option<Duration> {
    value(&node.command_line, GATE_DEADLINE)?.parse().ok().map(Duration::from_secs)
}

/// Changes the record, and writes it if it is another one.
fn change(node: &mut Node, change: impl FnOnce(&mut Record)) {
    let before = node.reach.record.clone();
    change(&mut node.reach.record);
    if node.reach.record == before {
        return;
    }
    let text = node.reach.record.to_text();
    let write = move || {
        data::folder()?
            .replace(FILE, text.as_bytes(), 0o644)
            .explain(format_args!("write {FILE} on DATA"))
    };
    if let Err(failure) = node.writer.begin(write) {
        node.console.say(slot::NAME, failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_abi::disk::{SLOT_A, SLOT_B};

    fn release() -> Held {
        Held::new(SLOT_B, "4e02fc8e70db")
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
        record.has_reached(SLOT_A, goal);
        record
    }

    /// SLOT-B was given up for want of the goal.
    fn lost(goal: Goal) -> Record {
        let mut record = before(goal);
        assert_eq!(record.begin(SLOT_B, true, None), only(goal));
        record.lost = Some((goal, release()));
        record
    }

    #[test]
    fn a_release_needs_what_the_slot_before_it_had_reached() {
        for goal in Goal::ALL {
            assert_eq!(before(goal).begin(SLOT_B, true, None), only(goal));
        }
        let mut both = before(Goal::Address);
        both.has_reached(SLOT_A, Goal::Cluster);
        assert_eq!(both.begin(SLOT_B, true, None), (Goal::ALL.into(), None));
        assert_eq!(Record::default().begin(SLOT_B, true, None), nothing());
    }

    #[test]
    fn what_counts_is_the_last_boot_of_the_slot_before() {
        for goal in Goal::ALL {
            let mut record = before(goal);
            // It boots once more, and does not reach the goal any more.
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
            record.has_reached(SLOT_A, goal);
            assert_eq!((record.lost, record.outage), (None, None));
        }
    }

    #[test]
    fn an_address_alone_does_not_show_that_the_cluster_is_there() {
        let mut record = lost(Goal::Cluster);
        record.begin(SLOT_A, false, Some(&release()));
        record.has_reached(SLOT_A, Goal::Address);
        record.has_not();
        assert_eq!(record.outage, Some(release()));
    }

    #[test]
    fn a_release_is_not_at_fault_if_the_older_slot_does_not_get_there_either() {
        for goal in Goal::ALL {
            let mut record = lost(goal);
            record.begin(SLOT_A, false, Some(&release()));
            record.has_not();
            assert_eq!((&record.lost, &record.outage), (&None, &Some(release())));
            // It may be tried again at any later boot, until the slot holds something else.
            assert_eq!(record.begin(SLOT_A, false, Some(&release())), nothing());
            assert_eq!(record.outage, Some(release()));
            record.begin(SLOT_A, false, Some(&Held::new(SLOT_B, "000000000000")));
            assert_eq!(record.outage, None);
        }
    }

    #[test]
    fn a_record_reads_back_and_one_of_another_format_says_nothing() {
        for goal in Goal::ALL {
            let mut record = lost(goal);
            record.outage = Some(release());
            assert_eq!(Record::parse(&record.to_text()), record);
        }
        for other in ["", "format 2\naddress SLOT-A\n", "address SLOT-A\n"] {
            assert_eq!(Record::parse(other), Record::default(), "{other}");
        }
        // Lines that a newer release of this format adds are passed over.
        assert_eq!(
            Record::parse("format 1\nready SLOT-A\naddress SLOT-A\n"),
            before(Goal::Address)
        );
    }
}
