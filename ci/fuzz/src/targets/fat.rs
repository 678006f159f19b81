//! The FAT volume of an EFI system partition, as `osbuild inspect` reads it, and as `init` replaces
//! slotboot on it.

use std::cell::RefCell;
use std::sync::LazyLock;

use osbuild_formats::fat::{self, File, Volume};

use crate::patch::{change, changes};
use crate::target::{Memory, Outcome, Target};

const BOOT: &str = "/EFI/BOOT/BOOTX64.EFI";

/// The replacement, of more than one cluster.
const NEW: [u8; 5000] = [7; 5000];

/// See the module. An input is changes to a valid volume. The files can be as large as the volume.
pub const TARGET: Target =
    Target { name: "fat", seeds, run, memory: Memory { base: 40 << 20, per_byte: 0 } };

static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let files =
        [(BOOT, 3000), ("/EFI/osbuild/a longer name than eight.txt", 700), ("/loader.conf", 0)];
    let files = files.map(|(path, size)| File { path: path.to_owned(), bytes: vec![b'x'; size] });
    let volume = Volume { sector_size: 512, size: fat::min_size(512), label: "ESP", id: 1 };
    volume.write(&files).expect("the files fit the volume")
});

thread_local! {
    /// A copy of [`SOUND`] whose changes are undone after each input: copying 33 MiB would take
    /// longer than reading them.
    static VOLUME: RefCell<Vec<u8>> = RefCell::new(SOUND.clone());
}

/// Offsets of the first sector, the first table, and the first clusters, which hold the folders.
fn regions() -> [usize; 4] {
    let number = |at: usize| usize::from(u16::from_le_bytes([SOUND[at], SOUND[at + 1]]));
    let table = number(14) * 512;
    let clusters = table + usize::from(SOUND[16]) * number(36) * 512;
    [0, table, clusters, clusters + (1 << 16)]
}

fn run(input: &[u8]) -> Outcome {
    // The first input makes the valid volume, whose memory does not count.
    allocation_counter::opt_out(|| VOLUME.with(|_| ()));
    VOLUME.with(|volume| {
        let mut volume = volume.borrow_mut();
        let (regions, size) = (regions(), volume.len());
        for (start, bytes) in changes(input, &regions, size) {
            volume[start..start + bytes.len()].copy_from_slice(bytes);
        }
        let read = fat::read(&volume);
        if let Ok(writes) = fat::replace(&volume, BOOT, &NEW) {
            for write in &writes {
                let start = write.offset as usize;
                volume[start..start + write.bytes.len()].copy_from_slice(&write.bytes);
            }
            assert!(
                fat::find(&volume, BOOT).is_ok_and(|found| found.is_some_and(|found| found == NEW))
            );
            for write in &writes {
                let start = write.offset as usize;
                volume[start..start + write.bytes.len()]
                    .copy_from_slice(&SOUND[start..start + write.bytes.len()]);
            }
        }
        for (start, bytes) in changes(input, &regions, size) {
            volume[start..start + bytes.len()].copy_from_slice(&SOUND[start..start + bytes.len()]);
        }
        if let Ok(files) = &read {
            assert!(
                files.iter().map(|file| file.bytes.len()).sum::<usize>() <= size,
                "each cluster is in one file"
            );
            assert!(
                files.iter().all(|file| file.path.starts_with('/') && !file.path.contains('\0'))
            );
        }
        Outcome::of(&read)
    })
}

fn seeds() -> Vec<Vec<u8>> {
    let folder = |at: u16, bytes: &[u8]| change(2, at, bytes);
    vec![
        Vec::new(),
        // Another cluster size, another chain of the root, a folder that contains itself, a name
        // that is not text, and a longer file.
        change(0, 13, &[2]),
        change(1, 8, &3u32.to_le_bytes()),
        folder(32 + 26, &[2, 0]),
        folder(64, &[0xFF; 11]),
        folder(64 + 28, &[0xFF; 4]),
        // A part of a long name, three times.
        folder(0, &[[0x41; 11].as_slice(), &[0x0F], &[0x42; 20]].concat().repeat(3)),
    ]
}
