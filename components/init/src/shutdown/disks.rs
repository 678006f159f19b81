//! Leaves the disks at the end of a shutdown. Each function may wait for a disk, so it runs in a
//! thread.

use std::fs::File;
use std::path::Path;

use osbuild_abi::paths::DATA;
use osbuild_failure::{Explain, Outcome};
use rustix::mount::{MountFlags, UnmountFlags, mount_remount, unmount};

use crate::host::mounts;
use crate::sequence::disk_wait;

/// Writes all of DATA to its disk.
pub fn flush_data() -> Outcome {
    let data = File::open(DATA).explain(format_args!("open {DATA}"))?;
    rustix::fs::syncfs(&data).explain(format_args!("flush {DATA}"))
}

/// Unmounts everything, deepest first: what is on DATA, and what pods have mounted.
pub fn unmount_all() -> Outcome {
    for path in mounts::observe()? {
        // A mount in use stays; DATA is made read-only then.
        let _ = unmount(&path, UnmountFlags::empty());
    }
    Ok(())
}

/// Makes DATA read-only if it is still mounted.
pub fn make_data_read_only() -> Outcome {
    if mounts::observe()?.iter().all(|path| path != Path::new(DATA)) {
        return Ok(());
    }
    mount_remount(DATA, MountFlags::RDONLY, c"")
        .explain(format_args!("{DATA} cannot be unmounted nor made read-only"))
}

/// Writes everything to any disk. A volume whose server is gone would never be written.
pub fn sync_all() -> Outcome {
    rustix::fs::sync();
    Ok(())
}

/// The bytes that wait to be written to any disk.
pub fn unwritten() -> u64 {
    disk_wait::unwritten(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default())
}
