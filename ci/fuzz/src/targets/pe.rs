//! PE images: the stub and the kernel of a UKI, and UKIs for `osbuild inspect`.

use osbuild_formats::pe::{Image, NewSection, append};
use osbuild_formats::uki::{self, Parts};
use osbuild_signatures::authenticode;

use crate::target::{Memory, Outcome, Target};

/// See the module. Sections are padded to up to 64 KiB.
pub const TARGET: Target =
    Target { name: "pe", seeds, run, memory: Memory { base: 4 << 20, per_byte: 64 } };

fn run(input: &[u8]) -> Outcome {
    let read = Image::parse(input);
    digested(input);
    if let Ok(image) = &read {
        appended(input, image);
        built(input);
        if let Ok(parts) = uki::read(input) {
            assert!(parts.kernel.len() + parts.initramfs.len() <= 2 * input.len());
        }
    }
    Outcome::of(&read)
}

/// Hashing an image in pieces gives the digest of the whole, whatever its headers contain.
fn digested(input: &[u8]) {
    let (first, rest) = input.split_at(input.len() / 2);
    let mut hasher = authenticode::Hasher::default();
    hasher.push(first);
    hasher.push(rest);
    assert_eq!(hasher.finish(input), authenticode::digest(input));
}

/// An appended section is read back after the others, which do not change.
fn appended(input: &[u8], image: &Image) {
    let new = NewSection { name: ".new", data: b"data", virtual_size: 5000, characteristics: 0x40 };
    let Ok(bytes) = append(input, &[new]) else { return };
    assert_eq!(bytes.len() % 512, 0);
    let again = Image::parse(&bytes).expect("our own image can be read");
    let (last, before) = again.sections.split_last().expect("a section was added");
    assert_eq!((&*last.name, last.data().get(..4)), (".new", Some(&b"data"[..])));
    assert_eq!(before, image.sections);
    assert!(
        before
            .iter()
            .all(|section| last.address >= section.address.saturating_add(section.virtual_size))
    );
    assert!(again.size_of_image >= last.address + 5000);
}

/// A UKI with this stub and kernel is read back unchanged.
fn built(input: &[u8]) {
    let parts = Parts {
        os_release: "ID=a\n",
        command_line: "quiet",
        uname: "6.12",
        security_epoch: 7,
        initramfs: b"0707",
        kernel: input,
    };
    let Ok(bytes) = uki::build(input, &parts) else { return };
    let read = uki::read(&bytes).expect("our own image can be read");
    let padded = read.kernel.strip_prefix(input).expect("the UKI contains the kernel");
    assert!(padded.iter().all(|byte| *byte == 0));
    assert_eq!(Parts { kernel: input, ..read }, parts);
}

/// A minimal image for x86_64 with two sections.
pub fn image() -> Vec<u8> {
    let mut image = vec![0; 0x400];
    let mut put =
        |offset: usize, bytes: &[u8]| image[offset..offset + bytes.len()].copy_from_slice(bytes);
    put(0, b"MZ");
    put(0x3C, &0x40u32.to_le_bytes());
    put(0x40, b"PE\0\0\x64\x86\x02\0");
    put(0x54, &[160, 0, 0x06, 0x02, 0x0B, 0x02]);
    // Alignments, sizes of image and headers, the checksum, and the number of directories.
    for (offset, value) in
        [(32, 0x1000u32), (36, 0x200), (56, 0x3000), (60, 0x400), (64, 7), (108, 6)]
    {
        put(0x58 + offset, &value.to_le_bytes());
    }
    for (index, name) in (0..).zip([b".text\0\0\0", b".data\0\0\0"]) {
        let header = 0xF8 + 40 * index as usize;
        put(header, name);
        for (offset, value) in
            [(8, 0x133), (12, 0x1000 * (index + 1)), (16, 0x200), (20, 0x400 + 0x200 * index)]
        {
            put(header + offset, &u32::to_le_bytes(value));
        }
    }
    image.resize(0x800, 0xCC);
    image
}

/// A UKI with an initramfs.
pub fn uki_with(initramfs: &[u8]) -> Vec<u8> {
    let (stub, kernel) = (image(), image());
    let parts = Parts {
        os_release: "ID=a\n",
        command_line: "quiet",
        uname: "6.12",
        security_epoch: 7,
        initramfs,
        kernel: &kernel,
    };
    uki::build(&stub, &parts).expect("the image can be a stub and a kernel")
}

fn seeds() -> Vec<Vec<u8>> {
    let signed = {
        let mut image = image();
        image[0x58 + 112 + 4 * 8 + 4] = 1;
        image
    };
    vec![image(), uki_with(b"0707"), signed]
}
