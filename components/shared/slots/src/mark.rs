//! The changes of a slot's state. Each takes a partition table and returns another. The caller
//! decides who may make which change.

use osbuild_abi::slot::UPDATE_TRIES;
use osbuild_formats::gpt::Table;

use crate::slot::{find, is_slot};
use crate::{State, other};

/// A change of a slot's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// slotboot starts the slot: one try less. A successful slot uses no tries and does not change.
    Started,
    /// The updater has written the slot: it boots next, a few times, and the other slot after it.
    ForTry,
    /// `init` found the slot to be good for long enough.
    Good,
    /// The updater is about to write the slot: it does not boot.
    Bad,
}

/// Returns the table with the slot of that name changed; `None` if the table has no such slot, or
/// if the slot cannot be started at all.
pub fn mark(table: &Table, name: &str, mark: Mark) -> Option<Table> {
    let before = State::read(find(table, name)?.attributes);
    let after = match mark {
        Mark::Started if !before.is_bootable() => return None,
        Mark::Started if before.successful => before,
        Mark::Started => State { tries: before.tries - 1, ..before },
        Mark::ForTry => State { priority: 2, tries: UPDATE_TRIES, successful: false },
        // A running slot can be started: a priority of zero was set while it ran, and stays.
        Mark::Good => State { tries: 0, successful: true, ..before },
        Mark::Bad => State::EMPTY,
    };
    let mut table = table.clone();
    set(&mut table, name, |_| after);
    if mark == Mark::ForTry {
        set(&mut table, other(name), |state| State { priority: state.priority.min(1), ..state });
    }
    Some(table)
}

fn set(table: &mut Table, name: &str, change: impl Fn(State) -> State) {
    // The same partition that `find` returns.
    if let Some(partition) =
        table.partitions.iter_mut().find(|partition| partition.name == name && is_slot(partition))
    {
        partition.attributes =
            change(State::read(partition.attributes)).write(partition.attributes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots;
    use alloc::string::ToString;
    use alloc::vec::Vec;
    use osbuild_abi::disk::{DATA_TYPE, SLOT_A, SLOT_B, SLOT_TYPE};
    use osbuild_formats::gpt::{Partition, guid_from_name};
    use proptest::prelude::*;

    fn table(a: State, b: State) -> Table {
        let partition = |number: u32, name: &str, kind: &str, attributes| Partition {
            number,
            type_guid: kind.parse().unwrap(),
            guid: guid_from_name(name),
            first: u64::from(number) * 100,
            last: u64::from(number) * 100 + 99,
            attributes,
            name: name.to_string(),
        };
        let slot =
            |number, name, state: State| partition(number, name, SLOT_TYPE, state.write(1 << 60));
        // A partition with the name but not the type of a slot.
        let impostor = partition(1, SLOT_A, DATA_TYPE, 0);
        Table {
            disk_guid: guid_from_name("disk"),
            partitions: [impostor, slot(2, SLOT_A, a), slot(3, SLOT_B, b)].into(),
        }
    }

    fn state(priority: u8, tries: u8, successful: bool) -> State {
        State { priority, tries, successful }
    }

    fn order(table: &Table) -> Vec<&'static str> {
        slots(table)
            .into_iter()
            .filter(|slot| slot.state.is_bootable())
            .map(|slot| slot.name)
            .collect()
    }

    fn state_of(table: &Table, name: &str) -> State {
        slots(table).into_iter().find(|slot| slot.name == name).unwrap().state
    }

    fn any_state() -> impl Strategy<Value = State> {
        (0..=15u8, 0..=15u8, any::<bool>())
            .prop_map(|(priority, tries, successful)| state(priority, tries, successful))
    }

    #[test]
    fn the_bootable_slot_of_highest_priority_comes_first() {
        assert_eq!(order(&table(state(1, 0, true), state(2, 1, false))), [SLOT_B, SLOT_A]);
        assert_eq!(order(&table(state(1, 0, true), state(2, 0, false))), [SLOT_A]);
        assert_eq!(order(&table(state(3, 0, true), state(3, 0, true))), [SLOT_A, SLOT_B]);
        assert!(order(&table(State::EMPTY, state(15, 0, false))).is_empty());
    }

    #[test]
    fn an_update_that_never_becomes_good_falls_back() {
        let mut disk = mark(&table(state(1, 0, true), State::EMPTY), SLOT_B, Mark::ForTry).unwrap();
        for _ in 0..UPDATE_TRIES {
            assert_eq!(order(&disk)[0], SLOT_B);
            disk = mark(&disk, SLOT_B, Mark::Started).unwrap();
        }
        assert_eq!(order(&disk), [SLOT_A]);
        assert_eq!(mark(&disk, SLOT_B, Mark::Started), None);
    }

    #[test]
    fn a_partition_with_only_the_name_of_a_slot_never_changes() {
        let before = table(state(1, 3, false), State::EMPTY);
        for one in [Mark::Started, Mark::ForTry, Mark::Good, Mark::Bad] {
            assert_eq!(mark(&before, SLOT_A, one).unwrap().partitions[0], before.partitions[0]);
        }
        assert_eq!(mark(&before, "DATA", Mark::Good), None);
    }

    proptest! {
        #[test]
        fn a_slot_to_try_boots_next_and_the_other_slot_after_it(
            a in any_state(),
            b in any_state(),
        ) {
            let before = table(a, b);
            let after = mark(&before, SLOT_B, Mark::ForTry).unwrap();
            let old = if a.is_bootable() { &[SLOT_B, SLOT_A][..] } else { &[SLOT_B][..] };
            prop_assert_eq!(order(&after), old);
        }

        #[test]
        fn only_the_marked_slot_changes(a in any_state(), b in any_state(), which in 0..4usize) {
            let one = [Mark::Started, Mark::ForTry, Mark::Good, Mark::Bad][which];
            let before = table(a, b);
            if let Some(after) = mark(&before, SLOT_A, one) {
                let other = state_of(&after, SLOT_B);
                let visible = |state: State| (state.tries, state.successful, state.is_bootable());
                prop_assert_eq!(visible(other), visible(b));
                let other_bits = |table: &Table| table.partitions[1].attributes >> 57;
                prop_assert_eq!(other_bits(&after), other_bits(&before));
            }
        }

        #[test]
        fn a_started_slot_loses_one_try_until_it_is_good(a in any_state()) {
            match mark(&table(a, State::EMPTY), SLOT_A, Mark::Started) {
                None => prop_assert!(!a.is_bootable()),
                Some(after) if a.successful => prop_assert_eq!(state_of(&after, SLOT_A), a),
                Some(after) => {
                    let expected = State { tries: a.tries - 1, ..a };
                    prop_assert_eq!(state_of(&after, SLOT_A), expected);
                }
            }
        }

        #[test]
        fn a_good_slot_needs_no_tries_and_a_bad_one_does_not_boot(
            a in any_state(),
            b in any_state(),
        ) {
            let good = mark(&table(a, b), SLOT_A, Mark::Good).unwrap();
            prop_assert_eq!(state_of(&good, SLOT_A).is_bootable(), a.priority > 0);
            let bad = mark(&good, SLOT_A, Mark::Bad).unwrap();
            prop_assert!(!order(&bad).contains(&SLOT_A));
        }
    }
}
