//! Mounts the rows of the table of writable paths that DATA is behind.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use osbuild_abi::paths::{DATA, KUBELET_CONFIG_DIR};
use osbuild_abi::writable::{From, WRITABLE, Writable};
use osbuild_failure::{Explain, Outcome};
use rustix::mount::{MountFlags, mount_bind, mount_remount};

use crate::node::Node;
use crate::servers;

/// Mounts them, and makes the few files and folders in them that others expect.
pub fn mount(_: &mut Node) -> Outcome {
    for row in WRITABLE {
        match row.from {
            From::Data(name) => bind(row, &folder(name, row.mode)?)?,
            From::DataFile(name) => bind(row, &Path::new(DATA).join(name))?,
            From::Memory(_) => {}
        }
    }
    fs::create_dir_all(KUBELET_CONFIG_DIR).explain(format_args!("make {KUBELET_CONFIG_DIR}"))?;
    servers::write_empty()
}

fn folder(name: &str, mode: u32) -> Outcome<std::path::PathBuf> {
    let path = Path::new(DATA).join(name);
    fs::create_dir_all(&path).explain(format_args!("make {}", path.display()))?;
    fs::set_permissions(&path, Permissions::from_mode(mode)).explain(format_args!("set the mode of {}", path.display()))?;
    Ok(path)
}

fn bind(row: &Writable, source: &Path) -> Outcome {
    mount_bind(source, row.path).explain(format_args!("bind {} to {}", source.display(), row.path))?;
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
