//! Proofs about the settings that the disk did not take. It is pure.

use std::time::Duration;

use super::fallback::Proof;
use super::keeping::RETRY;

/// The proofs that DATA does not have.
#[derive(Debug, Default)]
pub struct Unkept {
    /// The oldest one first.
    proofs: Vec<Proof>,
    /// When to keep them again, since boot.
    due: Option<Duration>,
    /// Why one was not kept last.
    reason: Option<String>,
}

impl Unkept {
    /// A proof was not kept for `reason`. `now` is the time since boot. Returns whether that is
    /// another reason than before.
    pub fn on_failed(&mut self, proof: Proof, reason: String, now: Duration) -> bool {
        self.proofs.push(proof);
        self.due = Some(now + RETRY);
        let reason = Some(reason);
        let is_new = reason != self.reason;
        self.reason = reason;
        is_new
    }

    /// A proof was kept. Returns whether all are now, after one was not.
    pub fn on_kept(&mut self) -> bool {
        self.proofs.is_empty() && self.reason.take().is_some()
    }

    /// Takes those to keep again, in this order.
    pub fn take(&mut self) -> Vec<Proof> {
        self.due = None;
        std::mem::take(&mut self.proofs)
    }

    /// Younger settings take the place of the newest ones, so no proof may replace them any more.
    /// Returns whether one would have.
    pub fn on_younger_settings(&mut self) -> bool {
        let replaces = |proof: &Proof| matches!(proof, Proof::GoneBack(_) | Proof::TakenBack(_));
        let would_replace = self.proofs.iter().any(replaces);
        let proofs = std::mem::take(&mut self.proofs).into_iter();
        let proofs = proofs.filter_map(|proof| match proof {
            Proof::NoFailure | Proof::Good(_) => Some(proof),
            Proof::GoneBack(text) => Some(Proof::Good(text)),
            Proof::TakenBack(_) => None,
        });
        self.proofs = proofs.collect();
        self.due.take_if(|_| self.proofs.is_empty());
        would_replace
    }

    /// When to keep them again, since boot.
    pub fn deadline(&self) -> Option<Duration> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn failed(proofs: impl IntoIterator<Item = Proof>) -> Unkept {
        let mut unkept = Unkept::default();
        for proof in proofs {
            unkept.on_failed(proof, "no space left".to_owned(), NOW);
        }
        unkept
    }

    #[test]
    fn proofs_that_were_not_kept_are_kept_again_in_their_order() {
        let proofs = || [Proof::Good("a".to_owned()), Proof::TakenBack("b".to_owned())];
        let mut unkept = failed(proofs());
        assert_eq!(unkept.deadline(), Some(NOW + RETRY));
        assert_eq!(unkept.take(), proofs());
        assert_eq!((unkept.deadline(), unkept.take()), (None, Vec::new()));
    }

    #[test]
    fn each_reason_is_new_once_until_all_are_kept() {
        let mut unkept = Unkept::default();
        let mut fails = |reason: &str| {
            let is_new = unkept.on_failed(Proof::NoFailure, reason.to_owned(), NOW);
            (is_new, unkept.on_kept())
        };
        assert_eq!(fails("no space left"), (true, false));
        assert_eq!(fails("no space left"), (false, false));
        assert_eq!(fails("read-only"), (true, false));
        unkept.take();
        assert!(unkept.on_kept() && !unkept.on_kept());
    }

    #[test]
    fn no_proof_replaces_younger_settings() {
        let (old, good) = (|| "old".to_owned(), || "good".to_owned());
        let all = [Proof::Good(good()), Proof::GoneBack(old()), Proof::TakenBack(old())];
        let mut unkept = failed(all);
        assert!(unkept.on_younger_settings());
        assert_eq!(unkept.deadline(), Some(NOW + RETRY));
        assert!(!unkept.on_younger_settings());
        assert_eq!(unkept.take(), [Proof::Good(good()), Proof::Good(old())]);
        let mut unkept = failed([Proof::TakenBack(old())]);
        assert!(unkept.on_younger_settings());
        assert_eq!(unkept.deadline(), None);
    }
}
