//! `osbuild inspect`: describes an image, a UKI or an initramfs from its bytes alone.
//!
//! Sizes, modes and names come from the root's layers, versions from the inventory that the builder
//! adds to them. A contradiction between the two is an error.

mod bounded;
mod disk_layout;
mod file;
mod initramfs;
mod kernel;
mod root;
mod signature;
mod slot;
mod text;
mod uki;

pub use disk_layout::{Boot, DiskLayout, Partition};
pub use file::{File, FileKind};
pub use initramfs::{Initramfs, Layer};
pub use root::{Binary, Pod, Root};
pub use signature::Signature;
pub use slot::Slot;
pub(in crate::ship) use uki::version;
pub use uki::{Section, Uki};

use crate::error::{Context, Error, Result};
use crate::report;
use osbuild_abi::paths::INSTALL_IMAGE;
use serde::Serialize;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

/// The description of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Inspection {
    /// The kind of the file.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
    /// Its partitions, for an image.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskLayout>,
    /// The UKI, for a UKI or an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uki: Option<Uki>,
    /// The parts of the initramfs.
    pub initramfs: Initramfs,
    /// The root of the node.
    #[serde(flatten)]
    pub root: Root,
}

impl Inspection {
    /// Whether it is an installer.
    pub fn installs(&self) -> bool {
        self.root.files.iter().any(|file| file.path == INSTALL_IMAGE)
    }
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A whole disk.
    Image,
    /// A unified kernel image.
    Uki,
    /// The cpio archive that the kernel unpacks.
    Initramfs,
}

/// An opened file, and the signed programs in it.
pub(super) struct Opened {
    pub kind: Kind,
    size: u64,
    pub disk: Option<DiskLayout>,
    /// The program that the firmware starts from a disk.
    pub boot: Option<Vec<u8>>,
    /// The paths of all files of its EFI system partition.
    pub esp: Vec<String>,
    /// The slot of a disk with the UKI.
    pub slot: Option<String>,
    /// The UKI, or the initramfs if the file is one.
    pub bytes: Vec<u8>,
    /// The UKIs of its other slots that can be booted, with their names.
    pub others: Vec<(String, Vec<u8>)>,
}

/// Inspects a file. Its first bytes determine its kind.
///
/// # Errors
/// The file cannot be read, is of another kind, or is damaged, as [`of_file`] says.
pub fn inspect(path: &Path) -> Result<Inspection> {
    open(path).and_then(Opened::inspect).map_err(|error| of_file(error, path))
}

/// An error of this file, which the user has named. It has the file's name, and the exit code is
/// not that of a failed build.
pub(super) fn of_file(error: Error, path: &Path) -> Error {
    let error = error.of_usage();
    let named = format!("`{}`", path.display());
    let is_named = error.problems.iter().any(|problem| {
        std::iter::once(&problem.message).chain(&problem.causes).any(|line| line.contains(&named))
    });
    if is_named { error } else { error.cause(format!("while reading {named}")) }
}

/// Returns the UKI of an image and its boot program, each with its signature.
///
/// # Errors
/// The file cannot be read, or is not an image.
pub fn programs(image: &Path) -> Result<(Vec<u8>, Vec<u8>)> {
    let Opened { bytes, boot, .. } = open(image)?;
    let boot =
        boot.ok_or_else(|| Error::usage(format!("`{}` is not an image", image.display())))?;
    Ok((bytes, boot))
}

/// Opens a file, and finds the programs in it that firmware verifies.
pub(super) fn open(path: &Path) -> Result<Opened> {
    let mut file = std::fs::File::open(path)
        .map_err(|error| Error::usage(format!("cannot open `{}`", path.display())).cause(error))?;
    // `metadata` gives no length for a block device.
    let size =
        file.seek(SeekFrom::End(0)).or_build(|| format!("cannot read `{}`", path.display()))?;
    if let Some(sector_size) = disk_layout::sector_size(&mut file) {
        let disk_layout::OpenedDisk { disk, boot, esp, slot, uki, others } =
            disk_layout::read(&mut file, size, sector_size)?;
        let (disk, boot, slot) = (Some(disk), Some(boot), Some(slot));
        return Ok(Opened { kind: Kind::Image, size, disk, boot, esp, slot, bytes: uki, others });
    }
    let kind = kind(&file).ok_or_else(|| unknown_kind(path, &file, size))?;
    let what = format!("`{}`", path.display());
    let bytes = match kind {
        Kind::Uki => bounded::read_uki(&file, 0, size, &what)?,
        _ => bounded::read(&file, 0, size, bounded::MAX_UKI, &what)?,
    };
    Ok(Opened::file(kind, size, bytes))
}

/// The kind of a file without a partition table, from its magic number alone: it may be a disk of
/// any size.
fn kind(file: &std::fs::File) -> Option<Kind> {
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, 0).ok()?;
    match magic {
        [b'M', b'Z', ..] => Some(Kind::Uki),
        [b'0', b'7', b'0', b'7'] => Some(Kind::Initramfs),
        _ => None,
    }
}

fn unknown_kind(path: &Path, file: &std::fs::File, size: u64) -> Error {
    let path = path.display();
    if file.metadata().is_ok_and(|about| about.file_type().is_block_device()) {
        let error = Error::usage(format!(
            "`{path}` is a disk of {} without a partition table",
            report::bytes(size)
        ));
        return error.hint("`lsblk` lists the disks of this machine");
    }
    let mut magic = [0; 4];
    match file.read_exact_at(&mut magic, 0).map(|()| magic) {
        Ok([0x28, 0xb5, 0x2f, 0xfd]) => Error::usage(format!("`{path}` is compressed with zstd"))
            .hint(format!("decompress it: zstd -d {path}")),
        Ok([b'Q', b'F', b'I', 0xfb]) => Error::usage(format!("`{path}` is a qcow2 disk image"))
            .hint(format!("convert it: qemu-img convert -O raw {path} image.raw")),
        _ => Error::usage(format!("`{path}` is not an image, a UKI or an initramfs")),
    }
}

impl Opened {
    /// A UKI or an initramfs outside a disk.
    fn file(kind: Kind, size: u64, bytes: Vec<u8>) -> Self {
        let (esp, others) = Default::default();
        Opened { kind, size, disk: None, boot: None, esp, slot: None, bytes, others }
    }

    /// The version in the header of the slot with the UKI; `None` for a file that is not a disk.
    pub fn version(&self) -> Option<&str> {
        let slot =
            self.disk.as_ref()?.slots.iter().find(|slot| Some(&slot.name) == self.slot.as_ref());
        slot?.version.as_deref()
    }

    /// Takes the UKIs of the other slots out, each as if it were a file of its own.
    pub fn take_others(&mut self) -> Vec<(String, Opened)> {
        let uki = |bytes: Vec<u8>| Opened::file(Kind::Uki, bytes.len() as u64, bytes);
        let others = std::mem::take(&mut self.others).into_iter();
        others.map(|(name, bytes)| (name, uki(bytes))).collect()
    }

    /// Reads the whole file.
    pub fn inspect(mut self) -> Result<Inspection> {
        if let (Some(disk), Some(boot)) = (&mut self.disk, &self.boot) {
            disk.boot.signatures = signature::signatures(boot)?;
        }
        let (uki, initramfs) = match self.kind {
            Kind::Image | Kind::Uki => {
                uki::read(&self.bytes, self.slot).map(|(uki, initramfs)| (Some(uki), initramfs))?
            }
            Kind::Initramfs => (None, &self.bytes[..]),
        };
        let (initramfs, root) = initramfs::read(initramfs)?;
        Ok(Inspection { kind: self.kind, size: self.size, disk: self.disk, uki, initramfs, root })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_formats::cpio::{Entry, write};
    use std::fs;
    use std::process::Command;

    const INVENTORY: &str = r#"{
        "recipe": "node", "architecture": "amd64", "lock": "ab", "epoch": 1,
        "kernel": "6.12.1", "prebuilt": {}, "pods": {},
        "binaries": [{ "name": "init", "component": "init", "version": "0.1.0", "size": 7,
            "sha256": "b26236eb95cf0f7d5ffc32204b6e2943dc9bdda70d4863d3953c24442f82e2c3" }] }"#;

    /// An initramfs with two layers from mkfs.erofs. The higher one has the newer `init`.
    fn initramfs(folder: &Path) -> std::path::PathBuf {
        let mut entries = vec![
            Entry::file("/init", 0o755, &b"newinit"[..]),
            Entry::file("/osbuild.json", 0o444, INVENTORY.as_bytes()),
            Entry::directory("/layers", 0o755),
        ];
        for (name, init) in [("00-base.erofs", "old"), ("01-init.erofs", "newinit")] {
            let root = folder.join(name).with_extension("");
            fs::create_dir_all(root.join("bin")).unwrap();
            fs::write(root.join("bin/init"), init).unwrap();
            let layer = folder.join(name);
            assert!(
                Command::new("mkfs.erofs")
                    .arg("--quiet")
                    .args([&layer, &root])
                    .status()
                    .unwrap()
                    .success()
            );
            entries.push(Entry::file(&format!("/layers/{name}"), 0o444, fs::read(layer).unwrap()));
        }
        let path = folder.join("initramfs.cpio");
        fs::write(&path, write(&entries, Vec::new()).unwrap()).unwrap();
        path
    }

    #[test]
    fn a_file_of_the_topmost_layer_counts() {
        let folder = tempfile::tempdir().unwrap();
        let found = inspect(&initramfs(folder.path())).unwrap();
        assert_eq!(found.kind, Kind::Initramfs);
        assert_eq!(
            found.initramfs.layers.iter().map(|layer| layer.files).collect::<Vec<_>>(),
            [1, 1]
        );
        assert_eq!(
            (found.root.binaries[0].name.as_str(), found.root.binaries[0].size),
            ("init", 7)
        );
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(
            (&json["binaries"][0]["version"], &json["kind"]),
            (&"0.1.0".into(), &"initramfs".into())
        );
    }

    #[test]
    fn a_file_of_another_kind_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for bytes in [&b""[..], b"MZ", b"070701", b"hello, world", &[0; 8192]] {
            fs::write(&path, bytes).unwrap();
            assert!(inspect(&path).is_err(), "{bytes:?}");
        }
    }
}
