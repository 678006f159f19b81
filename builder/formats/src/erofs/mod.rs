//! A reader of EROFS images: the entries and the contents of their files (Linux:
//! Documentation/filesystems/erofs.rst and fs/erofs/erofs_fs.h). `mkfs.erofs` is the writer.

mod chunks;
mod clusters;
mod files;
mod raw;

pub use files::Files;

use std::collections::HashSet;
use std::fmt;

use zerocopy::FromBytes;
use zerocopy::byteorder::little_endian::U16;

use raw::{CompactInode, Dirent, ExtendedInode, SuperBlock};

/// The offset of the superblock in bytes.
const SUPER_BLOCK: usize = 1024;
const MAGIC: u32 = 0xE0F5_E1E2;
/// The features that do not change the layout of inodes and directories, up to common prefixes of
/// attribute names.
const KNOWN_FEATURES: u32 = 0x7F;
/// An inode's number times this, in bytes, is its offset.
const SLOT: u64 = 32;
/// The longest path and the longest name that Linux accepts.
const PATH_MAX: usize = 4096;
const NAME_MAX: usize = 255;
/// The total length of all paths, at most this multiple of the image's size. Paths repeat the names
/// of folders.
const MAX_REPETITION: usize = 16;

const TYPE_MASK: u32 = 0o170000;
const FOLDER: u32 = 0o040000;
const SYMLINK: u32 = 0o120000;

/// One entry of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The absolute path; `/` is the root.
    pub path: String,
    /// Type and permissions, like `st_mode`.
    pub mode: u32,
    /// The user ID of the owner.
    pub uid: u32,
    /// The group ID of the owner.
    pub gid: u32,
    /// The size of a file in bytes.
    pub size: u64,
    /// The target of a symbolic link.
    pub target: Option<String>,
    /// The number of its inode. Entries with the same number are one file.
    pub inode: u64,
}

/// Why an image was not read.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// The magic number of EROFS is missing.
    Magic,
    /// The image has these unknown features, by their bits.
    Features(u32),
    /// The block size is invalid.
    BlockSize,
    /// The inode with this number, or something it refers to, is outside the image.
    Inode(u64),
    /// This folder is damaged.
    Folder(String),
    /// The contents of this file are damaged, or stored in an unknown way.
    File(String),
}

/// Reads all entries of an image, sorted by path.
pub fn read(image: &[u8]) -> Result<Vec<Entry>, Error> {
    let image = Image::parse(image)?;
    let mut room = Room {
        names: image.bytes.len() / size_of::<Dirent>(),
        text: image.bytes.len() * MAX_REPETITION,
    };
    let mut entries = Vec::new();
    let mut seen = HashSet::new();
    let mut waiting = vec![(String::new(), image.root)];
    while let Some((path, number)) = waiting.pop() {
        let inode = image.inode(number)?;
        let mut target = None;
        if inode.mode & TYPE_MASK == FOLDER {
            let found = image
                .folder(&inode, number)
                .filter(|found| room.take_folder(&path, found).is_some());
            // A folder has one name. Meeting it again means a loop.
            let Some(found) = found.filter(|_| seen.insert(number)) else {
                return Err(Error::Folder(path));
            };
            let others = found.into_iter().filter(|(name, _)| name != "." && name != "..");
            waiting.extend(others.map(|(name, number)| (format!("{path}/{name}"), number)));
        } else if inode.mode & TYPE_MASK == SYMLINK {
            let length = usize::try_from(inode.size).ok().filter(|length| *length <= PATH_MAX);
            length.and_then(|length| room.take_text(length)).ok_or(Error::Inode(number))?;
            target = image.data(&inode, number).and_then(|bytes| String::from_utf8(bytes).ok());
        }
        let path = if path.is_empty() { "/".to_owned() } else { path };
        let Inode { mode, uid, gid, size, .. } = inode;
        entries.push(Entry { path, mode, uid, gid, size, target, inode: number });
    }
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(entries)
}

/// How much more the image may yield. Each entry of an honest image has bytes of its own; an image
/// that yields more was made to exhaust memory.
struct Room {
    /// Names in folders.
    names: usize,
    /// Bytes of paths and of link targets.
    text: usize,
}

impl Room {
    /// Takes the names of the folder at `path`; `None` when there is no room.
    fn take_folder(&mut self, path: &str, names: &[(String, u64)]) -> Option<()> {
        self.names = self.names.checked_sub(names.len())?;
        self.take_text(names.iter().map(|(name, _)| path.len() + 1 + name.len()).sum())?;
        (path.len() <= PATH_MAX).then_some(())
    }

    fn take_text(&mut self, length: usize) -> Option<()> {
        self.text = self.text.checked_sub(length)?;
        Some(())
    }
}

/// An image with a valid superblock.
struct Image<'a> {
    bytes: &'a [u8],
    block_size: u64,
    /// The offset of inode 0 in bytes.
    inodes: u64,
    root: u64,
}

/// How the data of an inode are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// In consecutive blocks.
    Blocks,
    /// The same, except for the last block, which follows the inode.
    Inline,
    /// In compressed blocks, with compact indexes.
    Compressed,
    /// In chunks at arbitrary offsets.
    Chunks,
    /// In a way that this reader does not support.
    Other,
}

struct Inode {
    mode: u32,
    uid: u32,
    gid: u32,
    size: u64,
    layout: Layout,
    /// The first block of its data, or the format of its chunks.
    block: u64,
    /// Bytes of the inode and of its extended attributes.
    length: u64,
}

impl<'a> Image<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let (block, _) = bytes
            .get(SUPER_BLOCK..)
            .and_then(|rest| SuperBlock::ref_from_prefix(rest).ok())
            .filter(|(block, _)| block.magic == MAGIC)
            .ok_or(Error::Magic)?;
        let unknown = block.feature_incompat.get() & !KNOWN_FEATURES;
        if unknown != 0 {
            return Err(Error::Features(unknown));
        }
        if !(9..=16).contains(&block.blkszbits) {
            return Err(Error::BlockSize);
        }
        let block_size = 1 << block.blkszbits;
        let inodes = u64::from(block.meta_blkaddr.get()) * block_size;
        Ok(Self { bytes, block_size, inodes, root: block.root_nid.get().into() })
    }

    /// The offset of an inode in bytes.
    fn position(&self, number: u64) -> Option<u64> {
        number.checked_mul(SLOT)?.checked_add(self.inodes)
    }

    fn slice(&self, start: u64, length: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(start).ok()?;
        self.bytes.get(start..)?.get(..usize::try_from(length).ok()?)
    }

    fn inode(&self, number: u64) -> Result<Inode, Error> {
        let inode = self
            .position(number)
            .and_then(|position| self.bytes.get(usize::try_from(position).ok()?..));
        inode.and_then(Inode::parse).ok_or(Error::Inode(number))
    }

    /// The data of an inode, if they are uncompressed, not in chunks, and within the image.
    fn data(&self, inode: &Inode, number: u64) -> Option<Vec<u8>> {
        let in_blocks = match inode.layout {
            Layout::Blocks => inode.size,
            Layout::Inline => inode.size.saturating_sub(1) / self.block_size * self.block_size,
            Layout::Compressed | Layout::Chunks | Layout::Other => return None,
        };
        let blocks = self.slice(inode.block.checked_mul(self.block_size)?, in_blocks);
        let blocks = if in_blocks == 0 { &[] } else { blocks? };
        let tail = self.position(number)?.checked_add(inode.length)?;
        Some([blocks, self.slice(tail, inode.size - in_blocks)?].concat())
    }

    /// The names in a folder and the numbers of their inodes.
    fn folder(&self, inode: &Inode, number: u64) -> Option<Vec<(String, u64)>> {
        let data = self.data(inode, number)?;
        let blocks = data.chunks(self.block_size as usize).map(dirents);
        blocks.collect::<Option<Vec<_>>>().map(|blocks| blocks.concat())
    }
}

impl Inode {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (format, _) = U16::ref_from_prefix(bytes).ok()?;
        let is_extended = format.get() & 1 == 1;
        let layout = match format.get() >> 1 & 7 {
            0 => Layout::Blocks,
            2 => Layout::Inline,
            3 => Layout::Compressed,
            4 => Layout::Chunks,
            _ => Layout::Other,
        };
        let attributes = |count: U16| match u64::from(count.get()) {
            0 => 0,
            count => 12 + 4 * (count - 1),
        };
        if is_extended {
            let (inode, _) = ExtendedInode::ref_from_prefix(bytes).ok()?;
            Some(Self {
                mode: inode.mode.get().into(),
                uid: inode.uid.get(),
                gid: inode.gid.get(),
                size: inode.size.get(),
                layout,
                block: inode.block.get().into(),
                length: size_of::<ExtendedInode>() as u64 + attributes(inode.xattr_icount),
            })
        } else {
            let (inode, _) = CompactInode::ref_from_prefix(bytes).ok()?;
            Some(Self {
                mode: inode.mode.get().into(),
                uid: inode.uid.get().into(),
                gid: inode.gid.get().into(),
                size: inode.size.get().into(),
                layout,
                block: inode.block.get().into(),
                length: size_of::<CompactInode>() as u64 + attributes(inode.xattr_icount),
            })
        }
    }
}

/// Reads the names and inode numbers in one block of a directory.
fn dirents(block: &[u8]) -> Option<Vec<(String, u64)>> {
    // The first name follows the heads, and each block has at least one.
    let (first, _) = Dirent::ref_from_prefix(block).ok()?;
    let count = usize::from(first.nameoff.get()) / size_of::<Dirent>();
    let (heads, _) = <[Dirent]>::ref_from_prefix_with_elems(block, count).ok()?;
    if heads.is_empty() {
        return None;
    }
    let start = |head: &Dirent| usize::from(head.nameoff.get());
    let mut entries = Vec::with_capacity(count);
    for (index, head) in heads.iter().enumerate() {
        let end = heads.get(index + 1).map_or(block.len(), start);
        let name = block.get(start(head)..end)?;
        // The last name ends at the end of the block or at NUL.
        let name = name.split(|byte| *byte == 0).next()?;
        let name = std::str::from_utf8(name)
            .ok()
            .filter(|name| (1..=NAME_MAX).contains(&name.len()) && !name.contains('/'))?;
        entries.push((name.to_owned(), head.nid.get()));
    }
    Some(entries)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => write!(f, "not an EROFS image"),
            Self::Features(bits) => {
                write!(f, "the EROFS image has unknown features `{bits:#x}`")
            }
            Self::BlockSize => write!(f, "the block size of the EROFS image is invalid"),
            Self::Inode(number) => write!(f, "inode `{number}` of the EROFS image is damaged"),
            Self::Folder(path) => write!(f, "folder `{path}/` of the EROFS image is damaged"),
            Self::File(path) => {
                write!(f, "`{path}` of the EROFS image is damaged, or stored in an unknown way")
            }
        }
    }
}

impl std::error::Error for Error {}
