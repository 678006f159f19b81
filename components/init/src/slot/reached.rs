//! What a slot on trial has to reach besides its gate: an address, if the slot before it had one in
//! its last boot. A release that loses the network is not a good one. But a network may fail by
//! itself: when the older slot, back again, gets no address within the same time either, the
//! release is not at fault, and may be tried again.
//!
//! It is pure: events in, actions out.

use std::collections::BTreeSet;
use std::time::Duration;

use osbuild_failure::{Explain, Outcome};
use osbuild_slots::other;

use super::content::Held;
use crate::data;

/// The file on DATA.
const FILE: &str = "slots-reached";
/// The maximum length of that file in bytes; a record is shorter.
const MAX_LENGTH: u64 = 4096;
/// The first line of the file. A file that begins otherwise is of another release and says nothing.
const FORMAT: &str = "format 1";

/// What is known of the slots, on DATA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Record {
    /// The slots that had an address in their last boot.
    addressed: BTreeSet<String>,
    /// What was given up because it got no address, until the older slot has shown whether the
    /// release or the network was at fault.
    lost: Option<Held>,
    /// What was given up although the older slot got no address either.
    outage: Option<Held>,
}

/// What PID 1 remembers of it in this boot.
#[derive(Debug, Default)]
pub struct Reach {
    /// The slot that runs, if it is known. Nothing is recorded otherwise.
    slot: Option<&'static str>,
    on_trial: bool,
    record: Record,
    /// Whether the slot that runs, which is on trial, needs an address.
    needs_address: bool,
    /// Whether its gate has held, and only an address is missing.
    waits: bool,
    /// Until when the slot that runs may get an address which the other one did not get, since
    /// boot.
    deadline: Option<Duration>,
}

/// What is to be done.
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

    /// A slot begins to run; `others` is what the other slot holds. Returns whether it needs an
    /// address, and whether it has to show if the release was at fault that had none.
    fn begin(&mut self, name: &str, on_trial: bool, others: Option<&Held>) -> (bool, bool) {
        self.addressed.remove(name);
        if on_trial {
            return (self.addressed.contains(other(name)), false);
        }
        // The other slot may hold another release by now.
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

impl Reach {
    /// Begins with the slot that runs. `text` is the file's, `others` is what the other slot
    /// holds, and `deadline` is how long a slot may take to get an address, since boot.
    pub fn new(
        slot: Option<&'static str>,
        on_trial: bool,
        text: &str,
        others: Option<&Held>,
        deadline: Option<Duration>,
    ) -> (Self, Vec<Action>) {
        let record = Record::parse(text);
        let mut reach = Reach { slot, on_trial, record, ..Reach::default() };
        let Some(name) = slot else { return (reach, Vec::new()) };
        let mut decides = false;
        let actions = reach.change(|record, needs_address| {
            (*needs_address, decides) = record.begin(name, on_trial, others);
        });
        reach.deadline = deadline.filter(|_| decides);
        (reach, actions)
    }

    /// The gate has held. Returns whether the slot on trial still needs an address.
    pub fn on_held(&mut self, has_address: bool) -> (bool, Vec<Action>) {
        if !self.needs_address || has_address {
            return (false, Vec::new());
        }
        let first = !std::mem::replace(&mut self.waits, true);
        let say = Action::Say("waits for an address, which the slot before this one had");
        (true, first.then_some(say).into_iter().collect())
    }

    /// A pod has reported an address.
    pub fn on_address(&mut self) -> Vec<Action> {
        let Some(name) = self.slot else { return Vec::new() };
        self.deadline = None;
        if !self.on_trial {
            return self.change(|record, _| record.has_address(name));
        }
        let waited = std::mem::take(&mut self.waits);
        waited.then_some(Action::HoldAgain).into_iter().collect()
    }

    /// The slot that runs has become a good one.
    pub fn on_good(&mut self, has_address: bool) -> Vec<Action> {
        self.on_trial = false;
        match self.slot {
            Some(name) if has_address => self.change(|record, _| record.has_address(name)),
            _ => Vec::new(),
        }
    }

    /// The slot on trial goes back. `held` reads what it holds.
    pub fn on_going_back(&mut self, held: impl FnOnce(&str) -> Option<Held>) -> Vec<Action> {
        match self.slot {
            Some(name) if self.waits => {
                let held = held(name);
                self.change(|record, _| record.lost = held)
            }
            _ => Vec::new(),
        }
    }

    /// The other slot is written anew, or is tried once more.
    pub fn on_update(&mut self) -> Vec<Action> {
        self.change(|record, _| (record.lost, record.outage) = (None, None))
    }

    /// The time is `now`, since boot. If the slot to which the node has come back got no address
    /// in time, the network has failed and not the release.
    pub fn on_deadline(&mut self, now: Duration) -> Vec<Action> {
        if self.deadline.take_if(|deadline| *deadline <= now).is_none() {
            return Vec::new();
        }
        let mut actions = self.change(|record, _| record.has_none());
        actions.push(Action::Say("got no address either: the other slot may be tried again"));
        actions
    }

    /// When [`Reach::on_deadline`] has something to do, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Whether the release in the other slot was given up because it got no address, and this one
    /// got none either.
    pub fn is_outage(&self, held: &Held) -> bool {
        self.record.outage.as_ref() == Some(held)
    }

    /// Changes the record, and has it kept if it differs.
    fn change(&mut self, change: impl FnOnce(&mut Record, &mut bool)) -> Vec<Action> {
        let before = self.record.clone();
        change(&mut self.record, &mut self.needs_address);
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

    fn release() -> Held {
        Held::new(SLOT_B, "4e02fc8e70db")
    }

    /// SLOT-A had an address when SLOT-B was written.
    fn before() -> Record {
        let mut record = Record::default();
        record.has_address(SLOT_A);
        record
    }

    /// SLOT-B was given up because it got no address.
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
    fn the_last_boot_of_the_slot_before_counts() {
        let mut record = before();
        // It boots once more, without a network.
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
    fn a_record_reads_back_and_one_of_another_format_says_nothing() {
        let mut record = lost();
        record.outage = Some(release());
        assert_eq!(Record::parse(&record.to_text()), record);
        for other in ["", "format 2\naddress SLOT-A\n", "address SLOT-A\n"] {
            assert_eq!(Record::parse(other), Record::default(), "{other}");
        }
        // Lines that a newer release adds to this format are ignored.
        assert_eq!(Record::parse("format 1\nready SLOT-A\naddress SLOT-A\n"), before());
    }

    const DEADLINE: Duration = Duration::from_secs(600);

    fn kept(record: &Record) -> Action {
        Action::Keep(record.to_text())
    }

    #[test]
    fn a_release_that_needs_an_address_waits_for_it_and_then_holds_again() {
        let text = before().to_text();
        let (mut reach, actions) = Reach::new(Some(SLOT_B), true, &text, None, Some(DEADLINE));
        assert_eq!((actions, reach.deadline()), (vec![], None));
        let (missing, actions) = reach.on_held(false);
        assert!(missing && matches!(actions[..], [Action::Say(_)]));
        assert_eq!(reach.on_held(false), (true, vec![]), "it says so once");
        assert_eq!(reach.on_address(), [Action::HoldAgain]);
        assert_eq!(reach.on_held(true), (false, vec![]));
        let mut record = before();
        record.has_address(SLOT_B);
        assert_eq!(reach.on_good(true), [kept(&record)]);
    }

    #[test]
    fn the_older_slot_without_an_address_keeps_the_outage_at_its_deadline() {
        let text = before().to_text();
        let (mut reach, _) = Reach::new(Some(SLOT_B), true, &text, None, Some(DEADLINE));
        reach.on_held(false);
        let actions = reach.on_going_back(|_| Some(release()));
        let [Action::Keep(text)] = &actions[..] else { panic!("{actions:?}") };
        let others = release();
        let (mut reach, _) = Reach::new(Some(SLOT_A), false, text, Some(&others), Some(DEADLINE));
        assert_eq!(reach.deadline(), Some(DEADLINE));
        assert!(reach.on_deadline(DEADLINE - Duration::from_secs(1)).is_empty());
        assert!(matches!(reach.on_deadline(DEADLINE)[..], [Action::Keep(_), Action::Say(_)]));
        assert!(reach.is_outage(&release()) && reach.on_deadline(DEADLINE).is_empty());
        assert!(matches!(reach.on_update()[..], [Action::Keep(_)]));
        assert!(!reach.is_outage(&release()));
    }

    #[test]
    fn an_unknown_slot_records_nothing() {
        let text = lost().to_text();
        let (mut reach, actions) = Reach::new(None, true, &text, None, Some(DEADLINE));
        assert_eq!((actions, reach.on_held(false)), (vec![], (false, vec![])));
        assert!(reach.on_address().is_empty() && reach.on_good(true).is_empty());
        assert!(reach.on_going_back(|_| Some(release())).is_empty());
    }
}
