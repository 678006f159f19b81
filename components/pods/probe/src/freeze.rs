//! Freezes PID 1, as a fault in it or in the kernel could, with a control group's freezer. None of
//! the kernel's hang detectors notices that.

use std::fs;
use std::io;
use std::path::Path;

/// Freezes PID 1 of the node whose root is `host`. Only a reset thaws it.
pub fn freeze(host: &Path) -> io::Result<()> {
    let group = host.join("sys/fs/cgroup/frozen");
    fs::create_dir_all(&group)?;
    fs::write(group.join("cgroup.procs"), "1")?;
    fs::write(group.join("cgroup.freeze"), "1")
}
