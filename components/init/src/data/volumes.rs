//! Volumes with a node document, for the pod `bootstrap`: only their labels are read here, and the
//! pod gets a descriptor for reading.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use osbuild_abi::paths::VOLUMES;
use osbuild_abi::volumes::LABELS;
use osbuild_formats::volume::label;
use osbuild_protocol::{BlockDevice, Refusal, RefusalCode};
use rustix::fs::OFlags;

/// The folder with an entry for each disk and each partition.
const DEVICES: &str = "/sys/class/block";
/// The folder of their device files.
const FILES: &str = "/dev";
/// The start of the names of devices that no one brings a document on: they are in memory, show
/// other devices, or take seconds to find that they are empty.
const LEFT_OUT: [&str; 6] = ["ram", "zram", "loop", "dm-", "md", "fd"];

/// A volume that was opened for reading.
pub struct OpenedVolume {
    /// Its device.
    pub device: BlockDevice,
    /// Its descriptor.
    pub descriptor: OwnedFd,
}

/// Opens the first volume whose label is one of [`LABELS`], in the order of the names of devices,
/// after the device `after`. It may wait for a disk.
///
/// # Errors
/// The image does not allow it.
pub fn open(after: Option<&BlockDevice>) -> Result<Option<OpenedVolume>, Refusal> {
    if !Path::new(VOLUMES).is_dir() {
        let reason = "the recipe of this image has no `[volumes]`";
        return Err(Refusal::new(RefusalCode::NotAllowed, reason));
    }
    Ok(first(Path::new(DEVICES), Path::new(FILES), after))
}

fn first(devices: &Path, files: &Path, after: Option<&BlockDevice>) -> Option<OpenedVolume> {
    let names = fs::read_dir(devices).ok()?.flatten().map(|entry| entry.file_name());
    let mut devices: Vec<BlockDevice> = names
        .filter_map(|name| BlockDevice::parse(name.to_str()?).ok())
        .filter(|device| !LEFT_OUT.iter().any(|start| device.as_str().starts_with(start)))
        .filter(|device| after.is_none_or(|after| device > after))
        .collect();
    devices.sort();
    devices.into_iter().find_map(|device| {
        let descriptor = open_labelled(&files.join(device.as_str()))?.into();
        Some(OpenedVolume { device, descriptor })
    })
}

/// Opens a device if it has one of the labels. A drive without a disc is not closed or waited for.
fn open_labelled(path: &Path) -> Option<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let mut file = File::options().read(true).custom_flags(flags.bits() as i32).open(path).ok()?;
    let label = label(&mut file)?;
    LABELS.iter().any(|known| label.eq_ignore_ascii_case(known)).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_formats::fat::Volume;
    use std::fs;

    fn volume(label: &str) -> Vec<u8> {
        let volume = Volume { sector_size: 512, size: 34 << 20, label, id: 1 };
        volume.write::<Vec<u8>>(&[]).unwrap()
    }

    #[test]
    fn only_volumes_with_a_known_label_are_opened_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        for (name, label) in [
            ("vdb", "CIDATA"),
            ("sda", "ESP"),
            ("sda1", "CONFIG-2"),
            ("loop0", "CIDATA"),
            ("sr0", "DATA"),
        ] {
            fs::write(folder.path().join(name), volume(label)).unwrap();
        }
        fs::write(folder.path().join("empty"), "").unwrap();
        std::os::unix::fs::symlink("vdb", folder.path().join("vdc")).unwrap();
        let first = |after: Option<&BlockDevice>| first(folder.path(), folder.path(), after);
        let mut after = None;
        let mut found = Vec::new();
        while let Some(opened) = first(after.as_ref()) {
            let mut file = File::from(opened.descriptor);
            assert!(label(&mut file).is_some());
            assert!(std::io::Write::write(&mut file, b"x").is_err(), "it is for reading");
            found.push(opened.device.to_string());
            after = Some(opened.device);
        }
        assert_eq!(found, ["sda1", "vdb"]);
    }

    #[test]
    fn an_image_without_the_section_opens_no_volume() {
        let refusal = open(None).err().unwrap();
        assert_eq!(refusal.code, RefusalCode::NotAllowed);
    }
}
