//! The contents and the state of a slot, in the words of the protocol.

use osbuild_protocol::{Contents, Release, SlotState};
use osbuild_slots::{Header, HeaderError, Slot};

/// A slot, and the start of the SHA-256 of its release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The slot's name.
    pub slot: String,
    /// Hexadecimal digits, as `status` shows them.
    pub sha256: String,
}

impl Held {
    /// The release in `slot` whose SHA-256 begins with these digits.
    pub fn new(slot: &str, sha256: &str) -> Self {
        Held { slot: slot.to_owned(), sha256: sha256.to_owned() }
    }

    /// The release that `slot` holds, if it holds one.
    pub fn of(slot: &str, contents: &Contents) -> Option<Self> {
        match contents {
            Contents::Release(release) => Some(Held::new(slot, &release.sha256)),
            _ => None,
        }
    }
}

/// The contents of a slot whose header has these bytes.
pub fn contents(header: &[u8]) -> Contents {
    match Header::parse(header) {
        Ok(header) => {
            let sha256 = header.sha256[..6].iter().map(|byte| format!("{byte:02x}")).collect();
            Contents::Release(Release { version: header.version, sha256 })
        }
        Err(HeaderError::Empty) => Contents::Empty,
        Err(error) => Contents::Damaged(error.to_string()),
    }
}

/// The state of a slot.
pub fn state(slot: &Slot) -> SlotState {
    match slot.state {
        state if state.priority == 0 => SlotState::NotBootable,
        state if state.successful => SlotState::Good,
        state => SlotState::OnTrial { tries_left: state.tries },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_slots::State;

    #[test]
    fn a_slot_is_described_by_version_and_digest() {
        let header = Header { length: 1, sha256: [0xAB; 32], version: "1.35.8".to_owned() };
        let mut bytes = header.encode().unwrap();
        let shown = |bytes: &[u8]| contents(bytes).words();
        assert_eq!(shown(&bytes), "version 1.35.8, sha256 abababababab");
        bytes[20] ^= 1;
        assert_eq!(shown(&bytes), "damaged (the checksum of its header is wrong)");
        assert_eq!(shown(&[0; 4096]), "empty");
    }

    #[test]
    fn a_slot_is_good_on_trial_or_not_to_be_booted() {
        let shown = |priority, tries, successful| {
            let state = State { priority, tries, successful };
            let slot = Slot {
                name: "SLOT-A",
                guid: uuid::Uuid::nil(),
                number: 2,
                first: 1,
                sectors: 1,
                state,
            };
            super::state(&slot).words()
        };
        assert_eq!(shown(1, 14, false), "on trial, tries left: 14");
        assert_eq!(shown(2, 0, true), "good");
        assert_eq!(shown(0, 0, true), "not to be booted");
    }
}
