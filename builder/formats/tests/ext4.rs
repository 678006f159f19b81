//! Repairs and changes of an ext4 superblock, against e2fsck and dumpe2fs.
#![cfg(feature = "ext4")]

mod support;

use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use osbuild_formats::ext4;
use support::tool;

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
