//! Why slotboot passed over a slot.

use alloc::string::String;

/// Why slotboot did not start a slot that precedes the started one in the boot order. The firmware
/// variable and `init`'s `status` carry its number. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassReason {
    /// A reason that this release does not know.
    Unknown = 0,
    /// The slot's priority is 0.
    NotBootable = 1,
    /// The slot has no tries left.
    NoTries = 2,
    /// The disk did not keep the count of tries, so the next boot would be the same.
    NotCounted = 3,
    /// The slot has no header, or a damaged one.
    Header = 4,
    /// The UKI's length does not fit the slot.
    Length = 5,
    /// The machine has too little memory for the UKI.
    Memory = 6,
    /// The disk cannot be read.
    Unreadable = 7,
    /// The UKI's SHA-256 is not the one in the header.
    Digest = 8,
    /// The firmware refuses the UKI, usually because of its signature.
    Refused = 9,
    /// The UKI's security epoch is below the machine's minimum.
    EpochTooOld = 10,
    /// The UKI's security epoch cannot be read.
    EpochUnreadable = 11,
    /// The UKI returned to slotboot.
    Returned = 12,
}

/// Why a slot was passed over: the reason for programs, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// The reason.
    pub reason: PassReason,
    /// The sentence.
    pub text: String,
}

impl PassReason {
    /// All of them.
    pub const ALL: [PassReason; 13] = [
        Self::Unknown,
        Self::NotBootable,
        Self::NoTries,
        Self::NotCounted,
        Self::Header,
        Self::Length,
        Self::Memory,
        Self::Unreadable,
        Self::Digest,
        Self::Refused,
        Self::EpochTooOld,
        Self::EpochUnreadable,
        Self::Returned,
    ];

    /// The number on the wire.
    pub fn code(self) -> u16 {
        self as u16
    }

    /// The reason of a number; [`Self::Unknown`] if this release does not know it.
    pub fn from_code(code: u16) -> Self {
        Self::ALL.into_iter().find(|reason| reason.code() == code).unwrap_or(Self::Unknown)
    }

    /// Whether slotboot may pass over the slot for this reason at every boot without spending a
    /// try. Rebooting into such a slot could repeat forever. All other known reasons spend a try,
    /// or follow from a slot state that writing the slot changes.
    pub fn may_last_forever(self) -> bool {
        matches!(self, Self::Unknown | Self::NotCounted)
    }

    /// The reason for a sentence of version 0.
    pub(crate) fn of_version_0(sentence: &str) -> Self {
        const OPENINGS: [(&str, PassReason); 15] = [
            ("it is not to be booted", PassReason::NotBootable),
            ("it has no tries left", PassReason::NoTries),
            ("its try cannot be counted", PassReason::NotCounted),
            ("it is empty", PassReason::Header),
            ("it does not begin with a header", PassReason::Header),
            ("the checksum of its header is wrong", PassReason::Header),
            ("its header has a layout", PassReason::Header),
            ("its version is not printable text", PassReason::Header),
            ("its header speaks of", PassReason::Length),
            ("there is no memory for its", PassReason::Memory),
            ("its bytes are not those", PassReason::Digest),
            ("the firmware refuses it", PassReason::Refused),
            ("its security epoch is no number", PassReason::EpochUnreadable),
            ("its security epoch is", PassReason::EpochTooOld),
            ("it came back", PassReason::Returned),
        ];
        let found = OPENINGS.into_iter().find(|(opening, _)| sentence.starts_with(opening));
        found.map_or(Self::Unknown, |(_, reason)| reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_means_the_same_in_every_release() {
        for (code, reason) in PassReason::ALL.into_iter().enumerate() {
            assert_eq!((reason.code(), PassReason::from_code(code as u16)), (code as u16, reason));
        }
        assert_eq!(PassReason::from_code(13), PassReason::Unknown);
        assert_eq!(PassReason::from_code(u16::MAX), PassReason::Unknown);
    }

    #[test]
    fn an_unknown_reason_may_last_forever() {
        assert!(PassReason::from_code(999).may_last_forever());
        assert!(PassReason::of_version_0("the moon is full").may_last_forever());
        assert!(!PassReason::of_version_0("it came back: aborted").may_last_forever());
    }
}
