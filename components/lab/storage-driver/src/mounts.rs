//! Mounts of volumes. The kubelet repeats a call whose reply it has not seen, so each call may find
//! its work done.

use osbuild_failure::{Explain, Outcome};
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use std::fs;
use std::io;
use std::path::Path;

/// Restrictions of every volume.
const FLAGS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Mounts a file system in memory that has a file with this text. `source` stands for it in the
/// table of mounts. The kubelet has made the folder that `target` is in.
///
/// # Errors
/// The kernel or the file system refuses it.
pub fn memory(source: &str, target: &Path, file: &str, text: &str) -> Outcome {
    if make_point(target)? {
        let place = target.display();
        mount(source, target, "tmpfs", FLAGS, c"mode=0755,size=1m")
            .explain(format_args!("mount a tmpfs at `{place}`"))?;
    }
    let path = target.join(file);
    fs::write(&path, text).explain(format_args!("write `{}`", path.display()))
}

/// Mounts a folder at another place.
///
/// # Errors
/// The folder is missing, or the kernel or the file system refuses it.
pub fn folder(source: &Path, target: &Path) -> Outcome {
    if make_point(target)? {
        let (folder, place) = (source.display(), target.display());
        mount_bind(source, target).explain(format_args!("mount `{folder}` at `{place}`"))?;
    }
    Ok(())
}

/// Ends a mount, and removes the folder that it was on.
///
/// # Errors
/// A process uses it, or the folder is not empty.
pub fn end(target: &Path) -> Outcome {
    let place = target.display();
    match is_mount(target) {
        Ok(true) => {
            unmount(target, UnmountFlags::empty()).explain(format_args!("unmount `{place}`"))?
        }
        Ok(false) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).explain(format_args!("look at `{place}`")),
    }
    fs::remove_dir(target).explain(format_args!("remove `{place}`"))
}

/// Makes the folder for a mount, if it is missing. Returns whether nothing is mounted there.
fn make_point(target: &Path) -> Outcome<bool> {
    let place = target.display();
    fs::create_dir_all(target).explain(format_args!("make `{place}`"))?;
    Ok(!is_mount(target).explain(format_args!("look at `{place}`"))?)
}

/// Whether something is mounted there. A folder that is mounted elsewhere on its own file system
/// has the same device number.
fn is_mount(path: &Path) -> io::Result<bool> {
    let facts = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty())?;
    Ok(facts.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_that_has_ended_may_end_again() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("mount");
        assert!(make_point(&target).unwrap());
        assert!(make_point(&target).unwrap());
        end(&target).unwrap();
        assert!(!target.exists());
        end(&target).unwrap();
        assert!(is_mount(Path::new("/proc")).unwrap());
    }

    #[test]
    fn a_folder_with_files_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("mount");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("file"), "text").unwrap();
        assert!(end(&target).is_err());
        assert!(target.join("file").exists());
    }
}
