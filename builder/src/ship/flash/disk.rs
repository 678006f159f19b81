//! The disks of this machine, and what it uses them for.

use super::uses::{Use, uses};
use crate::error::{Error, Result};
use crate::report::bytes;
use osbuild_disks::device_file;
use serde::Serialize;
use std::fmt;
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
    /// What tells it from another disk that gets the same name.
    #[serde(skip)]
    pub identity: Identity,
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

/// What tells a disk from another one that gets the same name, or from the one that was in the same
/// reader before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its number since the machine was started, if the kernel gives it one.
    pub diskseq: Option<u64>,
    /// Its maker's number of this very one.
    pub serial: Option<String>,
    /// Its size in bytes.
    pub size: u64,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", bytes(self.size))?;
        self.serial.iter().try_for_each(|serial| write!(f, ", serial number `{serial}`"))?;
        self.diskseq
            .iter()
            .try_for_each(|number| write!(f, ", number {number} since this machine was started"))
    }
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
    found.map_or(Found::Nothing, |disk| Found::Disk(Box::new(Disk::of(disk))))
}

impl Disk {
    /// What the kernel shows of a disk, and what this machine uses it for.
    fn of(found: osbuild_disks::Disk) -> Self {
        let uses = uses(&found.name);
        Disk {
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
    /// It is another one, or another medium is in it, or it was plugged in again.
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
        .cause(format!("that had {named}"))
        .cause(format!("this one has {found}"))
        .hint(
            "nothing was written: see which disk it is now, and run the same command again. The \
               image is built by now",
        )
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
