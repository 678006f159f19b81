//! The initramfs: its entries, which must be those that the builder packs, and its layers.

use super::file;
use super::root::{Root, root};
use crate::engine::digest::Digest;
use crate::error::{Context, Error, Kind, Problem, Result};
use crate::plan::BinaryName;
use crate::produce::inventory::{self, Inventory};
use osbuild_abi::paths::{BIN, EARLY_INIT, LAYERS};
use osbuild_formats::cpio::{self, Entry, Kind as EntryKind};
use osbuild_formats::erofs;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How many of the entries that no node has are named.
const SHOWN: usize = 3;

/// The parts of an initramfs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Initramfs {
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256 in hexadecimal.
    pub sha256: String,
    /// Its layers, the topmost last.
    pub layers: Vec<Layer>,
}

/// A read-only layer of the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Layer {
    /// Its file name.
    pub name: String,
    /// Its size in bytes, compressed.
    pub size: u64,
    /// Its SHA-256 in hexadecimal.
    pub sha256: String,
    /// How many files it has.
    pub files: usize,
}

impl Layer {
    /// The component that it holds, or `base`: its name without the number.
    pub fn component(&self) -> &str {
        component(&self.name).unwrap_or(&self.name)
    }
}

/// Reads an initramfs.
///
/// # Errors
/// It is damaged, has no inventory, has an entry that no node has, or contradicts the inventory
/// (`Kind::Digest`).
pub(super) fn read(initramfs: &[u8]) -> Result<(Initramfs, Root)> {
    let entries = cpio::read(initramfs).or_build(|| "cannot read the initramfs".to_owned())?;
    let packed = Packed::of(&entries);
    let path = format!("/{}", inventory::PATH);
    let inventory =
        packed.inventory.ok_or_else(|| Error::build(format!("the initramfs has no `{path}`")))?;
    let inventory: Inventory =
        serde_json::from_slice(inventory).or_build(|| "cannot read the inventory".to_owned())?;
    let mut problems = packed.problems();
    problems.extend(init_disagreement(packed.init, &inventory).map(Problem::new));
    if !problems.is_empty() {
        return Err(Error::many(Kind::Digest, problems));
    }
    let (mut layers, mut contents) = (Vec::new(), Vec::new());
    for (name, bytes) in packed.layers {
        let entries = erofs::read(bytes).map_err(|error| {
            Error::build(format!("cannot read the layer `{name}`")).cause(error)
        })?;
        let files = entries.iter().filter(|entry| file::is_regular(entry)).count();
        let (size, sha256) = (bytes.len() as u64, Digest::of(bytes).hex());
        layers.push(Layer { name: name.to_owned(), size, sha256, files });
        contents.push(file::Layer { component: component(name), entries, bytes });
    }
    let root = root(inventory, file::merge(&contents)?)?;
    let digest = Digest::of(initramfs);
    Ok((Initramfs { size: digest.size(), sha256: digest.hex(), layers }, root))
}

/// The entries of an initramfs, as `produce::initramfs` packs them. Any other entry is refused: the
/// node would ignore it, or behave in a way that no inspection shows.
#[derive(Default)]
struct Packed<'a> {
    init: Option<&'a [u8]>,
    inventory: Option<&'a [u8]>,
    /// The layers by name, in the order in which `init` stacks them.
    layers: BTreeMap<&'a str, &'a [u8]>,
    /// The paths of the entries that no node has.
    others: Vec<&'a str>,
    /// The paths of the entries that the initramfs has more than once.
    repeated: Vec<&'a str>,
}

impl<'a> Packed<'a> {
    fn of(entries: &'a [Entry<'a>]) -> Self {
        let mut packed = Packed::default();
        let mut paths = BTreeSet::new();
        for Entry { path, kind, .. } in entries {
            if !paths.insert(path) {
                packed.repeated.push(path);
            }
            let below = path.strip_prefix(LAYERS).and_then(|rest| rest.strip_prefix('/'));
            match (kind, path.as_str(), below) {
                (EntryKind::Directory, "/dev" | LAYERS, _)
                | (EntryKind::CharDevice { .. }, "/dev/console", _) => {}
                (EntryKind::File(bytes), EARLY_INIT, _) => packed.init = Some(bytes),
                (EntryKind::File(bytes), _, Some(name)) if component(name).is_some() => {
                    packed.layers.insert(name, bytes);
                }
                (EntryKind::File(bytes), path, _) if path[1..] == *inventory::PATH => {
                    packed.inventory = Some(bytes);
                }
                _ => packed.others.push(path),
            }
        }
        packed
    }

    fn problems(&self) -> Vec<Problem> {
        let kinds = [
            (&self.others, "has entries that no node has"),
            (&self.repeated, "has entries more than once"),
        ];
        let kinds = kinds.into_iter().filter(|(paths, _)| !paths.is_empty());
        let problem = |(paths, fault): (&Vec<&str>, &str)| {
            let shown = paths.iter().take(SHOWN).map(|path| format!("`{path}`"));
            let shown = shown.collect::<Vec<_>>().join(", ");
            let more = paths.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            Problem::new(format!("the initramfs {fault}: {shown}{more}"))
        };
        kinds.map(problem).collect()
    }
}

/// The component of the layer in the file `NN-COMPONENT.erofs`; `None` for a file with a name that
/// the builder does not make.
fn component(file: &str) -> Option<&str> {
    let (number, component) = file.strip_suffix(".erofs")?.split_once('-')?;
    let is_number = number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (is_number && !component.is_empty() && component.bytes().all(is_name)).then_some(component)
}

/// The contradiction between `/init` and the inventory: it is the same program as the node's
/// `/bin/init`.
fn init_disagreement(init: Option<&[u8]>, inventory: &Inventory) -> Option<String> {
    let name = BinaryName::Init.file_name();
    let Some(bytes) = init else { return Some(format!("the initramfs has no `{EARLY_INIT}`")) };
    let listed = inventory.binaries.iter().find(|binary| binary.name == name);
    let Some(listed) = listed else {
        return Some(format!("the inventory does not list `{BIN}/{name}`"));
    };
    let (found, listed) = (Digest::of(bytes).hex(), &listed.sha256);
    (found != *listed).then(|| {
        format!(
            "`{EARLY_INIT}` of the initramfs is sha256:{found}, the inventory says sha256:{listed}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The node's `init`, and an inventory with its digest.
    const INIT: &[u8] = b"newinit";
    const INVENTORY: &str = r#"{
        "recipe": "node", "architecture": "amd64", "lock": "ab", "epoch": 1,
        "kernel": "6.12.1", "prebuilt": {}, "pods": {},
        "binaries": [{ "name": "init", "component": "init", "version": "0.1.0", "size": 7,
            "sha256": "b26236eb95cf0f7d5ffc32204b6e2943dc9bdda70d4863d3953c24442f82e2c3" }] }"#;

    /// The file system of a layer with `init`.
    fn layer() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let (root, image) = (folder.path().join("root"), folder.path().join("image"));
        std::fs::create_dir_all(root.join("bin")).unwrap();
        std::fs::write(root.join("bin/init"), INIT).unwrap();
        let mut mkfs = Command::new("mkfs.erofs");
        assert!(mkfs.arg("--quiet").args([&image, &root]).status().unwrap().success());
        std::fs::read(image).unwrap()
    }

    /// The entries that the builder packs.
    fn packed(layer: &[u8]) -> Vec<Entry<'_>> {
        vec![
            Entry::directory("/dev", 0o755),
            Entry::char_device("/dev/console", 0o600, 5, 1),
            Entry::file("/init", 0o755, INIT),
            Entry::file("/osbuild.json", 0o444, INVENTORY.as_bytes()),
            Entry::directory("/layers", 0o755),
            Entry::file("/layers/00-base.erofs", 0o444, layer),
        ]
    }

    /// The first problem of an initramfs.
    fn refused(initramfs: &[u8]) -> String {
        let error = read(initramfs).unwrap_err();
        assert_eq!(error.kind, Kind::Digest, "{error}");
        error.problems[0].message.clone()
    }

    #[test]
    fn an_initramfs_with_another_init_or_a_file_that_init_ignores_is_refused() {
        let layer = layer();
        let written = |entries: &[Entry]| cpio::write(entries, Vec::new()).unwrap();
        read(&written(&packed(&layer))).unwrap();
        let mut other = packed(&layer);
        other[2] = Entry::file("/init", 0o755, &b"newinis"[..]);
        let message = refused(&written(&other));
        assert!(message.starts_with("`/init` of the initramfs is sha256:"), "{message}");
        other.remove(2);
        assert_eq!(refused(&written(&other)), "the initramfs has no `/init`");
        let mut more = packed(&layer);
        for path in ["/layers/01-more.erofs.raw", "/layers/more.erofs", "/a", "/layers/02-B.erofs"]
        {
            more.push(Entry::file(path, 0o444, layer.as_slice()));
        }
        let paths = "`/a`, `/layers/01-more.erofs.raw`, `/layers/02-B.erofs`";
        let expected = format!("the initramfs has entries that no node has: {paths} and 1 more");
        assert_eq!(refused(&written(&more)), expected);
        let mut link = packed(&layer);
        link[5] = Entry::symlink("/layers/00-base.erofs", "/init");
        let expected = "the initramfs has entries that no node has: `/layers/00-base.erofs`";
        assert_eq!(refused(&written(&link)), expected);
    }

    #[test]
    fn an_entry_that_the_initramfs_has_twice_is_refused() {
        let layer = layer();
        let mut entries = packed(&layer);
        entries.push(Entry::file("/layers/00-basf.erofs", 0o444, layer.as_slice()));
        let mut initramfs = cpio::write(&entries, Vec::new()).unwrap();
        let name = b"layers/00-basf.erofs";
        let at = memchr::memmem::find(&initramfs, name).unwrap();
        initramfs[at..at + name.len()].copy_from_slice(b"layers/00-base.erofs");
        let expected = "the initramfs has entries more than once: `/layers/00-base.erofs`";
        assert_eq!(refused(&initramfs), expected);
    }

    #[test]
    fn an_initramfs_of_another_system_has_one_clear_error() {
        let entries = [Entry::directory("/bin", 0o755), Entry::symlink("/init", "/bin/sh")];
        let error = read(&cpio::write(&entries, Vec::new()).unwrap()).unwrap_err();
        assert_eq!(error.problems.len(), 1);
        assert_eq!(error.problems[0].message, "the initramfs has no `/osbuild.json`");
    }
}
