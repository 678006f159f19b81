//! ISO 9660 (ECMA-119) with the names of Rock Ridge, else of Joliet, else its own: the order in
//! which Linux chooses.

use std::io::{Read, Seek};

use zerocopy::byteorder::{big_endian, little_endian};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::rock_ridge::{Attributes, SystemUse};
use super::{Error, MAX_FOLDER, read_at};

/// Bytes of a volume descriptor, and of a block in every volume that this reader accepts.
pub(super) const DESCRIPTOR: usize = 2048;
const BLOCK: u64 = DESCRIPTOR as u64;
/// The offset of the first volume descriptor.
pub(super) const FIRST_DESCRIPTOR: u64 = 16 * BLOCK;
/// The maximum number of descriptors that are looked at. Real volumes have two to five.
const MAX_DESCRIPTORS: u64 = 32;
const MAGIC: &[u8; 5] = b"CD001";
const PRIMARY: u8 = 1;
const SUPPLEMENTARY: u8 = 2;
const TERMINATOR: u8 = 255;
/// The escape sequences that mark a tree with the names of Joliet, in UCS-2.
const JOLIET: [&[u8; 3]; 3] = [b"%/@", b"%/C", b"%/E"];

const FOLDER: u8 = 1 << 1;
const CONTINUES: u8 = 1 << 7;

/// A number in both byte orders.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Both32 {
    pub little: little_endian::U32,
    big: big_endian::U32,
}

#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Both16 {
    little: little_endian::U16,
    big: big_endian::U16,
}

/// A primary or supplementary volume descriptor (8.4, 8.5), up to its last field that is read.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Descriptor {
    kind: u8,
    magic: [u8; 5],
    version: u8,
    flags: u8,
    system: [u8; 32],
    /// The label.
    pub volume: [u8; 32],
    unused: [u8; 8],
    blocks: Both32,
    escapes: [u8; 32],
    set_size: Both16,
    sequence: Both16,
    block_size: Both16,
    path_table_size: Both32,
    path_tables: [little_endian::U32; 4],
    root: Record,
}

/// A directory record (9.1) without its name.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Record {
    length: u8,
    attribute_blocks: u8,
    extent: Both32,
    size: Both32,
    recorded: [u8; 7],
    flags: u8,
    unit_size: u8,
    gap_size: u8,
    sequence: Both16,
    name_length: u8,
}

const RECORD: usize = size_of::<Record>();

const _: () = assert!(size_of::<Descriptor>() == 189 && RECORD == 33);

impl Descriptor {
    /// The primary descriptor in these bytes, if this is one.
    pub fn primary(bytes: &[u8]) -> Option<&Self> {
        let (descriptor, _) = Self::ref_from_prefix(bytes).ok()?;
        (descriptor.magic == *MAGIC && descriptor.kind == PRIMARY).then_some(descriptor)
    }
}

/// Whether `source` begins with an ISO 9660 volume.
pub(super) fn is_here(source: &mut (impl Read + Seek)) -> bool {
    read_at(source, FIRST_DESCRIPTOR + 1, MAGIC.len(), "the label").is_ok_and(|read| read == MAGIC)
}

/// The names of the tree that is read.
enum Names {
    /// Those of Rock Ridge. The system use fields begin with this many bytes of something else.
    RockRidge(usize),
    Joliet,
    Plain,
}

/// A volume.
pub struct Iso9660<R> {
    source: R,
    root: Record,
    names: Names,
}

/// An entry of a folder.
struct Entry {
    record: Record,
    attributes: Attributes,
}

impl<R: Read + Seek> Iso9660<R> {
    pub(super) fn open(mut source: R) -> Result<Self, Error> {
        let (mut primary, mut joliet) = (None, None);
        for index in 0..MAX_DESCRIPTORS {
            let what = "the volume descriptors";
            let bytes = read_at(&mut source, FIRST_DESCRIPTOR + index * BLOCK, DESCRIPTOR, what)?;
            let (descriptor, _) =
                Descriptor::ref_from_prefix(&bytes).map_err(|_| Error::Damaged(what))?;
            if descriptor.magic != *MAGIC {
                return Err(Error::Damaged(what));
            }
            let is_joliet = JOLIET.iter().any(|escape| descriptor.escapes.starts_with(*escape));
            match descriptor.kind {
                TERMINATOR => break,
                _ if u64::from(descriptor.block_size.little.get()) != BLOCK
                    && matches!(descriptor.kind, PRIMARY | SUPPLEMENTARY) =>
                {
                    return Err(Error::Unsupported("blocks of other than 2048 bytes"));
                }
                PRIMARY if primary.is_none() => primary = Some(descriptor.root),
                SUPPLEMENTARY if is_joliet => joliet = Some(descriptor.root),
                _ => {}
            }
        }
        let root = primary.ok_or(Error::Damaged("the primary volume descriptor"))?;
        let mut volume = Iso9660 { source, root, names: Names::Plain };
        match (volume.rock_ridge()?, joliet) {
            (Some(skipped), _) => volume.names = Names::RockRidge(skipped),
            (None, Some(root)) => (volume.root, volume.names) = (root, Names::Joliet),
            (None, None) => {}
        }
        Ok(volume)
    }

    pub(super) fn file(&mut self, path: &str, max: usize) -> Result<Option<Vec<u8>>, Error> {
        let mut folder = self.root;
        let mut names = path.split('/').peekable();
        while let Some(name) = names.next() {
            let Some(Entry { record, attributes }) = self.find(&folder, path, name)? else {
                return Ok(None);
            };
            let (is_folder, is_last) = (record.flags & FOLDER != 0, names.peek().is_none());
            let found = match (attributes.is_link, is_folder) {
                (true, _) => "a symbolic link",
                (false, true) => "a folder",
                (false, false) => "a file",
            };
            let wanted = if is_last { "a file" } else { "a folder" };
            if found != wanted {
                return Err(Error::NotA { path: path.to_owned(), wanted, found });
            }
            if is_last {
                return self.content(&record, &attributes, path, max).map(Some);
            }
            folder = record;
        }
        Ok(None)
    }

    fn content(
        &mut self,
        record: &Record,
        attributes: &Attributes,
        path: &str,
        max: usize,
    ) -> Result<Vec<u8>, Error> {
        let size = u64::from(record.size.little.get());
        if record.flags & CONTINUES != 0 {
            return Err(Error::Unsupported("files in several parts"));
        }
        if record.unit_size != 0 || record.gap_size != 0 {
            return Err(Error::Unsupported("interleaved files"));
        }
        if attributes.is_compressed {
            return Err(Error::Unsupported("compressed files"));
        }
        if size > max as u64 {
            return Err(Error::LargeFile { path: path.to_owned(), size, max });
        }
        read_at(&mut self.source, record.offset(), size as usize, "a file")
    }

    /// The entry of this name; `path` is for an error.
    fn find(&mut self, folder: &Record, path: &str, name: &str) -> Result<Option<Entry>, Error> {
        let bytes = self.folder(folder, path)?;
        let mut found = None;
        for (record, stored, system_use) in records(&bytes) {
            let (record, stored) = (record?, stored);
            // The folder itself, and its parent.
            if matches!(stored, [0] | [1]) {
                continue;
            }
            let attributes = match self.names {
                Names::RockRidge(skipped) => {
                    let fields = system_use.get(skipped..).unwrap_or_default();
                    SystemUse::new(fields).attributes(&mut self.source)?
                }
                Names::Joliet | Names::Plain => Attributes::default(),
            };
            let is_found = match (&self.names, &attributes.name) {
                (Names::RockRidge(_), Some(own)) => own == name.as_bytes(),
                (Names::Joliet, _) => ucs2(stored).is_some_and(|own| is_plain(&own, name)),
                _ => std::str::from_utf8(stored).is_ok_and(|own| is_plain(own, name)),
            };
            // The parts of a file have one name.
            let continues = |entry: &Entry| entry.record.flags & CONTINUES != 0;
            if is_found && found.as_ref().is_some_and(|entry| !continues(entry)) {
                return Err(Error::Twice(path.to_owned()));
            }
            if is_found && found.is_none() {
                found = Some(Entry { record, attributes });
            }
        }
        Ok(found)
    }

    fn folder(&mut self, folder: &Record, path: &str) -> Result<Vec<u8>, Error> {
        let size = u64::from(folder.size.little.get());
        if size > MAX_FOLDER {
            return Err(Error::LargeFolder(path.to_owned()));
        }
        read_at(&mut self.source, folder.offset(), size as usize, "a folder")
    }

    /// Whether the names of Rock Ridge are there: the first entry of the root says so, and how many
    /// bytes come before them in each entry.
    fn rock_ridge(&mut self) -> Result<Option<usize>, Error> {
        let root = self.root;
        let bytes = self.folder(&root, "/")?;
        Ok(match records(&bytes).next() {
            Some((_, _, system_use)) => SystemUse::new(system_use).skipped(),
            None => None,
        })
    }
}

impl Record {
    /// The offset of its content in bytes.
    fn offset(&self) -> u64 {
        (u64::from(self.extent.little.get()) + u64::from(self.attribute_blocks)) * BLOCK
    }
}

/// The records of a folder, each with its name and its system use field. A damaged record is the
/// last one.
fn records(folder: &[u8]) -> impl Iterator<Item = (Result<Record, Error>, &[u8], &[u8])> {
    let mut rest = folder;
    std::iter::from_fn(move || {
        // A record does not cross blocks: a zero fills what is left of one.
        while rest.first() == Some(&0) {
            let left = (rest.len() - 1) % DESCRIPTOR + 1;
            rest = &rest[left.min(rest.len())..];
        }
        let length = usize::from(*rest.first()?);
        let parsed = rest.get(..length).and_then(|bytes| {
            let (record, after) = Record::read_from_prefix(bytes).ok()?;
            let name_length = usize::from(record.name_length);
            let name = after.get(..name_length)?;
            // A byte follows a name of even length, so that the next field has an even offset.
            let system_use = after.get(name_length + (name_length + 1) % 2..).unwrap_or_default();
            Some((record, name, system_use))
        });
        match parsed {
            Some((record, name, system_use)) => {
                rest = &rest[length..];
                Some((Ok(record), name, system_use))
            }
            None => {
                rest = &[];
                Some((Err(Error::Damaged("an entry of a folder")), &[][..], &[][..]))
            }
        }
    })
}

/// Whether a stored name, which may end in a version, is `name`. Case does not matter.
fn is_plain(stored: &str, name: &str) -> bool {
    let stored = stored.split_once(';').map_or(stored, |(stored, _)| stored);
    stored.strip_suffix('.').unwrap_or(stored).eq_ignore_ascii_case(name)
}

fn ucs2(stored: &[u8]) -> Option<String> {
    let units = stored.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    String::from_utf16(&units.collect::<Vec<u16>>()).ok()
}
