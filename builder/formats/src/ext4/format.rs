//! A new, empty file system in the first block group of a volume. Linux adds the other groups when
//! it [resizes](https://docs.kernel.org/filesystems/ext4/) the mounted file system, so this writes
//! the same few megabytes to a volume of any size.
//!
//! The first sector of a volume is no part of ext4. Until the file system is whole, it has a mark
//! with the identifier that the file system will have. A power cut leaves the volume blank, marked,
//! or whole.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromZeros, IntoBytes};

use super::structures::{
    EXTENTS_MAGIC, Entry, Extents, FOLDER, GroupDescriptor, HAS_EXTENTS, INODES_ZEROED, Inode,
    JOURNAL_MAGIC, JOURNAL_SUPERBLOCK, JournalSuperblock, TAIL, Tail,
};
use super::superblock::{MAGIC, METADATA_CSUM, START, Superblock};
use super::{SECTOR, checksum};
use crate::gpt::{Source, Write};

/// The smallest volume in bytes: it has at least two groups.
pub const MIN_SIZE: u64 = 256 << 20;

/// The start of a mark, which the identifier follows.
const MARK: &[u8; 32] = b"osbuild: unfinished file system ";

const BLOCK: usize = 4096;
/// The blocks of a group: as many as a block has bits.
const GROUP: u32 = 32768;
const INODES: u32 = 8192;
const INODE_SIZE: usize = size_of::<Inode>();
/// Larger ones cost memory, and smaller ones slow down programs that flush often.
const JOURNAL_BLOCKS: u32 = 16384;

/// The places of everything, in blocks.
const DESCRIPTORS: u32 = 1;
const BLOCK_BITMAP: u32 = 2;
const INODE_BITMAP: u32 = 3;
const INODE_TABLE: u32 = 4;
const ROOT: u32 = INODE_TABLE + INODES * INODE_SIZE as u32 / BLOCK as u32;
const LOST_AND_FOUND: u32 = ROOT + 1;
const JOURNAL: u32 = LOST_AND_FOUND + 1;
const USED: u32 = JOURNAL + JOURNAL_BLOCKS;

/// The numbers of inodes, from 1.
const ROOT_INODE: u32 = 2;
const JOURNAL_INODE: u32 = 8;
const LOST_AND_FOUND_INODE: u32 = 11;

/// The features that `mke2fs` gives a file system by default, but for room for more descriptors:
/// Linux places those of later groups in these groups. The seed of checksums lets programs change
/// the identifier.
const COMPATIBLE: u32 = 0x4 | 0x8 | 0x20;
const INCOMPATIBLE: u32 = 0x2 | 0x40 | 0x80 | 0x200 | 0x2000;
const READ_ONLY_COMPATIBLE: u32 = 0x1 | 0x2 | 0x8 | 0x20 | 0x40 | METADATA_CSUM;

/// The parameters of a new file system.
#[derive(Clone, Debug)]
pub struct Format {
    /// Its identifier.
    pub uuid: Uuid,
    /// Its label, of which 16 bytes count.
    pub label: String,
    /// A random number with which Linux orders the entries of folders.
    pub hash_seed: [u8; 16],
    /// The time in seconds since 1970.
    pub time: u32,
}

/// A step of formatting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write these bytes.
    Write(Write),
    /// Write zeros there.
    Zero {
        /// The offset in bytes.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// Wait until all is on the medium.
    Flush,
}

impl Format {
    /// The steps, which must be made in this order, and can be made again if they were interrupted.
    pub fn steps(&self) -> Vec<Step> {
        let zero = |first: u32, blocks: u32| Step::Zero {
            offset: u64::from(first) * BLOCK as u64,
            length: u64::from(blocks) * BLOCK as u64,
        };
        let mark = [MARK, self.uuid.as_bytes().as_slice()].concat();
        let bitmaps = [bitmap(USED, GROUP), bitmap(LOST_AND_FOUND_INODE, INODES)];
        vec![
            write(0, sector(mark)),
            Step::Flush,
            zero(DESCRIPTORS, USED - DESCRIPTORS),
            at_block(DESCRIPTORS, self.descriptor(&bitmaps).as_bytes().to_vec()),
            at_block(BLOCK_BITMAP, bitmaps[0].clone()),
            at_block(INODE_BITMAP, bitmaps[1].clone()),
            self.inode(ROOT_INODE),
            self.inode(JOURNAL_INODE),
            self.inode(LOST_AND_FOUND_INODE),
            at_block(ROOT, self.folder(ROOT_INODE, ROOT_INODE, Some("lost+found"))),
            at_block(LOST_AND_FOUND, self.folder(LOST_AND_FOUND_INODE, ROOT_INODE, None)),
            at_block(JOURNAL, self.journal()),
            Step::Flush,
            write(START, self.superblock().as_bytes().to_vec()),
            Step::Flush,
            write(0, vec![0; SECTOR]),
            Step::Flush,
        ]
    }

    /// Whether a volume has the mark of this file system, and so a part of it at most.
    ///
    /// # Errors
    /// The volume cannot be read.
    pub fn is_unfinished<D: Source + ?Sized>(volume: &mut D, uuid: Uuid) -> Result<bool, D::Error> {
        let mut first = [0; SECTOR];
        volume.read_at(0, &mut first)?;
        Ok(first.starts_with(&[MARK, uuid.as_bytes().as_slice()].concat()))
    }

    fn superblock(&self) -> Superblock {
        let mut new = Superblock::new_zeroed();
        new.inodes = INODES.into();
        new.blocks = GROUP.into();
        new.free_blocks = (GROUP - USED).into();
        new.free_inodes = (INODES - LOST_AND_FOUND_INODE).into();
        (new.log_block_size, new.log_cluster_size) = (2.into(), 2.into());
        (new.blocks_per_group, new.clusters_per_group) = (GROUP.into(), GROUP.into());
        new.inodes_per_group = INODES.into();
        (new.write_time, new.last_check) = (self.time.into(), self.time.into());
        new.format_time = self.time.into();
        new.max_mount_count = u16::MAX.into();
        new.magic = MAGIC.into();
        // Unmounted in order. After an error it becomes read-only.
        (new.state, new.on_error) = (1.into(), 2.into());
        new.rev_level = 1.into();
        new.first_ino = LOST_AND_FOUND_INODE.into();
        new.inode_size = (INODE_SIZE as u16).into();
        new.feature_compat = COMPATIBLE.into();
        new.feature_incompat = INCOMPATIBLE.into();
        new.feature_ro_compat = READ_ONLY_COMPATIBLE.into();
        new.uuid = self.uuid.into_bytes();
        for (to, from) in new.label.iter_mut().zip(self.label.bytes()) {
            *to = from;
        }
        new.journal_inum = JOURNAL_INODE.into();
        new.hash_seed = self.hash_seed;
        // A half MD4, of bytes without a sign.
        (new.hash_version, new.flags) = (1, 2.into());
        new.journal_backup_type = 1;
        let extents = extents(JOURNAL, JOURNAL_BLOCKS);
        for (to, from) in new.journal_backup.iter_mut().zip(extents.as_bytes().chunks(4)) {
            *to = U32::from_bytes(from.try_into().unwrap_or_default());
        }
        new.journal_backup[16] = (JOURNAL_BLOCKS * BLOCK as u32).into();
        new.desc_size = (size_of::<GroupDescriptor>() as u16).into();
        // Extended attributes and ACLs.
        new.default_mount_options = 0xC.into();
        (new.min_extra_inode_size, new.wanted_extra_inode_size) = (32.into(), 32.into());
        (new.log_groups_per_flex, new.checksum_type) = (4, 1);
        new.checksum_seed = checksum(&[self.uuid.as_bytes()]).into();
        new.checksum = new.compute_checksum().into();
        new
    }

    fn descriptor(&self, [blocks, inodes]: &[Vec<u8>; 2]) -> GroupDescriptor {
        let mut new = GroupDescriptor::new_zeroed();
        new.block_bitmap = BLOCK_BITMAP.into();
        new.inode_bitmap = INODE_BITMAP.into();
        new.inode_table = INODE_TABLE.into();
        new.free_blocks = ((GROUP - USED) as u16).into();
        let unused = ((INODES - LOST_AND_FOUND_INODE) as u16).into();
        (new.free_inodes, new.unused_inodes) = (unused, unused);
        (new.folders, new.flags) = (2.into(), INODES_ZEROED.into());
        let of_blocks = self.checksum(&[blocks]);
        let of_inodes = self.checksum(&[&inodes[..INODES as usize / 8]]);
        (new.block_bitmap_checksum, new.block_bitmap_checksum_high) = halves(of_blocks);
        (new.inode_bitmap_checksum, new.inode_bitmap_checksum_high) = halves(of_inodes);
        let number = 0u32.to_le_bytes();
        (new.checksum, _) = halves(self.checksum(&[&number, new.as_bytes()]));
        new
    }

    fn inode(&self, number: u32) -> Step {
        let (mode, links, first, blocks) = match number {
            ROOT_INODE => (0o40755, 3, ROOT, 1),
            JOURNAL_INODE => (0o100600, 1, JOURNAL, JOURNAL_BLOCKS),
            _ => (0o40700, 2, LOST_AND_FOUND, 1),
        };
        let mut new = Inode::new_zeroed();
        (new.mode, new.links) = (U16::new(mode), links.into());
        new.size = (blocks * BLOCK as u32).into();
        new.sectors = (blocks * (BLOCK / SECTOR) as u32).into();
        let time = U32::new(self.time);
        (new.access_time, new.change_time, new.modify_time) = (time, time, time);
        new.creation_time = time;
        new.flags = HAS_EXTENTS.into();
        new.extents = extents(first, blocks);
        new.extra_size = 32.into();
        // The generation of each is 0.
        let right = self.checksum(&[&number.to_le_bytes(), &[0; 4], new.as_bytes()]);
        (new.checksum, new.checksum_high) = halves(right);
        let offset = u64::from(INODE_TABLE) * BLOCK as u64;
        write(offset + u64::from(number - 1) * INODE_SIZE as u64, new.as_bytes().to_vec())
    }

    /// A block of a folder, which has itself, the one above it, and perhaps a folder.
    fn folder(&self, number: u32, above: u32, other: Option<&str>) -> Vec<u8> {
        let end = BLOCK - size_of::<Tail>();
        let mut entries = vec![(number, "."), (above, "..")];
        entries.extend(other.map(|name| (LOST_AND_FOUND_INODE, name)));
        let mut block = Vec::new();
        for (index, (inode, name)) in entries.iter().enumerate() {
            let used = (size_of::<Entry>() + name.len()).next_multiple_of(4);
            let is_last = index + 1 == entries.len();
            let length = if is_last { end - block.len() } else { used };
            let next = block.len() + length;
            block.extend(entry(*inode, length, name.len() as u8, FOLDER).as_bytes());
            block.extend(name.as_bytes());
            block.resize(next, 0);
        }
        let right = self.checksum(&[&number.to_le_bytes(), &[0; 4], &block]);
        let tail = entry(0, size_of::<Tail>(), 0, TAIL);
        block.extend(Tail { entry: tail, checksum: right.into() }.as_bytes());
        block
    }

    fn journal(&self) -> Vec<u8> {
        let mut new = JournalSuperblock::new_zeroed();
        new.magic = JOURNAL_MAGIC.into();
        new.block_type = JOURNAL_SUPERBLOCK.into();
        new.block_size = (BLOCK as u32).into();
        new.blocks = JOURNAL_BLOCKS.into();
        (new.first_block, new.sequence, new.users) = (1.into(), 1.into(), 1.into());
        new.uuid = self.uuid.into_bytes();
        new.as_bytes().to_vec()
    }

    /// The checksum of metadata, which begins with that of the identifier.
    fn checksum(&self, parts: &[&[u8]]) -> u32 {
        checksum(&[&[self.uuid.as_bytes().as_slice()], parts].concat())
    }
}

fn extents(first: u32, blocks: u32) -> Extents {
    let mut new = Extents::new_zeroed();
    new.magic = EXTENTS_MAGIC.into();
    (new.entries, new.max_entries) = (1.into(), 4.into());
    (new.start, new.length) = (first.into(), (blocks as u16).into());
    new
}

fn entry(inode: u32, length: usize, name_length: u8, file_type: u8) -> Entry {
    Entry { inode: inode.into(), length: (length as u16).into(), name_length, file_type }
}

/// The lower and the upper half.
fn halves(checksum: u32) -> (U16, U16) {
    ((checksum as u16).into(), ((checksum >> 16) as u16).into())
}

/// A block whose first bits are set, and those that are past the end of what it is about.
fn bitmap(set: u32, bits: u32) -> Vec<u8> {
    let byte =
        |index: u32| (0..8).fold(0, |byte, bit| byte | u8::from(index * 8 + bit < set) << bit);
    let mut bytes: Vec<u8> = (0..bits / 8).map(byte).collect();
    bytes.resize(BLOCK, 0xFF);
    bytes
}

fn sector(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(SECTOR, 0);
    bytes
}

fn write(offset: u64, bytes: Vec<u8>) -> Step {
    Step::Write(Write { offset, bytes })
}

fn at_block(block: u32, bytes: Vec<u8>) -> Step {
    write(u64::from(block) * BLOCK as u64, bytes)
}
