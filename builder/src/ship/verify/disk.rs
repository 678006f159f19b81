//! What is looked at of a disk beside what is signed on it.

use super::Check;
use crate::ship::inspect::{Disk, Slot};

/// Both copies of the partition table.
pub(super) fn table(disk: &Disk) -> Check {
    match disk.table_is_sound {
        true => Check::holds("partition table", "both copies are good and say the same".to_owned()),
        false => {
            let found = "the copies differ or one is damaged; on a disk that is larger than its image, the first boot mends that";
            Check::fails("partition table", found.to_owned())
        }
    }
}

/// What is booted must be what its header speaks of: without Secure Boot nothing else looks.
pub(super) fn slots(slots: &[Slot]) -> Check {
    if let Some(slot) = slots.iter().find(|slot| slot.is_bootable() && slot.fault.is_some()) {
        return Check::fails("slots", slot.to_string());
    }
    let (booted, not): (Vec<_>, Vec<_>) = slots.iter().partition(|slot| slot.is_bootable());
    let names = |slots: &[&Slot]| slots.iter().map(|slot| slot.name.as_str()).collect::<Vec<_>>().join(" and ");
    let aside = if not.is_empty() { String::new() } else { format!("; set aside: {}, which is not booted", names(&not)) };
    Check::holds("slots", format!("{} can be booted and holds what its header speaks of{aside}", names(&booted)))
}

/// The EFI system partition is not signed, so nothing may be on it that somebody could come to read, but what the firmware verifies.
pub(super) fn esp(files: &[String], boot: &str) -> Check {
    let others: Vec<_> = files.iter().filter(|path| *path != boot).map(|path| format!("`{path}`")).collect();
    match others.is_empty() {
        true => Check::holds("ESP", format!("it has `{boot}` and no other file")),
        false => Check::fails("ESP", format!("it has more than `{boot}`: {}", others.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_file_on_the_esp_is_wrong_whatever_it_is() {
        let boot = "/EFI/BOOT/BOOTX64.EFI";
        assert!(esp(&[boot.to_owned()], boot).holds);
        let check = esp(&["/loader/addons/a.addon.efi".to_owned(), boot.to_owned()], boot);
        assert_eq!(
            (check.holds, check.found.as_str()),
            (false, "it has more than `/EFI/BOOT/BOOTX64.EFI`: `/loader/addons/a.addon.efi`")
        );
    }
}
