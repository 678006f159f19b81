//! Compares our attribute bits with `cgpt` in both directions, and checks our changes with sgdisk.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use osbuild_abi::disk::{SLOT_A, SLOT_B, SLOT_TYPE};
use osbuild_formats::gpt::{self, Geometry, Label, Partition, Table, Write, guid_from_name};
use osbuild_slots::{Mark, State, mark, slots};

const SIZE: u64 = 4 << 20;

/// Runs a tool and returns its output. The test fails if the tool fails or is missing; the message
/// names its Debian package.
fn tool(package: &str, command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}: install the Debian package `{package}`")
    });
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
    text
}

fn geometry() -> Geometry {
    Geometry::new(512, SIZE).unwrap()
}

fn apply(path: &Path, writes: &[Write]) {
    let mut disk = fs::read(path).unwrap();
    writes.iter().for_each(|write| {
        disk[write.offset as usize..][..write.bytes.len()].copy_from_slice(&write.bytes)
    });
    fs::write(path, disk).unwrap();
}

fn label(path: &Path) -> Label {
    Label::read(&mut File::open(path).unwrap(), geometry()).unwrap()
}

fn new_disk(path: &Path) {
    let slot = |number: u32, name: &str| Partition {
        number,
        type_guid: SLOT_TYPE.parse().unwrap(),
        guid: guid_from_name(name),
        first: u64::from(number) * 2048,
        last: u64::from(number) * 2048 + 2047,
        attributes: 0,
        name: name.to_owned(),
    };
    let table = Table {
        disk_guid: guid_from_name("disk"),
        partitions: vec![slot(1, SLOT_A), slot(2, SLOT_B)],
    };
    fs::write(path, vec![0; SIZE as usize]).unwrap();
    apply(path, &gpt::create(&table, geometry()).unwrap());
}

/// Changes a slot's state on the disk.
fn change(path: &Path, name: &str, change: Mark) {
    let label = label(path);
    apply(path, &label.change_to(&mark(label.table(), name, change).unwrap()).unwrap());
}

#[test]
fn cgpt_and_sgdisk_read_our_slot_bits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    new_disk(&path);
    let shown =
        |number: &str| tool("cgpt", Command::new("cgpt").args(["show", "-i", number]).arg(&path));
    for (mark, bits) in [
        (Mark::ForTry, "priority=2 tries=3 successful=0"),
        (Mark::Started, "priority=2 tries=2 successful=0"),
        (Mark::Good, "priority=2 tries=0 successful=1"),
    ] {
        change(&path, SLOT_A, mark);
        assert!(shown("1").contains(bits), "{}", shown("1"));
    }
    change(&path, SLOT_B, Mark::ForTry);
    assert!(shown("1").contains("priority=1 tries=0 successful=1"), "{}", shown("1"));
    change(&path, SLOT_B, Mark::Bad);
    assert!(shown("2").contains("priority=0 tries=0 successful=0"), "{}", shown("2"));
    let verified = tool("gdisk", Command::new("sgdisk").arg("-v").arg(&path));
    assert!(verified.contains("No problems found"), "{verified}");
}

#[test]
fn we_read_the_slot_bits_of_cgpt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    new_disk(&path);
    for (priority, tries, successful) in
        [(0, 0, false), (1, 2, false), (15, 15, true), (7, 0, true)]
    {
        let [p, t, s] = [priority, tries, u8::from(successful)].map(|number| number.to_string());
        tool(
            "cgpt",
            Command::new("cgpt").args(["add", "-i", "2", "-P", &p, "-T", &t, "-S", &s]).arg(&path),
        );
        let found =
            slots(label(&path).table()).into_iter().find(|slot| slot.name == SLOT_B).unwrap();
        assert_eq!(found.state, State { priority, tries, successful });
    }
}
