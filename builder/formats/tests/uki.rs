//! PE images and UKIs against objdump and the crate `object`, and against damaged input.

mod support;

use std::io::{Read, Seek, SeekFrom};
use std::process::Command;

use object::read::pe::PeFile64;
use object::{Object, ObjectSection};
use osbuild_formats::{pe, uki};
use proptest::prelude::*;
use support::tool;

const FOLDER: &str = "/usr/lib/systemd/boot/efi";

fn debian(name: &str) -> Vec<u8> {
    let path = format!("{FOLDER}/{name}");
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!("{path}: {error}: install the Debian package `systemd-boot-efi`")
    })
}

fn stub() -> Vec<u8> {
    debian("linuxx64.efi.stub")
}

/// systemd-boot, used as a kernel: a PE image that needs more memory than it has bytes.
fn kernel() -> Vec<u8> {
    debian("systemd-bootx64.efi")
}

/// Makes an image with the layout of Debian's stub for aarch64: two sections, a 4 KiB alignment,
/// headers of 4 KiB, six data directories.
fn aarch64_image() -> Vec<u8> {
    let mut image = vec![0; 0x1000];
    let mut put =
        |offset: usize, bytes: &[u8]| image[offset..offset + bytes.len()].copy_from_slice(bytes);
    put(0, b"MZ");
    put(0x3C, &0x40u32.to_le_bytes());
    put(0x40, b"PE\0\0\x64\xAA\x02\0");
    put(0x54, &[160, 0, 0x06, 0x02, 0x0B, 0x02]);
    for (offset, value) in
        [(32, 0x1000), (36, 0x200), (56, 0x4000), (60, 0x1000), (64, 7), (108, 6)]
    {
        put(0x58 + offset, &u32::to_le_bytes(value));
    }
    for (index, name) in [b".text\0\0\0", b".data\0\0\0"].iter().enumerate() {
        let header = 0xF8 + index * 40;
        put(header, *name);
        for (offset, value) in
            [(8, 0x333), (12, 0x1000 * (index + 1)), (16, 0x400), (20, 0x1000 + 0x400 * index)]
        {
            put(header + offset, &(value as u32).to_le_bytes());
        }
    }
    // The stub is padded with `nop` instructions.
    for padding in image[0x148..].as_chunks_mut().0 {
        *padding = [0x1F, 0x20, 0x03, 0xD5];
    }
    image.resize(0x1800, 0xCC);
    image
}

const PARTS: uki::Parts = uki::Parts {
    os_release: "ID=osbuild\nVERSION_ID=1\n",
    command_line: "console=ttyS0 quiet",
    uname: "6.12.117",
    security_epoch: 7,
    initramfs: &[7; 5000],
    kernel: &[],
};

#[test]
fn a_uki_with_an_initramfs_from_a_file_is_the_same() {
    let (stub, kernel) = (stub(), kernel());
    let parts = uki::Parts { kernel: &kernel, ..PARTS };
    let frame = uki::Frame::new(&stub, &parts, parts.initramfs.len() as u64).unwrap();
    let (mut file, mut found) = (tempfile::tempfile().unwrap(), Vec::new());
    frame.write(parts.initramfs, &mut file).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut found).unwrap();
    assert!(found == uki::build(&stub, &parts).unwrap() && found.len() as u64 == frame.length());
    let short = frame.write(&parts.initramfs[1..], &mut tempfile::tempfile().unwrap()).unwrap_err();
    assert_eq!(short.kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_uki_reads_back_as_it_was_made() {
    for (stub, kernel) in [(stub(), kernel()), (aarch64_image(), aarch64_image())] {
        let parts = uki::Parts { kernel: &kernel, ..PARTS };
        let uki = uki::build(&stub, &parts).unwrap();
        let read = uki::read(&uki).unwrap();
        let (found, padding) = read.kernel.split_at(kernel.len());
        assert!(found == kernel && padding.iter().all(|byte| *byte == 0));
        assert_eq!(uki::Parts { kernel: &kernel, ..read }, parts);
        assert_eq!(uki, uki::build(&stub, &parts).unwrap());
        assert_eq!(uki.len() % 512, 0);
    }
}

#[test]
fn objdump_sees_the_sections_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("uki.efi");
    let kernel = kernel();
    std::fs::write(&path, uki::build(&stub(), &uki::Parts { kernel: &kernel, ..PARTS }).unwrap())
        .unwrap();
    let listing = tool("binutils", Command::new("objdump").arg("-h").arg(&path));
    let rows: Vec<Vec<&str>> =
        listing.lines().map(|line| line.split_whitespace().collect()).collect();
    let row = |name: &str| {
        rows.iter()
            .find(|row| row.get(1) == Some(&name))
            .unwrap_or_else(|| panic!("{name}: {listing}"))
    };
    assert_eq!(row(".text")[2..4], ["0000bff0", "0000000000004000"]);
    assert_eq!(row(".initrd")[2], format!("{:08x}", 5000));
    let size_of_image = pe::Image::parse(&kernel).unwrap().size_of_image;
    let raw_size = kernel.len().next_multiple_of(512) as u32;
    // objdump shows the size in the file if the size in memory is larger.
    assert_eq!(row(".linux")[2], format!("{:08x}", raw_size.min(size_of_image)));
    let text = tool("binutils", Command::new("objdump").args(["-s", "-j", ".uname"]).arg(&path));
    assert!(text.contains("6.12.117"), "{text}");
    assert!(
        tool("binutils", Command::new("objdump").args(["-s", "-j", ".epoch"]).arg(&path))
            .contains(" 37 ")
    );
    assert!(!listing.contains("SYMBOLS"));
}

#[test]
fn the_crate_object_sees_the_same_sections_on_both_machines() {
    for (stub, kernel) in [(stub(), kernel()), (aarch64_image(), aarch64_image())] {
        let uki = uki::build(&stub, &uki::Parts { kernel: &kernel, ..PARTS }).unwrap();
        let ours = pe::Image::parse(&uki).unwrap();
        let theirs = PeFile64::parse(&*uki).unwrap();
        let header = theirs.nt_headers();
        assert_eq!(header.file_header.machine.get(object::LittleEndian).0, ours.machine);
        assert_eq!(
            header.optional_header.size_of_image.get(object::LittleEndian),
            ours.size_of_image
        );
        assert_eq!(theirs.sections().count(), ours.sections.len());
        for (theirs, ours) in theirs.sections().zip(&ours.sections) {
            assert_eq!(
                (theirs.name().unwrap(), theirs.data().unwrap()),
                (&*ours.name, ours.data())
            );
            assert_eq!(
                (theirs.address(), theirs.size()),
                (ours.address.into(), ours.virtual_size.into())
            );
        }
        let linux = ours.section(".linux").unwrap();
        let size_of_image = pe::Image::parse(&kernel).unwrap().size_of_image;
        assert_eq!(linux.virtual_size, size_of_image.max(kernel.len() as u32));
        assert_eq!(linux.address % 4096, 0);
        assert!(linux.address + linux.virtual_size <= ours.size_of_image);
    }
}

#[test]
fn sections_never_overlap_in_file_or_memory() {
    let kernel = kernel();
    let uki = uki::build(&stub(), &uki::Parts { kernel: &kernel, ..PARTS }).unwrap();
    let image = pe::Image::parse(&uki).unwrap();
    for pair in image.sections.windows(2) {
        assert!(pair[0].address + pair[0].virtual_size <= pair[1].address, "{pair:x?}");
        assert!(
            pair[0].offset as usize + pair[0].data().len() <= pair[1].offset as usize,
            "{pair:x?}"
        );
    }
}

#[test]
fn invalid_parts_of_a_uki_are_refused() {
    let (stub, kernel) = (stub(), kernel());
    let parts = uki::Parts { kernel: &kernel, ..PARTS };
    let refused = |stub: &[u8], parts: uki::Parts| uki::build(stub, &parts).unwrap_err();
    assert_eq!(refused(b"MZ", parts), uki::Error::Stub(pe::Error::Truncated("DOS header")));
    assert_eq!(
        refused(&stub, uki::Parts { kernel: b"\x7FELF", ..parts }),
        uki::Error::Kernel(pe::Error::NotPe)
    );
    assert_eq!(
        refused(&aarch64_image(), parts),
        uki::Error::Machine { stub: 0xAA64, kernel: 0x8664 }
    );
    assert_eq!(
        refused(&stub, uki::Parts { command_line: "a\nb", ..parts }),
        uki::Error::Text(".cmdline")
    );
    assert_eq!(
        refused(&stub, uki::Parts { initramfs: b"", ..parts }),
        uki::Error::Missing(".initrd")
    );
    let uki = uki::build(&stub, &parts).unwrap();
    assert_eq!(refused(&uki, parts), uki::Error::Stub(pe::Error::SectionExists(".osrel".into())));
    assert_eq!(uki::read(&stub), Err(uki::Error::Missing(".osrel")));
}

#[test]
fn a_signed_stub_is_refused() {
    let mut signed = aarch64_image();
    // Offset and size of the certificate table.
    signed[0x58 + 144..0x58 + 152].copy_from_slice(&[0, 8, 0, 0, 8, 0, 0, 0]);
    assert_eq!(pe::append(&signed, &[]), Err(pe::Error::Signed));
}

#[test]
fn a_header_without_room_is_refused() {
    let mut crowded = aarch64_image();
    // The headers end right after the section table.
    crowded[0x58 + 60..0x58 + 64].copy_from_slice(&0x160u32.to_le_bytes());
    let section = |name| pe::NewSection { name, data: b"x", virtual_size: 0, characteristics: 0 };
    assert_eq!(pe::append(&crowded, &[section("a")]), Err(pe::Error::NoRoom(1)));
    let uki = aarch64_image();
    let names: Vec<String> = (0..100).map(|number| format!("s{number}")).collect();
    let many: Vec<pe::NewSection> = names.iter().map(|name| section(name)).collect();
    assert_eq!(pe::append(&uki, &many), Err(pe::Error::NoRoom(100)));
}

proptest! {
    #[test]
    fn damaged_images_never_panic(
        aarch64 in any::<bool>(),
        changes in prop::collection::vec((0..1024usize, any::<u8>()), 1..12),
        length in 0..6144usize,
    ) {
        let mut image = if aarch64 { aarch64_image() } else { stub()[..6144].to_vec() };
        for (offset, byte) in changes {
            image[offset] = byte;
        }
        for image in [&image[..], &image[..length]] {
            let _ = uki::read(image);
            let section =
                pe::NewSection { name: "x", data: b"y", virtual_size: 9, characteristics: 0 };
            if let Ok(out) = pe::append(image, &[section]) {
                let parsed = pe::Image::parse(&out).unwrap();
                prop_assert_eq!(parsed.section("x").unwrap().data()[0], b'y');
            }
        }
    }

    #[test]
    fn random_headers_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 64..2048)) {
        bytes[..2].copy_from_slice(b"MZ");
        bytes[0x3C..0x40].copy_from_slice(&[0x20, 0, 0, 0]);
        bytes[0x20..0x24].copy_from_slice(b"PE\0\0");
        let _ = pe::Image::parse(&bytes);
    }
}
