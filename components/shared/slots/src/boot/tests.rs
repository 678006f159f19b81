use super::*;
use crate::State;
use osbuild_abi::disk::{SLOT_A, SLOT_B, SLOT_TYPE};
use osbuild_abi::slot::EPOCH_SECTION;
use osbuild_abi::slot::UPDATE_TRIES;
use osbuild_formats::gpt::{Partition, Table, guid_from_name};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const GOOD: State = State { priority: 1, tries: 0, successful: true };
const TRIAL: State = State { priority: 2, tries: UPDATE_TRIES, successful: false };

/// A machine in memory, whose power can be cut. Starting always succeeds, except for the slots in
/// `refuses`.
struct Model {
    disk: Vec<u8>,
    geometry: Geometry,
    verifies: bool,
    refuses: Vec<&'static str>,
    /// The size of its memory in bytes.
    memory: usize,
    /// Bytes that can still be written before the power is cut.
    power: usize,
    /// Whether the disk keeps written data.
    keeps: bool,
    /// The minimum security epoch, and whether the firmware lets it be written.
    floor: u32,
    keeps_floor: bool,
    printed: Vec<String>,
    started: Option<(BootReport, Vec<u8>)>,
}

impl Source for Model {
    type Error = &'static str;

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), &'static str> {
        assert_eq!(
            (
                offset % self.geometry.sector_size(),
                bytes.len() as u64 % self.geometry.sector_size()
            ),
            (0, 0)
        );
        let from = self
            .disk
            .get(offset as usize..)
            .and_then(|rest| rest.get(..bytes.len()))
            .ok_or("past the end")?;
        bytes.copy_from_slice(from);
        Ok(())
    }
}

impl Machine for Model {
    type Memory = Vec<u8>;
    type Image = Vec<u8>;

    fn memory(&mut self, size: usize) -> Option<Vec<u8>> {
        (size <= self.memory).then(|| vec![0xA5; size])
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn write(&mut self, write: &Write) -> Result<(), &'static str> {
        let length = if self.started.is_some() { 0 } else { write.bytes.len().min(self.power) };
        self.power -= length;
        if !self.keeps {
            return Ok(());
        }
        self.disk[write.offset as usize..][..length].copy_from_slice(&write.bytes[..length]);
        if length == write.bytes.len() { Ok(()) } else { Err("the power is cut") }
    }

    fn verifies(&self) -> bool {
        self.verifies
    }

    fn sha256(&mut self, bytes: &[u8]) -> [u8; 32] {
        digest(bytes)
    }

    fn print(&mut self, line: &str) {
        self.printed.push(line.to_string());
    }

    fn load(&mut self, slot: &Slot, uki: &[u8]) -> Result<Vec<u8>, String> {
        if self.refuses.contains(&slot.name) {
            Err("the firmware refuses it".to_string())
        } else {
            Ok(uki.to_vec())
        }
    }

    fn unload(&mut self, _: Vec<u8>) {}

    fn floor(&mut self) -> u32 {
        self.floor
    }

    fn raise_floor(&mut self, epoch: u32) -> Result<(), String> {
        if self.started.is_none() && self.keeps_floor {
            self.floor = epoch;
        }
        if self.keeps_floor { Ok(()) } else { Err("there is no room".to_string()) }
    }

    fn start(&mut self, _: &Slot, _: &Header, uki: Vec<u8>, report: &BootReport) -> String {
        self.started.get_or_insert((report.clone(), uki));
        "started".to_string()
    }
}

/// Replaces SHA-256, which slotboot supplies.
fn digest(bytes: &[u8]) -> [u8; 32] {
    let sum = crc32fast::hash(bytes).to_le_bytes();
    core::array::from_fn(|index| sum[index % 4])
}

/// Makes an image of one section, followed by text.
fn uki(name: &str, epoch: u32) -> Vec<u8> {
    let number = epoch.to_string();
    let mut bytes = vec![0; 512];
    let mut put =
        |offset: usize, field: &[u8]| bytes[offset..offset + field.len()].copy_from_slice(field);
    put(0, b"MZ");
    put(0x3C, &[0x40]);
    put(0x40, b"PE\0\0\x64\x86\x01\0");
    // The size of the optional header, its magic number, and the number of data directories.
    put(0x54, &[240]);
    put(0x58, &[0x0B, 2]);
    put(0x58 + 108, &[16]);
    let size = (number.len() as u32).to_le_bytes();
    put(0x148, EPOCH_SECTION.as_bytes());
    put(0x150, &size);
    put(0x158, &size);
    put(0x15C, &[0x80, 1]);
    put(0x180, number.as_bytes());
    bytes.extend(format!("the UKI of {name} ").repeat(100).into_bytes());
    bytes
}

/// Makes a disk of 5 MiB with two valid slots.
fn model(sector_size: u64, a: State, b: State) -> Model {
    let geometry = Geometry::new(sector_size, 5 * MIB).unwrap();
    let slot = |number: u32, name: &str, state: State| Partition {
        number,
        type_guid: SLOT_TYPE.parse().unwrap(),
        guid: guid_from_name(name),
        first: u64::from(number) * MIB / sector_size,
        last: (u64::from(number) + 1) * MIB / sector_size - 1,
        attributes: state.write(0),
        name: name.to_string(),
    };
    let table = Table {
        disk_guid: guid_from_name("disk"),
        partitions: vec![slot(1, SLOT_A, a), slot(2, SLOT_B, b)],
    };
    let mut disk = vec![0; 5 * MIB as usize];
    let mut put =
        |offset: u64, bytes: &[u8]| disk[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    gpt::create(&table, geometry).unwrap().iter().for_each(|write| put(write.offset, &write.bytes));
    for (name, start) in [(SLOT_A, MIB), (SLOT_B, 2 * MIB)] {
        slot_of(start, &uki(name, 1)).iter().for_each(|(offset, bytes)| put(*offset, bytes));
    }
    let (printed, started, refuses, floor) = Default::default();
    let (memory, power) = (usize::MAX, usize::MAX);
    Model {
        disk,
        geometry,
        verifies: false,
        refuses,
        memory,
        power,
        keeps: true,
        floor,
        keeps_floor: true,
        printed,
        started,
    }
}

/// Returns the header and the UKI of a slot that starts there.
fn slot_of(start: u64, uki: &[u8]) -> [(u64, Vec<u8>); 2] {
    let header = Header { length: uki.len() as u64, sha256: digest(uki), version: "1".to_string() };
    [(start, header.encode().unwrap()), (start + HEADER_SIZE, uki.to_vec())]
}

impl Model {
    /// Boots, and returns the name of the started slot.
    fn boots(&mut self) -> Option<&'static str> {
        self.started = None;
        self.power = usize::MAX;
        boot(self);
        let (booted, bytes) = self.started.as_ref()?;
        assert!(self.verifies || *bytes == uki(booted.slot, 1));
        assert_eq!(booted.disk, guid_from_name("disk"));
        Some(booted.slot)
    }

    fn label(&mut self) -> Label {
        let geometry = self.geometry;
        Label::read(self, geometry).unwrap()
    }

    fn state(&mut self, name: &str) -> State {
        slots(self.label().table()).into_iter().find(|slot| slot.name == name).unwrap().state
    }

    fn why(&self) -> &str {
        &self.started.as_ref().unwrap().0.text
    }

    fn passed(&self) -> Option<PassReason> {
        self.started.as_ref().unwrap().0.passed
    }

    /// Gives both slots UKIs of these epochs, on a machine with Secure Boot.
    fn of_epochs(mut self, a: u32, b: u32) -> Model {
        for (name, start, epoch) in [(SLOT_A, MIB, a), (SLOT_B, 2 * MIB, b)] {
            for (offset, bytes) in slot_of(start, &uki(name, epoch)) {
                self.disk[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
        }
        self.verifies = true;
        self
    }

    fn flip(&mut self, byte: u64) {
        self.disk[byte as usize] ^= 1;
    }
}

#[test]
fn a_good_slot_starts_without_a_write() {
    let mut machine = model(512, GOOD, State::EMPTY);
    let before = machine.disk.clone();
    assert_eq!(machine.boots(), Some(SLOT_A));
    assert_eq!((machine.why(), machine.disk == before), ("good", true));
}

#[test]
fn an_update_is_tried_three_times_and_then_the_old_slot_boots() {
    let mut machine = model(4096, GOOD, TRIAL);
    for left in ["2", "1", "0"] {
        assert_eq!(machine.boots(), Some(SLOT_B));
        assert_eq!(machine.why(), format!("on trial, tries left: {left}"));
        assert_eq!(machine.passed(), None);
    }
    for _ in 0..3 {
        assert_eq!(machine.boots(), Some(SLOT_A));
        assert_eq!(machine.why(), "good; passed over SLOT-B: it has no tries left");
        assert_eq!(machine.passed(), Some(PassReason::NoTries));
    }
}

#[test]
fn a_try_is_spent_even_on_a_slot_that_cannot_be_started() {
    let mut machine = model(512, GOOD, TRIAL);
    machine.refuses = vec![SLOT_B];
    assert_eq!(machine.boots(), Some(SLOT_A));
    assert_eq!(machine.state(SLOT_B), State { tries: UPDATE_TRIES - 1, ..TRIAL });
    assert_eq!(machine.why(), "good; passed over SLOT-B: the firmware refuses it");
    assert_eq!(machine.passed(), Some(PassReason::Refused));
}

#[test]
fn a_flipped_bit_anywhere_in_a_slot_boots_the_other_slot() {
    for byte in [0, 17, 30, 60, 4095, 4096, 4096 + 1000] {
        let mut machine = model(512, GOOD, State { priority: 2, ..GOOD });
        machine.flip(2 * MIB + byte);
        assert_eq!(machine.boots(), Some(SLOT_A), "byte {byte}");
        assert_eq!(machine.state(SLOT_B).priority, 2);
        let reason = if byte < 4096 { PassReason::Header } else { PassReason::Digest };
        assert_eq!(machine.passed(), Some(reason));
    }
}

#[test]
fn with_secure_boot_only_bounds_are_checked() {
    let mut machine = model(512, GOOD, State::EMPTY);
    machine.verifies = true;
    machine.flip(MIB + 4096 + 1000);
    assert_eq!(machine.boots(), Some(SLOT_A));
}

#[test]
fn a_good_slot_of_a_newer_epoch_makes_older_epochs_refused() {
    let mut machine = model(512, State { priority: 2, ..GOOD }, GOOD).of_epochs(1, 2);
    assert_eq!((machine.boots(), machine.floor), (Some(SLOT_A), 1));
    machine = Model { floor: 2, ..machine };
    assert_eq!((machine.boots(), machine.floor), (Some(SLOT_B), 2));
    assert_eq!(
        machine.why(),
        "good; passed over SLOT-A: its security epoch is 1, below this machine's minimum of 2"
    );
    assert_eq!(machine.passed(), Some(PassReason::EpochTooOld));
}

#[test]
fn only_the_boot_after_a_slots_success_raises_the_floor() {
    let mut machine = model(512, GOOD, TRIAL).of_epochs(1, 5);
    machine.floor = 1;
    assert_eq!((machine.boots(), machine.floor), (Some(SLOT_B), 1));
    let table = mark(machine.label().table(), SLOT_B, Mark::Good).unwrap();
    let writes = machine.label().change_to(&table).unwrap();
    machine.started = None;
    writes.iter().for_each(|write| Machine::write(&mut machine, write).unwrap());
    assert_eq!((machine.boots(), machine.floor), (Some(SLOT_B), 5));
    assert!(
        machine.printed.iter().any(|line| line == "security epochs below 5 are no longer started")
    );
}

#[test]
fn an_unwritable_floor_is_reported_and_the_boot_continues() {
    let mut machine = model(512, GOOD, State::EMPTY).of_epochs(3, 1);
    machine.keeps_floor = false;
    assert_eq!((machine.boots(), machine.floor), (Some(SLOT_A), 0));
    assert_eq!(machine.printed[0], "the minimum security epoch cannot rise to 3: there is no room");
}

#[test]
fn without_secure_boot_the_floor_neither_applies_nor_rises() {
    for floor in [0, 9] {
        let mut machine = model(512, GOOD, State::EMPTY);
        machine.floor = floor;
        assert_eq!((machine.boots(), machine.floor), (Some(SLOT_A), floor));
    }
}

#[test]
fn a_length_beyond_the_slot_is_refused_before_any_read() {
    for length in [0, MIB - HEADER_SIZE + 1, u64::MAX] {
        let mut machine = model(512, GOOD, State::EMPTY);
        machine.verifies = true;
        let header = Header { length, sha256: [0; 32], version: "1".to_string() }.encode().unwrap();
        machine.disk[MIB as usize..][..4096].copy_from_slice(&header);
        assert_eq!(machine.boots(), None);
        assert!(machine.printed[0].contains("there is room for 1044480"), "{:?}", machine.printed);
    }
}

#[test]
fn a_slot_whose_try_cannot_be_counted_is_passed_over() {
    let mut machine = model(512, GOOD, TRIAL);
    machine.power = 0;
    boot(&mut machine);
    assert_eq!(machine.started.as_ref().map(|(booted, _)| booted.slot), Some(SLOT_A));
    assert_eq!(machine.printed[0], "SLOT-B: its try cannot be counted: the power is cut");
    assert_eq!(
        machine.why(),
        "good; passed over SLOT-B: its try cannot be counted: the power is cut"
    );
    assert_eq!(machine.passed(), Some(PassReason::NotCounted));
}

#[test]
fn a_slot_whose_try_the_disk_does_not_keep_is_passed_over() {
    let mut machine = model(512, GOOD, TRIAL);
    machine.keeps = false;
    boot(&mut machine);
    assert_eq!(machine.started.as_ref().map(|(booted, _)| booted.slot), Some(SLOT_A));
    assert_eq!(
        machine.printed[0],
        "SLOT-B: its try cannot be counted: the disk does not keep written data"
    );
}

#[test]
fn a_try_that_cannot_be_written_to_the_table_is_not_made() {
    let mut machine = model(512, GOOD, TRIAL);
    // The disk ends where SLOT-B does, so no backup of the table fits after it.
    machine.geometry = Geometry::new(512, 3 * MIB).unwrap();
    machine.disk.truncate(3 * MIB as usize);
    boot(&mut machine);
    assert_eq!(machine.started.as_ref().map(|(booted, _)| booted.slot), Some(SLOT_A));
    let why = "good; passed over SLOT-B: its try cannot be counted: ";
    assert!(machine.why().starts_with(why), "{}", machine.why());
}

#[test]
fn a_slot_that_does_not_fit_the_memory_is_passed_over() {
    let mut machine = model(512, GOOD, State::EMPTY);
    machine.memory = 1000;
    assert_eq!(machine.boots(), None);
    assert!(
        machine.printed[0].starts_with("SLOT-A: there is no memory for its "),
        "{:?}",
        machine.printed
    );
}

#[test]
fn the_stop_names_the_reason_for_each_slot() {
    let mut machine = model(512, State { tries: 0, ..TRIAL }, State { priority: 1, ..GOOD });
    machine.disk[2 * MIB as usize..][..4096].fill(0);
    let stop = boot(&mut machine).to_string();
    assert_eq!(stop, "no slot can be booted: SLOT-A: it has no tries left; SLOT-B: it is empty");
    machine.disk.fill(0);
    assert!(
        boot(&mut machine)
            .to_string()
            .starts_with("the disk has no partition table: no partition table")
    );
}

#[test]
fn either_damaged_copy_of_the_table_is_repaired() {
    let end = 5 * MIB;
    for (byte, copy) in
        [(512, "primary"), (1024, "primary"), (end - 512, "backup"), (end - 33 * 512, "backup")]
    {
        let mut machine = model(512, GOOD, State::EMPTY);
        machine.flip(byte);
        assert_eq!(machine.boots(), Some(SLOT_A));
        assert!(machine.printed[0].contains(copy), "{:?}", machine.printed);
        assert_eq!(machine.label().health(), Health::Sound);
    }
}

fn any_state() -> impl Strategy<Value = State> {
    (0..=3u8, 0..=3u8, any::<bool>()).prop_map(|(priority, tries, successful)| State {
        priority,
        tries,
        successful,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_best_valid_slot_starts(
        a in any_state(),
        b in any_state(),
        broken: [bool; 2],
    ) {
        let mut machine = model(512, a, b);
        let mut best = None;
        let slots = [(SLOT_A, a, MIB, broken[0]), (SLOT_B, b, 2 * MIB, broken[1])];
        for (name, state, start, broken) in slots {
            let is_better = |best: Option<(_, u8)>| best.is_none_or(|(_, it)| state.priority > it);
            if broken {
                machine.flip(start + 5000);
            } else if state.is_bootable() && is_better(best) {
                best = Some((name, state.priority));
            }
        }
        prop_assert_eq!(machine.boots(), best.map(|(name, _)| name));
    }

    #[test]
    fn a_power_cut_while_booting_costs_one_try_at_most(
        a in any_state(),
        b in any_state(),
        damaged in prop::option::of(prop::sample::select(vec![
            512,
            5 * MIB - 512,
            5 * MIB - 33 * 512,
        ])),
        power in 0..140_000usize,
    ) {
        let mut machine = model(512, a, b);
        if let Some(byte) = damaged {
            machine.flip(byte);
        }
        machine.power = power;
        // The model continues without power, but nothing reaches the disk any more.
        boot(&mut machine);
        for (name, before) in [(SLOT_A, a), (SLOT_B, b)] {
            let after = machine.state(name);
            let spent = State { tries: before.tries.wrapping_sub(1), ..before };
            prop_assert!(after == before || after == spent, "{:?} became {:?}", before, after);
        }
        let (a, b) = (machine.state(SLOT_A), machine.state(SLOT_B));
        prop_assert_eq!(machine.boots().is_some(), a.is_bootable() || b.is_bootable());
        prop_assert_eq!(machine.label().health(), Health::Sound);
    }

    #[test]
    fn the_floor_never_falls_and_nothing_below_it_starts(
        boots in prop::collection::vec(
            (any_state(), any_state(), 0..4u32, 0..4u32, any::<bool>()),
            1..8,
        ),
    ) {
        let mut floor = 0;
        for (a, b, epoch_a, epoch_b, keeps_floor) in boots {
            let machine = Model { floor, keeps_floor, ..model(512, a, b) };
            let mut machine = machine.of_epochs(epoch_a, epoch_b);
            let slot = |name| if name == SLOT_A { (a, epoch_a) } else { (b, epoch_b) };
            let started = machine.boots().map(slot);
            let raises = |(state, _): &(State, u32)| state.successful && keeps_floor;
            let raised = started.filter(raises).map_or(0, |(_, epoch)| epoch);
            prop_assert!(started.is_none_or(|(_, epoch)| epoch >= floor));
            prop_assert_eq!(machine.floor, floor.max(raised));
            floor = machine.floor;
        }
    }

    #[test]
    fn a_disk_of_random_sectors_stops_without_panic(seed: u64, signed: bool) {
        let mut machine = model(512, GOOD, GOOD);
        let mut word = seed | 1;
        for byte in machine.disk.iter_mut().skip(if signed { 1024 } else { 0 }).take(200_000) {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (word >> 56) as u8;
        }
        boot(&mut machine);
    }
}
