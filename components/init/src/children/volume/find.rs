//! Finds a disk by its serial number or its worldwide identifier. Some drivers ask the disk for it,
//! so this may wait.

use std::fs;
use std::path::Path;

use osbuild_disks::NOT_DISKS;
use osbuild_protocol::{DiskId, VolumePhase};

/// The files below a disk's folder with its serial number, and those with its worldwide identifier:
/// of virtio, NVMe and SCSI.
const SERIAL: [&str; 2] = ["device/serial", "serial"];
const WWID: [&str; 2] = ["wwid", "device/wwid"];
/// The page of vital product data with the serial number of a SCSI or SATA disk: four bytes and the
/// text (SPC-5, 7.7.16).
const SERIAL_PAGE: &str = "device/vpd_pg80";
const PAGE_HEADER: usize = 4;
/// How many disks an error names.
const MAX_NAMED: usize = 8;

/// The name of the disk in the kernel.
///
/// # Errors
/// No disk has the identifier, or several have it. The text says which there are.
pub fn disk(folder: &Path, wanted: &DiskId) -> Result<String, (VolumePhase, String)> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| !NOT_DISKS.iter().any(|other| name.starts_with(other)));
    names.sort();
    let all: Vec<(String, Vec<String>)> = names
        .into_iter()
        .map(|name| (name.clone(), identifiers(&folder.join(&name), wanted)))
        .collect();
    let has = |identifiers: &[String]| identifiers.iter().any(|one| one == wanted.text().as_str());
    let found: Vec<&str> =
        all.iter().filter(|(_, all)| has(all)).map(|(name, _)| name.as_str()).collect();
    match found.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err((VolumePhase::Waiting, missing(wanted, &all))),
        several => {
            let text = format!("several disks have the {wanted}: {}", several.join(", "));
            Err((VolumePhase::Refused, text))
        }
    }
}

/// Says that no disk has the identifier, and which ones there are.
fn missing(wanted: &DiskId, all: &[(String, Vec<String>)]) -> String {
    let named = all.iter().flat_map(|(name, all)| all.iter().map(move |one| (name, one)));
    let mut named: Vec<String> = named.map(|(name, one)| format!("{name} has `{one}`")).collect();
    named.truncate(MAX_NAMED);
    let others = match named.is_empty() {
        true => format!("no disk has a {}", wanted.key()),
        false => named.join(", "),
    };
    format!("no disk has the {wanted}; {others}")
}

/// The identifiers of a disk of the kind that is wanted.
fn identifiers(folder: &Path, wanted: &DiskId) -> Vec<String> {
    let text = |file: &&str| fs::read_to_string(folder.join(file)).ok();
    let texts = match wanted {
        DiskId::Serial(_) => {
            let page = fs::read(folder.join(SERIAL_PAGE)).unwrap_or_default();
            let page =
                page.get(PAGE_HEADER..).map(|text| String::from_utf8_lossy(text).into_owned());
            SERIAL.iter().filter_map(text).chain(page).collect::<Vec<_>>()
        }
        DiskId::Wwid(_) => WWID.iter().filter_map(text).collect(),
    };
    let trimmed =
        texts.iter().map(|text| text.trim_matches(|one: char| one.is_whitespace() || one == '\0'));
    let visible =
        |text: &&str| !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let mut found: Vec<String> = trimmed.filter(visible).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (file, content) in [
            ("vda/serial", &b"boot\n"[..]),
            ("vdb/serial", b""),
            ("nvme0n1/device/serial", b"vol0123456789abcdef0\n"),
            ("nvme0n1/wwid", b"nvme.1d0f-766f6c\n"),
            ("sda/device/vpd_pg80", b"\0\x80\0\x14   WD-123  \0"),
            ("sda/device/wwid", b"t10.ATA     QEMU HARDDISK    QM5\n"),
            ("sdb/device/wwid", b"naa.5000\n"),
            ("sdc/device/wwid", b"naa.5000\n"),
            ("dm-0/serial", b"WD-123\n"),
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    #[test]
    fn a_disk_is_found_by_what_its_driver_shows() {
        let machine = machine();
        for (serial, wwid, name) in [
            ("vol0123456789abcdef0", "", "nvme0n1"),
            ("WD-123", "", "sda"),
            ("boot", "", "vda"),
            ("", "nvme.1d0f-766f6c", "nvme0n1"),
            ("", "t10.ATA     QEMU HARDDISK    QM5", "sda"),
        ] {
            let wanted = DiskId::parse(serial, wwid).unwrap();
            assert_eq!(disk(machine.path(), &wanted), Ok(name.to_owned()), "{wanted}");
        }
    }

    #[test]
    fn a_part_of_an_identifier_is_none_and_the_others_are_named() {
        let wanted = DiskId::parse("vol0123456789abcdef", "").unwrap();
        let (phase, text) = disk(machine().path(), &wanted).unwrap_err();
        assert_eq!(phase, VolumePhase::Waiting);
        assert_eq!(
            text,
            "no disk has the serial `vol0123456789abcdef`; nvme0n1 has `vol0123456789abcdef0`, sda \
             has `WD-123`, vda has `boot`"
        );
        let (_, text) = disk(Path::new("/nowhere"), &wanted).unwrap_err();
        assert_eq!(text, "no disk has the serial `vol0123456789abcdef`; no disk has a serial");
    }

    #[test]
    fn an_identifier_of_two_disks_is_refused() {
        let wanted = DiskId::parse("", "naa.5000").unwrap();
        let refused = (VolumePhase::Refused, "several disks have the wwid `naa.5000`: sdb, sdc");
        let (phase, text) = disk(machine().path(), &wanted).unwrap_err();
        assert_eq!((phase, text.as_str()), refused);
    }
}
