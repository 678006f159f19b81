//! The folder of the volumes' mount points. It is a file system in memory that is read-only to all
//! but `init`. So a volume's folder is there only while the volume is, and a pod that asks for it
//! too early fails instead of writing into memory.

use std::io;
use std::os::fd::OwnedFd;

use osbuild_abi::paths::VOLUME_MOUNTS;
use rustix::fs::{AtFlags, CWD, Mode, mkdirat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, OpenTreeFlags, mount, mount_remount, open_tree};

const FLAGS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// The folder, in which entries can be made through a mount of its own that nobody else sees.
pub struct Place {
    folder: OwnedFd,
}

impl Place {
    /// Mounts it. Later mounts below it appear in pods that see it.
    ///
    /// # Errors
    /// The image has no such mount point, or the kernel refuses.
    pub fn mount() -> io::Result<Place> {
        mount("volumes", VOLUME_MOUNTS, "tmpfs", FLAGS, c"mode=0755,size=64k")?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let folder = open_tree(CWD, VOLUME_MOUNTS, flags)?;
        mount_remount(VOLUME_MOUNTS, MountFlags::BIND | MountFlags::RDONLY | FLAGS, c"")?;
        Ok(Place { folder })
    }

    /// Makes the mount point of a volume, if it is missing.
    ///
    /// # Errors
    /// The folder is full.
    pub fn make(&self, name: &str) -> io::Result<()> {
        match mkdirat(&self.folder, name, Mode::from_raw_mode(0o755)) {
            Err(Errno::EXIST) => Ok(()),
            made => Ok(made?),
        }
    }

    /// Removes the mount point of a volume that is not mounted.
    pub fn remove(&self, name: &str) {
        // One that is missing is as it shall be.
        let _ = unlinkat(&self.folder, name, AtFlags::REMOVEDIR);
    }
}

/// The mount point of a volume.
pub fn path(name: &str) -> String {
    format!("{VOLUME_MOUNTS}/{name}")
}
