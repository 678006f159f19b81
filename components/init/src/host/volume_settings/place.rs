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
        // Pods that see later mounts get this one as it is now, and keep it so: a remount changes
        // that of `init` alone.
        let read_only = FLAGS | MountFlags::RDONLY;
        mount("volumes", VOLUME_MOUNTS, "tmpfs", read_only, c"mode=0755,size=64k")?;
        mount_remount(VOLUME_MOUNTS, FLAGS, c"")?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let folder = open_tree(CWD, VOLUME_MOUNTS, flags)?;
        mount_remount(VOLUME_MOUNTS, MountFlags::BIND | read_only, c"")?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};

    use crate::sys::own_mounts;

    #[test]
    fn a_pod_that_sees_later_mounts_writes_beside_no_volume() {
        let inside = || {
            own_mounts().expect("this test requires uid 0 and CAP_SYS_ADMIN");
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            mount("node", "/var", "tmpfs", MountFlags::empty(), None).unwrap();
            fs::create_dir("/var/mnt").unwrap();
            mount_change("/var", MountPropagationFlags::SHARED).unwrap();
            // As `HostToContainer` of a pod is.
            let pod = tempfile::tempdir().unwrap();
            mount_bind("/var", pod.path()).unwrap();
            mount_change(pod.path(), MountPropagationFlags::DOWNSTREAM).unwrap();
            let place = Place::mount().unwrap();
            place.make("db").unwrap();
            let seen = pod.path().join("mnt");
            assert!(seen.join("db").is_dir());
            for folder in [seen.as_path(), VOLUME_MOUNTS.as_ref()] {
                let error = fs::create_dir(folder.join("other")).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem, "{folder:?}");
            }
            place.remove("db");
            assert!(!seen.join("db").exists());
        };
        let ended = std::thread::scope(|scope| scope.spawn(inside).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}
