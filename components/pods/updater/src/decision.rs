//! Decides from the state of the slots what to do about a release.
//!
//! Every install and every reboot needs a known reason that bounds their number. If a state is
//! unknown or unreadable, the updater waits and prints why. The type [`InstallPermit`] enforces the
//! first half: the protocol's client does not open a slot without one.

use osbuild_protocol::{Contents, InstallPermit, SlotState, SlotStatus, Slots};
use osbuild_release::{Document, target};

/// The next step for a release. The strings are lines for the log.
#[derive(Debug)]
pub enum Decision {
    /// Do nothing until the channel offers another release.
    Idle(String),
    /// Do nothing now.
    Wait(String),
    /// Reboot: the other slot holds the release and is booted next.
    Reboot,
    /// Boot the other slot, which holds the release, once more.
    Try,
    /// Boot the other slot, to which the release was written.
    Mark(InstallPermit),
    /// Write the release to the other slot.
    Install(InstallPermit),
}

impl Decision {
    /// Whether it changes nothing on the node.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Decision::Idle(_) | Decision::Wait(_))
    }
}

/// Decides what to do about the release that the channel offers.
pub fn decide(slots: &Slots, document: &Document) -> Decision {
    let version = &document.version;
    let waits = |why: &str| Decision::Wait(format!("{version} waits: {why}"));
    let status = match slots {
        Slots::Known(status) => status,
        Slots::Unknown => return waits("slotboot has not reported which slot runs"),
        Slots::Unreadable(why) => return waits(why),
    };
    if matches!(&status.running.contents, Contents::Release(running) if running.version == *version)
    {
        return Decision::Idle(format!("{version} runs already"));
    }
    let permit = match status.permit_install() {
        Ok(permit) => permit,
        Err(why) => return waits(&why),
    };
    let Some(other) = status.other.as_ref().filter(|other| holds(other, document)) else {
        return Decision::Install(permit);
    };
    match other.state {
        // The network failed, not the release.
        SlotState::OnTrial { tries_left: 0 } if status.is_outage => Decision::Try,
        SlotState::OnTrial { tries_left: 0 } => {
            Decision::Idle(format!("{version} in {} did not become good", other.name))
        }
        // Rebooting now could loop forever.
        SlotState::OnTrial { .. } if status.may_be_passed_over_forever() => {
            waits(&format!("slotboot does not start {}: {}", other.name, status.why))
        }
        // The updater ended before it could request the reboot.
        SlotState::OnTrial { .. } => Decision::Reboot,
        // It waits for its grant.
        SlotState::NotBootable => Decision::Mark(permit),
        // slotboot no longer starts it.
        SlotState::Good if status.passed.is_some() => Decision::Install(permit),
        // slotboot would start it, and starts the other one first since a rollback.
        SlotState::Good => Decision::Idle(format!("{version} in {} was rolled back", other.name)),
        SlotState::Unknown => waits(&format!("the state of {} is unknown", other.name)),
    }
}

/// Whether a slot holds exactly this release. Another build may have the same version, so the
/// digest counts too.
fn holds(slot: &SlotStatus, document: &Document) -> bool {
    let Contents::Release(held) = &slot.contents else { return false };
    let node = document.files.get(target::NODE);
    held.version == document.version
        && node.is_some_and(|file| file.sha256.to_string().starts_with(&held.sha256))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::ARCHITECTURE;
    use osbuild_protocol::{PassReason, Release, SlotsStatus, StartReason};
    use osbuild_release::{File as Listed, Sha256};

    const GOOD: SlotState = SlotState::Good;

    fn on_trial(tries_left: u8) -> SlotState {
        SlotState::OnTrial { tries_left }
    }

    fn document() -> Document {
        let file = Listed { length: 1, sha256: Sha256([0xAB; 32]) };
        let files = [target::NODE, target::BOOT].map(|name| (name.to_owned(), file)).into();
        Document::new("node", "2", ARCHITECTURE, 2, "2026-11-21", files).unwrap()
    }

    fn held(name: &str, version: &str, state: SlotState) -> SlotStatus {
        let release = Release { version: version.to_owned(), sha256: "abababababab".to_owned() };
        SlotStatus { name: name.to_owned(), contents: Contents::Release(release), state }
    }

    fn status(running: (&str, SlotState), other: (&str, SlotState)) -> SlotsStatus {
        SlotsStatus {
            why: "good".to_owned(),
            started: StartReason::Good,
            passed: None,
            running: held("SLOT-A", running.0, running.1),
            other: Some(held("SLOT-B", other.0, other.1)),
            is_outage: false,
        }
    }

    /// The name of the decision.
    fn word(status: SlotsStatus, document: &Document) -> &'static str {
        match decide(&Slots::Known(status), document) {
            Decision::Idle(_) => "idle",
            Decision::Wait(_) => "waits",
            Decision::Reboot => "reboots",
            Decision::Try => "tries",
            Decision::Mark(_) => "marks",
            Decision::Install(_) => "installs",
        }
    }

    fn decided(running: (&str, SlotState), other: (&str, SlotState)) -> &'static str {
        word(status(running, other), &document())
    }

    #[test]
    fn a_version_other_than_the_running_one_is_installed() {
        assert_eq!(decided(("1", GOOD), ("0", GOOD)), "installs");
        assert_eq!(decided(("2", GOOD), ("1", GOOD)), "idle");
        assert_eq!(decided(("2", on_trial(1)), ("1", GOOD)), "idle");
    }

    #[test]
    fn nothing_is_installed_while_the_running_slot_is_on_trial() {
        assert_eq!(decided(("1", on_trial(2)), ("0", GOOD)), "waits");
    }

    #[test]
    fn a_release_that_did_not_become_good_is_not_retried() {
        assert_eq!(decided(("1", GOOD), ("2", on_trial(0))), "idle");
        assert_eq!(decided(("1", GOOD), ("2", on_trial(3))), "reboots");
    }

    #[test]
    fn a_release_that_was_rolled_back_is_not_installed_again() {
        assert_eq!(decided(("1", GOOD), ("2", GOOD)), "idle");
        assert_eq!(decided(("1", GOOD), ("3", GOOD)), "installs");
        let passed =
            SlotsStatus { passed: Some(PassReason::Digest), ..status(("1", GOOD), ("2", GOOD)) };
        assert_eq!(word(passed, &document()), "installs");
    }

    #[test]
    fn a_release_that_was_written_and_not_marked_is_not_written_again() {
        assert_eq!(decided(("1", GOOD), ("2", SlotState::NotBootable)), "marks");
        assert_eq!(decided(("1", GOOD), ("3", SlotState::NotBootable)), "installs");
    }

    #[test]
    fn a_release_that_failed_in_an_outage_is_retried_without_a_download() {
        let tried = |version, state| {
            let status = SlotsStatus { is_outage: true, ..status(("1", GOOD), (version, state)) };
            word(status, &document())
        };
        assert_eq!(tried("2", on_trial(0)), "tries");
        assert_eq!(tried("2", on_trial(3)), "reboots");
        assert_eq!(tried("3", on_trial(0)), "installs");
    }

    #[test]
    fn a_slot_with_uncountable_tries_causes_no_endless_reboots() {
        let passed = |reason, version| {
            let status = status(("1", GOOD), (version, on_trial(3)));
            word(SlotsStatus { passed: Some(reason), ..status }, &document())
        };
        assert_eq!(passed(PassReason::NotCounted, "2"), "waits");
        assert_eq!(passed(PassReason::NotCounted, "0"), "installs");
        assert_eq!(passed(PassReason::Refused, "2"), "reboots");
        assert_eq!(passed(PassReason::Unknown, "2"), "waits");
    }

    #[test]
    fn the_same_version_with_other_bytes_is_another_release() {
        let mut other = document();
        other.files.insert(target::NODE.to_owned(), Listed { length: 1, sha256: Sha256([0; 32]) });
        assert_eq!(word(status(("1", GOOD), ("2", on_trial(0))), &other), "installs");
    }

    #[test]
    fn an_unknown_or_unreadable_state_causes_no_install_or_reboot() {
        let changes: [fn(&mut SlotsStatus); 7] = [
            |status| status.running.state = SlotState::Unknown,
            |status| status.running.contents = Contents::Unknown,
            |status| status.running.contents = Contents::Unreadable,
            |status| status.other.as_mut().unwrap().state = SlotState::Unknown,
            |status| status.other.as_mut().unwrap().contents = Contents::Unknown,
            |status| status.other.as_mut().unwrap().contents = Contents::Unreadable,
            |status| status.other = None,
        ];
        for change in changes {
            for other in [("0", GOOD), ("2", on_trial(3)), ("2", SlotState::NotBootable)] {
                let mut status = status(("1", GOOD), other);
                change(&mut status);
                assert_eq!(word(status.clone(), &document()), "waits", "{status:?}");
            }
        }
        for slots in [Slots::Unknown, Slots::Unreadable("EIO".to_owned())] {
            let decision = decide(&slots, &document());
            assert!(matches!(decision, Decision::Wait(_)), "{decision:?}");
        }
    }

    /// Simulates a node whose slotboot never starts the other slot, for this reason. Counts the
    /// installs and reboots until the updater stops; panics after 20.
    fn installs_and_reboots(reason: Option<PassReason>, spends: bool, first: SlotState) -> usize {
        let mut node = status(("1", GOOD), ("2", first));
        node.passed = reason.filter(|_| first == GOOD);
        for done in 0..20 {
            let decision = decide(&Slots::Known(node.clone()), &document());
            let state = &mut node.other.as_mut().unwrap().state;
            match decision {
                Decision::Idle(_) | Decision::Wait(_) => return done,
                Decision::Install(_) | Decision::Mark(_) | Decision::Try => *state = on_trial(3),
                Decision::Reboot => {}
            }
            node.passed = reason;
            if let SlotState::OnTrial { tries_left } = state {
                *tries_left = tries_left.saturating_sub(u8::from(spends));
            }
        }
        panic!("{reason:?} goes on without end")
    }

    #[test]
    fn no_reason_to_pass_over_a_slot_makes_a_node_reboot_without_end() {
        for reason in PassReason::ALL {
            for first in [GOOD, on_trial(3), SlotState::NotBootable] {
                let spends = !reason.may_last_forever();
                let done = installs_and_reboots(Some(reason), spends, first);
                assert!(done <= 4, "{reason:?}: {done}");
            }
        }
    }
}
