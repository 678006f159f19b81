//! What a slot on trial has to reach besides its gate: an address, if the slot before it had one in
//! its last boot. A release that loses the network is no good node. But a network may fail by
//! itself: when the older slot, back again, gets no address within the same time either, the
//! release is not at fault, and may be tried again.

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

/// What is known of the slots, on DATA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Record {
    /// The slots that had an address in their last boot.
    addressed: BTreeSet<String>,
    /// What was given up for want of an address, until the older slot has shown whose fault that
    /// was.
    lost: Option<Held>,
    /// What was given up although the older slot got no address either.
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
    /// Whether the slot that runs, which is on trial, needs an address.
    needs_address: bool,
    /// Whether its gate has held, and an address alone is missing.
    waits: bool,
    /// Until when the slot that runs may get an address which the other one did not get, since
    /// boot.
    judged: Option<Duration>,
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
                ["address", slot] => drop(record.addressed.insert(slot.to_owned())),
                ["lost", slot, sha256] => record.lost = Some(Held::new(slot, sha256)),
                ["outage", slot, sha256] => record.outage = Some(Held::new(slot, sha256)),
                _ => {}
            }
        }
        record
    }

    fn to_text(&self) -> String {
        let addressed = self.addressed.iter().map(|slot| format!("address {slot}\n"));
        let held = [("lost", &self.lost), ("outage", &self.outage)].into_iter().filter_map(
            |(key, held)| {
                let Held { slot, sha256 } = held.as_ref()?;
                Some(format!("{key} {slot} {sha256}\n"))
            },
        );
        [format!("{FORMAT}\n")].into_iter().chain(addressed).chain(held).collect()
    }

    /// A slot begins to run; `others` is what the other slot holds. Whether it needs an address,
    /// and whether it has to show whose fault it was that the other one had none.
    fn begin(&mut self, name: &str, on_trial: bool, others: Option<&Held>) -> (bool, bool) {
        self.addressed.remove(name);
        if on_trial {
            return (self.addressed.contains(other(name)), false);
        }
        // What the other slot holds by now is nobody's loss.
        self.lost = self.lost.take().filter(|lost| Some(lost) == others);
        self.outage = self.outage.take().filter(|outage| Some(outage) == others);
        (false, self.lost.is_some())
    }

    /// The good slot that runs has an address: what was lost was the release's fault.
    fn has_address(&mut self, name: &str) {
        self.addressed.insert(name.to_owned());
        self.lost = None;
    }

    /// The good slot that runs got no address in time either.
    fn has_none(&mut self) {
        self.outage = self.lost.take();
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
    let (needs_address, judges) = record.begin(name, node.on_trial, held.as_ref());
    node.reach =
        Reach { needs_address, judged: deadline(node).filter(|_| judges), ..Reach::default() };
    node.reach.record = before;
    change(node, |old| *old = record);
}

/// Whether the slot on trial, whose gate has held, still needs an address.
pub fn is_missing(node: &mut Node) -> bool {
    if !node.reach.needs_address || !node.addresses.is_empty() {
        return false;
    }
    if !std::mem::replace(&mut node.reach.waits, true) {
        node.console.say(slot::NAME, "waits for an address, which the slot before this one had");
    }
    true
}

/// Notes that a pod has told an address.
pub fn has_address(node: &mut Node) {
    let Some(name) = running(node) else { return };
    node.reach.judged = None;
    if !node.on_trial {
        return change(node, |record| record.has_address(name));
    }
    if std::mem::take(&mut node.reach.waits)
        && let Some(trial) = node.process(trial::NAME)
    {
        // With the network the gate has to hold as well.
        trial.again(uptime());
    }
}

/// Notes that the slot that runs has become a good one.
pub fn passed(node: &mut Node) {
    let Some(name) = running(node) else { return };
    if !node.addresses.is_empty() {
        change(node, |record| record.has_address(name));
    }
}

/// Notes that the slot on trial goes back, if an address is all that it lacked.
pub fn goes_back(node: &mut Node) {
    let Some(name) = running(node) else { return };
    if node.reach.waits {
        let held = slot::held(node, name);
        change(node, |record| record.lost = held);
    }
}

/// Notes that the other slot is written anew, or is tried once more.
pub fn forget(node: &mut Node) {
    change(node, |record| (record.lost, record.outage) = (None, None));
}

/// Notes that the slot that runs, to which the node has come back, got no address in time.
pub fn watch(node: &mut Node) {
    if node.reach.judged.is_some_and(|judged| uptime() >= judged) {
        node.reach.judged = None;
        change(node, Record::has_none);
        node.console.say(slot::NAME, "got no address either: the other slot may be tried again");
    }
}

/// When [`watch`] has something to do, since boot.
pub fn due(node: &Node) -> Option<Duration> {
    node.reach.judged
}

/// Whether the release in the other slot was given up for want of an address that this one did not
/// get either.
pub fn is_outage(node: &Node, held: &Held) -> bool {
    node.reach.record.outage.as_ref() == Some(held)
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

    /// SLOT-A had an address when SLOT-B was written.
    fn before() -> Record {
        let mut record = Record::default();
        record.has_address(SLOT_A);
        record
    }

    /// SLOT-B was given up for want of an address.
    fn lost() -> Record {
        let mut record = before();
        assert_eq!(record.begin(SLOT_B, true, None), (true, false));
        record.lost = Some(release());
        record
    }

    #[test]
    fn a_release_needs_an_address_if_the_slot_before_it_had_one() {
        assert_eq!(before().begin(SLOT_B, true, None), (true, false));
        assert_eq!(Record::default().begin(SLOT_B, true, None), (false, false));
    }

    #[test]
    fn what_counts_is_the_last_boot_of_the_slot_before() {
        let mut record = before();
        // It boots once more, and has no network any more.
        assert_eq!(record.begin(SLOT_A, false, None), (false, false));
        assert_eq!(record.begin(SLOT_B, true, None), (false, false));
    }

    #[test]
    fn a_release_is_at_fault_if_the_older_slot_gets_an_address() {
        let mut record = lost();
        assert_eq!(record.begin(SLOT_A, false, Some(&release())), (false, true));
        record.has_address(SLOT_A);
        assert_eq!((record.lost, record.outage), (None, None));
    }

    #[test]
    fn a_release_is_not_at_fault_if_the_older_slot_gets_none_either() {
        let mut record = lost();
        record.begin(SLOT_A, false, Some(&release()));
        record.has_none();
        assert_eq!((&record.lost, &record.outage), (&None, &Some(release())));
        // It may be tried again at any later boot, until the slot holds something else.
        assert_eq!(record.begin(SLOT_A, false, Some(&release())), (false, false));
        assert_eq!(record.outage, Some(release()));
        record.begin(SLOT_A, false, Some(&Held::new(SLOT_B, "000000000000")));
        assert_eq!(record.outage, None);
    }

    #[test]
    fn a_record_reads_back_and_one_of_another_release_says_nothing() {
        let mut record = lost();
        record.outage = Some(release());
        assert_eq!(Record::parse(&record.to_text()), record);
        for other in ["", "format 2\naddress SLOT-A\n", "address SLOT-A\n"] {
            assert_eq!(Record::parse(other), Record::default(), "{other}");
        }
        // Lines that a newer release of this format adds are passed over.
        assert_eq!(Record::parse("format 1\nready SLOT-A\naddress SLOT-A\n"), before());
    }
}
