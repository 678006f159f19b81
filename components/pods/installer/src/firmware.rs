//! The firmware's variables: what the machine was booted from, what it boots next, and which keys
//! it trusts.

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
/// Bytes of the attributes at the start of a variable's file.
const ATTRIBUTES: usize = 4;
/// The attributes of a variable of the boot menu: non-volatile, boot service access, runtime
/// access.
const MENU: u32 = 7;
/// The attributes of a variable that is lost at the next reset: boot service access, runtime
/// access.
const VOLATILE: u32 = 6;

const MOUNT_FLAGS: MountFlags =
    MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// The variables: an efivarfs that is mounted read-only.
pub struct Firmware {
    folder: PathBuf,
}

impl Firmware {
    /// The variables in this folder.
    pub fn new(folder: &Path) -> Firmware {
        Firmware { folder: folder.to_owned() }
    }

    /// Slotboot's report, if the machine was booted from a disk; `None` if it was booted over the
    /// network.
    pub fn booted(&self) -> Option<BootReport> {
        let bytes = fs::read(self.folder.join(format!("{VARIABLE}-{VENDOR}"))).ok()?;
        let (attributes, text) = bytes.split_first_chunk()?;
        // A non-volatile variable is from another boot.
        (u32::from_le_bytes(*attributes) == VOLATILE).then(|| BootReport::decode(text))?
    }

    /// Whether the firmware accepts any keys.
    pub fn is_in_setup_mode(&self) -> bool {
        self.value("SetupMode").is_some_and(|value| value == [1])
    }

    /// Whether an earlier installation set the firmware to boot this system partition.
    pub fn was_set_to_boot(&self, esp: &Partition) -> bool {
        let installed = fs::read(self.folder.join(installed())).unwrap_or_default();
        installed.get(ATTRIBUTES..) == Some(&esp.guid.to_bytes_le()[..])
    }

    /// Sets the firmware to start a program from this system partition at the next boot, and first
    /// in its boot order.
    pub fn set_boot(&self, esp: &Partition, program: &str) -> Outcome {
        let number =
            self.number().ok_or_else(|| Failure::new("the firmware's boot menu is full"))?;
        let order = boot_entry::move_first(number, &self.value("BootOrder").unwrap_or_default());
        self.write_all(&[
            (format!("Boot{number:04X}-{GLOBAL}"), MENU, boot_entry::encode(esp, program)),
            (format!("BootOrder-{GLOBAL}"), MENU, order),
            (format!("BootNext-{GLOBAL}"), MENU, number.to_le_bytes().to_vec()),
            (installed(), MENU, esp.guid.to_bytes_le().to_vec()),
        ])
    }

    /// Writes variables in order: the name with its vendor, the attributes, the value.
    ///
    /// # Errors
    /// The firmware refuses a variable. The variables before it are written.
    pub fn write_all(&self, variables: &[(String, u32, Vec<u8>)]) -> Outcome {
        // Only this mount becomes writable; the other mounts of efivarfs stay read-only.
        mount_remount(&self.folder, MOUNT_FLAGS, c"").explain("open the firmware's variables")?;
        let written = variables.iter().try_for_each(|(name, attributes, value)| {
            self.write(name, *attributes, value)
                .explain(format_args!("write the firmware's variable {name}"))
        });
        let closed = mount_remount(&self.folder, MOUNT_FLAGS | MountFlags::RDONLY, c"");
        written.and(closed.explain("close the firmware's variables"))
    }

    fn write(&self, name: &str, attributes: u32, value: &[u8]) -> std::io::Result<()> {
        let path = self.folder.join(name);
        if let Ok(file) = File::open(&path) {
            // The kernel marks variables immutable to protect them from a stray `rm`.
            let flags = ioctl_getflags(&file)?;
            if flags.contains(IFlags::IMMUTABLE) {
                ioctl_setflags(&file, flags.difference(IFlags::IMMUTABLE))?;
            }
        }
        // efivarfs takes a variable in one write.
        let bytes = [&attributes.to_le_bytes()[..], value].concat();
        File::options().create(true).truncate(false).write(true).open(&path)?.write_all(&bytes)
    }

    /// The number of our existing boot entry, or a free one.
    fn number(&self) -> Option<u16> {
        let entry = |number: &u16| self.value(&format!("Boot{number:04X}"));
        (0..=u16::MAX)
            .take(256)
            .find(|number| entry(number).is_some_and(|entry| boot_entry::is_ours(&entry)))
            .or_else(|| (0..=u16::MAX).find(|number| entry(number).is_none()))
    }

    /// The value of a global UEFI variable.
    fn value(&self, name: &str) -> Option<Vec<u8>> {
        let bytes = fs::read(self.folder.join(format!("{name}-{GLOBAL}"))).ok()?;
        bytes.get(ATTRIBUTES..).map(<[u8]>::to_vec)
    }
}

/// The file of the variable that records the installed system partition.
fn installed() -> String {
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
    fn only_slotboots_report_of_this_boot_counts() {
        let name = format!("{VARIABLE}-{VENDOR}");
        let report = |attributes: u8| {
            let mut bytes = vec![attributes, 0, 0, 0];
            bytes.extend(b"00112233-4455-6677-8899-aabbccddeeff SLOT-A good");
            bytes
        };
        assert_eq!(firmware(&[(&name, &report(6))]).1.booted().unwrap().slot, "SLOT-A");
        assert!(firmware(&[(&name, &report(7))]).1.booted().is_none());
        assert!(firmware(&[]).1.booted().is_none());
    }

    #[test]
    fn the_firmware_remembers_one_system_partition() {
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
        let (_folder, firmware) = firmware(&[(&installed(), &bytes)]);
        assert!(firmware.was_set_to_boot(&partition("ours")));
        assert!(!firmware.was_set_to_boot(&partition("other")));
    }

    #[test]
    fn only_our_own_entry_is_replaced() {
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
