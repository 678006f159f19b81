//! Which of the kept settings the node starts with: the newest, or earlier ones after starts that
//! have failed. It is pure.
//!
//! Settings are good once the node was ready with them. After [`MAX_FAILURES`] failed starts with
//! the newest ones, the node starts with the last good ones, and after as many with none. If it is
//! ready with earlier ones, they stay. If it is never ready, the settings are not the cause, so it
//! begins again with the newest.

use std::collections::BTreeSet;
use std::time::Duration;

use osbuild_protocol::{Refusal, RefusalCode, StartSettings};

/// The failed starts after which the node takes other settings.
pub const MAX_FAILURES: u32 = 3;

/// The settings on DATA, and the record of the starts with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The newest ones, one on each line.
    pub newest: String,
    /// Those with which the node was ready last, if it ever was with any.
    pub good: Option<String>,
    /// The starts that failed since the node was ready.
    pub failures: u32,
    /// Whether the node has gone back to the newest ones, and no client has taken note of it.
    pub is_unacknowledged: bool,
}

/// The settings with which this start is made.
#[derive(Debug)]
pub struct Fallback {
    /// The newest settings, and the earlier ones to fall back to, without repetitions.
    choices: Vec<String>,
    /// Whether the newest ones are good.
    is_good: bool,
    /// The starts that failed before this one.
    failures: u32,
    /// Until when the node has to be ready with this choice, since boot.
    until: Option<Duration>,
    is_ready: bool,
    is_unacknowledged: bool,
    /// Whether DATA is about to have that a client knows of it.
    is_being_acknowledged: bool,
}

/// A fact about the settings, to be kept on DATA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// That no start has failed.
    NoFailure,
    /// That these settings are good.
    Good(String),
    /// That the node has gone back to these, which replace the newest ones.
    GoneBack(String),
    /// That the kubelet runs with these alone, which replace the newest ones. They have started no
    /// node yet.
    TakenBack(String),
}

impl Default for Fallback {
    fn default() -> Self {
        Fallback::new(Kept::default(), false)
    }
}

impl Fallback {
    /// The choice for a start. While the slot is on trial, good settings are not given up: the
    /// release is the cause.
    pub fn new(kept: Kept, is_on_trial: bool) -> Fallback {
        let Kept { newest, good, failures, is_unacknowledged } = kept;
        let is_good = good.as_ref().is_some_and(|good| are_same(good, &newest));
        let mut choices = vec![newest];
        if !(is_on_trial && is_good) {
            for choice in good.into_iter().chain([String::new()]) {
                if !choices.iter().any(|other| are_same(other, &choice)) {
                    choices.push(choice);
                }
            }
        }
        Fallback {
            choices,
            is_good,
            failures,
            until: None,
            is_ready: false,
            is_unacknowledged,
            is_being_acknowledged: false,
        }
    }

    /// Has this start, or the rest of it, fail unless the node is ready at this time since boot.
    pub fn expect_ready(&mut self, until: Duration) {
        self.until = Some(until);
    }

    /// That time, if there is another choice then.
    pub fn deadline(&self) -> Option<Duration> {
        self.until.filter(|_| self.has_choice() && !self.is_ready)
    }

    /// The settings with which the node starts, one on each line.
    pub fn text(&self) -> &str {
        &self.choices[self.index()]
    }

    /// Whether the node was ready with the settings with which it starts.
    pub fn starts_with_good(&self) -> bool {
        self.is_good || self.index() > 0
    }

    /// The number of failed starts to keep before the settings have an effect: this one counts
    /// until the node is ready. Nothing if there is no choice.
    pub fn count(&self) -> Option<u32> {
        self.has_choice().then(|| self.failures.saturating_add(1))
    }

    /// A line for the console if the node does not start with the newest settings.
    pub fn line(&self) -> Option<String> {
        let index = self.index();
        (index > 0).then(|| format!("{} starts have failed: {}", self.failures, self.words()))
    }

    /// Goes on to the next choice, as this start has failed. Returns a line for the console;
    /// nothing if there is no other choice, or the node was ready.
    pub fn give_up(&mut self, reason: &str) -> Option<String> {
        if !self.has_choice() || self.is_ready {
            return None;
        }
        self.failures = (self.failures / MAX_FAILURES).saturating_add(1) * MAX_FAILURES;
        Some(format!("{reason}: {}", self.words()))
    }

    /// The node is ready, and has the settings `now`. Returns what to keep, if anything. Without a
    /// trial the slot is a good one. It is called again when the trial ends.
    pub fn on_ready(&mut self, now: &str, is_on_trial: bool) -> Option<Proof> {
        let was_ready = std::mem::replace(&mut self.is_ready, true);
        if !self.has_choice() || (was_ready && self.index() > 0) {
            return None;
        }
        if self.index() > 0 {
            self.go_back();
            return Some(Proof::GoneBack(self.text().to_owned()));
        }
        // Settings that were changed during this start have proved nothing.
        if self.is_good || is_on_trial || !are_same(now, self.text()) {
            return (!was_ready).then_some(Proof::NoFailure);
        }
        self.is_good = true;
        Some(Proof::Good(now.to_owned()))
    }

    /// Takes note that some of the newest settings were taken back. `text` has the others. Returns
    /// the fact to keep.
    pub fn take_back(&mut self, text: String) -> Proof {
        self.go_back();
        Proof::TakenBack(text)
    }

    fn go_back(&mut self) {
        self.is_unacknowledged = true;
        self.is_being_acknowledged = false;
    }

    /// A client knows that the node has gone back, which DATA has to have before it counts. Returns
    /// whether the node had gone back.
    pub fn begin_acknowledging(&mut self) -> bool {
        let has_gone_back = self.state() == StartSettings::GoneBack;
        self.is_being_acknowledged |= has_gone_back;
        has_gone_back
    }

    /// DATA has it now. If the node has gone back once more since, no client knows that.
    pub fn on_acknowledged(&mut self) {
        if std::mem::take(&mut self.is_being_acknowledged) {
            self.is_unacknowledged = false;
        }
    }

    /// Whether clients may change settings.
    pub fn admit(&self) -> Result<(), Refusal> {
        let reason = match self.state() {
            StartSettings::Newest => return Ok(()),
            StartSettings::Earlier => "the node starts with earlier settings, and is not ready yet",
            StartSettings::GoneBack => {
                "the node has gone back to earlier settings: take note of it with `revert`"
            }
        };
        Err(Refusal::new(RefusalCode::Busy, reason))
    }

    /// For clients.
    pub fn state(&self) -> StartSettings {
        match self {
            Self { is_ready: false, .. } if self.index() > 0 => StartSettings::Earlier,
            Self { is_unacknowledged: true, .. } => StartSettings::GoneBack,
            _ => StartSettings::Newest,
        }
    }

    fn has_choice(&self) -> bool {
        self.choices.len() > 1
    }

    fn index(&self) -> usize {
        (self.failures / MAX_FAILURES) as usize % self.choices.len()
    }

    fn words(&self) -> &'static str {
        match (self.index(), self.text()) {
            (0, _) => "the newest settings are in effect",
            (_, "") => "no settings of requests are in effect",
            _ => "the settings of the last good start are in effect",
        }
    }
}

/// Whether two texts have the same settings: their order has no meaning.
fn are_same(one: &str, other: &str) -> bool {
    let settings = |text: &'_ str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    settings(one) == settings(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "host-name a\nkernel-parameter fs.nr_open 65536\n";
    const GOOD: &str = "host-name a\n";

    fn kept(newest: &str, good: Option<&str>, failures: u32) -> Kept {
        let good = good.map(str::to_owned);
        Kept { newest: newest.to_owned(), good, failures, is_unacknowledged: false }
    }

    fn start(newest: &str, good: Option<&str>, failures: u32) -> Fallback {
        Fallback::new(kept(newest, good, failures), false)
    }

    #[test]
    fn after_three_failed_starts_the_node_takes_the_choice_before() {
        let texts =
            |good| (0..12).map(move |failures| start(NEW, good, failures).text().to_owned());
        let repeated = |text: &str| vec![text.to_owned(); 3];
        let all: Vec<_> = texts(Some(GOOD)).collect();
        assert_eq!(all, [NEW, GOOD, "", NEW].map(repeated).concat());
        let all: Vec<_> = texts(None).collect();
        assert_eq!(all, [NEW, "", NEW, ""].map(repeated).concat());
        let all: Vec<_> = texts(Some(NEW)).collect();
        assert_eq!(all, [NEW, "", NEW, ""].map(repeated).concat());
    }

    #[test]
    fn no_choice_is_made_twice() {
        let all: Vec<_> = (0..9).map(|failures| start("", Some(GOOD), failures)).collect();
        let texts: Vec<_> = all.iter().map(Fallback::text).collect();
        assert_eq!(texts, ["", "", "", GOOD, GOOD, GOOD, "", "", ""]);
        assert_eq!(all[6].state(), StartSettings::Newest);
    }

    #[test]
    fn a_node_without_settings_counts_nothing() {
        for good in [None, Some("")] {
            let mut fallback = start("", good, 7);
            assert_eq!((fallback.text(), fallback.count(), fallback.line()), ("", None, None));
            assert_eq!(fallback.give_up("the kubelet has failed"), None);
            assert_eq!(fallback.on_ready("", false), None);
        }
    }

    #[test]
    fn settings_are_good_once_the_node_is_ready_with_them() {
        let mut fallback = start(NEW, Some(GOOD), 0);
        assert_eq!(fallback.count(), Some(1));
        assert_eq!(fallback.on_ready(NEW, false), Some(Proof::Good(NEW.to_owned())));
        let mut lines: Vec<&str> = NEW.lines().collect();
        lines.reverse();
        let mut fallback = start(NEW, Some(&lines.join("\n")), 2);
        assert_eq!(fallback.on_ready(NEW, false), Some(Proof::NoFailure));
    }

    #[test]
    fn settings_that_came_during_the_start_or_on_trial_are_not_good() {
        assert_eq!(start(NEW, None, 0).on_ready(GOOD, false), Some(Proof::NoFailure));
        let mut fallback = start(NEW, None, 0);
        assert_eq!(fallback.on_ready(NEW, true), Some(Proof::NoFailure));
        assert_eq!(fallback.on_ready(NEW, false), Some(Proof::Good(NEW.to_owned())));
        assert_eq!(fallback.on_ready(NEW, false), None, "the trial ends once");
    }

    #[test]
    fn a_start_with_good_settings_is_known() {
        for (good, failures, expected) in
            [(Some(NEW), 0, true), (Some(GOOD), 0, false), (Some(GOOD), 3, true), (None, 0, false)]
        {
            assert_eq!(start(NEW, good, failures).starts_with_good(), expected, "{good:?}");
        }
    }

    #[test]
    fn good_settings_are_not_given_up_for_a_release_on_trial() {
        let kept = |good| kept(NEW, Some(good), 3);
        assert_eq!(Fallback::new(kept(NEW), true).text(), NEW);
        assert_eq!(Fallback::new(kept(GOOD), true).text(), GOOD);
    }

    #[test]
    fn the_node_goes_back_to_the_settings_with_which_it_is_ready() {
        let mut fallback = start(NEW, Some(GOOD), 3);
        assert_eq!(fallback.state(), StartSettings::Earlier);
        assert!(fallback.admit().is_err() && !fallback.begin_acknowledging());
        assert_eq!(fallback.on_ready(GOOD, false), Some(Proof::GoneBack(GOOD.to_owned())));
        assert_eq!(fallback.on_ready(GOOD, false), None, "the trial ends later");
        assert_eq!(fallback.state(), StartSettings::GoneBack);
        assert!(fallback.admit().is_err());
        assert!(fallback.begin_acknowledging() && fallback.begin_acknowledging());
        assert!(fallback.admit().is_err(), "DATA does not have it yet");
        fallback.on_acknowledged();
        assert!(!fallback.begin_acknowledging() && fallback.admit().is_ok());
    }

    #[test]
    fn a_ready_node_that_takes_settings_back_refuses_changes_until_a_client_knows() {
        let mut fallback = start(NEW, Some(NEW), 0);
        fallback.on_ready(NEW, false);
        assert_eq!(fallback.take_back(GOOD.to_owned()), Proof::TakenBack(GOOD.to_owned()));
        assert_eq!(fallback.state(), StartSettings::GoneBack);
        assert!(fallback.admit().is_err() && fallback.begin_acknowledging());
        fallback.take_back(String::new());
        fallback.on_acknowledged();
        assert!(fallback.admit().is_err(), "that was about the time before");
        assert!(fallback.begin_acknowledging());
        fallback.on_acknowledged();
        assert!(fallback.admit().is_ok());
    }

    #[test]
    fn a_client_that_was_away_takes_note_after_a_reboot() {
        let kept = Kept { is_unacknowledged: true, ..kept(GOOD, Some(GOOD), 0) };
        let mut fallback = Fallback::new(kept, false);
        assert_eq!((fallback.text(), fallback.state()), (GOOD, StartSettings::GoneBack));
        fallback.on_ready(GOOD, false);
        assert!(fallback.begin_acknowledging());
        fallback.on_acknowledged();
        assert_eq!(fallback.state(), StartSettings::Newest);
    }

    #[test]
    fn a_start_has_a_deadline_until_the_node_is_ready() {
        let until = Duration::from_secs(300);
        let mut fallback = start(NEW, None, 0);
        fallback.expect_ready(until);
        assert_eq!(fallback.deadline(), Some(until));
        fallback.on_ready(NEW, false);
        assert_eq!(fallback.deadline(), None);
        let mut without_choice = Fallback::default();
        without_choice.expect_ready(until);
        assert_eq!(without_choice.deadline(), None);
    }

    #[test]
    fn a_start_can_go_on_with_each_choice_and_comes_back_to_the_newest() {
        let mut fallback = start(NEW, Some(GOOD), 1);
        for (text, count) in [(GOOD, 4), ("", 7), (NEW, 10), (GOOD, 13)] {
            assert!(fallback.give_up("the kubelet has failed").is_some());
            assert_eq!((fallback.text(), fallback.count()), (text, Some(count)));
        }
        fallback.on_ready(GOOD, false);
        assert_eq!(fallback.give_up("the kubelet has failed"), None, "the node was ready");
    }
}
