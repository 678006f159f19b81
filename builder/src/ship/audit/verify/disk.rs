//! What is looked at of a disk beside what is signed on it.

use super::Check;
use crate::ship::audit::inspect::{self, Disk, Partition, Slot};
use osbuild_abi::disk::{DATA, ESP, SLOT_A, SLOT_B};
use osbuild_abi::install::SETTINGS;

/// Both copies of the partition table, and that firmware finds no other.
pub(super) fn table(disk: &Disk) -> Check {
    match &disk.table_fault {
        None => Check::holds("partition table", "both copies are valid and equal".to_owned()),
        Some(fault) => Check::fails("partition table", fault.clone()),
    }
}

/// Firmware looks for a program on whatever partition it can read, so there is none but those of a
/// node.
pub(super) fn partitions(partitions: &[Partition]) -> Check {
    let found: Vec<_> = partitions
        .iter()
        .map(|one| (one.number, one.purpose.as_str(), one.name.as_str()))
        .collect();
    match found == [(1, "esp", ESP), (2, "slot", SLOT_A), (3, "slot", SLOT_B), (4, "data", DATA)] {
        true => Check::holds(
            "partitions",
            format!("{ESP}, {SLOT_A}, {SLOT_B} and {DATA}, and no other"),
        ),
        false => {
            let found: Vec<_> =
                partitions.iter().map(|one| format!("`{}` ({})", one.name, one.purpose)).collect();
            Check::fails(
                "partitions",
                format!("they are not those of a node: {}", found.join(", ")),
            )
        }
    }
}

/// What is booted must be what its header speaks of: without Secure Boot nothing else looks.
pub(super) fn slots(slots: &[Slot]) -> Check {
    if let Some(slot) = slots.iter().find(|slot| slot.is_bootable() && slot.fault.is_some()) {
        return Check::fails("slots", slot.to_string());
    }
    let (booted, not): (Vec<_>, Vec<_>) = slots.iter().partition(|slot| slot.is_bootable());
    let names = |slots: &[&Slot]| {
        slots.iter().map(|slot| slot.name.as_str()).collect::<Vec<_>>().join(" and ")
    };
    let aside = if not.is_empty() {
        String::new()
    } else {
        format!("; set aside: {}, which is not booted", names(&not))
    };
    Check::holds(
        "slots",
        format!("{} can be booted and holds what its header speaks of{aside}", names(&booted)),
    )
}

/// The header of a slot is not signed, and the UKI behind it is: both give the node one version.
pub(super) fn version(header: &str, uki: &[u8]) -> Check {
    match inspect::version(uki) {
        Ok(Some(inside)) if inside == header => {
            Check::holds("version", format!("the slot's header and its UKI say {inside}"))
        }
        Ok(inside) => {
            let inside = inside.unwrap_or_else(|| "none".to_owned());
            Check::fails(
                "version",
                format!("the header of the slot says {header}, and its UKI {inside}"),
            )
        }
        Err(error) => Check::fails("version", error.problems[0].message.clone()),
    }
}

/// The EFI system partition is not signed, so nothing may be on it that somebody could come to
/// read, but what the firmware verifies. A stick that `installs` has its settings there, which are
/// for everybody to edit.
pub(super) fn esp(files: &[String], boot: &str, installs: bool) -> Check {
    let settings = files.iter().any(|path| installs && path == SETTINGS);
    let others = files.iter().filter(|path| *path != boot && !(installs && *path == SETTINGS));
    let others: Vec<_> = others.map(|path| format!("`{path}`")).collect();
    match (others.is_empty(), settings) {
        (true, false) => Check::holds("ESP", format!("it has `{boot}` and no other file")),
        (true, true) => Check::holds(
            "ESP",
            format!("it has `{boot}`, and no other file but `{SETTINGS}`, which is unsigned"),
        ),
        (false, _) => {
            Check::fails("ESP", format!("it has more than `{boot}`: {}", others.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_file_on_the_esp_is_wrong_whatever_it_is() {
        let boot = "/EFI/BOOT/BOOTX64.EFI";
        assert!(esp(&[boot.to_owned()], boot, false).holds);
        let check = esp(&["/loader/addons/a.addon.efi".to_owned(), boot.to_owned()], boot, false);
        assert_eq!(
            (check.holds, check.found.as_str()),
            (false, "it has more than `/EFI/BOOT/BOOTX64.EFI`: `/loader/addons/a.addon.efi`")
        );
    }

    #[test]
    fn the_settings_of_a_stick_belong_on_a_stick_alone() {
        let boot = "/EFI/BOOT/BOOTX64.EFI";
        let files = [boot.to_owned(), SETTINGS.to_owned()];
        assert!(esp(&files, boot, true).holds && !esp(&files, boot, false).holds);
    }
}
