//! DATA, the one partition that persists: found on the disk that the node was booted from, grown to that disk, mounted.

use std::time::Duration;

use osbuild_abi::paths::DATA;
use rustix::mount::{MountFlags, mount as mount_fs};

use crate::disks::{self, Disk, Partition};
use crate::failure::{Explain, Outcome};
use crate::node::Node;
use crate::uptime::uptime;
use crate::{grow, identity, slot};

/// How long a disk may take to be seen, after the kernel started `init`.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for DATA and mounts it. No program, device or set-user-id bit on it works, except where the table of writable paths says so.
pub fn mount(node: &mut Node) -> Outcome {
    let (disk, partition) = find()?;
    node.console.say("data", format_args!("{} on disk {}", partition.device().display(), disk.name));
    // A disk that cannot be grown is smaller than it could be, which is no reason not to boot.
    if let Err(failure) = grow::partition(&disk, &partition) {
        node.console.say("data", failure);
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::NOATIME;
    // After an error of the disk nothing more is written, and the node's pods and the kubelet show it. Blocks are found when a program writes
    // and not half a minute later: otherwise a power cut leaves new files empty, and neither the kubelet nor containerd flushes all of theirs.
    mount_fs(partition.device(), DATA, "ext4", flags, c"errors=remount-ro,nodelalloc")
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

fn find() -> Outcome<(Disk, Partition)> {
    let deadline = uptime() + PATIENCE;
    let booted = slot::booted().map(|booted| booted.disk);
    loop {
        match disks::choose(disks::all(), booted) {
            Ok(found) => return Ok(found),
            Err(failure) if uptime() > deadline => return Err(failure),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
