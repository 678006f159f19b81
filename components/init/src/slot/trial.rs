//! The trial of a slot that has not been a good node before: its gate has to hold for a while, and
//! before a deadline.

use std::time::Duration;

/// How long after a failure to mark the slot as a good one it is tried again.
pub const RETRY: Duration = Duration::from_secs(600);

/// The trial of the slot that runs.
#[derive(Debug, Default)]
pub struct Trial {
    on_trial: bool,
    /// When the node goes back to the other slot, since boot.
    deadline: Option<Duration>,
}

impl Trial {
    /// Begins. Without another slot to go back to there is no deadline: a reboot would help
    /// nobody, and the slot may still become a good one.
    pub fn new(on_trial: bool, has_other: bool, deadline: Option<Duration>) -> Self {
        Trial { on_trial, deadline: deadline.filter(|_| on_trial && has_other) }
    }

    /// Whether the slot that runs still has to become a good one.
    pub fn is_on(&self) -> bool {
        self.on_trial
    }

    /// When the node goes back to the other slot, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The gate has held for long enough.
    pub fn on_held(&mut self) {
        self.deadline = None;
    }

    /// The slot was marked as a good one, or not: then it is `still_on_trial`.
    pub fn on_marked(&mut self, still_on_trial: bool) {
        self.on_trial = still_on_trial;
    }

    /// Whether the deadline has passed, so that the node has to go back. That is reported once.
    pub fn is_over(&mut self, now: Duration) -> bool {
        self.deadline.take_if(|deadline| *deadline <= now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(600);

    #[test]
    fn a_trial_ends_once_at_its_deadline() {
        let mut trial = Trial::new(true, true, Some(DEADLINE));
        assert!(!trial.is_over(DEADLINE - Duration::from_secs(1)));
        assert!(trial.is_over(DEADLINE) && !trial.is_over(DEADLINE));
        assert!(trial.is_on());
    }

    #[test]
    fn a_slot_without_another_one_or_not_on_trial_has_no_deadline() {
        assert_eq!(Trial::new(true, false, Some(DEADLINE)).deadline(), None);
        assert_eq!(Trial::new(false, true, Some(DEADLINE)).deadline(), None);
    }

    #[test]
    fn a_gate_that_held_ends_the_deadline_even_if_the_mark_fails() {
        let mut trial = Trial::new(true, true, Some(DEADLINE));
        trial.on_held();
        trial.on_marked(true);
        assert!(trial.is_on() && !trial.is_over(DEADLINE));
    }
}
