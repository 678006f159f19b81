//! The long name of an entry. It stands in parts before that, the last one first (FAT specification
//! 1.03, "Long Directory Entries").

use super::tree::ENTRY;

/// A bit of a part's number: the name's last part, which comes first.
const LAST: u8 = 0x40;
/// The most parts of a name.
const MOST: u8 = 20;
/// Where a part has its kind, which is zero, and the checksum of the short name to which it
/// belongs.
const KIND: usize = 12;
const CHECKSUM: usize = 13;
/// Where a part has the number of a cluster, which is zero.
const CLUSTER: usize = 26;

/// As much of a name as there was.
#[derive(Debug, Default)]
pub(super) struct LongName {
    units: Vec<u16>,
    /// How many parts have still to come.
    left: u8,
    /// The checksum that all parts have; none as long as there is no part.
    checksum: Option<u8>,
}

impl LongName {
    /// Takes the next part; `None` if it is not the next one, which some readers pass over and
    /// others take.
    pub fn take(&mut self, part: &[u8; ENTRY]) -> Option<()> {
        let (number, checksum) = (part[0] & !LAST, Some(part[CHECKSUM]));
        if part[0] & LAST != 0 {
            *self = LongName { units: Vec::new(), left: number, checksum };
        }
        let is_next =
            (1..=MOST).contains(&number) && number == self.left && checksum == self.checksum;
        if !is_next || part[KIND] != 0 || part[CLUSTER..CLUSTER + 2] != [0; 2] {
            return None;
        }
        self.left -= 1;
        self.units.splice(..0, units(part));
        Some(())
    }

    /// The name of the entry behind the parts, empty if that has none; `None` if they are not its
    /// own. What comes next begins anew.
    pub fn of(&mut self, entry: &[u8; ENTRY]) -> Option<Vec<u16>> {
        let name = std::mem::take(self);
        let is_own = name
            .checksum
            .is_none_or(|own| own == checksum(entry) && name.left == 0 && !name.units.is_empty());
        is_own.then_some(name.units)
    }
}

/// The up to 13 units of a name that a part holds.
fn units(part: &[u8; ENTRY]) -> impl Iterator<Item = u16> {
    let places = [1..11, 14..26, 28..32];
    places
        .into_iter()
        .flat_map(|place| part[place].chunks_exact(2))
        .map(|unit| u16::from_le_bytes([unit[0], unit[1]]))
        .take_while(|unit| *unit != 0)
}

/// The checksum of an entry's short name.
fn checksum(entry: &[u8; ENTRY]) -> u8 {
    entry[..11].iter().fold(0, |sum: u8, byte| sum.rotate_right(1).wrapping_add(*byte))
}
