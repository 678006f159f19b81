//! The files of a root: each path as the topmost layer has it, with the digest of what it holds.

use crate::engine::digest::{Digest, Hasher};
use crate::error::{Context, Result};
use osbuild_formats::erofs::{Entry, Files};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The part of `st_mode` that says what a file is, and its values (inode(7)).
const TYPE: u32 = 0o170000;
const REGULAR: u32 = 0o100000;
const FOLDER: u32 = 0o040000;
const LINK: u32 = 0o120000;

/// Something in the root, at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct File {
    /// Its path.
    pub path: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: FileKind,
    /// Its permissions in octal.
    pub mode: String,
    /// The numbers of its user and its group: `0:0`.
    pub owner: String,
    /// The size in bytes of what it holds; 0 for what is no regular file.
    pub size: u64,
    /// SHA-256 of what it holds, in hexadecimal; for a regular file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Where it leads, for a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// What a file is.
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

/// The files of the root that these layers make, the topmost last. A path of a higher layer stands
/// for that of all beneath it.
///
/// # Errors
/// What a file holds cannot be read.
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

/// What the files of a layer hold, by the numbers of their inodes as far as they were asked for.
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
            .read(entry, |piece| hasher.write_all(piece).expect("nothing takes every byte"));
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
