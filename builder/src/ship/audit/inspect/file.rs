//! The files of a root: for each path, the file of the topmost layer that has it, with its digest.

use crate::engine::digest::{Digest, Hasher};
use crate::error::{Context, Error, Result};
use osbuild_abi::paths::{IMAGES, IMAGES_LAYER};
use osbuild_formats::erofs::{Entry, Files};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The bits of `st_mode` for the file type, and their values (inode(7)).
const TYPE: u32 = 0o170000;
const REGULAR: u32 = 0o100000;
const FOLDER: u32 = 0o040000;
const LINK: u32 = 0o120000;
const DEVICE: u32 = 0o020000;

/// The maximum size of all files of a root. The largest is the image that an installer carries,
/// of at most 1 TiB and two slots, and a file of holes takes little space in a layer.
const MAX_CONTENTS: u64 = 3 << 39;

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

/// A layer.
pub(super) struct Layer<'a> {
    /// The component that it holds, or `base`.
    pub component: Option<&'a str>,
    /// Its files, folders and links.
    pub entries: Vec<Entry>,
    /// Its file system.
    pub bytes: &'a [u8],
}

/// Merges layers, the topmost last, into the files of a root.
///
/// # Errors
/// The contents of a file cannot be read, or a layer has a device or too large files
/// (`Kind::Digest`).
pub(super) fn merge(layers: &[Layer]) -> Result<BTreeMap<String, File>> {
    merge_within(layers, MAX_CONTENTS)
}

/// Does the same for files of at most `max` bytes together.
fn merge_within(layers: &[Layer], max: u64) -> Result<BTreeMap<String, File>> {
    let mut left = max;
    let contents = layers.iter().map(|layer| Contents::of(layer.bytes)).collect::<Result<Vec<_>>>();
    let mut contents = contents?;
    stack(layers)?
        .into_iter()
        .map(|(path, (index, entry))| {
            Ok((path.to_owned(), File::read(entry, &mut contents[index], &mut left)?))
        })
        .collect()
}

/// The layer of each path and its entry there.
type Stack<'a> = BTreeMap<&'a str, (usize, &'a Entry)>;

/// Stacks layers as `init` and overlayfs do. An entry of a higher layer replaces those of all lower
/// layers at the same path, and below it unless both are folders. The layer with the images of pods
/// is not part of the overlay: its folder of images is mounted over that of the root. Extended
/// attributes, which overlayfs reads too, are not read.
fn stack<'a>(layers: &'a [Layer]) -> Result<Stack<'a>> {
    let mut top = Stack::new();
    let is_images = |layer: &Layer| layer.component == Some(IMAGES_LAYER);
    let images = layers.iter().position(is_images);
    for (index, layer) in layers.iter().enumerate().filter(|(index, _)| Some(*index) != images) {
        for entry in &layer.entries {
            put(&mut top, index, entry)?;
        }
    }
    if let Some(index) = images {
        remove_below(&mut top, IMAGES);
        let entries = layers[index].entries.iter();
        for entry in entries.filter(|entry| is_at_or_below(&entry.path, IMAGES)) {
            put(&mut top, index, entry)?;
        }
    }
    Ok(top)
}

/// Puts an entry of the layer `index` over those of lower layers.
fn put<'a>(top: &mut Stack<'a>, index: usize, entry: &'a Entry) -> Result<()> {
    if entry.mode & TYPE == DEVICE {
        let error = Error::digest(format!("a layer has `{}`, a device", entry.path));
        return Err(error.cause("overlayfs may take it for the mark of a deleted file"));
    }
    let replaced = top.insert(&entry.path, (index, entry));
    if replaced.is_some_and(|(_, old)| is_folder(old)) && !is_folder(entry) {
        remove_below(top, &entry.path);
    }
    Ok(())
}

/// Removes everything below a path.
fn remove_below(top: &mut Stack, path: &str) {
    let below = format!("{path}/");
    let paths = top.range(below.as_str()..).map(|(path, _)| *path);
    let paths: Vec<_> = paths.take_while(|path| path.starts_with(&below)).collect();
    for path in paths {
        top.remove(path);
    }
}

fn is_at_or_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_folder(entry: &Entry) -> bool {
    entry.mode & TYPE == FOLDER
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

    /// The digest of a file. Its bytes are taken from those that are `left`.
    fn digest(&mut self, entry: &Entry, left: &mut u64) -> Result<Digest> {
        if let Some(known) = self.known.get(&entry.inode) {
            return Ok(*known);
        }
        *left = left.checked_sub(entry.size).ok_or_else(|| {
            Error::digest(format!("with `{}`, the files of the root are too large", entry.path))
        })?;
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
    fn read(entry: &Entry, contents: &mut Contents, left: &mut u64) -> Result<Self> {
        let kind = match entry.mode & TYPE {
            REGULAR => FileKind::File,
            FOLDER => FileKind::Folder,
            LINK => FileKind::Link,
            _ => FileKind::Other,
        };
        let digest = (kind == FileKind::File).then(|| contents.digest(entry, left)).transpose()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A layer with entries of this path and mode.
    fn layer<'a>(component: &'a str, entries: &[(&str, u32)]) -> Layer<'a> {
        let entry = |(path, mode): &(&str, u32)| Entry {
            path: (*path).to_owned(),
            mode: *mode,
            uid: 0,
            gid: 0,
            size: 0,
            target: None,
            inode: 0,
        };
        let entries = entries.iter().map(entry).collect();
        Layer { component: Some(component), entries, bytes: &[] }
    }

    /// Each path of the stacked layers with the number of its layer.
    fn stacked<'a>(layers: &'a [Layer]) -> Vec<(&'a str, usize)> {
        let stack = stack(layers).unwrap().into_iter();
        stack.map(|(path, (index, _))| (path, index)).collect()
    }

    #[test]
    fn a_link_over_a_folder_hides_what_is_below_it() {
        let base = layer("base", &[("/a", FOLDER), ("/a/b", REGULAR), ("/a-b", REGULAR)]);
        let layers = [base, layer("one", &[("/a", LINK)])];
        assert_eq!(stacked(&layers), [("/a", 1), ("/a-b", 0)]);
        let [base, link] = layers;
        let layers = [base, link, layer("two", &[("/a", FOLDER), ("/a/c", REGULAR)])];
        assert_eq!(stacked(&layers), [("/a", 2), ("/a-b", 0), ("/a/c", 2)]);
    }

    #[test]
    fn the_layer_of_images_gives_only_the_folder_of_images() {
        let inside = format!("{IMAGES}/index.json");
        let layers = [
            layer("images", &[("/etc/a", REGULAR), (IMAGES, FOLDER), (&inside, REGULAR)]),
            layer("pods", &[(IMAGES, FOLDER), (&format!("{IMAGES}/hidden"), REGULAR)]),
        ];
        assert_eq!(stacked(&layers), [(IMAGES, 0), (&*inside, 0)]);
    }

    #[test]
    fn files_that_are_too_large_together_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (root, image) = (folder.path().join("root"), folder.path().join("image"));
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("a"), "12").unwrap();
        std::fs::hard_link(root.join("a"), root.join("again")).unwrap();
        std::fs::write(root.join("b"), "345").unwrap();
        let mut mkfs = std::process::Command::new("mkfs.erofs");
        assert!(mkfs.arg("--quiet").args([&image, &root]).status().unwrap().success());
        let bytes = std::fs::read(image).unwrap();
        let entries = osbuild_formats::erofs::read(&bytes).unwrap();
        let layers = [Layer { component: Some("base"), entries, bytes: &bytes }];
        assert_eq!(merge_within(&layers, 5).unwrap().len(), 4);
        let error = merge_within(&layers, 4).unwrap_err();
        let message = "with `/b`, the files of the root are too large";
        assert_eq!(error.problems[0].message, message);
    }

    #[test]
    fn a_device_that_overlayfs_may_take_for_a_deletion_is_refused() {
        let layers = [layer("base", &[("/a", REGULAR)]), layer("one", &[("/a", DEVICE)])];
        let error = stack(&layers).unwrap_err();
        assert_eq!(error.problems[0].message, "a layer has `/a`, a device");
    }
}
