//! The state of a slot, in ChromeOS's attribute bits.

use osbuild_abi::slot::{MOST, PRIORITY_BIT, SUCCESSFUL_BIT, TRIES_BIT};

/// What a slot's entry in the partition table says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// From 1 to 15, the highest is booted first. A slot of priority 0 is not booted.
    pub priority: u8,
    /// How often it may still be started without having become a good node, at most 15.
    pub tries: u8,
    /// Whether it has once become a good node.
    pub successful: bool,
}

impl State {
    /// The state of a slot that is empty, or is being written.
    pub const EMPTY: State = State { priority: 0, tries: 0, successful: false };

    /// Reads the attributes of an entry.
    pub fn read(attributes: u64) -> State {
        let four = |bit: u32| (attributes >> bit) as u8 & MOST;
        let successful = attributes >> SUCCESSFUL_BIT & 1 == 1;
        State { priority: four(PRIORITY_BIT), tries: four(TRIES_BIT), successful }
    }

    /// Gives attributes with this state in them, and all other bits as they were.
    pub fn write(self, attributes: u64) -> u64 {
        let four = |value: u8, bit: u32| u64::from(value.min(MOST)) << bit;
        let mask = four(MOST, PRIORITY_BIT) | four(MOST, TRIES_BIT) | 1 << SUCCESSFUL_BIT;
        let successful = u64::from(self.successful) << SUCCESSFUL_BIT;
        attributes & !mask
            | four(self.priority, PRIORITY_BIT)
            | four(self.tries, TRIES_BIT)
            | successful
    }

    /// Whether the slot may be started.
    pub fn is_bootable(self) -> bool {
        self.priority > 0 && (self.successful || self.tries > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_a_slot_with_priority_and_tries_or_success_is_bootable() {
        let state = |priority, tries, successful| State { priority, tries, successful };
        for bootable in [state(1, 1, false), state(15, 0, true), state(1, 15, true)] {
            assert!(bootable.is_bootable(), "{bootable:?}");
        }
        for not in [State::EMPTY, state(0, 15, false), state(0, 3, true), state(15, 0, false)] {
            assert!(!not.is_bootable(), "{not:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_no_other_bit_changes(
            attributes: u64, priority in 0..=MOST, tries in 0..=MOST, successful: bool,
        ) {
            let state = State { priority, tries, successful };
            let written = state.write(attributes);
            prop_assert_eq!(State::read(written), state);
            prop_assert_eq!((written ^ attributes) & !(0x1FF << 48), 0);
        }
    }
}
