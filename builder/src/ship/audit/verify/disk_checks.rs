//! Checks of the parts of a disk that have no signature.

use super::Check;
use crate::ship::audit::inspect::{self, DiskLayout, Partition, Slot};
use osbuild_abi::disk::{DATA, ESP, SLOT_A, SLOT_B};
use osbuild_abi::install::SETTINGS;

/// Checks both copies of the partition table, and that firmware finds no other table.
pub(super) fn table(disk: &DiskLayout) -> Check {
    match &disk.table_fault {
        None => Check::holds("partition table", "both copies are valid and equal".to_owned()),
        Some(fault) => Check::fails("partition table", fault.clone()),
    }
}

/// Checks that the disk has only a node's partitions: firmware looks for programs on any partition
/// that it can read.
pub(super) fn partitions(partitions: &[Partition]) -> Check {
    let found: Vec<_> = partitions
        .iter()
        .map(|one| (one.number, one.purpose.as_str(), one.name.as_str()))
        .collect();
    match found == [(1, "esp", ESP), (2, "slot", SLOT_A), (3, "slot", SLOT_B), (4, "data", DATA)] {
        true => Check::holds(
            "partitions",
            format!("{ESP}, {SLOT_A}, {SLOT_B} and {DATA}, and no others"),
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

/// Checks that each bootable UKI matches its header. Without Secure Boot nothing else does.
pub(super) fn slots(slots: &[Slot]) -> Check {
    if let Some(slot) = slots.iter().find(|slot| slot.is_bootable() && slot.fault.is_some()) {
        return Check::fails("slots", slot.to_string());
    }
    let (booted, not): (Vec<_>, Vec<_>) = slots.iter().partition(|slot| slot.is_bootable());
    let names = |slots: &[&Slot]| {
        slots.iter().map(|slot| slot.name.as_str()).collect::<Vec<_>>().join(" and ")
    };
    let aside =
        if not.is_empty() { String::new() } else { format!("; not bootable: {}", names(&not)) };
    Check::holds("slots", format!("{} can be booted and matches its header{aside}", names(&booted)))
}

/// Checks that the unsigned header of a slot has the same version as its signed UKI.
pub(super) fn version(header: &str, uki: &[u8]) -> Check {
    match inspect::version(uki) {
        Ok(Some(inside)) if inside == header => {
            Check::holds("version", format!("the slot's header and its UKI have version {inside}"))
        }
        Ok(inside) => {
            let inside = inside.unwrap_or_else(|| "none".to_owned());
            Check::fails(
                "version",
                format!("the slot's header has version {header}, its UKI has version {inside}"),
            )
        }
        Err(error) => Check::fails("version", error.problems[0].message.clone()),
    }
}

/// Checks that the EFI system partition, which is not signed, has only the boot program, which the
/// firmware verifies. On an installer it also has the settings, which users may edit.
pub(super) fn esp(files: &[String], boot: &str, installs: bool) -> Check {
    let settings = files.iter().any(|path| installs && path == SETTINGS);
    let others = files.iter().filter(|path| *path != boot && !(installs && *path == SETTINGS));
    let others: Vec<_> = others.map(|path| format!("`{path}`")).collect();
    match (others.is_empty(), settings) {
        (true, false) => Check::holds("ESP", format!("it has only `{boot}`")),
        (true, true) => {
            Check::holds("ESP", format!("it has only `{boot}` and `{SETTINGS}`, which is unsigned"))
        }
        (false, _) => {
            Check::fails("ESP", format!("it has more than `{boot}`: {}", others.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_second_file_on_the_esp_is_wrong() {
        let boot = "/EFI/BOOT/BOOTX64.EFI";
        assert!(esp(&[boot.to_owned()], boot, false).holds);
        let check = esp(&["/loader/addons/a.addon.efi".to_owned(), boot.to_owned()], boot, false);
        assert_eq!(
            (check.holds, check.found.as_str()),
            (false, "it has more than `/EFI/BOOT/BOOTX64.EFI`: `/loader/addons/a.addon.efi`")
        );
    }

    #[test]
    fn only_an_installer_may_have_settings() {
        let boot = "/EFI/BOOT/BOOTX64.EFI";
        let files = [boot.to_owned(), SETTINGS.to_owned()];
        assert!(esp(&files, boot, true).holds && !esp(&files, boot, false).holds);
    }
}
