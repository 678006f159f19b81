//! Mounts the rows of the table of writable paths that DATA is behind.

use std::os::fd::AsRawFd;
use std::path::Path;

use osbuild_abi::writable::{From, WRITABLE, Writable};
use osbuild_failure::{Explain, Failure, Outcome};
use rustix::mount::{MountFlags, mount_bind, mount_remount};

use crate::node::Node;
use crate::{data, obstacles, servers};

/// Mounts them, and makes the few files and folders in them that others expect.
pub fn mount(node: &mut Node) -> Outcome {
    let data = data::folder()?;
    for row in WRITABLE {
        match row.from {
            From::Data(name) => {
                let folder = data.folder(name, row.mode).explain(format_args!("make {name} on DATA"))?;
                bind(row, &folder.magic_path())?;
            }
            From::DataFile(name) => {
                let file = data.file(name).explain(format_args!("open {name} on DATA"))?;
                let file = file.ok_or_else(|| Failure::new(format!("there is no {name} on DATA")))?;
                bind(row, &Path::new("/proc/self/fd").join(file.as_raw_fd().to_string()))?;
            }
            From::Memory(_) => {}
        }
    }
    for failure in obstacles::clear(&data) {
        node.console.say("writable", failure);
    }
    servers::write_first(node)
}

fn bind(row: &Writable, source: &Path) -> Outcome {
    mount_bind(source, row.path).explain(format_args!("bind DATA to {}", row.path))?;
    // The kernel ignores these flags on the bind itself.
    mount_remount(row.path, MountFlags::BIND | flags(row), c"").explain(format_args!("restrict {}", row.path))
}

/// The flags of a row: nothing on it is a device or gets rights when executed, and only what says so can be executed at all.
fn flags(row: &Writable) -> MountFlags {
    let restricted = MountFlags::NOSUID | MountFlags::NODEV;
    if row.exec { restricted } else { restricted | MountFlags::NOEXEC }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_can_be_executed_where_the_table_does_not_say_so() {
        for row in WRITABLE {
            assert!(flags(row).contains(MountFlags::NOSUID | MountFlags::NODEV));
            assert_eq!(flags(row).contains(MountFlags::NOEXEC), !row.exec, "{}", row.path);
        }
    }
}
