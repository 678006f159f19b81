//! The protective MBR, which tells programs without GPT that the disk is taken (UEFI 2.10, 5.2.3).

use alloc::vec::Vec;

use super::Geometry;
use crate::le;

const RECORDS: usize = 446;
const RECORD_SIZE: usize = 16;
const SIGNATURE: usize = 510;
/// The type of the one record that covers the disk.
const PROTECTIVE: u8 = 0xEE;

/// Gives the first sector as it should be, or `None` if `found` already protects the disk, or is somebody else's to keep:
/// an MBR with further partitions. The boot code in `found` stays.
pub(super) fn protective(found: &[u8], geometry: Geometry) -> Option<Vec<u8>> {
    let signed = found[SIGNATURE..SIGNATURE + 2] == [0x55, 0xAA];
    let (records, _) = found[RECORDS..SIGNATURE].as_chunks::<RECORD_SIZE>();
    // Byte 4 of a record is its type, and zero says that the record is unused.
    if signed && records.iter().any(|record| record[4] != 0 && record[4] != PROTECTIVE) {
        return None;
    }
    // From cylinder 0, head 0, sector 2 to the highest address that CHS can name; then the same as first sector and length.
    let mut record = [0, 0x00, 0x02, 0x00, PROTECTIVE, 0xFF, 0xFF, 0xFF, 1, 0, 0, 0, 0, 0, 0, 0];
    le::put(&mut record, 12, u32::try_from(geometry.last()).unwrap_or(u32::MAX).to_le_bytes());
    // Tools differ in the last CHS address, which nothing reads.
    if signed && records[0][..5] == record[..5] && records[0][8..] == record[8..] {
        return None;
    }
    let mut sector = found.to_vec();
    sector[RECORDS..SIGNATURE].fill(0);
    le::put(&mut sector, RECORDS, record);
    le::put(&mut sector, SIGNATURE, [0x55, 0xAA]);
    Some(sector)
}
