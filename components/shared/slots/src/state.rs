//! The state of a slot, in ChromeOS's attribute bits.

use osbuild_abi::slot::{MAX_LEVEL, PRIORITY_BIT, SUCCESSFUL_BIT, TRIES_BIT};

/// The state in a slot's partition table entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// From 1 to 15; the highest boots first. A slot of priority 0 does not boot.
    pub priority: u8,
    /// How often it may still start without having become good, at most 15.
    pub tries: u8,
    /// Whether it has ever become good.
    pub successful: bool,
}

impl State {
    /// The state of a slot that is empty or being written.
    pub const EMPTY: State = State { priority: 0, tries: 0, successful: false };

    /// Reads the attributes of an entry.
    pub fn read(attributes: u64) -> State {
        let four = |bit: u32| (attributes >> bit) as u8 & MAX_LEVEL;
        let successful = attributes >> SUCCESSFUL_BIT & 1 == 1;
        State { priority: four(PRIORITY_BIT), tries: four(TRIES_BIT), successful }
    }

    /// Returns attributes with this state and all other bits unchanged.
    pub fn write(self, attributes: u64) -> u64 {
        let four = |value: u8, bit: u32| u64::from(value.min(MAX_LEVEL)) << bit;
        let mask = four(MAX_LEVEL, PRIORITY_BIT) | four(MAX_LEVEL, TRIES_BIT) | 1 << SUCCESSFUL_BIT;
        let successful = u64::from(self.successful) << SUCCESSFUL_BIT;
        attributes & !mask
            | four(self.priority, PRIORITY_BIT)
            | four(self.tries, TRIES_BIT)
            | successful
    }

    /// Whether the slot may start.
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
        fn a_state_reads_back_and_no_other_bit_changes(
            attributes: u64, priority in 0..=MAX_LEVEL, tries in 0..=MAX_LEVEL, successful: bool,
        ) {
            let state = State { priority, tries, successful };
            let written = state.write(attributes);
            prop_assert_eq!(State::read(written), state);
            prop_assert_eq!((written ^ attributes) & !(0x1FF << 48), 0);
        }
    }
}
