//! Finds DATA on the disk that the node was booted from, grows it to that disk, and mounts it.

use std::ffi::CString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use osbuild_abi::paths::DATA;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_formats::ext4;
use rustix::mount::{MountFlags, mount as mount_fs};
use uuid::Uuid;

use super::disks::{self, Disk, Partition};
use super::{grow, identity, reserve};
use crate::host::mounts::mount_one;
use crate::uptime::uptime;

/// The name of the phase that mounts DATA, and of the lines about it.
pub const NAME: &str = "data";

/// How long the kernel may take to find the disk after it has started `init`.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The mount options of a DATA on a disk.
///
/// After an error of the disk nothing more is written, and the node's pods and the kubelet show it.
/// Blocks are allocated when a program writes and not half a minute later: otherwise a power cut
/// leaves new files empty, and neither the kubelet nor containerd flushes all of theirs.
const OPTIONS: &str = "errors=remount-ro,nodelalloc";

/// The mount options of a DATA in memory.
const IN_MEMORY_OPTIONS: &str = "mode=0755,size=50%";

/// No program, device or set-user-id bit on DATA works, except where the table of writable paths
/// says so.
const FLAGS: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC)
    .union(MountFlags::NOATIME);

/// Mounts DATA from the disk `booted`, in which case the disk has this GUID, or from the only disk
/// that has a partition DATA. Returns the disk, and adds `lines` for the console.
pub fn from_disk(lines: &mut Vec<String>, booted: Option<Uuid>) -> Outcome<Disk> {
    let (disk, partition) = wait(|| disks::choose(disks::all(), booted))?;
    let device = partition.device();
    let device = device.display();
    lines.push(format!("{device} on disk {}", disk.name));
    // A disk that cannot be grown is smaller than it could be, and boots.
    if let Err(failure) = grow::partition(&disk, &partition) {
        lines.push(failure.to_string());
    }
    match mend(&partition) {
        Ok(true) => lines.push("a power cut tore its superblock, which is mended".to_owned()),
        Ok(false) => {}
        Err(failure) => lines.push(failure.to_string()),
    }
    let mount = || {
        let options = CString::new(format!("{OPTIONS},{}", reserve::OPTIONS)).ok();
        mount_fs(partition.device(), DATA, "ext4", FLAGS, options.as_deref())
            .explain(format_args!("mount {device} on {DATA}"))
    };
    mount()?;
    match grow::file_system(&partition) {
        Ok(grown) => lines.extend(grown),
        Err(failure) => lines.push(failure.to_string()),
    }
    reserve::apply(lines, &partition.device(), mount)?;
    if let Err(failure) = identity::of_file_system() {
        lines.push(failure.to_string());
    }
    Ok(disk)
}

/// Mounts DATA in memory: the node keeps nothing, and has no disk of its own. Returns the
/// disk `booted`, if it is there: its slot becomes a good one like any other.
pub fn in_memory(lines: &mut Vec<String>, booted: Option<Uuid>) -> Outcome<Option<Disk>> {
    mount_one("tmpfs", DATA, FLAGS, IN_MEMORY_OPTIONS)?;
    lines.push("in memory".to_owned());
    Ok(booted.and_then(|guid| wait(|| find(guid)).ok()))
}

fn find(guid: Uuid) -> Outcome<Disk> {
    let found = disks::all().into_iter().find(|disk| disk.guid == Some(guid));
    found.ok_or_else(|| Failure::new("the disk that was booted is missing"))
}

/// Repairs a superblock that a power cut has torn, which Linux would not mount. Returns whether it
/// was torn.
fn mend(partition: &Partition) -> Outcome<bool> {
    let device = partition.device();
    let cannot = format!("mend {}", device.display());
    let mut file = File::options().read(true).write(true).open(&device).explain(&cannot)?;
    let Some(write) = ext4::mend(&mut file).explain(&cannot)? else { return Ok(false) };
    file.write_all_at(&write.bytes, write.offset)
        .and_then(|()| file.sync_all())
        .explain(&cannot)?;
    Ok(true)
}

/// Looks until something is found, for [`TIMEOUT`] at most.
fn wait<T>(look: impl Fn() -> Outcome<T>) -> Outcome<T> {
    let deadline = uptime() + TIMEOUT;
    loop {
        match look() {
            Ok(found) => return Ok(found),
            Err(failure) if uptime() > deadline => return Err(failure),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
