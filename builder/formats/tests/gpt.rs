//! The partition table against sgdisk, sfdisk, cgpt and the crate `gpt`, and against power cuts and
//! flipped bits.

mod support;

use std::io::Cursor;
use std::process::Command;

use osbuild_formats::gpt::{self, Geometry, Health, Label, Partition, Table, Write};
use proptest::prelude::*;
use support::tool;
use uuid::Uuid;

const MIB: u64 = 1 << 20;
const ESP_TYPE: &str = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B";
const SLOT_TYPE: &str = "FE3A2A5D-4F32-41A7-B725-ACCC3285A309";
const DATA_TYPE: &str = "0FC63DAF-8483-4772-8E79-3D69D8477DE4";

/// Makes a table like a node's: ESP, one slot, DATA, each of one MiB.
fn node_table(sector_size: u64) -> Table {
    let mib = MIB / sector_size;
    let partition = |number: u32, type_guid: &str, name: &str, attributes: u64| Partition {
        number,
        type_guid: type_guid.parse().unwrap(),
        guid: gpt::guid_from_name(name),
        first: u64::from(number) * mib,
        last: (u64::from(number) + 1) * mib - 1,
        attributes,
        name: name.to_owned(),
    };
    let slot = 1 << 56 | 2 << 52 | 3 << 48;
    let partitions = vec![
        partition(1, ESP_TYPE, "ESP", 0),
        partition(2, SLOT_TYPE, "SLOT-A", slot),
        partition(3, DATA_TYPE, "DATA", 0),
    ];
    Table { disk_guid: gpt::guid_from_name("disk"), partitions }
}

fn apply(disk: &mut [u8], write: &Write) {
    let start = write.offset as usize;
    disk[start..start + write.bytes.len()].copy_from_slice(&write.bytes);
}

/// Makes a disk of `mib` MiB with the node's table.
fn node_disk(sector_size: u64, mib: u64) -> (Vec<u8>, Geometry) {
    let geometry = Geometry::new(sector_size, mib * MIB).unwrap();
    let mut disk = vec![0; (mib * MIB) as usize];
    for write in gpt::create(&node_table(sector_size), geometry).unwrap() {
        apply(&mut disk, &write);
    }
    (disk, geometry)
}

fn read(disk: &[u8], geometry: Geometry) -> Result<Label, gpt::Error> {
    Label::read(&mut Cursor::new(disk), geometry)
}

#[test]
fn a_written_table_reads_back_in_both_sector_sizes() {
    for sector_size in [512, 4096] {
        let (disk, geometry) = node_disk(sector_size, 6);
        let label = read(&disk, geometry).unwrap();
        assert_eq!(label.table(), &node_table(sector_size));
        assert_eq!(label.health(), Health::Sound);
        assert_eq!(label.change_to(label.table()).unwrap(), []);
    }
}

#[test]
fn the_crate_gpt_reads_our_table() {
    for (sector_size, block) in
        [(512, ::gpt::disk::LogicalBlockSize::Lb512), (4096, ::gpt::disk::LogicalBlockSize::Lb4096)]
    {
        let (disk, _) = node_disk(sector_size, 6);
        let config = ::gpt::GptConfig::new().writable(false).logical_block_size(block);
        let theirs = config.open_from_device(Cursor::new(disk)).unwrap();
        assert_eq!(*theirs.guid(), node_table(sector_size).disk_guid);
        assert_eq!(
            theirs.primary_header().unwrap().disk_guid,
            theirs.backup_header().unwrap().disk_guid
        );
        for ours in node_table(sector_size).partitions {
            let theirs = &theirs.partitions()[&ours.number];
            assert_eq!((theirs.part_type_guid.guid, theirs.part_guid), (ours.type_guid, ours.guid));
            assert_eq!(
                (theirs.first_lba, theirs.last_lba, theirs.flags),
                (ours.first, ours.last, ours.attributes)
            );
            assert_eq!(theirs.name, ours.name);
        }
    }
}

#[test]
fn sgdisk_sfdisk_and_cgpt_accept_the_table_before_and_after_growth() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let (mut disk, _) = node_disk(512, 6);
    for mib in [6, 300] {
        disk.resize((mib * MIB) as usize, 0);
        let label = read(&disk, Geometry::new(512, mib * MIB).unwrap()).unwrap();
        label.grow(MIB).unwrap().1.iter().for_each(|write| apply(&mut disk, write));
        std::fs::write(&path, &disk).unwrap();
        let verified = tool("gdisk", Command::new("sgdisk").arg("-v").arg(&path));
        assert!(
            verified.contains("No problems found") && !verified.contains("Caution"),
            "{verified}"
        );
        tool("fdisk", Command::new("sfdisk").arg("--verify").arg(&path));
        let json = tool("fdisk", Command::new("sfdisk").arg("--json").arg(&path));
        assert!(json.contains(&format!("\"size\": {}", (mib - 4) * MIB / 512)), "{json}");
        let shown = tool("cgpt", Command::new("cgpt").args(["show", "-i", "2"]).arg(&path));
        assert!(shown.contains("priority=3 tries=2 successful=1"), "{shown}");
        assert!(!shown.contains("INVALID"), "{shown}");
    }
}

#[test]
fn sfdisk_reads_the_names_types_and_identifiers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let (disk, _) = node_disk(512, 6);
    std::fs::write(&path, &disk).unwrap();
    let json = tool("fdisk", Command::new("sfdisk").arg("--json").arg(&path));
    let table = node_table(512);
    assert!(json.contains(&table.disk_guid.to_string().to_uppercase()), "{json}");
    for partition in &table.partitions {
        for text in
            [partition.type_guid, partition.guid].map(|guid| guid.to_string().to_uppercase())
        {
            assert!(json.contains(&text), "{text} in {json}");
        }
        assert!(json.contains(&format!("\"name\": \"{}\"", partition.name)), "{json}");
    }
}

#[test]
fn a_table_of_sgdisk_reads_and_writes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    std::fs::write(&path, vec![0; 8 << 20]).unwrap();
    let mut sgdisk = Command::new("sgdisk");
    sgdisk.args([
        "-n",
        "1:2048:4095",
        "-c",
        "1:first",
        "-n",
        "5:6144:8191",
        "-c",
        "5:größer",
        "-t",
        "5:fe00",
        "-A",
        "5:set:56",
    ]);
    tool("gdisk", sgdisk.arg(&path));
    let disk = std::fs::read(&path).unwrap();
    let label = read(&disk, Geometry::new(512, 8 << 20).unwrap()).unwrap();
    assert_eq!(label.health(), Health::Sound);
    let seen: Vec<_> = label
        .table()
        .partitions
        .iter()
        .map(|p| (p.number, &*p.name, p.first, p.last, p.attributes))
        .collect();
    assert_eq!(seen, [(1, "first", 2048, 4095, 0), (5, "größer", 6144, 8191, 1 << 56)]);
    assert_eq!(label.change_to(label.table()).unwrap(), []);
}

#[test]
fn growing_covers_256_mib_to_1_tib() {
    for mib in [256, 1 << 10, 64 << 10, 1 << 20] {
        let size = mib * MIB;
        let (disk, _) = node_disk(512, 6);
        let geometry = Geometry::new(512, size).unwrap();
        let mut disk = Sparse { start: disk, size, end: vec![0; MIB as usize], position: 0 };
        let label = Label::read(&mut disk, geometry).unwrap();
        assert_eq!(label.health(), Health::BackupBroken);
        let (table, writes) = label.grow(MIB).unwrap();
        assert_eq!(table.last().unwrap().last, (size - MIB) / 512 - 1);
        for write in &writes {
            disk.apply(write);
        }
        let label = Label::read(&mut disk, geometry).unwrap();
        assert_eq!((label.table(), label.health()), (&table, Health::Sound));
        assert_eq!(label.grow(MIB).unwrap().1, []);
    }
}

/// A large disk with data in its first 6 MiB and its last MiB only.
struct Sparse {
    start: Vec<u8>,
    end: Vec<u8>,
    size: u64,
    position: u64,
}

impl Sparse {
    fn apply(&mut self, write: &Write) {
        let tail = self.size - self.end.len() as u64;
        match write.offset.checked_sub(tail) {
            Some(offset) => apply(&mut self.end, &Write { offset, bytes: write.bytes.clone() }),
            None => apply(&mut self.start, write),
        }
    }
}

impl std::io::Read for Sparse {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let tail = self.size - self.end.len() as u64;
        let mut bytes = match self.position.checked_sub(tail) {
            Some(offset) => &self.end[offset as usize..],
            None => &self.start[self.position as usize..],
        };
        let count = bytes.read(buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl std::io::Seek for Sparse {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        let std::io::SeekFrom::Start(position) = to else {
            panic!("the reader seeks from the start")
        };
        self.position = position;
        Ok(position)
    }
}

#[test]
fn invalid_tables_are_refused() {
    let geometry = Geometry::new(512, 6 * MIB).unwrap();
    let refused = |change: &dyn Fn(&mut Table)| {
        let mut table = node_table(512);
        change(&mut table);
        gpt::create(&table, geometry).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&|t| t.partitions[1].first = t.partitions[0].last),
        "partitions `1` and `2` overlap"
    );
    assert!(
        refused(&|t| t.partitions[2].last = geometry.last_usable() + 1)
            .starts_with("partition `3` is not within")
    );
    assert!(
        refused(&|t| t.partitions[0].first = geometry.first_usable() - 1)
            .starts_with("partition `1` is not within")
    );
    assert!(
        refused(&|t| t.partitions[0].name = "n".repeat(37))
            .starts_with("the name of partition `1`")
    );
    assert!(
        refused(&|t| t.partitions[1].number = 1)
            .starts_with("partition `1` is unused, out of order")
    );
    assert!(refused(&|t| t.partitions[2].number = 129).starts_with("partition `129` is unused"));
    assert_eq!(
        Geometry::new(520, MIB).unwrap_err().to_string(),
        "a sector of `520` bytes is neither 512 nor 4096"
    );
    assert!(matches!(Geometry::new(512, 67 * 512), Err(gpt::Error::DiskTooSmall(_))));
}

#[test]
fn boot_code_and_a_hybrid_mbr_stay() {
    let (mut disk, geometry) = node_disk(512, 6);
    disk[..440].fill(0x90);
    disk[446 + 12..446 + 16].fill(0);
    let writes = read(&disk, geometry).unwrap().grow(MIB).unwrap().1;
    let mbr = writes.last().unwrap();
    assert_eq!((mbr.offset, &mbr.bytes[..440]), (0, &[0x90; 440][..]));
    assert_eq!(mbr.bytes[446 + 12..446 + 16], (6 * MIB as u32 / 512 - 1).to_le_bytes());
    disk[462 + 4] = 0x0C;
    assert!(
        read(&disk, geometry).unwrap().grow(MIB).unwrap().1.iter().all(|write| write.offset != 0)
    );
}

#[test]
fn is_as_created_notices_other_bytes_and_accepts_a_table_of_sgdisk() {
    let folder = tempfile::tempdir().unwrap();
    for sector_size in [512, 4096] {
        let (disk, geometry) = node_disk(sector_size, 6);
        let is_alone = |disk: &[u8]| {
            let table = read(disk, geometry).unwrap().table().clone();
            gpt::is_as_created(&mut Cursor::new(disk), &table, geometry).unwrap()
        };
        assert!(is_alone(&disk));
        let (size, end) = (sector_size as usize, disk.len());
        // Boot code, an MBR's partition instead of the protective one and beside it, and the bytes
        // after a header, in the first copy and in the second.
        for place in [0, 446 + 4, 462 + 4, size + 100, end - size + 100] {
            let mut changed = disk.clone();
            changed[place] = 0xEF;
            assert!(!is_alone(&changed), "byte {place}");
        }
    }
    let path = folder.path().join("disk");
    let (disk, geometry) = node_disk(512, 6);
    std::fs::write(&path, disk).unwrap();
    let guid = "6F8B1C7A-3C1E-4B57-9D0E-2F6D2F3E4A5B";
    tool(
        "gdisk",
        Command::new("sgdisk").args(["--disk-guid", guid, "--change-name", "3:OTHER"]).arg(&path),
    );
    let disk = std::fs::read(&path).unwrap();
    let table = read(&disk, geometry).unwrap().table().clone();
    assert_eq!(table.disk_guid, guid.parse::<Uuid>().unwrap());
    assert!(gpt::is_as_created(&mut Cursor::new(disk), &table, geometry).unwrap());
}

#[test]
fn identifiers_made_from_names_never_change() {
    assert_eq!(gpt::guid_from_name("ESP").to_string(), "2ee3291e-c21f-5379-9c9b-cf060d4b53d5");
    assert_ne!(gpt::guid_from_name("ESP"), gpt::guid_from_name("DATA"));
}

/// Makes `writes` up to a cut, after `bytes` bytes of them, and checks that the table is `old` or
/// `new` and that the change can be completed.
fn survives_a_cut(
    disk: &[u8],
    geometry: Geometry,
    writes: &[Write],
    bytes: usize,
    old: &Table,
    new: &Table,
) {
    let mut disk = disk.to_vec();
    let mut left = bytes;
    for write in writes {
        let done = left.min(write.bytes.len());
        apply(&mut disk, &Write { offset: write.offset, bytes: write.bytes[..done].to_vec() });
        left -= done;
    }
    let label =
        read(&disk, geometry).unwrap_or_else(|error| panic!("after {bytes} bytes: {error}"));
    assert!([old, new].contains(&label.table()), "after {bytes} bytes: {:?}", label.table());
    for write in label.change_to(new).unwrap() {
        apply(&mut disk, &write);
    }
    let label = read(&disk, geometry).unwrap();
    assert_eq!((label.table(), label.health()), (new, Health::Sound), "after {bytes} bytes");
}

fn arbitrary_table(sector_size: u64, mib: u64) -> impl Strategy<Value = Table> {
    let one = (any::<u128>(), 1..=u128::MAX, any::<u64>(), "[ -~äß😀]{0,18}", 1..32u32);
    (any::<u128>(), prop::collection::vec(one, 0..4)).prop_map(move |(disk, ones)| {
        let unit = (mib - 2) * MIB / sector_size / 4;
        let mut number = 0;
        let partitions = ones.into_iter().enumerate().map(
            |(index, (guid, type_guid, attributes, name, step))| {
                number += step;
                let first = MIB / sector_size + index as u64 * unit;
                let (guid, type_guid) = (Uuid::from_u128(guid), Uuid::from_u128(type_guid));
                Partition {
                    number,
                    type_guid,
                    guid,
                    first,
                    last: first + unit - 1,
                    attributes,
                    name,
                }
            },
        );
        Table { disk_guid: Uuid::from_u128(disk), partitions: partitions.collect() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn write_then_read_is_identity(
        table in arbitrary_table(4096, 6),
        other in arbitrary_table(4096, 6),
    ) {
        let geometry = Geometry::new(4096, 6 * MIB).unwrap();
        let mut disk = vec![0; (6 * MIB) as usize];
        gpt::create(&table, geometry).unwrap().iter().for_each(|write| apply(&mut disk, write));
        let label = read(&disk, geometry).unwrap();
        prop_assert_eq!(label.table(), &table);
        label.change_to(&other).unwrap().iter().for_each(|write| apply(&mut disk, write));
        let label = read(&disk, geometry).unwrap();
        prop_assert_eq!((label.table(), label.health()), (&other, Health::Sound));
    }

    #[test]
    fn two_flipped_bits_in_both_copies_never_give_another_table(
        front in meaningful_bit(),
        end in meaningful_bit(),
    ) {
        let (mut disk, geometry) = node_disk(512, 5);
        flip(&mut disk, front);
        let mirrored = mirror(&disk, end);
        flip(&mut disk, mirrored);
        if let Ok(label) = read(&disk, geometry) {
            prop_assert_eq!(label.table(), &node_table(512));
        }
    }

    #[test]
    fn a_cut_while_growing_leaves_the_old_or_the_new_table(
        sector_size in prop::sample::select(vec![512u64, 4096]),
        grown in 1..70 * 512u64,
        cut in 0.0..1.0f64,
    ) {
        let (mut disk, geometry) = node_disk(sector_size, 5);
        let size = 5 * MIB + grown.next_multiple_of(sector_size) + [0, 2 * MIB][grown as usize % 2];
        let old = read(&disk, geometry).unwrap().table().clone();
        disk.resize(size as usize, 0);
        let geometry = Geometry::new(sector_size, size).unwrap();
        let (new, writes) = read(&disk, geometry).unwrap().grow(sector_size).unwrap();
        prop_assert_ne!(&old, &new);
        let total: usize = writes.iter().map(|write| write.bytes.len()).sum();
        survives_a_cut(&disk, geometry, &writes, (total as f64 * cut) as usize, &old, &new);
    }

    #[test]
    fn a_cut_while_a_broken_copy_is_replaced_is_harmless(
        broken in 0..4usize,
        grown in 0..2u64,
        cut in 0.0..1.0f64,
    ) {
        let (mut disk, _) = node_disk(512, 6);
        let (front, end) = (512, disk.len());
        disk[[front, 1024, end - 512, end - 33 * 512][broken]] ^= 1;
        // When only the header of a displaced backup is left, only the valid primary header locates
        // it.
        disk.resize(disk.len() + if broken == 0 { 0 } else { 7 * 512 * grown as usize }, 0);
        let geometry = Geometry::new(512, disk.len() as u64).unwrap();
        let label = read(&disk, geometry).unwrap();
        let old = label.table().clone();
        let mut new = old.clone();
        new.partitions[1].attributes ^= 1 << 56;
        let writes = label.change_to(&new).unwrap();
        let total: usize = writes.iter().map(|write| write.bytes.len()).sum();
        survives_a_cut(&disk, geometry, &writes, (total as f64 * cut) as usize, &old, &new);
    }

    #[test]
    fn random_sectors_never_panic(
        mut sectors in prop::collection::vec(any::<u8>(), 70 * 512),
        signed in any::<bool>(),
    ) {
        if signed {
            sectors[512..520].copy_from_slice(b"EFI PART");
            let end = sectors.len() - 512;
            sectors[end..end + 8].copy_from_slice(b"EFI PART");
        }
        let geometry = Geometry::new(512, sectors.len() as u64).unwrap();
        let _ = read(&sectors, geometry);
    }

    #[test]
    fn a_header_with_a_good_checksum_and_wild_fields_never_panics(
        offset in prop::sample::select(vec![24usize, 32, 40, 48, 72, 80, 84]),
        value in any::<u64>(),
        front in any::<bool>(),
    ) {
        let (mut disk, geometry) = node_disk(512, 6);
        let start = if front { 512 } else { disk.len() - 512 };
        let header = &mut disk[start..start + 92];
        let length = if offset >= 80 { 4 } else { 8 };
        header[offset..offset + length].copy_from_slice(&value.to_le_bytes()[..length]);
        header[16..20].fill(0);
        let crc = crc32fast::hash(header);
        header[16..20].copy_from_slice(&crc.to_le_bytes());
        let label = read(&disk, geometry).unwrap();
        let _ = label.grow(MIB);
        prop_assert_eq!(label.table(), &node_table(512));
    }
}

/// Moves the entries of the header in this sector to sector `array`, changes its usable sectors,
/// and corrects its checksum.
fn move_entries(disk: &mut [u8], header: u64, array: u64, usable: [u64; 2]) {
    let header = &mut disk[header as usize * 512..][..92];
    for (offset, sector) in [(40, usable[0]), (48, usable[1]), (72, array)] {
        header[offset..offset + 8].copy_from_slice(&sector.to_le_bytes());
    }
    header[16..20].fill(0);
    let sum = crc32fast::hash(header);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_copy_whose_entries_are_in_the_other_copys_place_is_refused() {
    let (mut sound, geometry) = node_disk(512, 5);
    let table = Table { partitions: Vec::new(), ..node_table(512) };
    read(&sound, geometry)
        .unwrap()
        .change_to(&table)
        .unwrap()
        .iter()
        .for_each(|write| apply(&mut sound, write));
    let (first, last) = (1, geometry.last());
    for (own, other, array) in [(first, last, geometry.last_usable() + 1), (last, first, 2)] {
        for usable in [[geometry.first_usable(), geometry.last_usable()], [last, 0]] {
            let mut disk = sound.clone();
            move_entries(&mut disk, own, array, usable);
            let label = read(&disk, geometry).unwrap();
            assert_eq!(label.table(), &table);
            assert_ne!(label.health(), Health::Sound);
            disk[other as usize * 512] ^= 1;
            assert!(
                read(&disk, geometry).is_err(),
                "a repair would destroy it before another exists"
            );
        }
    }
}

#[test]
fn entries_after_a_gap_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    std::fs::write(&path, vec![0; 8 << 20]).unwrap();
    tool("gdisk", Command::new("sgdisk").args(["-n", "1:2048:4095", "-j", "512"]).arg(&path));
    let mut disk = std::fs::read(&path).unwrap();
    let geometry = Geometry::new(512, 8 << 20).unwrap();
    let label = read(&disk, geometry).unwrap();
    assert_eq!(label.health(), Health::Sound);
    disk[geometry.last() as usize * 512] ^= 1;
    assert_eq!(read(&disk, geometry).unwrap().table(), label.table());
}

/// Flips a bit of the disk, counted from its start.
fn flip(disk: &mut [u8], bit: usize) {
    disk[bit / 8] ^= 1 << (bit % 8);
}

/// Selects a bit with a meaning: of the header in the second sector, or of the three entries after
/// it.
fn meaningful_bit() -> impl Strategy<Value = usize> {
    prop_oneof![512 * 8..(512 + 92) * 8usize, 1024 * 8..(1024 + 3 * 128) * 8usize]
}

/// Returns the bit of the backup that corresponds to a bit of the primary.
fn mirror(disk: &[u8], bit: usize) -> usize {
    let end = disk.len() * 8;
    if bit < 1024 * 8 { end - 1024 * 8 + bit } else { end - (33 + 2) * 512 * 8 + bit }
}

#[test]
fn gpt_with_any_flipped_bit_is_refused_or_repaired() {
    let (mut disk, geometry) = node_disk(512, 5);
    let sound = disk.clone();
    for byte in (446 + 12..462)
        .chain(510..512 + 92)
        .chain(1024..1024 + 3 * 128)
        .chain((1408..34 * 512).step_by(61))
    {
        // Only some of the array's zeros, because trying all takes long.
        let bits = if byte < 1024 + 3 * 128 { 0..8 } else { byte % 8..byte % 8 + 1 };
        for bit in bits.map(|bit| byte * 8 + bit) {
            for bit in [bit, mirror(&disk, bit)] {
                flip(&mut disk, bit);
                let label = read(&disk, geometry).unwrap();
                assert_eq!(label.table(), &node_table(512), "bit {bit}");
                let repaired = label.change_to(label.table()).unwrap();
                repaired.iter().for_each(|write| apply(&mut disk, write));
                let (front, end) = (..34 * 512, disk.len() - 33 * 512..);
                assert!(
                    disk[front] == sound[front] && disk[end.clone()] == sound[end],
                    "bit {bit}"
                );
            }
        }
    }
}

#[test]
fn a_cut_anywhere_in_each_write_of_a_growth_is_harmless() {
    let (mut disk, geometry) = node_disk(512, 5);
    let old = read(&disk, geometry).unwrap().table().clone();
    disk.resize(6 << 20, 0);
    let geometry = Geometry::new(512, 6 << 20).unwrap();
    let (new, writes) = read(&disk, geometry).unwrap().grow(MIB).unwrap();
    let mut before = 0;
    for write in &writes {
        let length = write.bytes.len();
        // Within a header's fields too.
        for cut in [0, 1, 16, 20, 33, 41, 56, 73, 91, 92, 130, 300, length / 2, length - 1] {
            survives_a_cut(&disk, geometry, &writes, before + cut, &old, &new);
        }
        before += length;
    }
    survives_a_cut(&disk, geometry, &writes, before, &old, &new);
}
