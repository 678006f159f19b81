//! Mounts the writable paths that are on DATA, and those that the recipe declares.

use std::os::fd::AsRawFd;
use std::path::Path;

use osbuild_abi::declared::{self, Backing, DATA_FOLDER, Declared};
use osbuild_abi::paths::WRITABLE_PATHS;
use osbuild_abi::writable::{self, WRITABLE};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_folder::Folder;
use rustix::mount::{MountFlags, mount_bind, mount_remount};

use super::obstacles;
use crate::data;
use crate::host::mounts::mount_one;

/// Mounts them, and clears what is in the way of the daemons. Returns what could not be cleared.
pub fn mount() -> Outcome<Vec<Failure>> {
    let data = data::folder::open()?;
    for row in WRITABLE {
        match row.backing {
            writable::Backing::Data(name) => {
                let folder =
                    data.folder(name, row.mode).explain(format_args!("make {name} on DATA"))?;
                bind(&folder.magic_path(), row.path, flags(row.exec))?;
            }
            writable::Backing::DataFile(name) => {
                let file = data.file(name).explain(format_args!("open {name} on DATA"))?;
                let file =
                    file.ok_or_else(|| Failure::new(format!("there is no {name} on DATA")))?;
                bind(
                    &Path::new("/proc/self/fd").join(file.as_raw_fd().to_string()),
                    row.path,
                    flags(row.exec),
                )?;
            }
            writable::Backing::Memory(_) => {}
        }
    }
    mount_declared(&data)?;
    Ok(obstacles::clear(&data))
}

/// Mounts what the recipe declares. The list is in the signed root, so a malformed one ends the
/// boot.
fn mount_declared(data: &Folder) -> Outcome {
    let list = match std::fs::read_to_string(WRITABLE_PATHS) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        read => read.explain(format_args!("read {WRITABLE_PATHS}"))?,
    };
    let rows = declared::parse(&list)
        .ok_or_else(|| Failure::new(format!("{WRITABLE_PATHS} is malformed")))?;
    for Declared { path, backing, mode, exec } in rows {
        match backing {
            Backing::Data(name) => {
                let folder = data::folder::of_pods(data, DATA_FOLDER, name, mode)?;
                bind(&folder.magic_path(), path, flags(exec))?
            }
            Backing::Memory(mib) => {
                mount_one("tmpfs", path, flags(exec), &format!("mode={mode:o},size={mib}m"))?
            }
        }
    }
    Ok(())
}

fn bind(source: &Path, path: &str, flags: MountFlags) -> Outcome {
    mount_bind(source, path).explain(format_args!("bind DATA to {path}"))?;
    // The kernel ignores these flags on the bind itself.
    mount_remount(path, MountFlags::BIND | flags, c"").explain(format_args!("restrict {path}"))
}

/// The flags of a writable path: no devices, no set-user-id programs, and programs only where
/// `exec` says so.
fn flags(exec: bool) -> MountFlags {
    let restricted = MountFlags::NOSUID | MountFlags::NODEV;
    if exec { restricted } else { restricted | MountFlags::NOEXEC }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_noexec_unless_its_row_permits_execution() {
        for exec in [false, true] {
            assert!(flags(exec).contains(MountFlags::NOSUID | MountFlags::NODEV));
            assert_eq!(flags(exec).contains(MountFlags::NOEXEC), !exec);
        }
    }
}
