//! The protective MBR, which shows programs without GPT support that the disk is in use (UEFI 2.10,
//! 5.2.3).

use alloc::vec::Vec;
use core::mem::offset_of;

use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Geometry;

const SIGNATURE: [u8; 2] = [0x55, 0xAA];
/// The type of an unused record.
const UNUSED: u8 = 0;
/// The type of the one record that covers the disk.
const PROTECTIVE: u8 = 0xEE;

/// The first 512 bytes of the disk.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Mbr {
    boot_code: [u8; 446],
    records: [Record; 4],
    signature: [u8; 2],
}

/// A partition, with addresses as cylinder, head and sector (CHS) and as sector numbers.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Record {
    boot_indicator: u8,
    first_chs: [u8; 3],
    os_type: u8,
    last_chs: [u8; 3],
    first: U32,
    sectors: U32,
}

/// The offset of the first record's last CHS address.
const LAST_CHS: usize = offset_of!(Mbr, records) + offset_of!(Record, last_chs);

/// Returns the first sector with a protective MBR, or `None` if `found` already protects the disk,
/// or holds other partitions, which are not ours to remove. The boot code in `found` stays.
pub(super) fn protective(found: &[u8], geometry: Geometry) -> Option<Vec<u8>> {
    let mut sector = found.to_vec();
    let (mbr, _) = Mbr::mut_from_prefix(&mut sector).ok()?;
    let is_foreign = |record: &Record| ![UNUSED, PROTECTIVE].contains(&record.os_type);
    if mbr.signature == SIGNATURE && mbr.records.iter().any(is_foreign) {
        return None;
    }
    // From cylinder 0, head 0, sector 2 to the highest CHS address.
    mbr.records[0] = Record {
        boot_indicator: 0,
        first_chs: [0x00, 0x02, 0x00],
        os_type: PROTECTIVE,
        last_chs: [0xFF; 3],
        first: 1.into(),
        sectors: u32::try_from(geometry.last()).unwrap_or(u32::MAX).into(),
    };
    mbr.signature = SIGNATURE;
    if is_same(found, &sector) {
        return None;
    }
    let (mbr, _) = Mbr::mut_from_prefix(&mut sector).ok()?;
    mbr.records[1..].fill(Record::new_zeroed());
    Some(sector)
}

/// Whether two sectors are equal apart from the first record's last CHS address, which no program
/// reads and which tools set differently.
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    one[..LAST_CHS] == other[..LAST_CHS] && one[LAST_CHS + 3..] == other[LAST_CHS + 3..]
}
