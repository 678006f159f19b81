//! The slots of a disk.

use alloc::vec::Vec;
use core::cmp::Reverse;

use osbuild_abi::disk::{SLOT_A, SLOT_B, SLOT_TYPE};
use osbuild_formats::gpt::{Partition, Table};
use uuid::Uuid;

use crate::State;

/// One slot, from the partition table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its name: `SLOT-A` or `SLOT-B`.
    pub name: &'static str,
    /// The unique identifier of its partition.
    pub guid: Uuid,
    /// The number of its partition, from 1.
    pub number: u32,
    /// Its first sector.
    pub first: u64,
    /// The number of its sectors.
    pub sectors: u64,
    /// Its state.
    pub state: State,
}

/// The slots of a table in boot order: by priority, and `SLOT-A` before `SLOT-B`.
pub fn slots(table: &Table) -> Vec<Slot> {
    let mut slots: Vec<Slot> =
        [SLOT_A, SLOT_B].into_iter().filter_map(|name| slot(table, name)).collect();
    slots.sort_by_key(|slot| Reverse(slot.state.priority));
    slots
}

/// The name of the other slot.
pub fn other(name: &str) -> &'static str {
    if name == SLOT_A { SLOT_B } else { SLOT_A }
}

fn slot(table: &Table, name: &'static str) -> Option<Slot> {
    let partition = find(table, name)?;
    let &Partition { guid, number, first, attributes, .. } = partition;
    Some(Slot {
        name,
        guid,
        number,
        first,
        sectors: partition.sectors(),
        state: State::read(attributes),
    })
}

/// The partition of a slot: the first with this name and the type of a slot.
pub(crate) fn find<'t>(table: &'t Table, name: &str) -> Option<&'t Partition> {
    table.partitions.iter().find(|partition| partition.name == name && is_slot(partition))
}

pub(crate) fn is_slot(partition: &Partition) -> bool {
    Uuid::try_parse(SLOT_TYPE).is_ok_and(|slot| slot == partition.type_guid)
}
