//! A partition of the node's disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The kernel's names of a partition and of the disk that it is on.
#[derive(Debug, PartialEq, Eq)]
pub struct Partition {
    name: PathBuf,
    disk: PathBuf,
}

impl Partition {
    /// Finds a partition by its name in the partition table (`PARTNAME` in its uevent,
    /// block/partitions/core.c), on the node whose root is `host`.
    pub fn named(host: &Path, wanted: &str) -> io::Result<Partition> {
        for entry in fs::read_dir(host.join("sys/class/block"))? {
            let entry = entry?;
            let about = fs::read_to_string(entry.path().join("uevent"))?;
            if about.lines().any(|line| line.strip_prefix("PARTNAME=") == Some(wanted)) {
                // The entry links to the partition's folder, which is inside the disk's folder.
                let folder = fs::read_link(entry.path())?;
                let disk =
                    folder.parent().and_then(Path::file_name).ok_or(io::ErrorKind::NotFound)?;
                return Ok(Partition { name: entry.file_name().into(), disk: disk.into() });
            }
        }
        Err(io::Error::other(format!("no disk has a partition {wanted}")))
    }

    /// Its device file.
    pub fn device(&self, host: &Path) -> PathBuf {
        host.join("dev").join(&self.name)
    }

    /// The device file of its disk.
    pub fn disk(&self, host: &Path) -> PathBuf {
        host.join("dev").join(&self.disk)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Creates these partitions of the disk `vda`, each with its device name and its partition
    /// name.
    pub fn create(host: &Path, partitions: &[(&str, &str)]) {
        let class = host.join("sys/class/block");
        for folder in [&class, &host.join("dev")] {
            fs::create_dir_all(folder).unwrap();
        }
        for (device, name) in partitions {
            let folder = host.join("sys/devices/virtio0/block/vda").join(device);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("uevent"), format!("DEVNAME={device}\nPARTNAME={name}\n"))
                .unwrap();
            symlink(Path::new("../../devices/virtio0/block/vda").join(device), class.join(device))
                .unwrap();
        }
    }

    #[test]
    fn a_partition_and_its_disk_are_found_by_name() {
        let host = tempfile::tempdir().unwrap();
        create(host.path(), &[("vda2", "SLOT-A"), ("vda3", "SLOT-B")]);
        let partition = Partition::named(host.path(), "SLOT-B").unwrap();
        assert_eq!(partition.device(host.path()), host.path().join("dev/vda3"));
        assert_eq!(partition.disk(host.path()), host.path().join("dev/vda"));
        assert!(Partition::named(host.path(), "SLOT-C").is_err());
    }
}
