//! The partition table of a disk, as the node and `osbuild inspect` read it: repaired, grown and
//! changed, with a power cut in between.

use std::io::Cursor;
use std::sync::LazyLock;

use osbuild_formats::gpt::{
    self, Geometry, Health, Label, Partition, Table, Write, guid_from_name,
};

use crate::patch::{change, changes};
use crate::target::{Memory, Outcome, Target};

/// See the module. An input is one byte of flags, two bytes with the point of the power cut, and
/// changes to a valid disk.
pub const TARGET: Target = Target { name: "gpt", seeds, run, memory: Memory::per_byte(16) };

/// Sectors of 4096 bytes instead of 512.
const BIG_SECTORS: u8 = 1;
/// The disk has grown since its table was written.
const GROWN: u8 = 2;
/// After the changes the checksums of both copies are corrected.
const SEALED: u8 = 4;
/// The lowest of two bits that select the new table: the same, a grown one, one with other
/// attributes, an empty one.
const NEW_TABLE: u8 = 3;

/// Bytes of an array of entries.
const ARRAY: usize = 128 * 128;

static DISKS: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| [512, 4096].map(node_disk));

/// A disk with ESP, one slot and DATA of eight sectors each. Eight sectors separate them from the
/// tables.
fn node_disk(sector_size: u64) -> Vec<u8> {
    let first = 2 + ARRAY as u64 / sector_size + 8;
    let partition = |(index, name): (u64, &str)| Partition {
        number: index as u32 + 1,
        type_guid: guid_from_name("type"),
        guid: guid_from_name(name),
        first: first + 8 * index,
        last: first + 8 * index + 7,
        attributes: 0,
        name: name.to_owned(),
    };
    let partitions = (0..).zip(["ESP", "SLOT-A", "DATA"]).map(partition).collect();
    let sectors = 2 * (first - 1) + 24 + 1;
    let geometry =
        Geometry::new(sector_size, sectors * sector_size).expect("the disk is big enough");
    let mut disk = vec![0; (sectors * sector_size) as usize];
    let table = Table { disk_guid: guid_from_name("disk"), partitions };
    write(&mut disk, &gpt::create(&table, geometry).expect("the table is valid"));
    disk
}

fn write(disk: &mut [u8], writes: &[Write]) {
    for Write { offset, bytes } in writes {
        disk[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
}

fn run(input: &[u8]) -> Outcome {
    let Some(([flags, cut @ ..], patches)) = input.split_first_chunk::<3>() else {
        return Outcome::Refused;
    };
    let mut disk = Vec::new();
    allocation_counter::opt_out(|| disk = damaged(*flags, patches));
    let geometry =
        Geometry::new(sector_size(*flags), disk.len() as u64).expect("the disk is big enough");
    let Ok(label) = Label::read(&mut Cursor::new(&disk), geometry) else { return Outcome::Refused };
    let new = new_table(&label, flags >> NEW_TABLE);
    let Ok(writes) = label.change_to(&new) else { return Outcome::Refused };
    spare_partitions(&writes, label.table(), geometry);
    let mut after = disk.clone();
    write(&mut after, &writes);
    let again = sound(&after, geometry, &new);
    assert_eq!(
        again.change_to(&new).expect("it was written"),
        [],
        "a repaired disk needs no repair"
    );
    cut_short(disk, geometry, &writes, u16::from_le_bytes(*cut), label.table(), &new);
    Outcome::Accepted
}

fn sector_size(flags: u8) -> u64 {
    if flags & BIG_SECTORS != 0 { 4096 } else { 512 }
}

/// The disk after the changes of an input.
fn damaged(flags: u8, patches: &[u8]) -> Vec<u8> {
    let sector = sector_size(flags) as usize;
    let mut disk = DISKS[usize::from(flags & BIG_SECTORS)].clone();
    let end = disk.len();
    if flags & GROWN != 0 {
        disk.resize(end + 64 * sector, 0);
    }
    let backup = sector + ARRAY;
    let regions = [
        0,
        sector,
        2 * sector,
        end - backup,
        end - sector,
        disk.len() - backup,
        disk.len() - sector,
    ];
    let size = disk.len();
    for (start, bytes) in changes(patches, &regions, size) {
        disk[start..start + bytes.len()].copy_from_slice(bytes);
    }
    if flags & SEALED != 0 {
        for header in [sector, end - sector, size - sector] {
            seal(&mut disk, header, sector);
        }
    }
    disk
}

/// Corrects the checksums of the header at `start` and of its array (UEFI 2.10, 5.3.2).
fn seal(disk: &mut [u8], start: usize, sector: usize) {
    let array = disk[start + 72..]
        .first_chunk()
        .map(|sector| u64::from_le_bytes(*sector))
        .expect("a header is longer");
    let array = usize::try_from(array).ok().and_then(|array| array.checked_mul(sector));
    if let Some(array) = array.and_then(|array| disk.get(array..)?.get(..ARRAY)) {
        let sum = crc32fast::hash(array);
        disk[start + 88..start + 92].copy_from_slice(&sum.to_le_bytes());
    }
    disk[start + 16..start + 20].fill(0);
    let sum = crc32fast::hash(&disk[start..start + 92]);
    disk[start + 16..start + 20].copy_from_slice(&sum.to_le_bytes());
}

/// The table that the flags select.
fn new_table(label: &Label, selected: u8) -> Table {
    let mut new = label.table().clone();
    match selected % 4 {
        1 => {
            if let Ok((grown, _)) = label.grow(4096) {
                let sizes =
                    |table: &Table| table.partitions.iter().map(Partition::sectors).sum::<u64>();
                assert!(sizes(&grown) >= sizes(&new), "growing never shrinks");
                new = grown;
            }
        }
        2 => new.partitions.iter_mut().for_each(|partition| partition.attributes ^= 1 << 56),
        3 => new.partitions.clear(),
        _ => {}
    }
    new
}

/// No write touches the content of a partition.
fn spare_partitions(writes: &[Write], table: &Table, geometry: Geometry) {
    for write in writes {
        let (first, last) = (write.offset, write.offset + write.bytes.len() as u64 - 1);
        assert!(last / geometry.sector_size() <= geometry.last(), "a write ends within the disk");
        for partition in &table.partitions {
            let [start, end] =
                [partition.first, partition.last + 1].map(|sector| sector * geometry.sector_size());
            assert!(
                last < start || end <= first,
                "a write to {first}..={last} is in partition {}",
                partition.number
            );
        }
    }
}

/// The disk's label, which must have two valid copies of `table`.
fn sound(disk: &[u8], geometry: Geometry, table: &Table) -> Label {
    let label =
        Label::read(&mut Cursor::new(disk), geometry).expect("a repaired table can be read");
    assert_eq!((label.table(), label.health()), (table, Health::Sound));
    label
}

/// Executes a part of the writes: the table is then the old or the new one, and the rest of the
/// change can be written.
fn cut_short(
    mut disk: Vec<u8>,
    geometry: Geometry,
    writes: &[Write],
    cut: u16,
    old: &Table,
    new: &Table,
) {
    let total: usize = writes.iter().map(|write| write.bytes.len()).sum();
    let mut left = total * usize::from(cut) / usize::from(u16::MAX);
    for Write { offset, bytes } in writes {
        let done = left.min(bytes.len());
        write(&mut disk, &[Write { offset: *offset, bytes: bytes[..done].to_vec() }]);
        left -= done;
    }
    let label =
        Label::read(&mut Cursor::new(&disk), geometry).expect("at any time one copy is good");
    assert!(
        [old, new].contains(&label.table()),
        "{:?} is neither\n{old:?} nor\n{new:?}",
        label.table()
    );
    write(&mut disk, &label.change_to(new).expect("the table was accepted before"));
    sound(&disk, geometry, new);
}

fn seeds() -> Vec<Vec<u8>> {
    let seed = |flags: u8, patches: &[Vec<u8>]| [vec![flags, 0, 0x80], patches.concat()].concat();
    let mut seeds = Vec::new();
    for flags in 0..4 << NEW_TABLE {
        seeds.push(seed(flags, &[]));
    }
    for flags in [0, BIG_SECTORS, GROWN, SEALED, SEALED | GROWN, SEALED | BIG_SECTORS | GROWN] {
        // The signature, a checksum and the offset of the array in each header, an entry's name,
        // and the MBR's record.
        for (region, offset) in
            [(1, 0), (4, 0), (1, 16), (4, 16), (1, 72), (4, 72), (2, 56), (3, 56), (0, 450)]
        {
            seeds.push(seed(flags | 1 << NEW_TABLE, &[change(region, offset, &[40, 0])]));
        }
        seeds.push(seed(
            flags | 2 << NEW_TABLE,
            &[change(1, 24, &[0; 68]), change(4, 24, &[1; 68])],
        ));
    }
    seeds
}
