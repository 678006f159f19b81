//! What a slot holds, as its header describes it.

use std::fmt;

use osbuild_slots::{Header, HeaderError, Slot};

/// What a slot holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing.
    Empty,
    /// A release with this header.
    Release(Header),
    /// A header that cannot be read, and why.
    Damaged(String),
}

impl Content {
    /// What a slot holds whose header has these bytes.
    pub fn of_header(header: &[u8]) -> Self {
        match Header::parse(header) {
            Ok(header) => Self::Release(header),
            Err(HeaderError::Empty) => Self::Empty,
            Err(error) => Self::Damaged(error.to_string()),
        }
    }

    /// The first digits of the SHA-256 of the release, if there is one.
    pub fn digest(&self) -> Option<String> {
        match self {
            Self::Release(header) => Some(short(header)),
            Self::Empty | Self::Damaged(_) => None,
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Release(header) => {
                write!(out, "version {}, sha256 {}", header.version, short(header))
            }
            Self::Empty => out.write_str("empty"),
            Self::Damaged(why) => write!(out, "damaged ({why})"),
        }
    }
}

fn short(header: &Header) -> String {
    header.sha256[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A slot, and how the SHA-256 of what it holds begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The slot's name.
    pub slot: String,
    /// Hexadecimal digits, as `status` shows them.
    pub sha256: String,
}

impl Held {
    /// What `slot` holds.
    pub fn new(slot: &str, sha256: &str) -> Self {
        Held { slot: slot.to_owned(), sha256: sha256.to_owned() }
    }
}

/// The state of a slot, in words.
pub fn state(slot: &Slot) -> String {
    match slot.state {
        state if state.priority == 0 => "not to be booted".to_owned(),
        state if state.successful => "good".to_owned(),
        state => format!("on trial, tries left: {}", state.tries),
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
        let shown = |bytes: &[u8]| Content::of_header(bytes).to_string();
        assert_eq!(shown(&bytes), "version 1.35.8, sha256 abababababab");
        bytes[20] ^= 1;
        assert_eq!(shown(&bytes), "damaged (the checksum of its header is wrong)");
        assert_eq!(shown(&[0; 4096]), "empty");
    }

    #[test]
    fn a_slot_is_good_on_trial_or_not_to_be_booted() {
        let shown = |priority, tries, successful| {
            let state = State { priority, tries, successful };
            super::state(&Slot {
                name: "SLOT-A",
                guid: uuid::Uuid::nil(),
                number: 2,
                first: 1,
                sectors: 1,
                state,
            })
        };
        assert_eq!(shown(1, 14, false), "on trial, tries left: 14");
        assert_eq!(shown(2, 0, true), "good");
        assert_eq!(shown(0, 0, true), "not to be booted");
    }
}
