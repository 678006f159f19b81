//! Copies the stick's files to the new node's DATA, at paths that the node declares as persistent.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use osbuild_abi::disk::DATA;
use osbuild_abi::writable::{Backing, WRITABLE, Writable};
use osbuild_disks::{Disk, device_file, ioctl};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_formats::gpt::Table;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// How long to wait for a partition's device file.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A file to write to DATA.
#[derive(Debug, PartialEq, Eq)]
pub struct Planned<'a> {
    /// The folder of DATA behind a declared path.
    folder: &'static str,
    /// The mode of that folder.
    folder_mode: u32,
    /// The file's path in that folder.
    path: PathBuf,
    /// The file's mode.
    mode: u32,
    bytes: &'a [u8],
}

/// Maps a path of the node to a file on DATA.
///
/// # Errors
/// The path is not persistent.
pub fn plan<'a>(path: &str, bytes: &'a [u8]) -> Outcome<Planned<'a>> {
    let below =
        |row: &&Writable| path.strip_prefix(row.path).is_some_and(|rest| rest.starts_with('/'));
    let row = WRITABLE.iter().filter(below).max_by_key(|row| row.path.len());
    let found = row.and_then(|row| {
        if let Backing::Data(folder) = row.backing { Some((row, folder)) } else { None }
    });
    let (row, folder) = found.ok_or_else(|| {
        Failure::new(format!("`{path}` is not below a persistent path of the node"))
    })?;
    let rest = &path[row.path.len() + 1..];
    if rest.split('/').any(|name| matches!(name, "" | "." | "..")) || rest.contains('\0') {
        return Err(Failure::new(format!("`{path}` is not the path of a file")));
    }
    // A configuration may hold secrets.
    let mode = if row.exec { 0o755 } else { 0o600 };
    Ok(Planned { folder, folder_mode: row.mode, path: rest.into(), mode, bytes })
}

impl Planned<'_> {
    /// Writes and flushes the file. DATA is mounted at `data`.
    fn write(&self, data: &Path) -> std::io::Result<()> {
        let folder = data.join(self.folder);
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(self.folder_mode))?;
        let path = folder.join(&self.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = File::create(&path)?;
        file.set_permissions(Permissions::from_mode(self.mode))?;
        file.write_all(self.bytes)?;
        file.sync_all()
    }
}

/// Writes the files to DATA of a disk that has the whole image except its partition table; `table`
/// is that table. The disk must not be open elsewhere.
pub fn write_files(disk: &Disk, table: &Table, files: &[Planned], mount_point: &Path) -> Outcome {
    let what = || format!("write files to {DATA} of {}", disk.device.display());
    let entry = table
        .named(DATA)
        .ok_or_else(|| Failure::new(format!("the image has no partition {DATA}")))?;
    let sector_size = u64::from(disk.sector_size);
    let file = File::open(&disk.device).explain(what())?;
    ioctl::add_partition(
        &file,
        entry.number,
        entry.first * sector_size,
        entry.sectors() * sector_size,
    )
    .explain(what())?;
    let written = write_all(&partition(disk, entry.number), files, mount_point).explain(what());
    let removed = ioctl::remove_partition(&file, entry.number).explain(what());
    written.and(removed)
}

fn write_all(device: &Path, files: &[Planned], mount_point: &Path) -> std::io::Result<()> {
    let end = Instant::now() + TIMEOUT;
    while !device.exists() && Instant::now() < end {
        sleep(Duration::from_millis(20));
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount(device, mount_point, "ext4", flags, None)?;
    let written = files.iter().try_for_each(|file| file.write(mount_point));
    let unmounted = unmount(mount_point, UnmountFlags::empty());
    written.and(unmounted.map_err(Into::into))
}

/// The device file of a partition. If the disk's name ends with a digit, a `p` separates the
/// numbers.
fn partition(disk: &Disk, number: u32) -> PathBuf {
    let separator = if disk.name.ends_with(|last: char| last.is_ascii_digit()) { "p" } else { "" };
    device_file(&format!("{}{separator}{number}", disk.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_declared_path_maps_to_its_folder_of_data() {
        let file = plan("/etc/kubernetes/kubelet.conf.d/10-a.conf", b"x").unwrap();
        assert_eq!((file.folder, file.folder_mode, file.mode), ("kubernetes", 0o700, 0o600));
        assert_eq!(file.path, Path::new("kubelet.conf.d/10-a.conf"));
        assert_eq!(plan("/opt/cni/bin/bridge", b"x").unwrap().mode, 0o755);
    }

    #[test]
    fn paths_that_are_not_persistent_files_are_refused() {
        for path in [
            "/etc/machine-id",
            "/etc/machine-id/x",
            "/etc/passwd",
            "/run/x",
            "/etc/kubernetes",
            "/etc/kubernetes/",
            "/etc/kubernetes/../x",
            "/etc/kubernetes//x",
            "/etc/kubernetesx/y",
            "etc/kubernetes/x",
            "",
        ] {
            assert!(plan(path, b"").is_err(), "{path}");
        }
    }

    #[test]
    fn a_file_and_its_folder_get_their_modes() {
        let folder = tempfile::tempdir().unwrap();
        plan("/etc/kubernetes/a/b", b"text").unwrap().write(folder.path()).unwrap();
        assert_eq!(fs::read(folder.path().join("kubernetes/a/b")).unwrap(), b"text");
        let mode = |path: &str| {
            fs::metadata(folder.path().join(path)).unwrap().permissions().mode() & 0o777
        };
        assert_eq!((mode("kubernetes"), mode("kubernetes/a/b")), (0o700, 0o600));
    }

    proptest! {
        #[test]
        fn no_path_leaves_its_folder(
            path in "(/etc/kubernetes|/var/log)?(/|\\.|a|\\.\\.|\\x00){0,8}",
        ) {
            if let Ok(file) = plan(&path, b"") {
                let is_plain = |part| matches!(part, std::path::Component::Normal(_));
                prop_assert!(file.path.components().all(is_plain));
            }
        }
    }
}
