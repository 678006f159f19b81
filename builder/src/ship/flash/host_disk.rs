//! The disks of this machine and their uses.

use super::uses::{Use, uses};
use crate::error::{Error, Result};
use crate::report::bytes;
use osbuild_disks::device_file;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// The folder in which the kernel lists disks and partitions.
const CLASS: &str = "/sys/class/block";

/// A disk of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostDisk {
    /// Its device file.
    pub device: PathBuf,
    /// Its kernel name.
    #[serde(skip)]
    pub name: String,
    /// The model that the maker gave it, or the backing file.
    pub model: Option<String>,
    /// The properties that distinguish it from another disk with the same name.
    #[serde(skip)]
    pub identity: Identity,
    /// The bus that it is connected to.
    pub bus: String,
    /// Its size in bytes.
    pub size: u64,
    /// Logical sector size in bytes.
    pub sector_size: u32,
    /// Whether it is removable.
    pub is_removable: bool,
    /// Whether it is write-protected.
    pub is_read_only: bool,
    /// The uses that this machine makes of it.
    pub uses: Vec<Use>,
    /// A description of its contents.
    pub contents: String,
}

/// The properties that distinguish a disk from another with the same name, or from the previous one
/// in the same reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its sequence number since boot, if the kernel has one.
    pub diskseq: Option<u64>,
    /// Its serial number.
    pub serial: Option<String>,
    /// Its size in bytes.
    pub size: u64,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", bytes(self.size))?;
        self.serial.iter().try_for_each(|serial| write!(f, ", serial number `{serial}`"))?;
        self.diskseq.iter().try_for_each(|number| write!(f, ", sequence number {number}"))
    }
}

/// All disks with a medium, in the order of their names.
pub fn all() -> Vec<HostDisk> {
    osbuild_disks::all().into_iter().map(HostDisk::of).collect()
}

/// The target of a path, through links such as those in `/dev/disk/by-id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A whole disk.
    Disk(Box<HostDisk>),
    /// A partition of the disk with this device file.
    Partition(PathBuf),
    /// Neither a disk nor a partition.
    Nothing,
}

/// Resolves `path`.
pub fn find(path: &Path) -> Found {
    let name = path
        .canonicalize()
        .ok()
        .and_then(|path| Some(path.strip_prefix("/dev").ok()?.to_str()?.replace('/', "!")));
    let Some(folder) =
        name.as_ref().and_then(|name| Path::new(CLASS).join(name).canonicalize().ok())
    else {
        return Found::Nothing;
    };
    if folder.join("partition").exists() {
        let whole = folder.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        return Found::Partition(device_file(&whole));
    }
    let found = name.and_then(|name| osbuild_disks::Disk::named(&name));
    found.map_or(Found::Nothing, |disk| Found::Disk(Box::new(HostDisk::of(disk))))
}

impl HostDisk {
    /// Adds the uses of a disk to its description.
    fn of(found: osbuild_disks::Disk) -> Self {
        let uses = uses(&found.name);
        HostDisk {
            identity: Identity { diskseq: found.diskseq, serial: found.serial, size: found.size },
            device: found.device,
            name: found.name,
            model: found.model,
            bus: found.bus,
            size: found.size,
            sector_size: found.sector_size,
            is_removable: found.is_removable,
            is_read_only: found.is_read_only,
            uses,
            contents: found.contents,
        }
    }

    /// Refuses a disk that is not the one that had this path when the user named it.
    ///
    /// # Errors
    /// It is another disk or medium, or it was plugged in again.
    pub fn is_still(&self, named: &Identity) -> Result<()> {
        match self.identity == *named {
            true => Ok(()),
            false => Err(replaced(&self.device, named, &self.identity.to_string())),
        }
    }
}

/// The error that another disk has the path of the one that the user named.
pub(super) fn replaced(device: &Path, named: &Identity, found: &str) -> Error {
    Error::usage(format!("`{}` is not the disk that was named", device.display()))
        .cause(format!("named: {named}"))
        .cause(format!("found: {found}"))
        .hint(
            "nothing was written: check which disk it is now, and run the same command again. The \
             image is built already",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_block_device_is_a_disk() {
        for path in ["/dev/null", "/dev/no-such-disk", "/etc/passwd", "/"] {
            assert_eq!(find(Path::new(path)), Found::Nothing, "{path}");
        }
    }
}
