//! The entries of an EROFS image, and what its files hold (Linux:
//! Documentation/filesystems/erofs.rst and fs/erofs/erofs_fs.h). For looking at an image:
//! `mkfs.erofs` makes them.

mod chunks;
mod clusters;
mod files;

pub use files::Files;

use std::collections::HashSet;
use std::fmt;

use crate::le;

const SUPER_BLOCK: usize = 1024;
const MAGIC: u32 = 0xE0F5_E1E2;
/// The features, up to common prefixes of attribute names, that leave the layout of inodes and
/// folders as it is read here.
const KNOWN_FEATURES: u32 = 0x7F;
/// Inodes are counted in units of this many bytes.
const SLOT: u64 = 32;
const DIRENT: usize = 12;
/// The longest path and the longest name that Linux takes.
const PATH_MAX: usize = 4096;
const NAME_MAX: usize = 255;
/// Paths repeat the names of folders: those of all entries may take so many times what the image
/// takes.
const REPETITION: usize = 16;

const TYPE_MASK: u32 = 0o170000;
const FOLDER: u32 = 0o040000;
const SYMLINK: u32 = 0o120000;

/// One entry of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The absolute path; `/` for the root.
    pub path: String,
    /// Type and permissions, as of `st_mode`.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The owner's group.
    pub gid: u32,
    /// Bytes that a file holds.
    pub size: u64,
    /// Where a symbolic link leads.
    pub target: Option<String>,
    /// The number of its inode; names with the same number are one file.
    pub inode: u64,
}

/// Why an image was not read.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// The image does not have the magic number of EROFS.
    Magic,
    /// The image has features, by their bits, that are not known here.
    Features(u32),
    /// The size of a block is impossible.
    BlockSize,
    /// The inode with this number is outside the image, or what it refers to is.
    Inode(u64),
    /// This folder is damaged.
    Folder(String),
    /// What this file holds is damaged, or stored in a way that is not known here.
    File(String),
}

/// Reads all entries of an image, sorted by path.
pub fn read(image: &[u8]) -> Result<Vec<Entry>, Error> {
    let image = Image::parse(image)?;
    let mut room = Room { names: image.bytes.len() / DIRENT, text: image.bytes.len() * REPETITION };
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
            // A folder has one name only. One that is met again is a loop.
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

/// How much may still be found. Each entry of an honest image takes its own bytes; one that has
/// more is made to exhaust memory.
struct Room {
    /// Names in folders.
    names: usize,
    /// Bytes of paths and of what links lead to.
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

/// An image whose super block makes sense.
struct Image<'a> {
    bytes: &'a [u8],
    block_size: u64,
    /// Where the inode with the number 0 would stand.
    inodes: u64,
    root: u64,
}

/// How the data of an inode are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// In blocks, one behind the other.
    Blocks,
    /// The same, but for the last block, which stands behind the inode.
    Inline,
    /// In blocks that are compressed, with compact indexes.
    Compressed,
    /// In chunks at any place.
    Chunks,
    /// Some other way, which is not read here.
    Other,
}

struct Inode {
    mode: u32,
    uid: u32,
    gid: u32,
    size: u64,
    layout: Layout,
    /// The first block of its data, or how its chunks are stored.
    block: u64,
    /// Bytes of the inode and of its extended attributes.
    length: u64,
}

impl<'a> Image<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let block = bytes.get(SUPER_BLOCK..SUPER_BLOCK + 128).ok_or(Error::Magic)?;
        let long = |offset| le::u32_at(block, offset).ok_or(Error::Magic);
        if long(0)? != MAGIC {
            return Err(Error::Magic);
        }
        let unknown = long(80)? & !KNOWN_FEATURES;
        if unknown != 0 {
            return Err(Error::Features(unknown));
        }
        if !(9..=16).contains(&block[12]) {
            return Err(Error::BlockSize);
        }
        let block_size = 1 << block[12];
        let root = u64::from(le::u16_at(block, 14).ok_or(Error::Magic)?);
        Ok(Self { bytes, block_size, inodes: u64::from(long(40)?) * block_size, root })
    }

    /// Where an inode stands.
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

    /// The data of an inode, if they are stored as they are and lie within the image.
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
        let short = |offset| le::u16_at(bytes, offset).map(u32::from);
        let long = |offset| le::u32_at(bytes, offset);
        let format = short(0)?;
        let is_extended = format & 1 == 1;
        let layout = match format >> 1 & 7 {
            0 => Layout::Blocks,
            2 => Layout::Inline,
            3 => Layout::Compressed,
            4 => Layout::Chunks,
            _ => Layout::Other,
        };
        let attributes = match u64::from(short(2)?) {
            0 => 0,
            count => 12 + 4 * (count - 1),
        };
        let (size, uid, gid, length) = if is_extended {
            (le::u64_at(bytes, 8)?, long(24)?, long(28)?, 64)
        } else {
            (u64::from(long(8)?), short(24)?, short(26)?, 32)
        };
        Some(Self {
            mode: short(4)?,
            uid,
            gid,
            size,
            layout,
            block: u64::from(long(16)?),
            length: length + attributes,
        })
    }
}

/// The entries of one block of a folder: first their numbers and where their names start, then the
/// names.
fn dirents(block: &[u8]) -> Option<Vec<(String, u64)>> {
    // The first name begins where the heads end, and each block has at least one.
    let count = usize::from(le::u16_at(block, 8)?) / DIRENT;
    let (heads, _) = block.get(..count * DIRENT)?.as_chunks::<DIRENT>();
    if heads.is_empty() {
        return None;
    }
    let start = |head: &[u8; DIRENT]| le::u16_at(head, 8).map(usize::from);
    let mut entries = Vec::with_capacity(count);
    for (index, head) in heads.iter().enumerate() {
        let end = heads.get(index + 1).map_or(Some(block.len()), start)?;
        let name = block.get(start(head)?..end)?;
        // The last name ends with the block or with NUL.
        let name = name.split(|byte| *byte == 0).next()?;
        let name = std::str::from_utf8(name)
            .ok()
            .filter(|name| (1..=NAME_MAX).contains(&name.len()) && !name.contains('/'))?;
        entries.push((name.to_owned(), le::u64_at(head, 0)?));
    }
    Some(entries)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => write!(f, "no EROFS image"),
            Self::Features(bits) => {
                write!(f, "the EROFS image has features `{bits:#x}`, which are not known")
            }
            Self::BlockSize => write!(f, "the block size of the EROFS image is impossible"),
            Self::Inode(number) => write!(f, "inode `{number}` of the EROFS image is damaged"),
            Self::Folder(path) => write!(f, "folder `{path}/` of the EROFS image is damaged"),
            Self::File(path) => write!(
                f,
                "`{path}` of the EROFS image is damaged, or stored in a way that is not known"
            ),
        }
    }
}

impl std::error::Error for Error {}
