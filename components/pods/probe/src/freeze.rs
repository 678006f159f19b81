//! Makes PID 1 stand still, as a fault in it or in the kernel could, and so that no detector of the
//! kernel notices: by the freezer of a control group of its own.

use std::fs;
use std::io;
use std::path::Path;

/// Freezes PID 1 of the node whose root is `host`. Only a reset ends that.
pub fn freeze(host: &Path) -> io::Result<()> {
    let group = host.join("sys/fs/cgroup/frozen");
    fs::create_dir_all(&group)?;
    fs::write(group.join("cgroup.procs"), "1")?;
    fs::write(group.join("cgroup.freeze"), "1")
}
