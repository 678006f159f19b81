//! The superblock of an ext4 file system (Linux, Documentation/filesystems/ext4/super.rst).
//!
//! Linux writes it in its place when it mounts and unmounts, past the journal, with a checksum at
//! its end. It has 1024 bytes: if the power goes while a disk of smaller sectors has written one of
//! them, the checksum is wrong, and neither Linux nor `e2fsck -p` take the file system any more.

use alloc::vec;
use core::ops::Range;

use crc::{CRC_32_ISCSI, Crc};

use crate::gpt::{Source, Write};
use crate::le;

/// Where the first superblock stands, in bytes.
const START: u64 = 1024;
/// Bytes of it.
const SIZE: usize = 1024;
/// Where it has its checksum, of all that is before that.
const CHECKSUM: usize = SIZE - 4;
/// The smallest sectors that a disk has.
const SECTOR: usize = 512;

/// The number by which a superblock is known, and where it stands.
const MAGIC: (usize, u16) = (0x38, 0xEF53);
/// Which of the features that read-only mounts may not know there are, and the bit for checksums.
const FEATURES: usize = 0x64;
const HAS_CHECKSUMS: u32 = 0x400;
/// Where it says how large blocks are, as a power of two times 1024; how many a group has; and the
/// first block of all.
const BLOCK_SIZE: usize = 0x18;
const GROUP: usize = 0x20;
const FIRST_BLOCK: usize = 0x14;
/// What neither mounting nor growing changes: the layout, the magic number, revision, inodes,
/// journal, descriptors, and the checksum's kind and seed.
const FIXED: [Range<usize>; 8] = [
    0x14..0x2C,
    0x38..0x3A,
    0x4C..0x50,
    0x54..0x5A,
    0xE0..0xE4,
    0xFE..0x100,
    0x174..0x176,
    0x270..0x274,
];

/// The write that makes a superblock good which is half the new one and half the old: each half is
/// one that Linux meant, and what they differ in are counters and times. It writes one sector, so a
/// power cut leaves it to the next boot. `None` if the checksum is right, and if it is wrong for
/// another reason: then the second superblock differs in what nobody changes.
///
/// # Errors
/// The volume cannot be read.
pub fn mend<D: Source + ?Sized>(volume: &mut D) -> Result<Option<Write>, D::Error> {
    let mut first = [0; SIZE];
    volume.read_at(START, &mut first)?;
    let Some(place) =
        place_of_second(&first).filter(|_| Some(checksum(&first)) != le::u32_at(&first, CHECKSUM))
    else {
        return Ok(None);
    };
    let mut second = [0; SIZE];
    volume.read_at(place, &mut second)?;
    if FIXED.iter().any(|field| first[field.clone()] != second[field.clone()]) {
        return Ok(None);
    }
    let mut bytes = vec![0; SECTOR];
    bytes.copy_from_slice(&first[SIZE - SECTOR..]);
    le::put(&mut bytes, CHECKSUM - (SIZE - SECTOR), checksum(&first).to_le_bytes());
    Ok(Some(Write { offset: START + (SIZE - SECTOR) as u64, bytes }))
}

/// Where the second superblock stands, in bytes, by what the first one says; `None` if that is none
/// with a checksum.
fn place_of_second(first: &[u8; SIZE]) -> Option<u64> {
    let field = |offset| le::u32_at(first, offset);
    let is_ours =
        le::u16_at(first, MAGIC.0) == Some(MAGIC.1) && field(FEATURES)? & HAS_CHECKSUMS != 0;
    let block = 1024u64.checked_shl(field(BLOCK_SIZE)?).filter(|size| *size <= 64 << 10)?;
    let number = u64::from(field(GROUP)?) + u64::from(field(FIRST_BLOCK)?);
    (is_ours && number > 0).then(|| number * block)
}

/// The checksum that a superblock with these bytes has to have.
fn checksum(superblock: &[u8; SIZE]) -> u32 {
    // ext4 does not turn the bits at the end, as iSCSI does.
    !Crc::<u32>::new(&CRC_32_ISCSI).checksum(&superblock[..CHECKSUM])
}
