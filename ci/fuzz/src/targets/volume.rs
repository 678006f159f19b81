//! Volumes that somebody else brings, ISO 9660 and FAT, on the whole way to a node document: as
//! `init` reads their labels, and as the pod `bootstrap` reads their files.

use std::io::Cursor;

use bootstrap::trust::Trust;
use bootstrap::user_data::MAX_DECODED;
use bootstrap::volume::read;
use osbuild_formats::volume::{Volume, label};

use crate::patch::{change, changes};
use crate::target::{Memory, Outcome, Target};

/// See the module. An input is changes to an ISO 9660 volume, followed by a FAT volume. The folders
/// that are read have up to 256 KiB, twice for an error.
pub const TARGET: Target =
    Target { name: "volume", seeds, run, memory: Memory { base: 4 << 20, per_byte: 256 } };

const BLOCK: usize = 2048;
const SECTOR: usize = 512;
/// The blocks of ISO 9660 with the primary descriptor, the root folder, and its files.
const DESCRIPTOR: usize = 16;
const ROOT: usize = 18;
const USER_DATA: usize = 19;
const META_DATA: usize = 20;
const BLOCKS: usize = 21;
/// The sectors of FAT12 with the table, the root folder, and the first file.
const TABLE: usize = 1;
const FAT_ROOT: usize = 2;
const FAT_DATA: usize = 3;
const SECTORS: usize = 8;

const DOCUMENT: &[u8] = b"hostname = \"edge-1\"\n";
const IDENTITY: &[u8] = b"instance-id: i-1\n";

fn both32(number: usize) -> Vec<u8> {
    let number = number as u32;
    [number.to_le_bytes(), number.to_be_bytes()].concat()
}

fn both16(number: u16) -> Vec<u8> {
    [number.to_le_bytes(), number.to_be_bytes()].concat()
}

/// A directory record with the names of Rock Ridge.
fn record(block: usize, size: usize, flags: u8, name: &[u8], system_use: &[u8]) -> Vec<u8> {
    let head = [
        &[0, 0][..],
        &both32(block),
        &both32(size),
        &[126, 1, 1, 0, 0, 0, 0, flags, 0, 0],
        &both16(1),
        &[name.len() as u8],
        name,
        &[0][..(name.len() + 1) % 2],
        system_use,
    ];
    let mut record = head.concat();
    if record.len() % 2 == 1 {
        record.push(0);
    }
    record[0] = record.len() as u8;
    record
}

fn iso9660() -> Vec<u8> {
    let mut image = vec![0; BLOCKS * BLOCK];
    let mut put = |offset: usize, bytes: &[u8]| {
        image[offset..offset + bytes.len()].copy_from_slice(bytes);
    };
    let name = |text: &str| [&[b'N', b'M', 5 + text.len() as u8, 1, 0], text.as_bytes()].concat();
    let descriptor = DESCRIPTOR * BLOCK;
    put(descriptor, b"\x01CD001\x01");
    put(descriptor + 40, &[b' '; 32]);
    put(descriptor + 40, b"cidata");
    put(descriptor + 128, &both16(BLOCK as u16));
    put(descriptor + 156, &record(ROOT, BLOCK, 2, &[0], &[]));
    put(descriptor + BLOCK, b"\xffCD001\x01");
    let folder = [
        record(ROOT, BLOCK, 2, &[0], &[b'S', b'P', 7, 1, 0xBE, 0xEF, 0]),
        record(ROOT, BLOCK, 2, &[1], &[]),
        record(META_DATA, IDENTITY.len(), 0, b"META_DAT.;1", &name("meta-data")),
        record(USER_DATA, DOCUMENT.len(), 0, b"USER_DAT.;1", &name("user-data")),
    ];
    put(ROOT * BLOCK, &folder.concat());
    put(USER_DATA * BLOCK, DOCUMENT);
    put(META_DATA * BLOCK, IDENTITY);
    image
}

/// The two entries of a file with a name of nine characters.
fn entries(long: &str, short: &[u8; 11], cluster: u16, size: usize) -> Vec<u8> {
    let sum = short.iter().fold(0u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
    let mut units: Vec<u16> = long.encode_utf16().chain([0]).collect();
    units.resize(13, 0xFFFF);
    let units: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let long = [&[0x41][..], &units[..10], &[0x0F, 0, sum], &units[10..22], &[0, 0], &units[22..]];
    let place = [cluster.to_le_bytes(), (size as u16).to_le_bytes(), [0, 0]].concat();
    [long.concat(), [&short[..], &[0x20], &[0; 14], &place].concat()].concat()
}

fn fat() -> Vec<u8> {
    let mut image = vec![0; SECTORS * SECTOR];
    let mut put = |offset: usize, bytes: &[u8]| {
        image[offset..offset + bytes.len()].copy_from_slice(bytes);
    };
    // Bytes of a sector, sectors of a cluster, reserved ones, tables, entries of the root, sectors,
    // the medium, and sectors of a table.
    put(11, &[0, 2, 1, 1, 0, 1, 16, 0, SECTORS as u8, 0, 0xF8, 1, 0]);
    put(36, &[0x80, 0, 0x29, 1, 2, 3, 4]);
    put(43, b"CIDATA     ");
    put(510, &[0x55, 0xAA]);
    put(TABLE * SECTOR, &[0xF8, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
    let folder = [
        entries("user-data", b"USER-D~1   ", 2, DOCUMENT.len()),
        entries("meta-data", b"META-D~1   ", 3, IDENTITY.len()),
    ];
    put(FAT_ROOT * SECTOR, &folder.concat());
    put(FAT_DATA * SECTOR, DOCUMENT);
    put((FAT_DATA + 1) * SECTOR, IDENTITY);
    image
}

/// Offsets of the parts of both volumes.
fn regions() -> [usize; 7] {
    let fat = BLOCKS * BLOCK;
    let [table, root, data] = [TABLE, FAT_ROOT, FAT_DATA].map(|sector| fat + sector * SECTOR);
    [DESCRIPTOR * BLOCK, ROOT * BLOCK, USER_DATA * BLOCK, fat, table, root, data]
}

fn run(input: &[u8]) -> Outcome {
    let mut bytes = [iso9660(), fat()].concat();
    let size = bytes.len();
    for (start, change) in changes(input, &regions(), size) {
        bytes[start..start + change.len()].copy_from_slice(change);
    }
    let (iso9660, fat) = bytes.split_at(BLOCKS * BLOCK);
    let outcomes = [iso9660, fat].map(reads);
    assert!(!input.is_empty() || outcomes == [Outcome::Accepted; 2], "both volumes are valid");
    match outcomes.contains(&Outcome::Accepted) {
        true => Outcome::Accepted,
        false => Outcome::Refused,
    }
}

fn reads(image: &[u8]) -> Outcome {
    assert!(label(&mut Cursor::new(image)).is_none_or(|label| label.len() <= 32));
    if let Ok(mut volume) = Volume::open(Cursor::new(image)) {
        for path in ["user-data", "openstack/latest/user_data"] {
            if let Ok(Some(file)) = volume.file(path, 100) {
                assert!(file.len() <= 100);
            }
        }
    }
    let nobody = read(Cursor::new(image), &Trust::Signers(Vec::new()), None);
    assert!(!matches!(nobody, Ok(Some(_))), "no key has signed it");
    let found = read(Cursor::new(image), &Trust::Anyone, None);
    if let Ok(Some(found)) = &found {
        assert!(found.text.len() <= MAX_DECODED);
    }
    match found {
        Ok(Some(_)) => Outcome::Accepted,
        Ok(None) | Err(_) => Outcome::Refused,
    }
}

fn seeds() -> Vec<Vec<u8>> {
    vec![
        Vec::new(),
        // The names of ISO 9660 itself, another size of the root, a symbolic link, a name that
        // continues elsewhere, and a folder in the place of the file.
        change(1, 34, &[0; 7]),
        change(0, 156 + 10, &[0xFF; 8]),
        change(1, 34 + 7 + 34 + 46, b"SL\x05\x01\0"),
        change(
            1,
            34 + 7 + 34 + 46,
            &[&b"CE\x1c\x01"[..], &both32(20), &both32(0), &both32(9)].concat(),
        ),
        change(1, 34 + 7 + 34 + 56 + 25, &[2]),
        // FAT16, a chain that loops, a folder, and a config drive.
        change(3, 19, &[0, 0x80]),
        change(4, 3, &[2, 0]),
        change(5, 32 + 11, &[0x10]),
        [change(3, 43, b"CONFIG-2   "), change(0, 40, b"config-2")].concat(),
        // User data that is an envelope, compressed, or a message.
        change(2, 0, b"{\"payloadType\":\"\",\"payload\":\"\",\"signatures\":[]}"),
        change(2, 0, &[0x1F, 0x8B, 8, 0, 0, 0, 0, 0]),
        change(2, 0, b"MIME-Version: 1.0\n\n"),
    ]
}
