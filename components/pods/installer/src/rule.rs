//! Chooses the disk to install to.

use osbuild_disks::{Disk, size};

use crate::settings::Rule;

/// Bytes of a GiB.
const GIB: u64 = 1 << 30;

/// The image's requirements for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirements {
    /// The image's size in bytes.
    pub size: u64,
    /// The image's sector size in bytes.
    pub sector_size: u64,
}

/// Returns the one disk that fits the rule. `stick` is the kernel's name of the booted disk.
///
/// # Errors
/// No disk or several disks fit: a line with the result for each disk.
pub fn choose<'a>(
    disks: &'a [Disk],
    rule: &Rule,
    required: Requirements,
    stick: Option<&str>,
) -> Result<&'a Disk, Vec<String>> {
    let checked: Vec<(&Disk, Option<String>)> = disks
        .iter()
        .map(|disk| (disk, obstacle(disk, required, stick).or_else(|| mismatch(disk, rule))))
        .collect();
    let fit: Vec<&Disk> =
        checked.iter().filter(|(_, why)| why.is_none()).map(|(disk, _)| *disk).collect();
    let lines = checked
        .iter()
        .map(|(disk, why)| format!("{}: {}", describe(disk), why.as_deref().unwrap_or("fits")));
    match fit[..] {
        [one] => Ok(one),
        [] => Err(["no disk fits the rule".to_owned()].into_iter().chain(lines).collect()),
        _ => Err([format!("{} disks fit the rule, which must fit exactly one", fit.len())]
            .into_iter()
            .chain(lines)
            .collect()),
    }
}

/// Describes a disk so that its owner recognizes it before it is erased.
pub fn describe(disk: &Disk) -> String {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let Disk { device, bus, contents, .. } = disk;
    let (model, serial) = (or_dash(&disk.model), or_dash(&disk.serial));
    format!(
        "{}, {}, {bus}, model {model}, serial {serial}, contents: {contents}",
        device.display(),
        size(disk.size)
    )
}

/// Lists all disks for a user who has to write a rule: each with the line of the settings that
/// selects it, or why no rule does.
pub fn list(disks: &[Disk], required: Requirements, stick: Option<&str>) -> Vec<String> {
    let of_disk = |disk: &Disk| match obstacle(disk, required, stick) {
        Some(why) => vec![format!("{}: {why}", describe(disk))],
        None => vec![describe(disk), format!("  {}", in_settings(disk))],
    };
    disks.iter().flat_map(of_disk).collect()
}

/// The rule that has all that is known of a disk, as a line of the settings.
fn in_settings(disk: &Disk) -> String {
    let rule = Rule {
        bus: Some(disk.bus.clone()),
        model: disk.model.clone(),
        serial: disk.serial.clone(),
        min_size_gib: Some(disk.size / GIB),
        max_size_gib: Some(disk.size.div_ceil(GIB)),
    };
    let fields = toml::to_string(&rule).unwrap_or_default();
    format!("disk = {{ {} }}", fields.lines().collect::<Vec<_>>().join(", "))
}

/// Why this disk never fits, whatever the rule.
fn obstacle(disk: &Disk, required: Requirements, stick: Option<&str>) -> Option<String> {
    if stick == Some(disk.name.as_str()) {
        return Some("this machine was booted from it".to_owned());
    }
    if disk.is_removable {
        return Some("it is removable".to_owned());
    }
    if disk.is_read_only {
        return Some("it is write-protected".to_owned());
    }
    if u64::from(disk.sector_size) != required.sector_size {
        return Some(format!(
            "it has sectors of {} bytes, but the image has sectors of {}",
            disk.sector_size, required.sector_size
        ));
    }
    (disk.size < required.size)
        .then(|| format!("it is smaller than the image, which has {}", size(required.size)))
}

/// The first part of the rule that the disk does not match.
fn mismatch(disk: &Disk, rule: &Rule) -> Option<String> {
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
    if rule.min_size_gib.is_some_and(|min| disk.size < min.saturating_mul(GIB)) {
        return Some("it is smaller than `min-size-gib`".to_owned());
    }
    rule.max_size_gib
        .is_some_and(|max| disk.size > max.saturating_mul(GIB))
        .then(|| "it is larger than `max-size-gib`".to_owned())
}

/// Whether a text matches a pattern, in which `*` matches any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(before) else { return false };
    (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| matches(rest, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use proptest::prelude::*;

    const REQUIRED: Requirements = Requirements { size: 600 << 20, sector_size: 512 };

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
        choose(disks, rule, REQUIRED, stick)
            .map(|disk| disk.name.clone())
            .map_err(|lines| lines.join("\n"))
    }

    #[test]
    fn a_rule_that_fits_one_disk_chooses_it() {
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
    fn two_matching_disks_are_an_error_like_none() {
        let disks = [disk("nvme0n1", "nvme"), disk("nvme1n1", "nvme")];
        let error =
            chosen(&disks, &Rule { model: text("Samsung*"), ..Rule::default() }, None).unwrap_err();
        assert!(
            error.starts_with("2 disks fit the rule") && error.matches(": fits").count() == 2,
            "{error}"
        );
        let error =
            chosen(&disks, &Rule { model: text("samsung"), ..Rule::default() }, None).unwrap_err();
        assert!(
            error.starts_with("no disk fits the rule")
                && error.contains("its model is not `samsung`"),
            "{error}"
        );
        assert!(chosen(&[], &Rule::default(), None).is_err());
    }

    #[test]
    fn the_stick_and_unsuitable_disks_never_fit() {
        let fine = disk("sda", "usb");
        let rule = Rule::default();
        assert!(chosen(std::slice::from_ref(&fine), &rule, None).is_ok());
        assert!(
            chosen(std::slice::from_ref(&fine), &rule, Some("sda"))
                .unwrap_err()
                .contains("was booted from it")
        );
        for (wrong, why) in [
            (Disk { is_removable: true, ..fine.clone() }, "it is removable"),
            (Disk { is_read_only: true, ..fine.clone() }, "it is write-protected"),
            (
                Disk { sector_size: 4096, ..fine.clone() },
                "it has sectors of 4096 bytes, but the image has sectors of 512",
            ),
            (Disk { size: REQUIRED.size - 1, ..fine.clone() }, "it is smaller than the image"),
        ] {
            assert!(chosen(&[wrong], &rule, None).unwrap_err().contains(why), "{why}");
        }
    }

    #[test]
    fn a_listed_rule_selects_its_disk_and_no_other() {
        let disks = [
            Disk { size: 8 * GIB + 1, ..disk("nvme0n1", "nvme") },
            Disk { model: text("a \"b\" *"), size: 8 * GIB - 1, ..disk("nvme1n1", "nvme") },
            Disk { model: None, serial: None, ..disk("sda", "sata") },
            disk("sdb", "usb"),
        ];
        let lines = list(&disks, REQUIRED, Some("sdb"));
        assert!(lines[6].ends_with(": this machine was booted from it"), "{lines:?}");
        for (disk, line) in disks.iter().zip(lines.iter().skip(1).step_by(2)) {
            let settings = Settings::read("x", line.as_bytes()).unwrap();
            let found = chosen(&disks, &settings.disk.unwrap(), Some("sdb"));
            assert_eq!(found.as_ref(), Ok(&disk.name), "{line}");
        }
        assert_eq!(lines.len(), 7);
    }

    #[test]
    fn size_bounds_are_inclusive() {
        let disks = [disk("sda", "sata")];
        let rule =
            |min, max| Rule { min_size_gib: Some(min), max_size_gib: Some(max), ..Rule::default() };
        assert!(chosen(&disks, &rule(8, 8), None).is_ok());
        assert!(
            chosen(&disks, &rule(9, u64::MAX), None).is_err()
                && chosen(&disks, &rule(1, 7), None).is_err()
        );
    }

    #[test]
    fn a_missing_serial_number_matches_no_pattern() {
        let disks = [Disk { serial: None, ..disk("sda", "sata") }];
        assert!(chosen(&disks, &Rule { serial: text("*"), ..Rule::default() }, None).is_err());
    }

    proptest! {
        #[test]
        fn a_star_matches_any_text(
            before in "[ab]{0,3}",
            middle in "[ab]{0,3}",
            after in "[ab]{0,3}",
        ) {
            let whole = format!("{before}{middle}{after}");
            let pattern = format!("{before}*{after}");
            let suits = matches(&pattern, &whole);
            prop_assert!(suits);
            let too_long = matches(&pattern, &format!("{whole}c"));
            prop_assert!(after.is_empty() || !too_long);
        }
    }
}
