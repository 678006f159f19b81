//! The firmware's variables: from what the machine was booted, what it boots next, and whom it
//! trusts.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use osbuild_abi::install::INSTALLED_VARIABLE;
use osbuild_abi::slot::{VARIABLE, VENDOR};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_formats::gpt::Partition;
use osbuild_protocol::BootReport;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use rustix::mount::{MountFlags, mount_remount};

use crate::boot_entry;

/// The vendor of the variables that UEFI itself defines (UEFI 2.10, 3.3).
const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// Bytes of a variable's attributes, with which a file of it begins.
const ATTRIBUTES: usize = 4;
/// The attributes of a variable of the boot menu: kept, and seen before and after the system has
/// started.
const MENU: u32 = 7;
/// The attributes of a variable that lasts as long as the machine runs.
const VOLATILE: u32 = 6;

const QUIET: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// The variables, as the kernel shows them in a folder that cannot be written.
pub struct Firmware {
    folder: PathBuf,
}

impl Firmware {
    /// The variables in this folder.
    pub fn new(folder: &Path) -> Firmware {
        Firmware { folder: folder.to_owned() }
    }

    /// What slotboot has started, if the machine was booted from a disk. By the network it was not.
    pub fn booted(&self) -> Option<BootReport> {
        let bytes = fs::read(self.folder.join(format!("{VARIABLE}-{VENDOR}"))).ok()?;
        let (attributes, text) = bytes.split_first_chunk()?;
        // One that persists tells of another boot.
        (u32::from_le_bytes(*attributes) == VOLATILE).then(|| BootReport::decode(text))?
    }

    /// Whether the firmware takes whatever keys it is given.
    pub fn is_in_setup_mode(&self) -> bool {
        self.value("SetupMode").is_some_and(|value| value == [1])
    }

    /// Whether it was told before to start from this system partition.
    pub fn was_told(&self, esp: &Partition) -> bool {
        let told = fs::read(self.folder.join(told())).unwrap_or_default();
        told.get(ATTRIBUTES..) == Some(&esp.guid.to_bytes_le()[..])
    }

    /// Has the firmware start a program of this system partition next, and from now on before all
    /// else.
    pub fn boot(&self, esp: &Partition, program: &str) -> Outcome {
        let number =
            self.number().ok_or_else(|| Failure::new("the firmware's boot menu is full"))?;
        let order = boot_entry::first(number, &self.value("BootOrder").unwrap_or_default());
        self.write_all(&[
            (format!("Boot{number:04X}-{GLOBAL}"), MENU, boot_entry::encode(esp, program)),
            (format!("BootOrder-{GLOBAL}"), MENU, order),
            (format!("BootNext-{GLOBAL}"), MENU, number.to_le_bytes().to_vec()),
            (told(), MENU, esp.guid.to_bytes_le().to_vec()),
        ])
    }

    /// Writes variables in their order: the name with its vendor, the attributes, the value.
    ///
    /// # Errors
    /// The firmware refuses one. Those before it are written.
    pub fn write_all(&self, variables: &[(String, u32, Vec<u8>)]) -> Outcome {
        // The kernel has one file system of variables, which nobody else can write to meanwhile, as
        // its other mounts stay read-only.
        mount_remount(&self.folder, QUIET, c"").explain("open the firmware's variables")?;
        let written = variables.iter().try_for_each(|(name, attributes, value)| {
            self.write(name, *attributes, value)
                .explain(format_args!("write the firmware's variable {name}"))
        });
        let closed = mount_remount(&self.folder, QUIET | MountFlags::RDONLY, c"");
        written.and(closed.explain("close the firmware's variables"))
    }

    fn write(&self, name: &str, attributes: u32, value: &[u8]) -> std::io::Result<()> {
        let path = self.folder.join(name);
        if let Ok(file) = File::open(&path) {
            // The kernel guards variables that a stray `rm` had better not remove.
            let flags = ioctl_getflags(&file)?;
            if flags.contains(IFlags::IMMUTABLE) {
                ioctl_setflags(&file, flags.difference(IFlags::IMMUTABLE))?;
            }
        }
        // The firmware takes a variable whole: in one write.
        let bytes = [&attributes.to_le_bytes()[..], value].concat();
        File::options().create(true).truncate(false).write(true).open(&path)?.write_all(&bytes)
    }

    /// The number of our entry in the boot menu, or of a new one.
    fn number(&self) -> Option<u16> {
        let entry = |number: &u16| self.value(&format!("Boot{number:04X}"));
        (0..=u16::MAX)
            .take(256)
            .find(|number| entry(number).is_some_and(|entry| boot_entry::is_ours(&entry)))
            .or_else(|| (0..=u16::MAX).find(|number| entry(number).is_none()))
    }

    /// The value of a variable of UEFI itself.
    fn value(&self, name: &str) -> Option<Vec<u8>> {
        let bytes = fs::read(self.folder.join(format!("{name}-{GLOBAL}"))).ok()?;
        bytes.get(ATTRIBUTES..).map(<[u8]>::to_vec)
    }
}

/// The file of the variable that remembers it.
fn told() -> String {
    format!("{INSTALLED_VARIABLE}-{VENDOR}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_formats::gpt::guid_from_name;

    fn firmware(variables: &[(&str, &[u8])]) -> (tempfile::TempDir, Firmware) {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in variables {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let firmware = Firmware::new(folder.path());
        (folder, firmware)
    }

    #[test]
    fn only_what_slotboot_told_in_this_boot_counts() {
        let name = format!("{VARIABLE}-{VENDOR}");
        let told = |attributes: u8| {
            let mut bytes = vec![attributes, 0, 0, 0];
            bytes.extend(b"00112233-4455-6677-8899-aabbccddeeff SLOT-A good");
            bytes
        };
        assert_eq!(firmware(&[(&name, &told(6))]).1.booted().unwrap().slot, "SLOT-A");
        assert!(firmware(&[(&name, &told(7))]).1.booted().is_none());
        assert!(firmware(&[]).1.booted().is_none());
    }

    #[test]
    fn a_firmware_was_told_of_one_partition_alone() {
        let partition = |name: &str| Partition {
            number: 1,
            type_guid: guid_from_name("type"),
            guid: guid_from_name(name),
            first: 2048,
            last: 4095,
            attributes: 0,
            name: "ESP".to_owned(),
        };
        let bytes = [&[7, 0, 0, 0][..], &partition("ours").guid.to_bytes_le()].concat();
        let (_folder, firmware) = firmware(&[(&told(), &bytes)]);
        assert!(firmware.was_told(&partition("ours")) && !firmware.was_told(&partition("other")));
    }

    #[test]
    fn our_entry_is_replaced_and_nobody_elses() {
        let global = |name: &str| format!("{name}-{GLOBAL}");
        let ours = [&[7, 0, 0, 0, 1, 0, 0, 0, 0, 0][..], &boot_entry_name()].concat();
        let (zero, two) = (global("Boot0000"), global("Boot0002"));
        assert_eq!(firmware(&[(&zero, b"\x07\0\0\0other")]).1.number(), Some(1));
        assert_eq!(firmware(&[(&zero, b"\x07\0\0\0other"), (&two, &ours)]).1.number(), Some(2));
    }

    fn boot_entry_name() -> Vec<u8> {
        boot_entry::NAME.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    }
}
