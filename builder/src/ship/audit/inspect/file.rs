//! The files of a root: for each path, the file of the topmost layer that has it, with its digest.

use crate::engine::digest::{Digest, Hasher};
use crate::error::{Context, Result};
use osbuild_formats::erofs::{Entry, Files};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The bits of `st_mode` for the file type, and their values (inode(7)).
const TYPE: u32 = 0o170000;
const REGULAR: u32 = 0o100000;
const FOLDER: u32 = 0o040000;
const LINK: u32 = 0o120000;

/// A file, folder or link in the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct File {
    /// Its path.
    pub path: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: FileKind,
    /// Its permissions in octal.
    pub mode: String,
    /// The IDs of its user and its group: `0:0`.
    pub owner: String,
    /// The size of a regular file in bytes; 0 for any other.
    pub size: u64,
    /// The SHA-256 of a regular file, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The target of a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A device, a pipe or a socket.
    Other,
}

/// A layer: its entries, and the bytes of its file system.
pub(super) type Layer<'a> = (Vec<Entry>, &'a [u8]);

/// Merges layers, the topmost last, into the files of a root. A file of a higher layer replaces
/// those of all lower layers at the same path.
///
/// # Errors
/// The contents of a file cannot be read.
pub(super) fn merge(layers: &[Layer]) -> Result<BTreeMap<String, File>> {
    let mut top = BTreeMap::new();
    for (index, (entries, _)) in layers.iter().enumerate() {
        top.extend(entries.iter().map(|entry| (entry.path.as_str(), (index, entry))));
    }
    let contents = layers.iter().map(|(_, bytes)| Contents::of(bytes)).collect::<Result<Vec<_>>>();
    let mut contents = contents?;
    top.into_iter()
        .map(|(path, (index, entry))| {
            Ok((path.to_owned(), File::read(entry, &mut contents[index])?))
        })
        .collect()
}

/// The contents of a layer's files. Digests are cached by inode number.
struct Contents<'a> {
    files: Files<'a>,
    known: BTreeMap<u64, Digest>,
}

impl<'a> Contents<'a> {
    fn of(layer: &'a [u8]) -> Result<Self> {
        let files = Files::new(layer).or_build(|| "cannot read a layer".to_owned())?;
        Ok(Contents { files, known: BTreeMap::new() })
    }

    fn digest(&mut self, entry: &Entry) -> Result<Digest> {
        if let Some(known) = self.known.get(&entry.inode) {
            return Ok(*known);
        }
        let mut hasher = Hasher::new(io::sink());
        let read = self
            .files
            .read(entry, |piece| hasher.write_all(piece).expect("a sink accepts every byte"));
        read.or_build(|| format!("cannot read `{}`", entry.path))?;
        self.known.insert(entry.inode, hasher.digest());
        Ok(hasher.digest())
    }
}

impl File {
    fn read(entry: &Entry, contents: &mut Contents) -> Result<Self> {
        let kind = match entry.mode & TYPE {
            REGULAR => FileKind::File,
            FOLDER => FileKind::Folder,
            LINK => FileKind::Link,
            _ => FileKind::Other,
        };
        let digest = (kind == FileKind::File).then(|| contents.digest(entry)).transpose()?;
        Ok(File {
            path: entry.path.clone(),
            kind,
            mode: format!("{:04o}", entry.mode & 0o7777),
            owner: format!("{}:{}", entry.uid, entry.gid),
            size: digest.map_or(0, |digest| digest.size()),
            sha256: digest.map(|digest| digest.hex()),
            target: entry.target.clone(),
        })
    }
}

/// Whether an entry of a layer is a regular file.
pub(super) fn is_regular(entry: &Entry) -> bool {
    entry.mode & TYPE == REGULAR
}
