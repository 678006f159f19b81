//! Checks whole images with sgdisk, sfdisk, mtools and the file system's holes.

mod support;

use std::io::Cursor;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use osbuild_abi::disk as abi;
use osbuild_formats::disk_image::{Content, DiskImage, Partition};
use osbuild_formats::gpt::{self, Label};
use support::tool;

const MIB: u64 = 1 << 20;

fn partition<'a>(name: &'a str, type_guid: &str, mib: u64, content: Content<'a>) -> Partition<'a> {
    let (type_guid, guid) = (type_guid.parse().unwrap(), gpt::guid_from_name(name));
    Partition { name, type_guid, guid, attributes: 0, size: mib * MIB, content }
}

/// The node's disk with `bytes` in two of its partitions.
fn node_disk(sector_size: u64, bytes: &[u8]) -> DiskImage<'_> {
    let partitions = vec![
        partition(abi::ESP, abi::ESP_TYPE, 34, Content::bytes(bytes)),
        partition(abi::SLOT_A, abi::SLOT_TYPE, 8, Content::empty()),
        partition(abi::SLOT_B, abi::SLOT_TYPE, 8, Content::empty()),
        partition(abi::DATA, abi::DATA_TYPE, 64, Content::reader(bytes.len() as u64, bytes)),
    ];
    DiskImage { sector_size, guid: gpt::guid_from_name("disk"), partitions }
}

fn image(disk: DiskImage) -> Vec<u8> {
    let mut image = Cursor::new(Vec::new());
    let size = disk.write(&mut image).unwrap();
    assert_eq!(image.get_ref().len() as u64, size);
    image.into_inner()
}

#[test]
fn sgdisk_and_sfdisk_accept_the_image_and_its_contents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let bytes: Vec<u8> = (0..3 * MIB).map(|number| (number >> 8) as u8).collect();
    std::fs::write(&path, image(node_disk(512, &bytes))).unwrap();
    let verified = tool("gdisk", Command::new("sgdisk").arg("-v").arg(&path));
    assert!(verified.contains("No problems found") && !verified.contains("Caution"), "{verified}");
    tool("fdisk", Command::new("sfdisk").arg("--verify").arg(&path));
    let listing = tool("fdisk", Command::new("sfdisk").arg("--dump").arg(&path));
    let starts: Vec<u64> = listing
        .lines()
        .filter_map(|line| line.split("start=").nth(1)?.split(',').next()?.trim().parse().ok())
        .collect();
    assert_eq!(starts, [1, 35, 43, 51].map(|mib| mib * MIB / 512));
    let image = std::fs::read(&path).unwrap();
    for start in [starts[0], starts[3]] {
        assert!(image[start as usize * 512..].starts_with(&bytes));
    }
}

#[test]
fn sectors_of_4096_bytes_read_back() {
    let image = image(node_disk(4096, b"content"));
    let geometry = node_disk(4096, b"content").geometry().unwrap();
    let label = Label::read(&mut Cursor::new(&image), geometry).unwrap();
    assert_eq!(label.health(), gpt::Health::Sound);
    let data = label.table().named(abi::DATA).unwrap();
    assert_eq!((data.first * 4096 % MIB, data.sectors() * 4096), (0, 64 * MIB));
    assert!(image[data.first as usize * 4096..].starts_with(b"content"));
}

#[test]
fn holes_stay_holes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let mut bytes = vec![0; 32 << 20];
    bytes[20 << 20] = 1;
    let file = std::fs::File::create(&path).unwrap();
    let size = node_disk(512, &bytes).write(&file).unwrap();
    let found = path.metadata().unwrap();
    assert_eq!((found.size(), size), (116 * MIB, 116 * MIB));
    assert!(found.blocks() * 512 < MIB, "{} bytes on the disk", found.blocks() * 512);
}

#[test]
fn the_same_disk_gives_the_same_bytes() {
    assert!(image(node_disk(512, b"content")) == image(node_disk(512, b"content")));
    assert!(image(node_disk(512, b"content")) != image(node_disk(512, b"Content")));
}

#[test]
fn partitions_that_do_not_fit_are_refused_before_the_first_write() {
    let refused = |partition: Partition| {
        let disk = DiskImage {
            sector_size: 512,
            guid: gpt::guid_from_name("disk"),
            partitions: vec![partition],
        };
        let mut out = Cursor::new(Vec::new());
        let error = disk.write(&mut out).unwrap_err();
        assert!(out.into_inner().is_empty());
        error.to_string()
    };
    let big = vec![0; MIB as usize + 1];
    let too_big = partition("ESP", abi::ESP_TYPE, 1, Content::bytes(&big));
    assert_eq!(refused(too_big), "`1048577` bytes do not fit partition `ESP`, which has `1048576`");
    let unaligned =
        Partition { size: MIB + 512, ..partition("ESP", abi::ESP_TYPE, 1, Content::empty()) };
    assert_eq!(
        refused(unaligned),
        "partition `ESP` has `1049088` bytes, which is not a multiple of 1048576"
    );
    let long_name = partition(
        "a partition's name of more than 36 characters",
        abi::ESP_TYPE,
        1,
        Content::empty(),
    );
    assert_eq!(refused(long_name), "the partition table cannot be made");
}

#[test]
fn contents_that_end_early_are_an_error() {
    let short = partition("DATA", abi::DATA_TYPE, 1, Content::reader(10, &b"nine bytes"[..9]));
    let disk =
        DiskImage { sector_size: 512, guid: gpt::guid_from_name("disk"), partitions: vec![short] };
    let error = disk.write(Cursor::new(Vec::new())).unwrap_err();
    assert_eq!(error.to_string(), "the content of partition `DATA` ended early");
}

#[test]
#[cfg(feature = "fat")]
fn mtools_reads_the_esp_within_the_image() {
    use osbuild_formats::fat::{File, Volume};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let files = [File { path: "/EFI/BOOT/BOOTX64.EFI".to_owned(), bytes: b"boot" }];
    let esp =
        Volume { sector_size: 512, size: 34 * MIB, label: "ESP", id: 1 }.write(&files).unwrap();
    std::fs::write(&path, image(node_disk(512, &esp))).unwrap();
    let drive = format!("{}@@{MIB}", path.display());
    let text =
        tool("mtools", Command::new("mtype").args(["-i", &drive, "::/EFI/BOOT/BOOTX64.EFI"]));
    assert_eq!(text, "boot");
}
