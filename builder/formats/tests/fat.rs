//! FAT volumes against fsck.fat and mtools, and against damaged input.
#![cfg(feature = "fat")]

mod support;

use std::process::Command;

use osbuild_formats::fat::{self, File, Volume};
use osbuild_formats::gpt::Write;
use proptest::prelude::*;
use support::tool;

const MIB: u64 = 1 << 20;

fn file(path: &str, bytes: Vec<u8>) -> File<Vec<u8>> {
    File { path: path.to_owned(), bytes }
}

fn esp_files() -> Vec<File<Vec<u8>>> {
    let boot = (0..3_000_001u32).map(|number| (number / 251) as u8).collect();
    vec![
        file("/EFI/BOOT/BOOTX64.EFI", boot),
        file("/EFI/osbuild/a much longer name than eight.txt", b"text".to_vec()),
        file("/loader.conf", Vec::new()),
    ]
}

fn volume(sector_size: u64, size: u64) -> Volume<'static> {
    Volume { sector_size, size, label: "ESP", id: 0x1234_ABCD }
}

#[test]
fn fsck_and_mtools_agree_with_us_on_both_sector_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("esp");
    for (sector_size, size) in
        [(512, 33 * MIB), (512, 64 * MIB), (512, 100 * MIB), (4096, 257 * MIB)]
    {
        std::fs::write(&path, volume(sector_size, size).write(&esp_files()).unwrap()).unwrap();
        let checked = tool("dosfstools", Command::new("fsck.fat").args(["-n", "-v"]).arg(&path));
        assert!(checked.contains(&format!("{sector_size} bytes per logical sector")), "{checked}");
        assert!(checked.contains("32 bit entries"), "{checked}");
        for fault in
            ["ifferences", "ixing", "correcting", "Free cluster", "truncat", "bad", "Dirty"]
        {
            assert!(!checked.contains(fault), "{fault}: {checked}");
        }
        let listing = tool(
            "mtools",
            Command::new("mdir").arg("-i").arg(&path).args(["-/", "-a", "-f", "-b", "::"]),
        );
        for file in esp_files() {
            assert!(listing.lines().any(|line| line == format!("::{}", file.path)), "{listing}");
            let copy = folder.path().join("copy");
            tool(
                "mtools",
                Command::new("mcopy")
                    .args(["-n", "-o", "-i"])
                    .arg(&path)
                    .arg(format!("::{}", file.path))
                    .arg(&copy),
            );
            assert_eq!(std::fs::read(&copy).unwrap(), file.bytes);
        }
        let shown = tool("mtools", Command::new("mdir").arg("-i").arg(&path).arg("::/EFI"));
        assert!(
            shown.contains("Volume in drive : is ESP") && shown.contains("1234-ABCD"),
            "{shown}"
        );
        assert!(shown.contains("BOOT         <DIR>     1980-01-01"), "{shown}");
    }
}

#[test]
fn a_volume_of_mkfs_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("esp");
    std::fs::File::create(&path).unwrap().set_len(64 * MIB).unwrap();
    tool("dosfstools", Command::new("mkfs.fat").args(["-F", "32", "-s", "1"]).arg(&path));
    let source = folder.path().join("source");
    let bytes: Vec<u8> = (0..100_000u32).map(|number| number as u8).collect();
    std::fs::write(&source, &bytes).unwrap();
    for name in ["::/SHORT.BIN", "::/Long Name, größer.binary"] {
        tool(
            "mtools",
            Command::new("mcopy")
                .env("LC_ALL", "C.UTF-8")
                .arg("-i")
                .arg(&path)
                .arg(&source)
                .arg(name),
        );
    }
    let files = fat::read(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(
        files,
        [file("/Long Name, größer.binary", bytes.clone()), file("/SHORT.BIN", bytes)]
    );
}

#[test]
fn find_returns_whole_files_only() {
    let volume = volume(512, 40 * MIB).write(&esp_files()).unwrap();
    for File { path, bytes } in esp_files() {
        assert!(fat::find(&volume, &path).unwrap() == Some(bytes), "{path}");
    }
    assert_eq!(fat::find(&volume, "/no-such-file").unwrap(), None);
    assert_eq!(fat::find(&volume, "/EFI").unwrap(), None);
}

#[test]
fn entries_that_only_some_readers_see_are_refused() {
    let good = volume(512, 40 * MIB).write(&esp_files()).unwrap();
    let changed = |place: usize, bytes: &[u8]| {
        let mut volume = good.clone();
        volume[place..place + bytes.len()].copy_from_slice(bytes);
        fat::read(&volume)
    };
    let boot = good.chunks(32).position(|entry| entry.starts_with(b"BOOTX64 EFI")).unwrap() * 32;
    assert!(matches!(changed(boot, b".OOTX64 EFI"), Err(fat::Error::Name(_))));
    // A table of its own for readers that heed the flags, and another file system for readers of
    // the 16-bit fields.
    assert!(matches!(changed(40, &[0x81]), Err(fat::Error::Field("flags"))));
    for field in [17, 19, 22, 42] {
        assert!(matches!(changed(field, &[1]), Err(fat::Error::Field(_))), "{field}");
    }
    // A long name that belongs to another entry or lacks a part.
    let long = good.chunks(32).position(|entry| entry.starts_with(b"AMUCHL~1TXT")).unwrap() * 32;
    assert!(matches!(
        changed(long, b"BMUCHL~1TXT"),
        Err(fat::Error::Name(folder)) if folder == "/EFI/osbuild"
    ));
    assert!(matches!(changed(long - 32, &[0x02]), Err(fat::Error::Name(_))));
    assert!(matches!(changed(long - 64, &[0x03]), Err(fat::Error::Name(_))));
}

#[test]
fn two_files_with_one_name_are_refused() {
    let files = [
        file("/EFI/BOOT/BOOTX64.EFI", b"good".to_vec()),
        file("/EFO/BOOT/BOOTX64.EFI", b"evil".to_vec()),
    ];
    let good = volume(512, 40 * MIB).write(&files).unwrap();
    let second = good.chunks(32).position(|entry| entry.starts_with(b"EFO        ")).unwrap() * 32;
    let mut twice = good.clone();
    twice[second..second + 3].copy_from_slice(b"EFI");
    // Without its long name, whose checksum no longer matches.
    twice[second - 32] = 0xE5;
    assert!(matches!(fat::read(&twice), Err(fat::Error::Path(path)) if path == "/EFI"));
    // With its long name in other letters.
    let long = [file("/Efi.folder/a", b"good".to_vec()), file("/eFI.folded/a", b"evil".to_vec())];
    let mut twice = volume(512, 40 * MIB).write(&long).unwrap();
    let name = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let place = twice.windows(8).position(|bytes| bytes == name("FI.f")).unwrap();
    let rest = (place..).find(|at| twice[*at..].starts_with(&name("ed"))).unwrap();
    twice[rest..rest + 4].copy_from_slice(&name("er"));
    assert!(matches!(fat::read(&twice), Err(fat::Error::Path(_))));
}

#[test]
fn the_order_of_the_files_does_not_matter() {
    let mut reversed = esp_files();
    reversed.reverse();
    assert!(
        volume(512, 40 * MIB).write(&reversed).unwrap()
            == volume(512, 40 * MIB).write(&esp_files()).unwrap()
    );
}

#[test]
fn the_bytes_never_change() {
    let bytes = volume(512, 33 * MIB).write(&esp_files()).unwrap();
    assert_eq!(format!("{:08x}", crc32fast::hash(&bytes)), "ebbd4a75");
}

#[test]
fn invalid_files_and_volumes_are_refused() {
    let refused =
        |volume: Volume, files: &[File<Vec<u8>>]| volume.write(files).unwrap_err().to_string();
    assert_eq!(
        refused(volume(512, 32 * MIB), &[]),
        "a FAT32 volume of `33554432` bytes is too small: the minimum is `34603008`"
    );
    assert_eq!(
        refused(volume(4096, 256 * MIB), &[]),
        "a FAT32 volume of `268435456` bytes is too small: the minimum is `269484032`"
    );
    assert_eq!(
        refused(volume(1024, 64 * MIB), &[]),
        "a sector of `1024` bytes is neither 512 nor 4096"
    );
    let big = file("/big", vec![0; 33 << 20]);
    assert!(
        refused(volume(512, 33 * MIB), &[big])
            .starts_with("the files need `34603520` bytes, the FAT volume has `")
    );
    for path in ["", "a", "/", "/a/", "/../a"] {
        assert!(
            refused(volume(512, 33 * MIB), &[file(path, vec![])])
                .starts_with(&format!("path `{path}` is not valid"))
        );
    }
    assert!(
        refused(volume(512, 33 * MIB), &[file("/a", vec![]), file("/A", vec![])])
            .starts_with("path `/A` is not valid or not unique")
    );
    for label in ["", "esp", "LONGER-THAN-11"] {
        let volume = Volume { label, ..volume(512, 33 * MIB) };
        assert_eq!(refused(volume, &[]), format!("`{label}` is not a valid label of a FAT volume"));
    }
}

#[test]
fn a_file_that_fills_the_volume_fits() {
    let room = match volume(512, 33 * MIB).write(&[file("/big", vec![0; 33 << 20])]) {
        Err(fat::Error::Full { room, .. }) => room as usize,
        other => panic!("{:?}", other.map(|_| ())),
    };
    let files = [file("/big", vec![0xE5; room - 512])];
    assert!(fat::read(&volume(512, 33 * MIB).write(&files).unwrap()).unwrap() == files);
}

#[test]
fn a_path_longer_than_linux_accepts_is_refused() {
    let deep = file(&format!("/{}file", "a folder/".repeat(455)), vec![]);
    let refused = volume(512, 33 * MIB).write(&[deep]);
    assert!(matches!(refused, Err(fat::Error::Path(path)) if path.len() == 4100));
}

#[test]
fn a_long_name_with_too_many_parts_is_refused() {
    let files: Vec<_> = (0..40).map(|number| file(&format!("/F{number}"), vec![])).collect();
    let mut bytes = volume(512, 33 * MIB).write(&files).unwrap();
    let root = bytes.windows(11).position(|name| name == b"F0         ").unwrap() - 32;
    let mut put = |parts: u8| {
        let number = |left: u8| left | if left == parts { 0x40 } else { 0 };
        let part = |left: u8| {
            [&[number(left)], [0x41; 10].as_slice(), &[0x0F, 0], &[0x42; 13], &[0, 0], &[0x43; 4]]
                .concat()
        };
        let all: Vec<u8> = (1..=parts).rev().flat_map(part).collect();
        bytes[root..root + all.len()].copy_from_slice(&all);
        // Nothing follows them.
        bytes[root + all.len()] = 0;
        fat::read(&bytes)
    };
    assert_eq!(put(20).unwrap(), []);
    assert!(matches!(put(21), Err(fat::Error::Name(folder)) if folder.is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn write_then_read_is_identity(
        files in prop::collection::btree_map(
            "/[a-zä]{1,12}(/[a-z0-9 ]{1,20}x){0,3}",
            prop::collection::vec(any::<u8>(), 0..3000),
            0..12,
        ),
    ) {
        let files: Vec<_> = files.into_iter().map(|(path, bytes)| file(&path, bytes)).collect();
        let contains = |one: &File<_>, other: &File<_>| {
            other.path.starts_with(&format!("{}/", one.path))
        };
        let nested = files.iter().any(|one| files.iter().any(|other| contains(one, other)));
        prop_assume!(!nested);
        let bytes = volume(512, 33 * MIB).write(&files).unwrap();
        prop_assert!(fat::read(&bytes).unwrap() == files);
    }
}

#[test]
fn damaged_input_never_panics_or_loops() {
    let sound = volume(512, 33 * MIB).write(&esp_files()).unwrap();
    let folders = sound.windows(11).position(|bytes| bytes == b"EFI        ").unwrap() - 96;
    // The boot sector, the start of the table, and the folders.
    let places = [0..512, 8 * 512..9 * 512, folders..folders + 3 * 512];
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(400));
    let damaged = std::cell::RefCell::new(sound.clone());
    let changes = prop::collection::vec((0..3usize, 0..1536usize, any::<u8>()), 1..8);
    let result = runner.run(&changes, |changes| {
        let mut bytes = damaged.borrow_mut();
        let places: Vec<_> = changes
            .iter()
            .map(|(place, offset, _)| places[*place].start + offset % places[*place].len())
            .collect();
        for (place, (_, _, byte)) in places.iter().zip(&changes) {
            bytes[*place] = *byte;
        }
        let _ = fat::read(&bytes);
        for place in places {
            bytes[place] = sound[place];
        }
        Ok(())
    });
    result.unwrap();
}

/// Returns the possible contents of a medium after a power cut: `writes` in order, and of the last
/// one only the sectors that `torn` selects.
fn cut(volume: &[u8], writes: &[Write], torn: u64) -> Vec<u8> {
    let mut bytes = volume.to_vec();
    let Some((last, whole)) = writes.split_last() else { return bytes };
    for write in whole {
        bytes[write.offset as usize..][..write.bytes.len()].copy_from_slice(&write.bytes);
    }
    for (index, sector) in
        last.bytes.chunks(512).enumerate().filter(|(index, _)| torn >> (index % 64) & 1 == 1)
    {
        bytes[last.offset as usize + index * 512..][..sector.len()].copy_from_slice(sector);
    }
    bytes
}

const BOOT: &str = "/EFI/BOOT/BOOTX64.EFI";

#[test]
fn a_power_cut_at_any_write_leaves_the_old_or_the_new_file() {
    let before = volume(512, 34 * MIB).write(&esp_files()).unwrap();
    let new = vec![0xA5; 70_001];
    let writes = fat::replace(&before, BOOT, &new).unwrap();
    let replaced = esp_files()
        .into_iter()
        .map(|old| if old.path == BOOT { file(BOOT, new.clone()) } else { old });
    let (old, replaced) = (esp_files(), replaced.collect::<Vec<_>>());
    let mut switches = 0;
    let mut was_old = true;
    for count in 0..=writes.len() {
        // No sector of the last write, every second one, and all of them.
        for torn in [0, 0x5555_5555_5555_5555, 0xAAAA_AAAA_AAAA_AAAA, u64::MAX] {
            let found = fat::read(&cut(&before, &writes[..count], torn)).unwrap();
            assert!(found == old || found == replaced, "cut in write {count}");
            let is_old = found == old;
            switches += u32::from(torn == u64::MAX && was_old != is_old);
            was_old = if torn == u64::MAX { is_old } else { was_old };
        }
    }
    assert_eq!((switches, was_old), (1, false));
}

#[test]
fn fsck_and_mtools_accept_a_retry_after_a_power_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("esp"), folder.path().join("copy"));
    let before = volume(512, 34 * MIB).write(&esp_files()).unwrap();
    let first = fat::replace(&before, BOOT, &[1; 3_500_000]).unwrap();
    for count in 0..=first.len() {
        let interrupted = cut(&before, &first[..count], u64::MAX);
        let new = vec![2; 100_000];
        let second = fat::replace(&interrupted, BOOT, &new).unwrap();
        std::fs::write(&path, cut(&interrupted, &second, u64::MAX)).unwrap();
        tool("dosfstools", Command::new("fsck.fat").arg("-n").arg(&path));
        tool(
            "mtools",
            Command::new("mcopy")
                .args(["-n", "-o", "-i"])
                .arg(&path)
                .arg(format!("::{BOOT}"))
                .arg(&copy),
        );
        assert_eq!(std::fs::read(&copy).unwrap(), new);
    }
}

#[test]
fn a_replacement_needs_an_existing_file_and_room_for_both() {
    let before = volume(512, 34 * MIB).write(&esp_files()).unwrap();
    assert!(matches!(
        fat::replace(&before, "/EFI/BOOT/BOOTAA64.EFI", &[1]),
        Err(fat::Error::Path(_))
    ));
    assert!(matches!(fat::replace(&before, "/EFI/BOOT", &[1]), Err(fat::Error::Path(_))));
    assert!(matches!(
        fat::replace(&before, BOOT, &vec![1; 33 << 20]),
        Err(fat::Error::Full { .. })
    ));
    let emptied = cut(&before, &fat::replace(&before, BOOT, &[]).unwrap(), u64::MAX);
    assert!(fat::read(&emptied).unwrap().contains(&file(BOOT, Vec::new())));
}
