//! UEFI firmware's file of variables, and the signature lists in variables and in files of their
//! own.

use osbuild_signatures::efi::{Listed, Store, UpdateTime, Variable, read_list, write_list};

use crate::target::{Memory, Outcome, Target};

/// See the module.
pub const TARGET: Target = Target { name: "variables", seeds, run, memory: Memory::per_byte(64) };

/// GUIDs in the headers of a volume and of a store in it (see `osbuild_signatures::efi::Store`).
const VOLUME: [u8; 16] = [
    0x8d, 0x2b, 0xf1, 0xff, 0x96, 0x76, 0x8b, 0x4c, 0xa9, 0x85, 0x27, 0x47, 0x07, 0x5b, 0x4f, 0x50,
];
const STORE: [u8; 16] = [
    0x78, 0x2c, 0xf3, 0xaa, 0x7b, 0x94, 0x9a, 0x43, 0xa1, 0x80, 0x2e, 0x14, 0x4e, 0xc3, 0x77, 0x92,
];
const VOLUME_HEADER: usize = 72;
const STORE_HEADER: usize = 28;

fn run(input: &[u8]) -> Outcome {
    let listed = read_list(input);
    if let Ok(listed) = &listed {
        assert_eq!(read_list(&write_list(listed, Default::default())).as_ref(), Ok(listed));
    }
    let store = Store::read(file(input));
    if let Ok(store) = &store {
        round_trips(store);
    }
    if listed.is_ok() { Outcome::Accepted } else { Outcome::of(&store) }
}

/// A store is read back unchanged.
fn round_trips(store: &Store) {
    let Ok(bytes) = store.write() else { return };
    let again = Store::read(bytes.clone()).expect("our own store can be read");
    assert_eq!(again.write().as_ref(), Ok(&bytes));
    for variable in [Variable::Pk, Variable::Kek, Variable::Db, Variable::Dbx] {
        assert_eq!(again.get(variable), store.get(variable));
    }
}

/// A file with these bytes in place of variables, and room for one more.
fn file(variables: &[u8]) -> Vec<u8> {
    let size = STORE_HEADER + variables.len() + 256;
    let mut file = vec![0; VOLUME_HEADER];
    file[16..32].copy_from_slice(&VOLUME);
    file[40..44].copy_from_slice(b"_FVH");
    file[48..50].copy_from_slice(&(VOLUME_HEADER as u16).to_le_bytes());
    file.extend(STORE);
    file.extend((size as u32).to_le_bytes());
    file.resize(VOLUME_HEADER + STORE_HEADER, 0);
    file.extend(variables);
    file.resize(VOLUME_HEADER + size, 0xFF);
    file
}

fn seeds() -> Vec<Vec<u8>> {
    let list = write_list(&[Listed::Image([7; 32]), Listed::Image([8; 32])], Default::default());
    let mut store = Store::read(file(&[0xFF; 512])).expect("an empty store is valid");
    store.set(Variable::Dbx, UpdateTime { year: 2026, month: 1, day: 1, second: 0 }, &list);
    store.enforce();
    let bytes = store.write().expect("there is room");
    vec![list, bytes[VOLUME_HEADER + STORE_HEADER..].to_vec()]
}
