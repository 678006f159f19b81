//! Whether a disk is blank, as far as a few reads show it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::contents::recognize;
use crate::size;

/// The bytes at both ends that must be zero: partition tables and the marks of nearly all formats,
/// RAID and pools are there.
const END: u64 = 1 << 20;
/// The bytes that are read elsewhere.
const SAMPLE: u64 = 4096;
/// The number of samples between the ends, at equal distances.
const SAMPLES: u64 = 64;
/// Where formats keep copies of their marks: ext4 with blocks of 1, 2 and 4 KiB, and btrfs. They
/// outlive a wipe of the start.
const COPIES: [u64; 5] = [8193 << 10, 32 << 20, 64 << 20, 128 << 20, 256 << 30];

/// The contents of a disk, as a few reads have found them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Nothing but zeros.
    Blank,
    /// Something else, in words that follow "it has".
    Some(String),
}

/// Looks at a disk of `length` bytes: at its ends, at places of known formats, and at samples.
///
/// # Errors
/// It cannot be read.
pub fn look_for_contents(disk: &File, length: u64) -> io::Result<Contents> {
    let mut head = vec![0; END.min(length) as usize];
    disk.read_exact_at(&mut head, 0)?;
    if let Some(found) = partition_table(&head).or_else(|| recognize(&head).map(in_words)) {
        return Ok(Contents::Some(found));
    }
    if let Some(at) = first_nonzero(&head) {
        return Ok(Contents::Some(data_at(at as u64)));
    }
    let mut bytes = vec![0; END as usize];
    for (offset, count) in places(length) {
        let bytes = &mut bytes[..count as usize];
        disk.read_exact_at(bytes, offset)?;
        if let Some(at) = first_nonzero(bytes) {
            return Ok(Contents::Some(data_at(offset + at as u64)));
        }
    }
    Ok(Contents::Blank)
}

/// The offset and the length of each read behind the start. None is past the end.
fn places(length: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = length.saturating_sub(END);
    let samples = (1..SAMPLES).map(move |number| length / SAMPLES * number / SAMPLE * SAMPLE);
    let short = COPIES.into_iter().chain(samples).map(|offset| (offset / SAMPLE * SAMPLE, SAMPLE));
    let short = short.filter(move |(offset, count)| offset + count <= length);
    short.chain([(end, length - end)])
}

fn partition_table(head: &[u8]) -> Option<String> {
    let is_at =
        |at: usize, bytes: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(bytes));
    if is_at(512, b"EFI PART") || is_at(4096, b"EFI PART") {
        return Some("a partition table (GPT)".to_owned());
    }
    // The types of the four partitions.
    let has_partitions = (0..4).any(|one| head.get(450 + 16 * one).is_some_and(|kind| *kind != 0));
    let is_boot_sector = is_at(510, &[0x55, 0xAA]) && recognize(head).is_none();
    (is_boot_sector && has_partitions).then(|| "a partition table (MBR)".to_owned())
}

/// The name of a format with its label, as a thing that a disk has.
fn in_words(format: String) -> String {
    let name = format.split(' ').next().unwrap_or_default();
    match name {
        "LUKS" | "LVM" | "RAID" | "swap" | "bcache" | "Ceph" => format!("data of {format}"),
        "ext4" | "exFAT" | "erofs" | "xfs" | "f2fs" | "ISO" | "NTFS" => {
            format!("an {format} file system")
        }
        _ => format!("a {format} file system"),
    }
}

fn data_at(offset: u64) -> String {
    format!("data of no known format at {}", size(offset))
}

fn first_nonzero(bytes: &[u8]) -> Option<usize> {
    // A comparison of whole chunks is many times faster than one of bytes.
    let chunk =
        bytes.chunks(SAMPLE as usize).position(|chunk| chunk != &[0; 4096][..chunk.len()])?;
    let start = chunk * SAMPLE as usize;
    bytes[start..].iter().position(|byte| *byte != 0).map(|at| start + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    const SIZE: u64 = 400 << 20;

    fn disk(path: &Path) -> File {
        let _ = std::fs::remove_file(path);
        let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        file.set_len(SIZE).unwrap();
        file
    }

    fn found(file: &File) -> String {
        match look_for_contents(file, file.metadata().unwrap().len()).unwrap() {
            Contents::Blank => "nothing".to_owned(),
            Contents::Some(found) => found,
        }
    }

    fn run(program: &str, flags: &[&str], path: &Path) {
        let mut command = Command::new(program);
        command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").args(flags).arg(path);
        let made = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(made.status.success(), "{made:?}");
    }

    #[test]
    fn formats_and_tables_made_by_their_tools_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join("disk");
        for (program, flags, expected) in [
            (
                "mke2fs",
                &["-q", "-F", "-t", "ext4", "-L", "photos"][..],
                "an ext4 `photos` file system",
            ),
            ("mkfs.xfs", &["-q", "-f", "-L", "logs"], "an xfs `logs` file system"),
            ("mkfs.btrfs", &["-q"], "a btrfs file system"),
            ("mkfs.fat", &[], "a FAT file system"),
            ("mkswap", &["-q"], "data of swap"),
            ("sgdisk", &["-n", "1:0:0"], "a partition table (GPT)"),
            ("sgdisk", &["-o"], "a partition table (GPT)"),
        ] {
            let file = disk(path);
            assert_eq!(found(&file), "nothing");
            run(program, flags, path);
            assert_eq!(found(&file), expected, "{program}");
        }
        let file = disk(path);
        let mut sfdisk = Command::new("/sbin/sfdisk");
        sfdisk.arg("-q").arg(path).stdin(std::process::Stdio::piped());
        let mut running = sfdisk.spawn().unwrap();
        std::io::Write::write_all(&mut running.stdin.take().unwrap(), b"label: dos\n,\n").unwrap();
        assert!(running.wait().unwrap().success());
        assert_eq!(found(&file), "a partition table (MBR)");
    }

    #[test]
    fn a_disk_whose_start_was_wiped_is_not_blank() {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join("disk");
        for (program, flags) in [
            ("mke2fs", &["-q", "-F", "-t", "ext4"][..]),
            ("mke2fs", &["-q", "-F", "-t", "ext4", "-b", "1024"]),
            ("mkfs.xfs", &["-q", "-f"]),
            ("mkfs.btrfs", &["-q"]),
            ("sgdisk", &["-n", "1:0:0"]),
        ] {
            let file = disk(path);
            run(program, flags, path);
            file.write_all_at(&vec![0; END as usize], 0).unwrap();
            let found = found(&file);
            assert!(found.starts_with("data of no known format at "), "{program}: {found}");
        }
    }

    #[test]
    fn one_byte_at_either_end_makes_a_disk_not_blank() {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join("disk");
        for at in [0, 511, 4095, END - 1, SIZE - END, SIZE - 1, 128 << 20] {
            let file = disk(path);
            file.write_all_at(&[1], at).unwrap();
            assert_eq!(found(&file), data_at(at), "{at}");
        }
    }

    #[test]
    fn no_place_is_past_the_end_of_a_small_disk() {
        for length in [0, 1, 4096, END, END + 1, 65 << 20] {
            assert!(places(length).all(|(offset, count)| offset + count <= length), "{length}");
        }
    }
}
