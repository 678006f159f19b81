//! The protective MBR, which tells programs without GPT that the disk is taken (UEFI 2.10, 5.2.3).

use alloc::vec::Vec;
use core::ops::Range;

use super::Geometry;
use crate::le;

const RECORDS: usize = 446;
const RECORD_SIZE: usize = 16;
const SIGNATURE: usize = 510;
/// The type of the one record that covers the disk.
const PROTECTIVE: u8 = 0xEE;
/// Where the first record has its last CHS address. Tools differ in that, and nothing reads it.
const LAST_CHS: Range<usize> = RECORDS + 5..RECORDS + 8;

/// Gives the first sector as it should be, or `None` if `found` already protects the disk, or is
/// somebody else's to keep: an MBR with further partitions. The boot code in `found` stays.
pub(super) fn protective(found: &[u8], geometry: Geometry) -> Option<Vec<u8>> {
    let signed = found[SIGNATURE..SIGNATURE + 2] == [0x55, 0xAA];
    let (records, _) = found[RECORDS..SIGNATURE].as_chunks::<RECORD_SIZE>();
    // Byte 4 of a record is its type, and zero says that the record is unused.
    if signed && records.iter().any(|record| record[4] != 0 && record[4] != PROTECTIVE) {
        return None;
    }
    // From cylinder 0, head 0, sector 2 to the highest address that CHS can name; then the same as
    // first sector and length.
    let mut record = [0, 0x00, 0x02, 0x00, PROTECTIVE, 0xFF, 0xFF, 0xFF, 1, 0, 0, 0, 0, 0, 0, 0];
    le::put(&mut record, 12, u32::try_from(geometry.last()).unwrap_or(u32::MAX).to_le_bytes());
    let mut sector = found.to_vec();
    le::put(&mut sector, RECORDS, record);
    le::put(&mut sector, SIGNATURE, [0x55, 0xAA]);
    if is_same(found, &sector) {
        return None;
    }
    sector[RECORDS + RECORD_SIZE..SIGNATURE].fill(0);
    Some(sector)
}

/// Whether two sectors are the same to whoever reads them.
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    one[..LAST_CHS.start] == other[..LAST_CHS.start] && one[LAST_CHS.end..] == other[LAST_CHS.end..]
}
