//! Repairs and changes of an ext4 superblock, against e2fsck and dumpe2fs.
#![cfg(feature = "ext4")]

mod support;

use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use osbuild_formats::ext4::{self, Format, Step};
use osbuild_formats::gpt::Write;
use support::tool;
use uuid::Uuid;

/// The range of the superblock in a file system, and the start of its second sector.
const SUPERBLOCK: std::ops::Range<usize> = 1024..2048;
const MIDDLE: usize = 1536;

/// Makes a file system like that of DATA, and the same after one more mount.
fn before_and_after(path: &Path) -> [Vec<u8>; 2] {
    std::fs::File::create(path).unwrap().set_len(160 << 20).unwrap();
    tool(
        "e2fsprogs",
        Command::new("/sbin/mke2fs").args(["-q", "-t", "ext4", "-L", "DATA"]).arg(path),
    );
    let before = std::fs::read(path).unwrap();
    tool(
        "e2fsprogs",
        Command::new("/sbin/tune2fs").args(["-C", "7", "-T", "20300101000000"]).arg(path),
    );
    [before, std::fs::read(path).unwrap()]
}

fn is_sound(path: &Path) -> bool {
    Command::new("/sbin/e2fsck").args(["-f", "-p"]).arg(path).output().unwrap().status.success()
}

#[test]
fn e2fsck_accepts_a_repaired_superblock_whichever_half_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let [before, after] = before_and_after(&path);
    for (first, second, mounts) in [
        (&before, &after, "Mount count:              0"),
        (&after, &before, "Mount count:              7"),
    ] {
        let mut torn = first.clone();
        torn[MIDDLE..SUPERBLOCK.end].copy_from_slice(&second[MIDDLE..SUPERBLOCK.end]);
        std::fs::write(&path, &torn).unwrap();
        assert!(!is_sound(&path), "e2fsck accepts a torn superblock");
        let write = ext4::mend(&mut Cursor::new(&torn)).unwrap().unwrap();
        assert_eq!((write.offset as usize, write.bytes.len()), (MIDDLE, 512));
        torn[MIDDLE..][..512].copy_from_slice(&write.bytes);
        std::fs::write(&path, &torn).unwrap();
        let shown = tool("e2fsprogs", Command::new("/sbin/dumpe2fs").arg("-h").arg(&path));
        assert!(shown.contains(mounts), "{shown}");
        assert!(is_sound(&path));
        assert_eq!(ext4::mend(&mut Cursor::new(&torn)).unwrap(), None);
    }
}

#[test]
fn a_superblock_that_is_valid_or_damaged_otherwise_stays() {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = before_and_after(&folder.path().join("data"));
    for sound in [&before, &after] {
        assert_eq!(ext4::mend(&mut Cursor::new(sound)).unwrap(), None);
    }
    // The magic number, the size of blocks, the blocks of a group, the size of inodes, the journal,
    // and the checksum's seed.
    for field in [0x38, 0x18, 0x20, 0x58, 0xE0, 0x270] {
        let mut damaged = after.clone();
        damaged[SUPERBLOCK.start + field] ^= 1;
        assert!(matches!(ext4::mend(&mut Cursor::new(&damaged)), Ok(None) | Err(_)), "{field:#x}");
    }
    assert_eq!(ext4::mend(&mut Cursor::new(vec![0; 4096])).unwrap(), None);
    assert!(ext4::mend(&mut Cursor::new(vec![0; 1500])).is_err());
}

#[test]
fn e2fsck_accepts_another_reserve() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let [mut volume, _] = before_and_after(&path);
    let write = ext4::reserve(&mut Cursor::new(&volume), 4321).unwrap().unwrap();
    volume[write.offset as usize..][..write.bytes.len()].copy_from_slice(&write.bytes);
    std::fs::write(&path, &volume).unwrap();
    let shown = tool("e2fsprogs", Command::new("/sbin/dumpe2fs").arg("-h").arg(&path));
    assert!(shown.contains("Reserved block count:     4321\n"), "{shown}");
    assert!(is_sound(&path));
    assert_eq!(ext4::reserve(&mut Cursor::new(&volume), 4321).unwrap(), None);
}

#[test]
fn the_reserve_of_a_damaged_superblock_stays() {
    let folder = tempfile::tempdir().unwrap();
    let [mut volume, _] = before_and_after(&folder.path().join("data"));
    volume[MIDDLE] ^= 1;
    assert_eq!(ext4::reserve(&mut Cursor::new(&volume), 4321).unwrap(), None);
    assert_eq!(ext4::reserve(&mut Cursor::new(vec![0; 4096]), 4321).unwrap(), None);
}

#[test]
fn no_superblock_makes_the_reader_panic() {
    let folder = tempfile::tempdir().unwrap();
    let [mut volume, _] = before_and_after(&folder.path().join("data"));
    for byte in SUPERBLOCK {
        let was = std::mem::replace(&mut volume[byte], 0xFF);
        let _ = ext4::mend(&mut Cursor::new(&volume));
        volume[byte] = was;
    }
}

const SIZE: u64 = 300 << 20;

fn format() -> Format {
    let uuid = Uuid::from_u128(0x1234_5678_9abc_5def_8123_4567_89ab_cdef);
    Format { uuid, label: "db".to_owned(), hash_seed: [7; 16], time: 1_800_000_000 }
}

/// A volume in memory, and whether a part of it was never flushed.
fn make(steps: &[Step], volume: &mut [u8]) {
    for step in steps {
        match step {
            Step::Write(Write { offset, bytes }) => {
                volume[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            Step::Zero { offset, length } => {
                volume[*offset as usize..][..*length as usize].fill(0);
            }
            Step::Flush => {}
        }
    }
}

#[test]
fn e2fsck_finds_nothing_wrong_in_a_new_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    // Old bytes behind the first mebibyte do not matter.
    let mut volume = vec![0xA5; SIZE as usize];
    volume[..1 << 20].fill(0);
    make(&format().steps(), &mut volume);
    std::fs::write(&path, &volume).unwrap();
    tool("e2fsprogs", Command::new("/sbin/e2fsck").args(["-f", "-n"]).arg(&path));
    let shown = tool("e2fsprogs", Command::new("/sbin/dumpe2fs").arg(&path));
    for line in [
        "Filesystem volume name:   db",
        "Filesystem UUID:          12345678-9abc-5def-8123-456789abcdef",
        "Filesystem state:         clean",
        "Errors behavior:          Remount read-only",
        "Reserved block count:     0",
        "Block count:              32768",
        "Total journal size:       64M",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let found = ext4::identity(&mut Cursor::new(&volume)).unwrap().unwrap();
    assert_eq!((found.uuid, found.label.as_str()), (format().uuid, "db"));
    assert!(!Format::is_unfinished(&mut Cursor::new(&volume), found.uuid).unwrap());
}

#[test]
fn a_new_file_system_grows_beyond_the_descriptors_that_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    let mut volume = vec![0; SIZE as usize];
    make(&format().steps(), &mut volume);
    std::fs::write(&path, &volume).unwrap();
    for (gib, blocks) in [(1, 262_144), (20, 5_242_880)] {
        std::fs::File::options().write(true).open(&path).unwrap().set_len(gib << 30).unwrap();
        // It asks for a check of a file system that was never mounted.
        tool("e2fsprogs", Command::new("/sbin/resize2fs").arg("-f").arg(&path));
        tool("e2fsprogs", Command::new("/sbin/e2fsck").args(["-f", "-n"]).arg(&path));
        let shown = tool("e2fsprogs", Command::new("/sbin/dumpe2fs").arg("-h").arg(&path));
        assert!(shown.contains(&format!("Block count:              {blocks}")), "{shown}");
    }
}

#[test]
fn a_new_file_system_has_the_features_of_mke2fs() {
    let folder = tempfile::tempdir().unwrap();
    let features = |path: &Path| {
        let shown = tool("e2fsprogs", Command::new("/sbin/dumpe2fs").arg("-h").arg(path));
        let line = shown.lines().find_map(|line| line.strip_prefix("Filesystem features:"));
        let mut words: Vec<String> = line.unwrap().split_whitespace().map(str::to_owned).collect();
        words.sort();
        words
    };
    let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
    let mut volume = vec![0; SIZE as usize];
    make(&format().steps(), &mut volume);
    std::fs::write(&ours, &volume).unwrap();
    std::fs::File::create(&theirs).unwrap().set_len(SIZE).unwrap();
    let features_of_theirs = "64bit,metadata_csum_seed,^resize_inode,^orphan_file";
    let mut mke2fs = Command::new("/sbin/mke2fs");
    mke2fs.args(["-q", "-t", "ext4", "-b", "4096", "-O", features_of_theirs]).arg(&theirs);
    tool("e2fsprogs", &mut mke2fs);
    assert_eq!(features(&ours), features(&theirs));
}

#[test]
fn a_format_that_was_cut_is_blank_marked_or_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    let (steps, uuid) = (format().steps(), format().uuid);
    for cut in 0..=steps.len() {
        let mut volume = vec![0; SIZE as usize];
        make(&steps[..cut], &mut volume);
        let is_unfinished = Format::is_unfinished(&mut Cursor::new(&volume), uuid).unwrap();
        let is_blank = volume.iter().all(|byte| *byte == 0);
        let is_whole = !is_blank && !is_unfinished;
        assert_eq!((is_blank, is_whole), (cut == 0, cut + 1 >= steps.len()), "{cut}");
        if is_whole || cut % 5 == 1 {
            make(if is_whole { &[] } else { &steps }, &mut volume);
            std::fs::write(&path, &volume).unwrap();
            tool("e2fsprogs", Command::new("/sbin/e2fsck").args(["-f", "-n"]).arg(&path));
        }
    }
}

#[test]
fn nothing_is_unflushed_when_a_mark_or_a_superblock_is_written() {
    let steps = format().steps();
    for (index, step) in steps.iter().enumerate() {
        let Step::Write(Write { offset: 0 | 1024, .. }) = step else { continue };
        assert!(index == 0 || steps[index - 1] == Step::Flush, "{index}");
        assert_eq!(steps[index + 1], Step::Flush, "{index}");
    }
}

#[test]
fn no_bytes_at_the_start_make_the_reader_panic() {
    let mut volume = vec![0; 4096];
    assert_eq!(ext4::identity(&mut Cursor::new(&volume)).unwrap(), None);
    for byte in SUPERBLOCK {
        volume[byte] = 0xFF;
        let _ = ext4::identity(&mut Cursor::new(&volume)).unwrap();
    }
    assert!(ext4::identity(&mut Cursor::new(vec![0; 1500])).is_err());
    assert!(Format::is_unfinished(&mut Cursor::new(vec![0; 100]), format().uuid).is_err());
}
