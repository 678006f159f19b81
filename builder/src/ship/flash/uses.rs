//! The uses of a disk by this machine: mounted file systems and swap, also through LVM, RAID and
//! encryption.

use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::os::linux::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The mount points of this machine's own system.
const SYSTEM: [&str; 6] = ["/", "/usr", "/var", "/boot", "/boot/efi", "/efi"];

/// One use of a disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// It holds this mount point of the machine's own system.
    System(String),
    /// One of its file systems is mounted here.
    Mounted(String),
    /// The machine swaps to it.
    Swap,
}

/// The uses of a disk by its kernel name, each once.
pub fn uses(disk: &str) -> Vec<Use> {
    let mounts = mounted(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
    let mounts = mounts.into_iter().map(|mount| {
        let device = device_of(&mount.source).unwrap_or(mount.device);
        (
            device,
            if SYSTEM.contains(&mount.place.as_str()) {
                Use::System(mount.place)
            } else {
                Use::Mounted(mount.place)
            },
        )
    });
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let swaps = swaps
        .lines()
        .skip(1)
        .filter_map(|line| Some((device_of(line.split_whitespace().next()?)?, Use::Swap)));
    let on_it = |device: &(u32, u32)| disks_beneath(*device).contains(disk);
    let found: BTreeSet<Use> =
        mounts.chain(swaps).filter(|(device, _)| on_it(device)).map(|(_, what)| what).collect();
    found.into_iter().collect()
}

/// A line of mountinfo (proc_pid_mountinfo(5)).
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    device: (u32, u32),
    place: String,
    source: String,
}

fn mounted(table: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let (major, minor) = fields.get(2)?.split_once(':')?;
        let source =
            fields.iter().position(|field| *field == "-").and_then(|dash| fields.get(dash + 2))?;
        let device = (major.parse().ok()?, minor.parse().ok()?);
        Some(Mount { device, place: unescaped(fields.get(4)?), source: unescaped(source) })
    };
    table.lines().filter_map(mount).collect()
}

/// Decodes the separators that the kernel escapes as a backslash and three octal digits.
fn unescaped(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (code, character)| text.replace(code, character))
}

/// The number of a block device, or of the device of a file. mountinfo does not give it for file
/// systems such as btrfs, which have device numbers of their own.
fn device_of(path: &str) -> Option<(u32, u32)> {
    let about = fs::metadata(path).ok().filter(|_| path.starts_with('/'))?;
    let number = match about.st_mode() & libc::S_IFMT {
        libc::S_IFBLK => about.st_rdev(),
        libc::S_IFREG => about.st_dev(),
        _ => return None,
    };
    Some((libc::major(number), libc::minor(number)))
}

/// The kernel names of the disks beneath a block device.
fn disks_beneath((major, minor): (u32, u32)) -> BTreeSet<String> {
    match PathBuf::from(format!("/sys/dev/block/{major}:{minor}")).canonicalize() {
        Ok(folder) => beneath(&folder),
        Err(_) => BTreeSet::new(),
    }
}

fn beneath(folder: &Path) -> BTreeSet<String> {
    if folder.join("partition").exists() {
        return folder.parent().map(beneath).unwrap_or_default();
    }
    let slaves = fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
    let below: BTreeSet<String> = slaves
        .filter_map(|entry| entry.path().canonicalize().ok())
        .flat_map(|slave| beneath(&slave))
        .collect();
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    if below.is_empty() { name.into_iter().collect() } else { below }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_sources_with_spaces_are_read() {
        let table = "28 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw\n\
                     41 28 0:37 /sub /mnt/my\\040stick rw - btrfs /dev/sdb1 rw\nnonsense\n";
        let mount = |device, place: &str, source: &str| Mount {
            device,
            place: place.into(),
            source: source.into(),
        };
        assert_eq!(
            mounted(table),
            [mount((254, 0), "/", "/dev/vda"), mount((0, 37), "/mnt/my stick", "/dev/sdb1")]
        );
    }
}
