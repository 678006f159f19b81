//! `init volume-N mount NAME BACKING` prepares and mounts a volume, and `init volume-N unmount
//! NAME` unmounts it. It may wait for a disk for ever, so it is a child.

mod disk;
mod find;
mod folder;
mod users;

use std::ffi::CStr;
use std::path::Path;

use osbuild_disks::device_file;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_protocol::{DiskId, VolumeBacking, VolumeName, VolumePhase};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use self::disk::Prepared;
use crate::data::{self, grow};
use crate::host::volume_settings::{self, Report};

/// After an error of the disk nothing more is written, and the status of the volume has it.
const OPTIONS: &CStr = c"errors=remount-ro";
const FLAGS: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC)
    .union(MountFlags::NOATIME);

/// Does what the arguments say, and prints the report.
pub fn run(arguments: &[&str]) -> Outcome {
    let parse = |name| VolumeName::parse(name).map_err(|refusal| Failure::new(refusal.reason));
    let report = match arguments {
        ["mount", name, word] => {
            let backing = VolumeBacking::parse_word(word);
            let backing = backing.map_err(|refusal| Failure::new(refusal.reason))?;
            mount_report(&parse(name)?, &backing)
        }
        ["unmount", name] => unmount_report(&parse(name)?),
        _ => return Err(Failure::new("a volume is mounted or unmounted")),
    };
    print!("{}", report.text());
    Ok(())
}

fn mount_report(name: &VolumeName, backing: &VolumeBacking) -> Report {
    let point = volume_settings::path(name.as_str());
    match backing {
        VolumeBacking::Disk(disk) => disk_report(name, disk, &point),
        VolumeBacking::Folder => data::folder::open()
            .and_then(|data| folder::mount(&data, name, &point))
            .unwrap_or_else(|failure| Report::new(VolumePhase::Failed, "", failure.to_string())),
    }
}

fn disk_report(name: &VolumeName, disk: &DiskId, point: &str) -> Report {
    match find::disk(Path::new("/sys/block"), disk) {
        Ok(device) => mounted(&device_file(&device), name, point)
            .unwrap_or_else(|(phase, failure)| Report::new(phase, &device, failure.to_string())),
        Err((phase, error)) => Report::new(phase, "", error),
    }
}

fn unmount_report(name: &VolumeName) -> Report {
    let point = volume_settings::path(name.as_str());
    let unmounted = users::of(&point).and_then(|users| match users.is_empty() {
        true => {
            unmount(point.as_str(), UnmountFlags::NOFOLLOW).explain(format!("unmount `{point}`"))
        }
        false => Err(Failure::new(users::in_words(&users))),
    });
    match unmounted {
        Ok(()) => Report::new(VolumePhase::Waiting, "", ""),
        Err(failure) => Report::new(VolumePhase::Leaving, "", failure.to_string()),
    }
}

/// Prepares the disk with this device file and mounts it.
fn mounted(
    device: &Path,
    name: &VolumeName,
    point: &str,
) -> Result<Report, (VolumePhase, Failure)> {
    let Prepared { size, notes } = disk::prepare(device, name)?;
    let failed = |failure| (VolumePhase::Failed, failure);
    let what = format!("mount {}", device.display());
    mount(device, point, "ext4", FLAGS, OPTIONS).explain(what).map_err(failed)?;
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let mut report = Report { notes, ..Report::new(VolumePhase::Mounted, &name, "") };
    // One that cannot grow is smaller than it could be, and mounted.
    match grow::file_system_at(point, size) {
        Ok(grown) => report.notes.extend(grown),
        Err(failure) => report.error = failure.to_string(),
    }
    report.state.bytes = size;
    Ok(report)
}

#[cfg(test)]
mod tests;
