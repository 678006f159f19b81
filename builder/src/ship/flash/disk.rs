//! The disks of this machine, and what it uses them for.

use super::uses::{Use, uses};
use osbuild_disks::device_file;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Where the kernel shows disks and their partitions.
const CLASS: &str = "/sys/class/block";

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Disk {
    /// Its device file.
    pub device: PathBuf,
    /// The kernel's name of it.
    #[serde(skip)]
    pub name: String,
    /// What its maker calls it, or the file that is behind it.
    pub model: Option<String>,
    /// What it is connected to.
    pub bus: String,
    /// Its size in bytes.
    pub size: u64,
    /// Logical sector size in bytes.
    pub sector_size: u32,
    /// Whether it is made to be taken out.
    pub is_removable: bool,
    /// Whether it is write-protected.
    pub is_read_only: bool,
    /// What this machine uses it for.
    pub uses: Vec<Use>,
    /// What is on it, in words.
    pub contents: String,
}

/// All disks with a medium, in the order of their names.
pub fn all() -> Vec<Disk> {
    osbuild_disks::all().into_iter().map(Disk::of).collect()
}

/// What a path leads to, through links such as those in `/dev/disk/by-id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A whole disk.
    Disk(Box<Disk>),
    /// A partition of the disk with this device file.
    Partition(PathBuf),
    /// Nothing that could be a disk.
    Nothing,
}

/// What `path` is.
pub fn find(path: &Path) -> Found {
    let name = path.canonicalize().ok().and_then(|path| Some(path.strip_prefix("/dev").ok()?.to_str()?.replace('/', "!")));
    let Some(folder) = name.as_ref().and_then(|name| Path::new(CLASS).join(name).canonicalize().ok()) else {
        return Found::Nothing;
    };
    if folder.join("partition").exists() {
        let whole = folder.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        return Found::Partition(device_file(&whole));
    }
    let found = name.and_then(|name| osbuild_disks::Disk::named(&name));
    found.map_or(Found::Nothing, |disk| Found::Disk(Box::new(Disk::of(disk))))
}

impl Disk {
    /// What the kernel shows of a disk, and what this machine uses it for.
    fn of(found: osbuild_disks::Disk) -> Self {
        let osbuild_disks::Disk { device, name, model, serial: _, bus, size, sector_size, is_removable, is_read_only, contents } =
            found;
        let uses = uses(&name);
        Disk { device, name, model, bus, size, sector_size, is_removable, is_read_only, uses, contents }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_block_device_is_no_disk() {
        for path in ["/dev/null", "/dev/no-such-disk", "/etc/passwd", "/"] {
            assert_eq!(find(Path::new(path)), Found::Nothing, "{path}");
        }
    }
}
