//! A volume that is a folder of DATA, below `volumes` there.

use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;
use osbuild_protocol::{VolumeName, VolumePhase};
use rustix::fs::statvfs;
use rustix::mount::{MountFlags, mount_bind, mount_remount};

use super::FLAGS;
use crate::data;
use crate::host::volume_settings::Report;

/// The folder of DATA with those of the volumes.
const FOLDER: &str = "volumes";
/// The mode of a new one: that of the root of a new file system.
const MODE: u32 = 0o755;

/// Makes the folder, if it is missing, and mounts it.
///
/// # Errors
/// DATA is full, is read-only, or does not work.
pub fn mount(data: &Folder, name: &VolumeName, point: &str) -> Outcome<Report> {
    let folder = data::folder::of_pods(data, FOLDER, name.as_str(), MODE)?;
    mount_bind(folder.magic_path(), point).explain(format_args!("mount {FOLDER}/{name}"))?;
    // The kernel ignores these flags on the bind itself.
    mount_remount(point, MountFlags::BIND | FLAGS, c"")
        .explain(format_args!("restrict `{point}`"))?;
    let size = statvfs(point).explain(format_args!("ask for the size of `{point}`"))?;
    // `init` knows the device from its table of mounts.
    let mut report = Report::new(VolumePhase::Mounted, "", "");
    report.state.bytes = size.f_blocks * size.f_frsize;
    Ok(report)
}
