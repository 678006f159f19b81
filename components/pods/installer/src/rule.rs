//! Which disk is meant.

use osbuild_disks::{Disk, size};

use crate::settings::Rule;

/// Bytes of a GiB.
const GIB: u64 = 1 << 30;

/// What the image asks of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The image's size in bytes.
    pub size: u64,
    /// The image's sector size in bytes.
    pub sector_size: u64,
}

/// The one disk that the rule means. `stick` is the kernel's name of the disk that was booted.
///
/// # Errors
/// None fits, or several do: lines that say of each disk why.
pub fn choose<'a>(
    disks: &'a [Disk],
    rule: &Rule,
    need: Need,
    stick: Option<&str>,
) -> Result<&'a Disk, Vec<String>> {
    let judged: Vec<(&Disk, Option<String>)> = disks
        .iter()
        .map(|disk| (disk, obstacle(disk, need, stick).or_else(|| differs(disk, rule))))
        .collect();
    let fit: Vec<&Disk> =
        judged.iter().filter(|(_, why)| why.is_none()).map(|(disk, _)| *disk).collect();
    let lines = judged
        .iter()
        .map(|(disk, why)| format!("{}: {}", shown(disk), why.as_deref().unwrap_or("fits")));
    match fit[..] {
        [one] => Ok(one),
        [] => Err(["no disk fits the rule".to_owned()].into_iter().chain(lines).collect()),
        _ => Err([format!("{} disks fit the rule, and it has to be one", fit.len())]
            .into_iter()
            .chain(lines)
            .collect()),
    }
}

/// A disk in words: whoever is about to lose it should know it again.
pub fn shown(disk: &Disk) -> String {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let Disk { device, bus, contents, .. } = disk;
    let (model, serial) = (or_dash(&disk.model), or_dash(&disk.serial));
    format!(
        "{}, {}, {bus}, model {model}, serial {serial}, on it: {contents}",
        device.display(),
        size(disk.size)
    )
}

/// Why this disk never counts, whatever the rule.
fn obstacle(disk: &Disk, need: Need, stick: Option<&str>) -> Option<String> {
    if stick == Some(disk.name.as_str()) {
        return Some("this machine was booted from it".to_owned());
    }
    if disk.is_removable {
        return Some("it is removable".to_owned());
    }
    if disk.is_read_only {
        return Some("it is write-protected".to_owned());
    }
    if u64::from(disk.sector_size) != need.sector_size {
        return Some(format!(
            "it has sectors of {} bytes, and the image of {}",
            disk.sector_size, need.sector_size
        ));
    }
    (disk.size < need.size)
        .then(|| format!("it is smaller than the image, which has {}", size(need.size)))
}

/// What the rule says otherwise.
fn differs(disk: &Disk, rule: &Rule) -> Option<String> {
    let texts = [
        ("bus", &rule.bus, Some(&disk.bus)),
        ("model", &rule.model, disk.model.as_ref()),
        ("serial", &rule.serial, disk.serial.as_ref()),
    ];
    for (name, wanted, has) in texts {
        if let Some(wanted) = wanted
            && !has.is_some_and(|has| matches(wanted, has))
        {
            return Some(format!("its {name} is not `{wanted}`"));
        }
    }
    if rule.min_size_gib.is_some_and(|least| disk.size < least.saturating_mul(GIB)) {
        return Some("it is smaller than `min-size-gib`".to_owned());
    }
    rule.max_size_gib
        .is_some_and(|most| disk.size > most.saturating_mul(GIB))
        .then(|| "it is larger than `max-size-gib`".to_owned())
}

/// Whether a text is that of a pattern, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(before) else { return false };
    (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| matches(rest, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NEED: Need = Need { size: 600 << 20, sector_size: 512 };

    fn disk(name: &str, bus: &str) -> Disk {
        Disk {
            device: format!("/dev/{name}").into(),
            name: name.to_owned(),
            model: Some("Samsung 990".to_owned()),
            serial: Some(format!("SN-{name}")),
            diskseq: None,
            bus: bus.to_owned(),
            size: 8 * GIB,
            sector_size: 512,
            is_removable: false,
            is_read_only: false,
            contents: "unknown".to_owned(),
        }
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn chosen(disks: &[Disk], rule: &Rule, stick: Option<&str>) -> Result<String, String> {
        choose(disks, rule, NEED, stick)
            .map(|disk| disk.name.clone())
            .map_err(|lines| lines.join("\n"))
    }

    #[test]
    fn a_rule_that_fits_one_disk_names_it() {
        let disks = [disk("sda", "sata"), disk("nvme0n1", "nvme"), disk("nvme1n1", "nvme")];
        assert_eq!(
            chosen(&disks, &Rule { bus: text("sata"), ..Rule::default() }, None),
            Ok("sda".to_owned())
        );
        assert_eq!(
            chosen(&disks, &Rule { serial: text("*1n1"), ..Rule::default() }, None),
            Ok("nvme1n1".to_owned())
        );
    }

    #[test]
    fn two_that_fit_are_as_bad_as_none() {
        let disks = [disk("nvme0n1", "nvme"), disk("nvme1n1", "nvme")];
        let said =
            chosen(&disks, &Rule { model: text("Samsung*"), ..Rule::default() }, None).unwrap_err();
        assert!(
            said.starts_with("2 disks fit the rule") && said.matches(": fits").count() == 2,
            "{said}"
        );
        let said =
            chosen(&disks, &Rule { model: text("samsung"), ..Rule::default() }, None).unwrap_err();
        assert!(
            said.starts_with("no disk fits the rule")
                && said.contains("its model is not `samsung`"),
            "{said}"
        );
        assert!(chosen(&[], &Rule::default(), None).is_err());
    }

    #[test]
    fn the_stick_and_what_cannot_hold_the_image_never_count() {
        let fine = disk("sda", "usb");
        let rule = Rule::default();
        assert!(chosen(std::slice::from_ref(&fine), &rule, None).is_ok());
        assert!(
            chosen(std::slice::from_ref(&fine), &rule, Some("sda"))
                .unwrap_err()
                .contains("was booted from it")
        );
        for (wrong, says) in [
            (Disk { is_removable: true, ..fine.clone() }, "it is removable"),
            (Disk { is_read_only: true, ..fine.clone() }, "it is write-protected"),
            (
                Disk { sector_size: 4096, ..fine.clone() },
                "it has sectors of 4096 bytes, and the image of 512",
            ),
            (Disk { size: NEED.size - 1, ..fine.clone() }, "it is smaller than the image"),
        ] {
            assert!(chosen(&[wrong], &rule, None).unwrap_err().contains(says), "{says}");
        }
    }

    #[test]
    fn sizes_are_bounds_that_still_fit() {
        let disks = [disk("sda", "sata")];
        let rule = |least, most| Rule {
            min_size_gib: Some(least),
            max_size_gib: Some(most),
            ..Rule::default()
        };
        assert!(chosen(&disks, &rule(8, 8), None).is_ok());
        assert!(
            chosen(&disks, &rule(9, u64::MAX), None).is_err()
                && chosen(&disks, &rule(1, 7), None).is_err()
        );
    }

    #[test]
    fn what_a_disk_does_not_tell_fits_no_pattern() {
        let disks = [Disk { serial: None, ..disk("sda", "sata") }];
        assert!(chosen(&disks, &Rule { serial: text("*"), ..Rule::default() }, None).is_err());
    }

    proptest! {
        #[test]
        fn a_star_is_any_text(before in "[ab]{0,3}", middle in "[ab]{0,3}", after in "[ab]{0,3}") {
            let whole = format!("{before}{middle}{after}");
            let pattern = format!("{before}*{after}");
            let suits = matches(&pattern, &whole);
            prop_assert!(suits);
            let too_long = matches(&pattern, &format!("{whole}c"));
            prop_assert!(after.is_empty() || !too_long);
        }
    }
}
