//! The partitions of a disk, independent of how they are stored.

use alloc::vec;
use alloc::vec::Vec;

use uuid::Uuid;
use zerocopy::{FromBytes, IntoBytes};

use super::partition::{Entry, Partition};
use super::{ARRAY_SIZE, ENTRIES, ENTRY_SIZE, Error};

/// A disk's identifier and its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The disk's unique identifier.
    pub disk_guid: Uuid,
    /// The partitions in ascending order of their numbers.
    pub partitions: Vec<Partition>,
}

impl Table {
    /// The partition with this name; the first one if there are several.
    pub fn named(&self, name: &str) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.name == name)
    }

    /// The partition that ends last on the disk.
    pub fn last(&self) -> Option<&Partition> {
        self.partitions.iter().max_by_key(|partition| partition.last)
    }

    /// Refuses a table that an array of entries cannot hold, and partitions that overlap or are not
    /// within the usable sectors.
    pub(super) fn check(&self, first_usable: u64, last_usable: u64) -> Result<(), Error> {
        let mut previous = 0;
        for partition in &self.partitions {
            if partition.number <= previous
                || partition.number > ENTRIES as u32
                || partition.type_guid.is_nil()
            {
                return Err(Error::Number(partition.number));
            }
            previous = partition.number;
            if !partition.name_fits() {
                return Err(Error::Name(partition.number));
            }
            if partition.first > partition.last
                || partition.first < first_usable
                || partition.last > last_usable
            {
                return Err(Error::OutOfRange(partition.number));
            }
        }
        let mut by_place: Vec<&Partition> = self.partitions.iter().collect();
        by_place.sort_by_key(|partition| partition.first);
        match by_place.windows(2).find(|pair| pair[0].last >= pair[1].first) {
            Some(pair) => Err(Error::Overlap(pair[0].number, pair[1].number)),
            None => Ok(()),
        }
    }

    /// Reads an array of entries.
    pub(super) fn decode(disk_guid: Uuid, array: &[u8]) -> Result<Self, Error> {
        let (entries, _) = <[Entry]>::ref_from_prefix_with_elems(array, ENTRIES)
            .map_err(|_| Error::ArrayChecksum)?;
        let mut partitions = Vec::new();
        for (entry, number) in entries.iter().zip(1..) {
            partitions.extend(Partition::decode(number, entry)?);
        }
        Ok(Self { disk_guid, partitions })
    }

    /// Returns the array of entries. The table must have passed [`Self::check`].
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut array = vec![0; ARRAY_SIZE];
        for partition in &self.partitions {
            let start = (partition.number as usize - 1) * ENTRY_SIZE;
            array[start..start + ENTRY_SIZE].copy_from_slice(partition.encode().as_bytes());
        }
        array
    }
}
