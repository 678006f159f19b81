//! Files of the stick on the new node's DATA, at the paths that the node has declared.

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

/// How long the device file of a partition may take to appear.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A file that is to be put onto DATA.
#[derive(Debug, PartialEq, Eq)]
pub struct Planned<'a> {
    /// The folder of DATA that is behind a declared path.
    folder: &'static str,
    /// That path's mode.
    folder_mode: u32,
    /// The file in that folder.
    path: PathBuf,
    /// Its mode.
    mode: u32,
    bytes: &'a [u8],
}

/// Where a file of the node stands on DATA.
///
/// # Errors
/// Nothing of that path lasts on the node.
pub fn plan<'a>(path: &str, bytes: &'a [u8]) -> Outcome<Planned<'a>> {
    let below =
        |row: &&Writable| path.strip_prefix(row.path).is_some_and(|rest| rest.starts_with('/'));
    let row = WRITABLE.iter().filter(below).max_by_key(|row| row.path.len());
    let found = row.and_then(|row| {
        if let Backing::Data(folder) = row.backing { Some((row, folder)) } else { None }
    });
    let (row, folder) = found.ok_or_else(|| {
        Failure::new(format!("`{path}` is not below a path of the node that lasts"))
    })?;
    let rest = &path[row.path.len() + 1..];
    if rest.split('/').any(|name| matches!(name, "" | "." | "..")) || rest.contains('\0') {
        return Err(Failure::new(format!("`{path}` is not the path of a file")));
    }
    // What a configuration holds is nobody else's business.
    let mode = if row.exec { 0o755 } else { 0o600 };
    Ok(Planned { folder, folder_mode: row.mode, path: rest.into(), mode, bytes })
}

impl Planned<'_> {
    /// Writes it below `data`, where DATA is mounted, onto the medium.
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

/// Puts the files onto DATA of a disk that holds all of an image but its table, which says where
/// DATA is. Nobody else has the disk open.
pub fn put(disk: &Disk, table: &Table, files: &[Planned], mount_point: &Path) -> Outcome {
    let what = || format!("put files onto {DATA} of {}", disk.device.display());
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

/// The device file of a partition: a number at the end of a disk's name is kept apart by a `p`.
fn partition(disk: &Disk, number: u32) -> PathBuf {
    let between = if disk.name.ends_with(|last: char| last.is_ascii_digit()) { "p" } else { "" };
    device_file(&format!("{}{between}{number}", disk.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_declared_path_leads_to_its_folder_of_data() {
        let file = plan("/etc/kubernetes/kubelet.conf.d/10-a.conf", b"x").unwrap();
        assert_eq!((file.folder, file.folder_mode, file.mode), ("kubernetes", 0o700, 0o600));
        assert_eq!(file.path, Path::new("kubelet.conf.d/10-a.conf"));
        assert_eq!(plan("/opt/cni/bin/bridge", b"x").unwrap().mode, 0o755);
    }

    #[test]
    fn what_does_not_last_or_leads_elsewhere_is_refused() {
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
    fn a_file_lands_with_its_modes() {
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
