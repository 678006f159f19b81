//! The long name of an entry. Its parts precede the entry, the last part first (FAT specification
//! 1.03, "Long Directory Entries").

use super::raw::{DirEntry, LongNameEntry};

/// The flag in a part's number that marks the last part of a name, which comes first.
const LAST: u8 = 0x40;
/// The maximum number of parts of a name.
const MAX_PARTS: u8 = 20;

/// The parts of a name so far.
#[derive(Debug, Default)]
pub(crate) struct LongName {
    units: Vec<u16>,
    /// The number of parts that are still missing.
    left: u8,
    /// The checksum that all parts share; `None` before the first part.
    checksum: Option<u8>,
}

impl LongName {
    /// Adds the next part; `None` if it is out of order, because readers differ in whether they
    /// accept it.
    pub fn push(&mut self, part: &LongNameEntry) -> Option<()> {
        let (number, checksum) = (part.number & !LAST, Some(part.checksum));
        if part.number & LAST != 0 {
            *self = LongName { units: Vec::new(), left: number, checksum };
        }
        let is_next =
            (1..=MAX_PARTS).contains(&number) && number == self.left && checksum == self.checksum;
        if !is_next || part.kind != 0 || part.first_cluster != 0 {
            return None;
        }
        self.left -= 1;
        self.units.splice(..0, units(part));
        Some(())
    }

    /// Takes the name of the entry after the parts, empty if it has none; `None` if the parts
    /// belong to another entry.
    pub fn take_for(&mut self, entry: &DirEntry) -> Option<Vec<u16>> {
        let name = std::mem::take(self);
        let is_own = name
            .checksum
            .is_none_or(|own| own == checksum(entry) && name.left == 0 && !name.units.is_empty());
        is_own.then_some(name.units)
    }
}

/// The up to 13 UTF-16 code units of a part.
fn units(part: &LongNameEntry) -> impl Iterator<Item = u16> {
    let units = part.units1.iter().chain(&part.units2).chain(&part.units3);
    units.map(|unit| unit.get()).take_while(|unit| *unit != 0)
}

/// The checksum of an entry's short name.
fn checksum(entry: &DirEntry) -> u8 {
    entry.name.iter().fold(0, |sum: u8, byte| sum.rotate_right(1).wrapping_add(*byte))
}
