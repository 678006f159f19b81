//! The contents of a disk in words, for a person who is about to erase it.

use crate::size;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are read from the start of a disk or partition. They include the magic numbers of all
/// known formats.
const LOOK: usize = 68 << 10;

/// The unit of offsets and sizes below `/sys`.
const SYSFS_SECTOR: u64 = 512;

/// The magic number of a format that fills a disk or a partition.
struct Mark {
    at: usize,
    bytes: &'static [u8],
    name: &'static str,
    /// The offset and the maximum length of its label.
    label: Option<(usize, usize)>,
}

const fn mark(
    at: usize,
    bytes: &'static [u8],
    name: &'static str,
    label: Option<(usize, usize)>,
) -> Mark {
    Mark { at, bytes, name, label }
}

/// In order of precedence, because an old magic number can remain beside a new one.
const MARKS: [Mark; 19] = [
    mark(0, b"LUKS\xBA\xBE", "LUKS", None),
    mark(0x218, b"LVM2 001", "LVM", None),
    mark(0x1000, b"\xFC\x4E\x2B\xA9", "RAID", None),
    mark(0x10040, b"_BHRfS_M", "btrfs", Some((0x1012B, 256))),
    mark(0, b"XFSB", "xfs", Some((108, 12))),
    mark(0x438, b"\x53\xEF", "ext4", Some((0x478, 16))),
    mark(0xFF6, b"SWAPSPACE2", "swap", Some((0x41C, 16))),
    mark(0x8001, b"CD001", "ISO 9660", Some((0x8028, 32))),
    mark(3, b"EXFAT   ", "exFAT", None),
    mark(3, b"NTFS    ", "NTFS", None),
    mark(0x52, b"FAT32   ", "FAT", Some((0x47, 11))),
    mark(0x36, b"FAT16   ", "FAT", Some((0x2B, 11))),
    mark(0x36, b"FAT12   ", "FAT", Some((0x2B, 11))),
    mark(0, b"hsqs", "squashfs", None),
    mark(1024, b"\xE2\xE1\xF5\xE0", "erofs", Some((1088, 16))),
    mark(1024, b"\x10\x20\xF5\xF2", "f2fs", None),
    mark(0x1018, b"\xC6\x85\x73\xF6\x4E\x1A\x45\xCA", "bcache", None),
    mark(0x1018, b"\xC6\x85\x73\xF6\x66\xCE\x90\xA9", "bcachefs", None),
    mark(0, b"bluestore block device", "Ceph", None),
];

/// Describes the contents of the disk with this device file and this folder below `/sys`.
pub fn contents(device: &Path, folder: &Path) -> String {
    let Ok(file) = File::open(device) else { return "visible to root only".into() };
    let partitions = partitions(folder);
    if partitions.is_empty() {
        return look(&file, 0).unwrap_or_else(|| "unknown".into());
    }
    let one = |partition: &Partition| match (look(&file, partition.start), &partition.name) {
        (Some(found), Some(name)) => format!("{name} ({found})"),
        (None, Some(name)) => name.clone(),
        (Some(found), None) => found,
        (None, None) => size(partition.size),
    };
    partitions.iter().map(one).collect::<Vec<_>>().join(", ")
}

struct Partition {
    number: u32,
    name: Option<String>,
    start: u64,
    size: u64,
}

/// The partitions in the kernel's table, in the order of their numbers.
fn partitions(folder: &Path) -> Vec<Partition> {
    let partition = |entry: fs::DirEntry| {
        let number = |file: &str| {
            fs::read_to_string(entry.path().join(file)).ok()?.trim().parse::<u64>().ok()
        };
        let event = fs::read_to_string(entry.path().join("uevent")).ok()?;
        let name = event.lines().find_map(|line| line.strip_prefix("PARTNAME=")).map(str::to_owned);
        let (start, size) = (number("start")? * SYSFS_SECTOR, number("size")? * SYSFS_SECTOR);
        Some(Partition { number: u32::try_from(number("partition")?).ok()?, name, start, size })
    };
    let mut partitions: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().filter_map(partition).collect();
    partitions.sort_by_key(|partition| partition.number);
    partitions
}

fn look(file: &File, start: u64) -> Option<String> {
    let mut head = vec![0; LOOK];
    let mut count = 0;
    while count < LOOK {
        match file.read_at(&mut head[count..], start + count as u64) {
            Ok(0) | Err(_) => break,
            Ok(more) => count += more,
        }
    }
    recognize(&head[..count])
}

/// The format that begins with these bytes, with its label if it has one.
pub fn recognize(head: &[u8]) -> Option<String> {
    let found = MARKS
        .iter()
        .find(|mark| head.get(mark.at..).is_some_and(|rest| rest.starts_with(mark.bytes)))?;
    let label = found.label.and_then(|(at, most)| head.get(at..at + most));
    let label = label.map(|label| {
        String::from_utf8_lossy(label).chars().filter(|c| !c.is_control()).collect::<String>()
    });
    Some(match label.as_deref().map(str::trim) {
        None | Some("" | "NO NAME") => found.name.to_owned(),
        Some(label) => format!("{} `{label}`", found.name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(at in 0..LOOK, bytes: Vec<u8>, length in 0..LOOK) {
            let mut head = vec![0; LOOK];
            let end = LOOK.min(at + bytes.len());
            head[at..end].copy_from_slice(&bytes[..end - at]);
            recognize(&head[..length]);
        }
    }

    #[test]
    fn formats_made_by_their_tools_are_recognized() {
        let folder = tempfile::tempdir().unwrap();
        for (program, flags, expected) in [
            ("mke2fs", &["-q", "-F", "-t", "ext4", "-L", "photos"][..], "ext4 `photos`"),
            ("mkfs.fat", &["-n", "STICK"], "FAT `STICK`"),
            ("mkfs.fat", &["-F", "32"], "FAT"),
            ("mkswap", &["-q", "-L", "aside"], "swap `aside`"),
        ] {
            let path = folder.path().join(program);
            let file = File::create(&path).unwrap();
            file.set_len(64 << 20).unwrap();
            let made = Command::new(program)
                .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
                .args(flags)
                .arg(&path)
                .output()
                .unwrap();
            assert!(made.status.success(), "{made:?}");
            assert_eq!(
                look(&File::open(&path).unwrap(), 0).as_deref(),
                Some(expected),
                "{program}"
            );
        }
    }
}
