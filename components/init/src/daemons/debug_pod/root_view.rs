//! The node's root as a debug container sees it: a second tree of all of its mounts, each of which
//! is read-only.
//!
//! `recursiveReadOnly` of a volume would do the same, but the kubelet refuses that on a node in no
//! cluster: it asks its manager of runtime classes, which it has with an API server alone.

use std::io;

use osbuild_abi::paths::DEBUG_ROOT;
use osbuild_failure::{Explain, Outcome};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};

use crate::host::run_files;
use crate::sys;

/// Mounts the tree on [`DEBUG_ROOT`]. What the node mounts later is not part of it once a container
/// has it; what the node unmounts leaves it.
///
/// # Errors
/// The kernel refuses.
pub fn make() -> Outcome {
    run_files::folder(DEBUG_ROOT).explain(format_args!("make {DEBUG_ROOT}"))?;
    mount_tree().explain(format_args!("mount the root on {DEBUG_ROOT}"))
}

/// Nothing is writable before it has a path.
fn mount_tree() -> io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, "/", flags)?;
    sys::make_read_only(&tree)?;
    let from_tree = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(&tree, "", CWD, DEBUG_ROOT, from_tree)?)
}

/// Unmounts the tree, if there is one. A container that still runs keeps its own.
///
/// # Errors
/// The kernel refuses.
pub fn remove() -> Outcome {
    match unmount(DEBUG_ROOT, UnmountFlags::DETACH) {
        // Not a mount point, or no container has ever had one.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno).explain(format_args!("unmount {DEBUG_ROOT}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

    /// Runs a test on a thread whose root is shared, as on a node, with a file system below `/run`.
    fn on_a_node(work: impl FnOnce(&Path) + Send) {
        let inside = || {
            sys::own_mounts().expect("these tests require uid 0 and CAP_SYS_ADMIN");
            let (all, none) = (MountPropagationFlags::REC, MountFlags::empty());
            mount_change("/", MountPropagationFlags::PRIVATE | all).unwrap();
            mount("node", "/run", "tmpfs", none, None).unwrap();
            std::fs::create_dir_all("/run/volume").unwrap();
            mount("volume", "/run/volume", "tmpfs", none, None).unwrap();
            std::fs::write("/run/volume/file", "text").unwrap();
            mount_change("/", MountPropagationFlags::SHARED | all).unwrap();
            work(&Path::new(DEBUG_ROOT).join("run/volume/file"));
        };
        let ended = std::thread::scope(|scope| scope.spawn(inside).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }

    #[test]
    fn a_container_reads_the_mounts_of_the_node_and_writes_to_none() {
        on_a_node(|seen| {
            make().unwrap();
            assert_eq!(std::fs::read_to_string(seen).unwrap(), "text");
            let written = std::fs::write(seen, "wrong").unwrap_err();
            assert_eq!(written.kind(), io::ErrorKind::ReadOnlyFilesystem);
            let written = std::fs::write(Path::new(DEBUG_ROOT).join("x"), "wrong").unwrap_err();
            assert_eq!(written.kind(), io::ErrorKind::ReadOnlyFilesystem);
            std::fs::write("/run/volume/file", "the node still writes").unwrap();
        });
    }

    #[test]
    fn a_volume_that_the_node_unmounts_is_not_held() {
        on_a_node(|seen| {
            make().unwrap();
            assert!(seen.exists());
            unmount("/run/volume", UnmountFlags::empty()).unwrap();
            assert!(!seen.exists());
        });
    }

    #[test]
    fn the_tree_goes_whole_and_can_be_made_again() {
        on_a_node(|seen| {
            remove().unwrap();
            for _ in 0..2 {
                make().unwrap();
                assert!(seen.exists());
                remove().unwrap();
                let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
                assert!(!mounts.contains(DEBUG_ROOT), "{mounts}");
            }
        });
    }
}
