//! DATA, the one partition that persists: found on the disk that the node was booted from, grown to
//! that disk, mounted.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use osbuild_abi::cmdline::{self, value};
use osbuild_abi::paths::DATA;
use osbuild_abi::writable::{Backing, WRITABLE};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_folder::Folder;
use osbuild_formats::ext4;
use rustix::mount::{MountFlags, mount as mount_fs};
use uuid::Uuid;

use crate::disks::{self, Disk, Partition};
use crate::mounts::mount_one;
use crate::node::Node;
use crate::uptime::uptime;
use crate::{grow, identity, slot};

/// How long a disk may take to be seen, after the kernel started `init`.
const PATIENCE: Duration = Duration::from_secs(20);

/// How much of the memory DATA may take where it is in memory.
const SHARE: &str = "mode=0755,size=50%";

/// No program, device or set-user-id bit on DATA works, except where the table of writable paths
/// says so.
const FLAGS: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC)
    .union(MountFlags::NOATIME);

/// The folder on DATA of what was in the way of something else there.
const ASIDE: &str = "aside";

/// DATA itself. A pod may have been given it, and a disk may come from anywhere: nothing on it is
/// opened by its path.
pub fn folder() -> Outcome<Folder> {
    Folder::open(Path::new(DATA), ASIDE).explain(format_args!("open {DATA}"))
}

/// The folder of DATA behind one of the writable paths.
pub fn behind(data: &Folder, path: &str) -> Outcome<Folder> {
    let name = WRITABLE.iter().find(|row| row.path == path).and_then(|row| match row.backing {
        Backing::Data(name) => Some(name),
        Backing::DataFile(_) | Backing::Memory(_) => None,
    });
    let name = name.ok_or_else(|| Failure::new(format!("no folder of DATA is behind {path}")))?;
    data.existing_folder(name).explain(format_args!("open {}", data.path().join(name).display()))
}

/// Mounts DATA: from the disk that was booted, or in memory where the command line says so.
pub fn mount(node: &mut Node) -> Outcome {
    match value(&node.command_line, cmdline::DATA) {
        Some(cmdline::IN_MEMORY) => in_memory(node),
        _ => on_disk(node),
    }
}

/// Nothing that this node does is to last, and no disk is its own. The one that it was booted from
/// is known all the same, if it was a disk: its slot becomes a good one like any other.
fn in_memory(node: &mut Node) -> Outcome {
    mount_one("tmpfs", DATA, FLAGS, SHARE)?;
    node.console.say("data", "in memory");
    node.disk = slot::booted().and_then(|booted| wait(|| booted_disk(booted.disk)).ok());
    Ok(())
}

fn booted_disk(guid: Uuid) -> Outcome<Disk> {
    let found = disks::all().into_iter().find(|disk| disk.guid == Some(guid));
    found.ok_or_else(|| Failure::new("the disk that was booted is not to be seen"))
}

/// Waits for DATA and mounts it.
fn on_disk(node: &mut Node) -> Outcome {
    let (disk, partition) = find()?;
    node.console
        .say("data", format_args!("{} on disk {}", partition.device().display(), disk.name));
    // A disk that cannot be grown is smaller than it could be, which is no reason not to boot.
    if let Err(failure) = grow::partition(&disk, &partition) {
        node.console.say("data", failure);
    }
    match mend(&partition) {
        Ok(true) => node.console.say("data", "a power cut tore its superblock, which is mended"),
        Ok(false) => {}
        Err(failure) => node.console.say("data", failure),
    }
    // After an error of the disk nothing more is written, and the node's pods and the kubelet show
    // it. Blocks are found when a program writes and not half a minute later: otherwise a power cut
    // leaves new files empty, and neither the kubelet nor containerd flushes all of theirs.
    mount_fs(partition.device(), DATA, "ext4", FLAGS, c"errors=remount-ro,nodelalloc")
        .explain(format_args!("mount {} on {DATA}", partition.device().display()))?;
    node.disk = Some(disk);
    match grow::file_system(&partition) {
        Ok(Some(grown)) => node.console.say("data", grown),
        Ok(None) => {}
        Err(failure) => node.console.say("data", failure),
    }
    if let Err(failure) = identity::of_file_system() {
        node.console.say("data", failure);
    }
    Ok(())
}

/// Mends what a power cut can do to a file system that Linux does not mount then. Gives whether
/// there was something to mend.
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

fn find() -> Outcome<(Disk, Partition)> {
    let booted = slot::booted().map(|booted| booted.disk);
    wait(|| disks::choose(disks::all(), booted))
}

/// Looks again and again, until it is found or too late.
fn wait<T>(look: impl Fn() -> Outcome<T>) -> Outcome<T> {
    let deadline = uptime() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return Ok(found),
            Err(failure) if uptime() > deadline => return Err(failure),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
